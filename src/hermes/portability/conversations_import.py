"""Imports conversations from our own and OpenAI-format JSONL, each message at most once.

Three kinds of lines are understood, in any mixture: `{"type": "session" | "message", …}` as the export writes them, a
whole conversation `{"messages": […]}`, and single messages `{"role": …, "content": …}`. A session that already exists
is compared message by message: equal messages are skipped, later ones are added, and a difference is reported instead
of resolved by a guess. So an import can be repeated, and one that was interrupted can be completed.

Conversations of other programs (`TranscriptImport`) grow between two imports and may be rewritten. For each, the store
notes how many messages it has and a checksum over them, so that a second import adds only the new ones; if the earlier
messages have changed, the new version becomes a branch.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import time
import zlib
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes.base.errors import HermesError, StorageError
from hermes.base.text import change_texts
from hermes.base.words import scrub
from hermes.conversations.context import COPY, WRITTEN
from hermes.conversations.database import Pages
from hermes.conversations.retrieval import as_imported, as_reported
from hermes.portability import transcripts
from hermes.portability.transcripts import LATEST, moment_of, numbered_lines, read
from hermes.safety.fence import storable, without_private
from hermes.settings.home import project_of
from hermes.storage.images import bare
from hermes.storage.records import COUNTERS, KINDS, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import BinaryIO

    from hermes.conversations.database import SessionDB
    from hermes.portability.transcripts import Conversation, Source
    from hermes.storage.records import StoredMessage

    Renumbered = Callable[[Mapping[str, Any], Callable[[int, int], list[tuple[int, int]]]], dict[str, Any]]

_LARGEST = 1 << 40  # above any real count
_MOST_PLACES = 1_000_000  # messages in a context; a file could claim more to fill the memory


def rightly_noted(fields: dict[str, Any]) -> dict[str, Any]:
    """Drops fields whose names are ours but whose values do not have the shape in which we write them.

    Other programs use the same names for other things, and code that reads these fields trusts their shape.
    """
    return {name: given for name, given in fields.items() if name not in _SHAPES or _SHAPES[name](given)}


def _is_count(given: Any) -> bool:
    return type(given) is int and 0 <= given < _LARGEST


def _has(given: Any, texts: tuple[str, ...], counts: tuple[str, ...]) -> bool:
    return (
        isinstance(given, dict)
        and all(isinstance(given.get(name), str) for name in texts)
        and all(_is_count(given.get(name)) for name in counts)
    )


def _are(given: Any, shape: Callable[[Any], bool]) -> bool:
    return isinstance(given, list) and bool(given) and all(map(shape, given))


def _is_range(given: Any) -> bool:
    return isinstance(given, list) and len(given) == 2 and all(map(_is_count, given))  # noqa: PLR2004 - first and last


_SHAPES: dict[str, Callable[[Any], bool]] = {
    "additions": lambda given: _are(
        given,
        lambda each: (
            _has(each, ("source",), ("characters",))
            and (each["source"] != "summary" or _has(each, ("by", "why"), ("messages",)))
        ),
    ),
    "announced": lambda given: isinstance(given, dict) and all(map(_is_count, given.values())),
    "api_content": lambda given: isinstance(given, str),
    "cache": lambda given: isinstance(given, dict) and isinstance(given.get("share"), int | float | None),
    "context_order": lambda given: (
        _are(given, _is_range) and sum(max(last - first, 0) + 1 for first, last in given) <= _MOST_PLACES
    ),
    "copy_of": _is_count,
    "outside": lambda given: isinstance(given, str) and bool(given),  # a file cannot claim that a text is our own
    "prompt_sections": lambda given: _are(given, lambda each: _has(each, ("name",), ("characters", "tokens"))),
    "replaced_prompt": lambda given: isinstance(given, str),
    # Other programs record more here; that is kept.
    "usage": lambda given: isinstance(given, dict) and _is_count(given.get("input_tokens", 0)),
}


# Columns of a hermes-agent export that describe the row, not the message.
_BOOKKEEPING = frozenset(("id", "session_id", "active", "compacted", "observed"))
# Names under which programs record when a message was said or a conversation began, in order of preference.
_SAID_AT = ("timestamp", "created_at", "create_time", "created", "date", "time")
_BEGUN_AT = ("started_at", *_SAID_AT)
_TEXTS = ("model", "project", "cwd", "end_reason")


class BadLine(Exception):
    """A line that cannot be imported; the message gives the reason."""


def clean_message(message: Any) -> dict[str, Any]:
    """The message as it will be stored; raises BadLine if it is not a message."""
    if not isinstance(message, dict):
        raise BadLine(f"a message is a {type(message).__name__}, not a JSON object")
    clean = dict(storable(rightly_noted(message)))
    if "session_id" in clean:  # only a row of hermes-agent has it
        clean = {key: value for key, value in clean.items() if key not in _BOOKKEEPING and value is not None}
        clean.setdefault("content", message.get("content"))
        clean["tool_calls"] = _opened(clean.get("tool_calls"))
        if clean["tool_calls"] is None:
            del clean["tool_calls"]
    at = said_at(clean, _SAID_AT)
    if at is not None:
        clean["timestamp"] = at
    if not isinstance(clean.get("tool_calls"), list | None):
        raise BadLine(f"its tool_calls are a {type(clean['tool_calls']).__name__}, not a list")
    try:
        encode(1, clean, 0.0, 0)  # refuse now what storing would refuse in the middle of a transaction
    except (TypeError, ValueError, RecursionError) as error:
        raise BadLine(str(error)) from error
    return clean


def begun_at(record: dict[str, Any]) -> float | None:
    """When a conversation began, if its record says so; programs use different names for this field."""
    return said_at(record, _BEGUN_AT)


def said_at(record: dict[str, Any], names: tuple[str, ...]) -> float | None:
    """Seconds since 1970 from the first of the named fields that holds a time."""
    return next((at for name in names if (at := moment_of(record.get(name))) is not None), None)


def session_fields(record: dict[str, Any], source: str) -> dict[str, Any]:
    """Arguments for `create_session`; fields without a column are kept as details."""
    name = record.get("id")
    if not isinstance(name, str) or not name.strip():
        raise BadLine("its session has no id")
    details = record.get("details") if isinstance(record.get("details"), dict) else {}
    parent = record.get("parent_session_id")
    kind = record.get("kind")
    fields: dict[str, Any] = {
        **{key: value for key, value in rightly_noted(change_texts(details, scrub)).items() if key not in _ARGUMENTS},
        "session_id": scrub(name),
        "source": scrub(record["source"]) if isinstance(record.get("source"), str) and record["source"] else source,
        "title": scrub(record["title"]) if isinstance(record.get("title"), str) else None,
        "started_at": begun_at(record),
        "parent_session_id": scrub(parent) if isinstance(parent, str) and parent else None,
        "kind": kind if kind in KINDS and parent else None,
        "ended_at": moment_of(record.get("ended_at")),
        "archived": 1 if record.get("archived") in (1, True) else None,
    }
    for key in (*_TEXTS, "system_prompt"):
        if isinstance(record.get(key), str):
            fields[key] = scrub(record[key])
    for key in COUNTERS:
        if type(record.get(key)) in (int, float) and abs(record[key]) < LATEST:
            fields[key] = record[key]
    return fields


def _opened(calls: Any) -> Any:
    if not isinstance(calls, str):
        return calls
    try:
        return json.loads(calls)
    except ValueError:
        return calls


_ARGUMENTS = frozenset(("session_id", "source", "title", "started_at", "parent_session_id", "kind"))


class _Ids:
    """Maps ids in the file to the new ids, and updates the pointers in messages.

    Two arrays of integers, not a dict: an export may hold millions of ids. They are usually ascending, so sorting is
    rarely needed.
    """

    def __init__(self, renumbered: Renumbered | None) -> None:
        self._renumbered = renumbered
        self._old, self._new = array("q"), array("q")
        self._sorted = True

    def note(self, old: int | None, new: int) -> None:
        if old is not None:
            self._sorted = self._sorted and (not self._old or self._old[-1] < old)
            self._old.append(old)
            self._new.append(new)

    def pointing(self, message: dict[str, Any], *, are_known: bool) -> dict[str, Any]:
        """The message with its pointers updated; `are_known` says whether the file has the old ids."""
        if COPY in message:  # a pointer left unchanged would refer to an unrelated message
            found = self._between(message[COPY], message[COPY])
            message = {key: part for key, part in message.items() if key != COPY}
            message |= {COPY: found[0][0]} if found else {}
        if are_known and WRITTEN in message and self._renumbered is not None:
            message = self._renumbered(message, self._between)
        return message

    def _between(self, first: int, last: int) -> list[tuple[int, int]]:
        """The new ids, as runs, of the messages with old ids from `first` to `last`."""
        if not self._sorted:
            pairs = sorted(zip(self._old, self._new, strict=True))
            self._old, self._new = (array("q", ids) for ids in zip(*pairs, strict=True))
            self._sorted = True
        found: list[tuple[int, int]] = []
        for new in self._new[bisect_left(self._old, first) : bisect_right(self._old, last)]:
            if found and found[-1][1] == new - 1:
                found[-1] = (found[-1][0], new)
            else:
                found.append((new, new))
        return found


class Places:
    """New places of a session's messages when undone or damaged ones are left out."""

    def __init__(self) -> None:
        self._left_out: list[int] = []
        self._following = 0

    def take(self, place: int) -> None:
        """Keeps the message at this place; places between the previous call's and this one count as left out."""
        self._left_out += range(self._following, place)
        self._following = place + 1

    def order(self, runs: Iterable[tuple[int, int]]) -> list[list[int]]:
        """The order of a context in the new places; a run whose messages are all left out disappears."""
        moved = [
            [first - bisect_left(self._left_out, first), last - bisect_right(self._left_out, last)]
            for first, last in runs
        ]
        return [[first, last] for first, last in moved if first <= last]


IMPORTED_AT = "imported_at"
_CHUNK = 1 << 20  # bytes of lines per transaction; others can write in between
_BATCH = 500  # messages held in memory before they are stored
_REPORTED = 100  # a file in the wrong format would otherwise give a report as long as itself
_ENOUGH_TO_NAME = 8  # single messages that determine the id, which stays the same when the file grows


@dataclass(slots=True, kw_only=True)
class Imported:
    """What an import did. `unchanged` files were not opened; `problems` are the first ones found."""

    files: int = 0
    unchanged: int = 0
    sessions: int = 0
    messages: int = 0
    already_there: int = 0
    bad: int = 0
    problems: list[str] = field(default_factory=list)


class _Import:
    """Creates sessions, counts and reports; the base of both importers."""

    def __init__(self, db: SessionDB, on_bytes: Callable[[int], None] | None) -> None:
        self._db = db
        self._on_bytes = on_bytes
        self._done = 0
        self.result = Imported()

    def _create(self, fields: dict[str, Any]) -> None:
        parent = fields.get("parent_session_id")
        if parent is not None and self._db.find_session(parent) is None:
            fields = {**fields, "parent_session_id": None, "kind": None, "missing_parent": parent}
        self._db.create_session(**{IMPORTED_AT: time.time(), **fields})
        self.result.sessions += 1

    def _advance(self, count: int) -> None:
        self._done += count
        if self._on_bytes is not None:
            self._on_bytes(self._done)

    def _problem(self, text: str) -> None:
        self.result.bad += 1
        if len(self.result.problems) < _REPORTED:
            self.result.problems.append(text)


class Importer(_Import):
    """Reads our own JSONL format into a store."""

    def __init__(
        self,
        db: SessionDB,
        *,
        source: str = "import",
        title: str | None = None,
        on_bytes: Callable[[int], None] | None = None,
        renumbered: Renumbered | None = None,
    ) -> None:
        """`renumbered` changes the ids in messages that a compaction wrote to the new ids."""
        super().__init__(db, on_bytes)
        self._ids = _Ids(renumbered)
        self._source = source
        self._title = title
        self.bad_lines: list[dict[str, Any]] = []  # the first ones, with their numbers
        self._open: _Receiver | None = None
        self._seen: dict[str, int] = {}
        self._refused: set[str] = set()
        self._loose: list[tuple[int, dict[str, Any]]] = []
        self._loose_session: str | None = None

    def read(self, file: BinaryIO) -> Imported:
        """Imports every line in a known form, and reports the others."""
        return self.take(numbered_lines(file, self._advance))

    def take(self, lines: Iterable[tuple[int, bytes | None]]) -> Imported:
        """Imports numbered lines as `read` does; None marks a line that is too long to read."""
        for chunk in _chunks(lines):
            with self._db.bulk():
                for number, line in chunk:
                    with self._reported(number):
                        self._line(number, line)
                if self._open is not None:
                    self._open.flush()
        with self._db.bulk():
            self._settle_loose()
            self._close()
        self._db.sync()
        return self.result

    @contextlib.contextmanager
    def _reported(self, number: int) -> Iterator[None]:
        try:
            yield
        except BadLine as bad:
            self._problem(f"line {number}: {bad}")
            if self.result.bad <= _REPORTED:
                self.bad_lines.append({"line": number, "problem": str(bad)})

    def _line(self, number: int, line: bytes | None) -> None:
        record = _parsed(line)
        kind = record.get("type")
        if kind == "session" and "role" not in record:
            self._session(record)
        elif kind == "message" and isinstance(record.get("message"), dict) and isinstance(record.get("session"), str):
            message = clean_message(record["message"])
            compacted, old = record.get("compacted") is True, record.get("id")
            known = type(old) is int and 0 <= old < 1 << 62  # within what `_Ids` can hold
            self._receive(record["session"], message, compacted=compacted, number=old if known else None)
        elif isinstance(record.get("segments"), list):  # one conversation exported in parts
            for segment in record["segments"]:
                self._conversation(segment)
        elif isinstance(record.get("messages"), list):
            self._conversation(record)
        elif isinstance(record.get("role"), str):
            self._loose_message(number, clean_message(record))
        else:
            raise BadLine("it is neither a session, nor a message, nor a conversation with messages")

    def _session(self, record: dict[str, Any]) -> str:
        """Creates the session if it does not exist; returns its id."""
        fields = session_fields(record, self._source)
        name: str = fields["session_id"]
        if self._db.find_session(name) is None:
            self._create(fields)
        return name

    def _conversation(self, record: Any) -> None:
        if not isinstance(record, dict) or not isinstance(record.get("messages"), list):
            raise BadLine("one of its segments has no messages")
        messages = [clean_message(message) for message in record["messages"]]
        if not isinstance(record.get("id"), str):
            name = record["session_id"] if isinstance(record.get("session_id"), str) else _name_for(messages)
            record = {**record, "id": name}
        begun = begun_at(record)
        begun = _beginning(messages) if begun is None else begun
        if begun is not None:
            record, messages = {**record, "started_at": begun}, _at_latest_known(begun, messages)
        session = self._session({key: value for key, value in record.items() if key != "messages"})
        self._close()
        self._seen.pop(session, None)
        for message, raw in zip(messages, record["messages"], strict=True):
            self._receive(session, message, compacted=raw.get("compacted") in (1, True))
        self._close()

    def _loose_message(self, number: int, message: dict[str, Any]) -> None:
        if self._loose_session is not None:
            self._receive(self._loose_session, message, compacted=False)
            return
        self._loose.append((number, message))
        if len(self._loose) == _ENOUGH_TO_NAME:
            self._settle_loose()

    def _settle_loose(self) -> None:
        """Puts the single messages seen so far into a session, whose id is derived from them."""
        if not self._loose:
            return
        messages = [message for _, message in self._loose]
        record = {"id": _name_for(messages), "title": self._title, "started_at": _beginning(messages)}
        self._loose_session = self._session(record)
        waiting, self._loose = self._loose, []
        for number, message in waiting:
            with self._reported(number):
                self._receive(self._loose_session, message, compacted=False)

    def _receive(self, session_id: str, message: dict[str, Any], *, compacted: bool, number: int | None = None) -> None:
        if session_id in self._refused:
            return
        if self._open is None or self._open.session_id != session_id:
            self._close()
            if self._db.find_session(session_id) is None:
                raise BadLine(f"there is no session {session_id!r}; its line is missing or comes later")
            seen = self._seen.get(session_id, 0)
            self._open = _Receiver(self._db, session_id, self.result, self._ids, seen=seen)
        try:
            self._open.add(message, compacted=compacted, number=number)
        except BadLine:
            self._refused.add(session_id)  # report a conversation that differs once, not for each of its lines
            raise

    def _close(self) -> None:
        if self._open is not None:
            self._open.flush()
            self._seen[self._open.session_id] = self._open.seen
        self._open = None


class _Receiver:
    """Adds messages to one session, after comparing with those it already holds."""

    def __init__(self, db: SessionDB, session_id: str, result: Imported, ids: _Ids, *, seen: int) -> None:
        self.session_id = session_id
        self.seen = seen
        self._db = db
        self._result = result
        self._ids = ids
        self._waiting: list[tuple[dict[str, Any], bool, int | None]] = []
        self._stored: Iterator[StoredMessage] | None = Pages.of_db(db).messages(db.get_session(session_id))
        for _ in range(seen):
            next(self._stored, None)

    def add(self, message: dict[str, Any], *, compacted: bool, number: int | None) -> None:
        if number is not None and WRITTEN in message:
            self.flush()  # it refers to earlier messages, which have ids after this
        given, message = message, self._ids.pointing(message, are_known=number is not None)
        stored = next(self._stored, None) if self._stored is not None else None
        if stored is None:
            self._stored = None
            self._waiting.append((as_imported(message), compacted, number))
            if len(self._waiting) >= _BATCH:
                self.flush()
        elif _same(stored, message) or _same(stored, given):  # the second in the home it was exported from
            self._ids.note(number, stored.id)
            self._result.already_there += 1
        else:
            raise BadLine(
                f"session {self.session_id!r} is already there and differs from message {self.seen + 1} onwards; "
                "it was not changed"
            )
        self.seen += 1

    def flush(self) -> None:
        if not self._waiting:
            return
        ids = self._db.append_many(self.session_id, [message for message, _, _ in self._waiting])
        gone = [i for i, (_, compacted, _) in zip(ids, self._waiting, strict=True) if compacted]
        for new, (_, _, number) in zip(ids, self._waiting, strict=True):
            self._ids.note(number, new)
        if gone:
            self._db.set_compacted(self.session_id, gone)
        self._result.messages += len(ids)
        self._waiting = []


def _same(stored: StoredMessage, message: dict[str, Any]) -> bool:
    """Equal except for the time and the mark `outside`, which a store may have added."""
    kept = bare(storable(rightly_noted(stored.message)))
    added = ("timestamp", "outside")
    old = {key: value for key, value in kept.items() if key not in added}
    return old == {key: value for key, value in bare(message).items() if key not in added}


def _parsed(line: bytes | None) -> dict[str, Any]:
    if line is None:
        raise BadLine(
            f"it is longer than {transcripts.LONGEST_LINE >> 20} MiB; split the conversation into single messages"
        )
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadLine(f"it is not JSON ({error})") from error
    if not isinstance(record, dict):
        raise BadLine(f"it is a {type(record).__name__}, not a JSON object")
    return record


def _chunks(lines: Iterable[tuple[int, bytes | None]]) -> Iterator[list[tuple[int, bytes | None]]]:
    """Batches for one transaction each, read before it begins, so that a slow source blocks no other writer."""
    chunk: list[tuple[int, bytes | None]] = []
    size = 0
    for number, line in lines:
        chunk.append((number, line))
        size += len(line or b"")
        if size >= _CHUNK:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _beginning(messages: list[dict[str, Any]]) -> float | None:
    return next((m["timestamp"] for m in messages if isinstance(m.get("timestamp"), float)), None)


def _at_latest_known(moment: float, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Gives messages without a time that of the message before, or of the beginning."""
    dated = []
    for message in messages:
        moment = message["timestamp"] if isinstance(message.get("timestamp"), float) else moment
        dated.append({**message, "timestamp": moment})
    return dated


def _name_for(messages: list[dict[str, Any]]) -> str:
    """An id derived from the messages, so that importing the conversation again finds it."""
    said = [{key: value for key, value in message.items() if key != "timestamp"} for message in messages]
    content = json.dumps(said, sort_keys=True).encode()
    return f"import_{hashlib.sha256(content).hexdigest()[:20]}"


_TRANSCRIPT_BATCH = 2000  # messages per transaction; others can write in between
_VARIANTS = 1000  # rewritten versions of one conversation, each a branch of its own


@dataclass(frozen=True, slots=True)
class _Mark:
    """How much of a conversation was imported: the number of messages, and a checksum over them."""

    session: str
    taken: int = 0
    check: int = 0


class TranscriptImport(_Import):
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
        super().__init__(db, on_bytes)
        self._grade = as_reported if by_hook else as_imported
        self._project = project
        self._storing = False  # a failure now is one of the database, which ends the import

    def take(self, source: Source) -> None:
        """Imports one file if it has changed; reports what it cannot read and continues with the rest.

        A file with problems is not noted as read, so the next import tries it again.
        """
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
        """Makes everything durable and returns what was imported."""
        self._db.sync()
        return self.result

    def _conversation(self, source: Source, conversation: Conversation) -> None:
        base = scrub(f"{source.format}_{conversation.id}")
        messages = _messages(conversation)
        mark, count = self._known(base, messages)
        # Reading it again message by message is slow, so it is only done when no checksum matches.
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
        if count != mark.taken:  # the search for the variant read past its end, so start again from there
            messages = itertools.islice(_messages(conversation), mark.taken, None)
        while batch := list(itertools.islice(messages, _TRANSCRIPT_BATCH)):
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
        return {**fields, "kind": conversation.kind}

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
        """Stores messages, and first the session if `fields` are given; returns the new mark.

        Messages and mark are one transaction: after a kill the next import continues exactly where this one ended.
        """
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
                times = (message.get("timestamp") for message in kept)
                fields.setdefault("started_at", next((at for at in times if isinstance(at, float)), None))
                self._create({**fields, "session_id": mark.session})
            self.result.messages += len(self._db.append_many(mark.session, list(map(self._grade, kept))))
            self._db.set_meta(f"imported:conversation:{mark.session}", f"{reached.taken}:{reached.check}")
        self._storing = False
        return reached


def _messages(conversation: Conversation) -> Iterator[dict[str, Any]]:
    """The messages without private parts."""
    for message in conversation.messages():
        yield message if (kept := storable(message)) is message else dict(kept)


def _chained(check: int, message: Mapping[str, Any]) -> int:
    """A checksum over role, text and tool calls of the messages so far and this one; their times do not count."""
    content = message.get("content")
    text = content if isinstance(content, str) else repr(content)
    calls = message.get("tool_calls")
    if calls:
        text = f"{text}{calls!r}"
    return zlib.crc32(f"{message['role']}\x1f{text}".encode("utf-8", "surrogatepass"), check)
