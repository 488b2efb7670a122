"""Removes conversations that ended long ago when `sessions.auto_prune` says so; at most once per interval."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hermes.storage.opened import Opened
from hermes.storage.upkeep import Upkeep

if TYPE_CHECKING:
    from hermes.settings.load import Settings
    from hermes.storage.sessions import SessionDB

LAST = "last_auto_prune"
# Rewriting a file makes writers wait; up to this size that is about a second.
QUICKLY_REWRITTEN = 64_000_000


def is_due(database: SessionDB, settings: Settings) -> bool:
    last = float(database.get_meta(LAST) or 0)
    return abs(time.time() - last) >= settings.integer("sessions.min_interval_hours") * 3600


def prune(database: SessionDB, settings: Settings) -> int:
    """Deletes whole conversations, not those put into the archive; returns how many."""
    database.set_meta(LAST, str(time.time()))
    Opened(database).end_abandoned()
    upkeep = Upkeep.of_db(database)
    old = upkeep.unused(settings.integer("sessions.retention_days"))
    for session in old:
        for part in reversed(database.lineage(session.id)):
            if part.kind != "delegate" or part.parent is None:  # a delegated part goes with the one that started it
                database.delete(part.id)
    if old and settings.flag("sessions.vacuum_after_prune") and upkeep.sizes()["file_bytes"] <= QUICKLY_REWRITTEN:
        upkeep.rewrite()
    return len(old)
