"""A small file that people, shells and other programs write too, without asking for our lock.

Our own writers exclude each other with a lock; everybody else can append or save at any moment. So a replacement keeps
the old file under a second name until nobody has it open for writing any more, and looks once more before it renames.
What others appended to the old file meanwhile is found there (`late_appends`). Nothing anybody wrote is dropped.
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
        return (self.size, self.check) == (other.size, other.check)

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
class LateAppend:
    """What somebody added to an old file; `text` is None when they did not append but overwrite (`data` has it all)."""

    name: str
    data: bytes
    text: bytes | None


class SharedFile:
    def __init__(self, folder: Folder, name: str, *, at_most: int) -> None:
        self.folder = folder
        self.name = name
        self._at_most = at_most

    def see(self) -> Seen:
        file = self.folder.open_file(self.name)
        try:
            return Seen(file.read(at_most=self._at_most) if file else b"", file)
        except StorageError:
            if file is not None:
                file.close()
            raise

    def replace(self, seen: Seen, data: bytes, commit: Callable[[Fingerprint], None]) -> None:
        """Puts `data` in place of what was seen; durable when it returns. The caller holds the lock.

        `commit` is called with the fingerprint of the new file when all but the renaming is done; if it raises,
        nothing has changed. `ChangedMeanwhile` says that somebody else saved first.
        """
        temporary = f".{self.name}.{os.getpid()}.tmp"
        previous = self._name_of_old(seen)
        self.folder.discard(temporary)
        inode = self.folder.write_new(temporary, data)
        try:
            if seen.file is not None:
                self._refuse_if_changed(seen)
                self.folder.discard(previous)
                self.folder.link(self.name, previous)
            commit(Fingerprint.of(data, inode))
            self._refuse_if_changed(seen)
            self.folder.rename(temporary, self.name)
        except (StorageError, ChangedMeanwhile):
            self.folder.discard(temporary)
            self.folder.discard(previous)
            raise
        self._sync_or_roll_back(seen, previous)
        if seen.file is not None and _nobody_added(seen.file, len(seen.data)):
            self.folder.discard(previous)

    def late_appends(self) -> list[LateAppend]:
        """What others added to files we had already replaced. Clears away what killed writers left; hold the lock."""
        found = []
        current = self.folder.status(self.name)
        for name in self.folder.names():
            if not name.startswith(f".{self.name}."):
                continue
            if name.endswith(".tmp"):
                self.folder.discard(name)
            elif name.endswith(".old"):
                found += self._late_append(name, current)
        return found

    def has_leftovers(self) -> bool:
        return any(name.startswith(f".{self.name}.") for name in self.folder.names())

    def _late_append(self, name: str, current: os.stat_result | None) -> list[LateAppend]:
        file = self.folder.open_file(name)
        if file is None:
            return []
        with file:
            if current is not None and current.st_ino == file.status.st_ino:
                self.folder.discard(name)  # a writer was killed before it renamed: this is still the file itself
                return []
            if _nobody_writes(file) is False:
                return []  # look again when they are done
            data = file.read(at_most=self._at_most)
        then = _fingerprint_in(name, self.name)
        if then is None or not then.begins(data):
            return [LateAppend(name=name, data=data, text=None)]
        if len(data) > then.size:
            return [LateAppend(name=name, data=data, text=data[then.size :])]
        self.folder.discard(name)
        return []

    def _name_of_old(self, seen: Seen) -> str:
        then = seen.fingerprint
        return f".{self.name}.{then.size}.{then.check:08x}.{then.inode}.old"

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

    def _sync_or_roll_back(self, seen: Seen, previous: str) -> None:
        try:
            self.folder.sync()
        except StorageError as error:
            try:
                if seen.file is not None:
                    self.folder.rename(previous, self.name)
                else:
                    self.folder.remove(self.name)
            except StorageError:
                raise StorageError(
                    f"{error}; the new text is in place but may not survive a power cut, and could not be taken back"
                ) from error
            raise


def _fingerprint_in(name: str, of: str) -> Fingerprint | None:
    try:
        size, check, inode = name[len(f".{of}.") : -len(".old")].split(".")
        return Fingerprint(size=int(size), check=int(check, 16), inode=int(inode))
    except ValueError:
        return None


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
