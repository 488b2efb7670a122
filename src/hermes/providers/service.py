"""`ServiceProvider`: what the bundled providers share, and helpers for the texts and ids they send.

A provider does not retry: the manager keeps failed writes and tries again later, a turn continues without a recall that
failed, and the model may call a tool again.
"""

from __future__ import annotations

import hashlib
import os
import re
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from hermes.base.errors import HermesError, ProviderError, WriteRefused
from hermes.providers.base import MemoryProvider, tool_error, tool_result
from hermes.providers.config import TEXTS, configured, missing_fields, read_config, save_config
from hermes.providers.manager import home_of_the_caller
from hermes.safety.fence import sanitize_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Messages = list[dict[str, str]]
    Store = Callable[[str, list[Messages], str], None]  # session, turns, key

Client = TypeVar("Client")
LONGEST_QUERY = 2_000  # characters
_NOT_SAVED = ("unreachable", "limited", "key", "missing", "refused", "absent")  # nothing was stored in these cases
_NO_ID = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A finished exchange, without the text that was recalled for it."""

    user: str
    assistant: str
    session: str
    steps: Sequence[Mapping[str, Any]]  # the turn with its tool calls and results
    key: str  # the same for every attempt

    def spoken(self) -> list[dict[str, str]]:
        """The exchange as two messages in OpenAI's format, without tool calls."""
        return [{"role": "user", "content": self.user}, {"role": "assistant", "content": self.assistant}]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry of curated memory that was added or removed."""

    target: str
    text: str
    session: str
    key: str  # the same for every attempt


class ServiceProvider(MemoryProvider, Generic[Client]):
    """The base of the bundled providers; `Client` is the type of the object that talks to the service.

    A subclass has `FIELDS` (its configuration), `TOOLS` (schemas), `_connect`, and a method named after each tool. It
    stores turns in `_store_turn`, and mirrors curated memory in `_keep` and `_withdraw`. Each of them may be called
    again with the same argument, and must then store nothing twice.
    """

    FIELDS: ClassVar[tuple[dict[str, Any], ...]] = ()
    TOOLS: ClassVar[tuple[dict[str, Any], ...]] = ()

    def __init__(self) -> None:
        self._api: Client | None = None
        self._config: dict[str, Any] = {}
        self._home = ""
        self._session_id = ""
        self._platform = ""
        self._person = ""  # whose memory this is if one process serves several people, else empty
        self._identity = ""
        self._writes = True

    @abstractmethod
    def _connect(self) -> None:
        """Creates the client from `self._config`; calls the service only if necessary."""

    @abstractmethod
    def _store_turn(self, turn: Turn) -> None:
        """Stores a turn of a conversation with a person."""

    @abstractmethod
    def _keep(self, entry: Entry) -> None:
        """Stores an entry of curated memory."""

    @abstractmethod
    def _withdraw(self, entry: Entry) -> None:
        """Deletes an entry of curated memory, if the service has it."""

    def _replace(self, old: Entry, new: Entry) -> None:
        self._keep(new)
        self._withdraw(old)  # last, so that a failure in between loses nothing

    def is_available(self) -> bool:
        return not self._missing(self._configured(home_of_the_caller()))

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """Reads the configuration and creates the client; raises a ProviderError that names missing settings."""
        self._home = str(kwargs.get("hermes_home") or home_of_the_caller())
        self._config = self._configured(self._home)
        if missing := self._missing(self._config):
            raise ProviderError(
                f"{self.name} needs {', '.join(missing)}: `hermes memory setup {self.name}`", kind="absent"
            )
        self._session_id = session_id
        self._platform = str(kwargs.get("platform") or "")
        self._person = str(kwargs.get("user_id") or "")
        self._identity = str(kwargs.get("agent_identity") or "default")
        # Work without a person (cron, flush, delegated) reads memory but does not write it.
        self._writes = str(kwargs.get("agent_context") or "primary") == "primary"
        self._connect()

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        return [dict(schema) for schema in self.TOOLS]

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:
        """Runs the method named after the tool; its errors become the tool's result, so that the model can react."""
        names = [str(schema["name"]) for schema in self.get_tool_schemas()]
        if tool_name not in names:
            return tool_error(f"{self.name} has no tool {tool_name!r}; its tools are {', '.join(names)}")
        try:
            return tool_result(getattr(self, tool_name)(args))
        except WriteRefused as refused:
            return tool_error(refused, **refused.details)
        except (HermesError, TypeError, ValueError) as error:
            return tool_error(error)

    def system_prompt_block(self) -> str:
        """The text in `providers/text/NAME.md`."""
        with open(os.path.join(TEXTS, f"{self.name}.md"), encoding="utf-8") as file:
            return file.read().strip()

    def sync_turn(
        self,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str = "",
        messages: list[dict[str, Any]] | None = None,
        idempotency_key: str = "",
    ) -> None:
        """Stores the turn with `_store_turn`, unless no person takes part (cron, flush, subagents)."""
        if self._writes:
            turn = Turn(
                user=self._storable(user_content),
                assistant=self._storable(assistant_content),
                session=session_id or self._session_id,
                steps=messages or (),
                key=idempotency_key,
            )
            self._store_turn(turn)

    def on_memory_write(
        self, action: str, target: str, content: str, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Translates a write to curated memory into `_keep`, `_withdraw` or `_replace`."""
        if not self._writes:
            return
        given = metadata or {}
        texts = content if action in ("add", "replace") else "", str(given.get("old_text") or "")
        session, key = str(given.get("session_id") or self._session_id), str(given.get("idempotency_key") or "")
        new, old = (Entry(target=target, text=self._storable(each), session=session, key=key) for each in texts)
        if new.text and old.text not in ("", new.text):
            self._replace(old, new)
        elif new.text:
            self._keep(new)
        elif old.text:
            self._withdraw(old)

    def _storable(self, text: str) -> str:
        return clean(text)

    def on_session_switch(self, new_session_id: str, **kwargs: Any) -> None:
        self._session_id = new_session_id

    def get_config_schema(self) -> list[dict[str, Any]]:
        """The fields that set-up asks for; those marked `file_only` can only be set in the file."""
        return [dict(field) for field in self.FIELDS if not field.get("file_only")]

    def get_status_config(self, provider_config: dict[str, Any]) -> dict[str, Any]:
        """The effective configuration; secrets only as "set" or "not set"."""
        secret = {field["key"] for field in self.FIELDS if field.get("secret")}
        shown = {**provider_config, **self._config}
        return {key: ("set" if value else "not set") if key in secret else value for key, value in shown.items()}

    def forget_person(self) -> str:
        return self._forget() if self._person else ""  # without a person, the data belongs to everybody

    def _forget(self) -> str:
        """Deletes what the service knows about `self._person`; returns one line about it."""
        return ""

    def _opened(self) -> Client:
        if self._api is None:
            raise ProviderError(f"{self.name} is not open; start a session first", kind="absent")
        return self._api

    def _configured(self, hermes_home: str) -> dict[str, Any]:
        return configured(self.name, hermes_home, self.FIELDS)

    def _missing(self, values: dict[str, Any]) -> list[str]:
        return [str(field.get("env_var") or field["key"]) for field in missing_fields(self.FIELDS, values)]


class TurnBatches:
    """Buffers turns on disk and stores them in batches; a crash loses nothing."""

    def __init__(self, name: str, hermes_home: str, store: Store) -> None:
        self._file = f"{name}_turns"
        self._home = hermes_home
        self._store = store

    def add(self, session: str, turn: Messages, key: str, *, together: int) -> None:
        """Stores a session's turns once `together` of them wait; turns that wait for other sessions are stored now."""
        if together <= 1:
            self._store(session, [turn], key)
            return
        # A killed program never finished its sessions.
        for other in self._all():
            if other != session:
                self.finish(other)
        # An earlier attempt with this key may have written the turn and then failed to store the batch.
        waiting = [each for each in self._all().get(session) or () if each["key"] != key]
        save_config(self._file, self._home, {session: [*waiting, {"key": key, "turn": turn}]})
        if len(waiting) + 1 >= together:
            self.finish(session)

    def finish(self, session: str) -> None:
        """Stores the waiting turns of a session now, however few there are."""
        if waiting := self._all().get(session):
            self._store(session, [each["turn"] for each in waiting], str(waiting[-1]["key"]))
            save_config(self._file, self._home, {session: None})

    def _all(self) -> dict[str, Any]:
        return read_config(self._file, self._home)


class SendOnce:
    """Sends each key once, even if an earlier attempt arrived and only its answer was lost.

    After a start, the first key is looked up too, because the previous process may have sent it.
    """

    def __init__(self) -> None:
        self._unsure = {""}  # keys that may have arrived; "" stands for the first key after a start

    def send(self, key: str, send: Callable[[], object], *, arrived: Callable[[], object]) -> None:
        """Calls `send` unless `arrived` finds that the service already has the data."""
        if not (key and self._unsure & {"", key} and arrived()):
            try:
                send()
            except ProviderError as error:
                if error.kind not in _NOT_SAVED:
                    self._unsure.add(key)
                raise
        self._unsure -= {"", key}


def forget_all(listing: Callable[[], Iterable[str]], forget: Callable[[str], object]) -> tuple[int, int]:
    """Deletes everything that `listing` returns, page after page; returns how many are gone and how many are left."""
    # A listing may still show what was just deleted, so what was tried once is not tried again.
    tried: set[str] = set()
    while fresh := (listed := set(listing())) - tried:
        for each in fresh:
            forget(each)
        tried |= fresh
    return len(tried - listed), len(listed)


def text_of(args: dict[str, Any], key: str) -> str:
    """A text that a tool requires; a ProviderError if it is missing or empty."""
    text = args.get(key)
    if not isinstance(text, str) or not text.strip():
        raise ProviderError(f"this tool needs {key}, a text", kind="refused")
    return text.strip()


def count_of(args: dict[str, Any], key: str, default: int, most: int) -> int:
    """A number from the arguments of a tool, between 1 and `most`."""
    return min(max(int(args.get(key) or default), 1), most)


def one_of(args: dict[str, Any], key: str, allowed: Iterable[str], default: str = "") -> str:
    """An argument with a few allowed values, which the error lists."""
    chosen, names = str(args.get(key) or default), list(allowed)
    if chosen not in names:
        raise ProviderError(f"{key} must be one of {', '.join(names)}, not {chosen!r}", kind="refused")
    return chosen


def clean(text: str) -> str:
    """The text without recalled memory, which must not be stored again."""
    return sanitize_context(text).strip()


def question(query: str) -> str:
    """A person's message as a query: on one line, and limited in length."""
    return " ".join(query.split())[:LONGEST_QUERY]


def plain_id(text: str, longest: int = 100) -> str:
    """The text as an id that services accept: letters, digits, "_" and "-"; "default" if nothing is left."""
    return _NO_ID.sub("-", text).strip("-")[:longest] or "default"


def distinct_id(text: str, longest: int = 100) -> str:
    """The same, but unique: texts that differ only in characters that an id cannot have get different ids."""
    plain = plain_id(text, longest)
    if plain == text:
        return plain
    mark = digest(text, 8)
    return f"{plain[: longest - len(mark) - 1]}-{mark}"


def digest(text: str, longest: int = 24) -> str:
    """The first hexadecimal digits of a text's SHA-256."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:longest]


def entry_id(target: str, text: str) -> str:
    """The id of a curated entry at services that let us choose ids."""
    return f"hermes-{target}-{digest(text)}"


def bullets(heading: str, lines: Iterable[str]) -> str:
    """A heading and a line for each fact, without duplicates; empty if there are no facts."""
    kept = list(dict.fromkeys(" ".join(line.split()) for line in lines if line and line.strip()))
    return "\n".join([heading, *(f"- {line}" for line in kept)]) if kept else ""
