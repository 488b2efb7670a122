"""A platform for any other program: signed HTTP requests bring messages in, and signed requests take answers out.

    POST /webhook  {"id": "17", "chat": "room", "user": "u1", "text": "hello"}

A request carries `X-Hermes-Timestamp` and `X-Hermes-Signature: sha256=…`, the HMAC-SHA256 of `timestamp.body` with the
shared secret, or `Authorization: Bearer SECRET`. Answers are signed in the same way and carry a `delivery`: the same
one is the same piece of the same answer, and must be taken once.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import time
from typing import TYPE_CHECKING, Any, Self

from hermes.base.errors import HermesError, SettingsError, StorageError
from hermes.gateway.platforms.base import TIMEOUT, Answer, Incoming, Later, Never, Platform
from hermes.llm.transport import shared_client
from hermes.settings.config import secret

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from hermes.gateway.platforms.base import Inbox
    from hermes.http_server import HttpServer
    from hermes.settings.config import Settings
    from hermes.settings.home import Home

_OLDEST = 300  # seconds for which a signature is valid, so that a recorded request cannot be sent again later
_LONGEST_NAME = 200  # characters
_OK = 300  # HTTP statuses below this are successes
_SHORTEST_SECRET = 16  # characters
_DRAIN_SECONDS = 5  # for requests that are running when the gateway stops
_LOG = logging.getLogger("hermes.gateway")


class Webhook(Platform):
    """A signed webhook for any program, with replies posted to its address."""

    name = "webhook"
    is_called = True
    limit = 32_000

    def __init__(self, secret: str, reply_url: str, *, clock: Callable[[], float] = time.time) -> None:
        self._secret = secret.encode()
        self._reply_url = reply_url
        self._clock = clock

    @classmethod
    def of(cls, home: Home, settings: Settings) -> Self:
        shared = secret(home, "GATEWAY_WEBHOOK_SECRET") or ""
        if len(shared) < _SHORTEST_SECRET:
            raise SettingsError(
                f"gateway.webhook.enabled is true, so .env must hold GATEWAY_WEBHOOK_SECRET with at least "
                f"{_SHORTEST_SECRET} characters (for example from `openssl rand -hex 32`)"
            )
        reply_url = settings.text("gateway.webhook.reply_url")
        if not reply_url.startswith(("http://", "https://")):
            raise SettingsError("answers need an address: `hermes config set gateway.webhook.reply_url https://…`")
        return cls(shared, reply_url)

    def receive(self, inbox: Inbox, stop: Callable[[], bool], report: Callable[[str], None]) -> None:  # noqa: ARG002 - others call us
        """Has nothing to prepare: other programs call us."""
        report("")

    def identity(self) -> str:
        return self._reply_url

    def _allows(self, headers: Mapping[str, str], body: bytes) -> bool:
        """Whether a request comes from somebody who has the secret."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return hmac.compare_digest(given.strip().encode(), self._secret)
        stamp = headers.get("x-hermes-timestamp", "")
        if not stamp.isdecimal() or abs(self._clock() - int(stamp[:12])) > _OLDEST:
            return False
        return hmac.compare_digest(headers.get("x-hermes-signature", "").encode(), self._signature(stamp, body))

    def accept(self, inbox: Inbox, headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
        """Checks the signature and stores the message of the request."""
        if not self._allows(headers, body):
            return 401, "the signature is missing, wrong or too old"
        inbox.take(self.name, [self._incoming(json.loads(body))])
        return 202, ""

    def _incoming(self, document: Any) -> Incoming:
        """Reads the message of a request; ValueError or TypeError says what is wrong with it."""
        if not isinstance(document, dict):
            raise TypeError("expected a JSON object")
        for name in ("id", "user", "text"):
            if not isinstance(document.get(name), str) or not document[name]:
                raise ValueError(f"{name}: expected a text that is not empty")
        given = {name: str(document.get(name) or "") for name in ("id", "chat", "user", "thread", "user_name", "to")}
        if any(len(text) > _LONGEST_NAME for text in given.values()):
            raise ValueError(f"names have at most {_LONGEST_NAME} characters")
        kind = document.get("kind", "dm")
        if kind not in ("dm", "group"):
            raise ValueError("kind: expected dm or group")
        return Incoming(
            platform=self.name,
            update=given["id"],
            chat=given["chat"] or given["user"],
            user=given["user"],
            text=document["text"],
            kind=kind,
            thread=given["thread"],
            user_name=given["user_name"],
            message=given["id"],
            to=given["to"],
        )

    def send(self, to: Incoming, text: str, *, delivery: str) -> str:
        """Posts a signed answer to the configured address; the status decides whether to try again."""
        import httpx

        fields = {"delivery": delivery, "reply_to": to.update, "chat": to.chat, "thread": to.thread, "user": to.user}
        body = json.dumps({**fields, "text": text}, ensure_ascii=False).encode()
        stamp = str(int(self._clock()))
        headers = {
            "content-type": "application/json",
            "x-hermes-delivery": delivery,
            "x-hermes-timestamp": stamp,
            "x-hermes-signature": self._signature(stamp, body).decode(),
        }
        try:
            response = shared_client().post(self._reply_url, content=body, headers=headers, timeout=TIMEOUT)
        except httpx.HTTPError as error:
            raise Later(f"{self._reply_url} cannot be reached ({type(error).__name__})", seconds=0) from None
        answer = Answer(status=response.status_code, document={}, headers=response.headers)
        if answer.status < _OK:
            return delivery
        told = f"{self._reply_url} answered {answer.status}"
        raise Later(told, seconds=answer.seconds) if answer.passing else Never(told)

    def _signature(self, stamp: str, body: bytes) -> bytes:
        digest = hmac.new(self._secret, f"{stamp}.".encode() + body, hashlib.sha256)
        return b"sha256=" + digest.hexdigest().encode()


# --- the HTTP server, for every platform that calls us ----------------------------------------------------------------


def webhook_server(platforms: Mapping[str, Platform], inbox: Inbox, *, host: str, port: int) -> HttpServer:
    """Makes the server for platforms that call us, each at `/NAME`; a success means that the message is stored."""
    from starlette.applications import Starlette  # the extra `server`
    from starlette.routing import Route

    from hermes.http_server import HttpServer, listen

    called = [each for each in platforms.values() if each.is_called]
    routes = [Route(f"/{each.name}", _endpoint(each, inbox), methods=["POST"]) for each in called]
    try:
        listening = listen(host, port)
    except OSError as error:
        raise StorageError(
            f"the gateway cannot listen on {host}:{port}; choose another gateway.port, or see what listens there"
        ) from error
    return HttpServer(Starlette(routes=routes), listening, drain_seconds=_DRAIN_SECONDS)


def _endpoint(platform: Platform, inbox: Inbox) -> Callable[[Request], Awaitable[Response]]:
    from starlette.requests import Request
    from starlette.responses import JSONResponse

    from hermes.http_server import Body, BodyLimits, BodyRefused

    limits = BodyLimits(size=1 << 20, signs=50_000)

    async def answer(request: Request) -> Response:
        try:
            body = await Request(request.scope, Body(request.receive, limits)).body()
        except BodyRefused as refused:
            return JSONResponse({"error": refused.message}, refused.status, refused.headers)
        status, problem = await asyncio.to_thread(_accepted, platform, inbox, dict(request.headers), body)
        return JSONResponse({"error": problem} if problem else {"stored": True}, status)

    return answer


def _accepted(platform: Platform, inbox: Inbox, headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
    try:
        return platform.accept(inbox, headers, body)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        return 400, f"this is not a message: {error}"
    except HermesError as error:  # not stored, so not acknowledged: the platform tries again
        _LOG.error("a message could not be stored: %s", error)
        return 503, "the message could not be stored; send it again"
