"""Latency of every kind of query over a store of any size, beside raw FTS5 on the same messages in the same run.

Times are CPU milliseconds of this thread, because other programs share the machine. tantivy is measured beside them
where it is installed, and hermes-agent where a Python that has it is named. Writing is measured in bulk, as the store
is filled, and by live appends at its end (`live_appends`).
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import apsw

from benchmarks import live_appends, search_peers
from benchmarks.corpus import Corpus
from hermes.conversations.database import SessionDB
from hermes.conversations.maintenance import Maintenance
from hermes.conversations.retrieval import Criteria
from hermes.conversations.session_search import SessionSearch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from benchmarks.corpus import Planned

_CHUNK = 4000
_SAMPLED = 3000


@dataclass(slots=True)
class Built:
    """A filled store, what filling it cost, and messages to ask about."""

    db: SessionDB
    raw: apsw.Connection | None
    corpus: Corpus
    samples: list[str] = field(default_factory=list)
    sessions: list[str] = field(default_factory=list)
    content_bytes: int = 0
    write_seconds: float = 0.0
    messages: int = 0


def run(
    *,
    messages: int = 100_000,
    queries: int = 120,
    appends: int = 4000,
    only_writing: bool = False,
    seed: int = 42,
    folder: str | None = None,
    raw: bool = True,
    peer_python: str | None = None,
) -> dict[str, Any]:
    """Builds a store of so many messages under `folder`, measures, and removes it."""
    place = tempfile.mkdtemp(prefix="hermes-bench-", dir=folder)
    path = os.path.join(place, "state.db")
    try:
        built = build(path, messages, seed=seed, raw=raw and not only_writing)
        built.db.close()
        figures = {"messages": messages, "write": _write_figures(built, place)}
        if not only_writing:
            figures |= _searched(built, place, queries=queries, seed=seed, peer_python=peer_python)
        figures["live"] = live_appends.measure(path, messages=appends, seed=seed + 1)
        return figures
    finally:
        shutil.rmtree(place)


def _searched(built: Built, place: str, *, queries: int, seed: int, peer_python: str | None) -> dict[str, Any]:
    path = os.path.join(place, "state.db")
    figures: dict[str, Any] = {"open": _timed(lambda: SessionDB.open(path).close(), 20)}
    built.db = SessionDB.open(path)
    asked = classes(built, queries, seed)
    engine = search_peers.tantivy(os.path.join(place, "tantivy"), _spoken(built.messages, seed))
    figures["search"] = {name: _measure(built, texts, engine) for name, texts in asked.items()}
    if peer_python:
        stored = ((planned.id, said) for planned in Corpus(seed).sessions(built.messages) for said in planned.messages)
        figures["hermes_agent"] = search_peers.hermes_agent(peer_python, os.path.join(place, "peer"), stored, asked)
    figures["other"] = _other_shapes(built)
    built.db.close()
    return figures


def build(path: str, messages: int, *, seed: int = 42, raw: bool = False) -> Built:
    """Fills a store through the public calls, in transactions of some thousand messages as an import would."""
    corpus = Corpus(seed)
    picker = random.Random(seed)  # noqa: S311 - reproducible, not secret
    built = Built(db=SessionDB.open(path, durability="turn"), raw=_raw_table(path) if raw else None, corpus=corpus)
    chunk: list[Planned] = []
    waiting = 0
    for planned in corpus.sessions(messages):
        chunk.append(planned)
        waiting += len(planned.messages)
        for message in planned.messages:
            built.content_bytes += live_appends.content_bytes(message)
            if message["role"] != "tool" and message["content"] and picker.random() < _SAMPLED / messages:
                built.samples.append(message["content"])
        if waiting >= _CHUNK:
            _store(built, chunk)
            chunk, waiting = [], 0
    _store(built, chunk)
    _settle(built)
    return built


def classes(built: Built, count: int, seed: int) -> dict[str, list[str]]:
    """Queries of each kind; words by their rank, combinations from messages that exist."""
    picker = random.Random(seed + 1)  # noqa: S311 - reproducible, not secret
    words = built.corpus.words
    prose = [[word.strip(".?") for word in sample.split() if word.isascii()] for sample in built.samples]
    chinese = [run for sample in built.samples for run in _chinese_runs(sample)]

    def from_message(size: int) -> str:
        line = picker.choice([line for line in prose[:400] if len(line) > size])
        start = picker.randrange(len(line) - size)
        return " ".join(line[start : start + size])

    def spread_of(size: int) -> str:
        return " ".join(picker.sample(picker.choice([line for line in prose[:400] if len(line) > size]), size))

    def of_chinese(size: int) -> str:
        run = picker.choice([run for run in chinese if len(run) >= size])
        start = picker.randrange(len(run) - size + 1)
        return run[start : start + size]

    def question() -> str:
        asked = built.corpus.draw(picker.randint(5, 8), beyond=60)
        return f"What did we decide about {asked[0]} and the {' '.join(asked[1:-1])} for {asked[-1]}?"

    makers: dict[str, Callable[[], str]] = {
        "rare": lambda: words[picker.randrange(45_000, 60_000)],
        "mid": lambda: words[picker.randrange(2_000, 6_000)],
        "common": lambda: words[picker.randrange(5, 60)],
        "multi": lambda: spread_of(3),
        "multi_common": lambda: " ".join(words[rank] for rank in picker.sample(range(5, 60), 3)),
        "or4": lambda: " OR ".join(words[rank] for rank in picker.sample(range(2_000, 6_000), 4)),
        "phrase": lambda: f'"{from_message(3)}"',
        "prefix": lambda: words[picker.randrange(1_000, 6_000)][:5] + "*",
        "zh4": lambda: of_chinese(4),
        "zh2": lambda: of_chinese(2),
        "zh1": lambda: of_chinese(1),
        "question": question,
    }
    return {name: [make() for _ in range(count)] for name, make in makers.items()}


def _store(built: Built, chunk: Iterable[Planned]) -> None:
    chunk = list(chunk)
    started = time.process_time()
    with built.db.bulk():
        for planned in chunk:
            built.db.create_session(
                planned.source, planned.title, planned.started_at, planned.id, planned.parent, project=planned.source
            )
            built.db.append_many(planned.id, planned.messages)
    built.write_seconds += time.process_time() - started
    for planned in chunk:
        built.messages += len(planned.messages)
        built.sessions.append(planned.id)
    if built.raw is not None:
        spoken = [m["content"] for planned in chunk for m in planned.messages if m["role"] != "tool"]
        with built.raw:
            built.raw.executemany(
                "INSERT INTO raw (rowid, words) VALUES (?, ?)", enumerate(spoken, start=built.messages * 2)
            )


def _settle(built: Built) -> None:
    """As an import does at its end."""
    started = time.process_time()
    built.db.index()
    for _ in Maintenance.of_db(built.db).settle():
        pass
    built.write_seconds += time.process_time() - started


def _spoken(messages: int, seed: int) -> Iterator[str]:
    for planned in Corpus(seed).sessions(messages):
        yield from (said["content"] or "" for said in planned.messages if said["role"] != "tool")


def _measure(built: Built, asked: list[str], engine: Callable[[str], Any] | None) -> dict[str, Any]:
    figures = {"hermes": _timed_each(lambda query: built.db.search(query, limit=10), asked)}
    if built.raw is not None:
        figures["raw_fts5"] = _timed_each(_raw_search(built.raw), asked)
    if engine is not None:
        figures["tantivy"] = _timed_each(engine, asked)
    return figures


def _raw_table(path: str) -> apsw.Connection:
    connection = apsw.Connection(path + ".raw")
    connection.execute("PRAGMA journal_mode = wal; PRAGMA synchronous = off")
    connection.execute("CREATE VIRTUAL TABLE raw USING fts5(words, content='', columnsize=0)")
    return connection


def _raw_search(connection: apsw.Connection) -> Callable[[str], Any]:
    def ask(query: str) -> Any:
        words = query if " OR " in query or query.startswith('"') or query.endswith("*") else None
        if words is None:
            parts = ['"' + word.strip("?") + '"' for word in query.split()]
            words = (" OR " if query.endswith("?") else " ").join(parts)
        return connection.execute("SELECT rowid FROM raw WHERE raw MATCH ? ORDER BY rank LIMIT 20", (words,)).fetchall()

    return ask


def _other_shapes(built: Built) -> dict[str, Any]:
    db, picker = built.db, random.Random(9)  # noqa: S311 - reproducible, not secret
    some = [picker.choice(built.sessions) for _ in range(100)]
    anchors = [(name, picker.choice(db.messages(name)).id) for name in some]
    titled = [session.title for session in db.list_sessions(limit=200) if session.title]
    tool = SessionSearch(db)
    return {
        "browse": _timed(lambda: db.list_sessions(limit=20), 100),
        "browse_tool": _timed(lambda: tool.browse(Criteria(limit=10)), 100),
        "scroll": _timed_each(lambda place: db.messages(place[0], around=place[1], window=5), anchors),
        "scroll_tool": _timed_each(lambda place: tool.scroll(place[0], place[1], 5), anchors),
        "resume_by_title": _timed_each(db.resolve, titled),
        "newest_common": _timed_each(lambda query: db.search(query, limit=10, sort="newest"), built.corpus.words[5:60]),
    }


def _write_figures(built: Built, place: str) -> dict[str, float]:
    size = os.path.getsize(os.path.join(place, "state.db"))
    return {
        "messages_per_cpu_second": round(built.messages / built.write_seconds),
        "bytes_per_message": round(size / built.messages, 1),
        "disk_per_content_byte": round(size / built.content_bytes, 2),
        "content_bytes_per_message": round(built.content_bytes / built.messages, 1),
    }


def _timed(action: Callable[[], Any], times: int) -> dict[str, float]:
    return _timed_each(lambda _: action(), range(times))


def _timed_each(action: Callable[[Any], Any], over: Iterable[Any]) -> dict[str, float]:
    taken = []
    for item in over:
        started = time.thread_time_ns()
        action(item)
        taken.append((time.thread_time_ns() - started) / 1e6)
    taken.sort()
    return {f"p{share}": round(taken[min(len(taken) - 1, len(taken) * share // 100)], 3) for share in (50, 95, 99)}


def _chinese_runs(text: str) -> list[str]:
    return [part for part in text.split() if not part.isascii()]
