"""Where Telegram and the generic webhook call the gateway over HTTP. Every route needs a secret."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from hermes.base.errors import HermesError, StorageError
from hermes.gateway.platforms.telegram import SECRET_HEADER, Telegram
from hermes.gateway.platforms.webhook import Webhook
from hermes.http_server import Body, BodyLimits, BodyRefused, HttpServer, listen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.responses import Response

    from hermes.gateway.platforms.base import Inbox, Platform

    Handle = Callable[[Mapping[str, str], bytes], tuple[int, str]]  # the status, and what is wrong ("" for nothing)

_LOG = logging.getLogger("hermes.gateway")
_LIMITS = BodyLimits(size=1 << 20, signs=50_000)
_DRAIN_SECONDS = 5


def webhook_server(platforms: Mapping[str, Platform], inbox: Inbox, *, host: str, port: int) -> HttpServer:
    """A request is answered with success only when its message is stored."""
    routes = []
    for platform in platforms.values():
        if isinstance(platform, Telegram):
            routes.append(Route("/telegram", _endpoint(_telegram(platform, inbox)), methods=["POST"]))
        if isinstance(platform, Webhook):
            routes.append(Route("/webhook", _endpoint(_webhook(platform, inbox)), methods=["POST"]))
    try:
        listening = listen(host, port)
    except OSError as error:
        raise StorageError(
            f"the gateway cannot listen on {host}:{port}; choose another gateway.port, or see what listens there"
        ) from error
    return HttpServer(Starlette(routes=routes), listening, drain_seconds=_DRAIN_SECONDS)


def _endpoint(handle: Handle) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            body = await Request(request.scope, Body(request.receive, _LIMITS)).body()
        except BodyRefused as refused:
            return JSONResponse({"error": refused.message}, refused.status, refused.headers)
        status, problem = await asyncio.to_thread(_handled, handle, dict(request.headers), body)
        return JSONResponse({"error": problem} if problem else {"stored": True}, status)

    return answer


def _handled(handle: Handle, headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
    try:
        return handle(headers, body)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        return 400, f"this is not a message: {error}"
    except HermesError as error:  # not stored, so not acknowledged: they will try again
        _LOG.error("a message could not be stored: %s", error)
        return 503, "the message could not be stored; send it again"


def _telegram(platform: Telegram, inbox: Inbox) -> Handle:
    def handle(headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
        if not hmac.compare_digest(headers.get(SECRET_HEADER, "").encode(), platform.secret.encode()):
            return 401, "the secret is missing or wrong"
        if not platform.identity():
            return 503, "not ready yet; send it again"
        platform.store(inbox, [json.loads(body)])
        return 200, ""

    return handle


def _webhook(platform: Webhook, inbox: Inbox) -> Handle:
    def handle(headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
        if not platform.allows(headers, body):
            return 401, "the signature is missing, wrong or too old"
        inbox.take(platform.name, [platform.incoming(json.loads(body))])
        return 202, ""

    return handle
