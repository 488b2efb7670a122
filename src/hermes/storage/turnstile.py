"""A queue in front of the database's write lock, so that many writing processes wait briefly and fairly.

SQLite's own waiting sleeps for growing times while others slip in between: with eight writers one of them waited
half a second. Here a waiter looks often, and a process that comes straight back lets the waiters go first.
"""

from __future__ import annotations

import fcntl
import os
import time
from typing import TYPE_CHECKING

from hermes.vocabulary.errors import LockTimeout, StorageError

if TYPE_CHECKING:
    from types import TracebackType

_LOOK_AGAIN = 0.0003
_GIVE_WAY = 0.001


class Turnstile:
    """`with turnstile:` holds the right to write; two byte ranges of one lock file tell holders from waiters."""

    def __init__(self, path: str, *, wait_seconds: float) -> None:
        self._path = path
        self._wait = wait_seconds
        self._gate = _open_private(path)
        self._queue = _open_private(path + ".queue")
        self._open = [self._gate, self._queue]
        self._released = 0.0

    def __enter__(self) -> None:
        if not self._open:
            raise StorageError(f"{self._path.removesuffix('.lock')} was closed; open it again")
        if time.monotonic() - self._released < _GIVE_WAY and self._somebody_waits():
            time.sleep(_GIVE_WAY)
        if not _try(self._gate, fcntl.LOCK_EX):
            self._wait_for_gate()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        fcntl.flock(self._gate, fcntl.LOCK_UN)
        self._released = time.monotonic()

    def close(self) -> None:
        """May be called again: the numbers of closed descriptors soon belong to other files."""
        while self._open:
            os.close(self._open.pop())

    def _wait_for_gate(self) -> None:
        deadline = time.monotonic() + self._wait
        _try(self._queue, fcntl.LOCK_SH)
        try:
            while not _try(self._gate, fcntl.LOCK_EX):
                if time.monotonic() > deadline:
                    raise LockTimeout(
                        f"{self._path} is held by another program for more than {self._wait:g} s; "
                        "try again when it has finished writing"
                    )
                time.sleep(_LOOK_AGAIN)
        finally:
            fcntl.flock(self._queue, fcntl.LOCK_UN)

    def _somebody_waits(self) -> bool:
        if _try(self._queue, fcntl.LOCK_EX):
            fcntl.flock(self._queue, fcntl.LOCK_UN)
            return False
        return True


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _open_private(path: str) -> int:
    try:
        return os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageError(f"{path} cannot be opened: {error.strerror}; it must be a plain file of ours") from error
