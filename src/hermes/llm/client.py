"""The small interface every model has, and what all models over HTTP share: retries, waiting, stopping, falling back.

    for event in model.stream(system, messages, tools):
        …TextDelta, ReasoningDelta, ToolCallStarted, ToolCall, Retrying; the last one is Finished…

Messages are OpenAI-format dicts and are never changed in place. Closing the iterator at any point ends the request.
"""

from __future__ import annotations

import json
import random
import re
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from hermes.llm.failures import failure, failure_in_stream
from hermes.llm.wire import fields
from hermes.storage.images import has_images
from hermes.vocabulary.errors import (
    ContextTooLong,
    Interrupted,
    ModelBusy,
    ModelError,
    ModelRefused,
    ModelUnreachable,
    RateLimited,
)
from hermes.vocabulary.events import Finished, Retrying

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import httpx

    from hermes.llm.endpoint import Endpoint
    from hermes.vocabulary.events import ModelEvent

    Message = Mapping[str, Any]

_LONGEST_ERROR = 100_000  # bytes of an error page that are read
_SLICE = 0.1  # seconds of a wait between two looks at whether to stop
_LONGEST_ENDING = 1.0  # seconds a complete answer may take to end

DONE: dict[str, Any] = {}
_ABOUT_IMAGES = re.compile(r"\b(?:images?|image_url|image input|vision|multi-?modal|mmproj)\b", re.IGNORECASE)


def never() -> bool:
    return False


class Model(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def context_length(self) -> int: ...

    def stream(
        self,
        system: str,
        messages: Sequence[Message],
        tools: Sequence[Message] = (),
        *,
        cancelled: Callable[[], bool] = never,
    ) -> Iterator[ModelEvent]:
        """Asks once. `cancelled` is looked at while waiting; when it says True, `Interrupted` is raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
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
        while seconds > 0:
            if cancelled():
                raise Interrupted("stopped while waiting to ask the model again")
            self.sleep(min(seconds, _SLICE))
            seconds -= _SLICE


class Fallback:
    """Several models as one: when the first cannot answer, the next is asked."""

    def __init__(self, models: Sequence[Model]) -> None:
        self._models = tuple(models)

    @property
    def name(self) -> str:
        return self._models[0].name

    @property
    def context_length(self) -> int:
        """The smallest: whatever fits into it, every model of the row can answer."""
        return min(model.context_length for model in self._models)

    def stream(
        self,
        system: str,
        messages: Sequence[Message],
        tools: Sequence[Message] = (),
        *,
        cancelled: Callable[[], bool] = never,
    ) -> Iterator[ModelEvent]:
        *others, last = self._models
        for model, following in zip(others, self._models[1:], strict=True):
            try:
                yield from model.stream(system, messages, tools, cancelled=cancelled)
            except ContextTooLong:
                raise  # a shorter conversation is the cure, not another model
            except ModelError as error:
                yield Retrying(error=error, seconds=0, model=following.name)
            else:
                return
        yield from last.stream(system, messages, tools, cancelled=cancelled)


class HttpModel:
    """A model behind HTTP; `path`, `body`, `options`, `headers` and `read` are the wire's own."""

    path: str

    def __init__(self, endpoint: Endpoint, patience: Patience | None = None) -> None:
        self.endpoint = endpoint
        self._patience = patience or Patience()
        self._sees = endpoint.vision
        self._fixed: tuple[str, list[Message], bytes] | None = None

    @property
    def name(self) -> str:
        return self.endpoint.model

    @property
    def context_length(self) -> int:
        return self.endpoint.context_length

    def body(self, system: str, messages: Sequence[Message], tools: Sequence[Message]) -> bytes:
        raise NotImplementedError

    def beginning(self, system: str, tools: Sequence[Message]) -> bytes:
        """The fields before the messages: the same bytes for as long as system prompt and tools are the same."""
        if self._fixed is None or self._fixed[0] != system or self._fixed[1] != list(tools):
            options = self.options(system, tools) | self.endpoint.extra_body
            self._fixed = (system, list(tools), b"{" + fields(options.items()) + b'"messages":[')
        return self._fixed[2]

    def options(self, system: str, tools: Sequence[Message]) -> dict[str, Any]:
        raise NotImplementedError

    def headers(self) -> dict[str, str]:
        raise NotImplementedError

    def read(self, chunks: Iterable[dict[str, Any]]) -> Iterator[ModelEvent]:
        """The events of one answer; raises what `ended_early` returns when the answer has no end."""
        raise NotImplementedError

    def stream(
        self,
        system: str,
        messages: Sequence[Message],
        tools: Sequence[Message] = (),
        *,
        cancelled: Callable[[], bool] = never,
    ) -> Iterator[ModelEvent]:
        body = self.body(system, messages, tools)
        attempt = 0
        while True:
            attempt += 1
            try:
                yield from self._once(body, cancelled)
            except ModelError as error:
                if self._sees and _is_about_images(error, self.name) and has_images(messages):
                    # The image stays in the conversation, so every later turn would fail as well.
                    yield Retrying(error=_cannot_see(self.endpoint, error), seconds=0, model=self.name)
                    self._stop_seeing()
                    body = self.body(system, messages, tools)
                    continue
                seconds = self._patience.before_retry(error, attempt)
                if seconds is None:
                    raise
                retries = self._patience.attempts - 1
                yield Retrying(error=error, seconds=seconds, model=self.name, retry=attempt, retries=retries)
                self._patience.pause(seconds, cancelled)
            else:
                return

    def _stop_seeing(self) -> None:
        """From now on images are placeholders."""
        self._sees = False

    def _once(self, body: bytes, cancelled: Callable[[], bool]) -> Iterator[ModelEvent]:
        from hermes.llm.transport import CANCELLED, shared_client

        if cancelled():
            raise Interrupted("stopped before the model was asked")
        ending = _Ending(cancelled)
        asked = shared_client().stream(
            "POST",
            self.endpoint.base_url.rstrip("/") + self.path,
            content=body,
            headers={"content-type": "application/json", "accept": "text/event-stream"} | self.headers(),
            timeout=self._timeouts(),
            extensions={CANCELLED: ending.give_up},
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

    def _timeouts(self) -> httpx.Timeout:
        import httpx

        return httpx.Timeout(self.endpoint.timeout, connect=min(10.0, self.endpoint.timeout))

    def _failure(self, response: httpx.Response) -> ModelError:
        body = b""
        for piece in response.iter_bytes():
            body += piece
            if len(body) > _LONGEST_ERROR:
                break
        return failure(self.endpoint, response.status_code, response.headers, body, time.time())


def _is_about_images(error: ModelError, model: str) -> bool:
    refused = isinstance(error, ModelRefused | ModelBusy)
    return refused and _ABOUT_IMAGES.search(str(error).removeprefix(model)) is not None


def _cannot_see(endpoint: Endpoint, error: ModelError) -> ModelError:
    return ModelRefused(
        f"{endpoint.model} does not take these images and gets a short description of each instead"
        f" ({endpoint.settings}.vision: false does so from the start): {error}",
        status=error.status,
    )


def ended_early(endpoint: Endpoint) -> ModelError:
    return ModelUnreachable(
        f"{endpoint.model} at {endpoint.provider} broke off in the middle of its answer (try again)"
    )


class _Ending:
    """Reads what follows an answer, usually nothing but its end, because only then the connection can be used again.

    A server that does not end gets a second; the answer is complete and nobody waits for more.
    """

    def __init__(self, cancelled: Callable[[], bool]) -> None:
        self._cancelled = cancelled
        self._end: float | None = None

    def give_up(self) -> bool:
        return self._cancelled() if self._end is None else time.monotonic() > self._end

    def read_rest(self, chunks: Iterator[object]) -> None:
        import httpx

        self._end = time.monotonic() + _LONGEST_ENDING
        with suppress(Interrupted, ModelError, httpx.HTTPError):
            for _ in chunks:
                pass


def _chunks(endpoint: Endpoint, response: httpx.Response) -> Iterator[dict[str, Any]]:
    """The JSON objects of a stream, and `DONE` where the server says that it is complete.

    A server that ignores `stream` and sends one object is understood, too.
    """
    from httpx_sse import EventSource

    if "json" in response.headers.get("content-type", ""):
        yield _checked(endpoint, response.read().decode("utf-8", "replace"))
        return
    if "text/event-stream" not in response.headers.get("content-type", ""):
        raise ModelBusy(
            f"{endpoint.base_url} sent {response.headers.get('content-type', 'no content type')} instead of an event"
            " stream (is this the address of a model's API, with its /v1?)"
        )
    for sent in EventSource(response).iter_sse():
        if sent.data == "[DONE]":
            yield DONE
        elif sent.data.strip():
            yield _checked(endpoint, sent.data)


def _understood(endpoint: Endpoint, events: Iterator[ModelEvent]) -> Iterator[ModelEvent]:
    """What a server sends is JSON of any shape; what has the wrong one is its error, not ours."""
    try:
        yield from events
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise _not_its_protocol(endpoint, repr(error)) from error


def _not_its_protocol(endpoint: Endpoint, seen: str) -> ModelError:
    return ModelBusy(
        f"{endpoint.model} at {endpoint.provider} sent something that is not its protocol: {seen}"
        " (try again; if it stays, check the address and whatever stands between)"
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
    """What goes wrong on the way, as the errors of our own."""
    import httpx

    who = f"{endpoint.model} at {endpoint.base_url}"
    try:
        yield
    except httpx.ConnectError as error:
        remedy = "is the server running, is the address right, is there a network?"
        raise ModelUnreachable(f"nothing answers for {who}: {error} ({remedy})") from error
    except httpx.TimeoutException as error:
        waited = f"{endpoint.timeout:g} s" if isinstance(error, httpx.ReadTimeout) else "too long"
        raise ModelUnreachable(f"{who} sent nothing for {waited} (try again, or give it more time)") from error
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise ModelRefused(
            f"{endpoint.base_url!r} is no address: {error} (set {endpoint.settings}.base_url)"
        ) from error
    except httpx.RequestError as error:
        raise ModelUnreachable(f"the connection to {who} broke: {error} (try again)") from error
