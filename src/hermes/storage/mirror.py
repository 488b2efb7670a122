"""A folder of files that mirrors rows in PostgreSQL: skills, whose scripts must be files wherever an agent runs.

If both sides differ, the rows count. Before the folder is read, changes by others are fetched, and changes that a
program or an editor made here are stored. The folder can be removed at any time, because it is made again. If documents
are plain files, there is nothing to do.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING

from hermes.base.text import decode
from hermes.storage.documents import SYNCED, YOURS, LocalDocuments, files_below
from hermes.storage.files import Folder, make_private_folders

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes.storage.ports import Documents

_LARGEST = 64 << 20
_WAIT = 10.0


class Mirror:
    """Keeps the folder at `path` and the `documents` that it mirrors the same."""

    def __init__(self, documents: Documents, path: str) -> None:
        self.path = path
        self._documents = None if isinstance(documents, LocalDocuments) else documents

    def sync(self) -> None:
        """Makes both sides equal; if both changed a file, the row wins, and a copy of the local file is kept."""
        if self._documents is None:
            return
        known, rows, files = self._known(), self._documents.every(), self._files()
        if known.keys() == rows.keys() == files.keys() and all(
            each == (rows[name], files[name]) for name, each in known.items()
        ):
            return
        with self._documents.create() as folder, folder.lock(SYNCED, timeout=_WAIT):
            rows = self._documents.every()
            for name in sorted({*rows, *files}):
                version, stamp = known.get(name, (None, None))
                theirs, ours = rows.get(name) != version, files.get(name) != stamp
                if theirs:
                    self._fetch(name, there=name in rows, keep=ours)
                elif ours:
                    self._store(name)
            rows = self._documents.every()
        self._remember(rows)

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Locks out others around a change of the files, and stores the change."""
        if self._documents is None:
            yield
            return
        with self._documents.create() as folder, folder.lock(SYNCED, timeout=_WAIT):
            self.sync()
            yield
            self.sync()

    def _fetch(self, name: str, *, there: bool, keep: bool) -> None:
        place, base = self._place(name)
        data = self._read(name) if there else None
        with Folder.create(place) as folder:
            mine = folder.read(base, at_most=_LARGEST) if folder.status(base) is not None else None
            if keep and mine is not None and mine != data:
                folder.replace(f".{base}{YOURS}", mine)
            if data is None:
                folder.remove(base)
            elif mine != data:
                folder.replace(base, data)
        if data is None:
            self._prune(place)

    def _store(self, name: str) -> None:
        assert self._documents is not None  # noqa: S101 - `sync` has seen to it
        place, base = self._place(name)
        local = Folder.open(place)
        data = None
        if local is not None:
            with local:
                data = local.read(base, at_most=_LARGEST)
        above, _, last = name.rpartition("/")
        with self._documents.below(above).create() as folder:
            if data is None:
                folder.remove(last)
            else:
                folder.replace(last, data)

    def _read(self, name: str) -> bytes | None:
        assert self._documents is not None  # noqa: S101 - `sync` has seen to it
        above, _, last = name.rpartition("/")
        with self._documents.below(above).create() as folder:
            return folder.read(last, at_most=_LARGEST)

    def _place(self, name: str) -> tuple[str, str]:
        above, _, last = name.rpartition("/")
        return (f"{self.path}/{above}" if above else self.path), last

    def _prune(self, place: str) -> None:
        with contextlib.suppress(OSError):  # not empty
            while place != self.path:
                os.rmdir(place)
                place = os.path.dirname(place)

    def _files(self) -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        for name in files_below(self.path):
            status = os.lstat(f"{self.path}/{name}")
            found[name] = (status.st_size, status.st_ino, status.st_mtime_ns)
        return found

    def _known(self) -> dict[str, tuple[int, tuple[int, ...]]]:
        """The version of the row and the stamp of the file when both sides were last equal, by name."""
        folder = Folder.open(self.path)
        if folder is None:
            return {}
        with folder:
            kept = decode(folder.read(SYNCED, at_most=_LARGEST) or b"{}")
        return {name: (version, tuple(stamp)) for name, (version, stamp) in dict(kept).items()}

    def _remember(self, rows: dict[str, int]) -> None:
        files = self._files()
        agreed = {name: (version, files[name]) for name, version in rows.items() if name in files}
        make_private_folders(self.path)
        with Folder.create(self.path) as folder:
            folder.replace(SYNCED, json.dumps(agreed).encode())
