"""Gives out numbers: to owners, and to messages in blocks for one session at a time, so neighbours lie together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.storage.database import REPAIR, one_row
from hermes.storage.migrations import BLOCK, BLOCK_BITS
from hermes.vocabulary.errors import DamagedFile

if TYPE_CHECKING:
    import apsw

    from hermes.storage.database import Database


_NEW_BLOCK = "INSERT INTO blocks (owner, session, first_place) VALUES (?, ?, ?)"


def next_ids(connection: apsw.Connection, owner: int, session: int, last_id: int, count: int) -> list[int]:
    """Ids that follow the session's last one inside its block, then those of new blocks."""
    ids: list[int] = []
    before, following = last_id, last_id + 1
    place = None
    while len(ids) < count:
        if last_id == 0 or following % BLOCK == 0:
            if place is None:
                place = _place_after(connection, before)
            connection.execute(_NEW_BLOCK, (owner, session, place + len(ids)))
            following = connection.last_insert_rowid() << BLOCK_BITS
        take = min(count - len(ids), BLOCK - following % BLOCK)
        ids += range(following, following + take)
        last_id = ids[-1]
        following = last_id + 1
    return ids


def _place_after(connection: apsw.Connection, last_id: int) -> int:
    if last_id == 0:
        return 0
    row = one_row(connection, "SELECT first_place FROM blocks WHERE block = ?", (last_id >> BLOCK_BITS,))
    return int(row[0]) + last_id % BLOCK + 1


def owner_key(database: Database, owner: str) -> int:
    """The number of an owner, who gets one with the first conversation."""
    known = "SELECT key FROM owners WHERE name = ?"
    if not database.row(known, (owner,)):
        with database.writing() as connection:
            connection.execute("INSERT OR IGNORE INTO owners (name) VALUES (?)", (owner,))
    row = database.row(known, (owner,))
    if row is None or type(row[0]) is not int:
        raise DamagedFile(f"{database.path} is damaged (its list of owners cannot be read); {REPAIR}")
    return row[0]
