"""Vectors from an OpenAI-compatible endpoint, as `search.embedding` names one."""

from __future__ import annotations

import json
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from hermes.conversations.database import SessionDB
from hermes.session.parts import embedding_of, open_past
from hermes.settings.config import save_secret
from hermes.settings.home import find_home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytest.importorskip("numpy")
_ANIMALS = {"dog", "puppy", "pet", "beagle"}


@contextmanager
def _service() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """An address that answers as OpenAI does, and what it was asked; rows come back in another order, as they may."""
    asked: list[dict[str, Any]] = []

    class Service(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked.append({"path": self.path, "key": self.headers["authorization"], **body})
            rows = [
                {"object": "embedding", "index": at, "embedding": _vector(text)}
                for at, text in enumerate(body["input"])
            ]
            answer = {"object": "list", "data": rows[::-1], "model": body["model"], "usage": {"prompt_tokens": 1}}
            data = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", asked
    finally:
        server.shutdown()
        server.server_close()


def _vector(text: str) -> list[float]:
    words = set(re.findall(r"\w+", text.lower()))
    return [float(len(words & _ANIMALS)), 0.1, 0.0]


@pytest.mark.proves("semantic.endpoint")
def test_a_named_endpoint_finds_what_shares_no_word_and_gets_the_model_and_the_key(home: Path) -> None:
    with _service() as (url, asked):
        home.mkdir(mode=0o700)
        (home / "config.yaml").write_text(f"search:\n  embedding: {url}\n  embedding_model: small-1\n")
        save_secret(find_home(home), "EMBEDDING_API_KEY", "key-1")
        with SessionDB.open(home / "state.db", semantic=lambda: embedding_of(find_home(home))) as db:
            wanted = db.append(db.create_session(), {"role": "user", "content": "The beagle chewed my shoes."})
            db.append(db.create_session(), {"role": "user", "content": "Rent is due on Friday."})
            assert db.search("What did the puppy do?")[0].message_id == wanted
    assert {(each["path"], each["key"], each["model"]) for each in asked} == {
        ("/v1/embeddings", "Bearer key-1", "small-1")
    }


@pytest.mark.proves("semantic.endpoint")
def test_with_a_dead_endpoint_words_are_searched_and_the_note_says_so(home: Path) -> None:
    home.mkdir(mode=0o700)
    (home / "config.yaml").write_text("search:\n  embedding: http://127.0.0.1:9/v1\n")
    with SessionDB.open(home / "state.db") as db:
        wanted = db.append(db.create_session(), {"role": "user", "content": "The beagle chewed my shoes."})
    past = open_past(find_home(home))
    assert past is not None
    with past:
        hits = past.search("What did the beagle chew?")
    assert (hits[0].message_id, "search.embedding" in (hits.note or "")) == (wanted, True)
