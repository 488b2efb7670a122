"""What of a home is worth keeping, read so that each piece is whole although the home is in use.

Memory files are read under their locks together with their history, databases from one moment. Locks, caches, logs,
weights and what a killed program left behind stay out; links are never followed and are reported.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

import apsw

from hermes.curated.places import FILES
from hermes.settings.home import DATABASE, PEOPLE, PROFILES
from hermes.settings.secrets_file import FILE as SECRETS
from hermes.storage.files import Folder, explain
from hermes.storage.images import IMAGES
from hermes.storage.locks import FileLock
from hermes.storage.migration_marks import FOLDER as MIGRATING
from hermes.vocabulary.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

_FOLDERS_LEFT_OUT = frozenset(
    ("cache", "logs", "backups", "state-snapshots", "image_cache", "audio_cache", "models", "weights", "__pycache__")
)
_FILES_LEFT_OUT = frozenset((".skills_prompt_snapshot.json",))
_ENDINGS_LEFT_OUT = (
    *(".lock", ".lock.queue", "-wal", "-shm", "-journal", ".pid", ".sock", ".tmp", ".pyc"),
    *(".gguf", ".safetensors", ".onnx"),
)
_ORIGINALS = (".damaged-", ".hermes-agent-", ".malformed-backup-")
_UNFINISHED = (MIGRATING, f"{DATABASE}.importing-")
_SQLITE = b"SQLite format 3\x00"
_PIECE = 1 << 20
_LARGEST_IN_MEMORY = 256 << 20
_LOCK_TIMEOUT = 10
_MEMORY = frozenset(FILES.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeFile:
    """One file: where it stands in the home, and what it is (file, database of ours, secret)."""

    path: str
    kind: str
    executable: bool
    data: bytes | None = None  # what was read under a lock


class HomeFiles:
    def __init__(self, root: str, *, originals: bool = True) -> None:
        self.root = root
        self.left_out: list[str] = []
        self._originals = originals

    def __iter__(self) -> Iterator[HomeFile]:
        """Every file in the order of its name, so that the same home always gives the same list."""
        yield from self._below("")

    def _below(self, folder: str) -> Iterator[HomeFile]:
        place = os.path.join(self.root, folder)
        try:
            # Images last: the database that is read before them names none that is not there yet.
            names = sorted(os.listdir(place), key=lambda name: (name == IMAGES, name))
        except OSError as error:
            raise explain("list", place, error) from error
        held = self._held(place, names) if _MEMORY & set(names) else {}
        for name in names:
            path = f"{folder}/{name}" if folder else name
            try:
                status = os.lstat(os.path.join(place, name))
            except FileNotFoundError:
                continue  # somebody has just finished with it
            if self._is_left_out(name, folder, status.st_mode):
                continue
            if stat.S_ISDIR(status.st_mode):
                yield from self._below(path)
            elif stat.S_ISREG(status.st_mode):
                kind = _kind(os.path.join(place, name), name)
                executable = bool(status.st_mode & stat.S_IXUSR)
                yield HomeFile(path=path, kind=kind, executable=executable, data=held.get(name))
            else:
                self.left_out.append(path)

    def _is_left_out(self, name: str, folder: str, mode: int) -> bool:
        if stat.S_ISDIR(mode):
            own = _is_home(folder) or name == "__pycache__"
            return (name in _FOLDERS_LEFT_OUT and own) or self._unwanted(name)
        if name.startswith(".") and any(name.startswith(f".{memory}.") for memory in _MEMORY):
            return True  # versions that a write replaced; the history knows them
        return name in _FILES_LEFT_OUT or name.endswith(_ENDINGS_LEFT_OUT) or self._unwanted(name)

    def _unwanted(self, name: str) -> bool:
        if name.startswith(_UNFINISHED) or ".part-" in name:
            return True
        return not self._originals and any(mark in name for mark in _ORIGINALS)

    def _held(self, place: str, names: list[str]) -> dict[str, bytes]:
        """The memory files of a folder with everything beside them, as they are while nobody can write."""
        folder = Folder.open(place)
        if folder is None:
            return {}
        with folder, contextlib.ExitStack() as locks:
            for name in sorted(_MEMORY & set(names)):
                locks.enter_context(FileLock(folder, f"{name}.lock", timeout=_LOCK_TIMEOUT))
            wanted = [name for name in names if any(name.startswith(memory) for memory in _MEMORY)]
            found = {}
            for name in wanted:
                status = folder.status(name)
                if status is not None and stat.S_ISREG(status.st_mode) and not name.endswith(".lock"):
                    found[name] = folder.read(name, at_most=_LARGEST_IN_MEMORY) or b""
            return found

    def pieces(self, file: HomeFile) -> Iterator[bytes]:
        """The bytes of a file; of a database, as it was at one moment."""
        if file.data is not None:
            yield file.data
            return
        path = os.path.join(self.root, file.path)
        if file.kind in ("sqlite", "database"):
            with tempfile.TemporaryDirectory(prefix="hermes-copy-") as place:
                yield from _read(snapshot(path, os.path.join(place, "copy.db")))
            return
        yield from _read(path)


def _is_home(folder: str) -> bool:
    """Whether this is the home itself, or that of a profile or person below it."""
    parts = folder.split("/") if folder else []
    return len(parts) % 2 == 0 and all(part in (PROFILES, PEOPLE) for part in parts[::2])


def snapshot(path: str, copy: str) -> str:
    """A copy of a SQLite file from one moment, its log included; the same content gives the same bytes."""
    try:
        source = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
        target = apsw.Connection(copy)
        try:
            source.set_busy_timeout(10_000)
            with target.backup("main", source, "main") as backup:
                while not backup.done:
                    backup.step(4096)
        finally:
            target.close()
            source.close()
    except apsw.Error as error:
        raise StorageError(f"{path} cannot be copied: {error}; `hermes sessions repair` looks after ours") from error
    return copy


def _read(path: str) -> Iterator[bytes]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            while piece := file.read(_PIECE):
                yield piece
    except OSError as error:
        raise explain("read", path, error) from error


def _kind(path: str, name: str) -> str:
    if name == SECRETS:
        return "secret"
    try:
        with open(path, "rb") as file:
            is_sqlite = file.read(len(_SQLITE)) == _SQLITE
    except OSError as error:
        raise explain("read", path, error) from error
    if name == DATABASE:
        return "database" if is_sqlite else "file"
    return "sqlite" if is_sqlite else "file"
