"""The one HTTP client of the process: HTTP/1.1 with keep-alive, one TLS context, and waits that can be interrupted."""

from __future__ import annotations

import os
import threading
import time
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.request import getproxies

import httpcore
import httpx

from hermes.base.errors import Interrupted, SettingsError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable

CANCELLED = "cancelled"  # the request extension that holds a function: should this request be given up?

# Seconds between two calls of it. Each call costs a fortieth of the CPU of a turn, so a long wait has fewer of them.
_LOOK_FIRST, _LOOK_AT_LEAST_EVERY = 0.1, 1.0
# A server answers hundreds of people at once; each turn holds a connection for as long as the model takes.
_LIMITS = httpx.Limits(max_connections=1024, max_keepalive_connections=128, keepalive_expiry=60)
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
        super().__init__(verify=tls, proxy=proxy, limits=_LIMITS)
        self._current = threading.local()
        # httpx has no argument for the network backend of its pools, with a proxy or without.
        self._pool._network_backend = _Backend(self._current)  # noqa: SLF001

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self._current.cancelled = request.extensions.get(CANCELLED)
        return super().handle_request(request)


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
            try:
                return self._inner.read(max_bytes, max(left, 0.001))
            except httpcore.ReadTimeout:
                if end is not None and time.monotonic() >= end:
                    raise
                look = min(2 * look, _LOOK_AT_LEAST_EVERY)

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
