"""Kills a session in the middle of compactions: it opens before or after one, never between, and has lost nothing."""

from __future__ import annotations

import json
import os
import signal
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

from compacted import configure
from engines import database_of
from histories import openai_faults

import hermes.session.compaction  # noqa: F401 - loaded before the first fork
from hermes.base.errors import HermesError
from hermes.compaction.messages import is_block, parse_block
from hermes.conversations.context import COPY, ORDER, WRITTEN, Contexts
from hermes.conversations.database import SessionDB
from hermes.session.session import MemorySession
from soak.common import Outcome, kill_again_and_again

if TYPE_CHECKING:
    import argparse
    import random
    from collections.abc import Iterator
    from pathlib import Path

    from soak.common import Options

SUMMARY = "sessions killed while they are compacted"
DESCRIPTION = __doc__
_KILLS_PER_HOME = 25
_LONGEST_DELAYS = (0.005, 0.02, 0.08)  # seconds after a compaction has begun
_NO_MODEL = "auxiliary:\n  compression:\n    enabled: false\n"


def add_choices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=100, metavar="N", help="how often to kill (default: 100)")


def run(given: argparse.Namespace, options: Options) -> Iterator[Outcome]:
    yield kills(given.kills, options)


def kills(wanted: int, options: Options, per_home: int = _KILLS_PER_HOME) -> Outcome:
    figures = {"turns": 0, "compactions": 0, "in a compaction": 0}
    outcome = Outcome(name=f"compaction in {options.folder}", figures=figures)

    def begin(place: str) -> _Trial:
        return _Trial(place, in_place=outcome.figures["kills"] // per_home % 2 == 0)

    return kill_again_and_again(wanted, options, outcome, begin, per_folder=per_home)


class _Trial:
    """One conversation, and everything it was told that it had stored."""

    def __init__(self, home: str, *, in_place: bool) -> None:
        from pathlib import Path

        self._home: Path = Path(home)
        configure(self._home, _NO_MODEL, in_place=in_place, window=8_000)
        self._told: list[str] = []
        with MemorySession.open(home, title="soak") as session:
            self._first = session.id

    def kill_once(self, chance: random.Random, number: int, outcome: Outcome) -> list[str]:
        del number
        delay = chance.uniform(0, chance.choice(_LONGEST_DELAYS))
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _talk_until_killed(self._home, self._first, chance, writer)
        os.close(writer)
        with os.fdopen(reader, encoding="utf-8") as pipe:
            lines = [pipe.readline()]
            while lines[-1] and '"compacting"' not in lines[-1] and '"error"' not in lines[-1]:
                lines.append(pipe.readline())
            time.sleep(delay)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            lines += pipe.read().split("\n")
        told = [json.loads(line) for line in lines[:-1] if line.strip()]
        problems = [each["error"] for each in told if "error" in each]
        self._told += [each["said"] for each in told if "said" in each]
        outcome.count("turns", sum("said" in each for each in told))
        outcome.count("compactions", sum("compacted" in each for each in told))
        outcome.count("in a compaction", int(bool(told) and "compacting" in told[-1]))
        try:
            return problems + self._problems()
        except HermesError as error:
            return [*problems, f"a fresh open failed: {error}"]

    def _problems(self) -> list[str]:
        with MemorySession.open(self._home, resume=self._first) as session:
            problems = openai_faults(session.request().messages)
            context = [each for each in session.request().messages if is_block(each)]
        with SessionDB.open(self._home / "state.db") as db:
            contexts = Contexts(db)
            tip = db.tip(self._first)
            originals = list(contexts.originals(tip.id))
            said = [each.text for each in originals if each.role == "user"]
            if said[: len(self._told)] != self._told:
                problems.append(f"{len(self._told)} messages were acknowledged, {len(said)} are there, not as said")
            self._told = said
            named = {
                number for block in context for chapter in parse_block(block).chapters for number in _ids(chapter.ids)
            }
            within = named | {each.id for each in contexts.live(tip.id)}
            rows = (each for session in db.lineage(tip.id) for each in db.messages(session.id))
            # Naming a copy that a split made leads to the same words as naming the original.
            covered = within | {each.message.get(COPY) for each in rows if each.id in within}
            lost = [each.id for each in originals if each.id not in covered]
            if lost:
                problems.append(f"{len(lost)} messages are neither in the context nor named by its block: {lost[:5]}")
            problems += _between(db, tip.id)
            verdict = database_of(db).row("PRAGMA integrity_check")[0]
            problems += [f"integrity_check: {verdict}"] * (verdict != "ok")
        return problems


def _between(db: SessionDB, session_id: str) -> list[str]:
    """What only half a compaction would leave behind."""
    rows = [each for each in db.messages(session_id) if not each.compacted]
    order = next((each.message[ORDER] for each in reversed(rows) if ORDER in each.message), None)
    problems = []
    if order is not None:
        places = {place for first, last in order for place in range(first, last + 1)}
        stray = [each.place for each in rows if each.place < max(places) and each.place not in places]
        gone = places - {each.place for each in rows}
        problems += [f"places {stray} are live but not in the order"] * bool(stray)
        problems += [f"places {sorted(gone)} are in the order but not live"] * bool(gone)
    lineage = db.lineage(session_id)
    for old, new in pairwise(lineage):
        if (old.end_reason == "compression") != any(WRITTEN in each.message for each in db.messages(new.id)):
            problems.append(f"{old.id} ended with {old.end_reason!r} and {new.id} is not its whole successor")
    return problems


def _ids(ranges: tuple[tuple[int, int], ...]) -> Iterator[int]:
    return (number for first, last in ranges for number in range(first, last + 1))


def _talk_until_killed(home: Path, first: str, chance: random.Random, pipe: int) -> NoReturn:
    def tell(**said: Any) -> None:
        os.write(pipe, json.dumps(said).encode() + b"\n")

    try:
        session = MemorySession.open(home, resume=first)
        tell(opened=session.id)
        while True:
            for _ in range(chance.randint(1, 4)):
                text = f"m{chance.randrange(10**9):09} {'words to remember ' * chance.choice((20, 60, 200))}"
                session.prepare_turn(text)
                tell(said=text)
                if chance.random() < 0.5:
                    session.call_tool("skills_list", {})
                session.finish_turn(f"Done with it. {'and some more words ' * 30}")
            tell(compacting=session.id)
            if session.compact() is not None:
                tell(compacted=session.id)
    except (HermesError, OSError, ValueError, KeyError, TypeError, IndexError) as error:
        tell(error=f"{type(error).__name__}: {error}")
    finally:
        os._exit(1)
