"""Kills a writer at random moments and checks that everything it was told is saved is still there."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import TYPE_CHECKING, Any, NoReturn

from hermes.base.errors import HermesError
from hermes.memory.store import TARGETS, MemoryStore
from soak.checks import problems_of
from soak.common import Outcome, kill_again_and_again
from soak.writer import State, Writer

if TYPE_CHECKING:
    import random

    from soak.checks import Entries
    from soak.common import Options

# The history is read after each kill, so a home is used only for a while.
_KILLS_PER_HOME = 40
# A writer may say this many lines (two for each change) before its end is decided; 0 hits its opening of the store.
_LINES = (0, 1, 1, 2, 3, 5, 9)


def run(kills: int, options: Options) -> Outcome:
    """`kills` times: start a writer, kill it, open the home again and compare."""
    outcome = Outcome(name=f"kills in {options.folder}", figures={"acknowledged": 0, "in flight": 0})
    return kill_again_and_again(
        kills, options, outcome, lambda place: _Trial(os.path.join(place, "home")), per_folder=_KILLS_PER_HOME
    )


class _Trial:
    """One home with the model of what it must hold."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._state = State()
        self._pace = 0.0005
        self._acknowledged: dict[str, dict[str, str]] = {target: {} for target in TARGETS}

    def kill_once(self, chance: random.Random, number: int, outcome: Outcome) -> list[str]:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _write_until_killed(self._home, Writer(chance, self._state, f"{number}"), writer)
        os.close(writer)
        heard = self._wait(reader, chance.choice(_LINES))
        time.sleep(chance.uniform(0, 1.5 * self._pace))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(reader, "rb") as pipe:
            lines = (heard + pipe.read()).split(b"\n")[:-1]
        in_flight, problems = self._follow([json.loads(line) for line in lines], outcome)
        allowed = {target: [self._state.entries[target]] for target in TARGETS}
        if in_flight is not None:
            outcome.count("in flight")
            allowed[in_flight[0]].append(in_flight[1])
        wrong, found = problems_of(self._home, allowed, self._acknowledged)
        if not problems and not wrong and in_flight is not None and found[in_flight[0]] == in_flight[1]:
            self._state.newest.pop(in_flight[0], None)  # its id was never told, so the next undo needs another change
        self._state.entries |= found
        return problems + wrong

    def _wait(self, reader: int, lines: int) -> bytes:
        """Listens until so many lines were said, and learns how long one change takes on this machine."""
        heard = os.read(reader, 1 << 16) if lines else b""
        started, first = time.monotonic(), heard.count(b"\n")
        while (said := heard.count(b"\n")) < lines and (piece := os.read(reader, 1 << 16)):
            heard += piece
        if said > first:
            self._pace += ((time.monotonic() - started) * 2 / (said - first) - self._pace) / 5
        return heard

    def _follow(self, told: list[dict[str, Any]], outcome: Outcome) -> tuple[tuple[str, Entries] | None, list[str]]:
        """Takes over what the child said; returns the change it was doing when it died, and what it complained of."""
        in_flight: tuple[str, Entries] | None = None
        for line in told:
            if "error" in line:
                return in_flight, [f"the writer failed: {line['error']}"]
            target, expected = line["target"], tuple(line["expected"])
            if "id" not in line:
                in_flight = (target, expected)
                continue
            in_flight = None
            outcome.count("acknowledged")
            self._acknowledged[target][line["id"]] = line["session"]
            self._state.newest[target] = (line["id"], self._state.entries[target])
            self._state.entries[target] = expected
        return in_flight, []


def _write_until_killed(home: str, writer: Writer, pipe: int) -> NoReturn:
    try:
        store = MemoryStore.open(home)
        while True:
            step = writer.next_step()
            said = {"target": step.target, "expected": step.expected, "session": step.session}
            os.write(pipe, json.dumps(said).encode() + b"\n")
            change = step.call(store).change
            writer.acknowledge(step, change.id if change else "")
            os.write(pipe, json.dumps(said | {"id": change.id if change else ""}).encode() + b"\n")
    except (HermesError, OSError, ValueError, KeyError, TypeError, IndexError) as error:
        os.write(pipe, json.dumps({"error": f"{type(error).__name__}: {error}"}).encode() + b"\n")
    finally:
        os._exit(1)
