"""The gateway's own small HTTP server: where Telegram and the generic webhook call. Every route needs a secret."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import threading
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from hermes.base.errors import HermesError, StorageError
from hermes.gateway.platforms.telegram import SECRET_HEADER, Telegram
from hermes.gateway.platforms.webhook import Webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from hermes.gateway.platforms.base import Inbox, Platform

_LOG = logging.getLogger("hermes.gateway")
_LARGEST = 1 << 20
_PATIENCE = 30
_BODY_SECONDS = 20


class Door:
    """Serves in a thread of its own; a request is answered with success only when its message is stored."""

    def __init__(self, platforms: Mapping[str, Platform], inbox: Inbox, *, host: str, port: int) -> None:
        routes = []
        for platform in platforms.values():
            if isinstance(platform, Telegram):
                routes.append(Route("/telegram", _guarded(_telegram(platform, inbox)), methods=["POST"]))
            if isinstance(platform, Webhook):
                routes.append(Route("/webhook", _guarded(_webhook(platform, inbox)), methods=["POST"]))
        config = uvicorn.Config(
            Starlette(routes=routes),
            host=host,
            port=port,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=256,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=5,
            h11_max_incomplete_event_size=64 << 10,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, name="gateway-door", daemon=True)

    def start(self) -> None:
        self._thread.start()
        waited = threading.Event()
        while not self._server.started and self._thread.is_alive():
            waited.wait(0.01)
        if not self._server.started:
            config = self._server.config
            raise StorageError(
                f"the gateway cannot listen on {config.host}:{config.port}; choose another gateway.port, or see what "
                "listens there"
            )

    @property
    def port(self) -> int:
        return int(self._server.servers[0].sockets[0].getsockname()[1])

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(_PATIENCE)


def _guarded(handle: Callable[[Mapping[str, str], bytes], tuple[int, str]]) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        body = b""
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > _LARGEST:
                        return JSONResponse({"error": f"the body is larger than {_LARGEST:,} bytes"}, 413)
        except TimeoutError:
            return JSONResponse({"error": "the body took too long to arrive"}, 408)
        status, told = await asyncio.to_thread(_handled, handle, dict(request.headers), body)
        return JSONResponse({"error": told} if told else {"stored": True}, status)

    return answer


def _handled(
    handle: Callable[[Mapping[str, str], bytes], tuple[int, str]], headers: Mapping[str, str], body: bytes
) -> tuple[int, str]:
    try:
        return handle(headers, body)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        return 400, f"this is not a message: {error}"
    except HermesError as error:  # not stored, so not acknowledged: they will try again
        _LOG.error("a message could not be stored: %s", error)
        return 503, "the message could not be stored; send it again"


def _telegram(platform: Telegram, inbox: Inbox) -> Callable[[Mapping[str, str], bytes], tuple[int, str]]:
    def handle(headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
        if not hmac.compare_digest(headers.get(SECRET_HEADER, "").encode(), platform.secret.encode()):
            return 401, "the secret is missing or wrong"
        if not platform.identity():
            return 503, "not ready yet; send it again"
        platform.store(inbox, [json.loads(body)])
        return 200, ""

    return handle


def _webhook(platform: Webhook, inbox: Inbox) -> Callable[[Mapping[str, str], bytes], tuple[int, str]]:
    def handle(headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
        if not platform.allows(headers, body):
            return 401, "the signature is missing, wrong or too old"
        inbox.take(platform.name, [platform.incoming(json.loads(body))])
        return 202, ""

    return handle
