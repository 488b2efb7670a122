"""A small file that people, shells and other programs write too, without asking for our lock.

Our own writers exclude each other with a lock; everybody else can append or save at any moment. So a replacement looks
once more before it renames, and the replaced file keeps a second, hidden name. What others appended to it meanwhile is
found there (`late_appends`), and after a power cut it is the proof of what the file was before.

    .MEMORY.md.<size>.<check>.<inode>.<label>.old     a replaced version; <label> is the caller's
    .MEMORY.md.<size>.<check>.<inode>.<label>.late    the same, while somebody may still be writing to it
    .MEMORY.md.<pid>.tmp                              a version that is being written
"""

from __future__ import annotations

import fcntl
import os
import time
import zlib

from hermes.vocabulary.errors import StorageError
from hermes.vocabulary.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from hermes.storage.files import Folder, OpenFile

_PATIENCE_WITH_WRITERS = 0.05
_PAUSE = 0.001


class ChangedMeanwhile(Exception):
    """Somebody saved the file after it was read; read again and start over."""


@value
class Fingerprint:
    """Enough to recognise a state of the file again."""

    size: int
    check: int
    inode: int

    @classmethod
    def of(cls, data: bytes, inode: int) -> Fingerprint:
        return cls(size=len(data), check=zlib.crc32(data), inode=inode)

    def same_bytes(self, other: Fingerprint) -> bool:
        return self.size == other.size and self.check == other.check

    def begins(self, data: bytes) -> bool:
        """True when `data` starts with the bytes this fingerprint was taken of."""
        return len(data) >= self.size and zlib.crc32(data[: self.size]) == self.check


class Seen:
    """What was read, with the file kept open so that late appends to it can still be noticed."""

    __slots__ = ("data", "file", "fingerprint")

    def __init__(self, data: bytes, file: OpenFile | None) -> None:
        self.data = data
        self.file = file
        self.fingerprint = Fingerprint.of(data, file.status.st_ino if file else 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.file is not None:
            self.file.close()


@value
class OldVersion:
    """A replaced version: its hidden name, what it was then, what it holds now, and when it was written."""

    name: str
    then: Fingerprint
    label: str
    data: bytes
    written_at: float

    def added(self) -> bytes | None:
        """What somebody appended to it after it was replaced; None when they overwrote it instead."""
        return self.data[self.then.size :] if self.then.begins(self.data) else None


class SharedFile:
    def __init__(self, folder: Folder, name: str, *, at_most: int) -> None:
        self.folder = folder
        self.name = name
        self._prefix = f".{name}."
        self._at_most = at_most

    def see(self) -> Seen:
        file = self.folder.open_file(self.name)
        try:
            return Seen(file.read(at_most=self._at_most) if file else b"", file)
        except StorageError:
            if file is not None:
                file.close()
            raise

    def replace(self, seen: Seen, data: bytes, label: str, commit: Callable[[Fingerprint, bool], None]) -> None:
        """Puts `data` in place of what was seen; durable when it returns. The caller holds the lock.

        `commit` is called when all but the renaming is done, with the fingerprint of the new file and whether the old
        version keeps a name that proves it after a power cut; if it raises, nothing has changed. `ChangedMeanwhile`
        says that somebody else saved first.
        """
        temporary = f"{self._prefix}{os.getpid()}.tmp"
        then = seen.fingerprint
        old = f"{self._prefix}{then.size}.{then.check:08x}.{then.inode}.{label}.old"
        inode = self.folder.write_new(temporary, data)
        try:
            self._refuse_if_changed(seen)
            kept = seen.file is not None and self.folder.link(self.name, old)
            commit(Fingerprint.of(data, inode), kept)
            self._refuse_if_changed(seen)
            self.folder.rename(temporary, self.name)
        except (StorageError, ChangedMeanwhile):
            self.folder.discard(temporary)
            self.folder.discard(old)
            raise
        self._sync_or_roll_back(seen, old)
        if kept and seen.file is not None and not _nobody_added(seen.file, then.size):
            self._mark_late(old)

    def leftovers(self) -> tuple[list[str], list[str], list[str]]:
        """Hidden names: replaced versions, versions somebody may still write to, and unfinished ones."""
        old: list[str] = []
        late: list[str] = []
        unfinished: list[str] = []
        kinds = {"old": old, "late": late, "tmp": unfinished}
        for name in self.folder.names():
            if name.startswith(self._prefix):
                kinds.get(name.rpartition(".")[2], []).append(name)
        return old, late, unfinished

    def old_version(self, name: str) -> OldVersion | None:
        """A replaced version; None when nobody can have changed it because it is still the file, or it is gone."""
        current = self.folder.status(self.name)
        file = self.folder.open_file(name)
        if file is None:
            return None
        with file:
            if current is not None and current.st_ino == file.status.st_ino:
                return None
            data = file.read(at_most=self._at_most)
        try:
            size, check, inode, label = name[len(self._prefix) :].rpartition(".")[0].split(".", 3)
            then = Fingerprint(size=int(size), check=int(check, 16), inode=int(inode))
        except ValueError:
            then, label = Fingerprint.of(data, file.status.st_ino), ""
        return OldVersion(name=name, then=then, label=label, data=data, written_at=file.status.st_mtime)

    def still_written(self, name: str) -> bool:
        file = self.folder.open_file(name)
        if file is None:
            return False
        with file:
            return _nobody_writes(file) is False

    def _refuse_if_changed(self, seen: Seen) -> None:
        status = self.folder.status(self.name)
        if seen.file is None:
            unchanged = status is None
        else:
            unchanged = (
                status is not None
                and status.st_ino == seen.file.status.st_ino
                and status.st_size == len(seen.data)
                and status.st_mtime_ns == seen.file.status.st_mtime_ns
            )
        if not unchanged:
            raise ChangedMeanwhile

    def _mark_late(self, old: str) -> None:
        try:
            self.folder.rename(old, f"{old[: -len('old')]}late")
        except StorageError:
            return  # our write is safe; what was added is still found when the old version is let go

    def _sync_or_roll_back(self, seen: Seen, old: str) -> None:
        try:
            self.folder.sync()
        except StorageError as error:
            try:
                if seen.file is not None:
                    self.folder.rename(old, self.name)
                else:
                    self.folder.remove(self.name)
            except StorageError:
                raise StorageError(
                    f"{error}; the new text is in place but may not survive a power cut, and could not be taken back"
                ) from error
            raise


def _nobody_added(file: OpenFile, size: int) -> bool:
    """True when it is certain that the old file holds nothing more and never will."""
    deadline = time.monotonic() + _PATIENCE_WITH_WRITERS
    while (alone := _nobody_writes(file)) is False and time.monotonic() < deadline:
        time.sleep(_PAUSE)
    try:
        return bool(alone) and file.size() == size
    except StorageError:
        return False


def _nobody_writes(file: OpenFile) -> bool | None:
    """Whether no process has the file open for writing; None where the system cannot tell."""
    if not hasattr(fcntl, "F_SETLEASE"):
        return None
    try:
        # A read lease is granted only while nobody has the file open for writing.
        fcntl.fcntl(file.descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(file.descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True
