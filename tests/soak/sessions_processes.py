"""Many processes on one `state.db`: eight that write, then sixteen that write, read and search.

Nobody is told that it is locked, and nothing is lost. How long an append took is reported beside what the machine
itself takes: as many processes that do nothing but write and sync as much, in the same folder, right before.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from engines import database_of

from hermes.conversations.database import SessionDB
from hermes.storage.local.database import WriteLog
from hermes.storage.locks import WriteQueue
from soak.common import Outcome, Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from soak.common import Options

    Tell = Callable[[dict[str, Any]], None]

_COMMIT = bytes(4 * 2072)  # as many pages as a short message changes
_TOO_LONG = 100.0  # ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    processes: int
    reading: bool  # also searches, lists, closes and opens again
    appends: int

    @property
    def name(self) -> str:
        return f"{self.processes} processes that write{' and read' if self.reading else ''}"


WRITING = Work(processes=8, reading=False, appends=200)
WRITING_AND_READING = Work(processes=16, reading=True, appends=60)


def run(rounds: int, options: Options) -> Iterator[Outcome]:
    for work in (WRITING, WRITING_AND_READING):
        yield run_work(work, rounds, options)


def run_work(work: Work, rounds: int, options: Options) -> Outcome:
    outcome = Outcome(name=work.name, figures={"acknowledged": 0})
    progress = Progress(work.name, rounds, options)
    waits: list[dict[str, float]] = []
    bare: list[float] = []
    for number in range(rounds):
        if not progress.goes_on(number, outcome):
            break
        with tempfile.TemporaryDirectory(dir=options.folder, prefix="soak-") as place:
            told = _all_at_once(work.processes, partial(_only_sync, os.path.join(place, "scratch"), work))
            bare += [line["wait"] for line in told]
            path = os.path.join(place, "state.db")
            told = _all_at_once(work.processes, partial(_work, path, options.seed + number, work))
            outcome.fail(*(f"round {number}: {line['error']}" for line in told if "error" in line))
            waits += [line for line in told if "wait" in line]
            expected = {line["id"]: line["text"] for line in told if "id" in line}
            outcome.count("acknowledged", len(expected))
            outcome.fail(*(f"round {number}: {each}" for each in _problems(path, expected)))
    progress.goes_on(rounds, outcome)
    outcome.figures |= _figures(waits, bare)
    return outcome


def _figures(waits: list[dict[str, float]], bare: list[float]) -> dict[str, Any]:
    if not waits or not bare:
        return {}
    longest = max(waits, key=lambda line: line["wait"])
    parts = " + ".join(
        f"{longest[part]:.0f} {name}" for part, name in (("lock", "for the lock"), ("sync", "for the disk"))
    )
    return {
        "an append, ms p50/p99/longest": _spread([line["wait"] for line in waits]),
        "of which for the lock": _spread([line["lock"] for line in waits]),
        "of which for the disk": _spread([line["sync"] for line in waits]),
        "of which without a processor": _spread([line["idle"] for line in waits]),
        "the longest": f"{parts}, {longest['idle']:.0f} of it without a processor",
        f"over {_TOO_LONG:.0f} ms": sum(line["wait"] > _TOO_LONG for line in waits),
        "a bare write and sync beside as many, ms": _spread(bare),
    }


def _spread(values: list[float]) -> str:
    ordered = sorted(values)
    return "/".join(f"{ordered[min(len(ordered) - 1, len(ordered) * share // 100)]:.1f}" for share in (50, 99, 100))


def _all_at_once(processes: int, work: Callable[[int, Tell], None]) -> list[dict[str, Any]]:
    """What that many processes told, which all began at the same moment."""
    reader, writer = os.pipe()
    gate_reader, gate_writer = os.pipe()
    children = []
    for number in range(processes):
        child = os.fork()
        if child == 0:
            os.close(gate_writer)
            os.read(gate_reader, 1)  # ends for all of them when the parent closes its side
            _end_after(work, number, writer)
        children.append(child)
    os.close(writer)
    os.close(gate_writer)
    os.close(gate_reader)
    with os.fdopen(reader, encoding="utf-8") as pipe:
        told = [json.loads(line) for line in pipe]
    for child in children:
        os.waitpid(child, 0)
    return told


def _end_after(work: Callable[[int, Tell], None], number: int, pipe: int) -> NoReturn:
    def tell(line: dict[str, Any]) -> None:
        os.write(pipe, json.dumps(line).encode() + b"\n")  # short enough to be written in one piece

    try:
        work(number, tell)
    except Exception as error:  # noqa: BLE001 - any error that reaches the caller is the finding
        tell({"error": f"process {number}: {type(error).__name__}: {error}"})
    finally:
        os._exit(0)


def _only_sync(path: str, work: Work, number: int, tell: Tell) -> None:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    for step in range(work.appends):
        started = time.monotonic()
        os.pwrite(file, _COMMIT, (step * work.processes + number) * len(_COMMIT))
        os.fdatasync(file)
        tell({"wait": (time.monotonic() - started) * 1000})


def _work(path: str, seed: int, work: Work, number: int, tell: Tell) -> None:
    chance = random.Random(f"{seed}/{number}")
    spent = _Spent()
    db = SessionDB.open(path, durability=chance.choice(("message", "turn")) if work.reading else "message")
    name = db.create_session()
    for step in range(work.appends):
        text = f"p{number}s{step} spoken in round"
        spent.begin()
        message = db.append(name, {"role": "user", "content": text})
        tell({"id": message, "text": text, **spent.end()})
        if not work.reading:
            continue
        if chance.random() < 0.1:
            db.search(f"p{chance.randrange(work.processes)}s{step}", limit=2)
        if chance.random() < 0.1:
            db.list_sessions()
        if chance.random() < 0.03:
            db.close()
            db = SessionDB.open(path)
    db.close()


class _Spent:
    """Where the time of a call went, in ms: in line for the lock, until the disk answered, ready to run but not let."""

    def __init__(self) -> None:
        self._spent: dict[str, float] = {}
        self._count("lock", WriteQueue, "__enter__")
        self._count("sync", WriteLog, "sync")

    def begin(self) -> None:
        self._spent = {"lock": 0.0, "sync": 0.0}
        self._idle = _without_processor()
        self._started = time.monotonic()

    def end(self) -> dict[str, float]:
        waited = (time.monotonic() - self._started) * 1000
        return {"wait": waited, **self._spent, "idle": _without_processor() - self._idle}

    def _count(self, part: str, kind: type, method: str) -> None:
        real = getattr(kind, method)

        def counted(this: Any) -> None:
            started = time.monotonic()
            real(this)
            self._spent[part] = self._spent.get(part, 0.0) + (time.monotonic() - started) * 1000

        setattr(kind, method, counted)


def _without_processor() -> float:
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1]) / 1e6
    except OSError:  # not Linux
        return 0.0


def _problems(path: str, expected: dict[int, str]) -> list[str]:
    with SessionDB.open(path) as db:
        found = {m.id: m.text for session in db.list_sessions(limit=100) for m in db.messages(session.id)}
        db.index()
        indexed = {row[0] for row in database_of(db).rows("SELECT id FROM messages_fts_docsize")}
        problems = [] if found == expected else [f"{len(expected)} acknowledged, {len(found)} found"]
        problems += [] if indexed == set(expected) else [f"{len(expected)} acknowledged, {len(indexed)} indexed"]
        verdict = database_of(db).row("PRAGMA integrity_check")[0]
    return problems + ([] if verdict == "ok" else [f"integrity_check: {verdict}"])
