"""Writes conversations out: JSONL that comes back byte for byte by `import`, and Markdown for reading.

JSONL holds one line per session first (parents before children) and then one line per message, session after session
in the order of their last use, so that an import restores the order of the list too. Nothing is held in memory but
one page of messages.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from hermes.recall.numbers import Places
from hermes.storage.compaction import ORDER
from hermes.storage.conversations import COUNTERS
from hermes.storage.images import IMAGES
from hermes.storage.pages import Pages
from hermes.vocabulary.json_texts import change_texts
from hermes.vocabulary.times import in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hermes.recall.excerpts import Mask
    from hermes.storage.conversations import Session
    from hermes.storage.sessions import SessionDB
    from hermes.storage.transcripts import StoredMessage

    class Writer(Protocol):
        """One output format."""

        def begin(self, sessions: Sequence[Session]) -> None: ...
        def session(self, session: Session) -> None: ...
        def message(self, session: Session, message: StoredMessage) -> None: ...
        def end(self) -> None: ...


IMPORTED_AT = "imported_at"
_FENCE = re.compile(r"`{3,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    sessions: int
    messages: int
    damaged: int


def export(
    db: SessionDB, sessions: Iterable[Session], writer: Writer, progress: Callable[[int], None] | None = None
) -> Exported:
    """Writes the sessions and their messages, without those that are damaged, and says how many."""
    pages = Pages.of_db(db)
    chosen = sorted(sessions, key=lambda session: session.key)
    writer.begin(chosen)
    count = damaged = 0
    for session in sorted(chosen, key=lambda session: (session.activity, session.key)):
        writer.session(session)
        for message in pages.messages(session):
            if message.damaged:
                damaged += 1
                continue
            writer.message(session, message)
            count += 1
            if progress is not None:
                progress(count)
    writer.end()
    return Exported(sessions=len(chosen), messages=count, damaged=damaged)


class JsonlWriter:
    def __init__(self, db: SessionDB, write: Callable[[str], object], mask: Mask) -> None:
        self._db = db
        self._pages = Pages.of_db(db)
        self._write = write
        self._mask = mask
        self._pointed_to: set[int] = set()  # sessions whose messages a compacted block or a copy names by their ids
        self._places = Places()

    def begin(self, sessions: Sequence[Session]) -> None:
        for session in sessions:
            self._line(self._record(session))
        parents = {session.key: session.parent for session in sessions}
        for session in sessions:
            key = session.key if self._pages.holds_pointers(session) else None
            while key in parents and key not in self._pointed_to:
                self._pointed_to.add(key)
                key = parents[key]

    def session(self, session: Session) -> None:
        """Nothing is written here: all sessions stand at the beginning."""
        del session
        self._places = Places()

    def message(self, session: Session, message: StoredMessage) -> None:
        self._places.take(message.place)
        flags: dict[str, Any] = {"id": message.id} if session.key in self._pointed_to else {}
        if message.compacted:
            flags["compacted"] = True
        said = {key: value for key, value in message.message.items() if key != "timestamp"}
        if ORDER in said:
            said[ORDER] = self._places.order(said[ORDER])
        images = said.pop(IMAGES, None)
        content = change_texts(said, self._mask)
        if images is not None:  # whole: a name or bytes that were masked would lead to nothing
            content[IMAGES] = [self._image(each) for each in images] if isinstance(images, list) else images
        content["timestamp"] = message.timestamp  # always last, whether the message had one or not
        self._line({"type": "message", "session": session.id, **flags, "message": content})

    def end(self) -> None:
        pass

    def _image(self, entry: Any) -> Any:
        """An image with its bytes, so that a file of conversations is all there is to carry."""
        if not isinstance(entry, dict) or "url" in entry:
            return change_texts(entry, self._mask)
        data = self._db.images.read(entry)
        return entry if data is None else {**entry, "data": base64.b64encode(data).decode()}

    def _record(self, session: Session) -> dict[str, Any]:
        details = self._db.session_details(session.id)
        details.pop(IMPORTED_AT, None)
        record = {
            "type": "session",
            "id": session.id,
            "source": session.source,
            "title": session.title,
            "model": session.model,
            "parent_session_id": self._pages.parent_id(session),
            "kind": session.kind,
            "started_at": session.started_at,
            "ended_at": session.ended_at,
            "end_reason": session.end_reason,
            "archived": session.archived or None,
            "project": session.project,
            "cwd": session.cwd,
            "message_count": session.message_count,
            **{name: getattr(session, name) or None for name in COUNTERS},
            "details": change_texts(details, self._mask) or None,
        }
        if session.title:
            record["title"] = self._mask(session.title)
        return {key: value for key, value in record.items() if value is not None}

    def _line(self, record: dict[str, Any]) -> None:
        self._write(json.dumps(record, ensure_ascii=False) + "\n")


class MarkdownWriter:
    def __init__(self, write: Callable[[str], object], mask: Mask) -> None:
        self._write = write
        self._mask = mask

    def begin(self, sessions: Sequence[Session]) -> None:
        pass

    def session(self, session: Session) -> None:
        facts = [f"`{session.id}`", moment(session.started_at), session.source, session.model, session.project]
        heading = " ".join(self._mask(session.title or session.preview or session.id).split())
        self._write(f"# {heading}\n\n{' · '.join(fact for fact in facts if fact)}\n\n")

    def message(self, session: Session, message: StoredMessage) -> None:
        del session
        speaker = message.message.get("name")
        who = f"{message.role} ({speaker})" if isinstance(speaker, str) and speaker else message.role
        note = ", compacted" if message.compacted else ""
        self._write(f"## {who} · {moment(message.timestamp)}{note}\n\n")
        text = self._mask(message.text)
        if text:
            self._write(f"{fenced(text) if message.role == 'tool' else text}\n\n")
        for call in tool_calls(message):
            self._write(f"Called **{call[0]}**:\n\n{fenced(self._mask(call[1]), 'json')}\n\n")

    def end(self) -> None:
        pass


def tool_calls(message: StoredMessage) -> list[tuple[str, str]]:
    """Name and arguments of each call, as text."""
    found = []
    calls = message.message.get("tool_calls") or []
    for call in calls if isinstance(calls, list) else [calls]:
        function = call.get("function", call) if isinstance(call, dict) else {}
        arguments = function.get("arguments", function.get("input", "")) if isinstance(function, dict) else ""
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        found.append((str(function.get("name", "?")) if isinstance(function, dict) else "?", text))
    return found


def fenced(text: str, language: str = "") -> str:
    """A code block whose fence is longer than any inside the text."""
    longest = max((len(run) for run in _FENCE.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def moment(when: float) -> str:
    return in_words(when, "%Y-%m-%d %H:%M")
