"""A home that is built beside the real one and takes its place in one step, or not at all.

It carries `.migrating` from its beginning, and its lock is held: whoever opens it at once, in its new place, waits; and
when the program is killed between the exchange and its end, the next opening completes the rest.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import TYPE_CHECKING

from hermes.migration.archive_file import remove_tree
from hermes.settings.home import DATABASE
from hermes.storage.files import Folder, make_private_folders
from hermes.storage.locks import FileLock
from hermes.storage.migration_marks import ARRIVING, FOLDER
from hermes.storage.putting_back import complete_arrival, forget, migrating, note
from hermes.storage.repair import alone
from hermes.storage.running import is_running
from hermes.storage.unfinished import settle
from hermes.vocabulary.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

_MARK = ".arriving-"
_IGNORED = frozenset(("cache", "logs", "backups"))


class Staging:
    """`path` is where the new home is built; `put_in_place` exchanges it with the real one."""

    def __init__(self, home: str) -> None:
        self.home = home
        self._parent, self._name = os.path.split(home)
        self._staged = f"{self._name}{_MARK}{os.getpid()}-{os.urandom(3).hex()}"
        self.path = os.path.join(self._parent, self._staged)

    @classmethod
    @contextlib.contextmanager
    def beside(cls, home: str) -> Iterator[Staging]:
        staging = cls(os.path.abspath(home))
        make_private_folders(os.path.dirname(staging.home))
        settle(staging.home)
        staging.remove_abandoned()
        make_private_folders(os.path.join(staging.path, FOLDER))
        with migrating(staging.path):
            try:
                yield staging
            finally:
                if os.path.lexists(os.path.join(staging.path, FOLDER)):
                    remove_tree(staging.path)

    def remove_abandoned(self) -> None:
        """What a killed run left beside the home; nothing of it ever was the home, or it would bear no mark."""
        for name in os.listdir(self._parent or "."):
            process = name.removeprefix(self._name + _MARK).partition("-")[0]
            alive = process.isdecimal() and is_running(int(process))
            marked = os.path.lexists(os.path.join(self._parent, name, FOLDER))
            if name.startswith(self._name + _MARK) and marked and not alive:
                remove_tree(os.path.join(self._parent, name))

    def put_in_place(self) -> str | None:
        """The new home in the place of the old one; returns where the old one is kept, None when there was none."""
        kept = _free_name(self.home)
        record = {"arrived": self._staged, "kept": os.path.basename(kept)}
        note(os.path.join(self.path, FOLDER), {"process": os.getpid(), **record})
        with Folder.create(self._parent) as parent, self._nobody_has_it_open():
            if not os.path.lexists(self.home):
                parent.rename(self._staged, self._name)
                parent.sync()
            elif not parent.exchange(self._staged, self._name):
                self._rename_both(parent, record)
        complete_arrival(self.home, record)
        if is_empty(kept):
            remove_tree(kept)
        forget(os.path.join(self.home, FOLDER))
        return kept if os.path.lexists(kept) else None

    def _rename_both(self, parent: Folder, record: dict[str, str]) -> None:
        """Where names cannot be exchanged there is a moment without a home; a file beside it says what follows."""
        mark = self._name + ARRIVING
        with FileLock(parent, mark, timeout=0):
            with parent.open_for_append(mark) as file:
                file.append((json.dumps({"staged": self._staged}) + "\n").encode(), sync=True)
            parent.rename(self._name, record["kept"])
            try:
                parent.rename(self._staged, self._name)
            except StorageError:
                parent.rename(record["kept"], self._name)
                raise
            finally:
                parent.sync()
                parent.remove(mark)

    @contextlib.contextmanager
    def _nobody_has_it_open(self) -> Iterator[None]:
        path = os.path.join(self.home, DATABASE)
        if not os.path.exists(path):
            yield
            return
        with alone(path):
            pass
        yield


def is_empty(home: str) -> bool:
    """Whether nothing is there that somebody would miss."""
    if not os.path.isdir(home):
        return not os.path.lexists(home)
    for _, folders, files in os.walk(home):
        folders[:] = [name for name in folders if name not in _IGNORED]
        if any(map(_matters, files)):
            return False
    return True


def _matters(name: str) -> bool:
    return not name.endswith((".lock", ".lock.queue"))


def _free_name(home: str) -> str:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    return f"{home}.before-{stamp}-{os.urandom(2).hex()}"
