"""The same person's conversations on SQLite and on PostgreSQL among many people: appends, searches, bytes.

    python -m benchmarks.engines --url postgresql://… --people 1000 --messages 500

    python -m benchmarks.engines --url postgresql://… --set locomo.json --set beam.json.gz

With `--set`, every question of public sets is asked on both engines, and the answers are compared instead: message for
message, with their scores. People who are in the database already stay there, so a run without `--set` before it fills
the database with others.
The database must be prepared (`hermes storage init`) and should be empty. Everybody gets a history of the same size;
the last person's is stored in a SQLite file as well. Both engines answer the same questions, and the answers are
compared.
Times are in milliseconds and include everything between the call and the result.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

import psycopg

from benchmarks.corpus import Corpus
from benchmarks.live_appends import content_bytes
from benchmarks.recall import fill as fill_haystack
from benchmarks.recall import haystacks
from hermes.conversations.database import SessionDB
from hermes.operations.own_bench import LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SIZES = """
    SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'hermes' AND c.relkind = 'r'
"""

# Messages and words grow with what is said; of the other tables a small database shows little but empty partitions.
_GROWING = """
    SELECT sum(pg_total_relation_size(c.oid)), (SELECT sum(octet_length(content))::bigint FROM hermes.messages)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'hermes' AND c.relkind = 'r' AND c.relname ~ '^(messages|vocabulary)_'
"""


def fill(db: SessionDB, messages: int, seed: int) -> int:
    """Stores a history and returns the bytes of its content."""
    content = 0
    for session in Corpus(seed).sessions(messages):
        with db.bulk():
            db.create_session(
                session.source, session.title, session.started_at, session.id, session.parent and session.parent
            )
            db.append_many(session.id, session.messages)
        content += sum(content_bytes(message) for message in session.messages)
    db.index()
    return content


def timed(call: Callable[[str], Any], texts: Sequence[str]) -> tuple[dict[str, float], list[Any]]:
    taken, results = [], []
    for text in texts:
        started = time.perf_counter()
        results.append(call(text))
        taken.append((time.perf_counter() - started) * 1000)
    cuts = statistics.quantiles(taken, n=100)
    return {"p50": round(cuts[49], 2), "p95": round(cuts[94], 2), "p99": round(cuts[98], 2)}, results


def appending(db: SessionDB) -> Callable[[str], int]:
    session = db.create_session()
    return lambda text: db.append(session, {"role": "user", "content": text})


def measure(address: str, folder: str, *, people: int, messages: int, questions: int) -> dict[str, Any]:
    content = 0
    for number in range(people):
        with SessionDB.open(address, owner=f"bench-{number}") as db:
            content += fill(db, messages, seed=number)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        size = connection.execute(_SIZES).fetchone()
    person = people - 1
    asked = Corpus(10_000)
    queries = [f"what about {' '.join(asked.draw(4))}?" for _ in range(questions)]
    figures: dict[str, Any] = {"people": people, "messages_each": messages, "content_mb": round(content / 1e6, 1)}
    path = os.path.join(folder, "state.db")
    with SessionDB.open(path) as local, SessionDB.open(address, owner=f"bench-{person}") as remote:
        fill(local, messages, seed=person)
        answers = {}
        for name, db in (("sqlite", local), ("postgresql", remote)):
            timed(db.search, queries)  # warm
            figures[f"search_{name}"], hits = timed(db.search, queries)
            answers[name] = [[(hit.message_id, round(hit.score, 9)) for hit in found] for found in hits]
            texts = [" ".join(asked.draw(60)) for _ in range(200)]
            figures[f"append_{name}"], _ = timed(appending(db), texts)
        figures["same_answers"] = sum(a == b for a, b in zip(answers["sqlite"], answers["postgresql"], strict=True))
    figures["questions"] = questions
    figures["bytes_over_content_sqlite"] = round(os.path.getsize(path) / (content / people), 2)
    figures["bytes_over_content_postgresql"] = round(int(size[0] if size else 0) / content, 2)
    for what in ("search", "append"):
        figures[f"{what}_p50_ratio"] = round(figures[f"{what}_postgresql"]["p50"] / figures[f"{what}_sqlite"]["p50"], 2)
    return figures


def compare(address: str, folder: str, path: str) -> dict[str, Any]:
    """Every question of a set on both engines: how many answers are the same, and how long they took."""
    figures: dict[str, Any] = {"set": os.path.basename(path), "questions": 0, "same_answers": 0, "different": []}
    taken: dict[str, list[float]] = {"sqlite": [], "postgresql": []}
    places = [
        (haystack, (os.path.join(folder, f"{number}.db"), f"{os.path.basename(path)}-{number}"))
        for number, haystack in enumerate(haystacks(path))
    ]
    for haystack, place in places:
        for db in _both(address, *place):
            with db:
                with db.bulk():
                    fill_haystack(db, haystack)
                db.index()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        stored, content = connection.execute(_GROWING).fetchone() or (0, 1)
        people = connection.execute("SELECT count(*) FROM hermes.people").fetchone() or (0,)
    for haystack, place in places:
        local, remote = _both(address, *place)
        with local, remote:
            for question in haystack.questions:
                answers = []
                for name, db in (("sqlite", local), ("postgresql", remote)):
                    db.search(question.text, limit=LIMIT)  # warm
                    started = time.perf_counter()
                    hits = db.search(question.text, limit=LIMIT)
                    taken[name].append((time.perf_counter() - started) * 1000)
                    answers.append([(hit.message_id, round(hit.score, 9)) for hit in hits])
                figures["questions"] += 1
                figures["same_answers"] += answers[0] == answers[1]
                if answers[0] != answers[1]:
                    figures["different"].append(question.text)
    figures |= {f"search_{name}_p50_ms": round(statistics.median(times), 2) for name, times in taken.items() if times}
    figures["search_p50_ratio"] = round(figures["search_postgresql_p50_ms"] / figures["search_sqlite_p50_ms"], 2)
    figures["people"] = people[0]
    figures["stored_over_content"] = round(float(stored) / max(1, content), 2)
    return figures


def _both(address: str, path: str, owner: str) -> tuple[SessionDB, SessionDB]:
    return SessionDB.open(path, durability="turn"), SessionDB.open(address, owner=owner)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", required=True)
    parser.add_argument("--people", type=int, default=100)
    parser.add_argument("--messages", type=int, default=500)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--set", action="append", default=[], metavar="FILE", help="LoCoMo, BEAM or LongMemEval")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for path in given.set:
            with tempfile.TemporaryDirectory(dir=folder) as place:
                json.dump(compare(given.url, place, path), sys.stdout, indent=1)
        if given.set:
            return
        figures = measure(given.url, folder, people=given.people, messages=given.messages, questions=given.questions)
    json.dump(figures, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
