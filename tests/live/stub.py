"""An OpenAI-compatible server on loopback: real static embeddings, and a "model" that follows rules.

It proves wire, storage and ranking of a real memory service, not how well a real model extracts.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from hermes.conversations.search.semantic import static_vectors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hermes.conversations.search.semantic import Embedding

    Answer = Callable[[list[dict[str, Any]]], str | dict[str, Any]]


@contextmanager
def serving(answer: Answer, embedding: Embedding | None = None) -> Iterator[str]:
    """The address of a running stub; `answer` gets the messages of a completion and returns its text.

    A service that asks for vectors of a stub without an `embedding` is told that there are none.
    """

    class Handler(_Handler):
        answer_with = staticmethod(answer)
        embed_with = embedding

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answer_with: Any
    embed_with: Embedding | None

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        if self.path.endswith("/embeddings"):
            if self.embed_with is None:
                self._write("application/json", b'{"error": {"message": "this stub has no embeddings"}}', status=404)
                return
            texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
            vectors = _vectors(self.embed_with, texts)
            rows = [{"object": "embedding", "index": i, "embedding": each} for i, each in enumerate(vectors)]
            found: dict[str, Any] = {"object": "list", "data": rows, "model": "stub", "usage": _USAGE}
        else:
            said = self.answer_with(asked["messages"])
            # An answer is a text, or a whole message where the "model" calls a tool.
            message = {"role": "assistant", **(said if isinstance(said, dict) else {"content": said})}
            reason = "tool_calls" if message.get("tool_calls") else "stop"
            if asked.get("stream"):
                self._stream(message, reason)
                return
            choice = {"index": 0, "message": message, "finish_reason": reason}
            found = {"id": "stub", "object": "chat.completion", "created": 0, "model": "stub", "choices": [choice]}
            found["usage"] = _USAGE
        self._send(found)

    def _stream(self, message: dict[str, Any], reason: str) -> None:
        common = {"id": "stub", "object": "chat.completion.chunk", "created": 0, "model": "stub"}
        calls = [{"index": i, **each} for i, each in enumerate(message.get("tool_calls") or ())]
        delta = {**message, **({"tool_calls": calls} if calls else {})}
        chunks: list[dict[str, Any]] = [
            {**common, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {**common, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": _USAGE},
        ]
        lines = "".join(f"data: {json.dumps(each)}\n\n" for each in chunks) + "data: [DONE]\n\n"
        self._write("text/event-stream", lines.encode())

    def _send(self, found: dict[str, Any]) -> None:
        self._write("application/json", json.dumps(found).encode())

    def _write(self, kind: str, body: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        """The list of models, which some services look at first."""
        self._send({"object": "list", "data": [{"id": "stub", "object": "model", "created": 0, "owned_by": "stub"}]})

    def log_message(self, *_: object) -> None:
        pass


_USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


def real_vectors(packages: str = "") -> Embedding:
    """Static word vectors of the package in `packages`, or of the one installed here; without it there is no trial."""
    if packages:
        sys.path.append(packages)  # at the end: what this process has goes first
    embedding = static_vectors("on")
    assert embedding is not None
    embedding.embed(["ready"])  # says now that it is not there, not in the middle of a trial
    return embedding


def _vectors(embedding: Embedding, texts: list[str]) -> list[list[float]]:
    rows = [[float(x) for x in row] for row in embedding.embed(texts)]
    return [row if any(row) else _somewhere(text, len(row)) for row, text in zip(rows, texts, strict=True)]


def _somewhere(text: str, dimensions: int) -> list[float]:
    """For a text without any known word: services divide by the length of a vector, and it must not be zero."""
    place = hashlib.sha256(text.encode()).digest()[0] % dimensions
    return [float(each == place) for each in range(dimensions)]
