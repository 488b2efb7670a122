"""Sessions as rows: creating, naming, finding and listing them, and how one conversation spans several.

A compressed conversation continues in a new session; only its newest one is listed. A branch is a conversation of its
own; a delegated task belongs to the conversation that started it and is never listed.
"""

from __future__ import annotations

import json
import time
from array import array
from typing import TYPE_CHECKING, Any

import apsw

from hermes.base.errors import DamagedFile, NotFound, StorageError
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
from hermes.storage.local.database import all_rows, one_row
from hermes.storage.records import (
    BLOCK,
    BLOCK_BITS,
    COLUMNS,
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
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hermes.storage.local.database import Database
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


class Conversations:
    """The sessions of one owner; every statement names the owner, so nobody else's can be reached."""

    def __init__(self, database: Database, owner: int) -> None:
        self._database = database
        self._owner = owner

    def create(
        self,
        connection: apsw.Connection,
        *,
        source: str,
        title: str | None,
        started_at: float | None,
        session_id: str | None,
        parent: Session | None,
        kind: str | None,
        more: Mapping[str, Any],
    ) -> Created:
        now = time.time()
        started = now if started_at is None else float(started_at)
        name = session_id or new_id(now)
        if parent is not None:
            kind = kind or ("delegate" if source in ("subagent", "tool") else "compression")
        if kind is not None and kind not in KINDS:
            raise ValueError(f"kind is {kind!r}; it must be one of {', '.join(KINDS)}")
        clean = self.free_title(connection, title)
        key = int(one_row(connection, _NEXT_KEY)[0])
        root = parent.root if parent is not None and kind != "branch" else key
        activity = self.next_activity(connection)
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
        return Created(name, key, clean)

    def _list_only(self, connection: apsw.Connection, newest: int, root: int) -> None:
        """Of a conversation with several parts the newest stands in the list."""
        connection.execute(
            # "root <> key" is what the index holds: without it every session of the owner is walked
            "UPDATE sessions SET listed = 0 WHERE root = ? AND root <> key AND key <> ? AND owner = ?",
            (root, newest, self._owner),
        )
        connection.execute("UPDATE sessions SET listed = 0 WHERE key = ? AND owner = ?", (root, self._owner))

    def get(self, session_id: str) -> Session:
        found = self.find(session_id)
        if found is None:
            raise NotFound(f"there is no session {session_id!r}; `hermes sessions list` shows what there is")
        return found

    def find(self, session_id: str) -> Session | None:
        return self._first("FROM sessions WHERE owner = ? AND id = ?", (self._owner, session_id))

    def by_key(self, key: int) -> Session | None:
        return self._first("FROM sessions WHERE +owner = ? AND key = ?", (self._owner, key))

    def by_keys(self, keys: list[int]) -> dict[int, Session]:
        # "+" keeps SQLite from walking all sessions of the owner to find a few of them
        wanted = "FROM sessions WHERE +owner = ? AND key IN (SELECT value FROM json_each(?))"
        return {session.key: session for session in self._all(wanted, (self._owner, json.dumps(keys)))}

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
        wanted = "FROM sessions WHERE owner = ? AND (key = ? OR (root = ? AND root <> key)) ORDER BY key"
        return self._all(wanted, (self._owner, session.root, session.root))

    def tip(self, session: Session) -> Session:
        """Where the conversation goes on: the newest of its compressed continuations, at any length of the chain."""
        later = "FROM sessions WHERE owner = ? AND root = ? AND root <> key AND kind = 'compression'"
        return self._first(f"{later} ORDER BY key DESC LIMIT 1", (self._owner, session.root)) or session

    def details(self, session: Session) -> dict[str, Any]:
        wanted = "FROM session_details WHERE session = ?"
        rows = select(self._database, "system_prompt, details, checksum", wanted, (session.key,))
        if not rows:
            return {}
        row = rows[0]
        if details_seal(session.key, row[0], row[1]) != row[2]:
            self._database.mark_damaged(f"the details of session {session.id} do not match their checksum")
            return {}
        stored: dict[str, Any] = json.loads(row[1]) if row[1] else {}
        return stored if row[0] is None else {"system_prompt": row[0], **stored}

    def free_title(self, connection: apsw.Connection, title: str | None, *, holder: int = 0) -> str | None:
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
        return free if free.startswith(f"{base} #") else self.free_title(connection, free, holder=holder)

    def next_activity(self, connection: apsw.Connection) -> int:
        newest = "SELECT max(activity) FROM sessions WHERE owner = ? AND listed = 1 AND archived = 0"
        return int(one_row(connection, newest, (self._owner,))[0] or 0) + 1

    def _first(self, wanted: str, values: tuple[Any, ...]) -> Session | None:
        found = self._all(wanted, values)
        return found[0] if found else None

    def _all(self, wanted: str, values: tuple[Any, ...]) -> list[Session]:
        """The sessions whose rows are believed; one that may be somebody else's is left out until it is repaired."""
        rows = select(self._database, _SEALED, wanted, values)
        return [session for row in rows if (session := self._believed(row)) is not None]

    def _believed(self, row: tuple[Any, ...]) -> Session | None:
        session, stored = Session(*row[:-1]), row[-1]
        if not identity_holds(stored, session.key, self._owner, session.id):
            self._database.mark_damaged(f"session row {session.key} does not match its seal")
            return None
        if texts_hold(stored, session.key, session.source, session.title, session.preview):
            return session
        self._database.mark_damaged(f"what session {session.id} shows does not match its seal")
        return session._replace(source="unknown", title=None, preview=None, damaged=True)


def _add_details(connection: apsw.Connection, key: int, more: Mapping[str, Any]) -> None:
    rest = {k: v for k, v in more.items() if k not in PLAIN and k != "system_prompt" and v is not None}
    if rest or more.get("system_prompt") is not None:
        details = (key, more.get("system_prompt"), json.dumps(rest) if rest else None)
        connection.execute("INSERT INTO session_details VALUES (?, ?, ?, ?)", (*details, details_seal(*details)))


# Reads transcripts in the order in which messages arrived; a row that fails its checksum is shown without its text.

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
_EVERYTHING = 1 << 62
_TEXTS = """
    SELECT id, CAST(concat_ws(' ', name, content, tool_calls) AS BLOB) FROM carray(?) CROSS JOIN messages ON id = value
"""
_BY_IDS = f"SELECT {COLUMNS} FROM carray(?) CROSS JOIN messages ON id = value"  # noqa: S608 - column names are ours


class Transcripts:
    def __init__(self, database: Database, owner: int) -> None:
        self._database = database
        self._owner = owner

    def of(
        self, session: Session, *, limit: int | None = None, newest: bool = False, rewound: bool = False
    ) -> list[StoredMessage]:
        found = self._read(session, limit=limit, newest=newest, rewound=rewound)
        return found[::-1] if newest else found

    def around(self, session: Session, message_id: int, window: int) -> list[StoredMessage]:
        """The message itself with up to `window` neighbours on each side."""
        if self.session_key(message_id) != session.key:
            raise NotFound(f"message {message_id} is not in session {session.id!r}; search again for a current id")
        before = self._read(session, high=message_id - 1, limit=window, newest=True)[::-1] if window else []
        return before + self._read(session, low=message_id, limit=window + 1)

    def bookends(self, session: Session, count: int) -> tuple[list[StoredMessage], list[StoredMessage]]:
        first = self._read(session, limit=count, spoken=True)
        last = self._read(session, limit=count, spoken=True, newest=True)
        return first, last[::-1]

    def session_key(self, message_id: int) -> int | None:
        row = self._database.row(
            "SELECT session FROM blocks WHERE block = ? AND owner = ?", (message_id >> BLOCK_BITS, self._owner)
        )
        return int(row[0]) if row else None

    def rows(self, message_ids: Iterable[int]) -> dict[int, Row]:
        """Rows by id for the search, which has already seen that they are the owner's."""
        wanted = array("q", message_ids)
        if not wanted:
            return {}
        with self._database.lock:
            try:
                rows: list[Row] = all_rows(self._database.connection, _BY_IDS, (apsw.carray(wanted),))
            except (*UNREADABLE, apsw.SQLError) as error:  # a statement of ours fails where the schema is damaged
                self._database.mark_damaged(str(error))
                rows = [row for message_id in wanted if (row := careful_row(self._database, message_id)) is not None]
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
        self._database.mark_damaged(f"the checksum of message {row[0]} does not match its text")
        return False

    def _read_around_damage(self, session: Session, values: dict[str, int], *, newest: bool) -> list[StoredMessage]:
        """One message after the other, so that a bad page costs its own messages and no others."""
        blocks = self._database.rows(_BLOCKS_OF_SESSION, values)
        ids = [
            (message_id, first + message_id - (block << BLOCK_BITS))
            for block, first in blocks
            for message_id in range(block << BLOCK_BITS, (block + 1) << BLOCK_BITS)
            if values["low"] <= message_id <= min(values["high"], session.last_id)
        ]
        found: list[StoredMessage] = []
        for message_id, place in reversed(ids) if newest else ids:
            row = careful_row(self._database, message_id)
            if row is not None and (row[2] & STATE_BITS != REWOUND or values["rewound"]):
                message = decode(row, place, session.key)
                if not values["spoken"] or (message.role in ("user", "assistant") and row[4] is not None):
                    found.append(message)
            if len(found) == values["limit"]:
                break
        return found

    def texts(self, message_ids: list[int]) -> list[tuple[int, bytes]]:
        """All that stands in these messages, as it is stored, in the given order."""
        return self._database.rows(_TEXTS, (apsw.carray(array("q", message_ids)),)) if message_ids else []

    def counts(self) -> dict[str, int]:
        sessions, messages = self._database.row(
            "SELECT count(*), coalesce(sum(message_count), 0) FROM sessions WHERE owner = ?", (self._owner,)
        )
        return {"sessions": sessions, "messages": messages}

    def _read(
        self,
        session: Session,
        *,
        low: int = 0,
        high: int = _EVERYTHING,
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
            rows = self._database.rows(_NEWEST_FIRST if newest else _OLDEST_FIRST, values)
            messages = [decode(row[1:], row[0], session.key) for row in rows]
        except (DamagedFile, TypeError, AttributeError):  # the last two: a number where a text was
            messages = self._read_around_damage(session, values, newest=newest)
        for message in messages:
            if message.damaged:
                self._database.mark_damaged(f"the checksum of message {message.id} does not match its text")
        return messages


assert (BLOCK, BLOCK_BITS) == (32, 5)  # noqa: S101 - the statements above spell the block size out
