"""Many writers at once, ours and strangers who know nothing of locks: nothing may be lost, nothing seen half done."""

from __future__ import annotations

import os
import random
import re
import subprocess
import tempfile
import time
from itertools import accumulate
from typing import TYPE_CHECKING, NoReturn

from hermes.base.errors import HermesError
from hermes.memory.store import MemoryStore
from soak.common import Outcome, Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from soak.common import Options

    # Gets the path, a number of its own and whether to go on; returns the lines it has saved.
    Stranger = Callable[[str, int, Callable[[], bool]], list[str]]

TARGET = "memory"
_SETTINGS = "memory:\n  memory_char_limit: 1000000\n  user_char_limit: 1000000\n  lock_timeout: 120\n"
# Faster than any person or program saves; without a pause, no write of ours could ever get through on a busy machine.
_BETWEEN_SAVES = 0.03
_MOST_LINES = 300  # the file has no limit here, and each line makes the writes after it slower
_MOST_SHARES = 3
_ENTRY = re.compile(r"writer \d+ entry \d+ end")


def run(rounds: int, options: Options, *, crowd: int = 8, writes: int = 100) -> Outcome:
    """Each round: a crowd of our own with readers, then four writers beside shells, and beside two kinds of editor."""
    outcome = Outcome(name=f"writers in {options.folder}", figures={"rounds": 0, "entries": 0, "strangers' lines": 0})
    progress = Progress("writers", rounds, options)
    strangers = (None, _shells, _renaming_editor, _rewriting_editor)
    for done in range(rounds):
        if not progress.goes_on(done, outcome):
            break
        for stranger in strangers:
            count, each = (crowd, writes) if stranger is None else (4, max(writes // 2, 10))
            with tempfile.TemporaryDirectory(dir=options.folder, prefix="soak-") as place:
                meeting = _Meeting(place, random.Random(f"{options.seed}/{done}"), outcome)
                problems = meeting.run(count, each, stranger)
            name = stranger.__name__.strip("_") if stranger else "crowd"
            outcome.fail(*(f"round {done} (--seed {options.seed}), {name}: {problem}" for problem in problems))
        outcome.count("rounds")
    progress.goes_on(rounds, outcome)
    return outcome


def waits(rounds: int, options: Options, *, crowd: int = 8, writes: int = 100) -> Outcome:
    """How long a write takes when a crowd writes: nobody may wait much longer than its share of the time."""
    outcome = Outcome(name=f"{crowd} writers in turn", figures={"writes": 0})
    progress = Progress("waits", rounds, options)
    taken: list[float] = []
    for done in range(rounds):
        if not progress.goes_on(done, outcome):
            break
        with tempfile.TemporaryDirectory(dir=options.folder, prefix="soak-") as place:
            meeting = _Meeting(place, random.Random(f"{options.seed}/{done}"), outcome)
            taken += meeting.in_turn(crowd, writes)
    progress.goes_on(rounds, outcome)
    taken.sort()
    share, late = sum(taken) / len(taken), taken[len(taken) * 99 // 100]
    spread = f"{taken[len(taken) // 2]:.1f}/{late:.1f}/{taken[-1]:.1f}"
    outcome.figures |= {"writes": len(taken), "a write, ms p50/p99/longest": spread, "p99 in shares": late / share}
    if late > _MOST_SHARES * share:
        outcome.fail(f"one write in a hundred took {late:.0f} ms, {late / share:.1f} times its share")
    return outcome


class _Meeting:
    def __init__(self, place: str, chance: random.Random, outcome: Outcome) -> None:
        self._chance, self._outcome = chance, outcome
        self._home = os.path.join(place, "home")
        self._notes = os.path.join(place, "notes")  # what was acknowledged, or found wrong, by whom
        os.makedirs(self._home, mode=0o700)
        os.makedirs(self._notes)
        with open(os.path.join(self._home, "config.yaml"), "w", encoding="utf-8") as file:
            file.write(_SETTINGS)
        os.chmod(os.path.join(self._home, "config.yaml"), 0o600)
        MemoryStore.open(self._home).add(TARGET, "writer 0 entry 0 end")

    def run(self, count: int, writes: int, stranger: Stranger | None) -> list[str]:
        finished = os.path.join(self._notes, "finished")
        readers = [self._fork(_read_until, self._home, finished, stranger is None) for _ in range(2)]
        running = {self._fork(_write, self._home, number, writes) for number in range(1, count + 1)}

        def goes_on() -> bool:
            running.difference_update([process for process in running if os.waitpid(process, os.WNOHANG)[0]])
            return bool(running)

        path = MemoryStore.open(self._home).path(TARGET)
        lines = stranger(path, self._chance.getrandbits(30), goes_on) if stranger else []
        while goes_on():
            time.sleep(0.01)
        with open(finished, "w", encoding="utf-8"):
            pass
        for reader in readers:
            os.waitpid(reader, 0)
        return self._compare(lines, everything_in_file=stranger in (None, _shells))

    def in_turn(self, count: int, writes: int) -> list[float]:
        """How many milliseconds each write took, while all of them wrote."""
        gate, opens = os.pipe()
        running = [self._fork(_replace, self._home, number, writes, gate, opens) for number in range(count)]
        os.close(gate)
        os.close(opens)  # the last one to close it lets all of them begin
        for process in running:
            os.waitpid(process, 0)
        told: list[list[float]] = []
        for name in os.listdir(self._notes):
            with open(os.path.join(self._notes, name), encoding="utf-8") as file:
                told.append([float(line) for line in file])
        first = min(map(sum, told))  # ms until the first one was done; after that there are fewer than `count`
        return [each for one in told for each, so_far in zip(one, accumulate(one), strict=True) if so_far <= first]

    def _fork(self, work: Callable[..., list[str]], *given: object) -> int:
        child = os.fork()
        if child == 0:
            self._work(work, *given)
        return child

    def _work(self, work: Callable[..., list[str]], *given: object) -> NoReturn:
        try:
            said = work(*given)
        except Exception as error:  # noqa: BLE001 - whatever it is, the parent must hear of it
            said = [f"problem {type(error).__name__}: {error}"]
        with open(os.path.join(self._notes, f"{os.getpid()}"), "w", encoding="utf-8") as file:
            file.write("\n".join(said))
        os._exit(0)

    def _compare(self, lines: list[str], *, everything_in_file: bool) -> list[str]:
        said: list[str] = []
        for name in os.listdir(self._notes):
            with open(os.path.join(self._notes, name), encoding="utf-8") as file:
                said += file.read().splitlines()
        problems = [each for each in said if each.startswith("problem")]
        acknowledged = [each for each in said if not each.startswith("problem")]
        self._outcome.count("entries", len(acknowledged))
        self._outcome.count("strangers' lines", len(lines))
        store = MemoryStore.open(self._home)
        entries = store.entries(TARGET)
        folder = os.path.dirname(store.path(TARGET))
        hidden = [name for name in os.listdir(folder) if name.startswith(".")]
        texts = ["\n".join(entries)]
        for name in os.listdir(folder):
            if ".bak." in name:
                with open(os.path.join(folder, name), "rb") as backup:
                    texts.append(backup.read().decode("utf-8", "replace"))
        kept = "\n".join(texts)
        remembered = "\n".join("\n".join(change.added()) for change in store.history(TARGET)[0])
        problems += [f"line lost: {line}" for line in lines if line not in kept and line not in remembered]
        if everything_in_file:
            problems += [f"line neither merged nor backed up: {line}" for line in lines if line not in kept]
            problems += [f"entry lost: {entry}" for entry in acknowledged if entry not in entries]
        problems += [f"entry forgotten: {entry}" for entry in acknowledged if entry not in remembered]
        return problems + [f"{name} was left behind" for name in hidden]


def _write(home: str, number: int, writes: int) -> list[str]:
    store = MemoryStore.open(home)
    acknowledged = []
    for entry in (f"writer {number} entry {each} end" for each in range(writes)):
        try:
            store.add(TARGET, entry)
        except HermesError as error:
            if "changed all the time" not in str(error):  # refused with a reason: nothing was acknowledged or lost
                acknowledged.append(f"problem writer {number}: {error}")
        else:
            acknowledged.append(entry)
    return acknowledged


def _replace(home: str, number: int, writes: int, gate: int, opens: int) -> list[str]:
    store = MemoryStore.open(home)
    entry, took = f"writer {number} entry 0 end", []
    store.add(TARGET, entry)
    os.close(opens)
    os.read(gate, 1)
    for step in range(1, writes + 1):
        new, began = f"writer {number} entry {step} end", time.monotonic()
        store.replace(TARGET, entry, new)
        took.append(f"{(time.monotonic() - began) * 1000:.3f}")
        entry = new
    return took


def _read_until(home: str, finished: str, only_ours: bool) -> list[str]:
    store = MemoryStore.open(home)
    problems: list[str] = []
    seen, parent = 1, os.getppid()
    while not os.path.exists(finished) and os.getppid() == parent:
        entries = store.entries(TARGET)
        if only_ours and len(entries) < seen:
            problems.append(f"problem a reader saw {len(entries)} entries after {seen}")
        if only_ours and (torn := [entry for entry in entries if not _ENTRY.fullmatch(entry)]):
            problems.append(f"problem a reader saw {torn[0]!r}")
        seen = max(seen, len(entries))
    return problems


def _shells(path: str, seed: int, goes_on: Callable[[], bool]) -> list[str]:
    lines: list[str] = []
    while goes_on() and len(lines) < _MOST_LINES:
        line = f"shell {seed} line {len(lines)} end"
        subprocess.run(["sh", "-c", f"echo '{line}' >> '{path}'"], check=True)
        lines.append(line)
        time.sleep(_BETWEEN_SAVES)
    return lines


def _renaming_editor(path: str, seed: int, goes_on: Callable[[], bool]) -> list[str]:
    lines: list[str] = []
    while goes_on() and len(lines) < _MOST_LINES:
        line = f"editor {seed} line {len(lines)} end"
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(f"{path}.swp", "w", encoding="utf-8") as file:
            file.write(f"{text}\n§\n{line}")
        os.chmod(f"{path}.swp", 0o600)
        os.rename(f"{path}.swp", path)
        lines.append(line)
        time.sleep(_BETWEEN_SAVES)
    return lines


def _rewriting_editor(path: str, seed: int, goes_on: Callable[[], bool]) -> list[str]:
    lines: list[str] = []
    while goes_on() and len(lines) < _MOST_LINES:
        line = f"rewriter {seed} line {len(lines)} end"
        with open(path, encoding="utf-8") as file:
            text = f"{file.read()}\n§\n{line}"
        with open(path, "w", encoding="utf-8") as file:
            file.write(text[: len(text) // 2])
            file.flush()
            file.write(text[len(text) // 2 :])
        lines.append(line)
        time.sleep(_BETWEEN_SAVES)
    return lines
