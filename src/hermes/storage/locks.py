"""Locks between processes that wait for a bounded time, and a queue in front of the database's write lock.

The lock is an exclusive `flock` on a file beside the protected one. hermes-agent locks the same file the same way, so
the two programs exclude each other. Where the file system has no locks, work goes on without: replacing files by
renaming still keeps readers safe.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from typing import TYPE_CHECKING

from hermes.base.errors import LockTimeout, StorageError
from hermes.storage.files import PRIVATE_FILE, explain

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from hermes.storage.files import Folder, OpenFile

NO_LOCKS_HERE = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.02
_LONGEST_COMMAND = 60


class FileLock:
    """Exclusive use of something: `with FileLock(folder, "MEMORY.md.lock", timeout=5)`."""

    __slots__ = ("_file", "_folder", "_name", "_timeout")

    def __init__(self, folder: Folder, name: str, *, timeout: float) -> None:
        self._folder = folder
        self._name = name
        self._timeout = timeout
        self._file: OpenFile | None = None

    def __enter__(self) -> Self:
        if self._file is None and not self.try_to_take():
            self._wait()
        return self

    def _wait(self) -> None:
        deadline = time.monotonic() + self._timeout
        pause = _FIRST_PAUSE
        while not self.try_to_take():
            if time.monotonic() >= deadline:
                raise LockTimeout(
                    f"{self._folder.join(self._name)} has been held by {self._holder()} for more than "
                    f"{self._timeout:g} s; wait for it to finish or end it, then try again"
                )
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def __exit__(self, *_: object) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):  # a process forked meanwhile has the file open, too, so unlock it first
                fcntl.flock(file.descriptor, fcntl.LOCK_UN)
            file.close()

    def try_to_take(self) -> bool:
        file = self._folder.open_for_append(self._name)
        try:
            fcntl.flock(file.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        except OSError as error:
            if error.errno not in NO_LOCKS_HERE:
                file.close()
                raise explain("lock", file.path, error) from error
        if not self._still_in_place(file):
            file.close()  # somebody removed the lock file meanwhile; the next one to open it would not see our lock
            return False
        self._file = file
        return True

    def _still_in_place(self, file: OpenFile) -> bool:
        try:
            status = self._folder.status(self._name)
        except StorageError:
            file.close()  # or this process would hold the lock until it ends
            raise
        return status is not None and status.st_ino == file.status.st_ino

    def _holder(self) -> str:
        status = self._folder.status(self._name)
        process = _process_holding(status.st_ino) if status else None
        if process is None:
            return "another process"
        return f"process {process} ({_command_of(process)})"


def is_held(folder: Folder, name: str) -> bool:
    """Whether some process holds a lock right now; looking does not make the file."""
    if folder.status(name) is None:
        return False
    lock = FileLock(folder, name, timeout=0)
    free = lock.try_to_take()
    lock.__exit__()
    return not free


def _process_holding(inode: int) -> int | None:
    """The process with an flock on the inode, where the system tells (Linux)."""
    try:
        with open("/proc/locks", encoding="ascii") as locks:
            for line in locks:
                fields = line.split()
                if fields[1] == "FLOCK" and fields[5].endswith(f":{inode}") and int(fields[4]) > 0:
                    return int(fields[4])
    except (OSError, ValueError, IndexError):
        return None
    return None


def _command_of(process: int) -> str:
    try:
        with open(f"/proc/{process}/cmdline", "rb") as file:
            words = file.read(400).split(b"\0")
    except OSError:
        return "unknown command"
    command = b" ".join(word for word in words if word).decode("utf-8", "replace")
    return command if len(command) <= _LONGEST_COMMAND else f"{command[:_LONGEST_COMMAND]}…"


# A queue in front of the database's write lock, so that many writing processes wait briefly and in turn.
#
# SQLite's own waiting sleeps for growing times while others slip in between: with eight writers one of them waited
# half a second. Here whoever has to wait draws a number and looks for the lock when that number is called. A lock
# file excludes, the numbers only order: when a process with a number dies, the next ones pass it by.

_LOOK_AGAIN = 0.0002  # seconds, times the number of those in front
_SELDOM = 0.005
_PATIENCE = 0.005  # who waits no longer takes the lock when it is free: making others wait for their turn takes time
_NOBODY_COMES = 0.02  # so long after the last call, whoever has the number that was called is taken to be gone
_MOST_IN_LINE = 50  # more numbers than that are left from the dead, or were never ours: a line is not waited for longer
_LARGEST = (1 << 63) - 1


class WriteQueue:
    """`with write_queue:` holds the right to write, first come, first served."""

    def __init__(self, path: str, *, wait_seconds: float) -> None:
        self._path = path
        self.wait_seconds = wait_seconds
        self._gate = self._queue = -1  # opened by the first writer: where nothing can be written, one can still read
        self._number: int | None = None

    def __enter__(self) -> None:
        if self._queue < 0:
            self._gate = _open_private(self._path) if self._gate < 0 else self._gate
            self._queue = _open_private(self._path + ".queue")
        if not (self._nobody_in_line() and _try(self._gate)):
            start = time.monotonic()
            if not self._slip_in(start + min(_PATIENCE, self.wait_seconds)):
                self._stand_in_line(start + self.wait_seconds)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._number is not None:
                self._call(self._number + 1)
        finally:
            self._number = None
            _release(self._gate)

    def close(self) -> None:
        """May be called again: the numbers of closed descriptors soon belong to other files."""
        for descriptor in (self._gate, self._queue):
            if descriptor >= 0:
                with contextlib.suppress(OSError):  # Linux has released it all the same
                    os.close(descriptor)
        self._gate = self._queue = -1

    def _slip_in(self, until: float) -> bool:
        pause = _LOOK_AGAIN
        while time.monotonic() < until and self._nobody_in_line():
            time.sleep(pause)
            if _try(self._gate):
                return True
            pause *= 1.5
        return False

    def _nobody_in_line(self) -> bool:
        drawn, called = self._numbers()
        return drawn <= called

    def _stand_in_line(self, deadline: float) -> None:
        mine = self._number = self._draw(deadline)
        last_called, moved = -1, 0.0
        while True:
            called, now = self._numbers()[1], time.monotonic()
            if called != last_called:
                last_called, moved = called, now
            in_front = min(max(0, mine - called), _MOST_IN_LINE)
            if now - moved >= _NOBODY_COMES * in_front and _try(self._gate):
                self._call(mine)
                return
            if now > deadline:
                self._number = None
                self._call(mine + 1 if called == mine else called)
                raise self._too_long()
            time.sleep(min(_SELDOM, _LOOK_AGAIN * max(1, in_front)))

    def _draw(self, deadline: float) -> int:
        while not _try(self._queue):
            if time.monotonic() > deadline:
                raise self._too_long()
            time.sleep(_LOOK_AGAIN)
        try:
            drawn = self._numbers()[0]
            self._write((drawn + 1) & _LARGEST, at=0)
        finally:
            _release(self._queue)
        return drawn

    def _call(self, number: int) -> None:
        if number > self._numbers()[1]:
            self._write(number & _LARGEST, at=8)

    def _write(self, number: int, *, at: int) -> None:
        try:
            os.pwrite(self._queue, number.to_bytes(8, "little"), at)
        except OSError as error:
            raise explain("write to", f"{self._path}.queue", error) from error

    def _numbers(self) -> tuple[int, int]:
        """The next number to be drawn, and the one that is called: equal when nobody stands in line."""
        raw = os.pread(self._queue, 16, 0).ljust(16, b"\0")
        return int.from_bytes(raw[:8], "little"), int.from_bytes(raw[8:], "little")

    def _too_long(self) -> LockTimeout:
        return LockTimeout(
            f"{self._path} is held by another program for more than {self.wait_seconds:g} s; "
            "try again when it has finished writing"
        )


def _try(descriptor: int) -> bool:
    """False when another holds it. Where a file system has no locks, SQLite's own waiting must do."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS_HERE:
            raise StorageError(f"the queue of writers does not work: {error.strerror}; check the folder") from error
    return True


def _release(descriptor: int) -> None:
    with contextlib.suppress(OSError):  # what was written is written; the lock goes with the descriptor at the latest
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _open_private(path: str) -> int:
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        if stat.S_IMODE(os.fstat(descriptor).st_mode) != PRIVATE_FILE:  # an odd umask took our own rights away
            os.fchmod(descriptor, PRIVATE_FILE)
    except OSError as error:
        raise explain("open", path, error) from error
    return descriptor
