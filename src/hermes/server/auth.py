"""Checks every request before any route: key, Host, Origin, size and rate, and each person's share of the server.

The checks run in this order: is the Host one of ours (else a web page could rebind a name to this machine), is the
Origin allowed (preflight requests of browsers are answered here), whose key is it, has this person asked too often, is
the body too large. Only then does a request reach the application.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import bisect
import json
import re
import threading
import time
from collections import Counter, OrderedDict
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol

from hermes.base.errors import HermesError
from hermes.http_server import BYTES_PER_SIGN, Body, BodyLimits, BodyRefused
from hermes.server.openai_wire import error_body

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

TYPE = "text/plain; version=0.0.4; charset=utf-8"
_COUNTERS = {
    "hermes_http_requests_total": "Requests by route and status.",
    "hermes_http_refused_total": "Requests that were refused at the door, by reason.",
    "hermes_turns_total": "Turns of conversations, by outcome.",
}
_HISTOGRAM = "hermes_http_request_seconds"
# Upper bounds of the histogram's buckets.
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Metrics:
    """Counters in Prometheus' format."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, Counter[str]] = {name: Counter() for name in _COUNTERS}  # by labels
        self._buckets = [0] * (len(_SECONDS) + 1)
        self._seconds = 0.0
        self.in_flight = 0
        self.gauges: dict[str, tuple[str, Callable[[], float]]] = {
            "hermes_http_in_flight": ("Requests being answered now.", lambda: self.in_flight)
        }

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Counts an answered request and its duration."""
        with self._lock:
            labels = f'method="{method}",route="{route}",status="{status}"'
            self._counts["hermes_http_requests_total"][labels] += 1
            self._buckets[bisect.bisect_left(_SECONDS, seconds)] += 1
            self._seconds += seconds

    def refused(self, reason: str) -> None:
        """Counts a request that was refused before any route."""
        with self._lock:
            self._counts["hermes_http_refused_total"][f'reason="{reason}"'] += 1

    def turn(self, outcome: str) -> None:
        """Counts a finished turn."""
        with self._lock:
            self._counts["hermes_turns_total"][f'outcome="{outcome}"'] += 1

    def text(self) -> str:
        """All counters in the text format that Prometheus reads."""
        lines: list[str] = []
        with self._lock:
            for name, counts in self._counts.items():
                lines += _head(name, "counter", _COUNTERS[name])
                lines += [f"{name}{{{labels}}} {count}" for labels, count in sorted(counts.items())]
            lines += _head(_HISTOGRAM, "histogram", "How long requests took.")
            totals = list(accumulate(self._buckets))
            bounds = (*map(str, _SECONDS), "+Inf")
            lines += [f'{_HISTOGRAM}_bucket{{le="{le}"}} {n}' for le, n in zip(bounds, totals, strict=True)]
            lines += [f"{_HISTOGRAM}_sum {self._seconds:.6f}", f"{_HISTOGRAM}_count {totals[-1]}"]
        for name, (about, read) in self.gauges.items():
            lines += [*_head(name, "gauge", about), f"{name} {read():g}"]
        return "\n".join(lines) + "\n"


def _head(name: str, kind: str, about: str) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]


class TurnLimits:
    """Counts running turns: at most `workers` in all and `each` of one person."""

    def __init__(self, workers: int, each: int) -> None:
        self._workers = workers
        self._each = each
        self._running: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._running.total()

    @property
    def full(self) -> bool:
        """Whether every worker answers a turn."""
        return len(self) >= self._workers

    def enough_for(self, person: str) -> bool:
        """Whether this person has as many running turns as one person may have."""
        return self._running[person] >= self._each

    def begin(self, person: str) -> None:
        """Counts a turn that begins; `end` must follow."""
        self._running[person] += 1

    def end(self, person: str) -> None:
        """Counts a turn as ended."""
        self._running[person] -= 1
        if not self._running[person]:
            del self._running[person]


class CallLimits:
    """Limits short calls to `at_once` per person; further ones wait only behind the same person's calls."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._slots: dict[str, asyncio.Semaphore] = {}
        self._calls: Counter[str] = Counter()

    @asynccontextmanager
    async def slot(self, person: str) -> AsyncIterator[None]:
        """Waits until fewer than `at_once` calls of this person run, and runs the block as one of them."""
        slots = self._slots.setdefault(person, asyncio.Semaphore(self._at_once))
        self._calls[person] += 1
        try:
            async with slots:
                yield
        finally:
            self._calls[person] -= 1
            if not self._calls[person]:
                del self._calls[person], self._slots[person]


KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}  # as OpenAI names them
PERSON = "hermes.person"
MAY_APPROVE = "hermes.may_approve"  # whether the key has the right to decide about pending writes
ROUTE = "hermes.route"
WEB_SESSION = "hermes.web_session"  # of the web page: who is signed in there, or None
_WEB = "/ui"  # where the web page is; "/" leads a browser there
_MOST_KNOWN = 10_000  # names with a bucket, so that a flood of addresses does not fill the memory
_ANY_PAGE = "*"
_EXPOSED = b"x-hermes-session, hermes-receipt, retry-after"
_HEADER_NAMES = re.compile(r"[A-Za-z0-9-]+(?:, ?[A-Za-z0-9-]+){0,63}")
_LOCAL = ("localhost", "127.0.0.1", "[::1]", "::1")
_FAILURES = 20  # wrong keys from one address before it has to wait
# Commas and brackets in the bodies of one person, beyond one body of the largest size: parsing holds up everybody.
_READ_PER_MINUTE = 1_200_000


@dataclass(slots=True)
class Bucket:
    """A token bucket: lets through `rate` per second on average, and `burst` at once."""

    rate: float
    burst: float
    left: float
    at: float

    def take(self, now: float, amount: float = 1) -> float:
        """Takes an amount; returns 0 if there is enough, else the seconds to wait."""
        self.left = min(self.burst, self.left + (now - self.at) * self.rate)
        self.at = now
        if self.left >= amount:
            self.left -= amount
            return 0.0
        return (amount - self.left) / self.rate


@dataclass(slots=True)
class Buckets:
    """A bucket for each name; the longest unused are dropped first."""

    per_minute: int
    clock: Callable[[], float]
    at_once: float = 0.0  # a sixth of a minute's worth unless given
    _known: OrderedDict[str, Bucket] = field(default_factory=OrderedDict)

    def take(self, name: str, amount: float = 1) -> float:
        """Takes from the bucket of this name; returns the seconds to wait, 0 if there is enough."""
        now, burst = self.clock(), self.at_once or max(1.0, self.per_minute / 6)
        bucket = self._known.pop(name, None) or Bucket(self.per_minute / 60, burst, burst, now)
        self._known[name] = bucket
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        return bucket.take(now, amount)


class _WebSession(Protocol):
    @property
    def person(self) -> str: ...
    @property
    def may_approve(self) -> bool: ...


class AuthMiddleware:
    """An ASGI application around another one; it puts the person whose key it was into the scope."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        who: Callable[[str], tuple[str, bool] | None],
        metrics: Metrics,
        per_minute: int = 600,
        body: BodyLimits | None = None,
        hosts: Iterable[str] = (),
        origins: Iterable[str] = (),
        web: Callable[[str], _WebSession | None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`who` gives the person of a key, and whether it may decide about pending writes.

        `web` finds the session of a Cookie header; without it there is no web page.
        """
        self._app = app
        self._web = web
        self._who = who
        self._metrics = metrics
        self._body = body or BodyLimits()
        # The MCP library parses a body on the event loop, so what it gets is small enough to parse in a few ms.
        self._mcp_body = replace(self._body, size=min(self._body.size, 1 << 20), signs=20_000)
        self._hosts = {*_LOCAL, *(host.lower() for host in hosts)}
        self._origins = {origin.lower().rstrip("/") for origin in origins}
        self._requests = Buckets(per_minute, clock)
        self._failures = Buckets(_FAILURES, clock, at_once=_FAILURES)
        largest = self._body.signs + self._body.size / BYTES_PER_SIGN
        self._reading = Buckets(_READ_PER_MINUTE, clock, at_once=largest)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # we offer no WebSockets
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        is_web = self._web is not None and _is_web(scope["path"], headers)  # only its own origin may use the web page
        cors = [] if is_web else self._cors(headers.get(b"origin", "").lower().rstrip("/"))
        if cors and scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
            named = headers.get(b"host", "").strip().lower()
            if _without_port(named) in self._hosts:
                await _answer_preflight(headers, cors, send)
                return
        answer = partial(_send_with, send, cors) if cors else send
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            self._metrics.refused(refusal.reason)
            await refusal.answer(answer)
            return
        await self._serve(scope, receive, answer)

    def _cors(self, origin: str) -> list[tuple[bytes, bytes]]:
        """The headers that let a browser show the answer to that page; none if the page is not listed.

        A key that the browser itself remembers is sent only for pages that are listed by name.
        """
        if not origin or not self._origins & {origin, _ANY_PAGE}:
            return []
        listed = origin in self._origins
        shared = [(b"access-control-allow-origin", origin.encode("latin-1") if listed else b"*"), (b"vary", b"origin")]
        trusted = [(b"access-control-allow-credentials", b"true")] if listed else []
        return [*shared, *trusted, (b"access-control-expose-headers", _EXPOSED)]

    def _refusal(self, scope: Scope, headers: dict[bytes, str]) -> Refusal | None:
        named = headers.get(b"host", "").strip().lower()
        if _without_port(named) not in self._hosts:
            return Refusal(421, "host", "this server does not answer under that name (server.hosts lists its names)")
        origin = headers.get(b"origin", "").lower().rstrip("/")
        is_web = self._web is not None and _is_web(scope["path"], headers)
        listed = not is_web and bool(self._origins & {origin, _ANY_PAGE})
        if origin and not listed and not _is_ours(origin, named):
            return Refusal(403, "origin", "requests of that web page are not allowed (server.origins lists pages)")
        address = (scope.get("client") or ("unknown", 0))[0]
        if is_web:
            return self._refuse_browser(scope, headers, address)
        try:
            known = self._who(_key(headers))
        except HermesError:
            return Refusal(503, "people", "keys cannot be checked now; the operator's log says why")
        if known is None:
            wait = self._failures.take(address)
            if wait:
                return Refusal(429, "guessing", "too many wrong keys", {"retry-after": str(int(wait) + 1)})
            return Refusal(401, "key", "a valid key is needed: Authorization: Bearer hk-…", _ASK)
        scope[PERSON], scope[MAY_APPROVE] = known
        return self._refuse_too_much(known[0], headers)

    def _refuse_browser(self, scope: Scope, headers: dict[bytes, str], address: str) -> Refusal | None:
        """Checks a request to the web page, which has sessions instead of keys and handles missing ones itself."""
        try:
            session = self._web(headers.get(b"cookie", "")) if self._web else None
        except HermesError:
            return Refusal(503, "people", "keys cannot be checked now; the operator's log says why")
        scope[WEB_SESSION] = session
        scope[PERSON] = session.person if session else f"at {address}"  # unlike any person's name, which has no space
        scope[MAY_APPROVE] = session is not None and session.may_approve
        return self._refuse_too_much(scope[PERSON], headers)

    def _refuse_too_much(self, person: str, headers: dict[bytes, str]) -> Refusal | None:
        if wait := self._requests.take(person):
            return Refusal(429, "rate", "too many requests; wait a little", {"retry-after": str(int(wait) + 1)})
        size = headers.get(b"content-length", "")
        if size.isdigit() and int(size) > self._body.size:
            return Refusal(413, "body", f"the body is larger than {self._body.size:,} bytes")
        return None

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, status, begun = time.perf_counter(), 500, False

        async def watched(message: Message) -> None:
            nonlocal status, begun
            if message["type"] == "http.response.start":
                status, begun = message["status"], True
                given = message.get("headers", ())
                names = {name.lower() for name, _ in given}
                message["headers"] = [*given, *(each for each in _ALWAYS if each[0] not in names)]
            await send(message)

        self._metrics.in_flight += 1
        try:
            spend = partial(self._reading.take, scope[PERSON])
            limits = self._mcp_body if scope["path"].startswith("/mcp") else self._body
            await self._app(scope, Body(receive, limits, spend), watched)
        except BodyRefused as refused:
            if not begun:
                status = refused.status
                await Refusal(refused.status, refused.reason, refused.message, refused.headers).answer(send)
        finally:
            self._metrics.in_flight -= 1
            route = scope.get(ROUTE) or "other"
            self._metrics.request(scope["method"], route, status, time.perf_counter() - started)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request was refused before it reached a route."""

    status: int
    reason: str
    message: str
    headers: dict[str, str] = field(default_factory=dict)

    async def answer(self, send: Send) -> None:
        """Sends the refusal in the form of OpenAI's errors."""
        kind = KINDS.get(self.status, "invalid_request_error")
        body = json.dumps(error_body(self.message, kind, code=self.reason)).encode()
        more = [(name.encode(), text.encode()) for name, text in self.headers.items()]
        start = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *more, *_ALWAYS]
        await send({"type": "http.response.start", "status": self.status, "headers": start})
        await send({"type": "http.response.body", "body": body})


_ASK = {"www-authenticate": 'Basic realm="hermes (any name, your key as password)", charset="UTF-8"'}
_ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)


async def _send_with(send: Send, more: list[tuple[bytes, bytes]], message: Message) -> None:
    if message["type"] == "http.response.start":
        message["headers"] = [*message.get("headers", ()), *more]
    await send(message)


async def _answer_preflight(headers: dict[bytes, str], cors: list[tuple[bytes, bytes]], send: Send) -> None:
    """Answers a browser's preflight, which has no key; it reveals only that the page may send requests."""
    wanted = headers.get(b"access-control-request-headers", "")
    allowed = wanted.encode("latin-1") if _HEADER_NAMES.fullmatch(wanted) else b"authorization, content-type"
    more = [
        (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
        (b"access-control-allow-headers", allowed),
        (b"access-control-max-age", b"600"),
    ]
    if headers.get(b"access-control-request-private-network") == "true":
        more.append((b"access-control-allow-private-network", b"true"))
    await send({"type": "http.response.start", "status": 204, "headers": [*cors, *more, *_ALWAYS]})
    await send({"type": "http.response.body", "body": b""})


def _key(headers: dict[bytes, str]) -> str:
    """The key of a request: a bearer token, or the password a browser asked for."""
    scheme, _, rest = headers.get(b"authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return rest.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(rest.strip(), validate=True).decode("utf-8", "replace").partition(":")[2]
        except (ValueError, binascii.Error):
            return ""
    return headers.get(b"x-api-key", "")


def _is_web(path: str, headers: dict[bytes, str]) -> bool:
    is_front = path == "/" and "text/html" in headers.get(b"accept", "")
    return is_front or path == _WEB or path.startswith(f"{_WEB}/")


def _is_ours(origin: str, host: str) -> bool:
    """Whether a page came from this server itself; another port is another program.

    A browser would let that program's pages use the key it remembers for us.
    """
    scheme, _, named = origin.partition("://")
    usual = {"http": ":80", "https": ":443"}.get(scheme, "")
    return bool(usual) and named.removesuffix(usual) == host.removesuffix(usual)


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]
