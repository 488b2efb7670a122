"""`bin/soak rescue`: leaves a disk that is full or read-only with everything: export, backup and repair elsewhere.

Each trial makes a home on a small file system of its own, with or without a log that a killed program left, sound or
with a page overwritten, then fills the disk or mounts it read-only. It needs the right to mount (`unshare -m`).
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.base.errors import HermesError
from hermes.conversations.database import SessionDB
from hermes.memory.store import MemoryStore
from hermes.portability.home import Selection, create_backup, export_home, import_home, restore_backup
from hermes.storage.local.repair.check import repair
from soak.common import Options, Outcome, Progress

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

SUMMARY = "a full or read-only disk is left with everything"
DESCRIPTION = __doc__ or ""
_PAGE = 2048


def add_choices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", type=int, default=500, metavar="N", help="disks to leave (default: 500)")


def run(given: argparse.Namespace, options: Options) -> Iterator[Outcome]:
    yield trials(given.trials, options)


def trials(count: int, options: Options) -> Outcome:
    """In a process that has mounts of its own, so that a failure leaves none behind."""
    command = ["unshare", "-m", sys.executable, "-m", "soak.rescue", json.dumps([count, asdict(options)])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(command, stdout=subprocess.PIPE, env=environment, text=True, check=False)
    if ran.returncode:
        return Outcome(name="rescue", failures=[f"the trials could not run (exit code {ran.returncode})"])
    return Outcome(**json.loads(ran.stdout))


def _run_here(count: int, options: Options) -> Outcome:
    outcome = Outcome(name="rescue", figures={"trials": 0})
    progress = Progress("rescue", count, options)
    for number in range(count):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            disk = os.path.join(folder, "disk")
            os.mkdir(disk)
            _mount("-t", "tmpfs", "-o", "size=3m", "tmpfs", disk)
            try:
                _trial(random.Random(f"{options.seed}/{number}"), Path(folder), outcome, f"trial {number}")
            finally:
                subprocess.run(["umount", "-l", disk], check=True)
        outcome.count("trials")
        if not progress.goes_on(number + 1, outcome):
            break
    return outcome


def _trial(chance: random.Random, folder: Path, outcome: Outcome, name: str) -> None:
    home = folder / "disk/home"
    how, log, damaged = chance.choice(("full", "read-only")), chance.random() < 0.5, chance.random() < 0.3
    kind = f"{how}{', with a log' if log else ''}{', damaged' if damaged else ''}"
    outcome.count(kind)
    entries = [f"Fact {number} is {chance.getrandbits(40):x}." for number in range(chance.randint(1, 5))]
    said = _furnished(home, entries, chance.randint(1, 40), log=log)
    if damaged:
        _overwrite_page(home / "state.db", chance)
    if how == "full":
        with open(folder / "disk/filler", "wb", buffering=0) as filler, contextlib.suppress(OSError):
            while filler.write(bytes(4096)):
                pass
    else:
        _mount("-o", "remount,ro", str(folder / "disk"))
    for step in (_by_export, _by_backup, _by_repair):
        try:
            found = step(home, folder)
        except HermesError as error:
            if not damaged or step is _by_repair:
                outcome.fail(f"{name} ({kind}): {step.__name__}: {error}")
        except Exception as error:  # noqa: BLE001 - an error without a type of ours is what is looked for
            outcome.fail(f"{name} ({kind}): {step.__name__} raised {error!r}")
        else:
            if not damaged and found != (said if step is _by_repair else (*said, *entries)):
                outcome.fail(f"{name} ({kind}): {step.__name__} brought {len(found)} of {len(said) + len(entries)}")


def _furnished(home: Path, entries: list[str], turns: int, *, log: bool) -> tuple[str, ...]:
    store = MemoryStore.open(home)
    for entry in entries:
        store.add("memory", entry)
    said = tuple(f"message {number}" for number in range(turns))
    child = os.fork()
    if not child:
        db = SessionDB.open(home / "state.db")
        db.append_many(db.create_session(session_id="one"), [{"role": "user", "content": text} for text in said])
        if not log:
            db.close()
        os._exit(0)
    os.waitpid(child, 0)
    return said


def _overwrite_page(path: Path, chance: random.Random) -> None:
    pages = path.stat().st_size // _PAGE
    with open(path, "r+b") as file:
        file.seek(_PAGE * chance.randrange(pages) if pages else 0)
        file.write(chance.randbytes(_PAGE))


def _by_export(home: Path, folder: Path) -> tuple[str, ...]:
    export_home(str(home), str(folder / "export.zip"), Selection())
    import_home(str(folder / "export.zip"), str(folder / "imported"))
    return _everything(folder / "imported")


def _by_backup(home: Path, folder: Path) -> tuple[str, ...]:
    create_backup(str(home), str(folder / "backup.zip"))
    restore_backup(str(folder / "backup.zip"), str(folder / "restored"))
    return _everything(folder / "restored")


def _by_repair(home: Path, folder: Path) -> tuple[str, ...]:
    repair(str(home / "state.db"), out=str(folder / "repaired/state.db"))
    return _said(folder / "repaired/state.db")


def _everything(home: Path) -> tuple[str, ...]:
    return (*_said(home / "state.db"), *MemoryStore.open(home).entries("memory"))


def _said(path: Path) -> tuple[str, ...]:
    with SessionDB.open(path) as db:
        return tuple(each.text for session in db.list_sessions(limit=100) for each in db.messages(session.id))


def _mount(*arguments: str) -> None:
    subprocess.run([shutil.which("mount") or "mount", *arguments], check=True)


if __name__ == "__main__":
    how_many, given = json.loads(sys.argv[1])
    print(json.dumps(asdict(_run_here(how_many, Options(**given)))))
