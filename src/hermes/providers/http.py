"""What providers of HTTP services share: deadlines, one kind of error, and no key ever shown.

Each call is one attempt. What should be stored and was not is kept by the manager, which tries again later; a recall
that fails is left out of the turn, and a model may call a tool once more.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import httpx

from hermes.base.errors import HermesError, Interrupted, ProviderError
from hermes.llm.client import retry_after
from hermes.llm.transport import CANCELLED, shared_client
from hermes.providers.base import MemoryProvider, tool_error, tool_result
from hermes.providers.config import TEXTS, configured, missing_fields
from hermes.providers.manager import home_of_the_caller
from hermes.safety.fence import sanitize_context
from hermes.safety.secrets import mask_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Shape = type | tuple[type, ...] | dict[str, Any] | list[Any] | None

Found = TypeVar("Found")
Client = TypeVar("Client")
LONGEST_QUERY = 2_000
_LARGEST_ANSWER = 16 << 20
_LONGEST_QUOTE = 300
_SHORTEST_SECRET = 6
_BUSY = frozenset({408, 425})  # like every 5xx: the same request may work later
_MARKUP = re.compile(r"<[^>]{0,500}>")
_NOT_SAVED = ("unreachable", "limited", "key", "missing", "refused", "absent")  # nothing was stored, for sure
_NO_ID = re.compile(r"[^A-Za-z0-9_-]+")


class Remote:
    """One service. `secrets` are texts that must never appear in an error; `key_hint` says where the key belongs."""

    def __init__(
        self,
        name: str,
        base_url: str,
        *,
        headers: Mapping[str, str] | None = None,
        secrets: Iterable[str] = (),
        timeout: float = 10.0,
        key_hint: str = "",
        client: Callable[[], httpx.Client] = shared_client,
    ) -> None:
        self.name = name
        self.base_url = base_url.rstrip("/")
        self._headers = {"Accept": "application/json", **(headers or {})}
        self._secrets = [each for each in secrets if len(each) >= _SHORTEST_SECRET]
        self._timeout = timeout
        self._key_hint = key_hint or f"run `hermes memory setup {name}` to set the key"
        self._client = client

    def get(self, path: str, *, params: Mapping[str, Any] | None = None, expect: Shape = dict, **more: Any) -> Any:
        return self.request("GET", path, params=params, expect=expect, **more)

    def post(self, path: str, body: Any = None, *, expect: Shape = dict, **more: Any) -> Any:
        return self.request("POST", path, body, expect=expect, **more)

    def put(self, path: str, body: Any = None, *, expect: Shape = None, **more: Any) -> Any:
        return self.request("PUT", path, body, expect=expect, **more)

    def delete(self, path: str, *, expect: Shape = None, **more: Any) -> Any:
        return self.request("DELETE", path, expect=expect, **more)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        expect: Shape = dict,
        files: Any = None,
    ) -> Any:
        """One call; `expect=None` takes any answer but a page, also none at all, and `expect=str` is for text."""
        sent = {**self._headers, **(headers or {})}
        arguments: dict[str, Any] = {"headers": sent, "params": _sendable(params)}
        if files is not None:
            arguments["files"] = files
        elif body is not None:
            arguments["content"] = json.dumps(body, ensure_ascii=False).encode("utf-8", "backslashreplace")
            sent.setdefault("Content-Type", "application/json")
        seconds = timeout or self._timeout
        end = time.monotonic() + seconds
        waiting = {CANCELLED: lambda: time.monotonic() > end}
        url = f"{self.base_url}/{path.lstrip('/')}"
        try:
            with self._client().stream(method, url, timeout=seconds, extensions=waiting, **arguments) as answer:
                data = self._body(answer, end)
        except (httpx.TimeoutException, Interrupted) as error:
            slow = f"{self.name} did not answer in time ({seconds:g} s); check the service, or give it more time"
            raise ProviderError(slow, kind="slow") from error
        except httpx.ConnectError as error:
            why = self._hidden(str(error) or type(error).__name__)
            where = f"{self.name} cannot be reached at {self.base_url}: {why}"
            raise ProviderError(f"{where} (is it running, and is the address right?)", kind="unreachable") from error
        except httpx.InvalidURL as error:
            raise ProviderError(f"{self.name}: {self.base_url!r} is no address: {error}", kind="absent") from error
        except httpx.HTTPError as error:
            broke = f"{self.name}: the connection broke: {self._hidden(str(error) or type(error).__name__)}"
            raise ProviderError(f"{broke} (it is tried again later)", kind="busy") from error
        if answer.status_code >= 400:  # noqa: PLR2004 - where HTTP errors begin
            raise self._failure(answer, data)
        return self._decoded(answer, data, expect)

    def _body(self, answer: httpx.Response, end: float) -> bytes:
        pieces, size = [], 0
        for piece in answer.iter_bytes():
            size += len(piece)
            if size > _LARGEST_ANSWER:
                raise ProviderError(f"{self.name} answered with more than {_LARGEST_ANSWER:,} bytes", kind="malformed")
            if time.monotonic() > end:
                raise ProviderError(f"{self.name} answers too slowly; check the service", kind="slow")
            pieces.append(piece)
        return b"".join(pieces)

    def _failure(self, answer: httpx.Response, data: bytes) -> ProviderError:
        status = answer.status_code
        said = self._hidden(_message_in(data))
        answered = f"{self.name} answered {status}: {said}"
        wait = retry_after(answer.headers, time.time())
        if status in (401, 403):
            return ProviderError(f"{answered} ({self._key_hint})", kind="key", status=status)
        if status == 429:  # noqa: PLR2004
            asked = f"it asks to wait {wait:g} s" if wait is not None else "it does not say how long to wait"
            return ProviderError(f"{answered} ({asked})", kind="limited", seconds=wait, status=status)
        if status in _BUSY or status >= 500:  # noqa: PLR2004
            return ProviderError(f"{answered} (it is tried again later)", kind="busy", seconds=wait, status=status)
        if status in (404, 410):
            return ProviderError(f"{answered} (check the address {self.base_url})", kind="missing", status=status)
        return ProviderError(f"{answered} (the request was not accepted as it is)", kind="refused", status=status)

    def _decoded(self, answer: httpx.Response, data: bytes, expect: Shape) -> Any:
        if expect is str:
            return data.decode("utf-8", "replace")
        if expect is None and not data.strip():
            return None
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            text = data.decode("utf-8", "replace")
            if expect is None and not text.lstrip().startswith("<"):
                return text
            kind = answer.headers.get("content-type", "no content type")
            wrong = f"{self.name} answered {answer.status_code} with {kind} instead of JSON; is {self.base_url} right?"
            raise ProviderError(wrong, kind="astray", status=answer.status_code) from error
        if wrong := misfit(expect, found):
            said = f"{self.name} answered something unexpected ({wrong}); is its version one this provider knows?"
            raise ProviderError(said, kind="malformed", status=answer.status_code)
        return found

    def _hidden(self, text: str) -> str:
        for each in self._secrets:
            text = text.replace(each, "[key]")
        text = mask_secrets(" ".join(text.split()))
        return text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "…"


def unless_missing(ask: Callable[[], Found], otherwise: Found) -> Found:
    """What the service answers, or `otherwise` where it does not have what it is asked about."""
    try:
        return ask()
    except ProviderError as error:
        if error.kind != "missing":
            raise
        return otherwise


def misfit(shape: Shape, found: Any, where: str = "the answer") -> str:
    """How a value differs from the shape it should have; empty when it fits."""
    if shape is None or shape is Any:
        return ""
    if isinstance(shape, dict):
        if not isinstance(found, dict):
            return f"{where} is {type(found).__name__}, not an object"
        for key, inner in shape.items():
            name = key.removesuffix("?")
            if found.get(name) is None:
                if key.endswith("?"):
                    continue
                return f"{where} has no {name}"
            if wrong := misfit(inner, found[name], f"{where}.{name}"):
                return wrong
        return ""
    if isinstance(shape, list):
        if not isinstance(found, list):
            return f"{where} is {type(found).__name__}, not a list"
        return next((wrong for i, each in enumerate(found) if (wrong := misfit(shape[0], each, f"{where}[{i}]"))), "")
    fits = isinstance(found, shape) and (shape is bool or not isinstance(found, bool))
    return "" if fits else f"{where} is {type(found).__name__}"


def _sendable(params: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Half a character, as a model may send one, has no place in an address."""
    return {
        key: each.encode("utf-8", "replace").decode() if isinstance(each, str) else each
        for key, each in (params or {}).items()
        if each is not None
    } or None


def _message_in(data: bytes) -> str:
    """What a service says in its error, however it wraps it."""
    try:
        found = json.loads(data[:100_000])
    except (ValueError, RecursionError):
        return _MARKUP.sub(" ", data[:5_000].decode("utf-8", "replace")).strip() or "no reason given"
    for key in ("error", "detail", "message", "msg"):
        if isinstance(found, dict) and found.get(key):
            found = found[key]
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


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
