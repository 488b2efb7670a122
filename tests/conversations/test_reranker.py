"""Hits ordered again by a `/rerank` service, as `search.reranker` names one."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from hermes.conversations.database import SessionDB
from hermes.session.parts import open_past
from hermes.settings.config import save_secret
from hermes.settings.home import find_home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUESTION = "What did the doctor say about my knee?"


@contextmanager
def _service(scores: dict[str, float]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """An address that scores texts by a word in them, and what it was asked; the best come first, as services do."""
    asked: list[dict[str, Any]] = []

    class Service(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked.append({"path": self.path, "key": self.headers["authorization"], **body})
            rows = [
                {"index": at, "relevance_score": max(score for word, score in scores.items() if word in text)}
                for at, text in enumerate(body["documents"])
            ]
            data = json.dumps({"results": sorted(rows, key=lambda row: -row["relevance_score"])}).encode()
            self.send_response(200)
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


def _home_with(home: Path, address: str) -> list[int]:
    """A home that names this service; the ids of three messages, from the best to the worst by their words."""
    home.mkdir(mode=0o700)
    (home / "config.yaml").write_text(f"search:\n  reranker: {address}\n  reranker_model: small-1\n")
    save_secret(find_home(home), "RERANKER_API_KEY", "key-1")
    texts = ("The doctor looked at my knee. (first)", "My knee hurts. (second)", "I called a doctor. (third)")
    with SessionDB.open(home / "state.db") as db:
        return [db.append(db.create_session(), {"role": "user", "content": text}) for text in texts]


def _found(home: Path, **filters: Any) -> tuple[list[int], str]:
    past = open_past(find_home(home))
    assert past is not None
    with past:
        hits = past.search(QUESTION, **filters)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    return [hit.message_id for hit in hits], hits.note or ""


@pytest.mark.proves("search.reranker")
def test_a_text_that_the_service_puts_far_above_the_others_becomes_the_first_hit(home: Path) -> None:
    with _service({"": 0.0, "third": 9.0}) as (url, asked):
        _, _, third = _home_with(home, url)
        assert _found(home, limit=1)[0] == [third]
    assert [(each["path"], each["key"], each["model"], each["query"]) for each in asked] == [
        ("/v1/rerank", "Bearer key-1", "small-1", QUESTION)
    ]


@pytest.mark.proves("search.reranker")
def test_without_clear_evidence_the_first_hit_of_the_words_stays_and_the_others_change_places(home: Path) -> None:
    with _service({"first": 6.0, "second": 0.0, "third": 9.0}) as (url, _):
        first, second, third = _home_with(home, url)
        assert _found(home)[0] == [first, third, second]


@pytest.mark.proves("search.reranker")
@pytest.mark.parametrize("filters", [{"sort": "newest"}, {"mode": "coverage"}])
def test_an_order_by_time_and_a_cover_of_a_topic_are_left_alone(home: Path, filters: dict[str, Any]) -> None:
    with _service({"": 1.0}) as (url, asked):
        _home_with(home, url)
        past = open_past(find_home(home))
        assert past is not None
        with past:
            assert past.search(QUESTION, **filters)
    assert not asked


@pytest.mark.proves("search.reranker")
def test_with_a_dead_service_the_order_of_the_words_stays_and_the_note_says_so(home: Path) -> None:
    first, *_ = _home_with(home, "http://127.0.0.1:9/v1")
    found, note = _found(home)
    assert (found[0], "search.reranker" in note) == (first, True)
