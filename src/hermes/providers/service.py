"""`ServiceProvider`: what the providers that come with Hermes share, and the small texts and ids that they build.

What should be stored and was not is kept by the manager, which tries again later; a recall that fails is left out of
the turn, and a model may call a tool once more.
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
from hermes.providers.config import TEXTS, configured, missing_fields
from hermes.providers.manager import home_of_the_caller
from hermes.safety.fence import sanitize_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

Client = TypeVar("Client")
LONGEST_QUERY = 2_000
_NOT_SAVED = ("unreachable", "limited", "key", "missing", "refused", "absent")  # nothing was stored, for sure
_NO_ID = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A finished exchange as it may be stored: without what was recalled for it."""

    user: str
    assistant: str
    session: str
    steps: Sequence[Mapping[str, Any]]  # the turn with its tool calls and results
    key: str  # the same for every attempt

    def spoken(self) -> list[dict[str, str]]:
        return [{"role": "user", "content": self.user}, {"role": "assistant", "content": self.assistant}]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry of curated memory that is written or taken back."""

    target: str
    text: str
    session: str
    key: str  # the same for every attempt


class ServiceProvider(MemoryProvider, Generic[Client]):
    """A subclass has `FIELDS` (its configuration), `TOOLS` (schemas), `_connect`, and a method named like each tool.

    It stores with `_store_turn`, and mirrors curated memory with `_keep` and `_withdraw`. Each may be called again with
    the same thing.
    """

    FIELDS: ClassVar[tuple[dict[str, Any], ...]] = ()
    TOOLS: ClassVar[tuple[dict[str, Any], ...]] = ()

    def __init__(self) -> None:
        self._api: Client | None = None
        self._config: dict[str, Any] = {}
        self._home = ""
        self._session_id = ""
        self._platform = ""
        self._person = ""  # whose memory this is where one process serves many; empty for the only one
        self._identity = ""
        self._writes = True

    @abstractmethod
    def _connect(self) -> None:
        """Makes the client from `self._config`; asks nothing that can wait until it is needed."""

    @abstractmethod
    def _store_turn(self, turn: Turn) -> None:
        """Stores a turn that somebody took part in."""

    @abstractmethod
    def _keep(self, entry: Entry) -> None:
        """Has the service hold an entry of curated memory."""

    @abstractmethod
    def _withdraw(self, entry: Entry) -> None:
        """Takes an entry back that the service may hold."""

    def _replace(self, old: Entry, new: Entry) -> None:
        self._keep(new)
        self._withdraw(old)  # last, so that a failure in between loses nothing

    def is_available(self) -> bool:
        return not self._missing(self._configured(home_of_the_caller()))

    def initialize(self, session_id: str, **kwargs: Any) -> None:
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
        # Work that nobody talks to (cron, flush, delegated) reads memory and does not write it.
        self._writes = str(kwargs.get("agent_context") or "primary") == "primary"
        self._connect()

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        return [dict(schema) for schema in self.TOOLS]

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:
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
        """What set-up asks; fields marked `file_only` are for those who edit the file."""
        return [dict(field) for field in self.FIELDS if not field.get("file_only")]

    def get_status_config(self, provider_config: dict[str, Any]) -> dict[str, Any]:
        secret = {field["key"] for field in self.FIELDS if field.get("secret")}
        shown = {**provider_config, **self._config}
        return {key: ("set" if value else "not set") if key in secret else value for key, value in shown.items()}

    def forget_person(self) -> str:
        return self._forget() if self._person else ""  # without a person, what is stored is everybody's

    def _forget(self) -> str:
        """Deletes what the service has of `self._person`; says in one line what was done."""
        return ""

    def _opened(self) -> Client:
        if self._api is None:
            raise ProviderError(f"{self.name} is not open; start a session first", kind="absent")
        return self._api

    def _configured(self, hermes_home: str) -> dict[str, Any]:
        return configured(self.name, hermes_home, self.FIELDS)

    def _missing(self, values: dict[str, Any]) -> list[str]:
        return [str(field.get("env_var") or field["key"]) for field in missing_fields(self.FIELDS, values)]


class SendOnce:
    """Sends what has a key once, also when an attempt arrived and only its answer was lost.

    After a start nobody knows whether the last attempt of the process before arrived, so the first is looked for too.
    """

    def __init__(self) -> None:
        self._unsure = {""}

    def send(self, key: str, send: Callable[[], object], *, arrived: Callable[[], object]) -> None:
        """`arrived` asks the service whether it has what `send` would store."""
        if not (key and self._unsure & {"", key} and arrived()):
            try:
                send()
            except ProviderError as error:
                if error.kind not in _NOT_SAVED:
                    self._unsure.add(key)
                raise
        self._unsure -= {"", key}


def forget_all(listing: Callable[[], Iterable[str]], forget: Callable[[str], object]) -> tuple[int, int]:
    """Forgets everything that a listing names, however many pages it takes; how many are gone, and how many are not."""
    tried: set[str] = set()
    while fresh := (listed := set(listing())) - tried:
        for each in fresh:
            forget(each)
        tried |= fresh
    return len(tried - listed), len(listed)


def text_of(args: dict[str, Any], key: str) -> str:
    """A text the tool cannot do without."""
    text = args.get(key)
    if not isinstance(text, str) or not text.strip():
        raise ProviderError(f"this tool needs {key}, a text", kind="refused")
    return text.strip()


def count_of(args: dict[str, Any], key: str, default: int, most: int) -> int:
    return min(max(int(args.get(key) or default), 1), most)


def one_of(args: dict[str, Any], key: str, allowed: Iterable[str], default: str = "") -> str:
    """A choice between a few words; an error names them."""
    chosen, names = str(args.get(key) or default), list(allowed)
    if chosen not in names:
        raise ProviderError(f"{key} must be one of {', '.join(names)}, not {chosen!r}", kind="refused")
    return chosen


def clean(text: str) -> str:
    """What may be stored: nothing that was recalled only a moment ago."""
    return sanitize_context(text).strip()


def question(query: str) -> str:
    """A person's words as services take them for a query: not empty, not a whole file."""
    return " ".join(query.split())[:LONGEST_QUERY]


def plain_id(text: str, longest: int = 100) -> str:
    """The text as services take it for an id."""
    return _NO_ID.sub("-", text).strip("-")[:longest] or "default"


def distinct_id(text: str, longest: int = 100) -> str:
    """The same, and different for texts that differ only in what an id cannot have: two people stay two."""
    plain = plain_id(text, longest)
    if plain == text:
        return plain
    mark = digest(text, 8)
    return f"{plain[: longest - len(mark) - 1]}-{mark}"


def digest(text: str, longest: int = 24) -> str:
    """A name for a text: the same text has the same."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:longest]


def entry_id(target: str, text: str) -> str:
    """What an entry of curated memory is called at a service that takes names of ours."""
    return f"hermes-{target}-{digest(text)}"


def bullets(heading: str, lines: Iterable[str]) -> str:
    """A heading with a line for each fact, each once; empty when there are none."""
    kept = list(dict.fromkeys(" ".join(line.split()) for line in lines if line and line.strip()))
    return "\n".join([heading, *(f"- {line}" for line in kept)]) if kept else ""
