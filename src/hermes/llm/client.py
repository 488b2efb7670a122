"""The interface every model has, and what all models over HTTP share: retries, waiting, stopping, falling back.

    for event in model.stream(system, messages, tools):
        …TextDelta, ReasoningDelta, ToolCallStarted, ToolCall, Retrying; the last one is Finished…

Messages are OpenAI-format dicts and are never changed in place. Closing the iterator at any point ends the request.

`options` are wishes for this one request, by OpenAI's names: temperature, top_p, max_tokens, stop, seed,
response_format, tool_choice, parallel_tool_calls, reasoning_effort and so on, and also top_k and `thinking` as
Anthropic defines them. A wire translates them, and refuses by name what its API does not have. `announcements` are
memory updates by the position of the message that holds them; a model with `takes_announcements` may send them
separately.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
import tomllib
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from hermes.base.errors import (
    ContextTooLong,
    Interrupted,
    ModelBusy,
    ModelError,
    ModelRefused,
    ModelUnreachable,
    OptionRefused,
    RateLimited,
    WrongKey,
)
from hermes.base.events import Finished, ReasoningDelta, Retrying, TextDelta, ToolCall, ToolCallStarted, Usage
from hermes.storage.images import has_images

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hermes.base.events import ModelEvent
    from hermes.llm.transport import Reply

    Message = Mapping[str, Any]
    Options = Mapping[str, Any]

NO_OPTIONS: Options = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One model at one address. `wire` is openai (chat completions) or anthropic (messages)."""

    model: str
    base_url: str
    provider: str = "a server of your own"
    wire: str = "openai"
    key: str = field(default="", repr=False)
    key_name: str = ""  # the environment variable it comes from, for messages
    context_length: int = 32_768
    max_output: int | None = None  # tokens one answer may have; Anthropic's wire must name a number
    # Where cache points go: "native" on Anthropic's wire, "envelope" in content parts (Claude behind OpenRouter).
    cache_points: str = ""
    cache_ttl: str = "5m"
    system_messages: bool = False  # whether the system may say something in the middle of a conversation
    diagnoses_cache: bool = False  # whether it says what kept a prefix from being read from the cache
    # Which reasoning a server wants back with a tool's result: "", "content" (reasoning_content), "details".
    replays_reasoning: str = ""
    vision: bool = True  # whether it takes images; one that refuses them gets placeholders instead
    timeout: float = 600  # seconds without a byte; a local server may read a long prompt for minutes
    settings: str = "model"  # where its address and provider are set, for messages: model, auxiliary.compression, …
    headers: dict[str, str] = field(default_factory=dict)
    extra_body: dict[str, Any] = field(default_factory=dict)  # more fields of a request, as the provider names them

    @property
    def key_remedy(self) -> str:
        """What a person can do about a refused key, for the end of an error message."""
        if self.key_name and not self.key:
            return f"put {self.key_name}=… into .env or the environment"
        if self.key_name:
            return f"check {self.key_name} in .env or the environment"
        return "the server wants a key: set HERMES_MODEL_API_KEY in .env or the environment"


# The bytes of a request, computed once per message and joined per request, so that a request extends the one before.

_SPARE = 1_000  # messages kept beyond twice the history at hand, for conversations that take turns


def encode(content: object) -> bytes:
    """JSON as the official clients write it; half a character, which no provider accepts, becomes a question mark."""
    return _encoder(content).encode("utf-8", "replace")


_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


class WireLog:
    """Keeps the wire bytes of every message. Messages are never changed in place; a changed one is a new object.

    The object is the key, so a conversation that is forked or compacted still finds the messages it shares. For 1,000
    messages, joining kept bytes takes a quarter of the time of encoding all of them again (`hermes bench turn`).
    """

    def __init__(self, encode_message: Callable[[Message], bytes]) -> None:
        self._encode = encode_message
        self._kept: dict[int, tuple[Message, bytes]] = {}  # holding the message keeps its id from being reused

    def parts(self, messages: Sequence[Message], instead: Mapping[int, Message] = MappingProxyType({})) -> list[bytes]:
        """The bytes of each message; for some positions, `instead` has a copy with a cache point."""
        kept, found = self._kept, []  # another thread may replace `_kept` by a smaller one at any moment
        for message in messages:
            entry = kept.get(id(message))
            if entry is None:
                entry = kept[id(message)] = (message, self._encode(message))
            found.append(entry[1])
        for position, message in instead.items():
            found[position] = self._encode(message)
        if len(kept) > 2 * len(messages) + _SPARE:
            self._kept = {id(message): kept[id(message)] for message in messages}
        return found


# Errors of providers, sorted by what somebody can do about them.

_LONGEST_QUOTE = 300
_SHORTEST_KEY = 8  # local servers accept words such as "none" as a key, and those are not secret

with open(os.path.join(os.path.dirname(__file__), "answers.toml"), "rb") as _file:
    _SAID = tomllib.load(_file)
_NUMBER = r"(\d[\d,_]*\d)"
_LIMITS = tuple(re.compile(each.replace("{number}", _NUMBER), re.IGNORECASE) for each in _SAID["limits"])
_TOO_LONG, _NO_CREDIT, _ABOUT_KEYS, _ABOUT_IMAGES = (
    re.compile(_SAID[name], re.IGNORECASE) for name in ("too-long", "no-credit", "about-keys", "about-images")
)


def failure(endpoint: Endpoint, status: int, headers: Mapping[str, str], body: bytes, now: float) -> ModelError:
    """The error for an answer that is not 200; `headers` find names in any case."""
    return _sorted(endpoint, status, error_in(body), retry_after(headers, now))


def failure_in_stream(endpoint: Endpoint, content: Mapping[str, Any]) -> ModelError:
    """The error for an answer that began well and then sent an error instead of its next part."""
    error = _error_of(content)
    given = (str(error.get("status")), str(error.get("code")), str(_SAID["status"].get(str(error.get("type")))))
    status = next((int(each) for each in given if each.isdecimal()), 500)
    return _sorted(endpoint, status, error, None)


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds the provider asks us to wait: `retry-after-ms`, or `retry-after` as a number or a date."""
    milliseconds = headers.get("retry-after-ms") or ""
    if milliseconds.replace(".", "", 1).isdecimal():
        return float(milliseconds) / 1000
    given = (headers.get("retry-after") or "").strip()
    if given.replace(".", "", 1).isdecimal():
        return float(given)
    try:
        return max(0.0, parsedate_to_datetime(given).timestamp() - now) if given else None
    except ValueError:
        return None


def limit_in(text: str) -> int | None:
    """The number of tokens that would have fitted, if the provider's message names it."""
    for pattern in _LIMITS:
        if found := pattern.search(text):
            return int(re.sub(r"[,_]", "", found.group(1)))
    return None


def _sorted(endpoint: Endpoint, status: int, error: Mapping[str, Any], wait: float | None) -> ModelError:
    said = str(error.get("message") or "no reason given")
    quote = said.replace(endpoint.key, "[key]") if len(endpoint.key) >= _SHORTEST_KEY else said
    quote = quote if len(quote) <= _LONGEST_QUOTE else quote[:_LONGEST_QUOTE] + "…"
    who = f"{endpoint.model} at {endpoint.provider}"
    code = f"{error.get('code')} {error.get('type')} {said}"
    answered = f"{who} answered {status}: {quote}"
    # The order matters: several providers send 400 or 429 for a long conversation or an empty account as well.
    if status in (400, 413, 422, 500) and (_TOO_LONG.search(code) or status == 413):  # noqa: PLR2004 - HTTP statuses
        limit = error.get("n_ctx") if isinstance(error.get("n_ctx"), int) else limit_in(said)
        fits = f"{limit:,} tokens fit" if limit else "it does not say how much would fit"
        remedy = "compact it or start a new one"
        message = f"the conversation is too long for {who} ({fits}): {remedy}. It said: {quote}"
        return ContextTooLong(message, limit=limit, status=status)
    if status == 402 or (status in (400, 403, 429) and _NO_CREDIT.search(code)):  # noqa: PLR2004
        return ModelRefused(f"{answered} (add credit at the provider, or choose another model)", status=status)
    if status in (401, 403) or (status == 400 and _ABOUT_KEYS.search(said)):  # noqa: PLR2004
        return WrongKey(f"{answered} ({endpoint.key_remedy})", status=status)
    if status == 429:  # noqa: PLR2004
        asked = f"it asks to wait {wait:g} s" if wait is not None else "it does not say how long to wait"
        return RateLimited(f"{answered} ({asked})", seconds=wait, status=status)
    if status in (408, 409, 425) or status >= 500:  # noqa: PLR2004
        if wait is not None:
            return RateLimited(f"{answered} (it asks to wait {wait:g} s)", seconds=wait, status=status)
        return ModelBusy(f"{answered} (try again, or name a fallback model)", status=status)
    if status == 404:  # noqa: PLR2004
        remedy = f"check the name of the model and the address {endpoint.base_url}"
        return ModelRefused(f"{answered} ({remedy})", status=status)
    return ModelRefused(f"{answered} (the request was not accepted as it is)", status=status)


def error_in(body: bytes) -> Mapping[str, Any]:
    """The error in the body of an answer, whatever its format; its `message` is a text."""
    try:
        return _error_of(json.loads(body))
    except (ValueError, RecursionError):
        text = re.sub(r"<[^>]{0,500}>", " ", body[:5_000].decode("utf-8", "replace"))
        return {"message": " ".join(text.split()) or "an empty body"}


def _error_of(content: Any) -> Mapping[str, Any]:
    """The error inside an answer; providers wrap it in several ways, and proxies add a few more."""
    error = content.get("error", content) if isinstance(content, dict) else content
    if isinstance(error, dict):
        inner = error.get("message") or error.get("detail") or error.get("msg")
        return {**error, "message": inner if isinstance(inner, str) else json.dumps(inner or error)}
    return {"message": str(error)}


# Puts a streamed answer together: text, reasoning and calls from pieces, into events and one OpenAI-format message.

# Parts of a reasoning detail that arrive in pieces; everything else in it is sent whole.
_GROWING = ("text", "summary", "data")


class Answer:
    """Collects one answer while it arrives. `reason` stays empty until the provider says why it stopped."""

    def __init__(self, model: str) -> None:
        self.model = model
        self._asked = model  # our name of the model; a server may use another
        self.usage = Usage()
        self.reason = ""
        self.texts: list[str] = []  # one per text block; a wire without blocks has one
        self._pieces: list[str] = []
        self._thoughts: list[str] = []
        self._thought_field = "reasoning"
        self._details: list[dict[str, Any]] = []
        self.cache_miss = ""  # what the provider says broke the cache
        self._calls: list[dict[str, Any]] = []
        self._places: dict[Any, dict[str, Any]] = {}  # the current call at each index of the stream

    def write(self, text: str) -> TextDelta:
        """Adds a piece of text to the current block and returns the event that shows it."""
        self._pieces.append(text)
        return TextDelta(text=text)

    def end_text(self) -> None:
        """Ends a text block, for wires whose answers have several."""
        if self._pieces:
            self.texts.append("".join(self._pieces))
            self._pieces = []

    def think(self, text: str, field: str = "reasoning") -> ReasoningDelta:
        """Adds a piece of reasoning; `field` is where the server wants it back in the message."""
        self._thought_field = field
        self._thoughts.append(text)
        return ReasoningDelta(text=text)

    def add_detail(self, detail: Mapping[str, Any]) -> None:
        """Adds reasoning that the provider wants back unchanged; pieces of the same detail are joined."""
        last = self._details[-1] if self._details else {}
        if "index" in detail and all(last.get(key) == detail.get(key) for key in ("index", "type")):
            for key, part in detail.items():
                grows = key in _GROWING and isinstance(part, str) and isinstance(last.get(key), str)
                last[key] = last[key] + part if grows else last.get(key) if part is None else part
        else:
            self._details.append(dict(detail))

    def call(self, piece: Mapping[str, Any]) -> Iterator[ToolCallStarted]:
        """Adds a piece of a tool call: the first one opens it, the others add to its arguments."""
        function = piece.get("function") or {}
        place = piece.get("index", len(self._calls) if piece.get("id") else max(len(self._calls) - 1, 0))
        call = self._places.get(place)
        # Some servers give every parallel call the index 0; a different id then means another call.
        if call is None or (piece.get("id") and piece["id"] != call["_sent_id"] and function.get("name")):
            call = self._open(place, piece)
        named = bool(call["function"]["name"])
        if function.get("name") and not named:
            call["function"]["name"] = function["name"]
            yield ToolCallStarted(id=call["id"], name=function["name"])
        arguments = function.get("arguments") or ""
        call["_pieces"].append(arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False))

    def finish(self) -> Iterator[ToolCall | Finished]:
        """Yields the complete tool calls, then the end with the whole message."""
        self.end_text()
        calls = [self._whole(call) for call in self._calls if call["function"]["name"]]
        for call in calls:
            yield ToolCall(id=call["id"], **call["function"])
        reason = _SAID["reasons"].get(self.reason, self.reason)
        if calls and reason == "stop":  # a few servers say "stop" although they call tools
            reason = "tool_calls"
        yield Finished(message=self._message(calls), usage=self.usage, reason=reason, model=self.model)

    def _open(self, place: Any, piece: Mapping[str, Any]) -> dict[str, Any]:
        sent_id = str(piece.get("id") or "")
        used = {call["id"] for call in self._calls}
        unique = sent_id if sent_id and sent_id not in used else f"call_{os.urandom(9).hex()}"
        others = {key: part for key, part in piece.items() if key not in ("index", "id", "type", "function")}
        call = {"id": unique, "type": "function", "function": {"name": ""}, **others}
        call |= {"_sent_id": sent_id, "_pieces": []}
        self._calls.append(call)
        self._places[place] = call
        return call

    @staticmethod
    def _whole(call: dict[str, Any]) -> dict[str, Any]:
        kept = {key: part for key, part in call.items() if key not in ("_sent_id", "_pieces")}
        arguments = "".join(call["_pieces"])
        return {**kept, "function": {"name": call["function"]["name"], "arguments": arguments or "{}"}}

    def _message(self, calls: list[dict[str, Any]]) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self.texts[0] if self.texts else None}
        if len(self.texts) > 1:
            message["content"] = [{"type": "text", "text": text} for text in self.texts]
        elif not self.texts and not calls:
            message["content"] = ""
        if calls:
            message["tool_calls"] = calls
        if self._thoughts:
            message[self._thought_field] = "".join(self._thoughts)
        if self._details:
            message["reasoning_details"] = self._details
        if self.cache_miss:
            message["cache_miss"] = self.cache_miss
        if "reasoning_content" in message or self._details:
            message["reasoning_model"] = self._asked  # reasoning is sent back to this model only
        return message


_LONGEST_ERROR = 100_000  # bytes of an error page that are read
_SLICE = 0.1  # seconds between two checks whether to stop waiting
_LONGEST_ENDING = 1.0  # seconds a complete answer may take to end

DONE: dict[str, Any] = {}


def never() -> bool:
    """The `cancelled` of a request that nobody can stop."""
    return False


def with_options(options: Options) -> dict[str, Any]:
    """Options as an argument of `stream`: left out if empty, because models of hosts may not accept the argument."""
    return {"options": options} if options else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One question to a model. `cancelled` is checked while the answer arrives."""

    system: str
    messages: Sequence[Message]
    tools: Sequence[Message] = ()
    options: Options = field(default_factory=dict)
    cancelled: Callable[[], bool] = never


class Model(Protocol):
    """What the loop needs from a model: a name, a window and a stream of events."""

    @property
    def name(self) -> str:
        """The name under which answers, prices and messages to the person mention it."""

    @property
    def context_length(self) -> int:
        """Tokens of its window."""

    def stream(
        self,
        system: str,
        messages: Sequence[Message],
        tools: Sequence[Message] = (),
        *,
        cancelled: Callable[[], bool] = never,
    ) -> Iterator[ModelEvent]:
        """Asks once. `cancelled` is checked while waiting; once it returns True, `Interrupted` is raised.

        Ours also accept the keyword `options`; a model of a host needs it only if a caller has options.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often a passing error is retried, and how long to wait for it at most."""

    attempts: int = 4
    first_wait: float = 1.0
    longest_wait: float = 60.0  # a provider that asks for more gets an error, or the fallback model
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random

    def before_retry(self, error: ModelError, attempt: int) -> float | None:
        """Seconds to wait after failed attempt number `attempt`, or None to give up."""
        if not error.passing or attempt >= self.attempts:
            return None
        if isinstance(error, RateLimited) and error.seconds is not None:
            return error.seconds if error.seconds <= self.longest_wait else None
        # Up to a quarter more, so that many clients do not come back at the same moment.
        return float(min(self.first_wait * 2 ** (attempt - 1), self.longest_wait) * (1 + self.chance() / 4))

    def pause(self, seconds: float, cancelled: Callable[[], bool]) -> None:
        """Waits; raises `Interrupted` as soon as `cancelled` returns True."""
        while seconds > 0:
            if cancelled():
                raise Interrupted("stopped while waiting to ask the model again")
            self.sleep(min(seconds, _SLICE))
            seconds -= _SLICE


class OwnModel:
    """Base of our own models: `answer` receives the arguments of `stream` as one request."""

    def stream(
        self,
        system: str,
        messages: Sequence[Message],
        tools: Sequence[Message] = (),
        *,
        cancelled: Callable[[], bool] = never,
        options: Options = NO_OPTIONS,
    ) -> Iterator[ModelEvent]:
        return self.answer(Request(system=system, messages=messages, tools=tools, options=options, cancelled=cancelled))

    def answer(self, request: Request) -> Iterator[ModelEvent]:
        """Yields the events of one answer; the last one is `Finished`."""
        raise NotImplementedError


class Fallback(OwnModel):
    """Several models as one: when the first cannot answer, the next is asked."""

    def __init__(self, models: Sequence[Model]) -> None:
        self._models = tuple(models)

    @property
    def name(self) -> str:
        """The name of the first model, also while another one answers."""
        return self._models[0].name

    @property
    def takes_announcements(self) -> bool:
        """Whether any of the models may send memory updates separately; the others ignore the option."""
        return any(getattr(model, "takes_announcements", False) for model in self._models)

    @property
    def one_at_a_time(self) -> bool:
        """Whether any of the models answers only one request at a time, so that background work would delay turns."""
        return any(getattr(model, "one_at_a_time", False) for model in self._models)

    @property
    def context_length(self) -> int:
        """The smallest window, so that every model can answer what fits."""
        return min(model.context_length for model in self._models)

    def answer(self, request: Request) -> Iterator[ModelEvent]:
        more = with_options(request.options)
        for model, following in zip(self._models, [*self._models[1:], None], strict=True):
            try:
                yield from model.stream(
                    request.system, request.messages, request.tools, cancelled=request.cancelled, **more
                )
            except ModelError as error:
                # If the conversation is too long, it must be shortened; another model would not help.
                if following is None or isinstance(error, ContextTooLong):
                    raise
                yield Retrying(error=error, seconds=0, model=following.name)
            else:
                return


class HttpModel(OwnModel):
    """A model behind HTTP; a wire supplies `path`, `body`, `options`, `asked`, `headers` and `read`."""

    path: str

    def __init__(self, endpoint: Endpoint, retries: Retries | None = None) -> None:
        self.endpoint = endpoint
        self._patience = retries or Retries()
        self._sees = endpoint.vision
        self._log = WireLog(self._encode)
        self._fixed: tuple[str, list[Message], dict[str, Any], bytes] | None = None

    @property
    def name(self) -> str:
        """The model's name at its provider."""
        return self.endpoint.model

    @property
    def context_length(self) -> int:
        """Tokens of its window."""
        return self.endpoint.context_length

    @property
    def takes_announcements(self) -> bool:
        """Whether it accepts a system message in the middle of a conversation."""
        return self.endpoint.system_messages

    def body(
        self, system: str, messages: Sequence[Message], tools: Sequence[Message], wishes: Options = NO_OPTIONS
    ) -> bytes:
        """The request as it is sent; it begins with the bytes of the request before, so that the prefix is cached."""
        raise NotImplementedError

    def beginning(self, system: str, tools: Sequence[Message], wishes: Options) -> bytes:
        """The fields before the messages: the same bytes for as long as prompt, tools and wishes are the same."""
        wanted = self.asked(wishes)
        fixed = self._fixed  # read once: another thread may replace it at any moment
        if fixed is None or fixed[:3] != (system, list(tools), wanted):
            given = self.options(system, tools) | self.endpoint.extra_body
            for name, content in wanted.items():  # wishes for a request take precedence over the settings
                both = isinstance(content, dict) and isinstance(given.get(name), dict)
                given[name] = given[name] | content if both else content
            first = b"".join(encode(name) + b":" + encode(content) + b"," for name, content in given.items())
            fixed = self._fixed = (system, list(tools), wanted, b"{" + first + b'"messages":[')
        return fixed[3]

    def options(self, system: str, tools: Sequence[Message]) -> dict[str, Any]:
        """The fields that every request with this prompt and these tools has."""
        raise NotImplementedError

    def asked(self, wishes: Options) -> dict[str, Any]:
        """The wishes for one request as fields of this wire."""
        raise NotImplementedError

    def refuse(self, option: str, kind: str = "") -> OptionRefused:
        """The error for a wish that this API cannot fulfil."""
        what = f"{option} of the kind {kind}" if kind else option
        return OptionRefused(f"{self.name} at {self.endpoint.provider} has no {what}; leave it out", option=option)

    def headers(self, wishes: Options = NO_OPTIONS) -> dict[str, str]:
        """The headers with which this wire authenticates, and the configured ones."""
        raise NotImplementedError

    def read(self, chunks: Iterable[dict[str, Any]]) -> Iterator[ModelEvent]:
        """The events of one answer; raises what `ended_early` returns when the answer has no end."""
        raise NotImplementedError

    def answer(self, request: Request) -> Iterator[ModelEvent]:
        """Asks, and asks again after passing errors; a model that turns out not to see gets placeholders for images."""
        given = (request.system, request.messages, request.tools, request.options)
        body, headers = self.body(*given), self.headers(request.options)
        attempt = 0
        while True:
            attempt += 1
            try:
                yield from self._once(body, headers, request.cancelled)
            except ModelError as error:
                refused = self._sees and isinstance(error, ModelRefused | ModelBusy)
                about_images = refused and _ABOUT_IMAGES.search(str(error).removeprefix(self.name))
                if about_images and has_images(request.messages):
                    # The image stays in the conversation, so every later turn would fail as well.
                    yield Retrying(error=_cannot_see(self.endpoint, error), seconds=0, model=self.name)
                    self._sees, self._log = False, WireLog(self._encode)  # from now on images are placeholders
                    body = self.body(*given)
                    continue
                seconds = self._patience.before_retry(error, attempt)
                if seconds is None:
                    raise
                retries = self._patience.attempts - 1
                yield Retrying(error=error, seconds=seconds, model=self.name, retry=attempt, retries=retries)
                self._patience.pause(seconds, request.cancelled)
            else:
                return

    def _encode(self, message: Message) -> bytes:
        """One message as it is sent."""
        raise NotImplementedError

    def _once(self, body: bytes, headers: dict[str, str], cancelled: Callable[[], bool]) -> Iterator[ModelEvent]:
        from hermes.llm.transport import posted

        if cancelled():
            raise Interrupted("stopped before the model was asked")
        ending = _Ending(cancelled)
        asked = posted(
            self.endpoint.base_url.rstrip("/") + self.path,
            body,
            {"content-type": "application/json", "accept": "text/event-stream"} | headers,
            timeout=self.endpoint.timeout,
            cancelled=ending.give_up,
        )
        with _sorted_errors(self.endpoint), asked as response:
            if response.status_code != 200:  # noqa: PLR2004 - HTTP OK
                raise self._failure(response)
            chunks = _chunks(self.endpoint, response)
            for event in _understood(self.endpoint, self.read(chunks)):
                if cancelled() and not isinstance(event, Finished):
                    raise Interrupted("stopped while the model was answering")
                yield event
            ending.read_rest(chunks)

    def _failure(self, response: Reply) -> ModelError:
        body = b""
        for piece in response.iter_bytes():
            body += piece
            if len(body) > _LONGEST_ERROR:
                break
        return failure(self.endpoint, response.status_code, response.headers, body, time.time())


def _cannot_see(endpoint: Endpoint, error: ModelError) -> ModelError:
    return ModelRefused(
        f"{endpoint.model} does not take these images and gets a short description of each instead"
        f" ({endpoint.settings}.vision: false does so from the start): {error}",
        status=error.status,
    )


def ended_early(endpoint: Endpoint) -> ModelError:
    """The error for a stream that stops before the provider says that the answer is complete."""
    return ModelUnreachable(
        f"{endpoint.model} at {endpoint.provider} broke off in the middle of its answer (try again)"
    )


class _Ending:
    """Reads the stream to its end after a complete answer, because only then the connection can be used again.

    A server that does not end the stream gets a second; after that the connection is given up.
    """

    def __init__(self, cancelled: Callable[[], bool]) -> None:
        self._cancelled = cancelled
        self._end: float | None = None

    def give_up(self) -> bool:
        return self._cancelled() if self._end is None else time.monotonic() > self._end

    def read_rest(self, chunks: Iterator[object]) -> None:
        import httpcore

        self._end = time.monotonic() + _LONGEST_ENDING
        with suppress(
            Interrupted, ModelError, httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError
        ):
            for _ in chunks:
                pass


def _chunks(endpoint: Endpoint, response: Reply) -> Iterator[dict[str, Any]]:
    """The JSON objects of a stream, and `DONE` where the server says that it is complete.

    A server that ignores `stream` and sends one object is accepted too.
    """
    if "json" in response.headers.get("content-type", ""):
        yield _checked(endpoint, response.read().decode("utf-8", "replace"))
        return
    if "text/event-stream" not in response.headers.get("content-type", ""):
        raise ModelBusy(
            f"{endpoint.base_url} sent {response.headers.get('content-type', 'no content type')} instead of an event"
            " stream (is this the address of a model's API, with its /v1?)"
        )
    for sent in _data_in(response.iter_bytes()):
        if sent == "[DONE]":
            yield DONE
        elif sent.strip():
            yield _checked(endpoint, sent)


def _data_in(pieces: Iterable[bytes]) -> Iterator[str]:
    """The data of each event of a stream as the HTML standard defines it; nothing else of an event counts here."""
    rest, data = b"", []
    for piece in pieces:
        lines = (rest + piece).splitlines(keepends=True)
        rest = lines.pop() if lines and not lines[-1].endswith(b"\n") else b""
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[5:].rstrip(b"\r\n").removeprefix(b" "))
            elif line in (b"\n", b"\r\n", b"\r") and data:
                yield b"\n".join(data).decode("utf-8", "replace")
                data = []


def _understood(endpoint: Endpoint, events: Iterator[ModelEvent]) -> Iterator[ModelEvent]:
    """Passes the events on; JSON of a wrong shape, on which a reader fails, becomes an error of the server."""
    try:
        yield from events
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise _not_its_protocol(endpoint, repr(error)) from error


def _not_its_protocol(endpoint: Endpoint, seen: str) -> ModelError:
    return ModelBusy(
        f"{endpoint.model} at {endpoint.provider} sent something that is not its protocol: {seen}"
        " (try again; if it persists, check the address and any proxy in between)"
    )


def _checked(endpoint: Endpoint, text: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise _not_its_protocol(endpoint, repr(text[:80]))
    if content.get("error"):
        raise failure_in_stream(endpoint, content)
    return content


@contextmanager
def _sorted_errors(endpoint: Endpoint) -> Iterator[None]:
    """Translates errors of the network into our own."""
    import httpcore
    import httpx

    who = f"{endpoint.model} at {endpoint.base_url}"
    try:
        yield
    except httpcore.ConnectError as error:
        remedy = "is the server running, is the address right, is there a network?"
        raise ModelUnreachable(f"no connection to {who}: {error} ({remedy})") from error
    except httpcore.TimeoutException as error:
        waited = f"{endpoint.timeout:g} s" if isinstance(error, httpcore.ReadTimeout) else "too long"
        raise ModelUnreachable(f"{who} sent nothing for {waited} (try again, or give it more time)") from error
    except (httpx.InvalidURL, httpcore.UnsupportedProtocol) as error:
        raise ModelRefused(
            f"{endpoint.base_url!r} is not an address: {error} (set {endpoint.settings}.base_url)"
        ) from error
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.ProxyError) as error:
        raise ModelUnreachable(f"the connection to {who} broke: {error} (try again)") from error
