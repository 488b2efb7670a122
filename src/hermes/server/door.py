"""The door of the HTTP server: nobody gets past it without a key, whatever the route.

In this order: is the Host one of ours (else a web page could rebind a name to this machine), is the Origin allowed,
whose key is it, has this person asked too often, is the body too large. Only then is there an application at all.
"""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hermes.vocabulary.errors import HermesError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from hermes.server.metrics import Metrics

PERSON = "hermes.person"
ROUTE = "hermes.route"
_MOST_KNOWN = 10_000
_LOCAL = ("localhost", "127.0.0.1", "[::1]", "::1")
_FAILURES = 20  # wrong keys from one address before it has to wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`per_minute` requests of one person; `body` bytes; seconds a client may take to send its body."""

    per_minute: int = 600
    body: int = 10 << 20
    receive_seconds: float = 30.0


@dataclass(slots=True)
class Bucket:
    """Lets through `rate` a second on average, and `burst` at once."""

    rate: float
    burst: float
    left: float
    at: float

    def take(self, now: float) -> float:
        """0 when it is let through, else the seconds to wait."""
        self.left = min(self.burst, self.left + (now - self.at) * self.rate)
        self.at = now
        if self.left >= 1:
            self.left -= 1
            return 0.0
        return (1 - self.left) / self.rate


@dataclass(slots=True)
class Buckets:
    """A bucket per name, the longest unused forgotten first."""

    per_minute: int
    clock: Callable[[], float]
    at_once: float = 0.0  # a sixth of a minute's worth unless given
    _known: OrderedDict[str, Bucket] = field(default_factory=OrderedDict)

    def take(self, name: str) -> float:
        now, burst = self.clock(), self.at_once or max(1.0, self.per_minute / 6)
        bucket = self._known.pop(name, None) or Bucket(self.per_minute / 60, burst, burst, now)
        self._known[name] = bucket
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        return bucket.take(now)


class Door:
    """An ASGI application around another; the person whose key it was stands in the scope."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        who: Callable[[str], str | None],
        metrics: Metrics,
        limits: Limits,
        hosts: Iterable[str] = (),
        origins: Iterable[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._who = who
        self._metrics = metrics
        self._limits = limits
        self._hosts = {*_LOCAL, *(host.lower() for host in hosts)}
        self._origins = {origin.lower().rstrip("/") for origin in origins}
        self._requests = Buckets(limits.per_minute, clock)
        self._failures = Buckets(_FAILURES, clock, at_once=_FAILURES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no sockets to upgrade to
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            self._metrics.refused(refusal.reason)
            await refusal.answer(send)
            return
        await self._let_in(scope, receive, send)

    def _refusal(self, scope: Scope, headers: dict[bytes, str]) -> Refusal | None:
        named = headers.get(b"host", "").strip().lower()
        if _without_port(named) not in self._hosts:
            return Refusal(421, "host", "this server does not answer under that name (server.hosts lists its names)")
        origin = headers.get(b"origin", "").lower().rstrip("/")
        if origin and origin not in self._origins and not _is_ours(origin, named):
            return Refusal(403, "origin", "requests of that web page are not allowed (server.origins lists pages)")
        address = (scope.get("client") or ("unknown", 0))[0]
        try:
            person = self._who(_key(headers))
        except HermesError:
            return Refusal(503, "people", "keys cannot be checked now; the operator's log says why")
        if person is None:
            wait = self._failures.take(address)
            if wait:
                return Refusal(429, "guessing", "too many wrong keys", {"retry-after": str(int(wait) + 1)})
            return Refusal(401, "key", "a valid key is needed: Authorization: Bearer hk-…", _ASK)
        if wait := self._requests.take(person):
            return Refusal(429, "rate", "too many requests; wait a little", {"retry-after": str(int(wait) + 1)})
        if (
            headers.get(b"content-length", "0").isdigit()
            and int(headers.get(b"content-length", "0")) > self._limits.body
        ):
            return self._too_large()
        scope[PERSON] = person
        return None

    async def _let_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, status, begun = time.perf_counter(), 500, False
        body = _Body(receive, self._limits)

        async def watched(message: Message) -> None:
            nonlocal status, begun
            if message["type"] == "http.response.start":
                status, begun = message["status"], True
                message["headers"] = [*message.get("headers", ()), *_ALWAYS]
            await send(message)

        self._metrics.in_flight += 1
        try:
            await self._app(scope, body, watched)
        except Stop as stop:
            if not begun:
                status = stop.status
                await Refusal(stop.status, stop.reason, stop.message).answer(send)
        finally:
            self._metrics.in_flight -= 1
            route = scope.get(ROUTE) or "other"
            self._metrics.request(scope["method"], route, status, time.perf_counter() - started)

    def _too_large(self) -> Refusal:
        return Refusal(413, "body", f"the body is larger than {self._limits.body:,} bytes")


@dataclass(frozen=True, slots=True)
class Refusal:
    status: int
    reason: str
    message: str
    headers: dict[str, str] = field(default_factory=dict)

    async def answer(self, send: Send) -> None:
        kinds = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
        kind = kinds.get(self.status, "invalid_request_error")
        body = json.dumps(
            {"error": {"message": self.message, "type": kind, "param": None, "code": self.reason}}
        ).encode()
        more = [(name.encode(), text.encode()) for name, text in self.headers.items()]
        start = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *more, *_ALWAYS]
        await send({"type": "http.response.start", "status": self.status, "headers": start})
        await send({"type": "http.response.body", "body": body})


class Stop(Exception):
    """The body cannot be taken: too large, or too slow."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message


class _Body:
    """Receives a request's body within its limits; what comes after it (a disconnect) is waited for without one."""

    def __init__(self, receive: Receive, limits: Limits) -> None:
        self._receive = receive
        self._limits = limits
        self._size = 0
        self._whole = False

    async def __call__(self) -> Message:
        if self._whole:
            return await self._receive()
        import asyncio

        try:
            async with asyncio.timeout(self._limits.receive_seconds):
                message = await self._receive()
        except TimeoutError as error:
            raise Stop(408, "slow", "the body took too long to arrive") from error
        self._size += len(message.get("body", b""))
        if self._size > self._limits.body:
            raise Stop(413, "body", f"the body is larger than {self._limits.body:,} bytes")
        self._whole = message["type"] != "http.request" or not message.get("more_body", False)
        return message


_ASK = {"www-authenticate": 'Basic realm="hermes (any name, your key as password)", charset="UTF-8"'}
_ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)


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
