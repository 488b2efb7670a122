"""What trials against real services share: what they are given, and a scratch environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@dataclass(frozen=True, kw_only=True)
class Trial:
    name: str
    url: str
    key: str
    scratch: str
    home: str
    patience: float = 0.0  # seconds that a step may take, where it is not what the service needs
    pause: float = 15.0  # seconds after which the service has made memories of all it was told
    only: str = ""  # of several rows, those whose name has this word


def say(text: str) -> None:
    print(text, flush=True)


def environment_with(scratch: str, *packages: str) -> str:
    """A Python that has these packages and this project, in the scratch directory; what is there is used again."""
    venv = os.path.join(scratch, "venv")
    python = os.path.join(venv, "bin", "python")
    mark = os.path.join(venv, "installed.txt")  # written last: an installation that was broken off is made anew
    began = time.monotonic()
    if not os.path.exists(mark):
        say(f"installing {', '.join(packages)}")
        shutil.rmtree(venv, ignore_errors=True)
        if shutil.which("uv"):
            _run("uv", "venv", "-q", "--python", sys.executable, venv)
            _run("uv", "pip", "install", "-q", "--python", python, *packages)
        else:
            _run(sys.executable, "-m", "venv", venv)
            _run(python, "-m", "pip", "install", "-q", *packages)
        with open(mark, "w", encoding="utf-8") as file:
            file.writelines(f"{package}\n" for package in packages)
        say(f"installed in {time.monotonic() - began:.0f} s")
    # Each time, for it may be another checkout; at the end of the path, for what the service needs goes first.
    lines = [
        os.path.join(ROOT, "src"),
        os.path.join(ROOT, "tests"),
        os.path.join(ROOT, "tests", "support"),
        sysconfig.get_path("purelib"),
    ]
    with open(os.path.join(packages_of(python), "zz-hermes-live.pth"), "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    return python


def packages_of(python: str) -> str:
    """Where the packages of that Python lie."""
    return _output(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")


def inside(python: str, module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> int:
    """Runs a module of ours with another Python."""
    return subprocess.run(
        [python, "-m", module, *arguments], env={**os.environ, **(environment or {})}, check=False
    ).returncode


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
