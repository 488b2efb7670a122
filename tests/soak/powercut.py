"""A power cut for the history: what was not synced of the journal is gone, the synced files are there.

The log must then be mended from the replaced versions that the last writes kept.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from typing import TYPE_CHECKING

from hermes.memory.store import TARGETS, MemoryStore
from soak.checks import problems_of
from soak.common import Outcome, Progress
from soak.writer import State, Writer

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from soak.common import Options

_MOST_WRITES = 40


def run(cuts: int, options: Options) -> Outcome:
    outcome = Outcome(name="power cuts", figures={"cuts": 0, "acknowledged": 0, "records cut off": 0})
    progress = Progress("power cuts", cuts, options)
    for cut in range(cuts):
        if not progress.goes_on(cut, outcome):
            break
        place = tempfile.mkdtemp(dir=options.folder, prefix="soak-")
        problems = _cut_once(os.path.join(place, "home"), random.Random(f"{options.seed}/{cut}"), outcome)
        outcome.fail(*(f"cut {cut} (--seed {options.seed}): {each}" for each in problems))
        outcome.count("cuts")
        shutil.rmtree(place)
    progress.goes_on(cuts, outcome)
    return outcome


def _cut_once(home: str, chance: random.Random, outcome: Outcome) -> list[str]:
    state = State()
    writer = Writer(chance, state, "w")
    acknowledged: dict[str, dict[str, str]] = {target: {} for target in TARGETS}
    with _SyncedSizes() as synced:
        store = MemoryStore.open(home)
        for _ in range(chance.randint(1, _MOST_WRITES)):
            step = writer.next_step()
            change = step.call(store).change
            if change is not None:
                writer.acknowledge(step, change.id)
                acknowledged[step.target][change.id] = step.session
                outcome.count("acknowledged")
            if chance.random() < 0.05:  # now and then another session starts
                store = MemoryStore.open(home)
    for target in TARGETS:
        journal = f"{store.path(target)}.history.jsonl"
        if os.path.exists(journal):
            outcome.count("records cut off", _cut_off(journal, synced.size_of(journal), chance))
    return problems_of(home, {target: [state.entries[target]] for target in TARGETS}, acknowledged)[0]


def _cut_off(journal: str, synced: int, chance: random.Random) -> int:
    """Leaves what was synced and perhaps a piece of the rest, torn anywhere; returns the number of lost records."""
    with open(journal, "r+b") as file:
        data = file.read()
        keep = chance.choice((synced, chance.randint(synced, len(data))))
        file.truncate(keep)
    return data[keep:].count(b"\n")


class _SyncedSizes:
    """Watches which files were synced at which size, by standing in for the two system calls while it is entered."""

    def __init__(self) -> None:
        self._sizes: dict[int, int] = {}

    def size_of(self, path: str) -> int:
        return self._sizes.get(os.stat(path).st_ino, 0)

    def __enter__(self) -> Self:
        self._real: tuple[Callable[[int], None], Callable[[int], None]] = (os.fsync, os.fdatasync)
        os.fsync = os.fdatasync = self._sync  # type: ignore[assignment]
        return self

    def __exit__(self, *_: object) -> None:
        os.fsync, os.fdatasync = self._real  # type: ignore[assignment]

    def _sync(self, descriptor: int) -> None:
        self._real[1](descriptor)
        status = os.fstat(descriptor)
        self._sizes[status.st_ino] = status.st_size
