"""Takes conversations of other programs into `state.db`: each message once, resumable."""

from __future__ import annotations

import itertools
import os
import time
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes.base.errors import HermesError, StorageError
from hermes.base.words import scrub
from hermes.conversations.database import Pages
from hermes.conversations.retrieval import as_imported, as_reported
from hermes.portability.conversations_import import IMPORTED_AT, BadLine, clean_message, moment_of
from hermes.portability.transcripts.formats import read
from hermes.safety.fence import storable, without_private
from hermes.settings.home import project_of
from hermes.storage.images import bare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hermes.conversations.database import SessionDB
    from hermes.portability.transcripts.conversation import Conversation
    from hermes.portability.transcripts.formats import Source

_BATCH = 2000  # messages to a transaction; others can write in between
_REPORTED = 100
_VARIANTS = 1000


@dataclass(slots=True, kw_only=True)
class Imported:
    """What a run did. `unchanged` files were not even opened; `problems` are the first of those that were found."""

    files: int = 0
    unchanged: int = 0
    sessions: int = 0
    messages: int = 0
    already_there: int = 0
    bad: int = 0
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Mark:
    """How far a conversation has come in: how many of its messages, and a checksum over them."""

    session: str
    taken: int = 0
    check: int = 0


class TranscriptImport:
    def __init__(
        self,
        db: SessionDB,
        *,
        project: str | None = None,
        on_bytes: Callable[[int], None] | None = None,
        by_hook: bool = False,
    ) -> None:
        """Reported `by_hook`, what the person typed is theirs; of any other file nobody knows who wrote it."""
        self._grade = as_reported if by_hook else as_imported
        self._db = db
        self._project = project
        self._on_bytes = on_bytes
        self._done = 0
        self._storing = False  # whether a failure is one of the database, which ends the import
        self.result = Imported()

    def take(self, source: Source) -> None:
        """Reads one file unless it is as it was; what cannot be understood is reported and does not stop the rest."""
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
            fields["project"] = project_of(fields["cwd"]) or fields.get("project")  # as our own sessions name it
        if conversation.parent:
            fields["parent_session_id"] = scrub(f"{source.format}_{conversation.parent}")
        return {**fields, "kind": conversation.kind, IMPORTED_AT: time.time()}

    def _known(self, base: str, messages: Iterator[dict[str, Any]]) -> tuple[_Mark | None, int]:
        """The variant that agrees with the messages furthest, and how many of them were read to find out."""
        best, check, count = None, 0, 0
        for mark in sorted(self._variants(base), key=lambda mark: mark.taken):
            for message in itertools.islice(messages, mark.taken - count):
                check = _chained(check, message)
                count += 1
            if (count, check) == (mark.taken, mark.check):
                best = mark
        return best, count

    def _is_older_copy(self, base: str, conversation: Conversation) -> bool:
        """Whether all of it was taken before, as from a copy made when the conversation was shorter."""
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
        """Stores some messages, and the session when there are `fields` to make it of; says how far it is then."""
        check, kept = mark.check, []
        for number, message in enumerate(batch, mark.taken + 1):
            check = _chained(check, message)
            try:
                # Plain text needs no look; anything else is tried before it is part of a transaction.
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
    """What was said, without private parts."""
    for message in conversation.messages():
        yield message if (kept := storable(message)) is message else dict(kept)


def _chained(check: int, message: Mapping[str, Any]) -> int:
    content = message.get("content")
    text = content if isinstance(content, str) else repr(content)
    calls = message.get("tool_calls")
    if calls:
        text = f"{text}{calls!r}"
    return zlib.crc32(f"{message['role']}\x1f{text}".encode("utf-8", "surrogatepass"), check)
