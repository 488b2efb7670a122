"""A model server on loopback that speaks both wires, for tests: it answers as it is told and keeps what it was sent."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

STREAM = "text/event-stream"


@dataclass(kw_only=True)
class Answer:
    """`pieces` are written one by one; `hold` is waited for before the first byte; `cut` breaks off after the last."""

    pieces: Sequence[bytes] = ()
    status: int = 200
    content_type: str = STREAM
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    hold: threading.Event | None = None
    hold_end: threading.Event | None = None


@dataclass(kw_only=True)
class Received:
    path: str
    headers: dict[str, str]
    body: bytes
    client: tuple[str, int]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class ModelServer:
    """`strict` refuses a request that the pickiest of the real servers would refuse."""

    def __init__(self, *answers: Answer, strict: bool = False) -> None:
        self.answers = list(answers)
        self.strict = strict
        self.received: list[Received] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, owner: ModelServer, *connection: Any) -> None:
        self._owner = owner
        super().__init__(*connection)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        names = {name.lower(): text for name, text in self.headers.items()}
        self._owner.received.append(Received(path=self.path, headers=names, body=body, client=self.client_address))
        wrong = _wrong(json.loads(body)["messages"]) if self._owner.strict else ""
        answer = failing(400, {"error": {"message": wrong}}) if wrong else self._owner.answers.pop(0)
        if answer.hold is not None:
            answer.hold.wait()
        try:
            self._write(answer)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client went away, as some tests want

    do_GET = do_PUT = do_DELETE = do_PATCH = do_POST  # noqa: N815 - the names http.server calls

    def _write(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("content-type", answer.content_type)
        self.send_header("transfer-encoding", "chunked")
        for name, text in answer.headers.items():
            self.send_header(name, text)
        self.end_headers()
        for piece in filter(None, answer.pieces):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        if answer.hold_end is not None:
            answer.hold_end.wait()
        self.close_connection = answer.cut
        if not answer.cut:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: object) -> None:
        pass


def _wrong(messages: list[dict[str, Any]]) -> str:
    """Why a strict server refuses these messages of either wire; "" when it does not."""
    for message in messages:
        if strange := message.keys() - {"role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content"}:
            return f"unknown fields {strange}"
        for call in message.get("tool_calls") or ():
            try:
                given = json.loads(call["function"]["arguments"], parse_constant=_no_constant)
            except ValueError as error:
                return f"function.arguments is not valid JSON: {error}"
            if not isinstance(given, dict):
                return "function.arguments is not an object"
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "tool_use" and not isinstance(block["input"], dict):
                return "tool_use.input is not an object"
    return ""


def _no_constant(name: str) -> None:
    raise ValueError(name)


def sse(*contents: Any, done: bool = True, named: bool = False) -> bytes:
    """Events with these contents; `named` is Anthropic's way, `[DONE]` OpenAI's."""
    lines = []
    for content in contents:
        name = f"event: {content['type']}\n" if named else ""
        lines.append(f"{name}data: {json.dumps(content, ensure_ascii=False)}\n\n")
    return ("".join(lines) + ("data: [DONE]\n\n" if done and not named else "")).encode()


def chat(*deltas: dict[str, Any], reason: str = "stop", usage: dict[str, Any] | None = None) -> bytes:
    """A chat-completions stream of these deltas."""
    chunks: list[dict[str, Any]] = [{"model": "m-1", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks.append({"model": "m-1", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    return sse(*chunks, {"model": "m-1", "choices": [], "usage": usage or {}})


def claude(*blocks: tuple[dict[str, Any], list[dict[str, Any]]], reason: str = "end_turn", **usage: Any) -> bytes:
    """A messages stream: each block with the deltas that fill it."""
    start = {"model": "claude-x", "usage": {"input_tokens": 10, "output_tokens": 1, **usage}}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start}, {"type": "ping"}]
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}})
    events.append({"type": "message_stop"})
    return sse(*events, named=True)


def failing(status: int, content: Any, **headers: str) -> Answer:
    sent = {name.replace("_", "-"): text for name, text in headers.items()}
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return Answer(status=status, content_type="application/json", pieces=[body], headers=sent)
