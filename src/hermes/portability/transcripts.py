"""Imports conversations of other programs: recognises the format of a file, and adds each message once."""

from __future__ import annotations

import itertools
import json
import os
import re
import stat
import time
import zipfile
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import apsw

from hermes.base.errors import DamagedFile, HermesError, NotFound, SettingsError, StorageError
from hermes.base.words import scrub
from hermes.conversations.database import Pages
from hermes.conversations.retrieval import as_imported, as_reported
from hermes.portability import transcript_formats as formats
from hermes.portability.archive import check_limits
from hermes.portability.conversations_import import IMPORTED_AT, BadLine, clean_message, moment_of
from hermes.portability.transcript_formats import items
from hermes.safety.fence import storable, without_private
from hermes.settings.home import project_of
from hermes.storage.images import bare
from hermes.storage.local.database import foreign_program
from hermes.storage.local.repair.salvage import open_unchanged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import IO

    from hermes.conversations.database import SessionDB
    from hermes.portability.transcript_formats import Conversation, Told


HERMES_AGENT = "hermes-agent"
JSONL = "jsonl"
# For each format: how to recognise it by the first lines, or the first item of a document, and how to read it.
_BY_LINE: dict[str, tuple[Any, Any]] = {
    formats.CLAUDE_CODE: (formats.is_claude_code, formats.claude_code),
    formats.CODEX: (formats.is_codex, formats.codex),
}
_BY_ITEM: dict[str, tuple[Any, Any]] = {
    formats.CHATGPT: (formats.is_chatgpt, formats.chatgpt),
    formats.CLAUDE: (formats.is_claude, formats.claude),
    formats.LETTA: (formats.is_letta, formats.letta),
}
FORMATS = (*_BY_LINE, formats.AGENTS_SDK, *_BY_ITEM, HERMES_AGENT, JSONL)
SUFFIXES = (".jsonl", ".json", ".af", ".zip", ".db", ".sqlite", ".sqlite3")
_DATABASE = b"SQLite format 3\x00"
_ZIP = b"PK\x03\x04"
_HEAD = 1 << 18
_LINES = 20
_INSIDE = re.compile(r"(^|/)conversations(-\d+)?\.json$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One transcript file and its format."""

    path: str
    format: str

    def fingerprint(self) -> str:
        """A text that changes whenever the file or its log changes."""
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
    """Every transcript at a path, in a folder, or in the usual places of a program."""
    if os.path.isdir(given):
        return sorted(_below(given, form), key=lambda source: source.path)
    if os.path.exists(given):
        return [Source(path=os.path.abspath(given), format=form or _named(given))]
    if given in _BY_LINE:
        places = formats.usual_places(given)
        if found := [source for place in places if os.path.isdir(place) for source in sources(place, given)]:
            return found
        raise NotFound(
            f"no transcripts of {given} were found in {' and '.join(places)}; name their folder if they are elsewhere"
        )
    check_name(given)
    return []


def check_name(given: str) -> None:
    """Refuses a name that is neither an existing path nor a known program."""
    if not os.path.exists(given) and given not in _BY_LINE:
        raise NotFound(f"there is no file {given}; name a file, a folder, or one of {', '.join(_BY_LINE)}")


def read(source: Source, told: Told, on_bytes: Callable[[int], None] | None = None) -> Iterator[Conversation]:
    """The conversations of one file."""
    if source.format in _BY_LINE:
        yield from _BY_LINE[source.format][1](source.path, told, on_bytes)
    elif source.format == formats.AGENTS_SDK:
        yield from formats.agents_sdk(source.path, told, on_bytes)
    else:
        is_one, conversations = _BY_ITEM[source.format]
        for item in _items(source.path, on_bytes):
            if is_one(item):
                yield from conversations(item)
            else:
                told("an item is not a conversation in this format and is left out")


def recognised(path: str) -> str | None:
    """The name of the file's format; None if it is unknown, a link or a device."""
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
                    "to move a Hermes home, use `hermes export` and `hermes import`"
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
    """Whether this is one JSON document on several lines, so that its first line alone is not JSON."""
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
    """The items of a JSON document, or of the documents named `conversations` in a zip archive."""
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
        raise DamagedFile(f"{path} is not a complete zip archive ({error}); download it again") from error


class _Bounded:
    """Reads at most as many bytes as the archive announced."""

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
            found = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (formats.AGENTS_TABLE,)).fetchall()
        finally:
            connection.close()
    except (apsw.Error, StorageError):
        return None
    return formats.AGENTS_SDK if found else None


_BATCH = 2000  # messages per transaction; others can write in between
_REPORTED = 100
_VARIANTS = 1000


@dataclass(slots=True, kw_only=True)
class Imported:
    """What a run did. `unchanged` files were not opened; `problems` are the first ones found."""

    files: int = 0
    unchanged: int = 0
    sessions: int = 0
    messages: int = 0
    already_there: int = 0
    bad: int = 0
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Mark:
    """How much of a conversation was imported: the number of messages, and a checksum over them."""

    session: str
    taken: int = 0
    check: int = 0


class TranscriptImport:
    """Adds other programs' conversations to a store; what is already there is skipped."""

    def __init__(
        self,
        db: SessionDB,
        *,
        project: str | None = None,
        on_bytes: Callable[[int], None] | None = None,
        by_hook: bool = False,
    ) -> None:
        """With `by_hook`, typed text counts as the person's own; nobody knows who wrote any other file."""
        self._grade = as_reported if by_hook else as_imported
        self._db = db
        self._project = project
        self._on_bytes = on_bytes
        self._done = 0
        self._storing = False  # a failure now is one of the database, which ends the import
        self.result = Imported()

    def take(self, source: Source) -> None:
        """Imports one file if it has changed; reports what cannot be understood and goes on."""
        note, now = f"imported:file:{source.format}:{source.path}", source.fingerprint()
        self.result.files += 1
        if self._db.get_meta(note) == now:
            self.result.unchanged += 1
            self._advance(source.size())
            return
        before = self.result.bad

        def told(text: str) -> None:
            self._problem(f"{os.path.basename(source.path)}: {text}")

        try:
            for conversation in read(source, told, self._advance):
                self._conversation(source, conversation)
        except (OSError, StorageError) as error:
            if self._storing:
                raise
            self._problem(str(error) if isinstance(error, HermesError) else f"{source.path}: {error}")
        if self.result.bad == before:
            self._db.set_meta(note, now)

    def finish(self) -> Imported:
        self._db.sync()
        return self.result

    def _conversation(self, source: Source, conversation: Conversation) -> None:
        base = scrub(f"{source.format}_{conversation.id}")
        messages = _messages(conversation)
        mark, count = self._known(base, messages)
        if mark is None and count and self._is_older_copy(base, conversation):
            self.result.already_there += count
            return
        fields = None
        if mark is None:
            names = [base, *(f"{base}~{number}" for number in range(2, _VARIANTS))]
            mark = _Mark(next(name for name in names if self._db.find_session(name) is None))
            fields = self._fields(source, conversation)
            if mark.session != base:
                fields |= {"parent_session_id": base, "kind": "branch"}
        self.result.already_there += mark.taken
        if count != mark.taken:
            messages = itertools.islice(_messages(conversation), mark.taken, None)
        while batch := list(itertools.islice(messages, _BATCH)):
            mark = self._store(mark, batch, fields)
            fields = None
        title = conversation.late.get("title")
        title = without_private(title) if isinstance(title, str) else None
        session = self._db.find_session(mark.session) if title else None
        if session is not None and session.title is None:
            self._db.rename(session.id, title)

    def _fields(self, source: Source, conversation: Conversation) -> dict[str, Any]:
        given = {"source": source.format, "imported_from": source.path, **conversation.fields}
        given["started_at"] = moment_of(given.get("started_at"))
        fields: dict[str, Any] = {key: scrub(each) for key, each in given.items() if isinstance(each, str) and each}
        fields |= {key: each for key, each in given.items() if isinstance(each, float)}
        if self._project is not None:
            fields["project"] = self._project
        elif "cwd" in fields:
            fields["project"] = project_of(fields["cwd"]) or fields.get("project")  # named as in our own sessions
        if conversation.parent:
            fields["parent_session_id"] = scrub(f"{source.format}_{conversation.parent}")
        return {**fields, "kind": conversation.kind, IMPORTED_AT: time.time()}

    def _known(self, base: str, messages: Iterator[dict[str, Any]]) -> tuple[_Mark | None, int]:
        """The variant with the longest common beginning, and how many messages were read to find it."""
        best, check, count = None, 0, 0
        for mark in sorted(self._variants(base), key=lambda mark: mark.taken):
            for message in itertools.islice(messages, mark.taken - count):
                check = _chained(check, message)
                count += 1
            if (count, check) == (mark.taken, mark.check):
                best = mark
        return best, count

    def _is_older_copy(self, base: str, conversation: Conversation) -> bool:
        """Whether all of it was imported before, as with a copy made when the conversation was shorter."""
        for mark in self._variants(base):
            stored = Pages.of_db(self._db).messages(self._db.get_session(mark.session))
            kept = (_chained(0, bare(message.message)) for message in stored)
            given = (_chained(0, bare(message)) for message in _messages(conversation))
            if all(one == other for one, other in itertools.zip_longest(given, kept) if one is not None):
                return True
        return False

    def _variants(self, base: str) -> Iterator[_Mark]:
        for number in range(1, _VARIANTS):
            name = f"{base}~{number}" if number > 1 else base
            found = self._db.get_meta(f"imported:conversation:{name}")
            if not isinstance(found, str):
                return
            taken, _, check = found.partition(":")
            yield _Mark(name, int(taken), int(check))

    def _store(self, mark: _Mark, batch: list[dict[str, Any]], fields: dict[str, Any] | None) -> _Mark:
        """Stores messages, and first the session if `fields` are given; returns the new mark."""
        check, kept = mark.check, []
        for number, message in enumerate(batch, mark.taken + 1):
            check = _chained(check, message)
            try:
                # Plain text is always valid; check anything else before the transaction.
                plain = isinstance(message.get("content"), str) and "tool_calls" not in message
                kept.append(message if plain else clean_message(message))
            except BadLine as bad:
                self._problem(f"{mark.session}: message {number}: {bad}")
        reached = _Mark(mark.session, mark.taken + len(batch), check)
        if fields is not None and not kept:
            return mark
        self._storing = True
        with self._db.bulk():
            if fields is not None:
                self._create(mark.session, fields, kept)
            self.result.messages += len(self._db.append_many(mark.session, list(map(self._grade, kept))))
            self._db.set_meta(f"imported:conversation:{mark.session}", f"{reached.taken}:{reached.check}")
        self._storing = False
        return reached

    def _create(self, session: str, fields: dict[str, Any], messages: list[dict[str, Any]]) -> None:
        parent = fields.get("parent_session_id")
        if parent is not None and self._db.find_session(parent) is None:
            fields |= {"missing_parent": parent, "parent_session_id": None, "kind": None}
        times = (message.get("timestamp") for message in messages)
        fields.setdefault("started_at", next((at for at in times if isinstance(at, float)), None))
        self._db.create_session(session_id=session, **fields)
        self.result.sessions += 1

    def _advance(self, count: int) -> None:
        self._done += count
        if self._on_bytes is not None:
            self._on_bytes(self._done)

    def _problem(self, text: str) -> None:
        self.result.bad += 1
        if len(self.result.problems) < _REPORTED:
            self.result.problems.append(text)


def _messages(conversation: Conversation) -> Iterator[dict[str, Any]]:
    """The messages without private parts."""
    for message in conversation.messages():
        yield message if (kept := storable(message)) is message else dict(kept)


def _chained(check: int, message: Mapping[str, Any]) -> int:
    content = message.get("content")
    text = content if isinstance(content, str) else repr(content)
    calls = message.get("tool_calls")
    if calls:
        text = f"{text}{calls!r}"
    return zlib.crc32(f"{message['role']}\x1f{text}".encode("utf-8", "surrogatepass"), check)
