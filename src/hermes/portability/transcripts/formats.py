"""Recognises what a file is: whose transcripts, and how to read them."""

from __future__ import annotations

import json
import os
import re
import stat
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import apsw

from hermes.base.errors import DamagedFile, NotFound, SettingsError, StorageError
from hermes.portability.archive import check_limits
from hermes.portability.transcripts import chat_exports as exports
from hermes.portability.transcripts import coding_agents as agents
from hermes.portability.transcripts.conversation import items
from hermes.storage.local.database import foreign_program
from hermes.storage.local.repair.salvage import open_unchanged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import IO

    from hermes.portability.transcripts.conversation import Conversation, Told

HERMES_AGENT = "hermes-agent"
JSONL = "jsonl"
# How to recognise a file by its first lines, or a document by its first item, and how to read it.
_BY_LINE: dict[str, tuple[Any, Any]] = {
    agents.CLAUDE_CODE: (agents.is_claude_code, agents.claude_code),
    agents.CODEX: (agents.is_codex, agents.codex),
}
_BY_ITEM: dict[str, tuple[Any, Any]] = {
    exports.CHATGPT: (exports.is_chatgpt, exports.chatgpt),
    exports.CLAUDE: (exports.is_claude, exports.claude),
    exports.LETTA: (exports.is_letta, exports.letta),
}
FORMATS = (*_BY_LINE, agents.AGENTS_SDK, *_BY_ITEM, HERMES_AGENT, JSONL)
SUFFIXES = (".jsonl", ".json", ".af", ".zip", ".db", ".sqlite", ".sqlite3")
_DATABASE = b"SQLite format 3\x00"
_ZIP = b"PK\x03\x04"
_HEAD = 1 << 18
_LINES = 20
_INSIDE = re.compile(r"(^|/)conversations(-\d+)?\.json$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    path: str
    format: str

    def fingerprint(self) -> str:
        """Changes when the file does, its log included."""
        parts = []
        for path in (self.path, f"{self.path}-wal"):
            try:
                status = os.stat(path)
            except OSError:
                continue
            parts.append(f"{status.st_size}:{status.st_mtime_ns}:{status.st_ino}")
        return "/".join(parts)

    def size(self) -> int:
        return os.stat(self.path).st_size


def sources(given: str, form: str | None = None) -> list[Source]:
    """Every transcript at a path, below a folder, or in the usual places of a program that was named."""
    if os.path.isdir(given):
        return sorted(_below(given, form), key=lambda source: source.path)
    if os.path.exists(given):
        return [Source(path=os.path.abspath(given), format=form or _named(given))]
    if given in _BY_LINE:
        places = agents.usual_places(given)
        if found := [source for place in places if os.path.isdir(place) for source in sources(place, given)]:
            return found
        raise NotFound(
            f"there are no transcripts of {given} in {' and '.join(places)}; give their folder if they are elsewhere"
        )
    check_name(given)
    return []


def check_name(given: str) -> None:
    """Refuses what is neither there nor a program, whose transcripts may be yet to come."""
    if not os.path.exists(given) and given not in _BY_LINE:
        raise NotFound(f"there is no file {given}; name a file, a folder, or one of {', '.join(_BY_LINE)}")


def read(source: Source, told: Told, on_bytes: Callable[[int], None] | None = None) -> Iterator[Conversation]:
    """The conversations of one file."""
    if source.format in _BY_LINE:
        yield from _BY_LINE[source.format][1](source.path, told, on_bytes)
    elif source.format == agents.AGENTS_SDK:
        yield from agents.agents_sdk(source.path, told, on_bytes)
    else:
        is_one, conversations = _BY_ITEM[source.format]
        for item in _items(source.path, on_bytes):
            if is_one(item):
                yield from conversations(item)
            else:
                told("an item is not a conversation in this format and is left out")


def recognised(path: str) -> str | None:
    """The name of the file's format; None when it is nobody's we know. A link or a device is nobody's."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return None
        with open(path, "rb") as file:
            head = file.read(_HEAD)
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from error
    if head.startswith(_DATABASE):
        return _database(path)
    try:
        if head.startswith(_ZIP) or path.endswith((".af", ".json")) or _one_document(head):
            item = next(_items(path, None), None)
            return next((name for name, (is_one, _) in _BY_ITEM.items() if is_one(item)), None) or _by_line(head)
    except DamagedFile:
        return _by_line(head)
    return _by_line(head)


def _named(path: str) -> str:
    real = os.path.realpath(path)
    found = recognised(real)
    if found is None:
        with open(real, "rb") as file:
            if file.read(len(_DATABASE)) == _DATABASE:
                raise StorageError(
                    f"{path} is a database, but neither one of hermes-agent nor a session store of the Agents SDK; "
                    "a Hermes home is moved with `hermes export` and `hermes import`"
                )
        raise SettingsError(f"{path} is in no format Hermes recognises; name it with --format ({', '.join(FORMATS)})")
    return found


def _below(folder: str, form: str | None) -> Iterator[Source]:
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in names:
            path = os.path.join(place, name)
            if name.endswith(SUFFIXES) and not os.path.islink(path):
                found = recognised(path)
                if found is not None and form in (None, found):
                    yield Source(path=os.path.abspath(path), format=found)


def _one_document(head: bytes) -> bool:
    """Whether the first line alone is no JSON, as in a document that is written over many lines."""
    first = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if first[:1] == b"[":
        return True
    try:
        json.loads(first.split(b"\n", 1)[0])
    except (ValueError, RecursionError):
        return first[:1] == b"{"
    return False


def _by_line(head: bytes) -> str | None:
    records = []
    for line in head.removeprefix(b"\xef\xbb\xbf").split(b"\n")[:_LINES]:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            records.append(record)
    for name, (is_one, _) in _BY_LINE.items():
        if is_one(records):
            return name
    wanted = ("role", "messages", "segments")
    if any(any(key in record for key in wanted) or record.get("type") in ("session", "message") for record in records):
        return JSONL
    return None


def _items(path: str, on_bytes: Callable[[int], None] | None) -> Iterator[Any]:
    """The items of a JSON document, or of the documents named `conversations` inside a zip."""
    if not zipfile.is_zipfile(path):
        with open(path, "rb") as file:
            yield from items(file, path, on_bytes)
        return
    try:
        with zipfile.ZipFile(path) as archive:
            found = [info for info in archive.infolist() if _INSIDE.search(info.filename)]
            check_limits(path, [info.file_size for info in found], os.stat(path).st_size)
            for info in found:
                if info.flag_bits & 1:
                    raise DamagedFile(f"{info.filename} in {path} is encrypted; unpack it first")
                with archive.open(info) as file:
                    yield from items(_Bounded(file, info.file_size), f"{path}:{info.filename}", None)
                if on_bytes is not None:
                    on_bytes(info.compress_size)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise DamagedFile(f"{path} is not a whole zip archive ({error}); download it again") from error


class _Bounded:
    """Never more bytes than the archive announced, whatever they expand to."""

    def __init__(self, file: IO[bytes], most: int) -> None:
        self._file = file
        self._left = most

    def read(self, count: int, /) -> bytes:
        data = self._file.read(min(count, self._left))
        self._left -= len(data)
        return data


def _database(path: str) -> str | None:
    try:
        if foreign_program(path) == HERMES_AGENT:
            return HERMES_AGENT
        connection = open_unchanged(path)
        if connection is None:
            return None
        try:
            found = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (agents.AGENTS_TABLE,)).fetchall()
        finally:
            connection.close()
    except (apsw.Error, StorageError):
        return None
    return agents.AGENTS_SDK if found else None
