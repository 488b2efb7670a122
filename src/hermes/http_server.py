"""What `hermes serve` and the gateway's webhooks share: a socket, uvicorn with our limits, and bounded request bodies.

A client that does not finish its request costs little and stops nobody: headers and body have deadlines, and when too
many requests are unfinished at once, the oldest of them is dropped.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive

_MOST_REQUESTS = 4096
_MOST_DESCRIPTORS = 1 << 16
_DESCRIPTORS = "/dev/fd"  # each process sees its own here, on Linux and macOS
_LARGEST_HEADERS = 64 << 10  # bytes
_STOP_SECONDS = 30  # that `stop` waits for the thread
BYTES_PER_SIGN = 100  # reading so many bytes of text takes about as long as parsing one value


def raise_descriptor_limit() -> None:
    """Raises the soft limit of open files and sockets, which is often 256 or 1,024, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def descriptor_limit() -> int:
    """How many files and sockets this process may have open."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else min(soft, _MOST_DESCRIPTORS)


def free_descriptors() -> int:
    """How many more files and sockets this process may open; 0 if even that cannot be found out."""
    try:
        return descriptor_limit() - len(os.listdir(_DESCRIPTORS))
    except OSError:  # not even the list could be opened
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyLimits:
    """How large a request body may be and how long it may take to arrive."""

    size: int = 10 << 20  # bytes
    signs: int = 300_000  # commas and brackets, which bound the values of a JSON document; parsing them takes 20 ms
    seconds: float = 30.0  # for the whole body, from the end of the headers


class BodyRefused(Exception):
    """A request's body is too large, takes too long, or never comes; `headers` belong to the answer.

    A client that is late is cut off. One that sends too much may finish, because it would otherwise see a reset
    connection instead of the answer.
    """

    def __init__(self, status: int, reason: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.reason, self.message, self.headers = status, reason, message, headers or {}


class Body:
    """Receives a request's body within its limits, then waits without a limit for what follows (a disconnect).

    `spend` receives the cost of parsing each part and returns the seconds to wait if that is too much.
    """

    def __init__(self, receive: Receive, limits: BodyLimits, spend: Callable[[float], float] | None = None) -> None:
        self._receive = receive
        self._limits = limits
        self._spend = spend
        self._deadline = asyncio.get_running_loop().time() + limits.seconds
        self._size = self._signs = 0
        self._whole = False

    async def __call__(self) -> Message:
        if self._whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError as error:
            late = {"connection": "close"}
            raise BodyRefused(408, "slow", "the body took too long to arrive", late) from error
        if message["type"] == "http.disconnect":
            raise BodyRefused(400, "gone", "the client disconnected before it had sent the whole body")
        data: bytes = message.get("body", b"")
        self._size += len(data)
        if self._size > self._limits.size:
            raise BodyRefused(413, "body", f"the body is larger than {self._limits.size:,} bytes")
        signs = sum(map(data.count, (b",", b"[", b"{")))
        self._signs += signs
        if self._signs > self._limits.signs:
            raise BodyRefused(413, "body", f"the body has more than {self._limits.signs:,} commas and brackets")
        if self._spend is not None and (wait := self._spend(signs + len(data) / BYTES_PER_SIGN)):
            later = {"retry-after": str(int(wait) + 1)}
            raise BodyRefused(429, "reading", "too much to read in so little time; wait a little", later)
        self._whole = not message.get("more_body", False)
        return message


class Protocol(H11Protocol):
    """uvicorn's own protocol, with a deadline for the headers and a limit on unfinished requests."""

    header_seconds = 20.0
    most_unfinished = 200
    grace_seconds = 1.0  # before a connection may be dropped: many honest clients may connect in the same moment
    most_open = _MOST_REQUESTS
    since = 0.0
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Starts the deadline for the headers, and makes room for the new connection."""
        super().connection_made(transport)
        self.since = self.loop.time()
        self._expect_headers()
        self._drop_unfinished()
        self._drop_unused()

    def data_received(self, data: bytes) -> None:
        """Starts or ends the deadline for the headers, as far as the request has come."""
        super().data_received(data)
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancels the deadline of a connection that has closed."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _drop_unfinished(self) -> None:
        """Closes the oldest connections beyond the limit whose client still owes a part of its request."""
        now = self.loop.time()
        connections = [each for each in self.connections if isinstance(each, Protocol)]
        waiting = sorted((each.since, id(each), each) for each in connections if each.owes_a_request)
        for since, _, connection in waiting[: -self.most_unfinished]:
            if now - since > self.grace_seconds:
                connection.transport.close()

    def _drop_unused(self) -> None:
        """Closes the oldest connections beyond the limit that are only kept alive: each holds a descriptor."""
        connections = [each for each in self.connections if isinstance(each, Protocol)]
        unused = sorted((each.since, id(each), each) for each in connections if each.is_only_kept_alive)
        for _, _, connection in unused[: max(0, len(connections) - self.most_open)]:
            connection.transport.close()

    @property
    def is_only_kept_alive(self) -> bool:
        """Whether the last request is answered and no other has begun."""
        answered = not self.owes_a_request and not self._answering
        return answered and not self.transport.is_closing()

    @property
    def owes_a_request(self) -> bool:
        """Whether the client has not sent its first request yet, or not all of a body."""
        nothing_yet = self.cycle is None  # a connection that is kept alive has had its answer
        return not self.transport.is_closing() and (nothing_yet or self.conn.their_state is h11.SEND_BODY)

    @property
    def _answering(self) -> bool:
        cycle: Any = self.cycle  # None before the first request, whatever its type says
        return cycle is not None and not cycle.response_complete

    def _expect_headers(self) -> None:
        if self._answering:
            self._stop_waiting()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.header_seconds, self._give_up)

    def _give_up(self) -> None:
        self._deadline = None
        if not self._answering and not self.transport.is_closing():
            self.transport.close()

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class HttpServer:
    """Serves an application on a listening socket: until a signal (`run`), or in a thread (`start`)."""

    def __init__(self, app: ASGIApp, listening: socket.socket, *, drain_seconds: int) -> None:
        self._listening = listening
        self.port = int(listening.getsockname()[1])
        # A request may need descriptors besides its socket, such as those of a database.
        most = min(_MOST_REQUESTS, max(1, descriptor_limit() // 2))

        class Limited(Protocol):
            most_open = max(1, most // 2)

        config = uvicorn.Config(
            app,
            http=Limited,
            log_config=None,  # as everything else is logged
            access_log=False,  # addresses and paths of people are private
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=drain_seconds,
            limit_concurrency=most,
            h11_max_incomplete_event_size=_LARGEST_HEADERS,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self.run, name="http-server", daemon=True)

    def run(self) -> None:
        """Serves in this thread until a signal or `stop`."""
        self._server.run(sockets=[self._listening])

    def start(self) -> None:
        """Serves in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Lets running requests finish within the time to drain, then closes the socket."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS)
        self._listening.close()


def listen(host: str, port: int) -> socket.socket:
    """Opens a listening socket, for IPv6 if the host is such an address; port 0 picks a free port."""
    return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
