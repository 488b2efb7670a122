"""An OpenAI-compatible server on loopback: real static embeddings, and a "model" that follows rules.

It proves wire, storage and ranking of a real memory service, not how well a real model extracts.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from hermes.storage.semantic import static_vectors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Answer = Callable[[list[dict[str, Any]]], str | dict[str, Any]]

DIMENSIONS = 256


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """The address of a running stub; `answer` gets the messages of a completion and returns its text."""

    class Handler(_Handler):
        answer_with = staticmethod(answer)

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

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        if self.path.endswith("/embeddings"):
            texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
            rows = [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(embed(texts))]
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

    def _write(self, kind: str, body: bytes) -> None:
        self.send_response(200)
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


def embed(texts: list[str]) -> list[list[float]]:
    """Static word vectors where the package is installed, else hashed words: still nearer for common words."""
    embedding = static_vectors("auto")
    if embedding is not None:
        rows = [[float(x) for x in row] for row in embedding.embed(texts)]
        return [row if any(row) else _hashed(text) for row, text in zip(rows, texts, strict=True)]
    return [_hashed(text) for text in texts]


def _hashed(text: str) -> list[float]:
    row = [0.0] * DIMENSIONS
    for word in re.findall(r"\w+", text.lower()) or [""]:
        digest = hashlib.sha256(word.encode()).digest()
        row[digest[0]] += 1.0 if digest[1] % 2 else -1.0
    length = math.sqrt(sum(x * x for x in row)) or 1.0
    return [x / length for x in row]
