"""Fails every system call of every operation, one at a time: builds the shim and runs `fault_loop` under it."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

from soak.common import Outcome

if TYPE_CHECKING:
    from soak.common import Options

FAIL, SHORT_WRITE, KILL = 0, 1, 2
_HERE = os.path.dirname(os.path.abspath(__file__))
_FOR_EVER = 1 << 40


def run(
    options: Options, *, part: str = "all", operations: str = "", errors: str = "", stride: int = 1
) -> list[Outcome]:
    """`part`: faults, kills, recovery or all; `operations` and `errors`: only these; `stride`: every n-th call only."""
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="soak-") as place:
        environment = os.environ | {
            "LD_PRELOAD": build_shim(place),
            "PYTHONPATH": os.pathsep.join((os.path.dirname(_HERE), os.environ.get("PYTHONPATH", ""))),
        }
        finished = subprocess.run(
            [
                *(sys.executable, "-m", "soak.fault_loop", "--folder", place, "--seed", str(options.seed)),
                *("--part", part, "--operations", operations, "--errors", errors, "--stride", str(stride)),
                *("--seconds", str(options.seconds)),
                *(["--quiet"] if options.quiet else []),
            ],
            env=environment,
            stdout=subprocess.PIPE,
            check=True,
        )
    return [Outcome(**each) for each in json.loads(finished.stdout)]


def build_shim(folder: str) -> str:
    """The path of the library to preload, built in this folder."""
    shim = os.path.join(folder, "faults.so")
    source = os.path.join(_HERE, "faults.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", shim, source, "-ldl"], check=True)
    return shim


class Shim:
    """The armed side, inside the process that has the shim loaded."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self._library.soak_arm.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_long, ctypes.c_int, ctypes.c_int]
        self._library.soak_where.restype = ctypes.c_char_p
        self._library.soak_disarm.restype = self._library.soak_calls.restype = ctypes.c_long

    def arm(self, folder: str, k: int, *, count: int = _FOR_EVER, error: int = 0, how: int = FAIL) -> None:
        """From the k-th call below the folder on, `count` calls fail with `error`."""
        self._library.soak_arm(os.fsencode(folder), k, count, error, how)

    def watch(self, folder: str) -> None:
        """What is opened below the folder from now on is known when the shim is armed later."""
        self._library.soak_watch(os.fsencode(folder))

    def disarm(self) -> bool:
        """Back to normal; True when anything was made to fail."""
        return bool(self._library.soak_disarm())

    def calls(self) -> int:
        return int(self._library.soak_calls())

    def where(self) -> str:
        return os.fsdecode(self._library.soak_where())
