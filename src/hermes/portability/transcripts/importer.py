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
from hermes.portability.conversations_import import IMPORTED_AT, BadLine, clean_message
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
class Brought:
    """What a run did. `unchanged` files were not even opened; `problems` are the first of those that were found."""

    files: int = 0
    unchanged: int = 0
    sessions: int = 0
    messages: int = 0
    already_there: int = 0
    bad: int = 0
    problems: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class _Waiting:
    """Messages of one conversation on their way into the database."""

    session: str
    fields: dict[str, Any] | None  # set while the session is to be made
    messages: list[dict[str, Any]] = field(default_factory=list)
    taken: int = 0
    check: int = 0
    title: str | None = None


class BringIn:
    def __init__(
        self,
        db: SessionDB,
        *,
        project: str | None = None,
        on_bytes: Callable[[int], None] | None = None,
    ) -> None:
        self._db = db
        self._project = project
        self._on_bytes = on_bytes
        self._done = 0
        self._waiting: list[_Waiting] = []
        self._count = 0
        self._notes: list[tuple[str, str]] = []
        self.result = Brought()

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
            self._problem(str(error) if isinstance(error, HermesError) else f"{source.path}: {error}")
        if self.result.bad == before:
            self._notes.append((note, now))

    def finish(self) -> Brought:
        self._flush()
        self._db.sync()
        return self.result

    def _conversation(self, source: Source, conversation: Conversation) -> None:
        prefix = f"{source.format}_"
        base = scrub(f"{prefix}{conversation.id}")
        fields = {key: scrub(value) if isinstance(value, str) else value for key, value in conversation.fields.items()}
        if self._project is not None:
            fields["project"] = self._project
        elif fields.get("cwd"):
            fields["project"] = project_of(fields["cwd"]) or fields.get("project")  # as our own sessions name it
        fields |= {"parent": scrub(prefix + conversation.parent) if conversation.parent else None}
        fields |= {"kind": conversation.kind}
        self._flush_if_unsettled(base)
        messages = _messages(conversation)
        known, read_so_far = self._known(base, messages)
        if known is None and read_so_far and self._is_older_copy(base, conversation):
            self.result.already_there += read_so_far
            return
        if read_so_far != (known.taken if known else 0):
            messages = itertools.islice(_messages(conversation), known.taken if known else 0, None)
        if known is None:
            known = _Waiting(session=self._free_variant(base), fields=fields)
            if known.session != base:
                known.fields = {**fields, "parent": base, "kind": "branch"}
        else:
            self.result.already_there += known.taken
        work = known
        self._waiting.append(work)
        for message in messages:
            work = self._add(work, message)
        title = conversation.late.get("title")
        work.title = without_private(title) if isinstance(title, str) else None

    def _known(self, base: str, messages: Iterator[dict[str, Any]]) -> tuple[_Waiting | None, int]:
        """The variant that agrees with the messages furthest, and how many of them were read to find out."""
        marks = [(*mark, name) for name in self._variants(base) if (mark := self._mark(name)) is not None]
        best, check, count = None, 0, 0
        for taken, expected, name in sorted(marks):
            for message in itertools.islice(messages, taken - count):
                check = _chained(check, message)
                count += 1
            if count == taken and check == expected:
                best = _Waiting(session=name, fields=None, taken=taken, check=check)
        return best, count

    def _is_older_copy(self, base: str, conversation: Conversation) -> bool:
        """Whether all of it was taken before, as from a copy made when the conversation was shorter."""
        for name in self._variants(base):
            stored = Pages.of_db(self._db).messages(self._db.get_session(name))
            kept = (_chained(0, bare(message.message)) for message in stored)
            given = (_chained(0, bare(message)) for message in _messages(conversation))
            if all(one == other for one, other in itertools.zip_longest(given, kept) if one is not None):
                return True
        return False

    def _variants(self, base: str) -> Iterator[str]:
        if self._mark(base) is None:
            return
        yield base
        for number in range(2, _VARIANTS):
            name = f"{base}~{number}"
            if self._mark(name) is None:
                return
            yield name

    def _free_variant(self, base: str) -> str:
        names = [base, *(f"{base}~{number}" for number in range(2, _VARIANTS))]
        return next(name for name in names if self._db.find_session(name) is None)

    def _mark(self, session: str) -> tuple[int, int] | None:
        found = self._db.get_meta(f"imported:conversation:{session}")
        if not isinstance(found, str):
            return None
        taken, _, check = found.partition(":")
        return int(taken), int(check)

    def _add(self, work: _Waiting, message: dict[str, Any]) -> _Waiting:
        """Keeps the message for the next transaction; returns where the following one goes."""
        work.taken += 1
        work.check = _chained(work.check, message)
        try:
            work.messages.append(_storable(message))
        except BadLine as bad:
            self._problem(f"{work.session}: message {work.taken}: {bad}")
        self._count += 1
        if self._count < _BATCH:
            return work
        if work not in self._waiting:
            self._waiting.append(work)
        self._flush()
        following = _Waiting(session=work.session, fields=None, taken=work.taken, check=work.check)
        self._waiting.append(following)
        return following

    def _flush_if_unsettled(self, base: str) -> None:
        """A conversation in two files: what waits must be stored before the second is compared with it."""
        if any(work.session.startswith(base) for work in self._waiting):
            self._flush()

    def _flush(self) -> None:
        with self._db.bulk():
            for work in self._waiting:
                self._store(work)
            for note, now in self._notes:
                self._db.set_meta(note, now)
        self._waiting, self._notes, self._count = [], [], 0

    def _store(self, work: _Waiting) -> None:
        if work.fields is not None and not work.messages:
            return
        if work.fields is not None:
            self._create(work.session, dict(work.fields), work)
        if work.messages:
            self.result.messages += len(self._db.append_many(work.session, work.messages))
        self._db.set_meta(f"imported:conversation:{work.session}", f"{work.taken}:{work.check}")
        if work.title and self._db.get_session(work.session).title is None:
            self._db.rename(work.session, work.title)

    def _create(self, session: str, fields: dict[str, Any], work: _Waiting) -> None:
        parent, kind = fields.pop("parent", None), fields.pop("kind", None)
        if parent is not None and self._db.find_session(parent) is None:
            fields["missing_parent"], parent, kind = parent, None, None
        if fields.get("started_at") is None:
            times = (message.get("timestamp") for message in work.messages)
            fields["started_at"] = next((at for at in times if isinstance(at, float)), None)
        self._db.create_session(
            session_id=session, parent_session_id=parent, kind=kind, **{**fields, IMPORTED_AT: time.time()}
        )
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


def _storable(message: dict[str, Any]) -> dict[str, Any]:
    """Plain text needs no look; anything else is tried before it is part of a transaction."""
    if isinstance(message.get("content"), str) and "tool_calls" not in message:
        return message
    return clean_message(message)


def _chained(check: int, message: Mapping[str, Any]) -> int:
    content = message.get("content")
    text = content if isinstance(content, str) else repr(content)
    calls = message.get("tool_calls")
    if calls:
        text = f"{text}{calls!r}"
    return zlib.crc32(f"{message['role']}\x1f{text}".encode("utf-8", "surrogatepass"), check)
