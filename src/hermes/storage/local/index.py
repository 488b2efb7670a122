"""Keeps the full-text index up to date with the messages, in small batches and by explicit statements."""

from __future__ import annotations

import contextlib
import zlib
from array import array
from itertools import islice
from typing import TYPE_CHECKING

import apsw

from hermes.base.errors import DamagedFile
from hermes.base.words import searchable
from hermes.storage.local.database import REPAIR, all_rows
from hermes.storage.local.schema import AUTOMERGE, NO_CRISIS, add_vectors, set_option
from hermes.storage.local.sqlite_pages import varint
from hermes.storage.ports import BATCH, BULK_BATCH, SAID
from hermes.storage.records import BLOCK, BLOCK_BITS, REWOUND, STATE_BITS, called, said

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hermes.storage.local.database import Database


LOCAL_OWNER = 1
_MANY = 500  # messages indexed at once, as by an import
_RARE = 2_000  # messages with a word; for a commoner word, they are looked up only where they are needed
# So many messages with a word are counted, and the rest estimated: 0.9 ms instead of 20.7 for a word in every message.
_COUNTED = 20_000
_MOST_SEGMENTS = 16
# Private-use characters cannot be typed by accident and are letters to the tokenizer. Only other owners' messages
# carry them, so a store of one person pays nothing.
FOREIGN = "\ue000foreign"

Indexable = tuple[int, str, int, str | None, str | None, str | None]  # id, role, state, content, name, tool calls

_IN_BOTH = """
    SELECT rowid FROM messages_fts WHERE messages_fts MATCH ? UNION SELECT rowid FROM tools_fts WHERE tools_fts MATCH ?
    ORDER BY 1 """
_LENGTHS = "SELECT id, sz FROM carray(?) CROSS JOIN messages_fts_docsize ON id = value"  # as FTS5 keeps them
_WAITING = "SELECT key, owner, indexed_id, last_id FROM sessions WHERE waiting = 1 ORDER BY key LIMIT ?"
_ROWS_OF_SESSION = """
    SELECT m.id, m.role, m.state, m.content, m.name, m.tool_calls
    FROM blocks b CROSS JOIN messages m ON m.id BETWEEN (b.block << 5) AND (b.block << 5) + 31
    WHERE b.session = ? AND b.block >= ? AND m.id > ? ORDER BY m.id LIMIT ?
"""
_REACHED = "UPDATE sessions SET indexed_id = ?1, waiting = ?1 < last_id WHERE key = ?2"
assert (BLOCK, BLOCK_BITS) == (32, 5)  # noqa: S101 - the statement above spells the block size out


class FullText:
    """The full-text index of one owner: three FTS5 tables, asked with FTS5 expressions."""

    def __init__(self, database: Database, owner: int) -> None:
        self._database = database
        self._owner = owner
        self._listed: set[str] = set()
        self._only_owner = ""
        self._held: dict[tuple[str, str], list[int]] = {}  # who holds a rare word, newest first, during one search

    def update(self, *, batch: int, most: int | None = None) -> int:
        return index_waiting(self._database, batch=batch, most=most)

    def is_level(self) -> bool:
        """Also in a file of an older Hermes; looks at every session."""
        waiting = "SELECT 1 FROM sessions WHERE owner = ? AND indexed_id < last_id LIMIT 1"
        return not self._database.row(waiting, (self._owner,))

    def refresh(self) -> None:
        self._held.clear()
        others = self._database.row("SELECT count(*) FROM owners")[0] > 1
        if not others:
            self._only_owner = ""
        elif self._owner == LOCAL_OWNER:
            self._only_owner = f' NOT "{FOREIGN}"'
        else:
            self._only_owner = f' AND "{owner_word(self._owner)}"'

    def expect(self, **_: object) -> None:
        """Each question is quick."""

    def matching(self, table: str, expression: str, limit: int) -> list[int]:
        if (table, expression) in self._held:
            return self._held[table, expression][:limit]
        matching = f"SELECT rowid FROM {table}_fts WHERE {table}_fts MATCH ? ORDER BY rowid DESC LIMIT ?"  # noqa: S608 - our table names
        return self._database.column(matching, (f"({expression}){self._only_owner}", limit))

    def frequencies(self, table: str, expressions: Sequence[str]) -> list[int]:
        """Counts messages, and keeps the ids for a rare word, because the search asks for them next.

        For a very common word, the newest are counted, and the rest are assumed to be as dense.
        """
        return (
            [self._frequency(table, each) for each in expressions] if self._totals(table)[0] else [0] * len(expressions)
        )

    def _frequency(self, table: str, expression: str) -> int:
        found = self.matching(table, expression, _RARE)
        if len(found) < _RARE:
            self._held[table, expression] = found
            return len(found)
        matching = f"SELECT rowid FROM {table}_fts WHERE {table}_fts MATCH ? ORDER BY rowid DESC LIMIT {_COUNTED}"  # noqa: S608 - our names
        counting = f"SELECT count(*), max(rowid), min(rowid) FROM ({matching})"  # noqa: S608 - the statement above
        count, newest, oldest = self._database.row(counting, (f"({expression}){self._only_owner}",))
        return int(count if count < _COUNTED else count * newest / max(1, newest - oldest))

    def lengths(self, message_ids: Sequence[int]) -> dict[int, int]:
        rows = self._database.rows(_LENGTHS, (apsw.carray(array("q", message_ids)),)) if message_ids else []
        return {message_id: size[0] if len(size) == 1 else varint(size, 0)[0] for message_id, size in rows}

    def in_order(self, said: str, tools: str, *, oldest: bool, first: int, most: int) -> Iterator[list[int]]:
        order = "ASC" if oldest else "DESC"
        values = [f"({expression}){self._only_owner}" for expression in (said, tools)]
        with self._database.translated():
            cursor = self._database.connection.execute(_IN_BOTH + order, values)
            try:
                while chunk := [message_id for (message_id,) in islice(cursor, first)]:
                    yield chunk
                    first = min(most, 2 * first)
            finally:
                cursor.close()

    def words_from(self, table: str, start: str, end: str, limit: int) -> list[str]:
        if table not in self._listed:
            with self._database.lock, self._database.translated():
                self._database.connection.execute(
                    f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.words_of_{table}"
                    f" USING fts5vocab('main', '{table}_fts', 'row')"
                )
            self._listed.add(table)
        listed = f"SELECT term FROM temp.words_of_{table} WHERE term >= ? AND term < ? LIMIT ?"  # noqa: S608 - our tables
        return self._database.column(listed, (start, end, limit))

    def totals(self) -> tuple[int, int]:
        return self._totals(SAID)

    def _totals(self, table: str) -> tuple[int, int]:
        """As FTS5 itself keeps them."""
        row = self._database.row(f"SELECT block FROM {table}_fts_data WHERE id = 1")  # noqa: S608 - our table names
        if not row or not row[0]:
            return 0, 0
        messages, at = varint(row[0], 0)
        words, _ = varint(row[0], at) if at < len(row[0]) else (0, at)
        return messages, words

    def blocks_after(self, block: int) -> list[tuple[int, int, int]]:
        newer = "SELECT block, iif(owner = ?, session, 0), first_place FROM blocks WHERE block > ? ORDER BY block"
        return self._database.rows(newer, (self._owner, block))


def owner_word(owner: int) -> str:
    """The word in the index that marks messages of another owner than the first."""
    return f"\ue000owner{owner}"


def index_waiting(database: Database, *, batch: int = BATCH, most: int | None = None) -> int:
    """Indexes all waiting messages or about `most`, `batch` in each transaction; returns how many were indexed."""
    if database.only_read:
        return 0
    done = 0
    while (most is None or done < most) and database.row("SELECT 1 FROM sessions WHERE waiting = 1 LIMIT 1"):
        with database.writing(synced=False) as connection:
            step = _index_batch(connection, batch)
        if not step:
            break
        done += step
    return done


def _index_batch(connection: apsw.Connection, batch: int) -> int:
    left = batch
    words = WaitingWords()
    reached: list[tuple[int, int]] = []
    for key, owner, indexed, last in all_rows(connection, _WAITING, (batch,)):
        rows = all_rows(connection, _ROWS_OF_SESSION, (key, indexed >> BLOCK_BITS, indexed, left))
        try:
            words.add(owner, rows)
        except ValueError as error:  # packed JSON that does not open: no message of ours
            raise DamagedFile(f"session row {key} holds a message that cannot be read; {REPAIR}") from error
        reached.append((rows[-1][0] if len(rows) == left else last, key))
        left -= max(1, len(rows))
        if left <= 0:
            break
    words.store(connection)
    connection.executemany(_REACHED, reached)
    return batch - left


class WaitingWords:
    """Words that wait to be indexed: prepared first, then added to each table at once."""

    def __init__(self) -> None:
        # Ids and texts in separate lists: the garbage collector would walk thousands of pairs again and again.
        self._spoken: tuple[list[int], list[str]] = ([], [])
        self._tools: tuple[list[int], list[str]] = ([], [])

    def add(self, owner: int, rows: Iterable[Indexable]) -> None:
        """Prepares the words of rows of one owner; rewound messages are left out."""
        mark = "" if owner == LOCAL_OWNER else f" {FOREIGN} {owner_word(owner)}"
        (spoken, sentences), (tools, outputs) = self._spoken, self._tools
        for message_id, role, state, content, name, calls in rows:
            if state & STATE_BITS == REWOUND:
                continue
            text = content if content and name is None and content[0] != "\x00" else said(content, name)
            if role == "tool":
                outputs.append(searchable(text) + mark)
                tools.append(message_id)
                continue
            if text:
                sentences.append(searchable(text) + mark)
                spoken.append(message_id)
            if calls:
                outputs.append(searchable(called(calls)) + mark)
                tools.append(message_id)

    def store(self, connection: apsw.Connection) -> None:
        """Adds the prepared words to the index."""
        for table, (ids, texts) in (("messages_fts", self._spoken), ("tools_fts", self._tools)):
            if ids:
                added = f"INSERT INTO {table} (rowid, words) VALUES (?, ?)"  # noqa: S608 - our own names
                with _merged_later(connection, table) if len(ids) >= _MANY else contextlib.nullcontext():
                    connection.executemany(added, zip(ids, texts, strict=True))


@contextlib.contextmanager
def _merged_later(connection: apsw.Connection, table: str) -> Iterator[None]:
    """Leaves what is indexed inside as a segment of its own: merging all once, at the end, costs less than by and by.

    The setting is put back before the transaction ends, so no other process ever sees it. With very many segments
    they are merged as usual, since nobody may come to do it at the end.
    """
    if segments(connection, table) >= _MOST_SEGMENTS:
        yield
        return
    set_option(connection, table, "automerge", 0)
    # In a file of an older Hermes this limit is low, and one append would later merge all of them at a stroke.
    set_option(connection, table, "crisismerge", NO_CRISIS)
    yield
    connection.execute(f"INSERT INTO {table} ({table}) VALUES ('flush')")  # noqa: S608 - our own names
    set_option(connection, table, "automerge", AUTOMERGE)


def segments(connection: apsw.Connection, table: str) -> int:
    """How many segments the index has: the second number of the record in which FTS5 describes itself."""
    [(record,)] = all_rows(connection, f"SELECT block FROM {table}_data WHERE id = 10")  # noqa: S608 - our own names
    # Behind a counter, the mark of this layout and the number of levels, which are never many. FTS5 has at most 2000
    # segments: seven bits to a byte, and the highest bit says that another byte follows.
    first, second = record[9:11]
    return int(first if first < 0x80 else (first & 0x7F) << 7 | second)  # noqa: PLR2004


def complete(database: Database) -> str:
    """Indexes all messages and titles of a database that was just filled; what is wrong with it, "ok" for nothing."""
    index_waiting(database, batch=BULK_BATCH)
    with database.writing() as connection:
        for row in all_rows(connection, "SELECT key, owner, title FROM sessions WHERE title IS NOT NULL"):
            set_title(connection, *row)
    return str(database.row("PRAGMA integrity_check(1)")[0])


def remove_rows(connection: apsw.Connection, message_ids: Iterable[int]) -> None:
    """Removes messages from the index."""
    values = [(message_id,) for message_id in message_ids]
    connection.executemany("DELETE FROM messages_fts WHERE rowid = ?", values)
    connection.executemany("DELETE FROM tools_fts WHERE rowid = ?", values)


def set_title(connection: apsw.Connection, session: int, owner: int, title: str | None) -> None:
    """Replaces the title of a session in the index."""
    connection.execute("DELETE FROM titles_fts WHERE rowid = ?", (session,))
    if not title:
        return
    mark = "" if owner == LOCAL_OWNER else f" {FOREIGN} {owner_word(owner)}"
    connection.execute("INSERT INTO titles_fts (rowid, words) VALUES (?, ?)", (session, searchable(title) + mark))


# Vectors of meaning in `state.db`: the rows of one block of messages are one row of the table.

_MADE_BY = "vectors_made_by"
_TO_EMBED = """
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
        return self._database.rows(_TO_EMBED, (self._owner, most))

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
