"""Locks between processes: first come, first served, with a limit on the waiting time.

The lock is an exclusive `flock` on a file next to the protected one. hermes-agent locks the same file in the same way,
so the two programs exclude each other. If the file system has no locks, Hermes works without them: replacing files by
renaming still keeps readers safe.

Plain waiting is unfair: a process that releases a lock asks for it again before the others wake up, and one of eight
writers waited for seconds. So a process that has to wait draws a number, and tries to take the lock when that number is
called. Only the lock file excludes others; the numbers order them. If a process with a number dies, it is skipped.
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
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from hermes.storage.files import Folder, OpenFile

NO_LOCKS_HERE = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})
_LONGEST_COMMAND = 60
_LOOK_AGAIN = 0.0002  # seconds between two looks, times the number of processes in front
_SELDOM = 0.005  # seconds between two looks at most
_PATIENCE = 0.005  # seconds before drawing a number: short waits are faster without turns
_NOBODY_COMES = 0.02  # seconds after a call, after which the process with that number counts as dead
_MOST_IN_LINE = 50  # a longer queue is left over from dead processes, or is not ours, and counts as this long
_LARGEST = (1 << 63) - 1


class Line:
    """The queue for a lock, ordered by drawn numbers; `path` is relative to the open `folder`, if given."""

    __slots__ = ("_file", "_folder", "_number", "_path")

    def __init__(self, path: str, folder: int | None = None) -> None:
        self._path, self._folder = path, folder
        self._file = -1  # created by the first process that has to wait
        self._number: int | None = None

    def take(self, take: Callable[[], bool], seconds: float) -> bool:
        """Calls `take` when it is this process's turn; False if it does not get the lock within `seconds`."""
        if seconds <= 0:
            return take()
        if self._nobody_waits() and take():
            return True
        start = time.monotonic()
        return self._slip_in(take, start + min(_PATIENCE, seconds)) or self._stand_in_line(take, start + seconds)

    def leave(self) -> None:
        """Calls the next number; the caller then releases the lock."""
        number, self._number = self._number, None
        if number is not None:
            self._call(number + 1)

    def open(self, *, make: bool = True) -> None:
        """Opens the file of the queue; without `make`, only if somebody has created it."""
        if self._file < 0:
            self._file = _open_private(self._path, self._folder, make=make)

    def close(self) -> None:
        """Closes the file; safe to call twice, although the descriptor's number may belong to another file by then."""
        self._file = _close(self._file)

    def _slip_in(self, take: Callable[[], bool], until: float) -> bool:
        pause = _LOOK_AGAIN
        while time.monotonic() < until and self._nobody_waits():
            time.sleep(pause)
            if take():
                return True
            pause *= 1.5
        return False

    def _nobody_waits(self) -> bool:
        self.open(make=False)
        drawn, called = self._numbers() if self._file >= 0 else (0, 0)
        return drawn <= called

    def _stand_in_line(self, take: Callable[[], bool], deadline: float) -> bool:
        mine = self._draw(deadline)
        if mine is None:
            return False
        last_called, moved = -1, 0.0
        while True:
            called, now = self._numbers()[1], time.monotonic()
            if called != last_called:
                last_called, moved = called, now
            in_front = min(max(0, mine - called), _MOST_IN_LINE)
            if now - moved >= _NOBODY_COMES * in_front and take():
                self._number = mine
                self._call(mine)
                return True
            if now > deadline:
                self._call(mine + 1 if called == mine else called)
                return False
            time.sleep(min(_SELDOM, _LOOK_AGAIN * max(1, in_front)))

    def _draw(self, deadline: float) -> int | None:
        self.open()
        while not _try(self._file):
            if time.monotonic() > deadline:
                return None
            time.sleep(_LOOK_AGAIN)
        try:
            drawn = self._numbers()[0]
            self._write((drawn + 1) & _LARGEST, at=0)
        finally:
            _release(self._file)
        return drawn

    def _call(self, number: int) -> None:
        with contextlib.suppress(StorageError):  # a process that is not called takes its turn a moment later
            if number > self._numbers()[1]:
                self._write(number & _LARGEST, at=8)

    def _write(self, number: int, *, at: int) -> None:
        try:
            os.pwrite(self._file, number.to_bytes(8, "little"), at)
        except OSError as error:
            raise explain("write to", self._path, error) from error

    def _numbers(self) -> tuple[int, int]:
        """The next number to draw, and the number being called; they are equal if nobody waits."""
        try:
            raw = os.pread(self._file, 16, 0).ljust(16, b"\0")
        except OSError as error:
            raise explain("read", self._path, error) from error
        return int.from_bytes(raw[:8], "little"), int.from_bytes(raw[8:], "little")


class FileLock:
    """An exclusive lock between processes: `with FileLock(folder, "MEMORY.md.lock", timeout=5)`."""

    __slots__ = ("_file", "_folder", "_line", "_name", "_timeout")

    def __init__(self, folder: Folder, name: str, *, timeout: float) -> None:
        self._folder = folder
        self._name = name
        self._timeout = timeout
        self._file: OpenFile | None = None
        self._line: Line | None = None

    def __enter__(self) -> Self:
        if self._file is None:
            self._line = Line(f"{self._name}.queue", self._folder.descriptor)
            try:
                self._line.take(self.try_to_take, self._timeout)
            finally:
                if self._file is None:
                    self.__exit__()
            if self._file is None:
                raise LockTimeout(
                    f"{self._folder.join(self._name)} has been held by {self._holder()} for more than "
                    f"{self._timeout:g} s; wait for it to finish or end it, then try again"
                )
        return self

    def __exit__(self, *_: object) -> None:
        file, self._file = self._file, None
        line, self._line = self._line, None
        if line is not None:
            line.leave()
            line.close()
        if file is not None:
            _release(file.descriptor)  # closing is not enough if a process forked since has the file open, too
            file.close()

    def try_to_take(self) -> bool:
        """Takes the lock if nobody has it, without waiting; returns whether it did."""
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
            file.close()  # the lock file was removed meanwhile, so others would not see our lock
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
    """Whether a process holds a lock right now; asking does not create the file."""
    if folder.status(name) is None:
        return False
    lock = FileLock(folder, name, timeout=0)
    free = lock.try_to_take()
    lock.__exit__()
    return not free


def _process_holding(inode: int) -> int | None:
    """The process with an flock on the inode; None if the system does not tell (only Linux does)."""
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


class WriteQueue:
    """The right to write to a database, taken by `with write_queue:`; keeps its files open between writes."""

    def __init__(self, path: str, *, wait_seconds: float) -> None:
        self._path = path
        self.wait_seconds = wait_seconds
        self._gate = -1  # opened by the first write, so that a read-only disk can still be read
        self._line = Line(f"{path}.queue")

    def __enter__(self) -> None:
        if self._gate < 0:
            self._gate = _open_private(self._path)
            self._line.open()
        if not self._line.take(lambda: _try(self._gate), self.wait_seconds):
            raise LockTimeout(
                f"{self._path} is held by another program for more than {self.wait_seconds:g} s; "
                "try again when it has finished writing"
            )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._line.leave()
        _release(self._gate)

    def close(self) -> None:
        """Closes the files; safe to call twice."""
        self._gate = _close(self._gate)
        self._line.close()


def _try(descriptor: int) -> bool:
    """Takes a lock; False if another process has it. Without locks, SQLite's own waiting must suffice."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS_HERE:
            raise StorageError(f"the queue of writers does not work: {error.strerror}; check the folder") from error
    return True


def _release(descriptor: int) -> None:
    with contextlib.suppress(OSError):  # the data is written; at the latest, closing the file releases the lock
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _open_private(path: str, folder: int | None = None, *, make: bool = True) -> int:
    """Opens a private file; -1 if there is none and `make` is not set."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT if make else 0)
    try:
        descriptor = os.open(path, flags, PRIVATE_FILE, dir_fd=folder)
        if stat.S_IMODE(os.fstat(descriptor).st_mode) != PRIVATE_FILE:  # an odd umask took our own rights away
            os.fchmod(descriptor, PRIVATE_FILE)
    except OSError as error:
        if error.errno == errno.ENOENT and not make:
            return -1
        raise explain("open", path, error) from error
    return descriptor


def _close(descriptor: int) -> int:
    if descriptor >= 0:
        with contextlib.suppress(OSError):  # Linux has released it all the same
            os.close(descriptor)
    return -1
