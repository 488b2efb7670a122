"""Changes to a home that stand or fall together: what is about to change is kept, and put back when the rest fails.

The copies and the list of them lie in `.migrating` inside the home while the work goes on. When it ends well they are
removed; when it fails, or when the next opening of the home finds them because the program was killed, everything is
put back (`storage.putting_back` says how).
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from typing import TYPE_CHECKING

from hermes.migration.archive_file import remove_tree
from hermes.storage.files import Folder, explain, make_private_folders
from hermes.storage.migration_marks import FOLDER, OF_A_MIGRATION
from hermes.storage.putting_back import (
    HISTORY,
    commit,
    copy_tree,
    digest,
    forget,
    migrating,
    note,
    put_back,
    put_back_abandoned,
)
from hermes.vocabulary.errors import StorageError, UnsafePath

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class UndoLog:
    def __init__(self, home: str, folder: str) -> None:
        self.home = home
        self.folder = folder  # also a place for what is only needed meanwhile
        self._count = 0
        self._kept: set[str] = set()
        self.when_failing: list[Callable[[], None]] = []  # before anything is put back, newest first
        self.when_done: list[Callable[[], None]] = []  # when nothing can be put back any more

    @classmethod
    @contextlib.contextmanager
    def around(cls, home: str, program: str) -> Iterator[UndoLog]:
        """One migration at a time. What is protected inside the block is put back when the block fails."""
        make_private_folders(home)
        with migrating(home):
            put_back_abandoned(home)
            place = os.path.join(home, FOLDER)
            make_private_folders(place)
            log = cls(home, place)
            note(place, {"process": os.getpid(), "program": program, "at": time.time()})
            try:
                yield log
            except BaseException:
                for let_go in reversed(log.when_failing):
                    let_go()
                put_back(home, place)
                raise
            commit(place)
            for complete in log.when_done:
                complete()
            forget(place)

    def protect(self, *names: str) -> str:
        """Keeps what stands at this path of the home, a file, a folder or nothing; returns the full path."""
        path = os.path.join(self.home, *names)
        inside = os.path.relpath(path, self.home)
        if inside.startswith(".."):
            raise StorageError(f"{path} is outside the home {self.home}; nothing there is changed")
        while inside and not os.path.lexists(os.path.dirname(os.path.join(self.home, inside)) or self.home):
            inside = os.path.dirname(inside)  # the topmost folder that will be made
        self._refuse_outside(path)
        if any(inside == kept or inside.startswith(os.path.join(kept, "")) for kept in self._kept):
            return path  # a second record, below the first, could be obeyed once more when the first is done with
        self._kept.add(inside)
        here = os.path.join(self.home, inside)
        note(self.folder, {"path": inside, "copy": self._copied(here)})
        return path

    def _copied(self, path: str) -> str:
        """The name of a copy of what stands there; empty when there is nothing."""
        if not os.path.lexists(path):
            return ""
        name = f"{self._count:06}"
        self._count += 1
        try:
            copy_tree(path, os.path.join(self.folder, name))
        except OSError as error:
            raise explain("keep a copy of", path, error) from error
        return name

    def _refuse_outside(self, path: str) -> None:
        """A link inside the home may lead anywhere; nothing is written through it."""
        real, home = os.path.realpath(os.path.dirname(path)), os.path.realpath(self.home)
        if real != home and not real.startswith(os.path.join(home, "")):
            raise UnsafePath(f"{path} leads out of the home, to {real}; put a real folder there and try again")

    def write(self, data: bytes, *names: str, mode: int = 0o600) -> None:
        """Puts a file of the home in place, after keeping what was there."""
        path = self.protect(*names)
        make_private_folders(os.path.dirname(path))
        with Folder.create(os.path.dirname(path)) as folder:
            folder.replace(os.path.basename(path), data)
        if mode != 0o600:  # noqa: PLR2004 - what every private file has
            os.chmod(path, mode)

    def clear(self, *names: str) -> None:
        """Removes what stands at this path, after keeping it."""
        remove_tree(self.protect(*names))

    def write_outside(self, path: str, data: bytes) -> None:
        """Puts a file where the person asked for it, in a folder that is no part of the home."""
        parent, name = os.path.split(path)
        with Folder.create(parent) as folder:
            status = folder.status(name)
            mode = stat.S_IMODE(status.st_mode) if status is not None else 0
            record = {"outside": path, "copy": self._copied(path), "digest": digest(data), "mode": mode or 0o600}
            note(self.folder, record)
            folder.replace(name, data)

    def protect_memory(self, path: str) -> None:
        """Keeps a memory file with its history, before a write to it."""
        parent, name = os.path.split(path)
        names = os.listdir(parent) if os.path.isdir(parent) else []
        there = [each for each in names if each.startswith((f".{name}.", f"{name}."))]
        copies = {suffix: self._copied(path + suffix) for suffix in ("", HISTORY)}
        note(self.folder, {"memory": path, "copies": copies, "there": there})

    def giving_way(self, path: str, kept: str, parts: list[str]) -> None:
        """A database of the home gets another name, with these of its side files; another takes its place."""
        inside, beside = (os.path.relpath(each, self.home) for each in (path, kept))
        note(self.folder, {"gave_way": inside, "kept": beside, "parts": parts})

    def importing(self, path: str) -> str:
        """An import into a database that is there already; returns the name under which it is to be recorded."""
        name = f"{OF_A_MIGRATION}{os.urandom(6).hex()}"
        note(self.folder, {"database": os.path.relpath(path, self.home), "import": name})
        return name
