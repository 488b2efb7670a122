"""Runs inside the shim: every operation, every system call, every error, once and lasting; kills; broken recovery."""

from __future__ import annotations

import argparse
import errno
import json
import os
import random
import shutil
import signal
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from hermes.base.errors import HermesError
from hermes.memory.approval import Approvals
from hermes.memory.entries import replay
from hermes.memory.store import TARGETS, MemoryStore
from hermes.settings.home import find_home
from soak.checks import leftovers_and_modes
from soak.common import Options, Outcome, Progress
from soak.faults import FAIL, KILL, SHORT_WRITE, Shim
from soak.scenes import OPERATIONS, in_another_form

if TYPE_CHECKING:
    from collections.abc import Callable

    from soak.scenes import Operation

ERRORS = (errno.EIO, errno.ENOSPC, errno.EACCES, errno.EMFILE, errno.ENOMEM, errno.EINTR)
# Python itself repeats an interrupted call, so interruptions without end would be an endless loop that no system makes.
_INTERRUPTIONS = 25
_NOT_TAKEN_BACK = ("could not be taken back", "could not be put back")
_RECOVERIES_PER_KILL = 2


@dataclass(frozen=True, slots=True)
class _Found:
    """What a fresh open sees; the order does not matter where a late line may be merged before or after a write."""

    entries: tuple[tuple[str, ...], ...]
    staged: int

    @classmethod
    def of(cls, home: str) -> _Found:
        store = MemoryStore.open(home)
        entries = tuple(tuple(sorted(store.entries(target))) for target in TARGETS)
        return cls(entries, len(Approvals(find_home(home)).pending()[0]))


class _Loop:
    def __init__(self, options: Options, operations: list[Operation], errors: list[int], stride: int) -> None:
        self._options, self._operations, self._errors, self._stride = options, operations, errors, stride
        self._shim = Shim()
        self._number = 0
        self._chance = random.Random(options.seed)

    def faults(self) -> Outcome:
        outcome = Outcome(name="faults", figures={"cases": 0, "ended well": 0, "typed errors": 0, "not taken back": 0})
        kinds = [(error, lasting, FAIL) for error in self._errors for lasting in (False, True)]
        for error, lasting, how in [*kinds, (0, False, SHORT_WRITE), (0, True, SHORT_WRITE)]:
            count = (_INTERRUPTIONS if error == errno.EINTR else 1 << 40) if lasting else 1
            name = f"{errno.errorcode.get(error, 'short write')} {'lasting' if lasting else 'once'}"
            self._each(
                outcome,
                name,
                lambda operation, home, k, count=count, error=error, how=how: self._fault(  # type: ignore[misc]
                    operation, home, k, count=count, error=error, how=how, outcome=outcome
                ),
            )
        return outcome

    def kills(self) -> Outcome:
        outcome = Outcome(name="kills at every call", figures={"cases": 0})
        self._each(outcome, "kill", self._kill)
        return outcome

    def recovery(self) -> Outcome:
        """Kill at k, then a fault or a kill at a random call of the recovery, then look."""
        outcome = Outcome(name="kill, then trouble during recovery", figures={"cases": 0})
        for _ in range(_RECOVERIES_PER_KILL):
            self._each(outcome, "recovery", lambda operation, home, k: self._kill(operation, home, k, compound=True))
        return outcome

    def _each(self, outcome: Outcome, name: str, case: Callable[[Operation, str, int], tuple[bool, list[str]]]) -> None:
        progress = Progress(f"{outcome.name} ({name})", len(self._operations), self._options)
        for done, operation in enumerate(self._operations):
            if not progress.goes_on(done, outcome):
                return
            for scene in operation.scenes:
                old, new = self._expected(operation, scene)
                k, more = self._chance.randint(1, self._stride), True
                while more:
                    home = self._home(scene)
                    more, problems = case(operation, home, k)
                    problems = problems or self._look(home, operation, scene, (old, new))
                    if problems:
                        where = f"{operation.name} on {scene.__name__}, {name} at call {k} ({self._shim.where()})"
                        outcome.fail(*(f"{where}: {each}" for each in problems))
                    outcome.count("cases")
                    shutil.rmtree(home, ignore_errors=True)
                    k += self._stride
        progress.goes_on(len(self._operations), outcome)

    def _expected(self, operation: Operation, scene: Callable[[str], None]) -> tuple[_Found, _Found]:
        home = self._home(scene)
        old = _Found.of(home)
        shutil.rmtree(home, ignore_errors=True)
        home = self._home(scene)
        try:
            operation.begin(home)()
        except HermesError:
            return old, old
        finally:
            new = _Found.of(home)
        return old, new

    def _home(self, scene: Callable[[str], None]) -> str:
        self._number += 1
        home = os.path.join(self._options.folder, f"home-{self._number}")
        shutil.rmtree(home, ignore_errors=True)
        scene(home)
        return home

    def _fault(
        self, operation: Operation, home: str, k: int, *, count: int, error: int, how: int, outcome: Outcome
    ) -> tuple[bool, list[str]]:
        before = len(os.listdir("/proc/self/fd"))
        self._shim.watch(home)
        call = operation.begin(home)
        self._shim.arm(home, k, count=count, error=error, how=how)
        told = change_id = None
        problems: list[str] = []
        try:
            change_id = call()
        except HermesError as failure:
            told = str(failure)
        except Exception as failure:  # noqa: BLE001 - an exception of any other kind is the finding
            problems.append(f"uncaught {type(failure).__name__}: {failure}")
        fired = self._shim.disarm()
        del call
        if len(os.listdir("/proc/self/fd")) != before:
            problems.append("a descriptor was left open")
        outcome.count("typed errors" if told else "ended well")
        outcome.count("not taken back", told is not None and any(words in told for words in _NOT_TAKEN_BACK))
        self._told, self._change_id = told, change_id
        # A short write fires only at writes, so its end is the end of the calls, not the first miss.
        return fired or (how == SHORT_WRITE and k < self._shim.calls()), problems

    def _kill(self, operation: Operation, home: str, k: int, *, compound: bool = False) -> tuple[bool, list[str]]:
        killed = self._killed(home, k, operation.begin(home))
        if killed and compound:
            self._disturb_recovery(home)
        self._told, self._change_id = "killed", None
        return killed, []

    def _disturb_recovery(self, home: str) -> None:
        k = self._chance.randint(1, 60)
        if self._chance.random() < 0.5:
            self._killed(home, k, lambda: MemoryStore.open(home))
            return
        lasting = self._chance.random() < 0.5
        self._shim.arm(home, k, count=1 << 40 if lasting else 1, error=self._chance.choice(ERRORS[:-1]))
        try:
            MemoryStore.open(home)
        except HermesError:
            pass
        finally:
            self._shim.disarm()

    def _killed(self, home: str, k: int, call: Callable[[], object]) -> bool:
        child = os.fork()
        if child == 0:
            self._shim.arm(home, k, count=1, how=KILL)
            try:
                call()
            except HermesError:
                pass
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL

    def _look(
        self, home: str, operation: Operation, scene: Callable[[str], None], expected: tuple[_Found, _Found]
    ) -> list[str]:
        old, new = expected
        told = self._told
        allowed = [new] if told is None else [old]
        if told is not None and (told == "killed" or any(words in told for words in _NOT_TAKEN_BACK)):
            allowed = [old, new]
        try:
            found = _Found.of(home)
            store = MemoryStore.open(home)
            changes, damaged = store.history("memory")
            live = store.entries("memory")
        except HermesError as failure:
            return [f"a fresh open failed: {failure}"]
        if operation.name == "approve":  # carried out, and perhaps still listed: approving it again changes nothing
            allowed = [*allowed, *(_Found(each.entries, old.staged) for each in allowed)]
        problems = [] if found in allowed else [f"{told or 'success'}, but found {found}, expected {allowed}"]
        if scene is not in_another_form and operation.name != "open" and changes and replay(changes) != live:
            drifted = store.read("memory").foreign
            problems += [] if drifted else [f"the history replays to {replay(changes)}, not {live}"]
        if damaged:
            problems.append(f"{damaged} damaged lines in the history")
        if self._change_id and self._change_id not in {change.id for change in changes}:
            problems.append(f"acknowledged change {self._change_id} is not in the history")
        # What a lasting fault kept from being removed goes when this process is gone: it might still be writing it.
        ours = f"{os.path.join(home, 'pending')}/", f".{os.getpid()}.tmp was left behind"
        problems += [
            each for each in leftovers_and_modes(home) if not (each.startswith(ours[0]) and each.endswith(ours[1]))
        ]
        try:
            store.add("user", "still works")
        except HermesError as failure:
            problems.append(f"the next write failed: {failure}")
        return problems


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--part", required=True)
    parser.add_argument("--operations", required=True)
    parser.add_argument("--errors", required=True)
    parser.add_argument("--stride", type=int, required=True)
    parser.add_argument("--quiet", action="store_true")
    given = parser.parse_args()
    options = Options(folder=given.folder, seed=given.seed, seconds=given.seconds, quiet=given.quiet)
    wanted = [each for each in OPERATIONS if not given.operations or each.name in given.operations.split(",")]
    errors = [each for each in ERRORS if not given.errors or errno.errorcode[each] in given.errors.split(",")]
    loop = _Loop(options, wanted, errors, given.stride)
    parts = {"faults": loop.faults, "kills": loop.kills, "recovery": loop.recovery}
    outcomes = [call() for name, call in parts.items() if given.part in (name, "all")]
    print(json.dumps([asdict(outcome) for outcome in outcomes]))


if __name__ == "__main__":
    main()
