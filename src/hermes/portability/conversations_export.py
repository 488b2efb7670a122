"""Writes conversations as JSONL that can be imported unchanged, as Markdown, or as one HTML page."""

from __future__ import annotations

import base64
import json
import os
import re
from abc import abstractmethod
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from hermes.base.text import change_texts, in_words
from hermes.conversations.context import ORDER
from hermes.conversations.database import Pages
from hermes.portability.conversations_import import IMPORTED_AT, Places
from hermes.storage.images import IMAGES
from hermes.storage.records import COUNTERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hermes.conversations.database import SessionDB
    from hermes.conversations.retrieval import Mask
    from hermes.storage.records import Session, StoredMessage

_FENCE = re.compile(r"`{3,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What an export wrote, and how many damaged messages it left out."""

    sessions: int
    messages: int
    damaged: int


def export(
    db: SessionDB, sessions: Iterable[Session], writer: Writer, progress: Callable[[int], None] | None = None
) -> Exported:
    """Writes the sessions and their messages, except damaged ones, and counts both."""
    pages = Pages.of_db(db)
    chosen = sorted(sessions, key=lambda session: session.key)
    writer.begin(chosen)  # in the order of their keys: parents before children
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


class Writer:
    """One output format. `write` receives the output in pieces; `mask` hides the secrets in a text."""

    def __init__(self, write: Callable[[str], object], mask: Mask) -> None:
        self._write = write
        self._mask = mask

    def begin(self, sessions: Sequence[Session]) -> None:
        """Receives all sessions, parents before children, before the first message is written."""

    @abstractmethod
    def session(self, session: Session) -> None:
        """Begins a session; its messages follow."""

    @abstractmethod
    def message(self, session: Session, message: StoredMessage) -> None:
        """Writes one message of the current session."""

    def end(self) -> None:
        """Completes the output after the last message."""

    def _name(self, session: Session) -> str:
        return " ".join(self._mask(session.title or session.preview or session.id).split())


class JsonlWriter(Writer):
    """Writes one line per session (parents before children), then one per message, session by session.

    Sessions are sorted by their last use, so that an import restores the order of the list.
    """

    def __init__(self, db: SessionDB, write: Callable[[str], object], mask: Mask) -> None:
        super().__init__(write, mask)
        self._db = db
        self._pages = Pages.of_db(db)
        self._pointed_to: set[int] = set()  # sessions whose message ids a compacted block or a copy refers to
        self._places = Places()

    def begin(self, sessions: Sequence[Session]) -> None:
        for session in sessions:
            self._line(self._record(session))
        # A pointer may refer to messages of the sessions that this one continues, so those need their ids too.
        parents = {session.key: session.parent for session in sessions}
        for session in sessions:
            key = session.key if self._pages.holds_pointers(session) else None
            while key in parents and key not in self._pointed_to:
                self._pointed_to.add(key)
                key = parents[key]

    def session(self, session: Session) -> None:
        """Writes nothing: `begin` has written all sessions."""
        del session
        self._places = Places()

    def message(self, session: Session, message: StoredMessage) -> None:
        self._places.take(message.place)
        flags: dict[str, Any] = {"id": message.id} if session.key in self._pointed_to else {}
        if message.compacted:
            flags["compacted"] = True
        said = {key: value for key, value in message.message.items() if key != "timestamp"}
        if said.get("outside") == "import":  # any import adds this mark anyway
            del said["outside"]
        if ORDER in said:
            said[ORDER] = self._places.order(said[ORDER])
        images = said.pop(IMAGES, None)
        content = change_texts(said, self._mask)
        if images is not None:  # unmasked: a masked file name or masked bytes would be useless
            content[IMAGES] = [self._image(each) for each in images] if isinstance(images, list) else images
        content["timestamp"] = message.timestamp  # always last, whether the message had one or not
        self._line({"type": "message", "session": session.id, **flags, "message": content})

    def _image(self, entry: Any) -> Any:
        """An image with its bytes, so that the exported file is complete by itself."""
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
            "title": self._mask(session.title) if session.title else session.title,
            "model": session.model,
            "parent_session_id": self._pages.parent_id(session),
            **{name: getattr(session, name) for name in ("kind", "started_at", "ended_at", "end_reason")},
            "archived": session.archived or None,
            **{name: getattr(session, name) for name in ("project", "cwd", "message_count")},
            **{name: getattr(session, name) or None for name in COUNTERS},
            "details": change_texts(details, self._mask) or None,
        }
        return {key: value for key, value in record.items() if value is not None}

    def _line(self, record: dict[str, Any]) -> None:
        self._write(json.dumps(record, ensure_ascii=False) + "\n")


class MarkdownWriter(Writer):
    """Writes conversations as Markdown."""

    def session(self, session: Session) -> None:
        facts = (f"`{session.id}`", moment(session.started_at), session.source, session.model, session.project)
        self._write(f"# {self._name(session)}\n\n{' · '.join(filter(None, facts))}\n\n")

    def message(self, session: Session, message: StoredMessage) -> None:
        del session
        note = ", compacted" if message.compacted else ""
        self._write(f"## {_speaker(message.message)} · {moment(message.timestamp)}{note}\n\n")
        if text := self._mask(message.text):
            self._write(f"{fenced(text) if message.role == 'tool' else text}\n\n")
        for name, arguments in tool_calls(message.message):
            self._write(f"Called **{name}**:\n\n{fenced(self._mask(arguments), 'json')}\n\n")


def _speaker(message: Mapping[str, Any]) -> str:
    name = message.get("name")
    return f"{message['role']} ({name})" if isinstance(name, str) and name else str(message["role"])


def tool_calls(message: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and arguments of each tool call, as text."""
    found = []
    calls = message.get("tool_calls") or []
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
    """A time to the minute in the local time zone."""
    return in_words(when, "%Y-%m-%d %H:%M")


class HtmlWriter(MarkdownWriter):
    """Writes the same as one HTML page, which neither loads nor runs anything."""

    def __init__(self, write: Callable[[str], object], mask: Mask) -> None:
        from markdown_it import MarkdownIt  # other commands, which also import this module, do not need it

        # What a person types or pastes keeps its lines.
        parser = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable("table")
        parser.disable(["image", "link", "autolink", "reference"])  # a page that is shared must not call anybody
        super().__init__(lambda text: write(parser.render(text)), mask)
        self._page = write

    def begin(self, sessions: Sequence[Session]) -> None:
        title = self._name(sessions[0]) if len(sessions) == 1 else f"{len(sessions):,} conversations"
        self._page(packaged_text("export.html").format(title=escape(title), style=packaged_text("export.css")))

    def end(self) -> None:
        self._page("</body>\n</html>\n")


def packaged_text(name: str) -> str:
    """Reads a file that comes with this package, such as the style sheet of the HTML page."""
    with open(os.path.join(os.path.dirname(__file__), "text", name), encoding="utf-8") as file:
        return file.read()
