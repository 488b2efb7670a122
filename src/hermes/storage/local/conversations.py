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
from typing import TYPE_CHECKING, Any, Self

import apsw

from hermes.base.errors import DamagedFile, NotFound
from hermes.storage.conversations import FIELDS, MESSAGES, Conversations, Maintenance, Summaries
from hermes.storage.files import Folder
from hermes.storage.images import IMAGES, ImageFiles
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
from hermes.storage.local.index import FullText, LocalVectors, remove_rows, segments, set_title
from hermes.storage.local.schema import WITH_IMAGES, add_images, add_summaries, migrate
from hermes.storage.locks import FileLock
from hermes.storage.ports import SAID, TITLES, TOOLS
from hermes.storage.records import (
    BLOCK,
    BLOCK_BITS,
    COLUMNS,
    REWOUND,
    STATE_BITS,
    Session,
    checksum,
    decode,
    prepared,
    runs,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hermes.storage.ports import Durability, Summary
    from hermes.storage.records import Row, StoredMessage


_BLOCKS_OF_SESSION = """
    SELECT block, first_place FROM blocks
    WHERE owner = :owner AND session = :session AND block BETWEEN :first AND :last ORDER BY block
"""
# The number that AUTOINCREMENT would give, but known before the row is written: its checksum covers the number.
_NEXT = """
    SELECT 1 + max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = '{table}'), 0),
        coalesce((SELECT max({column}) FROM {table}), 0))
"""
_NEXT_SESSION = _NEXT.format(table="sessions", column="key")
_NEXT_BLOCK = _NEXT.format(table="blocks", column="block")
_TEXTS = """
    SELECT id, CAST(concat_ws(' ', name, content, tool_calls) AS BLOB) FROM carray(?) CROSS JOIN messages ON id = value
"""
_BY_IDS = f"SELECT {COLUMNS} FROM carray(?) CROSS JOIN messages ON id = value"  # noqa: S608 - column names are ours


_INSERT = "INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
# Names only columns that change, because SQLite rewrites the indexes of every column that is named, changed or not.
_COUNT_IN = """
    UPDATE sessions SET last_id = ?, message_count = message_count + ?, tool_call_count = tool_call_count + ?,
        last_active = max(last_active, ?), preview = ?, seal = ?
    WHERE key = ?
"""
_COUNT_IN_FIRST = _COUNT_IN.replace("SET", "SET waiting = 1,")  # a trigger would do the same, but take longer
_NOTE_ACTIVITY = "UPDATE sessions SET activity = ? WHERE key = ?"
_TO_APPEND_TO = """
    SELECT key, last_id, waiting, activity, source, title, preview, seal FROM sessions WHERE owner = ? AND id = ?
"""
_SET_STATE = """
    UPDATE messages SET state = (state & ~3) | :state WHERE id BETWEEN :first AND :last AND (state & 3) < :state
"""
_ANY_POINTER = f"""
    SELECT 1 FROM {MESSAGES} WHERE b.owner = ? AND b.session = ?
        AND (instr(m.extra, '"compaction":true') OR instr(m.extra, '"copy_of":')) LIMIT 1
"""  # noqa: S608 - ours
_KEEP_META = "INSERT OR REPLACE INTO state_meta (key, value) VALUES (?, ?)"
_IMPORT_LOCK = ".import.lock"


class LocalConversations(Conversations):
    """The conversations of one owner; every statement names the owner, so no one else's can be reached."""

    database: Database
    images: ImageFiles

    def __init__(self, database: Database, owner: str, owner_key: int) -> None:
        super().__init__(database, owner, owner_key)
        self.images = ImageFiles(database.path)
        self.index = FullText(database, owner_key)
        self.summaries = LocalSummaries(database, owner_key)
        self.maintenance = LocalMaintenance(database, owner_key)
        self.imports = LocalImports(self)

    @classmethod
    def open(
        cls, path: str, *, owner: str, durability: Durability, wait: float | None = None, reading: bool = False
    ) -> Self:
        """Opens the file at `path`, creating or migrating it if necessary; `reading` opens it for reading only."""
        database = Database.open(path, durability=durability, wait=wait, reading=reading)
        try:
            migrate(database)
            return cls(database, owner, owner_key(database, owner))
        except BaseException:
            database.close()
            raise

    def vectors(self) -> LocalVectors:
        return LocalVectors(self.database, self._owner)

    # --- sessions ----------------------------------------------------------------------------------------------------

    def by_keys(self, keys: Sequence[int]) -> dict[int, Session]:
        # "+" keeps SQLite from using the index by owner, in which it would walk through all of the owner's sessions.
        wanted = "WHERE +owner = ? AND key IN (SELECT value FROM json_each(?))"
        return {session.key: session for session in self._all(wanted, (self._owner, json.dumps(list(keys))))}

    def delete(self, key: int) -> None:
        with self.database.writing():
            before = self._pictured()
            self._delete(key)
            removed = before != self._pictured()
        if removed:
            self.remove_unused_images()

    def _remove(self, key: int) -> None:
        with self.database.writing() as connection:
            for (block,) in all_rows(connection, "SELECT block FROM blocks WHERE session = ?", (key,)):
                span = (block << BLOCK_BITS, (block << BLOCK_BITS) + BLOCK - 1)
                ids = connection.execute("SELECT id FROM messages WHERE id BETWEEN ? AND ?", span)
                remove_rows(connection, [i for (i,) in ids])
                connection.execute("DELETE FROM messages WHERE id BETWEEN ? AND ?", span)
            set_title(connection, key, self._owner, None)
            connection.execute("DELETE FROM sessions WHERE key = ?", (key,))

    def _next_session(self) -> int:
        return int(self.database.row(_NEXT_SESSION)[0])

    def _next_block(self, count: int) -> int:  # noqa: ARG002 - SQLite counts when they are stored
        return int(self.database.row(_NEXT_BLOCK)[0])

    def _sealed(self, key: int, name: str, source: str, title: str | None, preview: str | None) -> dict[str, Any]:
        return {"seal": seal(key, self._owner, name, source, title, preview)}

    def _stored_details(self, key: int) -> tuple[str | None, str | None] | None:
        wanted = "FROM session_details WHERE session = ?"
        for prompt, details, sealed in select(self.database, "system_prompt, details, checksum", wanted, (key,)):
            if details_seal(key, prompt, details) == sealed:
                return prompt, details
            self.database.mark_damaged(f"the details of session row {key} do not match their checksum")
        return None

    def _put_details(self, key: int, prompt: str | None, details: str | None) -> None:
        row = (key, prompt, details)
        self.database.run("INSERT OR REPLACE INTO session_details VALUES (?, ?, ?, ?)", (*row, details_seal(*row)))

    def _put_messages(self, key: int, rows: Sequence[Row]) -> None:  # noqa: ARG002 - blocks say whose they are
        with self.database.writing() as connection:
            connection.executemany(_INSERT, rows)

    def index_title(self, key: int, title: str | None) -> None:
        with self.database.writing() as connection:
            set_title(connection, key, self._owner, title)

    def _all(self, wanted: str, values: Any) -> list[Session]:
        """The sessions whose rows match their seal; one that may belong to someone else is omitted until a repair."""
        rows = select(self.database, f"{FIELDS}, seal", f"FROM sessions {wanted}", values)
        return [session for row in rows if (session := self._believed(row)) is not None]

    def _believed(self, row: tuple[Any, ...]) -> Session | None:
        """A session from its row: None if the seal of its identity fails, and without its texts if only theirs does."""
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
            if with_images:  # under the write lock, so that no one removes an image as unused before a message names it
                messages = self.images.put(messages)
            return self._append(connection, session_id, messages)

    def _append(self, connection: apsw.Connection, session_id: str, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        found = one_row(connection, _TO_APPEND_TO, (self._owner, session_id))
        if found is None:
            raise NotFound(f"there is no session {session_id!r}; create_session makes one")
        key, last_id, waiting, activity, source, title, preview, sealed = found
        ids = self._next_ids(key, last_id, len(messages))
        batch = prepared(ids, messages, key, now=time.time(), preview=preview)
        connection.executemany(_INSERT, batch.rows)
        if batch.preview != preview:
            sealed = seal(key, self._owner, session_id, source, title, batch.preview)
        newest = self._newest_activity() + 1
        if activity != newest - 1:  # else it already is the most recently used session
            connection.execute(_NOTE_ACTIVITY, (newest, key))
        connection.execute(
            _COUNT_IN if waiting else _COUNT_IN_FIRST,
            (ids[-1], len(ids), batch.calls, batch.newest, batch.preview, sealed, key),
        )
        return ids

    def rows(self, message_ids: Iterable[int]) -> dict[int, Row]:
        """Rows by id, for a search that has checked that they are the owner's; damage costs only its own rows."""
        wanted = array("q", message_ids)
        if not wanted:
            return {}
        with self.database.lock:
            try:
                rows: list[Row] = all_rows(self.database.connection, _BY_IDS, (apsw.carray(wanted),))
            except (*UNREADABLE, apsw.SQLError) as error:  # SQLError: the schema is damaged
                self.database.mark_damaged(str(error))
                rows = [row for message_id in wanted if (row := careful_row(self.database, message_id)) is not None]
        return {row[0]: row for row in rows if self._can_be_opened(row) and row[2] & STATE_BITS != REWOUND}

    def _can_be_opened(self, row: Row) -> bool:
        """False for a damaged row at which a search would fail: one with the wrong types, or with data to be decoded.

        Plain text is let through, because its checksum is verified when the message is shown.
        """
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
        """Reads messages one by one, so that a damaged page costs only the messages on it."""
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
        return self.database.rows(_TEXTS, (apsw.carray(array("q", message_ids)),)) if message_ids else []

    def _read(self, sql: str, values: dict[str, int], session: Session, *, newest: bool) -> list[StoredMessage]:
        try:
            messages = super()._read(sql, values, session, newest=newest)
        except (DamagedFile, TypeError, AttributeError):  # the last two if damage made a number of a text
            messages = self._read_around_damage(session, values, newest=newest)
        for message in messages:
            if message.damaged:
                self.database.mark_damaged(f"the checksum of message {message.id} does not match its text")
        return messages

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

    def _pictured(self) -> int:
        """How many messages have images."""
        if not self.images.exist:
            return 0
        add_images(self.database)
        return int(self.database.row(f"SELECT count(*) FROM messages WHERE {WITH_IMAGES}")[0])  # noqa: S608 - ours

    def start_ids_at(self, message_id: int) -> None:
        self.database.run("INSERT INTO sqlite_sequence (name, seq) VALUES ('blocks', ?)", (message_id >> BLOCK_BITS,))

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
        first = f"{self._owner}:{prefix}"
        behind = first[:-1] + chr(ord(first[-1]) + 1)  # the first key after those with this prefix
        rows = self.database.rows(
            "SELECT key, value FROM state_meta WHERE key >= ? AND key < ? ORDER BY key", (first, behind)
        )
        return [(key.removeprefix(first), kept) for key, kept in rows]


class LocalImports:
    """Keeps imports apart with a lock beside the file."""

    def __init__(self, store: LocalConversations) -> None:
        self._database = store.database
        self._folder, name = os.path.split(store.place)
        self._lock = name + _IMPORT_LOCK

    @contextlib.contextmanager
    def alone(self, timeout: float) -> Iterator[Callable[[], None]]:
        with Folder.create(self._folder) as folder, FileLock(folder, self._lock, timeout=timeout):
            yield lambda: None

    def numbers(self) -> dict[str, int]:
        return dict(self._database.rows("SELECT name, seq FROM sqlite_sequence"))

    def put_numbers_back(self, numbers: Mapping[str, int]) -> None:
        with self._database.writing() as connection:
            for table, column in (("sessions", "key"), ("blocks", "block")):
                used = one_row(connection, f"SELECT max({column}) FROM {table}")[0] or 0  # noqa: S608 - names are ours
                number = max(used, numbers.get(table, 0))
                connection.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", (number, table))


def owner_key(database: Database, owner: str) -> int:
    """The number of an owner; adds the owner to the file if it is not there."""
    known = "SELECT key FROM owners WHERE name = ?"
    if not database.row(known, (owner,)):
        with database.writing() as connection:
            connection.execute("INSERT OR IGNORE INTO owners (name) VALUES (?)", (owner,))
    row = database.row(known, (owner,))
    if row is None or type(row[0]) is not int:
        raise DamagedFile(f"{database.path} is damaged (its list of owners cannot be read); {REPAIR}")
    return row[0]


assert (BLOCK, BLOCK_BITS) == (32, 5)  # noqa: S101 - the statements above spell the block size out


# Sizes of `state.db`, upkeep of its index and file, and the summaries that a context engine keeps there.

_PAGES_PER_STEP = 128  # of the index, merged in one transaction, so that others can write in between
# From so many segments on, merging is worth the time. An import that left up to 100 instead of 16 was no faster, and
# its file was 8% larger.
_MANY_SEGMENTS = 16
_LITTLE = 2  # a merge with fewer changes than this found nothing to merge (documentation of FTS5, "merge")


class LocalMaintenance(Maintenance):
    """Sizes and upkeep of the SQLite file; the counts come from the base class."""

    _database: Database

    def sizes(self) -> dict[str, int]:
        return {
            "file_bytes": _size(self._database.path),
            "log_bytes": _size(self._database.path + "-wal"),
            "free_bytes": self._pragma("freelist_count") * self._pragma("page_size"),
        }

    def is_in_pieces(self) -> bool:
        with self._database.lock, self._database.translated():
            connection = self._database.connection
            return any(segments(connection, f"{table}_fts") >= _MANY_SEGMENTS for table in (SAID, TOOLS, TITLES))

    def merge_steps(self) -> Iterator[str]:
        for table in (SAID, TOOLS, TITLES):
            pages = -_PAGES_PER_STEP  # negative at first: FTS5 then merges all segments, not only large groups
            while self._merge(f"{table}_fts", pages) >= _LITTLE:
                pages = _PAGES_PER_STEP
                yield table

    def checkpoint(self) -> None:
        with self._database.lock, self._database.translated():
            self._database.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def rewrite(self) -> None:
        with self._database.lock, self._database.translated():
            self._database.connection.execute("VACUUM").fetchall()
            self._database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _merge(self, table: str, pages: int) -> int:
        with self._database.writing() as connection:
            before = connection.total_changes()
            connection.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('merge', ?)", (pages,))  # noqa: S608 - our own names
            return int(connection.total_changes()) - before

    def _pragma(self, name: str) -> int:
        return int(self._database.row(f"PRAGMA {name}")[0])


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


_ADD = """
    INSERT INTO summaries (session, depth, ids, messages, text, made_by, made_at) VALUES (?, ?, ?, ?, ?, ?, ?)
    RETURNING node
"""

_OF_SESSION = """
    SELECT node, depth, ids, messages, text, made_by, made_at, (
        SELECT json_group_array(child) FROM (SELECT child FROM summary_children WHERE parent = node ORDER BY child)
    ) FROM summaries WHERE session = ? ORDER BY node
"""


class LocalSummaries(Summaries):
    """The summary graph in SQLite; its tables are created when a context engine first reads or adds a summary."""

    child = "s.node IN (SELECT child FROM summary_children WHERE parent = :parent)"
    _database: Database

    def nodes(
        self,
        session_id: str,
        *,
        number: int | None = None,
        same: tuple[int, str] | None = None,
        parent: int | None = None,
    ) -> list[Summary]:
        add_summaries(self._database)
        return super().nodes(session_id, number=number, same=same, parent=parent)

    def add(self, session_id: str, node: Summary, children: Sequence[int]) -> Summary:
        add_summaries(self._database)
        with self._database.writing() as connection:
            wanted = "SELECT key FROM sessions WHERE owner = ? AND id = ?"
            key = one_row(connection, wanted, (self._owner, session_id))[0]
            row = (key, node.depth, node.ids, node.messages, node.text, node.made_by, time.time())
            number = int(one_row(connection, _ADD, row)[0])
            edges = [(number, child) for child in children]
            connection.executemany("INSERT INTO summary_children (parent, child) VALUES (?, ?)", edges)
        return node._replace(number=number)

    def of_session(self, key: int) -> list[Any]:
        if not self._database.rows("SELECT 1 FROM sqlite_schema WHERE name = 'summaries'"):
            return []
        return [(*row[:-1], tuple(json.loads(row[-1]))) for row in self._database.rows(_OF_SESSION, (key,))]

    def put(self, key: int, nodes: Sequence[Any]) -> None:
        if nodes:
            add_summaries(self._database)
        with self._database.writing() as connection:
            for node, *rest, children in nodes:
                connection.execute("INSERT INTO summaries VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (node, key, *rest))
                edges = [(node, child) for child in children]
                connection.executemany("INSERT INTO summary_children (parent, child) VALUES (?, ?)", edges)
