"""Memory services on loopback, for tests: each speaks its recorded wire and complains about any request that does not.

A test turns on a `trouble` to see what a provider does when its service fails in one of the usual ways.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

KEY = "test-key-0123456789"
# What the server does instead of answering: 503, no answer after it acted, 401, 429, HTML, another shape, or waiting.
TROUBLES = ("down", "dropped", "key", "limited", "malformed", "odd", "slow")


class Wrong(Exception):
    """A request that the real service would not understand."""


@dataclass(kw_only=True)
class Asked:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    raw: bytes


class WireService:
    """Subclasses answer requests; what is wrong with one they raise as `Wrong`."""

    def __init__(self) -> None:
        self.trouble = ""
        self.asked: list[Asked] = []
        self.complaints: list[str] = []
        self.released = threading.Event()
        self._http = _Server(("127.0.0.1", 0), partial(_Handler, self))
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def answer(self, asked: Asked) -> tuple[int, Any]:
        raise NotImplementedError

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.released.set()
        self._http.shutdown()
        self._http.server_close()
        assert kind is not None or self.complaints == [], self.complaints


class _Server(ThreadingHTTPServer):
    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread for each request, with a name by which tests know that it is no provider's."""
        given = (request, client_address)
        threading.Thread(target=self.process_request_thread, args=given, name="hermes-wire", daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, owner: WireService, *connection: Any) -> None:
        self._owner = owner
        super().__init__(*connection)

    def _serve(self) -> None:
        owner = self._owner
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        trouble = owner.trouble
        if trouble == "slow":
            owner.released.wait(30)
        if trouble in _PLAIN_TROUBLES:
            self._send(*_PLAIN_TROUBLES[trouble])
            return
        try:
            asked = self._asked(raw)
            owner.asked.append(asked)
            status, content = owner.answer(asked)
        except Wrong as wrong:
            owner.complaints.append(f"{self.command} {self.path}: {wrong}")
            status, content = 422, {"error": str(wrong)}
        if trouble == "dropped":
            self.close_connection = True
            return
        body = b"" if content is None else content if isinstance(content, bytes) else json.dumps(content).encode()
        self._send(status, body, {"content-type": "application/json"})

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _serve  # noqa: N815 - the names http.server calls

    def _asked(self, raw: bytes) -> Asked:
        split = urlsplit(self.path)
        headers = {name.lower(): text for name, text in self.headers.items()}
        body: Any = raw
        if raw and headers.get("content-type", "").startswith("application/json"):
            try:
                body = json.loads(raw)
            except ValueError as error:
                raise Wrong(f"the body is no JSON: {error}") from error
        query = dict(parse_qsl(split.query, keep_blank_values=True))
        return Asked(method=self.command, path=split.path, query=query, headers=headers, body=body, raw=raw)

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        try:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.send_header("connection", "close")  # or the shared client keeps a socket for every test
            for name, text in headers.items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client did not wait

    def log_message(self, *_: object) -> None:
        pass


_PLAIN_TROUBLES: dict[str, tuple[int, bytes, dict[str, str]]] = {
    "down": (503, b'{"error": "maintenance"}', {"content-type": "application/json"}),
    "key": (401, f'{{"detail": "bad key {KEY}"}}'.encode(), {"content-type": "application/json"}),
    "limited": (429, b'{"error": "too many"}', {"content-type": "application/json", "retry-after": "7"}),
    "malformed": (200, b"<html>welcome</html>", {"content-type": "text/html"}),
    "odd": (200, b'{"surprise": 1}', {"content-type": "application/json"}),
}


def fits(body: Any, required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    """The body, after its keys and their types were checked; a key nobody recorded is wrong too."""
    if not isinstance(body, dict):
        raise Wrong(f"expected an object, found {type(body).__name__}")
    known = {**required, **(optional or {})}
    if lacking := required.keys() - body.keys():
        raise Wrong(f"it lacks {', '.join(sorted(lacking))}")
    if unknown := body.keys() - known.keys():
        raise Wrong(f"it has {', '.join(sorted(unknown))}, which the service does not know")
    for key, given in body.items():
        if not isinstance(given, known[key]):
            raise Wrong(f"{key} is {type(given).__name__}")
    return body


def shared_words(one: str, other: str) -> bool:
    """Whether two texts share a word of some length: what these services call meaning."""
    return bool(_words(one) & _words(other))


def _words(text: str) -> set[str]:
    return {word for word in "".join(c.lower() if c.isalnum() else " " for c in text).split() if len(word) > 3}
