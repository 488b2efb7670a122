"""The one HTTP client of the process: HTTP/1.1 with keep-alive, one TLS context, and waits that can be interrupted."""

from __future__ import annotations

import base64
import os
import select
import threading
import time
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.request import getproxies

import httpcore
import httpx

from hermes.base.errors import Interrupted, SettingsError
from hermes.base.version import __version__

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable, Iterator, Mapping

CANCELLED = "cancelled"  # the request extension that holds a function: should this request be given up?

# Seconds between two calls of it. Each call costs a fortieth of the CPU of a turn, so a long wait has fewer of them.
_LOOK_FIRST, _LOOK_AT_LEAST_EVERY = 0.1, 1.0
_KEPT_SECONDS = 60.0  # for which an unused connection stays open
_MOST_KEPT = 128  # unused connections to one server
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def shared_client() -> httpx.Client:
    """The same client for every model; a forked child gets its own, because sockets must not be shared."""
    return _client(os.getpid())


@cache
def _client(_process: int) -> httpx.Client:
    tls = httpx.create_ssl_context()
    direct = _InterruptibleTransport(tls)
    return httpx.Client(transport=direct, mounts=_proxies(tls, direct), trust_env=False, follow_redirects=False)


def _proxies(tls: ssl.SSLContext, direct: httpx.BaseTransport) -> dict[str, httpx.BaseTransport]:
    """The proxies of the environment; httpx ignores them once it is given a transport of ours."""
    found = getproxies()
    unproxied = [host.strip() for host in found.get("no", "").split(",") if host.strip()]
    if "*" in unproxied or not found.keys() & {"all", "http", "https"}:
        return {}
    mounts: dict[str, httpx.BaseTransport] = {f"all://{host}": direct for host in _LOOPBACK}
    for host in unproxied:
        # A name covers its subdomains too; an address covers only itself.
        mounts[f"all://{host}" if host[0] in "[0123456789" else f"all://*{host.lstrip('*.')}"] = direct
    for scheme in ("all", "http", "https"):
        if scheme in found:
            mounts[f"{scheme}://"] = _through(found[scheme], tls)
    return mounts


def _through(proxy: str, tls: ssl.SSLContext) -> httpx.BaseTransport:
    try:
        return _InterruptibleTransport(tls, proxy)
    except (ValueError, ImportError) as error:
        raise SettingsError(f"the proxy {proxy!r} of the environment cannot be used: {error}") from error


class _InterruptibleTransport(httpx.HTTPTransport):
    """Calls the request's `cancelled` function while it waits for bytes, also before the first one.

    A local model may read a long prompt for minutes before it sends anything.
    """

    def __init__(self, tls: ssl.SSLContext, proxy: str | None = None) -> None:
        super().__init__(verify=tls, proxy=proxy, limits=httpx.Limits(keepalive_expiry=_KEPT_SECONDS))
        self.connections = _Connections(self._pool)
        self._pool = self.connections  # type: ignore[assignment]  # all that httpx calls is there


class _Connections:
    """The connections to all servers. The one that was used last is used first, so that the others expire.

    At each request, httpcore's own pool looks at every socket that is not in use, and for each of them at all others.
    """

    def __init__(self, pool: httpcore.ConnectionPool) -> None:
        self._create = pool.create_connection
        self._current = threading.local()
        # httpx has no argument for the network backend of its pools, with a proxy or without.
        pool._network_backend = _Backend(self._current)  # noqa: SLF001
        self._lock = threading.Lock()
        self._kept: dict[tuple[bytes, ...], list[httpcore.ConnectionInterface]] = {}

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections that are not in use."""
        with self._lock:
            kept, self._kept = self._kept, {}
        for connection in (each for those in kept.values() for each in those):
            connection.close()

    def handle_request(self, request: httpcore.Request) -> httpcore.Response:
        """Sends a request; the body of the answer gives the connection back when it is closed."""
        if request.url.scheme not in (b"http", b"https"):
            raise httpcore.UnsupportedProtocol(f"{request.url.scheme.decode()!r} is not http or https")
        self._current.cancelled = request.extensions.get(CANCELLED)
        origin = request.url.origin
        server = (origin.scheme, origin.host, b"%d" % origin.port)
        connection = self._take(server) or self._create(origin)
        try:
            response = connection.handle_request(request)
        except BaseException:
            connection.close()
            raise
        body = _Body(response.stream, lambda: self._give_back(server, connection))
        return httpcore.Response(
            response.status, headers=response.headers, content=body, extensions=response.extensions
        )

    def _take(self, server: tuple[bytes, ...]) -> httpcore.ConnectionInterface | None:
        while True:
            with self._lock:
                kept = self._kept.get(server)
                connection = kept.pop() if kept else None
            if connection is None or not connection.has_expired():
                return connection
            connection.close()

    def _give_back(self, server: tuple[bytes, ...], connection: httpcore.ConnectionInterface) -> None:
        if not connection.is_idle():  # closed, as after an answer that was not read to its end
            connection.close()
            return
        with self._lock:
            kept = self._kept.setdefault(server, [])
            oldest = kept.pop(0) if kept and (len(kept) >= _MOST_KEPT or kept[0].has_expired()) else None
            kept.append(connection)
        if oldest is not None:
            oldest.close()


class _Body:
    """The bytes of an answer as they arrive."""

    def __init__(self, stream: Any, closed: Callable[[], None]) -> None:
        self._stream = stream
        self._closed = closed
        self._is_open = True

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._stream)

    def close(self) -> None:
        """Ends the answer, read or not."""
        if self._is_open:  # afterwards, another request may have the connection
            self._is_open = False
            self._stream.close()
            self._closed()


class Reply:
    """An answer whose body is read as it arrives; `headers` have names in lower case."""

    def __init__(self, response: httpcore.Response) -> None:
        self.status_code = response.status
        self.headers = {name.decode("latin-1").lower(): text.decode("latin-1") for name, text in response.headers}
        self._stream: Any = response.stream

    def iter_bytes(self) -> Iterator[bytes]:
        """The pieces of the body."""
        return iter(self._stream)

    def read(self) -> bytes:
        """The whole body."""
        return b"".join(self._stream)


@contextmanager
def posted(
    url: str, body: bytes, headers: Mapping[str, str], *, timeout: float, cancelled: Callable[[], bool]
) -> Iterator[Reply]:
    """Sends a POST request, without the work that httpx does around one for cookies, redirects and encodings.

    The errors are httpcore's, and those of httpx for an address that is none.
    """
    connections, address, fixed = _way_to(os.getpid(), url)
    named = {name.lower(): text for name, text in headers.items()} | fixed | {"content-length": str(len(body))}
    seconds = {"connect": min(10.0, timeout), "read": timeout, "write": timeout}
    request = httpcore.Request(
        "POST",
        address,
        headers=[(name.encode(), text.encode()) for name, text in named.items()],
        content=body,
        extensions={"timeout": seconds, CANCELLED: cancelled},
    )
    response = connections.handle_request(request)
    try:
        yield Reply(response)
    finally:
        response.close()


@cache
def _way_to(process: int, url: str) -> tuple[_Connections, httpcore.URL, dict[str, str]]:
    """The connections that lead to an address, the address in parts, and the headers that each request has."""
    asked = httpx.URL(url)
    transport = _client(process)._transport_for_url(asked)  # noqa: SLF001 - httpx applies the proxies there
    if not isinstance(transport, _InterruptibleTransport):
        raise TypeError(f"{url} has another transport than ours")
    headers = {"host": asked.netloc.decode("ascii"), "user-agent": f"hermes/{__version__}"}
    headers["accept-encoding"] = "identity"  # a compressed stream would come in larger pieces
    if asked.userinfo:
        headers["authorization"] = f"Basic {base64.b64encode(f'{asked.username}:{asked.password}'.encode()).decode()}"
    address = httpcore.URL(scheme=asked.raw_scheme, host=asked.raw_host, port=asked.port, target=asked.raw_path)
    return transport.connections, address, headers


class _Backend(httpcore.SyncBackend):
    def __init__(self, current: threading.local) -> None:
        super().__init__()
        self._current = current

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        plain = super().connect_tcp(host, port, timeout, local_address, socket_options)
        return _Stream(plain, self._current)


class _Stream(httpcore.NetworkStream):
    """A connection that serves one request at a time and remembers the `cancelled` of that request."""

    def __init__(self, inner: httpcore.NetworkStream, current: threading.local) -> None:
        self._inner = inner
        self._current = current
        self._cancelled: Callable[[], bool] | None = None

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        end = None if timeout is None else time.monotonic() + timeout
        look = _LOOK_FIRST
        while True:
            if self._cancelled is not None and self._cancelled():
                raise Interrupted("stopped while waiting for the model")
            left = look if end is None else min(look, end - time.monotonic())
            if left <= 0 or self._has_bytes(left):
                return self._inner.read(max_bytes, max(left, 0.001))
            look = min(2 * look, _LOOK_AT_LEAST_EVERY)

    def _has_bytes(self, seconds: float) -> bool:
        """Waits until there is something to read; costs less than a read that is given up."""
        source = self._inner.get_extra_info("socket")
        if getattr(source, "pending", int)():  # decrypted bytes, which the kernel does not know of
            return True
        ready = select.poll()
        ready.register(source, select.POLLIN)
        return bool(ready.poll(seconds * 1000))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # The request is written by the thread that asked for it; the answer may be read by another one.
        self._cancelled = getattr(self._current, "cancelled", None)
        self._inner.write(buffer, timeout)

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, timeout), self._current)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
