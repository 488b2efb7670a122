"""Puts links, pipes, folders, devices and sockets where store files belong: never followed out, never waited for."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
from typing import TYPE_CHECKING

from hermes.base.errors import HermesError
from hermes.memory.approval import Approvals
from hermes.memory.entries import Cause
from hermes.memory.store import MemoryStore
from hermes.settings.home import find_home
from soak.checks import leftovers_and_modes
from soak.common import Outcome, Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from soak.common import Options

_PATIENCE = 20
_SECRET = b"-----BEGIN PRIVATE KEY----- outside -----END PRIVATE KEY-----\n"
PLACES = (
    "memories/MEMORY.md",
    "memories/MEMORY.md.lock",
    "memories/MEMORY.md.history.jsonl",
    "memories/.MEMORY.md.{pid}.tmp",
    "memories/.MEMORY.md.5.00000000.1.2.3.add.agent.s.old",
    "memories/.MEMORY.md.5.00000000.1.2.3.add.agent.s.late",
    "memories",
    "pending",
    "pending/memory",
    "pending/memory/aaaaaaaa.json",
    "config.yaml",
    "cache",
)
UMASKS = (0o000, 0o077, 0o777)


def _link_out(path: str, outside: str) -> None:
    os.symlink(os.path.join(outside, "secret"), path)


def _link_to_folder_outside(path: str, outside: str) -> None:
    os.symlink(outside, path)


def _link_to_nothing(path: str, outside: str) -> None:
    os.symlink(os.path.join(outside, "nothing"), path)


def _link_to_itself(path: str, outside: str) -> None:
    os.symlink(path, path)


def _hard_link_out(path: str, outside: str) -> None:
    os.link(os.path.join(outside, "secret"), path)


def _pipe(path: str, outside: str) -> None:
    os.mkfifo(path)


def _folder(path: str, outside: str) -> None:
    os.makedirs(os.path.join(path, "with", "content"))


def _device(name: str) -> Callable[[str, str], None]:
    def make(path: str, outside: str) -> None:
        os.mknod(path, 0o600 | 0o020000, os.stat(f"/dev/{name}").st_rdev)

    make.__name__ = name
    return make


def _socket(path: str, outside: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        where = os.open(os.path.dirname(path), os.O_RDONLY)
        listener.bind(f"/proc/self/fd/{where}/{os.path.basename(path)}")  # a socket's path may not be long
        os.close(where)


def kinds() -> list[Callable[[str, str], None]]:
    plain = [
        *(_link_out, _link_to_folder_outside, _link_to_nothing, _link_to_itself),
        *(_hard_link_out, _pipe, _folder, _socket),
    ]
    return plain + ([_device("null"), _device("zero")] if os.geteuid() == 0 else [])


def run(options: Options) -> Outcome:
    """Every kind of obstacle in every place, then every umask."""
    outcome = Outcome(name="obstacles", figures={"cases": 0, "typed errors": 0})
    cases = [(place, kind) for place in PLACES for kind in kinds()]
    progress = Progress("obstacles", len(cases) + len(UMASKS), options)
    for done, (place, kind) in enumerate(cases):
        if not progress.goes_on(done, outcome):
            break
        with tempfile.TemporaryDirectory(dir=options.folder, prefix="soak-") as where:
            problems = _try(where, place.format(pid=os.getpid()), kind, outcome)
        outcome.fail(*(f"{kind.__name__.strip('_')} at {place}: {each}" for each in problems))
        outcome.count("cases")
    for umask in UMASKS:
        with tempfile.TemporaryDirectory(dir=options.folder, prefix="soak-") as where:
            outcome.fail(*(f"umask {umask:03o}: {each}" for each in _under_umask(os.path.join(where, "home"), umask)))
        outcome.count("cases")
    progress.goes_on(len(cases) + len(UMASKS), outcome)
    return outcome


def _try(where: str, place: str, kind: Callable[[str, str], None], outcome: Outcome) -> list[str]:
    home, outside = os.path.join(where, "home"), os.path.join(where, "outside")
    os.mkdir(outside)
    with open(os.path.join(outside, "secret"), "wb") as file:
        file.write(_SECRET)
    before = _look(outside)
    MemoryStore.open(home).add("memory", "ours")
    path = os.path.join(home, place)
    _clear(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    kind(path, outside)
    problems: list[str] = []
    for name, call in _CALLS.items():
        signal.signal(signal.SIGALRM, _too_long)
        signal.alarm(_PATIENCE)
        try:
            said = call(home)
        except HermesError as error:
            outcome.count("typed errors")
            said = str(error)
        except Exception as error:  # noqa: BLE001 - any other exception is the finding
            problems.append(f"{name}: uncaught {type(error).__name__}: {error}")
            said = ""
        finally:
            signal.alarm(0)
        if "PRIVATE KEY" in said and kind is not _hard_link_out:
            problems.append(f"{name}: the file outside was read")
    if _look(outside) != before:
        problems.append(f"what is outside changed from {before} to {_look(outside)}")
    return problems


_CALLS: dict[str, Callable[[str], str]] = {
    "open": lambda home: MemoryStore.open(home).snapshot("memory"),
    "entries": lambda home: str(MemoryStore.open(home).entries("memory")),
    "add": lambda home: str(MemoryStore.open(home).add("memory", "more").entries),
    "history": lambda home: str(MemoryStore.open(home).history("memory")),
    "stage": lambda home: str(
        Approvals(find_home(home)).stage("memory", [{"action": "add", "content": "staged"}], Cause())
    ),
    "pending": lambda home: str(Approvals(find_home(home)).pending()),
    "reset": lambda home: str(MemoryStore.open(home).reset("memory").entries),
}


def _under_umask(home: str, umask: int) -> list[str]:
    before = os.umask(umask)
    try:
        store = MemoryStore.open(home)
        store.add("memory", "ours")
        store.add("user", "theirs")
        with open(store.path("memory"), "ab") as file:
            file.write(b"\xff\n")
        store.adopt("memory")
        _CALLS["stage"](home)
        problems = [each for each in leftovers_and_modes(home) if not each.endswith("was left behind")]
    except HermesError as error:
        problems = [str(error)]
    finally:
        os.umask(before)
    return problems


def _look(folder: str) -> dict[str, tuple[bytes, int]]:
    found = {}
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            with open(path, "rb") as file:
                found[name] = (file.read(), os.stat(path).st_mode)
        else:
            found[name] = (b"", 0)
    return found


def _clear(path: str) -> None:
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def _too_long(*_: object) -> None:
    raise TimeoutError(f"still waiting after {_PATIENCE} s")
