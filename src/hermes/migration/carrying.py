"""Carries single files and folders into a home: what is there stays, texts are judged, the rest is archived."""

from __future__ import annotations

import os
import tempfile
from functools import partial
from typing import TYPE_CHECKING

from hermes.migration.foreign_database import merged
from hermes.migration.openclaw_source import files_below, read_bytes
from hermes.migration.report import ARCHIVED, CONFLICT, ERROR, MIGRATED, Item
from hermes.safety.passages import without_attacks
from hermes.safety.threats import scan
from hermes.skills.names import MAIN_FILE, check_name
from hermes.vocabulary.errors import StorageError, WriteRefused

if TYPE_CHECKING:
    from hermes.migration.undo_log import UndoLog
    from hermes.settings.home import Home

_LARGEST = 64 << 20


class Carrying:
    def __init__(self, home: Home, program: str, stamp: str, *, overwrite: bool) -> None:
        self._home = home
        self._program = program
        self._archive = ("migration", program, stamp, "archive")
        self._overwrite = overwrite
        self.root = home.path  # the home that is migrated; a profile stands below it

    def text(self, kind: str, source: str, text: str, destination: str) -> Item:
        """A text that enters prompts: judged first; one that is refused goes to the archive instead."""
        if found := _attacks(text):
            reason = f"it looks like {found}; it is archived and not used"
            return self.archived(kind, source, os.path.basename(source), reason)
        return self._placed(kind, source, text.encode(), destination)

    def copied(self, kind: str, source: str, destination: str) -> Item:
        """A file as it is; of a database, with what is still in its log."""
        try:
            with tempfile.TemporaryDirectory(prefix="hermes-import-") as place:
                return self._placed(kind, source, read_bytes(merged(source, place), _LARGEST), destination)
        except (StorageError, FileNotFoundError) as error:
            return Item(kind=kind, source=source, status=ERROR, reason=str(error))

    def outside(self, kind: str, source: str, text: str, destination: str) -> Item:
        """A file for a folder the person named, which is no part of the home."""
        path = os.path.abspath(os.path.expanduser(destination))
        item = Item(kind=kind, source=source, destination=path)
        there = _read(path)
        if there == text.encode():
            item.reason = "it is there already"
        elif there is not None and not self._overwrite:
            item.status, item.reason = CONFLICT, "another file is there"
        elif not os.path.isdir(os.path.dirname(path)):
            item.status, item.reason = ERROR, f"there is no folder {os.path.dirname(path)}; make it first"
        else:
            item.status, item.act = MIGRATED, partial(_replace_outside, path, text.encode(), there, self._program)
        return item

    def archived(self, kind: str, source: str, name: str, reason: str) -> Item:
        try:
            data = read_bytes(source, _LARGEST)
        except (StorageError, FileNotFoundError) as error:
            return Item(kind=kind, source=source, status=ERROR, reason=str(error))
        return self.archived_data(kind, source, data, name, reason)

    def archived_data(self, kind: str, source: str, data: bytes, name: str, reason: str) -> Item:
        """Kept under `migration/`, unless an earlier run has kept the very same."""
        item = Item(kind=kind, source=source, reason=reason)
        earlier = self._kept_before(name, data)
        if earlier:
            item.destination, item.reason = earlier, "archived before"
            return item
        item.status, item.destination = ARCHIVED, os.path.join(self.root, *self._archive, *name.split("/"))
        item.act = lambda log: log.write(data, *self._archive, *name.split("/"))
        return item

    def skill(self, kind: str, folder: str, category: str, name: str, conflict: str) -> Item:
        item = Item(kind=kind, source=folder)
        try:
            files = {inside: read_bytes(path, _LARGEST) for inside, path in files_below(folder)}
            plain = check_name(name.lower().replace(" ", "-"))
        except (StorageError, WriteRefused, FileNotFoundError) as error:
            item.status, item.reason = ERROR, str(error)
            return item
        if found := _attacks(files[MAIN_FILE].decode("utf-8", "replace")):
            item.reason = f"its text looks like {found}; it is not taken over"
            return item
        place = self._home.join("skills", category, plain)
        if os.path.lexists(place):
            if _same_folder(place, files):
                item.destination, item.reason = place, "it is there already"
                return item
            if conflict == "skip" and not self._overwrite:
                item.destination, item.reason = place, "another skill of this name is there (--skill-conflict)"
                return item
            if conflict == "rename":
                plain = self._free_skill(category, plain, files)
                if not plain:
                    item.reason = "it is there already, under another name"
                    return item
        item.status, item.destination = MIGRATED, self._home.join("skills", category, plain)
        executable = {inside for inside, path in files_below(folder) if os.access(path, os.X_OK)}
        place_here = self._inside("skills", category, plain)
        item.act = lambda log: _write_skill(log, place_here, files, executable)
        return item

    def _placed(self, kind: str, source: str, data: bytes, destination: str) -> Item:
        item = Item(kind=kind, source=source, destination=self._home.join(*destination.split("/")))
        there = _read(item.destination)
        if there == data:
            item.reason = "it is there already"
        elif there is not None and not self._overwrite:
            item.status, item.reason = CONFLICT, "another file is there"
        else:
            item.status = MIGRATED
            item.act = lambda log: log.write(data, *self._inside(*destination.split("/")))
        return item

    def _inside(self, *names: str) -> tuple[str, ...]:
        return (os.path.relpath(self._home.join(*names), self.root),)

    def _kept_before(self, name: str, data: bytes) -> str:
        runs = os.path.join(self.root, "migration", self._program)
        for run in sorted(os.listdir(runs)) if os.path.isdir(runs) else ():
            path = os.path.join(runs, run, "archive", *name.split("/"))
            if _read(path) == data:
                return path
        return ""

    def _free_skill(self, category: str, name: str, files: dict[str, bytes]) -> str:
        """A name nobody has; empty when one of the candidates is this very skill."""
        number = 1
        while True:
            free = f"{name}-imported" if number == 1 else f"{name}-imported-{number}"
            place = self._home.join("skills", category, free)
            if not os.path.lexists(place):
                return free
            if _same_folder(place, files):
                return ""
            number += 1


def _replace_outside(path: str, data: bytes, there: bytes | None, program: str, log: UndoLog) -> None:
    """Puts a file where the person asked for it; what stood there keeps a name beside it."""
    if there is not None:
        log.write_outside(f"{path}.before-{program}", there)
    log.write_outside(path, data)


def _write_skill(log: UndoLog, place: tuple[str, ...], files: dict[str, bytes], executable: set[str]) -> None:
    log.clear(*place)
    for inside, data in files.items():
        log.write(data, *place, *inside.split(os.sep), mode=0o700 if inside in executable else 0o600)


def _same_folder(place: str, files: dict[str, bytes]) -> bool:
    there = {inside: _read(path) for inside, path in files_below(place)}
    return there == files


def _read(path: str) -> bytes | None:
    try:
        return read_bytes(path, _LARGEST)
    except FileNotFoundError:
        return None
    except StorageError:
        return b"\0"  # something is there, and it is no such file


def _attacks(text: str) -> str:
    """What a text looks like that no prompt would show at all; of others a prompt leaves out what it must."""
    verdict = scan(text, "context")
    shown = verdict.level != "refuse" or without_attacks(text, "", lambda part: scan(part, "context"))
    return "" if shown else ", ".join(verdict.classes)
