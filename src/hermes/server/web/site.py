"""The web page: routes to views, sign-in, and what every request and response goes through.

A view is a function of an `Ask`; it runs in a worker thread and returns a `Page` or a `Redirect`. Views come in
sections, listed in `hermes.server.web`. Without a session, only sign-in and the static files can be reached; every
unsafe request carries a CSRF token and comes from our own pages.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import os
import re
import secrets
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qs, quote, urlencode

import jinja2
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from hermes.base.errors import HermesError, LockTimeout, NotFound, StorageError
from hermes.base.text import counted, in_words
from hermes.base.words import scrub
from hermes.memory.entries import key_of
from hermes.server.auth import ROUTE, WEB_SESSION, Buckets
from hermes.settings.people import OWNER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from concurrent.futures import Executor

    from starlette.requests import Request

    from hermes.server.auth import CallLimits
    from hermes.server.conversations import Conversations
    from hermes.server.workspace import Workspace
    from hermes.settings.people import Key, People

PREFIX = "/ui"
Item = TypeVar("Item")
_HERE = os.path.dirname(__file__)
_LOG = logging.getLogger("hermes.server")
_THEME, _THEMES, _YEAR = "hermes-theme", ("light", "dark"), 365 * 86_400
_WRONG_PER_MINUTE = 20  # wrong keys from one address
_LONGEST_KEY = 200  # characters
# Addresses of our own pages, because a redirect must not lead to another server.
_OURS = re.compile(rf"{PREFIX}/[\w/.%-]*(\?[\w=&%+.,:~-]*)?", re.ASCII)
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # without a referrer a browser sends `Origin: null` with a form
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request of a signed-in person; `people` is None for everybody but the owner."""

    workspace: Workspace
    session: WebSession
    path: Mapping[str, str]
    query: Mapping[str, str]
    form: Mapping[str, tuple[str, ...]]
    people: People | None
    seen: Callable[[str], float]  # when somebody last used the page

    def field(self, name: str) -> str:
        """A field of the form; "" if it was not sent."""
        return self.form.get(name, ("",))[0]

    def number(self, name: str, default: int = 1) -> int:
        """A whole number in the query, such as a page; the default if it is missing or no number."""
        text = self.query.get(name, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default  # noqa: PLR2004 - digits


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A template and the values that fill it."""

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirect:
    """Leads to another page of ours after a change, which shows the `notice` once."""

    to: str
    notice: Notice | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One address of a section; `stream` gets the request itself, for responses that are not pages."""

    path: str = ""
    act: Callable[[Ask], Page | Redirect | Response] | None = None
    method: str = "GET"
    stream: Callable[[Request, Callable[[], Ask]], Awaitable[Response]] | None = None
    approves: bool = False  # only for a session with the right `approve`


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A group of views with one entry in the navigation; the keys `g` and `key` lead there."""

    name: str
    title: str
    key: str
    views: tuple[View, ...]
    owner_only: bool = False
    waiting: Callable[[Workspace], int] | None = None  # the number next to its title


def address(section: str, *parts: str, **query: Any) -> str:
    """The address of a view; parts and values are quoted."""
    path = "/".join([PREFIX, section, *(quote(part, safe="") for part in parts)])
    given = {name: value for name, value in query.items() if value not in ("", None)}
    return f"{path}?{urlencode(given)}" if given else path


def paged(items: Sequence[Item], ask: Ask, each: int) -> tuple[Sequence[Item], dict[str, int]]:
    """The items of the requested page, and the numbers that its navigation shows."""
    page = ask.number("page")
    shown = items[(page - 1) * each : page * each]
    return shown, {"page": page, "pages": max(1, -(-len(items) // each)), "count": len(items)}


class Site:
    """The web page's routes, and the checks that every request passes."""

    def __init__(
        self,
        sections: tuple[Section, ...],
        sessions: Sessions,
        conversations: Conversations,
        *,
        pool: Executor,
        limits: CallLimits,
        people: People | None,
        keys: bool = True,
    ) -> None:
        self.sections = sections
        self.sessions = sessions
        self._conversations = conversations
        self._pool = pool
        self._limits = limits
        self._people = people
        self._keys = keys  # whether a key signs in; `hermes ui` has its link only
        self._failures = Buckets(_WRONG_PER_MINUTE, time.monotonic, at_once=_WRONG_PER_MINUTE)
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(os.path.join(_HERE, "templates")),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._files = _static_files()
        self._templates.globals |= {"address": address, "counted": counted, "static": self._static_address}
        self._templates.filters |= {"when": _when, "ago": _ago, "iso": _iso, "key_of": key_of}

    def routes(self) -> list[Route]:
        """All routes of the web page; those with names in their path come last, so that fixed paths win."""
        own = [
            self._open_route("/", "GET", self._front),
            self._open_route(f"{PREFIX}/static/{{name}}", "GET", self._static),
            self._open_route(f"{PREFIX}/sign-in", "GET", self._ask_for_key),
            self._open_route(f"{PREFIX}/sign-in", "POST", self._sign_in),
            self._open_route(f"{PREFIX}/enter", "GET", self._ask_to_enter),
            self._open_route(f"{PREFIX}/enter", "POST", self._enter),
            self._open_route(f"{PREFIX}/sign-out", "POST", self._sign_out),
            self._open_route(f"{PREFIX}/theme", "POST", self._theme),
        ]
        found = [
            self._view_route(section, view)
            for section in self.sections
            for view in sorted(section.views, key=lambda view: "{" in view.path)
        ]
        rest = [
            self._open_route(f"{PREFIX}{end}", method, self._nothing_there)
            for end in ("", "/{rest:path}")
            for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
        ]
        return [*own, *found, *rest]

    # What everything goes through.

    def _open_route(self, path: str, method: str, act: Callable[[Request], Awaitable[Response]]) -> Route:
        async def answer(request: Request) -> Response:
            request.scope[ROUTE] = path
            if method == "POST" and act != self._nothing_there and (refused := await self._refuse_forged(request)):
                return refused
            return await act(request)

        return Route(path, _safely(answer), methods=[method])

    def _view_route(self, section: Section, view: View) -> Route:
        path = f"{PREFIX}/{section.name}{view.path}"

        async def answer(request: Request) -> Response:
            request.scope[ROUTE] = path
            session: WebSession | None = request.scope[WEB_SESSION]
            if session is None:
                return _to_sign_in(request)
            if section.owner_only and not self._is_owner(session):
                return await self._nothing_there(request)
            if view.method != "GET" and (refused := await self._refuse_forged(request)):
                return refused
            if view.approves and not session.may_approve:
                return self._failed(request, 403, "Your key has no right to decide about pending writes.")
            form = await _form(request) if view.method != "GET" else {}

            def ask() -> Ask:
                return self._ask(request, session, form)

            if view.stream is not None:
                return await view.stream(request, ask)
            async with self._limits.slot(session.person):
                return await asyncio.get_running_loop().run_in_executor(self._pool, self._act, request, view, ask)

        return Route(path, _safely(answer), methods=[view.method])

    def _act(self, request: Request, view: View, ask: Callable[[], Ask]) -> Response:
        """Runs a view in a worker thread."""
        session: WebSession = request.scope[WEB_SESSION]
        assert view.act is not None  # noqa: S101 - a view that is no stream
        try:
            answer = view.act(ask())
            if isinstance(answer, Redirect):
                if answer.notice is not None:
                    self.sessions.say(session, answer.notice)
                return RedirectResponse(answer.to, 303)
            return answer if isinstance(answer, Response) else self._render(request, answer)
        except NotFound:
            return self._failed(request, 404, "There is nothing here, or it is not yours, or it has changed since.")
        except LockTimeout:
            return self._failed(request, 503, "Another program is writing at this moment. Try again.")
        except StorageError as error:
            _LOG.error("a page could not be made: %s", error)
            return self._failed(
                request, 503, "The stored data cannot be used at the moment; the server's log says why."
            )
        except HermesError as error:
            if request.method == "GET":
                return self._failed(request, 422, str(error))
            self.sessions.say(session, Notice(_sentence(error), wrong=True))
            return RedirectResponse(_back(request), 303)

    def _ask(self, request: Request, session: WebSession, form: Mapping[str, tuple[str, ...]]) -> Ask:
        return Ask(
            workspace=self._conversations.workspace(session.person),
            session=session,
            path={name: scrub(str(value)) for name, value in request.path_params.items()},
            query={name: scrub(value) for name, value in request.query_params.items()},
            form=form,
            people=self._people if self._is_owner(session) else None,
            seen=self.sessions.last_seen,
        )

    def _render(self, request: Request, page: Page) -> Response:
        session: WebSession | None = request.scope[WEB_SESSION]
        visitor = session.id if session else session_id(request.headers.get("cookie", ""))
        fresh = "" if visitor else secrets.token_urlsafe(32)
        theme = cookie_value(request.headers.get("cookie", ""), _THEME)
        shared = {
            "csrf": self.sessions.csrf(visitor or fresh),
            "me": session,
            "sections": self._shown_to(session) if session else [],
            "here": request.url.path,
            "theme": theme if theme in _THEMES else "",
            "now": time.time(),
            "notice": self.sessions.take_notice(session) if session and not _is_part(request) else None,
        }
        html = self._templates.get_template(page.template).render({**shared, **page.values})
        response = HTMLResponse(html, page.status, headers=dict(page.headers))
        if fresh:
            response.headers["set-cookie"] = set_cookie(fresh, secure=_is_secure(request))
        return response

    def _shown_to(self, session: WebSession) -> list[dict[str, Any]]:
        workspace = self._conversations.workspace(session.person)
        return [
            {
                "name": section.name,
                "title": section.title,
                "key": section.key,
                "waiting": _waiting(section, workspace),
            }
            for section in self.sections
            if not section.owner_only or self._is_owner(session)
        ]

    def _is_owner(self, session: WebSession) -> bool:
        return self._people is not None and session.person == OWNER

    async def _refuse_forged(self, request: Request) -> Response | None:
        """Refuses requests that our own pages did not send: from another origin, or without this visitor's token."""
        visitor = session_id(request.headers.get("cookie", ""))
        token = request.headers.get("x-csrf-token") or (await _form(request)).get("csrf", ("",))[0]
        from_here = request.headers.get("origin") or request.headers.get("sec-fetch-site") == "same-origin"
        if from_here and self.sessions.is_csrf(visitor, token):
            return None
        said = "This form is out of date. Go back, reload the page and try again."
        return self._failed(request, 403, said)

    def _failed(self, request: Request, status: int, said: str) -> Response:
        return self._render(request, Page(template="problem.html", values={"said": said}, status=status))

    # Signing in and out, and what needs no session.

    async def _front(self, _request: Request) -> Response:
        return RedirectResponse(f"{PREFIX}/{self.sections[0].name}", 303)

    async def _static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._files:
            return await self._nothing_there(request)
        kind, data, digest = self._files[name]
        lasting = "max-age=31536000, immutable" if request.query_params.get("v") == digest else "no-cache"
        return Response(data, media_type=kind, headers={"cache-control": lasting})

    def _static_address(self, name: str) -> str:
        """The address of a static file; it changes with the file, so that browsers may cache it forever."""
        return f"{PREFIX}/static/{name}?v={self._files[name][2]}"

    async def _nothing_there(self, request: Request) -> Response:
        if request.scope[WEB_SESSION] is None:
            return _to_sign_in(request)
        if request.url.path.rstrip("/") == PREFIX:
            return await self._front(request)
        return await asyncio.to_thread(self._failed, request, 404, "There is nothing at this address.")

    async def _ask_for_key(self, request: Request) -> Response:
        return self._sign_in_page(request, _next(request))

    def _sign_in_page(self, request: Request, then: str, wrong: str = "", status: int = 200) -> Response:
        values = {"then": then, "wrong": wrong, "keys": self._keys}
        return self._render(request, Page(template="sign-in.html", values=values, status=status))

    async def _sign_in(self, request: Request) -> Response:
        form = await _form(request)
        given, then = form.get("key", ("",))[0].strip(), form.get("next", ("",))[0]
        address = (request.scope.get("client") or ("unknown", 0))[0]
        found = await asyncio.to_thread(self._key, given)
        if found is None:
            wait = self._failures.take(address)
            wrong = "Too many wrong keys. Wait a minute." if wait else "This key opens nothing here."
            return self._sign_in_page(request, then, wrong, 429 if wait else 401)
        return self._signed_in(request, found, then)

    def _key(self, given: str) -> WebSession | None:
        if not self._keys or self._people is None or not 0 < len(given) <= _LONGEST_KEY:
            return None
        found = self._people.key(given)
        if found is None:
            return None
        return self.sessions.sign_in(found[0], key=found[1], may_approve=self._people.may_approve(given))

    async def _ask_to_enter(self, request: Request) -> Response:
        """Shows a page that posts the token, so that a program that only previews links does not use it up."""
        values = {"token": request.query_params.get("token", "")}
        return self._render(request, Page(template="enter.html", values=values))

    async def _enter(self, request: Request) -> Response:
        session = self.sessions.use_link((await _form(request)).get("token", ("",))[0])
        if session is None:
            return self._failed(request, 401, "This link was used before or is too old. Run `hermes ui` for another.")
        return self._signed_in(request, session, "")

    def _signed_in(self, request: Request, session: WebSession, then: str) -> Response:
        if request.scope[WEB_SESSION] is not None:
            self.sessions.sign_out(request.scope[WEB_SESSION])
        to = then if _OURS.fullmatch(then) else f"{PREFIX}/{self.sections[0].name}"
        cookie = set_cookie(session.id, secure=_is_secure(request))
        return RedirectResponse(to, 303, headers={"set-cookie": cookie})

    async def _sign_out(self, request: Request) -> Response:
        if request.scope[WEB_SESSION] is not None:
            self.sessions.sign_out(request.scope[WEB_SESSION])
        gone = set_cookie("", secure=_is_secure(request), seconds=0)
        headers = {"set-cookie": gone, "clear-site-data": '"cache", "storage"'}
        return RedirectResponse(f"{PREFIX}/sign-in", 303, headers=headers)

    async def _theme(self, request: Request) -> Response:
        wanted = (await _form(request)).get("theme", ("",))[0]
        known = wanted in _THEMES
        cookie = set_cookie(
            wanted if known else "", name=_THEME, secure=_is_secure(request), seconds=_YEAR if known else 0
        )
        return RedirectResponse(_back(request), 303, headers={"set-cookie": cookie})


_KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def _static_files() -> dict[str, tuple[str, bytes, str]]:
    """Each static file by its name: its type, its bytes and their digest."""
    found = {}
    for name in os.listdir(os.path.join(_HERE, "static")):
        if kind := _KINDS.get(os.path.splitext(name)[1]):
            with open(os.path.join(_HERE, "static", name), "rb") as file:
                data = file.read()
            found[name] = (kind, data, hashlib.sha256(data).hexdigest()[:12])
    return found


def _safely(answer: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Adds the security headers that every response of the web page carries."""

    async def safe(request: Request) -> Response:
        response = await answer(request)
        response.headers.update(_HEADERS)
        response.headers["vary"] = "Cookie"
        return response

    return safe


async def _form(request: Request) -> dict[str, tuple[str, ...]]:
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return {}
    body = (await request.body()).decode("utf-8", "replace")
    found = parse_qs(body, keep_blank_values=True, max_num_fields=2_000)
    return {name: tuple(scrub(value).replace("\r\n", "\n") for value in values) for name, values in found.items()}


def _is_part(request: Request) -> bool:
    """Whether a script requests a part of the current page."""
    return "hx-request" in request.headers and "hx-boosted" not in request.headers


def _to_sign_in(request: Request) -> Response:
    is_page = request.method == "GET" and "text/html" in request.headers.get("accept", "")
    to = f"{PREFIX}/sign-in"
    if request.headers.get("hx-request"):
        return Response(status_code=401, headers={"hx-redirect": to})
    if not is_page:
        return Response("sign in first", 401, media_type="text/plain")
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"{to}?{urlencode({'next': request.url.path + query})}", 303)


def _next(request: Request) -> str:
    wanted = request.query_params.get("next", "")
    return wanted if _OURS.fullmatch(wanted) else ""


def _back(request: Request) -> str:
    """The page that a form was sent from; the front page if that is not ours."""
    came = request.headers.get("hx-current-url") or request.headers.get("referer", "")
    path = re.sub(r"^https?://[^/]*", "", came).partition("#")[0]
    return path if _OURS.fullmatch(path) else PREFIX


def _is_secure(request: Request) -> bool:
    return request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https"


def _waiting(section: Section, workspace: Workspace) -> int:
    try:
        return section.waiting(workspace) if section.waiting else 0
    except HermesError:
        return 0


def _sentence(error: HermesError) -> str:
    said = str(error)
    return f"{said[:1].upper()}{said[1:]}{'' if said.endswith(('.', '!', '?')) else '.'}"


def _when(moment: float) -> str:
    return in_words(moment, "%Y-%m-%d %H:%M")


def _iso(moment: float) -> str:
    return in_words(moment, "%Y-%m-%dT%H:%M:%S%z")


_UNITS = ((60, "second"), (60, "minute"), (24, "hour"), (30, "day"), (12, "month"))
_JUST_NOW = 10


def _ago(moment: float, now: float) -> str:
    left: float = max(0.0, now - moment)
    if left < _JUST_NOW:
        return "just now"
    for size, unit in _UNITS:
        if left < size:
            return f"{counted(int(left), unit)} ago"
        left /= size
    return f"{counted(int(left), 'year')} ago"


# Who is signed in: session cookies, one-time links and CSRF tokens.
#
# A session is a random id in an HttpOnly cookie; its meaning is known only to this process. Signing in always makes a
# new id, so an id that somebody planted in a browser never becomes a session.

COOKIE = "hermes-session"
_IDLE_SECONDS = 12 * 3600.0
_LINK_SECONDS = 120.0
_MOST_SIGNED_IN = 10_000  # sessions, and links


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSession:
    """A signed-in browser; `key` is the id of the key that signed it in, "" for the one-time link of `hermes ui`."""

    id: str
    person: str
    key: str = ""
    may_approve: bool = False


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice that the next page shows once; `undo` lists the changes of memory that its button takes back."""

    text: str
    undo: str = ""
    wrong: bool = False


class Sessions:
    """Who is signed in; a session ends when `keys_of` no longer lists the key that signed it in."""

    def __init__(
        self, keys_of: Callable[[str], tuple[Key, ...]] = lambda _person: (), clock: Callable[[], float] = time.time
    ) -> None:
        self._keys_of = keys_of
        self._clock = clock
        self._secret = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._sessions: OrderedDict[str, tuple[WebSession, float]] = OrderedDict()  # with when it was last used
        self._links: OrderedDict[str, tuple[str, float]] = OrderedDict()  # the person, and the time of expiry
        self._notices: dict[str, Notice] = {}

    def sign_in(self, person: str, *, key: Key | None = None, may_approve: bool) -> WebSession:
        """Makes a session with a new id; drops the longest unused one if there are too many."""
        session = WebSession(
            id=secrets.token_urlsafe(32), person=person, key=key.id if key else "", may_approve=may_approve
        )
        with self._lock:
            self._sessions[session.id] = (session, self._clock())
            while len(self._sessions) > _MOST_SIGNED_IN:
                self._drop(next(iter(self._sessions)))
        return session

    def find(self, cookie: str) -> WebSession | None:
        """The session of a Cookie header; None if there is none, it was idle too long, or its key was revoked."""
        with self._lock:
            found, used = self._sessions.get(session_id(cookie), (None, 0.0))
            if found is None:
                return None
            if self._clock() - used > _IDLE_SECONDS:
                self._drop(found.id)
                return None
        if found.key and all(key.id != found.key for key in self._keys_of(found.person)):
            self.sign_out(found)
            return None
        with self._lock:
            if found.id in self._sessions:
                self._sessions[found.id] = (found, self._clock())
                self._sessions.move_to_end(found.id)
        return found

    def sign_out(self, session: WebSession) -> None:
        """Ends a session at once."""
        with self._lock:
            self._drop(session.id)

    def make_link(self, person: str) -> str:
        """Makes a token that signs a person in once, within two minutes."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._links[token] = (person, self._clock() + _LINK_SECONDS)
            while len(self._links) > _MOST_SIGNED_IN:
                self._links.popitem(last=False)
        return token

    def use_link(self, token: str) -> WebSession | None:
        """Signs in by a token of `make_link`; None if it was used before or has expired."""
        with self._lock:
            person, until = self._links.pop(token, ("", 0.0))
        return self.sign_in(person, may_approve=True) if person and self._clock() <= until else None

    def csrf(self, visitor: str) -> str:
        """The token that belongs to the cookie of a visitor, signed in or not."""
        return hmac.new(self._secret, visitor.encode("utf-8", "replace"), hashlib.sha256).hexdigest()

    def is_csrf(self, visitor: str, token: str) -> bool:
        """Whether the token belongs to the cookie of this visitor."""
        return bool(visitor) and hmac.compare_digest(self.csrf(visitor).encode(), token.encode("utf-8", "replace"))

    def say(self, session: WebSession, notice: Notice) -> None:
        """Stores a notice for the session's next page."""
        with self._lock:
            if session.id in self._sessions:
                self._notices[session.id] = notice

    def take_notice(self, session: WebSession) -> Notice | None:
        """The notice for this page, which is removed."""
        with self._lock:
            return self._notices.pop(session.id, None)

    def last_seen(self, person: str) -> float:
        """When a person last used the web page, since this process started; 0.0 if they did not."""
        with self._lock:
            return max((used for session, used in self._sessions.values() if session.person == person), default=0.0)

    def _drop(self, wanted: str) -> None:
        self._sessions.pop(wanted, None)
        self._notices.pop(wanted, None)


def session_id(cookie: str) -> str:
    """The value of our cookie in a Cookie header; "" if it is missing."""
    return cookie_value(cookie, COOKIE)


def cookie_value(cookie: str, name: str) -> str:
    """The value of a cookie in a Cookie header; "" if it is missing or malformed."""
    try:
        found = SimpleCookie(cookie).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def set_cookie(value: str, *, name: str = COOKIE, secure: bool, seconds: int | None = None) -> str:
    """The Set-Cookie header; browsers return the cookie only to the web page, and only from its own pages."""
    lasting = f"; Max-Age={seconds}" if seconds is not None else ""
    return f"{name}={value}; Path=/ui; HttpOnly; SameSite=Strict{'; Secure' if secure else ''}{lasting}"
