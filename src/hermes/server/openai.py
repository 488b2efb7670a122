"""The APIs that chat clients speak, in front of any configured model, with a memory.

`/v1/chat/completions`, `/v1/responses` and `/v1/messages` differ in their wire alone: each has a module that reads
requests and a `Writer` for answers. `/v1/models` and `/v1/embeddings` are here, too.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, StreamingResponse

from hermes.base.errors import (
    ContextTooLong,
    ExtraMissing,
    HermesError,
    Interrupted,
    ModelError,
    ModelRefused,
    NoModel,
    OptionRefused,
    RateLimited,
    SettingsError,
    WrongKey,
)
from hermes.base.events import ReasoningDelta, TextDelta
from hermes.server import anthropic_wire, responses_wire
from hermes.server import openai_wire as wire
from hermes.server.auth import PERSON
from hermes.server.openai_wire import Answer, error_body

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from concurrent.futures import Executor

    from starlette.requests import Request
    from starlette.responses import Response

    from hermes.conversations.search.semantic import Embedding
    from hermes.server.auth import CallLimits, Metrics, TurnLimits
    from hermes.server.conversations import Conversations
    from hermes.server.openai_wire import ChatRequest, Piece, Writer

_LOG = logging.getLogger("hermes.server")
MODEL = "hermes"  # stands for the model that the operator has configured
SESSION_HEADER = "x-hermes-session"
RECEIPT_HEADER = "hermes-receipt"
_KEEP_ALIVE_SECONDS = 15.0  # of silence, after which a stream sends a sign of life
_LONGEST_NAME = 200
_PARSED_AT_ONCE = 16 << 10  # bytes, at most half a millisecond; handing a body to a worker costs as much
_REFUSED = (400, 422)  # statuses of an API that refuses an option
_SOON = {"retry-after": "1"}


class Chat:
    """The routes of the chat APIs: chat completions, responses, messages, embeddings, models."""

    def __init__(
        self,
        conversations: Conversations,
        pool: Executor,
        parsing: Executor,
        metrics: Metrics,
        *,
        turns: TurnLimits,
        calls: CallLimits,
        models: tuple[str, ...] = (),
        aliases: Mapping[str, str] | None = None,
        embedding: Embedding | None = None,
        turn_seconds: float = 600.0,
    ) -> None:
        self._conversations = conversations
        self._pool = pool
        self._parsing = parsing
        self._metrics = metrics
        self._turns = turns
        self._calls = calls
        self._models = models
        self._aliases = dict(aliases or {})
        self._embedding = embedding
        self._turn_seconds = turn_seconds
        self.stopping = threading.Event()

    @property
    def running(self) -> int:
        """How many turns are running."""
        return len(self._turns)

    async def models(self, _request: Request) -> Response:
        """Lists the models in OpenAI's form, with the extra fields that Anthropic's clients expect."""
        listed = [_listed(name) for name in self._names()]
        ends = {"first_id": listed[0]["id"], "last_id": listed[-1]["id"], "has_more": False}
        return JSONResponse({"object": "list", "data": listed, **ends})

    async def model(self, request: Request) -> Response:
        """One model of the list, or an error that lists the known ones."""
        name = request.path_params["name"]
        try:
            self._model(name)
        except wire.BadRequest as wrong:
            return failed(wrong)
        return JSONResponse(_listed(name))

    async def completions(self, request: Request) -> Response:
        """Answers a request of OpenAI's Chat Completions API."""
        return await self._answered(request, _CHAT)

    async def messages(self, request: Request) -> Response:
        """Answers a request of Anthropic's Messages API."""
        return await self._answered(request, _MESSAGES)

    async def responses(self, request: Request) -> Response:
        """Answers a request of OpenAI's Responses API."""
        return await self._answered(request, _RESPONSES)

    async def embeddings(self, request: Request) -> Response:
        """Embeds texts with the model of semantic search, if one is installed and configured."""
        body = await request.body()
        try:
            async with self._calls.slot(request.scope[PERSON]):
                found = await asyncio.get_running_loop().run_in_executor(self._parsing, self._embedded, body)
        except wire.BadRequest as wrong:
            return failed(wrong)
        return JSONResponse(found)

    def _embedded(self, data: bytes) -> dict[str, Any]:
        texts, packed, body = wire.texts_to_embed(data)
        self._model(body["model"])
        if self._embedding is None:
            said = (
                "no embedding is configured here; the operator installs the extra `semantic` and sets recall.semantic"
            )
            raise wire.BadRequest(said, status=404, code="no_embedding")
        if body.get("dimensions") not in (None, self._embedding.dimensions):
            raise wire.BadRequest(f"dimensions: vectors have {self._embedding.dimensions} here", "dimensions")
        try:
            rows = self._embedding.embed(texts)
        except ExtraMissing as error:
            raise wire.BadRequest(str(error), status=404, code="no_embedding") from error
        return wire.embedded(rows, texts, body["model"] or MODEL, packed=packed)

    async def count_tokens(self, request: Request) -> Response:
        """Estimates the tokens of a request of Anthropic's API."""
        body = await request.body()
        try:
            async with self._calls.slot(request.scope[PERSON]):
                count = await asyncio.get_running_loop().run_in_executor(self._parsing, anthropic_wire.count, body)
        except wire.BadRequest as wrong:
            return failed(wrong, _MESSAGES)
        return JSONResponse({"input_tokens": count})

    async def _answered(self, request: Request, spoken: _Wire) -> Response:
        body, person = await request.body(), request.scope[PERSON]
        try:
            if len(body) <= _PARSED_AT_ONCE:
                asked = spoken.parse(body)
            else:
                async with self._calls.slot(person):
                    asked = await asyncio.get_running_loop().run_in_executor(self._parsing, spoken.parse, body)
            model = self._model(asked.model)
            name = _name(request)
        except wire.BadRequest as wrong:
            return failed(wrong, spoken)
        if self._turns.full or self.stopping.is_set():
            busy = spoken.error("all workers are busy; try again in a moment", "server_error", None, "busy", 503)
            return JSONResponse(busy, 503, _SOON)
        if self._turns.enough_for(person):
            said = "too many of your turns are still being answered"
            return JSONResponse(spoken.error(said, "rate_limit_error", None, "turns", 429), 429, _SOON)
        turn = _Turn(self, person, name, asked, model=model, spoken=spoken)
        watcher = asyncio.create_task(_until_gone(request, turn.gone))
        try:
            return await (turn.streamed() if asked.stream else turn.whole())
        finally:
            watcher.cancel()  # a stream is watched by the response itself

    def _names(self) -> tuple[str, ...]:
        return (MODEL, *self._models, *(alias for alias in self._aliases if "*" not in alias))

    def _model(self, asked: str) -> str:
        """The configured model that a client's name means; "" for the default."""
        fitting = (alias for alias in self._aliases if fnmatchcase(asked, alias))
        name = self._aliases[alias] if (alias := next(fitting, None)) else asked
        if name in ("", MODEL):
            return ""
        if name not in self._models:
            known = ", ".join(self._names())
            raise wire.BadRequest(
                f"there is no model {asked!r}; there are {known}", "model", status=404, code="model_not_found"
            )
        return name

    def start(self, turn: _Turn, say: Callable[[Piece], None], put: Callable[[Answer | Exception], None]) -> None:
        """Runs a turn in a worker; passes the pieces of its answer to `say`, and then the answer or error to `put`."""
        deadline = time.monotonic() + self._turn_seconds
        self._turns.begin(turn.person)

        def cancelled() -> bool:
            return turn.gone.is_set() or self.stopping.is_set() or time.monotonic() > deadline

        def work() -> None:
            try:
                answer = self._conversations.converse(
                    turn.person, turn.name, turn.asked, say=say, cancelled=cancelled, model=turn.model
                )
                self._metrics.turn(answer.reason)
                put(answer)
            except Exception as error:  # noqa: BLE001 - whatever happens in a turn, its request gets an answer
                self._metrics.turn("failed")
                if isinstance(error, NoModel | WrongKey):  # the operator can fix it by the message alone
                    _LOG.error("a turn failed: %s", error)
                elif not isinstance(error, wire.BadRequest | ModelError):
                    _LOG.exception("a turn failed")
                refused = isinstance(error, ModelRefused) and error.status in _REFUSED and turn.asked.options
                put(wire.BadRequest(str(error)) if refused else error)

        self._pool.submit(work)

    def ended(self, turn: _Turn) -> None:
        """Counts a turn as ended, once its last item has reached the request."""
        self._turns.end(turn.person)


@dataclass(frozen=True, slots=True)
class _Wire:
    """How one API is read and written; `error` makes a document of message, kind, param, code and status."""

    parse: Callable[[bytes], ChatRequest]
    writer: Callable[[ChatRequest, str], Writer]
    error: Callable[[str, str, str | None, str | None, int], dict[str, Any]]


_CHAT = _Wire(wire.parse, wire.ChatWriter, lambda message, kind, param, code, _: error_body(message, kind, param, code))

_RESPONSES = _Wire(responses_wire.parse, responses_wire.ResponseWriter, _CHAT.error)
_MESSAGES = _Wire(anthropic_wire.parse, anthropic_wire.MessageWriter, anthropic_wire.error)


class _Turn:
    """One request: the worker hands over pieces of the answer, then the answer or an error."""

    def __init__(self, chat: Chat, person: str, name: str, asked: ChatRequest, *, model: str, spoken: _Wire) -> None:
        self.person, self.name, self.asked, self.model = person, name, asked, model
        self.gone = threading.Event()
        self._chat = chat
        self._spoken = spoken
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Piece | Answer | Exception] = deque()  # put there by the worker
        self._is_called = False
        self._arrived: list[Piece | Answer | Exception] = []
        self._has_more = asyncio.Event()
        self._writer = spoken.writer(asked, asked.model or MODEL)

    async def whole(self) -> Response:
        """Runs the turn and returns its answer in one document."""
        pieces: list[Piece] = []
        self._chat.start(self, pieces.append, self._put)
        [item] = await self._next()
        assert isinstance(item, Answer | Exception)  # noqa: S101 - the pieces are in the list
        if isinstance(item, Exception):
            return failed(item, self._spoken)
        receipt = {RECEIPT_HEADER: item.receipt} if item.receipt else {}
        return JSONResponse(self._writer.whole(pieces, item), headers={SESSION_HEADER: item.session, **receipt})

    async def streamed(self) -> Response:
        """Streams the answer; a failure before the first piece is an error status, a later one is an event."""
        self._chat.start(self, self._put, self._put)
        first = await self._next()
        if isinstance(first[0], Exception):
            return failed(first[0], self._spoken)
        return StreamingResponse(self._events(first), media_type="text/event-stream")

    async def _events(self, first: list[Piece | Answer | Exception]) -> AsyncIterator[str]:
        try:
            told, arrived = self._writer.opening(), first
            while True:
                for item in arrived:
                    if isinstance(item, TextDelta | ReasoningDelta):
                        told += self._writer.piece(item)
                    elif isinstance(item, Exception):
                        yield told + self._writer.failure(_error_of(item, self._spoken)[1])
                        return
                    else:
                        yield told + self._writer.ending(item)
                        return
                if told:
                    yield told
                try:
                    async with asyncio.timeout(_KEEP_ALIVE_SECONDS):
                        told, arrived = "", await self._next()
                except TimeoutError:
                    told, arrived = ": still here\n\n", []
        finally:
            self.gone.set()  # also if the client disconnects in the middle

    async def _next(self) -> list[Piece | Answer | Exception]:
        """Everything that has arrived since the last call, at least one item."""
        await self._has_more.wait()
        self._has_more.clear()
        taken, self._arrived = self._arrived, []
        return taken

    def _put(self, item: Piece | Answer | Exception) -> None:
        """Passes an item from the worker's thread to the event loop, which is woken once for several."""
        self._waiting.append(item)
        if not self._is_called:
            self._is_called = True
            self._loop.call_soon_threadsafe(self._take)

    def _take(self) -> None:
        self._is_called = False  # first: an item that comes during the loop below is in it, or calls again
        while self._waiting:
            item = self._waiting.popleft()
            if not isinstance(item, TextDelta | ReasoningDelta):
                self._chat.ended(self)
            self._arrived.append(item)
            self._has_more.set()


async def _until_gone(request: Request, gone: threading.Event) -> None:
    """Ends the turn if the client disconnects before the answer: nobody would read it."""
    while (await request.receive())["type"] != "http.disconnect":
        continue
    gone.set()


def failed(error: Exception, spoken: _Wire = _CHAT) -> Response:
    """The response for an error, in the form of the client's API."""
    status, document = _error_of(error, spoken)
    headers = {"retry-after": str(int(error.seconds or 1))} if isinstance(error, RateLimited) else None
    return JSONResponse(document, status, headers)


def _error_of(error: Exception, spoken: _Wire) -> tuple[int, dict[str, Any]]:
    """What a client may know of an error: nothing about our settings, keys and files, which the log describes."""
    if isinstance(error, wire.BadRequest):
        kind = "invalid_request_error"
        return error.status, spoken.error(error.message, kind, error.param, error.code, error.status)
    if isinstance(error, OptionRefused):
        said = spoken.error(str(error), "invalid_request_error", error.option, "unsupported_parameter", 400)
        return 400, said
    for kinds, status, named, code, words in _ERRORS:
        if isinstance(error, kinds):
            return status, spoken.error(words or str(error), named, None, code, status)
    return 500, spoken.error("an error of this server; the operator's log says what", "server_error", None, None, 500)


# Without a text here, the client gets the error's own message.
_ERRORS: tuple[tuple[type[Exception], int, str, str | None, str], ...] = (
    (ContextTooLong, 400, "invalid_request_error", "context_length_exceeded", ""),
    (RateLimited, 429, "rate_limit_error", None, ""),
    (WrongKey, 502, "server_error", None, "the operator's key for the model does not work"),
    (ModelRefused, 502, "server_error", None, ""),
    (ModelError, 503, "server_error", None, ""),
    (
        NoModel,
        503,
        "server_error",
        "no_model",
        "no model answers here yet; the operator chooses one with `hermes setup`",
    ),
    (Interrupted, 504, "server_error", None, "the turn was stopped"),
    (SettingsError, 503, "server_error", None, "the server's settings need the operator"),
    (HermesError, 503, "server_error", None, "the conversation could not be stored; the operator's log says why"),
)


def _listed(name: str) -> dict[str, Any]:
    theirs = {"type": "model", "display_name": name, "created_at": "1970-01-01T00:00:00Z"}
    return {"id": name, "object": "model", "created": 0, "owned_by": "hermes", **theirs}


def _name(request: Request) -> str:
    """The client's name for this conversation; "" if it gives none."""
    named = request.headers.get(SESSION_HEADER, "").strip()
    if len(named) > _LONGEST_NAME:
        raise wire.BadRequest(f"{SESSION_HEADER} has more than {_LONGEST_NAME} characters")
    return named
