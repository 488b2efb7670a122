"""One person's memory, opened once and kept open: what the MCP server and the plain HTTP API do for them.

Every call is safe from any thread. Nothing here knows another person: the home is all there is.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import threading
import time
from typing import TYPE_CHECKING, Any

from hermes.base.errors import HermesError, NotFound, WriteRefused
from hermes.base.text import change_texts
from hermes.base.version import __version__
from hermes.base.words import scrub
from hermes.conversations.retrieval import Finder
from hermes.memory.entries import Cause
from hermes.memory.file import FILES
from hermes.memory.store import block, blocked_in_prompt, usage
from hermes.safety.fence import storable
from hermes.safety.secrets import mask_secrets
from hermes.session.parts import open_parts
from hermes.tools.taint import TurnContext

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hermes.conversations.database import SessionDB
    from hermes.conversations.retrieval import Criteria, Found
    from hermes.memory.store import MemoryStore, Written
    from hermes.settings.home import Home
    from hermes.storage.records import Session, StoredMessage

DECISIONS = ("approve", "reject")


ROLES = ("user", "assistant", "tool", "system")
# A host does not say when its user speaks; after this many seconds of silence a call counts as a new turn, so that
# what a search brought in long ago no longer taints what is written now.
_PAUSE = 60.0
_LONGEST_KEY = 200


class Workspace:
    def __init__(
        self,
        home: Home,
        *,
        source: str = "api",
        project: str | None = "",
        cwd: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.home = home
        self.source = source
        self._clock = clock
        self._lock = threading.RLock()
        self._parts = open_parts(home, owner="local", project=project, cwd=cwd)
        self._last_call = clock()

    @property
    def store(self) -> MemoryStore:
        if self._parts.store is None:
            raise WriteRefused(
                "memory is switched off (memory.memory_enabled, memory.user_profile_enabled)", kind="disabled"
            )
        return self._parts.store

    @property
    def targets(self) -> tuple[str, ...]:
        return self._parts.store.targets if self._parts.store else ()

    @property
    def database(self) -> SessionDB:
        """Past conversations; raises why they cannot be used, and tries again at the next call."""
        with self._lock:
            self._parts.storage.try_again()
            return self._parts.database

    @property
    def past(self) -> SessionDB:
        """The same, to read: also while another program keeps them locked."""
        with self._lock:
            self._parts.storage.try_again()
            return self._parts.storage.readable

    def close(self) -> None:
        with self._lock:
            self._parts.close()

    def call_tool(self, name: str, arguments: Mapping[str, Any], *, session: str = "", note: str = "") -> str:
        """Calls one of the tools as a model would; JSON text comes back whatever happens."""
        with self._lock:
            now = self._clock()
            if now - self._last_call > _PAUSE:
                self._parts.toolbox.start_turn()
            self._last_call = now
            return self._parts.toolbox.call(name, arguments, TurnContext(session=session, note=note))

    def schema(self, name: str) -> dict[str, Any]:
        tool = self._parts.toolbox.get(name)
        if tool is None:
            raise NotFound(f"there is no tool {name!r}")
        return tool.schema

    def entries(self, target: str) -> dict[str, Any]:
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
        """The same, without the words of an entry that a prompt would not show."""
        found = self.entries(target)
        return {**found, "entries": self.store.shown(target, found["entries"])}

    def write(self, target: str, operations: Sequence[dict[str, str]], note: str) -> Written:
        """A change a person asks for themselves."""
        return self.store.apply(target, list(operations), cause=Cause(origin="user", note=note))

    def memory_text(self, target: str) -> str:
        """The live block of a memory file as a prompt would show it; empty when there is nothing in it."""
        entries = tuple(dict.fromkeys(self.store.entries(target)))
        shown = blocked_in_prompt(entries, FILES[target])
        return block(target, shown, usage(entries, self.store.limit(target)))

    def search(self, query: str, wanted: Criteria) -> Found:
        return Finder(self.past, mask=mask_secrets).find(query, wanted)

    def session(self, name: str) -> Session:
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
        """A message for the outside: what was said and called, with secrets masked."""
        kept = {name: message[name] for name in ("role", "name", "tool_call_id") if message.get(name)}
        content = message.get("content")
        kept["content"] = change_texts(content, mask_secrets)
        if message.get("tool_calls"):
            kept["tool_calls"] = change_texts(message["tool_calls"], mask_secrets)
        return kept

    def record(
        self, key: str, messages: Sequence[Mapping[str, Any]], *, title: str = "", cwd: str | None = None
    ) -> dict[str, Any]:
        """Adds a conversation that happened elsewhere, or what is new of it; `key` is the host's own name for it."""
        clean = list(_checked(messages))
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
        """Adds a conversation that its host has no name for; it is known by its first message, and how it went on.

        One host may hold several conversations over one connection, and many of them begin with the same greeting.
        """
        gists = [_gist(message) for message in _checked(messages)]
        beginning = f"{host}\n{gists[0][1] if gists else ''}".encode("utf-8", "replace")
        with self._lock:
            numbered = (hashlib.sha256(b"%d %b" % (number, beginning)).hexdigest()[:16] for number in itertools.count())
            key = next(key for key in numbered if self._goes_on(key, gists))
            return {**self.record(key, messages, title=title), "conversation": key}

    def _goes_on(self, key: str, gists: list[tuple[str, str]]) -> bool:
        """Whether the messages, from the first on, may be those of the conversation of this name."""
        session_id = _session_id(self.source, key)
        if self.database.find_session(session_id) is None:
            return True
        stored = (_gist(each.message) for each in self.database.messages(session_id))
        return all(old == new for old, new in zip(stored, gists, strict=False))

    def status(self) -> dict[str, Any]:
        state: dict[str, Any] = {"version": __version__, "person": self.home.person or "owner", "memory": {}}
        for target in self.targets:
            try:
                state["memory"][target] = self.entries(target)["usage"]
            except HermesError as error:
                state["memory"][target] = f"cannot be read: {error}"
        try:
            state["conversations"] = self.past.counts()
            state["bytes"] = os.path.getsize(self.past.path)
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


def _session_id(source: str, key: str) -> str:
    return f"{source[:40]}-{hashlib.sha256(key.encode('utf-8', 'replace')).hexdigest()[:16]}"


def _gist(message: Mapping[str, Any]) -> tuple[str, str]:
    return str(message.get("role")), str(message.get("content") or "")


def _already(stored: list[tuple[str, str]], given: list[tuple[str, str]]) -> int:
    """How many of the given messages are the end of what is stored: hosts send the whole history again."""
    for count in range(min(len(stored), len(given)), 0, -1):
        if stored[-count:] == given[:count]:
            return count
    return 0
