"""A lock between processes that waits for a bounded time and can say who holds it.

The lock is an exclusive `flock` on a file beside the protected one. hermes-agent locks the same file the same way, so
the two programs exclude each other. Where the file system has no locks, work goes on without: replacing files by
renaming still keeps readers safe.
"""

from __future__ import annotations

import errno
import fcntl
import time

from hermes.storage.files import explain
from hermes.vocabulary.errors import LockTimeout, StorageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

    from hermes.storage.files import Folder, OpenFile

NO_LOCKS_HERE = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.02
_LONGEST_COMMAND = 60


class FileLock:
    """Exclusive use of something: `with FileLock(folder, "MEMORY.md.lock", timeout=5)`."""

    __slots__ = ("_file", "_folder", "_idle", "_keeps", "_name", "_timeout")

    def __init__(self, folder: Folder, name: str, *, timeout: float, keeps_open: bool = False) -> None:
        """With `keeps_open` its file stays open, unlocked, for the next time, until `close`."""
        self._folder = folder
        self._name = name
        self._timeout = timeout
        self._keeps = keeps_open
        self._file: OpenFile | None = None
        self._idle: OpenFile | None = None

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
        if file is None:
            return
        if self._keeps and _unlocked(file):
            self._idle = file
        else:
            file.close()  # closing releases the lock, also when the process dies

    def close(self) -> None:
        for file in (self._file, self._idle):
            if file is not None:
                file.close()
        self._file = self._idle = None

    def is_still_open(self) -> bool:
        """Whether what was kept open is; True when that is nothing."""
        file = self._file or self._idle
        return file is None or file.is_still_open()

    def try_to_take(self) -> bool:
        kept, self._idle = self._idle, None
        file = kept or self._folder.open_for_append(self._name)
        try:
            fcntl.flock(file.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        except OSError as error:
            if error.errno not in NO_LOCKS_HERE:
                file.close()
                raise explain("lock", file.path, error) from error
        if not self._still_in_place(file, kept=kept is not None):
            file.close()  # somebody removed the lock file meanwhile; the next one to open it would not see our lock
            return False
        self._file = file
        return True

    def _still_in_place(self, file: OpenFile, *, kept: bool) -> bool:
        try:
            status = self._folder.status(self._name)
        except StorageError:
            file.close()  # or this process would hold the lock until it ends
            raise
        now, then = status, file.status
        if now is None or now.st_ino != then.st_ino:
            return False
        return not kept or (now.st_mode, now.st_nlink) == (then.st_mode, then.st_nlink)

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


def _unlocked(file: OpenFile) -> bool:
    try:
        fcntl.flock(file.descriptor, fcntl.LOCK_UN)
    except OSError:
        return False
    return True


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
