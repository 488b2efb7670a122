"""One person's memory, opened once and kept open: what the MCP server and the plain HTTP API do for them.

Every call is safe from any thread. Nothing here knows another person: a workspace sees only its home.
"""

from __future__ import annotations

import hashlib
import itertools
import threading
import time
from typing import TYPE_CHECKING, Any

from hermes.base.errors import HermesError, NotFound, WriteRefused
from hermes.base.text import change_texts
from hermes.base.version import __version__
from hermes.base.words import scrub
from hermes.conversations.maintenance import Maintenance
from hermes.conversations.retrieval import Finder
from hermes.memory.entries import Cause
from hermes.memory.file import FILES
from hermes.memory.store import block, blocked_in_prompt, usage
from hermes.safety.fence import storable
from hermes.safety.secrets import mask_secrets
from hermes.safety.trust import Source, TurnContext
from hermes.session.context import OUTSIDE, words_of_person
from hermes.session.parts import open_parts
from hermes.session.receipts import Receipts
from hermes.settings.trust import SAID, HostReports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from hermes.conversations.database import SessionDB
    from hermes.conversations.retrieval import Criteria, Found
    from hermes.memory.store import MemoryStore, Written
    from hermes.settings.home import Home
    from hermes.storage.records import Session, StoredMessage


RECEIPT_ACTIONS = ("correct", "forget", "pin", "never", "recall")


ROLES = ("user", "assistant", "tool", "system")
_MOST_BROUGHT = 50  # results of our own tools with text from outside that the gate considers for later writes
_RECENT = 3  # recorded conversations of a host in which the person's words are looked for
_LONGEST_KEY = 200


class Workspace:
    """What one person can do over HTTP and MCP."""

    def __init__(
        self,
        home: Home,
        *,
        source: str = "api",
        project: str | None = "",
        cwd: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.home = home
        self.source = source
        self._started = clock()
        self._lock = threading.RLock()
        self._parts = open_parts(home, owner="local", project=project, cwd=cwd)
        self._brought: list[Source] = []  # text from outside that results of our tools gave to the host's model

    @property
    def store(self) -> MemoryStore:
        """Curated memory; raises WriteRefused if the settings switch it off."""
        if self._parts.store is None:
            raise WriteRefused(
                "memory is switched off (memory.memory_enabled, memory.user_profile_enabled)", kind="disabled"
            )
        return self._parts.store

    @property
    def targets(self) -> tuple[str, ...]:
        """The memory files that are switched on; empty if memory is off."""
        return self._parts.store.targets if self._parts.store else ()

    @property
    def database(self) -> SessionDB:
        """Past conversations; raises an error if they cannot be used, and tries again at the next call."""
        with self._lock:
            self._parts.storage.try_again()
            return self._parts.database

    @property
    def past(self) -> SessionDB:
        """Past conversations for reading, even while another program has them locked."""
        with self._lock:
            self._parts.storage.try_again()
            return self._parts.storage.readable

    def now(self) -> datetime:
        """The local time of the person."""
        return self._parts.now()

    @property
    def receipts(self) -> Receipts:
        """The receipts of answers, for reading."""
        return Receipts(self.home, self.past)

    def act_on_receipt(self, receipt_id: str, number: int, action: str, text: str = "") -> str:
        """Carries out a person's action on an item of a receipt: correct, forget, pin, never or recall."""
        receipts = Receipts(self.home, self.database, self._parts.store)
        if action == "correct":
            if not text.strip():
                raise WriteRefused("correct needs a text: what is right", kind="missing_text")
            return receipts.correct(receipt_id, number, text)
        if action in ("never", "recall"):
            return receipts.never(receipt_id, number, recall=action == "recall")
        return receipts.pin(receipt_id, number) if action == "pin" else receipts.forget(receipt_id, number)

    def close(self) -> None:
        """Closes what the workspace holds open, such as the database."""
        with self._lock:
            self._parts.close()

    def call_tool(self, name: str, arguments: Mapping[str, Any], *, session: str = "", note: str = "") -> str:
        """Calls one of the tools as a model would; always returns JSON text."""
        with self._lock:
            turn = TurnContext(
                session=session,
                note=note,
                sources=self._sources,
                said=self._said,
                record=lambda decision: self._parts.decisions.add(decision, session or self.source),
            )
            called = self._parts.toolbox.run(name, arguments, turn)
            if called.origin:
                self._brought = [*self._brought, Source(origin=called.origin, name=name, text=called.text)]
                self._brought = self._brought[-_MOST_BROUGHT:]
            return called.text

    def _sources(self) -> list[Source]:
        """What the host's model has read from outside: what its hooks report, and what our tools returned.

        A host without reports is itself a source, because its model may have read anything.
        """
        reports = HostReports(self.home).since(self.source, self._started)
        if not reports:
            silent = Source(origin="host", name=f"{self.source}, which does not report what its model reads")
            return [silent, *self._brought]
        outside = [each for each in reports if each["kind"] != SAID]
        return [
            *(Source(origin=each["kind"], name=each["name"], text=each["text"]) for each in outside),
            *self._brought,
        ]

    def _said(self) -> list[str]:
        """What the person said to this host: in recorded conversations, and as its hooks report it."""
        said = []
        try:
            for each in reversed(self.past.list_sessions(limit=_RECENT, source=self.source)):
                said += [words_of_person(stored.message) for stored in self.past.messages(each.id)]
        except HermesError:
            said = []  # words that cannot be read do not count
        reports = HostReports(self.home).since(self.source, self._started)
        return [*filter(None, said), *(each["text"] for each in reports if each["kind"] == SAID)]

    def schema(self, name: str) -> dict[str, Any]:
        """The schema of one of the tools; raises NotFound if there is no such tool."""
        tool = self._parts.toolbox.get(name)
        if tool is None:
            raise NotFound(f"there is no tool {name!r}")
        return tool.schema

    def entries(self, target: str) -> dict[str, Any]:
        """The entries of a memory file with its usage, and a problem if another program has damaged it."""
        reading = self.store.read(target)
        limit = self.store.limit(target)
        return {
            "target": target,
            "entries": list(reading.entries),
            "usage": usage(reading.entries, limit),
            "limit": limit,
            "problem": reading.drift or None,
        }

    def entries_for_model(self, target: str) -> dict[str, Any]:
        """Like `entries`, without the words of entries that a prompt would not show."""
        found = self.entries(target)
        return {**found, "entries": self.store.shown(target, found["entries"])}

    def write(self, target: str, operations: Sequence[dict[str, str]], note: str) -> Written:
        """Applies changes that a person asks for directly, so that no approval is needed."""
        return self.store.apply(target, list(operations), cause=Cause(origin="user", note=note))

    def memory_text(self, target: str) -> str:
        """The current block of a memory file as a prompt would show it; empty if there are no entries."""
        entries = tuple(dict.fromkeys(self.store.entries(target)))
        allowed = self.store.recalled(target, entries)
        shown = blocked_in_prompt(allowed, FILES[target], lambda: self.store.provenance(target))
        return block(target, shown, usage(entries, self.store.limit(target)))

    def search(self, query: str, wanted: Criteria) -> Found:
        """Finds messages, with secrets masked."""
        return Finder(self.past, mask=mask_secrets).find(query, wanted)

    def session(self, name: str) -> Session:
        """The session of an id or a title; raises NotFound with the same words whatever the reason."""
        found = self.past.resolve(name) if 0 < len(name) <= _LONGEST_KEY else None
        if found is None:
            raise NotFound("there is no such conversation")
        return found

    def messages(self, session: Session, *, limit: int, before: int | None = None) -> list[StoredMessage]:
        """The newest messages of a conversation, or the newest before one of them."""
        stored = self.past.messages(session.id)
        earlier = stored if before is None else [each for each in stored if each.id < before]
        return earlier[-limit:]

    def shown(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """A message as the API shows it: text and tool calls, with secrets masked."""
        kept = {name: message[name] for name in ("role", "name", "tool_call_id") if message.get(name)}
        content = message.get("content")
        kept["content"] = change_texts(content, mask_secrets)
        if message.get("tool_calls"):
            kept["tool_calls"] = change_texts(message["tool_calls"], mask_secrets)
        return kept

    def record(
        self,
        key: str,
        messages: Sequence[Mapping[str, Any]],
        *,
        title: str = "",
        cwd: str | None = None,
        by_model: bool = False,
    ) -> dict[str, Any]:
        """Adds a conversation that happened elsewhere, or its new messages; `key` is the host's own name for it.

        If a model reports it (`by_model`), nobody can tell who said what, so all of it counts as text from outside. If
        the host reports it, only tool results and the answers after them do.
        """
        clean = list(_graded(_checked(messages), by_model=by_model))
        with self._lock:
            session_id = _session_id(self.source, key)
            if self.database.find_session(session_id) is None:
                project = self._parts.project or None
                self.database.create_session(
                    source=self.source, title=title or None, session_id=session_id, cwd=cwd, project=project
                )
            stored = [_gist(each.message) for each in self.database.messages(session_id)]
            fresh = clean[_already(stored, [_gist(message) for message in clean]) :]
            self.database.append_many(session_id, fresh)
            self.database.sync()
        return {"success": True, "session_id": session_id, "added": len(fresh), "messages": len(stored) + len(fresh)}

    def record_unnamed(self, host: str, messages: Sequence[Mapping[str, Any]], *, title: str = "") -> dict[str, Any]:
        """Adds a conversation that its host has no name for; it is recognized by its messages from the first one on.

        One host may have several conversations over one connection, and many of them begin with the same greeting.
        """
        gists = [_gist(message) for message in _checked(messages)]
        beginning = f"{host}\n{gists[0][1] if gists else ''}".encode("utf-8", "replace")
        with self._lock:
            numbered = (hashlib.sha256(b"%d %b" % (number, beginning)).hexdigest()[:16] for number in itertools.count())
            key = next(key for key in numbered if self._goes_on(key, gists))
            return {**self.record(key, messages, title=title, by_model=True), "conversation": key}

    def _goes_on(self, key: str, gists: list[tuple[str, str]]) -> bool:
        """Whether these messages can continue the conversation of this name, or no such conversation exists."""
        session_id = _session_id(self.source, key)
        if self.database.find_session(session_id) is None:
            return True
        stored = (_gist(each.message) for each in self.database.messages(session_id))
        return all(old == new for old, new in zip(stored, gists, strict=False))

    def status(self) -> dict[str, Any]:
        """Version, person, and how much memory and conversations hold; unreadable parts say so."""
        state: dict[str, Any] = {"version": __version__, "person": self.home.person or "owner", "memory": {}}
        for target in self.targets:
            try:
                state["memory"][target] = self.entries(target)["usage"]
            except HermesError as error:
                state["memory"][target] = f"cannot be read: {error}"
        try:
            state["conversations"] = self.past.counts()
            state["bytes"] = Maintenance.of_db(self.past).sizes()["file_bytes"]
        except HermesError as error:
            state["conversations"] = f"cannot be read: {error}"
        if self._parts.project:
            state["project"] = self._parts.project
        return state


def _checked(messages: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for number, message in enumerate(messages, start=1):
        role, content = message.get("role"), message.get("content")
        if role not in ROLES:
            raise WriteRefused(f"message {number}: role must be one of {', '.join(ROLES)}", kind="role")
        if not isinstance(content, str):
            raise WriteRefused(f"message {number}: content must be a text", kind="content")
        yield dict(storable({"role": role, "content": scrub(content)}))


def _graded(messages: Iterator[dict[str, Any]], *, by_model: bool) -> Iterator[dict[str, Any]]:
    outside = "tool" if by_model else ""
    for message in messages:
        if message["role"] in ("tool", "system"):
            outside = outside or ("tool" if message["role"] == "tool" else "host")
        is_said = message["role"] == "user" and not by_model
        yield message if is_said or not outside else {**message, OUTSIDE: outside}


def _session_id(source: str, key: str) -> str:
    return f"{source[:40]}-{hashlib.sha256(key.encode('utf-8', 'replace')).hexdigest()[:16]}"


def _gist(message: Mapping[str, Any]) -> tuple[str, str]:
    return str(message.get("role")), str(message.get("content") or "")


def _already(stored: list[tuple[str, str]], given: list[tuple[str, str]]) -> int:
    """How many of the given messages are stored already, as the last ones: hosts send the whole history again."""
    for count in range(min(len(stored), len(given)), 0, -1):
        if stored[-count:] == given[:count]:
            return count
    return 0
