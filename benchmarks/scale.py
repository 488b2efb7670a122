"""How PostgreSQL behaves as people are added: search and append times, bytes per message, and vacuum.

    python -m benchmarks.scale --url postgresql://… --people 2000 --people 20000 --chart scale.svg

The database must be prepared (`hermes storage init`) and empty, and the login a superuser. The first hundred people
get a history each through the program; everybody else gets a copy of one of these, made by the database itself, which
is a hundred times as fast. At each number of people, some of them are asked for: searches and durable appends, in
milliseconds from the call to the result, and the same in a SQLite file with the same history. Then the tables are
vacuumed. Sizes are those of the tables and indexes of the
schema, with all that belongs to them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

import psycopg

from benchmarks.chart import draw
from benchmarks.corpus import Corpus
from benchmarks.engines import appending, fill
from hermes.conversations.database import SessionDB

if TYPE_CHECKING:
    from collections.abc import Sequence

_SIZES = """
    SELECT regexp_replace(c.relname, '_[0-9]+$', ''), sum(pg_table_size(c.oid))::bigint,
        sum(pg_indexes_size(c.oid))::bigint
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'hermes' AND c.relkind = 'r' GROUP BY 1
"""
_DEAD = """
    SELECT coalesce(sum(n_dead_tup), 0)::bigint, coalesce(sum(n_live_tup), 0)::bigint FROM pg_stat_all_tables
    WHERE schemaname = 'hermes'
"""
_COLUMNS = """
    SELECT table_name, array_agg(column_name::text ORDER BY ordinal_position) FROM information_schema.columns
    WHERE table_schema = 'hermes' AND table_name = ANY(%s) GROUP BY 1
"""
_TABLES = ["sessions", "session_details", "blocks", "messages", "vocabulary", "meta"]
_PEOPLE = """
    INSERT INTO hermes.people (person, name, last_session, last_block, last_node) OVERRIDING SYSTEM VALUE
    SELECT person + k * %(models)s, 'scale-' || (substr(name, 7)::int + k * %(models)s),
        last_session, last_block, last_node
    FROM hermes.people, generate_series(%(first)s::int, %(last)s::int) k
    WHERE name LIKE 'scale-%%' AND person <= %(models)s
"""
_COPY = """
    INSERT INTO hermes.{table} (person, {rest}) SELECT person + k * %(models)s, {rest}
    FROM hermes.{table}, generate_series(%(first)s::int, %(last)s::int) k WHERE person <= %(models)s
"""
MODELS = 100  # people whose histories are copied
_AT_ONCE = 10  # copies of them in one transaction
_ON_SQLITE = ("search on SQLite", "durable append on SQLite")
_SHOWN = 100  # bytes per message that earn a bar
_ASKED = 50  # people, at each size
_EACH = 4  # searches and appends of each of them


def grow(address: str, sizes: Sequence[int], messages: int, models: int = MODELS) -> list[dict[str, Any]]:
    """The figures at each size, smallest first; the sizes are multiples of `models`."""
    figures, there, content = [], 0, 0
    for people in sizes:
        if not there:
            for number in range(models):
                with SessionDB.open(address, owner=f"scale-{number}") as db:
                    content += fill(db, messages, seed=number)
            there = models
        _copy(address, there // models, people // models, models)
        there = people
        figures.append({"people": people, "messages": people * messages, **_at(address, people, messages, models)})
        figures[-1] |= _sizes(address, people * messages, content * people // models)
    return figures


def _copy(address: str, first: int, last: int, models: int) -> None:
    """From the `first` to before the `last` time so many people."""
    with psycopg.connect(address, autocommit=True) as connection:
        columns = dict(connection.execute(_COLUMNS, (_TABLES,)).fetchall())
        for start in range(first, last, _AT_ONCE):
            values = {"models": models, "first": start, "last": min(last, start + _AT_ONCE) - 1}
            with connection.transaction():
                connection.execute(_PEOPLE, values)
                for table, names in columns.items():
                    rest = ", ".join(name for name in names if name != "person")
                    connection.execute(_COPY.format(table=table, rest=rest).encode(), values)
        connection.execute("SELECT setval(pg_get_serial_sequence('hermes.people', 'person'), %s)", (last * models,))


def _at(address: str, people: int, messages: int, models: int) -> dict[str, Any]:
    """Times of some of the people, drawn anew at each size, so that most of them are not in any cache.

    The same history in a SQLite file is asked the same.
    """
    chance = random.Random(people)  # noqa: S311 - reproducible, not secret
    words = Corpus(10_000)
    taken: dict[str, list[float]] = {name: [] for name in ("search", "durable append", *_ON_SQLITE)}
    for number in chance.sample(range(people), min(_ASKED, people)):
        asked = [f"what about {' '.join(words.draw(4))}?" for _ in range(_EACH)]
        said = [" ".join(words.draw(60)) for _ in range(_EACH)]
        with tempfile.TemporaryDirectory() as folder, SessionDB.open(os.path.join(folder, "state.db")) as local:
            fill(local, messages, seed=number % models)
            with SessionDB.open(address, owner=f"scale-{number}") as remote:
                for names, db in ((("search", "durable append"), remote), (_ON_SQLITE, local)):
                    db.search(asked[0])  # opens what a first search opens
                    taken[names[0]] += [_taken(db.search, text) for text in asked]
                    append = appending(db)
                    taken[names[1]] += [_taken(append, text) for text in said]
    figures: dict[str, Any] = {name: _shares(times) for name, times in taken.items()}
    for name, local_name in zip(("search", "durable append"), _ON_SQLITE, strict=True):
        figures[f"{name} p50 over SQLite"] = round(figures[name]["p50"] / figures[local_name]["p50"], 2)
    return figures


def _taken(call: Any, text: str) -> float:
    started = time.perf_counter()
    call(text)
    return (time.perf_counter() - started) * 1000


def _shares(taken: list[float]) -> dict[str, float]:
    taken.sort()
    return {f"p{share}": round(taken[min(len(taken) - 1, len(taken) * share // 100)], 2) for share in (50, 95, 99)}


def _sizes(address: str, messages: int, content: int) -> dict[str, Any]:
    with psycopg.connect(address, autocommit=True) as connection:
        dead, live = connection.execute(_DEAD).fetchone() or (0, 0)
        started = time.perf_counter()
        connection.execute("VACUUM ANALYZE")
        seconds = time.perf_counter() - started
        rows = connection.execute(_SIZES).fetchall()
    whole = sum(table + indexes for _, table, indexes in rows)
    largest = sorted(rows, key=lambda row: -(row[1] + row[2]))[:5]
    each: dict[str, int] = {}
    for name, table, indexes in largest:
        each |= {f"{name}: rows_bytes": round(table / messages), f"{name}: indexes_bytes": round(indexes / messages)}
    return {
        "content_bytes_per_message": round(content / messages),
        "stored_bytes_per_message": round(whole / messages),
        "stored_over_content": round(whole / content, 2),
        "bytes per message": each,
        "vacuum_seconds": round(seconds, 2),
        "dead_rows_before_vacuum": dead,
        "live_rows": live,
    }


def charted(figures: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """One panel for each thing that was measured, with a bar for each size."""
    panels: dict[str, dict[str, float]] = {"search": {}, "durable append": {}, "bytes per message": {}, "vacuum": {}}
    for each in figures:
        people = f"{each['people']:,} people"
        for what in ("search", "durable append"):
            panels[what] |= {f"{people}, {share} ms": taken for share, taken in each[what].items()}
        kept = {name.removesuffix("_bytes"): size for name, size in each["bytes per message"].items()}
        panels["bytes per message"] |= {f"{people}, {name}_bytes": size for name, size in kept.items() if size > _SHOWN}
        panels["vacuum"][f"{people}_seconds"] = each["vacuum_seconds"]
    return panels


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", required=True)
    parser.add_argument("--people", type=int, action="append", metavar="N", help="sizes, smallest first")
    parser.add_argument("--messages", type=int, default=20, help="of each person (default: 20)")
    parser.add_argument("--chart", metavar="FILE", help="draw an SVG")
    given = parser.parse_args()
    figures = grow(given.url, sorted(given.people or [2_000, 20_000]), given.messages)
    json.dump(figures, sys.stdout, indent=1)
    if given.chart:
        with open(given.chart, "w", encoding="utf-8") as file:
            file.write(draw(charted(figures), "PostgreSQL as people are added"))


if __name__ == "__main__":
    main()
