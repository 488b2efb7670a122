"""`/v1/chat/completions` and `/v1/models`: any OpenAI client, in front of any configured model, with a memory."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, StreamingResponse

from hermes.base.errors import (
    ContextTooLong,
    HermesError,
    Interrupted,
    ModelError,
    ModelRefused,
    NoModel,
    RateLimited,
    SettingsError,
    WrongKey,
)
from hermes.server import openai_wire as wire
from hermes.server.auth import PERSON

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from concurrent.futures import Executor

    from starlette.requests import Request
    from starlette.responses import Response

    from hermes.server.auth import CallLimits, Metrics, TurnLimits
    from hermes.server.conversations import Conversations
    from hermes.server.openai_wire import Answer, ChatRequest

_LOG = logging.getLogger("hermes.server")
MODEL = "hermes"  # whatever the operator has configured
SESSION_HEADER = "x-hermes-session"
_KEEP_ALIVE_SECONDS = 15.0  # seconds without a word after which a stream shows that it is alive
_LONGEST_NAME = 200
_SOON = {"retry-after": "1"}


class Chat:
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
        turn_seconds: float = 600.0,
    ) -> None:
        self._conversations = conversations
        self._pool = pool
        self._parsing = parsing
        self._metrics = metrics
        self._turns = turns
        self._calls = calls
        self._models = models
        self._turn_seconds = turn_seconds
        self.stopping = threading.Event()

    @property
    def running(self) -> int:
        return len(self._turns)

    async def models(self, _request: Request) -> Response:
        names = (MODEL, *self._models)
        listed = [{"id": name, "object": "model", "created": 0, "owned_by": "hermes"} for name in names]
        return JSONResponse({"object": "list", "data": listed})

    async def completions(self, request: Request) -> Response:
        body, person = await request.body(), request.scope[PERSON]
        try:
            async with self._calls.slot(person):
                asked = await asyncio.get_running_loop().run_in_executor(self._parsing, wire.parse, body)
            model = self._model(asked.model)
            name = _name(request, asked)
        except wire.BadRequest as wrong:
            return failed(wrong)
        if self._turns.full or self.stopping.is_set():
            busy = wire.error_body("all workers are busy; try again in a moment", "server_error", code="busy")
            return JSONResponse(busy, 503, _SOON)
        if self._turns.enough_for(person):
            enough = wire.error_body(
                "too many of your turns are still being answered", "rate_limit_error", code="turns"
            )
            return JSONResponse(enough, 429, _SOON)
        turn = _Turn(self, person, name, asked, model)
        watcher = asyncio.create_task(_until_gone(request, turn.gone))
        try:
            return await (turn.streamed() if asked.stream else turn.whole())
        finally:
            watcher.cancel()  # a stream is watched by the response itself

    def _model(self, name: str) -> str:
        if name in ("", MODEL):
            return ""
        if name not in self._models:
            known = ", ".join((MODEL, *self._models))
            raise wire.BadRequest(
                f"there is no model {name!r}; there are {known}", "model", status=404, code="model_not_found"
            )
        return name

    def start(self, turn: _Turn, put: Callable[[Any], None]) -> None:
        """Runs a turn in a worker; what happens in it is put where the request waits for it."""
        deadline = time.monotonic() + self._turn_seconds
        self._turns.begin(turn.person)

        def cancelled() -> bool:
            return turn.gone.is_set() or self.stopping.is_set() or time.monotonic() > deadline

        def work() -> None:
            try:
                answer = self._conversations.converse(
                    turn.person, turn.name, turn.asked, say=put, cancelled=cancelled, model=turn.model
                )
                self._metrics.turn(answer.reason)
                put(answer)
            except Exception as error:  # noqa: BLE001 - whatever happens in a turn, its request gets an answer
                self._metrics.turn("failed")
                if isinstance(error, NoModel | WrongKey):  # for the operator to mend, who needs the words and no trace
                    _LOG.error("a turn failed: %s", error)
                elif not isinstance(error, wire.BadRequest | ModelError):
                    _LOG.exception("a turn failed")
                put(error)

        self._pool.submit(work)

    def ended(self, turn: _Turn) -> None:
        self._turns.end(turn.person)


class _Turn:
    """One request: the worker puts pieces of text, then an answer or an error."""

    def __init__(self, chat: Chat, person: str, name: str, asked: ChatRequest, model: str) -> None:
        self.person, self.name, self.asked, self.model = person, name, asked, model
        self.gone = threading.Event()
        self._chat = chat
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[str | Answer | Exception] = asyncio.Queue()
        self._number = f"chatcmpl-{os.urandom(12).hex()}"
        self._created = int(time.time())
        self._called = asked.model or MODEL

    async def whole(self) -> Response:
        self._chat.start(self, self._put)
        while isinstance(item := await self._next(), str):
            continue
        if isinstance(item, Exception):
            return failed(item)
        document = wire.whole_answer(item, self._called, self._number, self._created)
        return JSONResponse(document, headers={SESSION_HEADER: item.session})

    async def streamed(self) -> Response:
        """The first piece decides: until then a failure is an error status, afterwards it is an event."""
        self._chat.start(self, self._put)
        first = await self._next()
        if isinstance(first, Exception):
            return failed(first)
        return StreamingResponse(self._events(first), media_type="text/event-stream")

    async def _events(self, first: str | Answer | Exception) -> AsyncIterator[str]:
        item: str | Answer | Exception | None = first
        try:
            yield self._piece({"role": "assistant", "content": ""})
            while True:
                if isinstance(item, str):
                    yield self._piece({"content": item})
                elif item is None:
                    yield ": still here\n\n"
                elif isinstance(item, Exception):
                    yield f"data: {json.dumps(_error_of(item)[1])}\n\n"
                    return
                else:
                    for event in self._ending(item):
                        yield event
                    return
                try:
                    item = await asyncio.wait_for(self._next(), _KEEP_ALIVE_SECONDS)
                except TimeoutError:
                    item = None
        finally:
            self.gone.set()  # also when the client went away in the middle

    def _ending(self, answer: Answer) -> list[str]:
        events = [self._piece(wire.calls_delta(answer.calls))] if answer.calls else []
        last = wire.piece({}, self._called, self._number, self._created, answer.finish_reason)
        events.append(_event({**last, "session_id": answer.session}))
        if self.asked.with_usage:
            counted = wire.piece({}, self._called, self._number, self._created) | {"choices": []}
            events.append(_event({**counted, "usage": wire.usage(answer.usage)}))
        return [*events, "data: [DONE]\n\n"]

    def _piece(self, delta: dict[str, Any]) -> str:
        return _event(wire.piece(delta, self._called, self._number, self._created))

    async def _next(self) -> str | Answer | Exception:
        return await self._queue.get()

    def _put(self, item: str | Answer | Exception) -> None:
        """From the worker's thread."""
        self._loop.call_soon_threadsafe(self._take, item)

    def _take(self, item: str | Answer | Exception) -> None:
        if not isinstance(item, str):
            self._chat.ended(self)
        self._queue.put_nowait(item)


async def _until_gone(request: Request, gone: threading.Event) -> None:
    """Ends the turn of a client that went away before it had anything: nobody would read the answer."""
    while (await request.receive())["type"] != "http.disconnect":
        continue
    gone.set()


def failed(error: Exception) -> Response:
    status, document = _error_of(error)
    headers = {"retry-after": str(int(error.seconds or 1))} if isinstance(error, RateLimited) else None
    return JSONResponse(document, status, headers)


def _error_of(error: Exception) -> tuple[int, Any]:
    """What a client may know: our own words for errors of the model, and nothing of what is ours to mend."""
    if isinstance(error, wire.BadRequest):
        return error.status, wire.error_body(error.message, param=error.param, code=error.code)
    for kind, status, named, code, words in _ERRORS:
        if isinstance(error, kind):
            return status, wire.error_body(words or str(error), named, code=code)
    return 500, wire.error_body("an error of this server; the operator's log says what", "server_error")


_ERRORS: tuple[tuple[type[Exception], int, str, str | None, str], ...] = (  # its own words where there are none here
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


def _name(request: Request, asked: ChatRequest) -> str:
    """What the client calls this conversation; "" when it does not."""
    named = request.headers.get(SESSION_HEADER, "").strip()
    if len(named) > _LONGEST_NAME:
        raise wire.BadRequest(f"{SESSION_HEADER} has more than {_LONGEST_NAME} characters")
    return named or (f"user {asked.user}" if asked.user.strip() else "")


def _event(document: dict[str, Any]) -> str:
    return f"data: {json.dumps(document, ensure_ascii=False)}\n\n"
