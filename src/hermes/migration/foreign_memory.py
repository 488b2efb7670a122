"""Curated memory of other programs: notes of Claude Code and Codex, exports of mem0 and OpenMemory, Letta's blocks."""

from __future__ import annotations

import gzip
import io
import json
import os
import zipfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes.migration.markdown_entries import entries
from hermes.migration.openclaw_source import files_below, read_bytes, read_text
from hermes.migration.transcripts import letta
from hermes.vocabulary.errors import DamagedFile, NotFound, SettingsError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

CLAUDE_CODE, CODEX, MEM0, OPENMEMORY, LETTA, MARKDOWN = (
    "claude-code",
    "codex",
    "mem0",
    "openmemory",
    "letta",
    "markdown",
)
FORMATS = (CLAUDE_CODE, CODEX, MEM0, OPENMEMORY, LETTA, MARKDOWN)
_LARGEST = 64 << 20
_ABOUT_THE_PERSON = ("human", "user", "profile", "persona_user")
_CODEX_NOTES = ("AGENTS.md", os.path.join("memories", "MEMORY.md"), os.path.join("memories", "memory_summary.md"))


@dataclass(slots=True, kw_only=True)
class ForeignMemory:
    """Entries by target, and what could not be read."""

    format: str
    origin: str
    entries: dict[str, list[str]] = field(default_factory=lambda: {"memory": [], "user": []})
    files: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def take(self, path: str, target: str) -> None:
        try:
            self.entries[target] += entries(read_text(path))
            self.files.append(path)
        except FileNotFoundError:
            return
        except StorageError as error:
            self.warnings.append(str(error))


def read_memory(given: str, form: str | None = None, target: str | None = None) -> ForeignMemory:
    """What stands at a path, or in the usual place of a program that was named."""
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
    home = os.path.expanduser("~")
    places = {
        CLAUDE_CODE: os.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(home, ".claude"),
        CODEX: os.environ.get("CODEX_HOME") or os.path.join(home, ".codex"),
    }
    if name in places and os.path.isdir(places[name]):
        return places[name]
    looked = f" in {places[name]}" if name in places else f"; name a file, a folder, or one of {', '.join(places)}"
    raise NotFound(f"there is nothing of {name}{looked}")


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
    raise SettingsError(f"{path} is in none of the formats that can be told apart; say which with --format")


def _claude_code(found: ForeignMemory, path: str, target: str | None) -> None:
    """A person's own CLAUDE.md, and the notes the program keeps for each project."""
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
    for item in _items(path):
        if form == LETTA or letta.recognises(item):
            for label, text in letta.blocks(item) if isinstance(item, dict) else ():
                chosen = target or ("user" if label.casefold() in _ABOUT_THE_PERSON else "memory")
                found.entries[chosen] += entries(text)
            continue
        for record in _records(item):
            said = record.get("memory") or record.get("content") or record.get("text") or record.get("data")
            gone = record.get("state") in ("deleted", "archived") or record.get("is_deleted")
            if isinstance(said, str) and said.strip() and not gone:
                found.entries[target or "memory"].append(" ".join(said.split()))
    found.files.append(path)


def _records(item: Any) -> Iterator[dict[str, Any]]:
    """The memories in a document, under whichever of the known names they stand."""
    if isinstance(item, list):
        for each in item:
            yield from _records(each)
    elif isinstance(item, dict):
        inner = next((item[name] for name in ("results", "memories", "items", "data") if name in item), None)
        if isinstance(inner, list | dict):
            yield from _records(inner)
        else:
            yield item


def _items(path: str) -> Iterator[Any]:
    for name, data in _texts(path):
        try:
            yield json.loads(data)
        except (ValueError, RecursionError):
            lines = data.splitlines()
            try:
                yield [json.loads(line) for line in lines if line.strip()]
            except (ValueError, RecursionError) as error:
                raise DamagedFile(f"{name} is neither JSON nor JSON lines ({str(error)[:80]})") from error


def _texts(path: str) -> Iterator[tuple[str, bytes]]:
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                names = [info for info in archive.infolist() if info.filename.endswith((".json", ".jsonl", ".gz"))]
                chosen = [info for info in names if "memor" in info.filename][:1] or names[:1]
                for info in chosen:
                    if info.file_size > _LARGEST:
                        raise DamagedFile(f"{info.filename} in {path} is larger than any export of memories")
                    with archive.open(info) as file:
                        yield info.filename, _unpacked(info.filename, file.read(_LARGEST + 1))
            return
        yield path, _unpacked(path, read_bytes(path, _LARGEST))
    except (zipfile.BadZipFile, EOFError, RuntimeError, NotImplementedError, gzip.BadGzipFile) as error:
        raise DamagedFile(f"{path} is not a whole archive ({error}); export it again") from error


def _unpacked(name: str, data: bytes) -> bytes:
    if not name.endswith(".gz"):
        return data
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        text = file.read(_LARGEST + 1)
    if len(text) > _LARGEST:
        raise DamagedFile(f"{name} expands to more than any export of memories; it is not read")
    return text
