"""Changes to a home that stand or fall together: what is about to change is kept, and put back when the rest fails.

The copies and the list of them lie in `.undo-…` inside the home while the work goes on. When it ends well they are
removed; when it fails, or when the next run finds them because the program was killed, everything is put back.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from typing import TYPE_CHECKING, Any

from hermes.migration.archive_file import remove_tree
from hermes.storage.files import Folder, explain, make_private_folders
from hermes.storage.locks import FileLock
from hermes.vocabulary.errors import StorageError, UnsafePath

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PREFIX = ".undo-"
_LIST = "changes.jsonl"
_LOCK = "migration.lock"
_LOCK_TIMEOUT = 10
_BESIDE_MEMORY = ("", ".history.jsonl", ".marks.jsonl")


class UndoLog:
    def __init__(self, home: str, folder: str) -> None:
        self._home = home
        self._folder = folder
        self._count = 0
        self._kept: set[str] = set()
        self.when_failing: list[Callable[[], None]] = []  # for what is no file; in reverse order
        self.when_done: list[Callable[[], None]] = []

    @classmethod
    @contextlib.contextmanager
    def around(cls, home: str) -> Iterator[UndoLog]:
        """One migration at a time. What is protected inside the block is put back when the block fails."""
        make_private_folders(home)
        with Folder.create(home) as folder, FileLock(folder, _LOCK, timeout=_LOCK_TIMEOUT):
            put_back_abandoned(home)
            place = os.path.join(home, f"{_PREFIX}{os.urandom(4).hex()}")
            make_private_folders(place)
            log = cls(home, place)
            try:
                yield log
            except BaseException:
                for undo in reversed(log.when_failing):
                    undo()
                _put_back(home, place)
                raise
            for complete in log.when_done:
                complete()
            log.finish()

    def protect(self, *names: str) -> str:
        """Keeps what stands at this path of the home, a file, a folder or nothing; returns the full path."""
        path = os.path.join(self._home, *names)
        inside = os.path.relpath(path, self._home)
        if inside.startswith(".."):
            raise StorageError(f"{path} is outside the home {self._home}; nothing there is changed")
        while inside and not os.path.lexists(os.path.dirname(os.path.join(self._home, inside)) or self._home):
            inside = os.path.dirname(inside)  # the topmost folder that will be made
        self._refuse_outside(path)
        if inside in self._kept:
            return path
        self._kept.add(inside)
        here = os.path.join(self._home, inside)
        copy = ""
        try:
            if os.path.lexists(here):
                copy = f"{self._count:06}"
                self._count += 1
                _copy(here, os.path.join(self._folder, copy))
            self._note({"path": inside, "copy": copy})
        except OSError as error:
            raise explain("keep a copy of", here, error) from error
        return path

    def _refuse_outside(self, path: str) -> None:
        """A link inside the home may lead anywhere; nothing is written through it."""
        real, home = os.path.realpath(os.path.dirname(path)), os.path.realpath(self._home)
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

    def protect_memory(self, path: str) -> None:
        """Keeps a memory file with its history; call `memory_written` when the write is done."""
        for suffix in _BESIDE_MEMORY:
            if path.startswith(os.path.join(self._home, "")) and os.path.isfile(path + suffix):
                copy = f"{self._count:06}"
                self._count += 1
                _copy(path + suffix, os.path.join(self._folder, copy))
                self._note({"memory": path, "suffix": suffix, "copy": copy})
            else:
                self._note({"memory": path, "suffix": suffix, "copy": ""})

    def memory_written(self, path: str) -> None:
        self._note({"wrote": path, "digest": _digest(path)})

    def finish(self) -> None:
        """From here on nothing is put back."""
        done = f"{self._folder}.done"
        os.rename(self._folder, done)
        remove_tree(done)

    def _note(self, record: dict[str, Any]) -> None:
        with Folder.create(self._folder) as folder, folder.open_for_append(_LIST) as file:
            file.append((json.dumps(record) + "\n").encode(), sync=True)


def recover(home: str) -> bool:
    """Puts back what a killed run had changed, if there is such a thing; True when there was."""
    if not os.path.isdir(home) or not any(name.startswith(_PREFIX) for name in os.listdir(home)):
        return False
    with Folder.create(home) as folder, FileLock(folder, _LOCK, timeout=_LOCK_TIMEOUT):
        return put_back_abandoned(home)


def put_back_abandoned(home: str) -> bool:
    """Puts back what a killed run had changed; True when there was something. The caller holds the lock."""
    found = False
    for name in sorted(os.listdir(home)) if os.path.isdir(home) else ():
        if name.startswith(_PREFIX):
            path = os.path.join(home, name)
            if not name.endswith(".done"):
                _put_back(home, path)
                found = True
            remove_tree(path)
    return found


def _put_back(home: str, place: str) -> None:
    try:
        with open(os.path.join(place, _LIST), encoding="utf-8") as file:
            records = [json.loads(line) for line in file if line.endswith("\n")]
    except FileNotFoundError:
        records = []
    ours = {record["wrote"]: record["digest"] for record in records if "wrote" in record}
    for record in reversed(records):
        if "path" not in record:
            _put_memory_back(record, place, ours)
            continue
        here = os.path.join(home, record["path"])
        remove_tree(here)
        if record["copy"]:
            _copy(os.path.join(place, record["copy"]), here)
    remove_tree(place)


def _put_memory_back(record: dict[str, Any], place: str, ours: dict[str, str]) -> None:
    """A memory file as it was, unless somebody has written since: then theirs stays, and ours with it."""
    path = record.get("memory")
    if path is None or path not in ours:
        return
    name = os.path.basename(path)
    with Folder.create(os.path.dirname(path)) as folder, FileLock(folder, f"{name}.lock", timeout=_LOCK_TIMEOUT):
        if record["suffix"] == "" and _digest(path) != ours[path]:
            return
        if record["copy"]:
            with open(os.path.join(place, record["copy"]), "rb") as file:
                folder.replace(name + record["suffix"], file.read())
        else:
            folder.discard(name + record["suffix"])


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _copy(path: str, to: str) -> None:
    if os.path.islink(path):
        os.symlink(os.readlink(path), to)
    elif os.path.isdir(path):
        shutil.copytree(path, to, symlinks=True)
    else:
        shutil.copy2(path, to, follow_symlinks=False)
