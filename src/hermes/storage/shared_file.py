"""A small file that people, shells and other programs write too, without asking for our lock.

Our own writers exclude each other with a lock; everybody else can append or save at any moment. So the new version is
written under a hidden name, and then the two names are exchanged in one step: whatever stood there at that moment is
now under the hidden name. If that is not what was read, the exchange is taken back and the write starts over. What
others append to the replaced version later is found there too, and after a power cut it proves what was there before.

    .MEMORY.md.<size>.<check>.<inode>.<new inode>.<label>.old     a replaced version; <label> is the caller's
    .MEMORY.md.<size>.<check>.<inode>.<new inode>.<label>.late    the same, while somebody may still be writing to it
    .MEMORY.md.<pid>.tmp                                          a version that is being written

Size, check and inode are those of the replaced version; a `.old` file with the new inode was never exchanged.
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
_NO_CHECK = 1  # not the checksum of no bytes at all


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
        if file is None:
            return Seen(b"", None)
        try:
            return Seen(file.read(at_most=self._at_most), file)
        except StorageError:
            file.close()
            raise

    def replace(
        self, seen: Seen, data: bytes, label: str, commit: Callable[[Fingerprint], None], prove: Callable[[], None]
    ) -> str:
        """Puts `data` in place of the file that was seen; durable when it returns. The caller holds the lock.

        `commit` is called when the new version is written but not yet in place, with its fingerprint; `prove` when the
        replaced version will have no name that proves it after a power cut. If one raises, nothing has changed.
        `ChangedMeanwhile` says that somebody else saved first. The answer is the hidden name of the replaced version,
        or "" when somebody may have written, or may yet write, to that.
        """
        temporary = f"{self._prefix}{os.getpid()}.tmp"
        file, then = seen.file, seen.fingerprint
        assert file is not None  # noqa: S101 - what does not exist is made before it is replaced
        inode = self.folder.write_new(temporary, data)
        old = f"{self._prefix}{then.size}.{then.check:08x}.{then.inode}.{inode}.{label}.old"
        try:
            commit(Fingerprint.of(data, inode))
            self.folder.rename(temporary, old)
            if not self._exchange(file, then, old, inode):
                self._rename_over(file, then, temporary, old, prove)
        except (StorageError, ChangedMeanwhile):
            self.folder.discard(temporary)
            if self._inode(old) == inode:  # else it is what somebody else saved
                self.folder.discard(old)
            raise
        self._sync_or_roll_back(old)
        if _nobody_added(file, then.size):
            return old
        self._mark_late(old)
        return ""

    def holds(self, version: Fingerprint) -> bool:
        """Whether the file is this very version; also True when that cannot be found out."""
        return self._inode(self.name) in (version.inode, None)

    def is_waiting(self, version: Fingerprint, names: list[str]) -> bool:
        """Whether one of these hidden names still holds a version that was never put in place."""
        if self.holds(version):
            return False
        for name in names:
            may_be = name.endswith(".tmp") or name[len(self._prefix) :].split(".")[3:4] == [str(version.inode)]
            file = self.folder.open_file(name) if may_be else None
            if file is not None:
                with file:
                    # An inode is used again when its file is gone, so the bytes must agree too.
                    if Fingerprint.of(file.read(at_most=self._at_most), file.status.st_ino) == version:
                        return True
        return False

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
        """A replaced version; None when it never was one: it is still the file, or was never put in place."""
        current = self.folder.status(self.name)
        file = self.folder.open_file(name)
        if file is None:
            return None
        with file:
            now = file.status.st_ino
            if current is not None and current.st_ino == now:
                return None
            data = file.read(at_most=self._at_most)
        try:
            size, check, inode, new, label = name[len(self._prefix) :].rpartition(".")[0].split(".", 4)
            then = Fingerprint(size=int(size), check=int(check, 16), inode=int(inode))
        except ValueError:
            then, new, label = Fingerprint.of(data, now), "", ""
        if new == str(now):
            return None
        return OldVersion(name=name, then=then, label=label, data=data, written_at=file.status.st_mtime)

    def still_written(self, name: str) -> bool:
        file = self.folder.open_file(name)
        if file is None:
            return False
        with file:
            return _nobody_writes(file) is False

    def _refuse_if_changed(self, file: OpenFile, then: Fingerprint) -> None:
        status = self.folder.status(self.name)
        if (
            status is None
            or status.st_ino != then.inode
            or status.st_size != then.size
            or status.st_mtime_ns != file.status.st_mtime_ns
        ):
            raise ChangedMeanwhile

    def _exchange(self, file: OpenFile, then: Fingerprint, hidden: str, new: int) -> bool:
        """Swaps the new version in; False where names cannot be exchanged."""
        self._refuse_if_changed(file, then)
        if not self.folder.exchange(hidden, self.name):
            return False
        if self._inode(hidden) in (then.inode, None):
            return True  # where it cannot be found out now, it will be when the replaced version is let go
        # Somebody saved in the last moment: their version goes back, and whatever came after it. Meanwhile they may
        # have read ours and save over their own, so each of theirs keeps a second name until it is recorded.
        passed: set[int | None] = {new}
        while (out := self._inode(hidden)) not in passed:
            self._keep(hidden, out)
            passed.add(out)
            if not self.folder.exchange(hidden, self.name):
                raise StorageError(
                    f"{self.folder.join(self.name)} was saved by somebody else at the same moment and their version, "
                    f"now {self.folder.join(hidden)}, could not be put back; it is kept in a backup at the next write"
                )
        raise ChangedMeanwhile

    def _keep(self, hidden: str, inode: int | None) -> None:
        """A second name for what somebody else saved; no text begins with what it says, so it is backed up whole."""
        try:
            self.folder.link(hidden, f"{self._prefix}0.{_NO_CHECK:08x}.{inode or 0}.0..late")
        except StorageError:
            return  # it has a name all the same, the hidden one or the file's own

    def _rename_over(
        self, file: OpenFile, then: Fingerprint, temporary: str, old: str, prove: Callable[[], None]
    ) -> None:
        """The next best to an exchange: a second name for the old version, one more look, and a plain rename."""
        self.folder.rename(old, temporary)
        if not self.folder.link(self.name, old):
            prove()
        self._refuse_if_changed(file, then)
        self.folder.rename(temporary, self.name)

    def _inode(self, name: str) -> int | None:
        """0 when there is no such file, None when that cannot be found out."""
        try:
            status = self.folder.status(name)
        except StorageError:
            return None
        return status.st_ino if status else 0

    def _mark_late(self, old: str) -> None:
        try:
            self.folder.rename(old, f"{old[: -len('old')]}late")
        except StorageError:
            return  # our write is safe; what was added is still found when the old version is let go

    def _sync_or_roll_back(self, old: str) -> None:
        try:
            self.folder.sync()
        except StorageError as error:
            try:
                self.folder.rename(old, self.name)
            except StorageError:
                raise StorageError(
                    f"{error}; the new text is in place but may not survive a power cut, and could not be taken back"
                ) from error
            raise


def _nobody_added(file: OpenFile, size: int) -> bool:
    """True when it is certain that the old file is as it was opened, and always will be."""
    alone = _nobody_writes(file)
    if alone is False:
        deadline = time.monotonic() + _PATIENCE_WITH_WRITERS
        while (alone := _nobody_writes(file)) is False and time.monotonic() < deadline:
            time.sleep(_PAUSE)
    try:
        now = file.look()
    except StorageError:
        return False
    return alone is True and now.st_size == size and now.st_mtime_ns == file.status.st_mtime_ns


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
