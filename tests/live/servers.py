"""Starts programs on loopback for a trial and stops them with all they started."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING

from live.kit import say

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(
    command: list[str], ready: str, log: str, *, environment: Mapping[str, str] | None = None, patience: float = 180
) -> Iterator[None]:
    """A program in a process group of its own, as soon as `ready` answers."""
    began = time.monotonic()
    with open(log, "wb") as file:
        process = subprocess.Popen(
            command,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
    try:
        while not _answers(ready):
            if process.poll() is not None or time.monotonic() - began > patience:
                say(_end_of(log))
                raise SystemExit(f"{command[0]} did not start")
            time.sleep(0.5)
        say(f"started in {time.monotonic() - began:.0f} s")
        yield
    finally:
        _stop(process)


@contextmanager
def postgres(binary: str) -> Iterator[str]:
    """A database with the extensions that services want. Postgres refuses to run as root, so root borrows a user."""
    folder = tempfile.mkdtemp(prefix="hermes-live-pg-")
    program = shutil.copy(binary, os.path.join(folder, "pg0"))
    port = free_port()
    as_user: list[str] = []
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        for path in (folder, program):
            os.chown(path, nobody.pw_uid, nobody.pw_gid)
        as_user = ["runuser", "-u", "nobody", "--", "env", f"HOME={folder}"]
    own = {**os.environ, "HOME": folder}
    command = [*as_user, program]
    data = os.path.join(folder, "data")
    loopback = ["-c", "listen_addresses=127.0.0.1"]
    try:
        start = ["start", "--name", "live", "--port", str(port), "--data-dir", data, *loopback]
        subprocess.run([*command, *start], env=own, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        yield f"postgresql://postgres:postgres@127.0.0.1:{port}/postgres"
    finally:
        subprocess.run(
            [*command, "stop", "--name", "live"], env=own, cwd=folder, check=False, stdout=subprocess.DEVNULL
        )
        shutil.rmtree(folder, ignore_errors=True)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except urllib.error.HTTPError as error:
        return error.code < 500  # it is there, and refuses
    except OSError:
        return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
            process.wait(15)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
        return


def _end_of(log: str) -> str:
    with open(log, encoding="utf-8", errors="replace") as file:
        return file.read()[-3000:]
