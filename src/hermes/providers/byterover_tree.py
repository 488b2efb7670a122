"""The notes that brv keeps: Markdown files below `.brv/context-tree` of a folder. brv has no command to delete one."""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hermes.providers.service import digest
from hermes.storage.files import Folder, explain
from hermes.vocabulary.errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROJECT = ".brv"
_TREE = "context-tree"
_CONFIG = "config.json"
_OURS = "hermes"
_SHORT_FORMS = (".abstract.md", ".overview.md")


class Tree:
    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._root = os.path.join(folder, _PROJECT, _TREE)

    def prepare(self) -> None:
        """Makes the folder one that brv takes for a project."""
        with Folder.create(os.path.join(self.folder, _PROJECT)) as project:
            if project.status(_CONFIG) is None:
                made = {"createdAt": datetime.now(UTC).isoformat(), "cwd": self.folder, "version": "0.0.1"}
                project.replace(_CONFIG, json.dumps(made).encode())
        Folder.create(self._root).close()

    def notes(self) -> list[str]:
        """The names of all notes, as paths below the tree."""
        return sorted(os.path.relpath(path, self._root) for path in self._files())

    def state(self) -> dict[str, int]:
        """Something that changes whenever a note is written."""
        return {path: os.stat(path).st_mtime_ns for path in self._files()}

    def keep(self, target: str, text: str) -> None:
        """A note with just this text; the same text is the same note."""
        with Folder.create(os.path.join(self._root, _OURS, target)) as folder:
            folder.replace(_name(text), f"# Curated memory ({target})\n\n{text}\n".encode("utf-8", "replace"))

    def withdraw(self, target: str, text: str) -> None:
        folder = Folder.open(os.path.join(self._root, _OURS, target))
        if folder is not None:
            with folder:
                folder.remove(_name(text))

    def forget(self, note: str) -> None:
        """Deletes one note with its short forms."""
        if note not in self.notes():
            raise ProviderError(f"there is no note {note!r}; brv_status lists them", kind="missing")
        place, name = os.path.split(os.path.join(self._root, note))
        folder = Folder.open(place)
        if folder is not None:
            with folder:
                for each in (name, *(name.removesuffix(".md") + form for form in _SHORT_FORMS)):
                    folder.remove(each)

    def remove(self) -> None:
        """Deletes the folder with everything in it."""
        try:
            shutil.rmtree(self.folder)
        except FileNotFoundError:
            return
        except OSError as error:
            raise explain("remove", self.folder, error) from error

    def _files(self) -> Iterator[str]:
        for place, _, names in os.walk(self._root):
            for name in names:
                if name.endswith(".md") and not name.endswith(_SHORT_FORMS) and not name.startswith("_"):
                    yield os.path.join(place, name)


def _name(text: str) -> str:
    return f"mem_{digest(text, 12)}.md"
