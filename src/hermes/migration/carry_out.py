"""Carries out a planned migration: a backup, then every item, all of them or none, and the report beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.migration.backups import create_backup, prune_backups
from hermes.migration.merging import apply_merge
from hermes.migration.report import MIGRATED, Item
from hermes.migration.staging import is_empty
from hermes.migration.undo_log import UndoLog
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
    if backup and not is_empty(home.path):
        report.options["backup"] = create_backup(home.path, why=f"before {program} migration").path
        prune_backups(home.path, _KEPT_BACKUPS)
    report.mode = "execute"
    with UndoLog.around(home.path) as log:
        for item in report.items:
            if item.act is not None and not item.last:
                item.act(log)
        folder = ("migration", program, report.timestamp)
        log.write(report.json_bytes(), *folder, "report.json")
        log.write(report.markdown().encode("utf-8", "replace"), *folder, "summary.md")
        for item in report.items:
            if item.act is not None and item.last:
                item.act(log)
    return report


def merging(kind: str, path: str, store: MemoryStore, merge: Merge) -> Item:
    """The item of a merge into curated memory."""
    item = Item(kind=kind, source=path, destination=store.path(merge.target), details=merge.details(), last=True)
    if not merge.changes:
        item.reason = "every entry is there already" if not merge.refused else "nothing new may be stored"
        return item

    def act(log: UndoLog) -> None:
        log.protect_memory(store.path(merge.target))
        if apply_merge(store, merge) is not None:
            log.memory_written(store.path(merge.target))

    item.status, item.act = MIGRATED, act
    return item
