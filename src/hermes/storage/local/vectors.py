"""Vectors of meaning in `state.db`: the rows of one block of messages are one row of the table."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from hermes.storage.local.schema import add_vectors
from hermes.storage.records import BLOCK, BLOCK_BITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes.storage.local.database import Database

_MADE_BY = "vectors_made_by"
_WAITING = """
    SELECT w.session, s.indexed_id FROM vectors_waiting w JOIN sessions s ON s.key = w.session
    WHERE s.owner = ? ORDER BY w.session DESC LIMIT ?
"""
_MISSING = """
    SELECT b.block, min(31, :reached - (b.block << 5)) + 1 AS wanted
    FROM blocks b LEFT JOIN vectors v ON v.block = b.block
    WHERE b.session = :session AND b.block <= :reached >> 5 AND coalesce(length(v.data), 0) < wanted * :dimensions
    ORDER BY b.block DESC
"""
# Somebody else may have deleted the session, or embedded more of the block, while we were at it.
_KEEP = """
    INSERT INTO vectors (block, stamp, checksum, data) SELECT ?1, ?2, ?3, ?4 FROM blocks WHERE block = ?1
    ON CONFLICT (block) DO UPDATE SET stamp = ?2, checksum = ?3, data = ?4 WHERE length(data) < length(?4)
"""
_NEWER = """
    SELECT v.block, v.stamp, v.checksum, v.data FROM vectors v JOIN blocks b ON b.block = v.block
    WHERE v.stamp > ? AND b.owner = ? AND v.block >= ? ORDER BY v.stamp
"""
_BELOW = """
    SELECT v.block, v.stamp, v.checksum, v.data FROM vectors v JOIN blocks b ON b.block = v.block
    WHERE v.block < ? AND b.owner = ? ORDER BY v.block DESC LIMIT ?
"""
_HELD = """
    SELECT count(*) FROM vectors v INDEXED BY vectors_by_stamp JOIN blocks b ON b.block = v.block
    WHERE b.owner = ? AND v.block >= ?
"""
_NEXT_STAMP = """
    INSERT INTO state_meta (key, value) VALUES ('vectors_stamp', 1)
    ON CONFLICT (key) DO UPDATE SET value = value + 1 RETURNING value
"""
_FINISHED = """
    DELETE FROM vectors_waiting WHERE session = ?1 AND (SELECT indexed_id FROM sessions WHERE key = ?1) = ?2
"""
assert (BLOCK, BLOCK_BITS) == (32, 5)  # noqa: S101 - the statements above spell the block size out


class LocalVectors:
    """Embeddings in SQLite."""

    def __init__(self, database: Database, owner: int) -> None:
        self._database = database
        self._owner = owner
        add_vectors(database)

    def start_over_unless(self, made_by: str) -> None:
        if (self._database.row("SELECT value FROM state_meta WHERE key = ?", (_MADE_BY,)) or [None])[0] == made_by:
            return
        with self._database.writing() as connection:
            connection.execute("DELETE FROM vectors")
            connection.execute("INSERT OR IGNORE INTO vectors_waiting SELECT key FROM sessions WHERE indexed_id > 0")
            connection.execute("INSERT OR REPLACE INTO state_meta (key, value) VALUES (?, ?)", (_MADE_BY, made_by))

    def waiting(self, most: int) -> list[tuple[int, int]]:
        return self._database.rows(_WAITING, (self._owner, most))

    def waits_for_many(self, many: int) -> bool:
        waiting = "SELECT count(*) FROM (SELECT 1 FROM vectors_waiting LIMIT ?)"
        return bool(self._database.row(waiting, (many,))[0] == many)

    def missing(self, session: int, reached: int, dimensions: int) -> list[tuple[int, int]]:
        values = {"session": session, "reached": reached, "dimensions": dimensions}
        return self._database.rows(_MISSING, values)

    def texts(self, first: int, last: int) -> list[tuple[int, str, str | None]]:
        return self._database.rows("SELECT id, role, content FROM messages WHERE id BETWEEN ? AND ?", (first, last))

    def keep(self, made: Sequence[tuple[int, bytes]], finished: Sequence[tuple[int, int]]) -> None:
        with self._database.writing() as connection:
            stamp = connection.execute(_NEXT_STAMP).fetchall()[0][0]
            rows = [(block, stamp, zlib.crc32(data, block), data) for block, data in made]
            connection.executemany(_KEEP, rows)
            connection.executemany(_FINISHED, finished)

    def newer(self, stamp: int, oldest: int) -> list[tuple[int, int, int, bytes]]:
        return self._database.rows(_NEWER, (stamp, self._owner, oldest))

    def below(self, block: int, most: int) -> list[tuple[int, int, int, bytes]]:
        return self._database.rows(_BELOW, (block, self._owner, most))

    def count(self, oldest: int) -> int:
        return int(self._database.row(_HELD, (self._owner, oldest))[0])

    def forget(self, blocks: Sequence[int]) -> None:
        damaged = [(block,) for block in blocks]
        with self._database.writing() as connection:
            connection.executemany(
                "INSERT OR IGNORE INTO vectors_waiting SELECT session FROM blocks WHERE block = ?", damaged
            )
            connection.executemany("DELETE FROM vectors WHERE block = ?", damaged)
