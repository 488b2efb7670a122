"""`hermes memory import`: turns notes of other programs into memory entries, with a preview."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

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

_MARKDOWN = MarkdownIt("commonmark").enable("table").disable(["code", "lheading", "reference"])
_BLOCKS = ("fence", "table", "html_block")  # kept as they are written
_ROUND_BULLET = re.compile(r"^(\s*)• ", re.MULTILINE)
_BOX = re.compile(r"\[[ xX]\]\s+")  # of a task
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
# A heading such as "MEMORY.md - long-term memory" says nothing about the entries below it.
_FILE_NAMES = re.compile(r"\b(MEMORY|USER|SOUL|AGENTS|TOOLS|IDENTITY|CLAUDE|GEMINI)\.md\b", re.IGNORECASE)
_SEPARATOR = re.compile(r"^\s*§\s*$", re.MULTILINE)  # between entries in memory files of hermes-agent and Hermes


def entries(text: str) -> list[str]:
    """The entries of a Markdown text in order, without duplicates: one per point, paragraph, table or code block.

    Each begins with the headings above it, without which many points say too little.
    """
    body = split_frontmatter(text.replace("\r\n", "\n")).body
    lines = _ROUND_BULLET.sub(r"\1- ", _SEPARATOR.sub("", _COMMENT.sub("", body))).split("\n")
    headings: list[tuple[int, str]] = []
    found: list[tuple[str, str]] = []  # the headings above an entry, and what it says
    for node in _leaves(SyntaxTreeNode(_MARKDOWN.parse("\n".join(lines)))):
        above = " > ".join(text for _, text in headings)
        if node.type == "heading":
            headings = [each for each in headings if each[0] < int(node.tag[1:])]
            if (said := _said(node).strip("*_ ")) and not _FILE_NAMES.search(said):
                headings.append((int(node.tag[1:]), said))
        elif node.type == "paragraph":
            found.append((above, _said(node)))
        elif node.type in _BLOCKS and node.map is not None:
            block = "\n".join(
                line.strip() if node.type == "table" else line for line in lines[slice(*node.map)]
            ).strip()
            if node.type == "fence" and not block[len(node.markup) :].endswith(node.markup):
                block += f"\n{node.markup}"  # never closed
            introduced = bool(found) and found[-1][0] == above and found[-1][1].endswith(":")
            found.append((above, f"{found.pop()[1]}\n{block}" if introduced else f"\n{block}"))
    whole = (f"{above}:{'' if said.startswith(chr(10)) else ' '}{said}" if above else said for above, said in found)
    return list(dict.fromkeys(entry for each in whole if (entry := each.strip("\n")).strip()))


def _leaves(node: SyntaxTreeNode) -> Iterator[SyntaxTreeNode]:
    """The headings, paragraphs and blocks, also those in lists and quotes."""
    for child in node.children:
        if child.type in ("heading", "paragraph", *_BLOCKS):
            yield child
        else:
            yield from _leaves(child)


def _said(node: SyntaxTreeNode) -> str:
    """The text of a heading or a paragraph as it is written, on one line."""
    return _BOX.sub(
        "", " ".join(line.strip() for child in node.children for line in child.content.split("\n")), count=1
    )


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
