"""The local engine's conversations: every session and message of one owner in one SQLite file.

A compressed conversation continues in a new session; only its newest one is listed. A branch is a conversation of its
own; a delegated task belongs to the conversation that started it and is never listed.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from array import array
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import apsw

from hermes.base.errors import DamagedFile, NotFound, StorageError
from hermes.storage.files import Folder
from hermes.storage.images import IMAGES, ImageFiles
from hermes.storage.local.copies import LocalCopies
from hermes.storage.local.damage import (
    UNREADABLE,
    careful_row,
    details_seal,
    identity_holds,
    is_shaped,
    seal,
    select,
    texts_hold,
)
from hermes.storage.local.database import REPAIR, Database, all_rows, one_row
from hermes.storage.local.index import FullText, remove_rows, set_title
from hermes.storage.local.schema import WITH_IMAGES, add_images, migrate
from hermes.storage.local.upkeep import LocalMaintenance, LocalSummaries
from hermes.storage.local.vectors import LocalVectors
from hermes.storage.locks import FileLock, is_held
from hermes.storage.ports import EVERYTHING
from hermes.storage.records import (
    BLOCK,
    BLOCK_BITS,
    COLUMNS,
    COUNTERS,
    KINDS,
    PLAIN,
    REWOUND,
    STATE_BITS,
    Created,
    Session,
    base_title,
    checksum,
    clean_title,
    decode,
    new_id,
    numbered_title,
    prepared,
    runs,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from hermes.storage.ports import Durability
    from hermes.storage.records import Row, StoredMessage

_FIELDS = (
    "key, id, source, title, model, parent, root, kind, archived, started_at, last_active, ended_at, end_reason, "
    "last_id, message_count, tool_call_count, preview, project, cwd, input_tokens, output_tokens, cache_read_tokens, "
    "cache_write_tokens, reasoning_tokens, api_call_count, estimated_cost_usd, actual_cost_usd, activity"
)
_SEALED = f"{_FIELDS}, seal"
# As AUTOINCREMENT would count, but known before the row is written.
_NEXT_KEY = """
    SELECT 1 + max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'sessions'), 0),
        coalesce((SELECT max(key) FROM sessions), 0))
"""


_PREFIXED = ", ".join(f"m.{column}" for column in COLUMNS.split(", "))
_OF_SESSION = f"""
    SELECT b.first_place + (m.id & 31), {_PREFIXED}
    FROM blocks b CROSS JOIN messages m ON m.id BETWEEN max(b.block << 5, :low) AND min((b.block << 5) + 31, :high)
    WHERE b.owner = :owner AND b.session = :session AND b.block BETWEEN :first AND :last
        AND ((m.state & 3) <> 2 OR :rewound)
        AND (:spoken = 0 OR (m.role IN ('user', 'assistant') AND m.content IS NOT NULL))
    ORDER BY b.block {{order}}, m.id {{order}} LIMIT :limit
"""  # noqa: S608 - column names are ours
_BLOCKS_OF_SESSION = """
    SELECT block, first_place FROM blocks
    WHERE owner = :owner AND session = :session AND block BETWEEN :first AND :last ORDER BY block
"""
_OLDEST_FIRST = _OF_SESSION.format(order="ASC")
_NEWEST_FIRST = _OF_SESSION.format(order="DESC")
_TEXTS = """
    SELECT id, CAST(concat_ws(' ', name, content, tool_calls) AS BLOB) FROM carray(?) CROSS JOIN messages ON id = value
"""
_BY_IDS = f"SELECT {COLUMNS} FROM carray(?) CROSS JOIN messages ON id = value"  # noqa: S608 - column names are ours


_NEW_BLOCK = "INSERT INTO blocks (owner, session, first_place) VALUES (?, ?, ?)"
_INSERT = "INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
# Only what changes is named: naming a column writes the pages of its indexes, even when it is set to what it was.
_COUNT_IN = """
    UPDATE sessions SET last_id = ?, message_count = message_count + ?, tool_call_count = tool_call_count + ?,
        words = words + ?, last_active = max(last_active, ?), preview = ?, seal = ?
    WHERE key = ?
"""
_COUNT_IN_FIRST = _COUNT_IN.replace("SET", "SET waiting = 1,")  # a trigger would do the same, and take longer
_NOTE_ACTIVITY = "UPDATE sessions SET activity = ? WHERE key = ?"
_TO_APPEND_TO = """
    SELECT key, last_id, waiting, activity, source, title, preview, seal FROM sessions WHERE owner = ? AND id = ?
"""
_END = "UPDATE sessions SET ended_at = ?, end_reason = ? WHERE key = ? AND ended_at IS NULL RETURNING key"
_SET_STATE = """
    UPDATE messages SET state = (state & ~3) | :state WHERE id BETWEEN :first AND :last AND (state & 3) < :state
"""
_NEXT_SESSIONS = "SELECT key FROM sessions WHERE owner = ? AND key > ? ORDER BY key LIMIT ?"
_SEEN_BEFORE = """
    SELECT count(*) FROM blocks b CROSS JOIN messages m ON m.id BETWEEN (b.block << 5) AND (b.block << 5) + 31
    WHERE b.owner = ? AND b.session = ? AND b.block <= ? AND m.id < ? AND (m.state & 3) <> 2
"""
_ANY = """
    SELECT 1 FROM blocks b CROSS JOIN messages m ON m.id BETWEEN (b.block << 5) AND (b.block << 5) + 31
    WHERE b.owner = ? AND b.session = ? AND {wanted} LIMIT 1
"""
_ANY_COMPACTED = _ANY.format(wanted="(m.state & 3) = 1")  # the state stands before the text, so that none is read
_ANY_POINTER = _ANY.format(wanted="(instr(m.extra, '\"compaction\":true') OR instr(m.extra, '\"copy_of\":'))")
_SPANS = """
    SELECT block << 5, (block << 5) + 31, session FROM blocks
    WHERE owner = ? AND block BETWEEN ? AND ? ORDER BY block LIMIT ?
"""
_LATER = """
    SELECT m.id FROM blocks b CROSS JOIN messages m ON m.id BETWEEN (b.block << 5) AND (b.block << 5) + 31
    WHERE b.session = ? AND b.block >= ? AND m.id > ?
"""
_KEEP_META = "INSERT OR REPLACE INTO state_meta (key, value) VALUES (?, ?)"
_IMPORT_LOCK = ".import.lock"


class LocalConversations:
    """The conversations of one owner; every statement names the owner, so nobody else's can be reached."""

    def __init__(self, database: Database, owner: str, owner_key: int) -> None:
        self.database = database
        self.owner = owner
        self._owner = owner_key
        self.index = FullText(database, owner_key)
        self.summaries = LocalSummaries(database, owner_key)
        self.maintenance = LocalMaintenance(database, owner_key)
        self.undo = LocalUndo(self, owner_key)
        self.copies = LocalCopies(database, owner_key)

    @classmethod
    def open(
        cls, path: str, *, owner: str, durability: Durability, wait: float | None = None, reading: bool = False
    ) -> Self:
        database = Database.open(path, durability=durability, wait=wait, reading=reading)
        try:
            migrate(database)
            return cls(database, owner, owner_key(database, owner))
        except BaseException:
            database.close()
            raise

    @cached_property
    def images(self) -> ImageFiles:
        return ImageFiles(self.database.path)

    @property
    def place(self) -> str:
        return self.database.path

    @property
    def journal_mode(self) -> str:
        return self.database.journal

    @property
    def only_read(self) -> bool:
        return self.database.only_read

    @property
    def damage(self) -> str | None:
        return self.database.damage

    @property
    def in_transaction(self) -> bool:
        return self.database.connection.in_transaction

    def is_replaced(self) -> bool:
        return self.database.is_replaced()

    def mark_damaged(self, seen: str) -> None:
        self.database.mark_damaged(seen)

    def vectors(self) -> LocalVectors:
        return LocalVectors(self.database, self._owner)

    def transaction(self, *, synced: bool = True) -> AbstractContextManager[apsw.Connection]:
        return self.database.writing(synced=synced)

    def reading(self) -> AbstractContextManager[object]:
        return self.database.lock

    def waiting_at_most(self, seconds: float) -> AbstractContextManager[object]:
        return self.database.waiting_at_most(seconds)

    def sync(self) -> None:
        self.database.sync()

    def close(self) -> None:
        self.database.close()

    # --- sessions ----------------------------------------------------------------------------------------------------

    def create(
        self,
        *,
        source: str,
        title: str | None,
        started_at: float | None,
        session_id: str | None,
        parent: Session | None,
        kind: str | None,
        more: Mapping[str, Any],
    ) -> Created:
        with self.database.writing() as connection:
            now = time.time()
            started = now if started_at is None else float(started_at)
            name = session_id or new_id(now)
            if parent is not None:
                kind = kind or ("delegate" if source in ("subagent", "tool") else "compression")
            if kind is not None and kind not in KINDS:
                raise ValueError(f"kind is {kind!r}; it must be one of {', '.join(KINDS)}")
            clean = self._free_title(connection, title)
            key = int(one_row(connection, _NEXT_KEY)[0])
            root = parent.root if parent is not None and kind != "branch" else key
            activity = self._next_activity(connection)
            columns = {
                "key": key,
                "owner": self._owner,
                "id": name,
                "source": source,
                "title": clean,
                "started_at": started,
                "last_active": started,
                "parent": parent.key if parent else None,
                "root": root,
                "kind": kind,
                "listed": 0 if kind == "delegate" else 1,
                "activity": activity,
                "seal": seal(key, self._owner, name, source, clean, None),
                **{column: value for column, value in more.items() if column in PLAIN and value is not None},
            }
            made = f"INSERT INTO sessions ({', '.join(columns)}) VALUES ({', '.join(['?'] * len(columns))})"  # noqa: S608 - ours
            if not all_rows(
                connection, f"{made} ON CONFLICT (owner, id) DO NOTHING RETURNING key", tuple(columns.values())
            ):
                raise StorageError(f"there is already a session {name!r}; leave session_id out to get a new one")
            if kind == "compression" and parent is not None:
                self._list_only(connection, key, root)
            _add_details(connection, key, more)
            if clean:
                set_title(connection, key, self._owner, clean)
            return Created(name, key, clean)

    def _list_only(self, connection: apsw.Connection, newest: int, root: int) -> None:
        """Of a conversation with several parts the newest stands in the list."""
        connection.execute(
            # "root <> key" is what the index holds: without it every session of the owner is walked
            "UPDATE sessions SET listed = 0 WHERE root = ? AND root <> key AND key <> ? AND owner = ?",
            (root, newest, self._owner),
        )
        connection.execute("UPDATE sessions SET listed = 0 WHERE key = ? AND owner = ?", (root, self._owner))

    def find(self, session_id: str) -> Session | None:
        return self._first("FROM sessions WHERE owner = ? AND id = ?", (self._owner, session_id))

    def by_keys(self, keys: Sequence[int]) -> dict[int, Session]:
        # "+" keeps SQLite from walking all sessions of the owner to find a few of them
        wanted = "FROM sessions WHERE +owner = ? AND key IN (SELECT value FROM json_each(?))"
        return {session.key: session for session in self._all(wanted, (self._owner, json.dumps(list(keys))))}

    def resolve(self, name: str) -> Session | None:
        """By id, else by title; the title of a conversation that went on under numbers is its newest part."""
        found = self.find(name)
        if found is not None:
            return found
        title = clean_title(name)
        if title is None:
            return None
        exact = self._first("FROM sessions WHERE owner = ? AND title = ?", (self._owner, title))
        return self._first(
            # "$" follows "#", so the range holds exactly the titles that start with the name and " #"
            "FROM sessions WHERE owner = ?1 AND (title = ?2 OR (title > ?2 || ' #' AND title < ?2 || ' $'))"
            " AND (?3 IS NULL OR root = ?3) ORDER BY activity DESC LIMIT 1",
            (self._owner, title, exact.root if exact else None),
        )

    def resembling(self, words: str, limit: int) -> list[Session]:
        """Conversations whose id begins with the words or whose title holds them, the last used first."""
        return self._all(
            "FROM sessions WHERE owner = ?1 AND listed = 1"
            " AND (instr(id, ?2) = 1 OR instr(lower(title), lower(?2))) ORDER BY activity DESC LIMIT ?3",
            (self._owner, words, limit),
        )

    def listing(
        self, *, limit: int, offset: int, source: str | None, project: str | None, archived: bool, begun: bool
    ) -> list[Session]:
        """One row per conversation, the most recently used first; by order of arrival, not by the clock.

        With `begun` only those in which something was said, or which somebody named.
        """
        where = ["owner = ?", "listed = 1", "archived = 1" if archived else "archived = 0"]
        if begun:
            where.append("(last_id > 0 OR title IS NOT NULL)")
        values: list[Any] = [self._owner]
        for column, value in (("source", source), ("project", project)):
            if value is not None:
                where.append(f"{column} = ?")
                values.append(value)
        wanted = f"FROM sessions WHERE {' AND '.join(where)} ORDER BY activity DESC LIMIT ? OFFSET ?"
        return self._all(wanted, (*values, limit, offset))

    def lineage(self, session: Session) -> list[Session]:
        """Every session of the conversation, oldest first, delegated ones included."""
        # `+owner` keeps SQLite from reading every session of the owner by the index of ids.
        later = "SELECT key FROM sessions WHERE root = ? AND root <> key"
        wanted = f"FROM sessions WHERE +owner = ? AND key IN (SELECT ? UNION ALL {later}) ORDER BY key"
        return self._all(wanted, (self._owner, session.root, session.root))

    def tip(self, session: Session) -> Session:
        """Where the conversation goes on: the newest of its compressed continuations, at any length of the chain."""
        later = "FROM sessions WHERE +owner = ? AND root = ? AND root <> key AND kind = 'compression'"
        return self._first(f"{later} ORDER BY key DESC LIMIT 1", (self._owner, session.root)) or session

    def details(self, session: Session) -> dict[str, Any]:
        wanted = "FROM session_details WHERE session = ?"
        rows = select(self.database, "system_prompt, details, checksum", wanted, (session.key,))
        if not rows:
            return {}
        row = rows[0]
        if details_seal(session.key, row[0], row[1]) != row[2]:
            self.database.mark_damaged(f"the details of session {session.id} do not match their checksum")
            return {}
        stored: dict[str, Any] = json.loads(row[1]) if row[1] else {}
        return stored if row[0] is None else {"system_prompt": row[0], **stored}

    def keys_after(self, key: int, most: int) -> list[int]:
        return self.database.column(_NEXT_SESSIONS, (self._owner, key, most))

    def set_details(self, session: Session, prompt: str, details: Mapping[str, Any]) -> None:
        row = (session.key, prompt, json.dumps(details) if details else None)
        with self.database.writing() as connection:
            connection.execute("INSERT OR REPLACE INTO session_details VALUES (?, ?, ?, ?)", (*row, details_seal(*row)))

    def rename(self, session: Session, title: str | None) -> str | None:
        with self.database.writing() as connection:
            kept = self._free_title(connection, title, holder=session.key)
            sealed = seal(session.key, self._owner, session.id, session.source, kept, session.preview)
            connection.execute("UPDATE sessions SET title = ?, seal = ? WHERE key = ?", (kept, sealed, session.key))
            set_title(connection, session.key, self._owner, kept)
        return kept

    def update(self, session: Session, values: Mapping[str, Any]) -> None:
        with self.database.writing() as connection:
            for name, value in values.items():
                change = f"coalesce({name}, 0) + ?" if name in COUNTERS else "?"
                connection.execute(f"UPDATE sessions SET {name} = {change} WHERE key = ?", (value, session.key))  # noqa: S608 - the caller checks names

    def end(self, session: Session, reason: str, at: float | None = None) -> bool:
        with self.database.writing() as connection:
            when = time.time() if at is None else at
            return bool(all_rows(connection, _END, (when, reason, session.key)))

    def delete(self, key: int) -> None:
        with self.database.writing() as connection:
            before = self._pictured(connection)
            delete_session(connection, self._owner, key)
            removed = before != self._pictured(connection)
        if removed:
            self.remove_unused_images()

    def _free_title(self, connection: apsw.Connection, title: str | None, *, holder: int = 0) -> str | None:
        """The title itself, or with the next free ` #N` when another session already has it."""
        clean = clean_title(title)
        if clean is None:
            return None
        base = base_title(clean)
        taken = {
            name
            for (name,) in connection.execute(
                "SELECT title FROM sessions WHERE owner = ?1 AND key <> ?3"
                " AND (title = ?2 OR (title > ?2 || ' #' AND title < ?2 || ' $'))",
                (self._owner, base, holder),
            )
        }
        if clean not in taken:
            return clean
        free = numbered_title(base, taken)
        return free if free.startswith(f"{base} #") else self._free_title(connection, free, holder=holder)

    def _next_activity(self, connection: apsw.Connection) -> int:
        newest = "SELECT max(activity) FROM sessions WHERE owner = ? AND listed = 1 AND archived = 0"
        return int(one_row(connection, newest, (self._owner,))[0] or 0) + 1

    def _first(self, wanted: str, values: tuple[Any, ...]) -> Session | None:
        found = self._all(wanted, values)
        return found[0] if found else None

    def _all(self, wanted: str, values: tuple[Any, ...]) -> list[Session]:
        """The sessions whose rows are believed; one that may be somebody else's is left out until it is repaired."""
        rows = select(self.database, _SEALED, wanted, values)
        return [session for row in rows if (session := self._believed(row)) is not None]

    def _believed(self, row: tuple[Any, ...]) -> Session | None:
        session, stored = Session(*row[:-1]), row[-1]
        if not identity_holds(stored, session.key, self._owner, session.id):
            self.database.mark_damaged(f"session row {session.key} does not match its seal")
            return None
        if texts_hold(stored, session.key, session.source, session.title, session.preview):
            return session
        self.database.mark_damaged(f"what session {session.id} shows does not match its seal")
        return session._replace(source="unknown", title=None, preview=None, damaged=True)

    # --- messages ----------------------------------------------------------------------------------------------------

    def append(self, session_id: str, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        with_images = any(message.get(IMAGES) for message in messages)
        if with_images:
            add_images(self.database)
        with self.database.writing() as connection:
            if with_images:  # under the lock, so that nobody removes one that is about to be named
                messages = self.images.put(messages)
            return self._append(connection, session_id, messages)

    def _append(self, connection: apsw.Connection, session_id: str, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        found = one_row(connection, _TO_APPEND_TO, (self._owner, session_id))
        if found is None:
            raise NotFound(f"there is no session {session_id!r}; create_session makes one")
        key, last_id, waiting, activity, source, title, preview, sealed = found
        ids = next_ids(connection, self._owner, key, last_id, len(messages))
        batch = prepared(ids, messages, key, now=time.time(), preview=preview)
        connection.executemany(_INSERT, batch.rows)
        if batch.preview != preview:
            sealed = seal(key, self._owner, session_id, source, title, batch.preview)
        newest = self._next_activity(connection)
        if activity != newest - 1:  # else it was the last one used already
            connection.execute(_NOTE_ACTIVITY, (newest, key))
        connection.execute(
            _COUNT_IN if waiting else _COUNT_IN_FIRST,
            (ids[-1], len(ids), batch.calls, batch.words, batch.newest, batch.preview, sealed, key),
        )
        return ids

    def session_key(self, message_id: int) -> int | None:
        row = self.database.row(
            "SELECT session FROM blocks WHERE block = ? AND owner = ?", (message_id >> BLOCK_BITS, self._owner)
        )
        return int(row[0]) if row else None

    def rows(self, message_ids: Iterable[int]) -> dict[int, Row]:
        """Rows by id for the search, which has already seen that they are the owner's."""
        wanted = array("q", message_ids)
        if not wanted:
            return {}
        with self.database.lock:
            try:
                rows: list[Row] = all_rows(self.database.connection, _BY_IDS, (apsw.carray(wanted),))
            except (*UNREADABLE, apsw.SQLError) as error:  # a statement of ours fails where the schema is damaged
                self.database.mark_damaged(str(error))
                rows = [row for message_id in wanted if (row := careful_row(self.database, message_id)) is not None]
        return {row[0]: row for row in rows if self._can_be_opened(row) and row[2] & STATE_BITS != REWOUND}

    def _can_be_opened(self, row: Row) -> bool:
        """False for a damaged row the search would stumble over; plain text waits until its checksum is looked at."""
        content, calls = row[4], row[6]
        shaped = is_shaped(row)
        if shaped and calls is None and not (content is not None and content.startswith("\x00")):
            return True
        key = self.session_key(row[0])
        if shaped and key is not None and checksum(row[:-1], key) == row[-1]:
            return True
        self.database.mark_damaged(f"the checksum of message {row[0]} does not match its text")
        return False

    def _read_around_damage(self, session: Session, values: dict[str, int], *, newest: bool) -> list[StoredMessage]:
        """One message after the other, so that a bad page costs its own messages and no others."""
        blocks = self.database.rows(_BLOCKS_OF_SESSION, values)
        ids = [
            (message_id, first + message_id - (block << BLOCK_BITS))
            for block, first in blocks
            for message_id in range(block << BLOCK_BITS, (block + 1) << BLOCK_BITS)
            if values["low"] <= message_id <= min(values["high"], session.last_id)
        ]
        found: list[StoredMessage] = []
        for message_id, place in reversed(ids) if newest else ids:
            row = careful_row(self.database, message_id)
            if row is not None and (row[2] & STATE_BITS != REWOUND or values["rewound"]):
                message = decode(row, place, session.key)
                if not values["spoken"] or (message.role in ("user", "assistant") and row[4] is not None):
                    found.append(message)
            if len(found) == values["limit"]:
                break
        return found

    def texts(self, message_ids: Sequence[int]) -> list[tuple[int, bytes]]:
        """All that stands in these messages, as it is stored, in the given order."""
        return self.database.rows(_TEXTS, (apsw.carray(array("q", message_ids)),)) if message_ids else []

    def counts(self) -> dict[str, int]:
        sessions, messages = self.database.row(
            "SELECT count(*), coalesce(sum(message_count), 0) FROM sessions WHERE owner = ?", (self._owner,)
        )
        return {"sessions": sessions, "messages": messages}

    def read(
        self,
        session: Session,
        *,
        low: int = 0,
        high: int = EVERYTHING,
        limit: int | None = None,
        newest: bool = False,
        rewound: bool = False,
        spoken: bool = False,
    ) -> list[StoredMessage]:
        values = {
            "owner": self._owner,
            "session": session.key,
            "first": low >> BLOCK_BITS,
            "last": high >> BLOCK_BITS,
            "low": low,
            "high": high,
            "rewound": int(rewound),
            "spoken": int(spoken),
            "limit": -1 if limit is None else limit,
        }
        try:
            rows = self.database.rows(_NEWEST_FIRST if newest else _OLDEST_FIRST, values)
            messages = [decode(row[1:], row[0], session.key) for row in rows]
        except (DamagedFile, TypeError, AttributeError):  # the last two: a number where a text was
            messages = self._read_around_damage(session, values, newest=newest)
        for message in messages:
            if message.damaged:
                self.database.mark_damaged(f"the checksum of message {message.id} does not match its text")
        return messages

    def place_of(self, message_id: int) -> int:
        wanted = "SELECT first_place FROM blocks WHERE block = ? AND owner = ?"
        row = self.database.row(wanted, (message_id >> BLOCK_BITS, self._owner))
        return int(row[0]) + message_id % BLOCK if row else -1

    def first_message(self, session: int) -> int | None:
        row = self.database.row("SELECT min(block) FROM blocks WHERE session = ? AND owner = ?", (session, self._owner))
        return None if row[0] is None else int(row[0]) << BLOCK_BITS

    def spans(self, low: int, high: int, most: int) -> list[tuple[int, int, int]]:
        return self.database.rows(_SPANS, (self._owner, low >> BLOCK_BITS, high >> BLOCK_BITS, most))

    def count_before(self, session: Session, message_id: int) -> int:
        values = (self._owner, session.key, message_id >> BLOCK_BITS, message_id)
        return int(self.database.row(_SEEN_BEFORE, values)[0])

    def holds_compacted(self, session: Session) -> bool:
        return bool(self.database.rows(_ANY_COMPACTED, (self._owner, session.key)))

    def holds_pointers(self, session: Session) -> bool:
        return bool(self.database.rows(_ANY_POINTER, (self._owner, session.key)))

    def set_state(self, session: Session, message_ids: Iterable[int], state: int) -> None:
        mine = sorted({i for i in message_ids if self.session_key(i) == session.key})
        with self.database.writing() as connection:
            before = connection.total_changes()
            spans = [{"state": state, "first": first, "last": last} for first, last in runs(mine)]
            connection.executemany(_SET_STATE, spans)
            changed = connection.total_changes() - before
            if state == REWOUND:
                remove_rows(connection, mine)
                connection.execute(
                    "UPDATE sessions SET message_count = message_count - ? WHERE key = ?", (changed, session.key)
                )

    def remove_unused_images(self) -> int:
        if not self.images.exist or self.database.damage is not None:
            return 0
        with self.database.writing() as connection:
            rows = connection.execute(f"SELECT extra FROM messages WHERE {WITH_IMAGES}")  # noqa: S608 - ours
            return self.images.keep_only(row[0] for row in rows)

    def _pictured(self, connection: apsw.Connection) -> int:
        """How many messages have images."""
        if not self.images.exist:
            return 0
        add_images(self.database)
        return int(one_row(connection, f"SELECT count(*) FROM messages WHERE {WITH_IMAGES}")[0])  # noqa: S608 - ours

    def start_ids_at(self, message_id: int) -> None:
        with self.database.writing() as connection:
            connection.execute(
                "INSERT INTO sqlite_sequence (name, seq) VALUES ('blocks', ?)", (message_id >> BLOCK_BITS,)
            )

    def has_others(self) -> bool:
        return bool(self.database.row("SELECT 1 FROM sessions WHERE owner <> ?", (self._owner,)))

    # --- small values ------------------------------------------------------------------------------------------------

    def get_meta(self, key: str) -> Any:
        row = self.database.row("SELECT value FROM state_meta WHERE key = ?", (f"{self._owner}:{key}",))
        return row[0] if row else None

    def set_meta(self, key: str, value: str | float | bytes | None) -> None:
        with self.database.writing() as connection:
            if value is None:
                connection.execute("DELETE FROM state_meta WHERE key = ?", (f"{self._owner}:{key}",))
            else:
                connection.execute(_KEEP_META, (f"{self._owner}:{key}", value))

    def meta_from(self, prefix: str) -> list[tuple[str, Any]]:
        first, behind = self._keys(prefix)
        rows = self.database.rows(
            "SELECT key, value FROM state_meta WHERE key >= ? AND key < ? ORDER BY key", (first, behind)
        )
        return [(key.removeprefix(first), kept) for key, kept in rows]

    def forget_meta(self, prefix: str, first: str = "") -> None:
        start, behind = self._keys(prefix)
        with self.database.writing() as connection:
            connection.execute("DELETE FROM state_meta WHERE key >= ? AND key < ?", (start + first, behind))

    def _keys(self, prefix: str) -> tuple[str, str]:
        """The keys that start so: from one up to, not including, the other."""
        start = f"{self._owner}:{prefix}"
        return start, start[:-1] + chr(ord(start[-1]) + 1)


class LocalUndo:
    """Takes back what an import added to the file."""

    def __init__(self, store: LocalConversations, owner: int) -> None:
        self._database = store.database
        self._owner = owner
        self._folder, name = os.path.split(store.place)
        self._lock = name + _IMPORT_LOCK

    def numbers(self) -> dict[str, int]:
        return dict(self._database.rows("SELECT name, seq FROM sqlite_sequence"))

    def put_numbers_back(self, numbers: Mapping[str, int]) -> None:
        with self._database.writing() as connection:
            for table, column in (("sessions", "key"), ("blocks", "block")):
                used = one_row(connection, f"SELECT max({column}) FROM {table}")[0] or 0  # noqa: S608 - names are ours
                number = max(used, numbers.get(table, 0))
                connection.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", (number, table))

    def session_row(self, session_id: str) -> dict[str, Any] | None:
        names = [row[1] for row in self._database.rows("PRAGMA table_info(sessions)")]
        row = self._database.row("SELECT * FROM sessions WHERE owner = ? AND id = ?", (self._owner, session_id))
        return None if row is None else dict(zip(names, row, strict=True))

    def cut(self, row: Mapping[str, Any]) -> None:
        last, key = row["last_id"], row["key"]
        with self._database.writing() as connection:
            later = [i for (i,) in all_rows(connection, _LATER, (key, last >> BLOCK_BITS, last))]
            remove_rows(connection, later)
            connection.executemany("DELETE FROM messages WHERE id = ?", [(i,) for i in later])
            block = last >> BLOCK_BITS
            connection.execute("DELETE FROM blocks WHERE session = ? AND block > ?", (key, block if last else -1))
            if one_row(connection, "SELECT 1 FROM sqlite_schema WHERE name = 'vectors'"):
                connection.execute("DELETE FROM vectors WHERE block = ?", (block,))
            set_title(connection, key, row["owner"], row["title"])
            # What was there before may have been indexed meanwhile, and is not to be indexed twice.
            names = [name for name in row if name not in ("key", "owner", "id", "indexed_id", "waiting")]
            put_back = ", ".join(f"{name} = ?" for name in names)
            connection.execute(
                f"UPDATE sessions SET {put_back}, indexed_id = min(indexed_id, ?) WHERE key = ?",  # noqa: S608 - names are ours
                (*(row[name] for name in names), last, key),
            )

    @contextlib.contextmanager
    def alone(self, timeout: float) -> Iterator[None]:
        with Folder.create(self._folder) as folder, FileLock(folder, self._lock, timeout=timeout):
            yield

    def is_running(self) -> bool:
        with Folder.create(self._folder) as folder:
            return is_held(folder, self._lock)


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


# Takes a conversation out of the file, with its messages and every word of them in the index.

_MESSAGES_OF = "SELECT id FROM messages WHERE id BETWEEN ? AND ?"


def delete_session(connection: apsw.Connection, owner_key: int, key: int) -> None:
    """Delegated children go with it; other children stay, and the first continuation becomes the beginning."""
    children = "SELECT key FROM sessions WHERE parent = ? AND kind = 'delegate'"
    for (child,) in all_rows(connection, children, (key,)):
        delete_session(connection, owner_key, child)
    heir = connection.execute(
        "SELECT key FROM sessions WHERE root = ? AND root <> key AND kind = 'compression' ORDER BY key LIMIT 1",
        (key,),
    ).fetchone()
    if heir:
        connection.execute("UPDATE sessions SET root = ? WHERE root = ?", (heir[0], key))
    for (block,) in all_rows(connection, "SELECT block FROM blocks WHERE session = ?", (key,)):
        first = block << BLOCK_BITS
        span = (first, first + BLOCK - 1)
        remove_rows(connection, [i for (i,) in connection.execute(_MESSAGES_OF, span)])
        connection.execute("DELETE FROM messages WHERE id BETWEEN ? AND ?", span)
    set_title(connection, key, owner_key, None)
    connection.execute("DELETE FROM sessions WHERE key = ?", (key,))


def _add_details(connection: apsw.Connection, key: int, more: Mapping[str, Any]) -> None:
    rest = {k: v for k, v in more.items() if k not in PLAIN and k != "system_prompt" and v is not None}
    if rest or more.get("system_prompt") is not None:
        details = (key, more.get("system_prompt"), json.dumps(rest) if rest else None)
        connection.execute("INSERT INTO session_details VALUES (?, ?, ?, ?)", (*details, details_seal(*details)))


assert (BLOCK, BLOCK_BITS) == (32, 5)  # noqa: S101 - the statements above spell the block size out
