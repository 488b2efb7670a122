"""The storage engines behind what tests open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.storage.local.conversations import LocalConversations

if TYPE_CHECKING:
    from hermes.conversations.database import SessionDB
    from hermes.storage.local.database import Database


def database_of(db: SessionDB) -> Database:
    """The SQLite file behind it."""
    assert isinstance(db.store, LocalConversations)
    return db.store.database
