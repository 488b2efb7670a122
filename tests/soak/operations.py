"""`bin/soak operations`: every public operation while system calls fail; only typed errors may come out.

Runs under the shim of `faults.c`: the k-th call below the home fails, once or from then on. Afterwards, with a healthy
disk, the home must open again and hold what was acknowledged.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import traceback
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from soak.common import Options, Outcome, Progress
from soak.faults import Shim, build_shim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SUMMARY = "every public operation while the disk fails"
DESCRIPTION = """Makes system calls fail during commands and library calls, one at a time and lasting.
Without a choice: 20 places of each operation."""
ERRORS = (errno.EIO, errno.ENOSPC, errno.EACCES, errno.EMFILE)
_HERE = os.path.dirname(os.path.abspath(__file__))
_SESSION = "kept"
_ACKNOWLEDGED = "the kite is red"


def add_choices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--places", type=int, default=20, metavar="N", help="N failing calls of each")
    parser.add_argument("--only", default="", metavar="NAME", help="one operation")


def run(given: argparse.Namespace, options: Options) -> Iterator[Outcome]:
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="soak-") as place:
        environment = os.environ | {
            "LD_PRELOAD": build_shim(place),
            "PYTHONPATH": os.pathsep.join((os.path.dirname(_HERE), os.environ.get("PYTHONPATH", ""))),
            "HERMES_MODEL": "",
        }
        told = subprocess.run(
            [
                *(sys.executable, "-m", "soak.operations", "--folder", place, "--seed", str(options.seed)),
                *("--places", str(given.places), "--only", given.only, "--seconds", str(options.seconds)),
                *(["--quiet"] if options.quiet else []),
            ],
            env=environment,
            stdout=subprocess.PIPE,
            check=True,
        )
    yield from (Outcome(**each) for each in json.loads(told.stdout))


def _command(*arguments: str) -> Callable[[str], None]:
    def call(home: str) -> None:
        from hermes.cli.app import run as run_command

        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            run_command(["--home", home, *(word.replace("{home}", home) for word in arguments)])
        if "Traceback" in printed.getvalue() or "standard output" in printed.getvalue():
            raise AssertionError(printed.getvalue()[-300:])

    return call


def _turn(home: str) -> None:
    from hermes import MemorySession

    with MemorySession.open(home) as session:
        session.prepare_turn("Where is the kite?")
        session.finish_turn("In the tree.")


def _resume(home: str) -> None:
    from hermes import MemorySession

    with MemorySession.open(home, resume=_SESSION) as session:
        session.prepare_turn("And now?")
        session.finish_turn("Still there.")


def _compact(home: str) -> None:
    from hermes import MemorySession

    with MemorySession.open(home, resume=_SESSION) as session:
        session.compact()


def _append(home: str) -> None:
    from hermes import SessionDB

    with SessionDB.open(os.path.join(home, "state.db")) as db:
        db.append(db.create_session(), {"role": "user", "content": "one more"})
        db.search("kite")


OPERATIONS: dict[str, Callable[[str], None]] = {
    "append and search": _append,
    "turn": _turn,
    "resume": _resume,
    "compact": _compact,
    "memory add": _command("memory", "add", "Uses zsh"),
    "memory list": _command("memory", "list"),
    "memory undo": _command("memory", "undo"),
    "sessions list": _command("sessions", "list"),
    "sessions search": _command("sessions", "search", "kite"),
    "sessions show": _command("sessions", "show", _SESSION),
    "sessions rename": _command("sessions", "rename", _SESSION, "A title"),
    "sessions export": _command("sessions", "export", _SESSION, "--out", "{home}-export.jsonl"),
    "sessions repair": _command("sessions", "repair"),
    "backup": _command("backup", "create", "--out", "{home}-backup.zip"),
    "export": _command("export", "{home}-export.zip"),
    "doctor": _command("doctor", "--offline"),
    "status": _command("status"),
    "config set": _command("config", "set", "memory.char_limit", "3000"),
}


def _make(home: str) -> None:
    from hermes import MemorySession, MemoryStore, SessionDB

    os.makedirs(home, mode=0o700)
    with open(os.path.join(home, "config.yaml"), "w", encoding="utf-8") as file:
        file.write("memory:\n  lock_timeout: 0.2\nsessions:\n  lock_wait_seconds: 0.2\n")
    store = MemoryStore.open(home)
    store.add("memory", _ACKNOWLEDGED)
    with SessionDB.open(os.path.join(home, "state.db")) as db:
        db.create_session(session_id=_SESSION, title="Kites")
        for number in range(20):
            db.append(_SESSION, {"role": "user", "content": f"kite {number}: {_ACKNOWLEDGED}"})
            db.append(_SESSION, {"role": "assistant", "content": f"noted {number}"})
        db.index()
    with MemorySession.open(home) as session:
        session.prepare_turn("hello")
        session.finish_turn("hi")


def _lost(home: str) -> list[str]:
    """What is missing when the disk is well again."""
    from hermes import MemoryStore, SessionDB
    from hermes.base.errors import HermesError

    try:
        with SessionDB.open(os.path.join(home, "state.db")) as db:
            tip = list(db.lineage(_SESSION))
            kept = sum(_ACKNOWLEDGED in each.text for session in tip for each in db.messages(session.id))
        entries = MemoryStore.open(home).entries("memory")
    except HermesError as error:
        return [f"a fresh open failed: {error}"]
    problems = [] if kept >= 20 else [f"{20 - kept} messages are gone"]
    return problems + ([] if _ACKNOWLEDGED in entries or not entries else ["the memory entry is gone"])


def _inside(given: argparse.Namespace, options: Options) -> Iterator[Outcome]:
    from hermes.base.errors import HermesError
    from hermes.storage.local import database

    database.WAIT_SECONDS = 0.2  # nobody else is there to wait for, and a failing lock call looks like somebody
    shim = Shim()
    model = os.path.join(options.folder, "model")
    _make(model)
    for name, operation in OPERATIONS.items():
        if given.only not in ("", name):
            continue
        outcome = Outcome(name=name, figures={"cases": 0, "typed errors": 0})
        progress = Progress(name, given.places * len(ERRORS) * 2, options)
        home = os.path.join(options.folder, "home")
        shutil.copytree(model, home)
        shim.watch(home)
        shim.arm(home, 1 << 40)
        with contextlib.suppress(HermesError):
            operation(home)
        calls = shim.calls()
        shim.disarm()
        shutil.rmtree(home)
        chance = random.Random(f"{options.seed}/{name}")
        cases = [
            (error, lasting, chance.randint(1, max(1, calls)))
            for error in ERRORS
            for lasting in (False, True)
            for _ in range(given.places)
        ]
        for number, (error, lasting, k) in enumerate(cases):
            if not progress.goes_on(number, outcome):
                break
            shutil.copytree(model, home)
            shim.watch(home)
            shim.arm(home, k, count=1 << 40 if lasting else 1, error=error)
            problems: list[str] = []
            try:
                operation(home)
            except HermesError:
                outcome.count("typed errors")
            except BaseException as failure:  # noqa: BLE001 - an exception of any other kind is the finding
                problems.append(f"uncaught {type(failure).__name__}: {failure}{_place_of(failure)}")
            shim.disarm()
            where = f"{errno.errorcode[error]} {'lasting' if lasting else 'once'} at call {k} ({shim.where()})"
            outcome.fail(*(f"{where}: {each}" for each in (*problems, *_lost(home))))
            outcome.count("cases")
            for each in os.listdir(options.folder):
                if each.startswith("home"):
                    path = os.path.join(options.folder, each)
                    shutil.rmtree(path, ignore_errors=True) if os.path.isdir(path) else os.unlink(path)
        progress.goes_on(len(cases), outcome)
        yield outcome


def _place_of(failure: BaseException) -> str:
    ours = [each for each in traceback.extract_tb(failure.__traceback__) if "/hermes/" in each.filename]
    return f" in {os.path.basename(ours[-1].filename)}:{ours[-1].lineno} {ours[-1].name}" if ours else ""


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    add_choices(parser)
    parser.add_argument("--folder")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--quiet", action="store_true")
    arguments: Any = parser.parse_args()
    chosen = Options(folder=arguments.folder, seed=arguments.seed, seconds=arguments.seconds, quiet=arguments.quiet)
    print(json.dumps([asdict(outcome) for outcome in _inside(arguments, chosen)]))
