"""`bin/soak sessions`: kills, damage, many processes, strange clocks and other owners against `state.db`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import query_fuzz
from soak import sessions_clock, sessions_damage, sessions_kills, sessions_owners, sessions_processes, sessions_removed
from soak.common import Outcome

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from soak.common import Options

SUMMARY = "state.db: conversations and their index"
DESCRIPTION = """Tries to break the session database. Without a choice: a short run of everything.
Everything random follows from --seed, so a failure can be repeated."""


def add_choices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=0, metavar="N", help="kill a writer N times at random moments")
    parser.add_argument("--damage", type=int, default=0, metavar="N", help="N damaged files of each kind, repaired")
    parser.add_argument("--pages", action="store_true", help="destroy each page of a database in turn, and repair it")
    parser.add_argument(
        "--processes", type=int, default=0, metavar="N", help="N rounds of 8 that write and 16 that read"
    )
    parser.add_argument("--clock", type=int, default=0, metavar="N", help="N histories while the clock jumps by years")
    parser.add_argument("--removed", type=int, default=0, metavar="N", help="N times, remove files of an open database")
    parser.add_argument("--queries", type=int, default=0, metavar="N", help="N generated queries of every kind")
    parser.add_argument("--owners", type=int, default=0, metavar="N", help="N attempts to reach another owner's data")


def run(given: argparse.Namespace, options: Options) -> Iterator[Outcome]:
    choices = ("kills", "damage", "pages", "processes", "clock", "owners", "removed", "queries")
    if not any(getattr(given, name) for name in choices):
        given.kills, given.damage, given.processes, given.clock, given.owners = 200, 10, 1, 20, 500
        given.removed, given.queries = 50, 5000
    if given.kills:
        yield sessions_kills.run(given.kills, options)
    if given.damage:
        yield from sessions_damage.run(given.damage, options)
        yield sessions_damage.run_logs(given.damage, options)
    if given.pages:
        yield sessions_damage.run_pages(options)
    if given.processes:
        yield from sessions_processes.run(given.processes, options)
    if given.clock:
        yield sessions_clock.run(given.clock, options)
    if given.removed:
        yield sessions_removed.run(given.removed, options)
    if given.owners:
        yield sessions_owners.run(given.owners, options)
    if given.queries:
        yield _queries(given.queries, options)


def _queries(count: int, options: Options) -> Outcome:
    result = query_fuzz.run(options.seed, count, folder=options.folder)
    figures = {"queries": result["queries"], "held a stored word": result["held_a_stored_word"]}
    outcome = Outcome(name="queries", figures=figures)
    outcome.fail(*(f"{kind}: {query!r}" for kind, query in result["failures"]))
    return outcome
