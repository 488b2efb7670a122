"""Carries out a planned migration: a backup, then every item, all of them or none, and the report beside them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hermes.migration.backups import FOLDER as BACKUPS
from hermes.migration.backups import create_backup, new_name, prune_backups
from hermes.migration.merging import apply_merge
from hermes.migration.report import MIGRATED, Item
from hermes.migration.staging import is_empty
from hermes.migration.undo_log import UndoLog
from hermes.storage.files import make_private_folders
from hermes.vocabulary.errors import StorageError

if TYPE_CHECKING:
    from hermes.curated.store import MemoryStore
    from hermes.migration.merging import Merge
    from hermes.migration.report import Report
    from hermes.settings.home import Home

_KEPT_BACKUPS = 5


def carry_out(home: Home, report: Report, *, program: str, overwrite: bool, backup: bool) -> Report:
    if report.conflicts() and not overwrite:
        names = ", ".join(sorted({item.kind for item in report.conflicts()}))
        raise StorageError(
            f"some things are there already and differ ({names}); nothing was changed. "
            "--overwrite replaces them, the preview names each"
        )
    if not report.has_work():
        return report
    report.mode = "execute"
    had_content = not is_empty(home.path)
    with UndoLog.around(home.path, program) as log:
        if backup and had_content:
            report.options["backup"] = _backed_up(home.path, log, why=f"before {program} migration")
        for item in report.items:
            if item.act is not None and not item.last:
                item.act(log)
        folder = ("migration", program, report.timestamp)
        log.write(report.json_bytes(), *folder, "report.json")
        log.write(report.markdown().encode("utf-8", "replace"), *folder, "summary.md")
        for item in report.items:
            if item.act is not None and item.last:
                item.act(log)
    if backup and had_content:
        prune_backups(home.path, _KEPT_BACKUPS)
    return report


def _backed_up(home: str, log: UndoLog, why: str) -> str:
    """A backup that is written where nobody looks and then gets its name, so that half of one is never left."""
    name = new_name()
    made = create_backup(home, os.path.join(log.folder, name), why=why)
    path = log.protect(BACKUPS, name)
    make_private_folders(os.path.dirname(path))
    os.rename(made.path, path)
    return path


def merging(kind: str, path: str, store: MemoryStore, merge: Merge) -> Item:
    """The item of a merge into curated memory."""
    item = Item(kind=kind, source=path, destination=store.path(merge.target), details=merge.details(), last=True)
    if not merge.changes:
        item.reason = "every entry is there already" if not merge.refused else "nothing new may be stored"
        return item

    def act(log: UndoLog) -> None:
        log.protect_memory(store.path(merge.target))
        apply_merge(store, merge)

    item.status, item.act = MIGRATED, act
    return item
