"""A file that others write too, with what stands beside it: its folder, its lock and its history.

Who has written keeps all of it open for the next write: to open and close them again would be a third of the calls of a
write. What is kept is used again only when folder and history are exactly as they were left, and when the descriptors
are still those: a host that closes all of them, as daemons do, leaves numbers that soon mean files of its own.
"""

from __future__ import annotations

import os

from hermes.storage.files import Folder
from hermes.storage.journal import Journal
from hermes.storage.locks import FileLock
from hermes.storage.shared_file import SharedFile
from hermes.vocabulary.errors import StorageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

    from hermes.storage.files import Stamp
    from hermes.storage.journal import Identity


_MOST_KEPT = 16  # places in this process: each has three descriptors, and a server has stores for hundreds of people
_lists: dict[int, list[Workplace]] = {}  # those that something was kept in, the latest last


def history_name(name: str) -> str:
    """The journal beside a file."""
    return f"{name}.history.jsonl"


def _keep(place: Workplace, kept: list[Workplace]) -> None:
    """Keeps a place for its next write, and closes the one that has waited longest where there are too many."""
    kept.append(place)
    _lists.pop(id(kept), None)
    _lists[id(kept)] = kept
    for number in list(_lists)[:-_MOST_KEPT]:
        try:
            _lists.pop(number, []).pop().close()
        except IndexError:  # it is in use, or was given up
            continue


class Workplaces:
    """The way to the place of one file. Threads that write at the same time get a place each."""

    def __init__(self, path: str, *, at_most: int, lock_timeout: float) -> None:
        self._folder, self._name = os.path.split(path)
        self._at_most = at_most
        self._lock_timeout = lock_timeout
        self._kept: list[Workplace] = []

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_kept": []}  # a copy of what is open would share the lock, or be about another process

    def __del__(self) -> None:
        _lists.pop(id(self._kept), None)

    def look(self) -> Workplace | None:
        """The place, without its lock; None when there is no such folder."""
        folder = Folder.open(self._folder)
        return self._open(folder) if folder is not None else None

    def enter(self) -> Workplace:
        """The place, with its lock; `known` tells whether it is as this process left it."""
        try:
            kept = self._kept.pop()
        except IndexError:  # there is none, or another thread was faster
            kept = None
        if kept is not None:
            if kept.enter_again(self._kept):
                return kept
            kept.close()
        place = self._open(Folder.create(self._folder))
        try:
            place.enter(self._kept)
        except StorageError:
            place.close()
            raise
        return place

    def _open(self, folder: Folder) -> Workplace:
        return Workplace(folder, self._name, at_most=self._at_most, lock_timeout=self._lock_timeout)


class Workplace:
    """Use it in a `with` block, which closes it, or keeps it where that may be of use."""

    __slots__ = ("_keep_in", "_left", "_process", "folder", "journal", "lock", "shared")

    def __init__(self, folder: Folder, name: str, *, at_most: int, lock_timeout: float) -> None:
        self.folder = folder
        self.shared = SharedFile(folder, name, at_most=at_most)
        self.journal = Journal(folder, history_name(name), keeps_open=True)
        self.lock = FileLock(folder, f"{name}.lock", timeout=lock_timeout, keeps_open=True)
        self._process = os.getpid()
        self._left: tuple[Stamp, Identity] | None = None
        self._keep_in: list[Workplace] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failure: object, *_: object) -> None:
        keep_in, self._keep_in = self._keep_in, None
        if failure is not None or self._left is None or keep_in is None or keep_in:
            self.close()
        else:
            self.lock.__exit__()
            _keep(self, keep_in)

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        self._is_still_open()  # what is not is let go, not closed
        if self._process == os.getpid():
            self.lock.__exit__()  # a fork has the lock open, too, so closing it alone would leave it taken
        self.journal.close()
        self.lock.close()
        self.folder.close()

    @property
    def known(self) -> Identity | None:
        """What the history was when this was left, where nothing has happened since."""
        return self._left[1] if self._left else None

    def enter(self, keep_in: list[Workplace]) -> None:
        """Takes the lock; the place may be kept in the list afterwards."""
        self.lock.__enter__()
        self._keep_in = keep_in

    def enter_again(self, keep_in: list[Workplace]) -> bool:
        """The same, or False when somebody was here since it was left, or its path leads to another place by now."""
        if self._process != os.getpid():  # a fork shares the lock, so it would not keep the two apart
            return False
        if not self._is_still_open():
            return False
        try:
            if not self.lock.try_to_take():  # held by somebody, who changes something, or no longer in this place
                return False
            self._keep_in = keep_in
            return self._left == (self.folder.stamp_at_its_path(), self.journal.identity())
        except StorageError:
            return False

    def _is_still_open(self) -> bool:
        parts = [part.is_still_open() for part in (self.folder, self.lock, self.journal)]  # each one must be asked
        return all(parts)

    def leave(self, history: Identity | None) -> None:
        """A write is done, and the next one need not look for what it left; None when it must."""
        try:
            self._left = (self.folder.stamp(), history) if history is not None else None
        except StorageError:
            self._left = None
