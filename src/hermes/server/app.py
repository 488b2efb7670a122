"""The HTTP server as one application: OpenAI's API, the plain API, MCP, the web page, health and metrics."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Match, Route

from hermes.agent import Agent
from hermes.base.errors import HermesError, SettingsError
from hermes.conversations.search.semantic import static_vectors
from hermes.http_server import BodyLimits, BodyRefused, descriptor_limit
from hermes.llm.scripted import Scripted
from hermes.server import openai_wire as wire
from hermes.server.api import api_routes, description
from hermes.server.auth import KINDS, PERSON, ROUTE, TYPE, AuthMiddleware, CallLimits, Metrics, TurnLimits
from hermes.server.conversations import Conversations
from hermes.server.openai import MODEL, Chat
from hermes.server.web import SECTIONS
from hermes.server.web.site import PREFIX as WEB_PREFIX
from hermes.server.web.site import Sessions, Site
from hermes.session.session import MemorySession
from hermes.settings.config import load_settings
from hermes.settings.people import OWNER, People

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from hermes.conversations.search.semantic import Embedding
    from hermes.server.conversations import Open
    from hermes.settings.config import Settings
    from hermes.settings.home import Home

    Handler = Callable[[Request], Awaitable[Response]]


_API_WORKERS = 16
_OWN_PER_MINUTE = 6_000  # requests to the page of `hermes ui`, which has one user
_API_CALLS_EACH = 4  # of these workers that one person may use at a time
_DESCRIPTORS_EACH = 16  # a person's share of the descriptors: an open database has six
_CHECK_SECONDS = 5.0  # between two checks for removed people
_SAFE_TOOLSETS = ("memory", "session_search", "skills", "context", "todo")  # no network, no shell, no files
_DESCRIPTION = "/openapi.json"
_WEB = os.path.join(os.path.dirname(__file__), "web")
_PAGE_POLICY = "default-src 'self'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; frame-ancestors 'none'"


@dataclass(frozen=True, slots=True)
class Service:
    """The application, and what it keeps open while it runs."""

    app: ASGIApp
    routes: list[Route]
    conversations: Conversations
    chat: Chat
    metrics: Metrics
    sessions: Sessions | None = None  # of the web page


def build(
    home: Home,
    *,
    only_mcp: bool = False,
    open_agent: Open = Agent.open,
    with_mcp: bool = True,
    find_embedding: Callable[[str], Embedding | None] = static_vectors,
) -> Service:
    """Builds the server of a home; raises a SettingsError if nobody has a key."""
    people, settings = People(home), load_settings(home)
    if not any(person.keys for person in people.all()):
        raise SettingsError(
            f"nobody has a key, so nobody could use the server; make one with `hermes users key {OWNER}` for "
            "yourself, or `hermes users add NAME` for somebody"
        )
    metrics = Metrics()
    conversations = Conversations(
        people.home_of,
        most=min(settings.integer("server.open_conversations"), descriptor_limit() // 2),
        most_people=descriptor_limit() // _DESCRIPTORS_EACH,
        toolsets=None if "server" in (settings.get("enabled_toolsets") or {}) else _SAFE_TOOLSETS,
        open_agent=open_agent,
    )
    workers = settings.integer("server.workers")
    chats, calls = ThreadPoolExecutor(workers, "turn"), ThreadPoolExecutor(_API_WORKERS, "api")
    limits = CallLimits(_API_CALLS_EACH)
    chat = Chat(
        conversations,
        chats,
        calls,
        metrics,
        calls=limits,
        turns=TurnLimits(workers, settings.integer("server.turns_per_person")),
        models=settings.texts("server.models"),
        aliases=_aliases(settings),
        embedding=find_embedding(settings.text("recall.semantic")),
        turn_seconds=settings.number("server.turn_timeout"),
    )
    metrics.gauges["hermes_conversations_open"] = ("Conversations kept open.", lambda: float(len(conversations)))
    metrics.gauges["hermes_turns_running"] = ("Turns being answered now.", lambda: float(chat.running))
    routes, sessions = [], None
    if not only_mcp:
        sessions = Sessions(lambda person: people.get(person).keys)
        site = Site(SECTIONS, sessions, conversations, pool=calls, limits=limits, people=people)
        routes = [*_routes(chat, conversations, calls, limits), *site.routes()]
    routes += [_named("/health", _answering(JSONResponse({"status": "ok"}))), _named("/metrics", _metrics(metrics))]
    mcp = _Mcp(conversations, limits) if with_mcp else None
    if mcp is not None:
        routes.append(Route("/mcp", mcp))
    lifespan = _lifespan(people, conversations, chat, (chats, calls), mcp)
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=_HANDLERS)
    guarded = AuthMiddleware(
        app,
        who=people.admits,
        metrics=metrics,
        per_minute=settings.integer("server.requests_per_minute"),
        body=BodyLimits(size=settings.integer("server.max_body_mb") << 20),
        hosts=(*settings.texts("server.hosts"), settings.text("server.host")),
        origins=settings.texts("server.origins"),
        web=sessions.find if sessions else None,
    )
    return Service(guarded, routes, conversations, chat, metrics, sessions)


@dataclass(frozen=True, slots=True)
class WebPage:
    """The web page of one home; `link` is a path that signs its owner in once."""

    app: ASGIApp
    sessions: Sessions

    def link(self) -> str:
        """Makes a link that signs the owner in once, within two minutes."""
        return f"{WEB_PREFIX}/enter?token={self.sessions.make_link(OWNER)}"


def build_web_page(home: Home) -> WebPage:
    """Builds the web page alone, for the user of this machine: only a one-time link signs in, no key does."""
    conversations, metrics, sessions = Conversations(lambda _person: home), Metrics(), Sessions()
    calls, limits = ThreadPoolExecutor(_API_WORKERS, "web"), CallLimits(_API_WORKERS)
    people = None if home.above else People(home)
    site = Site(SECTIONS, sessions, conversations, pool=calls, limits=limits, people=people, keys=False)

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await asyncio.to_thread(calls.shutdown)
            await asyncio.to_thread(conversations.close)

    app = Starlette(routes=site.routes(), lifespan=lifespan, exception_handlers=_HANDLERS)
    guarded = AuthMiddleware(app, who=lambda _key: None, metrics=metrics, per_minute=_OWN_PER_MINUTE, web=sessions.find)
    return WebPage(guarded, sessions)


def _aliases(settings: Settings) -> dict[str, str]:
    """The names that clients may use for models; checked at the start, because no client could see the mistake."""
    given, models = settings.get("server.model_aliases") or {}, (MODEL, *settings.texts("server.models"))
    for alias, name in given.items():
        if not isinstance(name, str) or name not in models:
            raise SettingsError(
                f"server.model_aliases has {name!r} for {alias!r}; it may be {' or '.join(models)}"
                " (server.models lists more)"
            )
    return {str(alias): name for alias, name in given.items()}


def _routes(chat: Chat, conversations: Conversations, pool: ThreadPoolExecutor, limits: CallLimits) -> list[Route]:
    return [
        _named("/v1/chat/completions", chat.completions, "POST"),
        _named("/v1/responses", chat.responses, "POST"),
        _named("/v1/embeddings", chat.embeddings, "POST"),
        _named("/v1/messages", chat.messages, "POST"),
        _named("/v1/messages/count_tokens", chat.count_tokens, "POST"),
        _named("/v1/models", chat.models),
        _named("/v1/models/{name:path}", chat.model),
        *api_routes(conversations, pool, limits),
        _named(_DESCRIPTION, _answering(JSONResponse(description()))),
        _named("/docs", _answering(_docs())),
    ]


def _named(path: str, handler: Handler, method: str = "GET") -> Route:
    async def answer(request: Request) -> Response:
        request.scope[ROUTE] = path
        return await handler(request)

    return Route(path, answer, methods=[method])


def _lifespan(
    people: People, conversations: Conversations, chat: Chat, pools: tuple[ThreadPoolExecutor, ...], mcp: _Mcp | None
) -> Callable[[Starlette], Any]:
    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            if mcp is not None:
                await stack.enter_async_context(mcp.running())
            await asyncio.to_thread(_warm_up)
            watcher = asyncio.create_task(_close_removed_people(people, conversations))
            try:
                yield
            finally:
                watcher.cancel()
                chat.stopping.set()
                for pool in pools:
                    await asyncio.to_thread(pool.shutdown)
                await asyncio.to_thread(conversations.close)

    return lifespan


def _warm_up() -> None:
    """Runs a turn in a temporary home, so that nobody waits for the modules that a first turn loads."""
    with tempfile.TemporaryDirectory() as folder, Agent(MemorySession.open(folder), Scripted(["Ready."])) as agent:
        for _ in agent.turn_with([], "Ready?"):
            continue


async def _close_removed_people(people: People, conversations: Conversations) -> None:
    """Closes the conversations of people who were removed while the server runs."""
    while True:
        await asyncio.sleep(_CHECK_SECONDS)
        try:
            known = {person.name for person in people.all()}
        except HermesError:
            continue  # a list that cannot be read does not mean that people were removed
        for person in conversations.people() - known:
            await asyncio.to_thread(conversations.leave, person)


class _Mcp:
    """MCP over streamable HTTP; the scope says whose request it is.

    The SDK is loaded with the first request: it takes as long as the rest of the server, and many never need it.
    """

    def __init__(self, conversations: Conversations, limits: CallLimits) -> None:
        self._conversations = conversations
        self._limits = limits
        self._asked = asyncio.Event()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keeps the task that serves MCP, as long as the server runs."""
        self._manager: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(self._serve())
        try:
            yield
        finally:
            serving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await serving

    async def _serve(self) -> None:
        """Runs the SDK in one task of ours, because the task that enters its context must also leave it."""
        await self._asked.wait()
        try:
            manager = await asyncio.to_thread(self._load)
        except ImportError as error:
            self._manager.set_exception(error)
            return
        async with manager.run():
            self._manager.set_result(manager)
            await asyncio.Event().wait()  # until it is cancelled

    def _load(self) -> Any:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from hermes.server.mcp import build_server

        server = build_server(lambda context: self._conversations.workspace(_person(context)))
        # Without sessions there is no session id that could open somebody else's.
        return StreamableHTTPSessionManager(server, stateless=True)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        scope[ROUTE] = "/mcp"
        # A GET stays open for events as long as the host likes, and occupies no worker.
        waits = self._limits.slot(scope[PERSON]) if scope["method"] == "POST" else contextlib.nullcontext()
        async with waits:
            self._asked.set()
            manager = await asyncio.shield(self._manager)
            await manager.handle_request(scope, receive, send)


def _person(context: Any) -> str:
    return str(context.request.scope[PERSON])


def _metrics(metrics: Metrics) -> Handler:
    async def answer(request: Request) -> Response:
        if request.scope[PERSON] != OWNER:
            return await _absent(request, None)
        return Response(metrics.text(), media_type=TYPE)

    return answer


def _docs() -> Response:
    with open(os.path.join(_WEB, "docs.html"), encoding="utf-8") as file:
        return HTMLResponse(file.read(), headers={"content-security-policy": _PAGE_POLICY})


def _answering(response: Response) -> Handler:
    async def answer(_request: Request) -> Response:
        return response

    return answer


async def _absent(request: Request, _error: Any) -> Response:
    """Answers an unknown address and one that is not the person's alike, so that nothing can be guessed."""
    listed = any(route.path == _DESCRIPTION for route in request.app.routes)
    hint = f"{_DESCRIPTION} lists what there is, /docs shows it" if listed else "MCP is at /mcp"
    return JSONResponse(wire.error_body(f"there is nothing at this address; {hint}", code="not_found"), 404)


async def _wrong_method(request: Request, _error: Any) -> Response:
    known = (route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE)
    allowed = ", ".join(sorted({method for route in known for method in route.methods or ()}))
    said = f"{request.method} is not possible at this address; {allowed} are"
    return JSONResponse(wire.error_body(said, code="method_not_allowed"), 405, {"allow": allowed})


async def _body_refused(_request: Request, error: Any) -> Response:
    kind = KINDS.get(error.status, "invalid_request_error")
    return JSONResponse(wire.error_body(error.message, kind, code=error.reason), error.status, error.headers)


async def _broken(_request: Request, _error: Any) -> Response:
    return JSONResponse(wire.error_body("an error of this server; the operator's log says what", "server_error"), 500)


_HANDLERS: dict[Any, Any] = {404: _absent, 405: _wrong_method, 500: _broken, BodyRefused: _body_refused}
