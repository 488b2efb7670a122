"""`hermes memory import`: turns notes of other programs into memory entries, with a preview."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes.base.errors import DamagedFile, NotFound, SettingsError, StorageError
from hermes.base.frontmatter import split_frontmatter
from hermes.portability.archive import files_below, read_text
from hermes.portability.plan import Options, Planner, new_report
from hermes.portability.transcripts import home_of_program, is_letta, json_items, letta_blocks
from hermes.settings.config import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes.portability.plan import Report
    from hermes.settings.home import Home

_HEADING = re.compile(r" {0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
# A point of a list, perhaps numbered, perhaps with the box of a task; the group is its text.
_BULLET = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?(.*)$")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_TABLE = re.compile(r"\s*\|.*\|\s*$")
_RULE = re.compile(r"\s*([-*_=])(\s*\1){2,}\s*$")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
# A heading such as "MEMORY.md - long-term memory" says nothing about the entries below it.
_FILE_NAMES = re.compile(r"\b(MEMORY|USER|SOUL|AGENTS|TOOLS|IDENTITY|CLAUDE|GEMINI)\.md\b", re.IGNORECASE)
_SEPARATOR = "§"  # between entries in memory files of hermes-agent and Hermes


@dataclass(slots=True)
class _Parser:
    """Collects lines into entries, each with the headings above it, without which many points say too little."""

    headings: list[tuple[int, str]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    block: list[str] = field(default_factory=list)  # lines of code or of a table

    def done(self) -> Iterator[str]:
        """Yields the lines collected so far as one entry."""
        said = " ".join(self.words)
        block = "\n".join(self.block)
        self.words, self.block = [], []
        if not said and not block:
            return
        prefix = " > ".join(text for _, text in self.headings)
        first = f"{prefix}: {said}" if prefix and said else said or (f"{prefix}:" if prefix else "")
        yield "\n".join(filter(None, (first, block)))

    def heading(self, level: int, text: str) -> None:
        while self.headings and self.headings[-1][0] >= level:
            self.headings.pop()
        if text and not _FILE_NAMES.search(text):
            self.headings.append((level, _plain(text)))


def entries(text: str) -> list[str]:
    """The entries of a Markdown text in order, without duplicates: one per point, paragraph, table or code block."""
    found = dict.fromkeys(_entries(text))
    return [entry for entry in found if entry.strip()]


def _entries(text: str) -> Iterator[str]:
    parser = _Parser()
    fence = ""
    body = split_frontmatter(text.replace("\r\n", "\n")).body
    for line in _COMMENT.sub("", body).split("\n"):
        if fence:
            parser.block.append(line)
            if line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
                yield from parser.done()
            continue
        opening = _FENCE.match(line)
        if opening:
            if parser.block:
                yield from parser.done()
            fence = opening[1]
            parser.block = [line.strip()]
        elif _TABLE.match(line):
            parser.block.append(line.strip())
        else:
            yield from _prose(parser, line)
    if fence:
        parser.block.append(fence)
    yield from parser.done()


def _prose(parser: _Parser, line: str) -> Iterator[str]:
    if parser.block:
        yield from parser.done()
    if heading := _HEADING.match(line):
        yield from parser.done()
        parser.heading(len(heading[1]), heading[2])
    elif not line.strip() or line.strip() == _SEPARATOR:
        if not (parser.words and parser.words[-1].endswith(":")):  # a line that introduces the block below it
            yield from parser.done()
    elif _RULE.match(line):
        yield from parser.done()
    elif bullet := _BULLET.match(line):
        yield from parser.done()
        parser.words = [bullet[1].strip()]
    else:
        parser.words.append(line.strip().lstrip(">").strip())


def _plain(heading: str) -> str:
    return heading.strip().strip("*_").strip()


FORMATS = ("claude-code", "codex", "mem0", "openmemory", "letta", "markdown")
CLAUDE_CODE, CODEX, MEM0, OPENMEMORY, LETTA, MARKDOWN = FORMATS
_MEMORIES = re.compile(r"memor[^/]*\.(json|jsonl|gz)$")
_ANY_JSON = re.compile(r"\.(json|jsonl|gz)$")
_LARGEST = 64 << 20  # more than any export of memories has
_ABOUT_THE_PERSON = ("human", "user", "profile", "persona_user")  # labels of Letta's blocks that become user entries
_CODEX_NOTES = ("AGENTS.md", os.path.join("memories", "MEMORY.md"), os.path.join("memories", "memory_summary.md"))


@dataclass(slots=True, kw_only=True)
class ForeignMemory:
    """Entries by target from the notes of another program, and warnings about files that could not be read."""

    format: str
    origin: str
    entries: dict[str, list[str]] = field(default_factory=lambda: {"memory": [], "user": []})
    files: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def take(self, path: str, target: str) -> None:
        """Adds the entries of a Markdown file; a missing file is ignored, an unreadable one adds a warning."""
        try:
            self.entries[target] += entries(read_text(path))
            self.files.append(path)
        except FileNotFoundError:
            return
        except StorageError as error:
            self.warnings.append(str(error))


def read_memory(given: str, form: str | None = None, target: str | None = None) -> ForeignMemory:
    """Reads the notes at a path or, if there is no such path, in the usual place of the program of that name."""
    path = os.path.abspath(os.path.expanduser(given))
    if not os.path.exists(path):
        path = _usual_place(given)
        form = form or given
    form = form or _recognised(path)
    found = ForeignMemory(format=form, origin=path)
    if form == CLAUDE_CODE:
        _claude_code(found, path, target)
    elif form == CODEX:
        for name in _CODEX_NOTES:
            found.take(os.path.join(path, name) if os.path.isdir(path) else path, target or "memory")
            if not os.path.isdir(path):
                break
    elif form == MARKDOWN:
        _markdown(found, path, target)
    else:
        _documents(found, path, form, target)
    return found


def _usual_place(name: str) -> str:
    programs = (CLAUDE_CODE, CODEX)
    place = home_of_program(name) if name in programs else ""
    if os.path.isdir(place):
        return place
    looked = f" in {place}" if place else f"; name a file, a folder, or one of {', '.join(programs)}"
    raise NotFound(f"no notes of {name} were found{looked}")


def _recognised(path: str) -> str:
    if os.path.isdir(path):
        if os.path.isfile(os.path.join(path, "CLAUDE.md")) or os.path.isdir(os.path.join(path, "projects")):
            return CLAUDE_CODE
        if any(os.path.isfile(os.path.join(path, name)) for name in _CODEX_NOTES):
            return CODEX
        return MARKDOWN
    if path.endswith(".md"):
        return MARKDOWN
    if path.endswith((".zip", ".gz")):
        return OPENMEMORY
    if path.endswith(".af"):
        return LETTA
    if path.endswith((".json", ".jsonl")):
        return MEM0
    raise SettingsError(f"{path} is in no format Hermes recognises; name it with --format")


def _claude_code(found: ForeignMemory, path: str, target: str | None) -> None:
    """The person's own CLAUDE.md, and Claude Code's notes for each project."""
    if not os.path.isdir(path):
        found.take(path, target or "memory")
        return
    found.take(os.path.join(path, "CLAUDE.md"), target or "user")
    projects = os.path.join(path, "projects")
    for name in sorted(os.listdir(projects)) if os.path.isdir(projects) else ():
        notes = os.path.join(projects, name, "memory")
        for _, full in files_below(notes) if os.path.isdir(notes) and not os.path.islink(notes) else ():
            if full.endswith(".md"):
                found.take(full, target or "memory")


def _markdown(found: ForeignMemory, path: str, target: str | None) -> None:
    files = [full for _, full in files_below(path) if full.endswith(".md")] if os.path.isdir(path) else [path]
    for file in files:
        name = os.path.basename(file).upper()
        found.take(file, target or ("user" if name == "USER.MD" else "memory"))


def _documents(found: ForeignMemory, path: str, form: str, target: str | None) -> None:
    try:
        # In a zip, files named after memories are the export itself; only without them, every JSON file is tried.
        found_in = (list(json_items(path, inside=names, most=_LARGEST)) for names in (_MEMORIES, _ANY_JSON))
        items = next(filter(None, found_in), [])
    except (OSError, EOFError) as error:
        raise DamagedFile(f"{path} cannot be read ({error}); export it again") from error
    if form == LETTA or (items and is_letta(items[0])):
        for item in items:
            for label, text in letta_blocks(item) if isinstance(item, dict) else ():
                chosen = target or ("user" if label.casefold() in _ABOUT_THE_PERSON else "memory")
                found.entries[chosen] += entries(text)
    else:
        for record in _records(items):
            said = record.get("memory") or record.get("content") or record.get("text") or record.get("data")
            gone = record.get("state") in ("deleted", "archived") or record.get("is_deleted")
            if isinstance(said, str) and said.strip() and not gone:
                found.entries[target or "memory"].append(" ".join(said.split()))
    found.files.append(path)


def _records(item: Any) -> Iterator[dict[str, Any]]:
    """The memories in a document, under any of the known names."""
    if isinstance(item, list):
        for each in item:
            yield from _records(each)
    elif isinstance(item, dict):
        inner = next((item[name] for name in ("results", "memories", "items", "data") if name in item), None)
        if isinstance(inner, list | dict):
            yield from _records(inner)
        else:
            yield item


def plan_memory(home: Home, given: str, form: str | None, target: str | None, project: str = "") -> Report:
    """The preview of an import of another program's notes, into the notes of a project when one is named."""
    found = read_memory(given, form, "memory" if project else target)
    choices = Options(backup=False)
    report = new_report(home, "memory", found.origin, choices, format=found.format, files=found.files)
    report.warnings = found.warnings
    planner = Planner(home, report, load_settings(home))
    for each, entries in found.entries.items():
        if entries:
            chosen = "project" if project else each
            report.items.append(planner.memory(chosen, chosen, found.origin, entries, project=project))
    return report
