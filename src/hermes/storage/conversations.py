"""One person's conversations, as far as both engines keep them alike: sessions, titles, lineage, reading and figures.

Statements are written once, for SQLite; `postgres/database` turns them into PostgreSQL's. What an engine does its own
way, such as appending and indexing, is in `local/conversations` and `postgres/conversations`. Whoever holds a
`Conversations` holds one person: no method takes a person, so none can reach another one.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

from hermes.base.errors import NotFound, StorageError
from hermes.storage.ports import EVERYTHING, Summary, Use, Whole
from hermes.storage.records import (
    BLOCK,
    BLOCK_BITS,
    COLUMNS,
    COUNTERS,
    KINDS,
    PLAIN,
    SESSION_COLUMNS,
    Created,
    Session,
    base_title,
    clean_title,
    decode,
    moment,
    new_id,
    numbered_title,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from hermes.storage.images import Images
    from hermes.storage.ports import Imports, Index, Vectors
    from hermes.storage.records import Row, StoredMessage

    Values = Sequence[Any] | dict[str, Any]

FIELDS = ", ".join(name for name in Session._fields if name != "damaged")
_PREFIXED = ", ".join(f"m.{column}" for column in COLUMNS.split(", "))
# The messages of a block. "+owner" and "+m.id" keep SQLite from walking everything of the owner, or of the block.
MESSAGES = "blocks b CROSS JOIN messages m ON m.id BETWEEN (b.block << 5) AND (b.block << 5) + 31"
_OF_SESSION = f"""
    SELECT b.first_place + (m.id & 31), {_PREFIXED} FROM {MESSAGES}
    WHERE b.owner = :owner AND b.session = :session AND b.block BETWEEN :first AND :last
        AND +m.id BETWEEN :low AND :high AND ((m.state & 3) <> 2 OR :rewound)
        AND (NOT :spoken OR (m.role IN ('user', 'assistant') AND m.content IS NOT NULL))
    ORDER BY b.block {{order}}, m.id {{order}} LIMIT :limit
"""  # noqa: S608 - column names are ours
_OLDEST_FIRST, _NEWEST_FIRST = _OF_SESSION.format(order="ASC"), _OF_SESSION.format(order="DESC")
_SEEN_BEFORE = f"""
    SELECT count(*) FROM {MESSAGES}
    WHERE b.owner = ? AND b.session = ? AND b.block <= ? AND m.id < ? AND (m.state & 3) <> 2
"""  # noqa: S608 - ours
# The state stands before the text, so that none is read.
_ANY_COMPACTED = f"SELECT 1 FROM {MESSAGES} WHERE b.owner = ? AND b.session = ? AND (m.state & 3) = 1 LIMIT 1"  # noqa: S608
_SPANS = """
    SELECT block << 5, (block << 5) + 31, session FROM blocks
    WHERE owner = ? AND block BETWEEN ? AND ? ORDER BY block LIMIT ?
"""
# "$" follows "#", so the range holds exactly the titles that start with the name and " #".
_TITLED = "(title = :title OR (title > :title || ' #' AND title < :title || ' $'))"
_TITLES = f"SELECT title FROM sessions WHERE owner = :owner AND key <> :holder AND {_TITLED}"  # noqa: S608 - ours
_RESOLVED = f"""
    WHERE owner = :owner AND {_TITLED} AND (CAST(:root AS bigint) IS NULL OR root = :root)
    ORDER BY activity DESC LIMIT 1
"""
_RESEMBLING = """
    WHERE owner = ? AND listed = 1 AND (instr(id, ?) = 1 OR instr(lower(title), lower(?)) > 0)
    ORDER BY activity DESC LIMIT ?
"""
_LINEAGE = "WHERE +owner = ? AND (key = ? OR (root = ? AND root <> key)) ORDER BY key"
_TIP = "WHERE +owner = ? AND root = ? AND root <> key AND kind = 'compression' ORDER BY key DESC LIMIT 1"
_HEIR = """
    SELECT key FROM sessions WHERE +owner = ? AND root = ? AND root <> key AND kind = 'compression' ORDER BY key LIMIT 1
"""
_ADD = "INSERT INTO sessions ({columns}) VALUES ({marks}) ON CONFLICT (owner, id) DO NOTHING RETURNING key"
_END = """
    UPDATE sessions SET ended_at = ?, end_reason = ? WHERE owner = ? AND key = ? AND ended_at IS NULL RETURNING key
"""
_SESSION = f"SELECT {', '.join(SESSION_COLUMNS)} FROM sessions WHERE owner = ? AND key = ?"  # noqa: S608 - our names
_BLOCKS = "SELECT block, first_place FROM blocks WHERE owner = ? AND session = ? ORDER BY block"
_NEW_BLOCK = "INSERT INTO blocks (owner, block, session, first_place) VALUES (?, ?, ?, ?)"
_NEWEST_ACTIVITY = "SELECT coalesce(max(activity), 0) FROM sessions WHERE owner = ? AND listed = 1 AND archived = 0"
_COUNTS = "SELECT count(*), CAST(coalesce(sum(message_count), 0) AS bigint) FROM sessions WHERE owner = ?"
assert (BLOCK, BLOCK_BITS) == (32, 5)  # noqa: S101 - the statements above spell the block size out


class EngineDatabase(Protocol):
    """One person's transactions in one file or server."""

    place: str  # for people: a path, or an address without its password
    journal: str

    @property
    def only_read(self) -> bool:
        """Whether nothing can be written, as on a full or read-only disk."""

    @property
    def damage(self) -> str | None:
        """What is wrong with the data, if damage was seen."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction of this handle is running."""

    def rows(self, sql: str, values: Values = ()) -> list[Any]:
        """All rows of a result."""

    def row(self, sql: str, values: Values = ()) -> Any:
        """The first row of a result; None if there is none."""

    def column(self, sql: str, values: Values = ()) -> list[Any]:
        """The first column of all rows."""

    def run(self, sql: str, values: Values = ()) -> None:
        """A statement without an answer, inside the running transaction or in one of its own."""

    def writing(self, *, synced: bool = True) -> AbstractContextManager[Any]:
        """A write transaction; with `synced`, it survives a power cut once it has ended."""

    def reading(self) -> AbstractContextManager[object]:
        """A read transaction, in which all statements see the same state."""

    def waiting_at_most(self, seconds: float) -> AbstractContextManager[object]:
        """Inside, statements wait no longer than this for another writer's lock."""

    def is_replaced(self) -> bool:
        """Whether another file is at the path now."""

    def mark_damaged(self, seen: str) -> None:
        """Notes damage and refuses to write from then on."""

    def sync(self) -> None:
        """Makes everything committed so far survive a power cut."""

    def close(self) -> None:
        """Ends the connection."""


class Conversations(ABC):
    """Every conversation of one person; calls inside `transaction` are one transaction, any other call is its own."""

    database: EngineDatabase
    images: Images
    index: Index
    summaries: Summaries
    maintenance: Maintenance
    imports: Imports

    def __init__(self, database: EngineDatabase, owner: str, number: int) -> None:
        self.database = database
        self.owner = owner
        self._owner = number

    @property
    def place(self) -> str:
        """Where this is, for people: a path, or an address without its password."""
        return self.database.place

    @property
    def journal_mode(self) -> str:
        """How the engine makes commits durable; for SQLite, `wal` or `delete`."""
        return self.database.journal

    @property
    def only_read(self) -> bool:
        """Whether nothing can be written, as on a full or read-only disk."""
        return self.database.only_read

    @property
    def damage(self) -> str | None:
        """What is wrong with the data, if damage was seen."""
        return self.database.damage

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction of this handle is running."""
        return self.database.in_transaction

    def is_replaced(self) -> bool:
        """Whether another file is at the path now, so that writes through this handle would be lost."""
        return self.database.is_replaced()

    def mark_damaged(self, seen: str) -> None:
        """Notes damage and refuses to write from then on, because writing could make it worse."""
        self.database.mark_damaged(seen)

    def transaction(self, *, synced: bool = True) -> AbstractContextManager[object]:
        """Stores everything inside or nothing, durably at its end; nobody else writes this person's data meanwhile."""
        return self.database.writing(synced=synced)

    def reading(self) -> AbstractContextManager[object]:
        """A read transaction around several calls, which is cheaper than one for each."""
        return self.database.reading()

    def waiting_at_most(self, seconds: float) -> AbstractContextManager[object]:
        """Inside, calls wait no longer than this for another writer's lock."""
        return self.database.waiting_at_most(seconds)

    def sync(self) -> None:
        """Makes everything committed so far survive a power cut."""
        self.database.sync()

    def close(self) -> None:
        """Ends the connection; the handle cannot be used any more."""
        self.database.close()

    @abstractmethod
    def vectors(self) -> Vectors:
        """The vectors of the person's messages; creates their table on first use."""

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
        """Creates a session; its kind says how it follows its parent. The title gets ` #N` if it is taken."""
        now = time.time()
        started = now if started_at is None else float(started_at)
        name = session_id or new_id(now)
        if parent is not None:
            kind = kind or ("delegate" if source in ("subagent", "tool") else "compression")
        if kind is not None and kind not in KINDS:
            raise ValueError(f"kind is {kind!r}; it must be one of {', '.join(KINDS)}")
        with self.transaction():
            clean = self._free_title(title)
            key = self._next_session()
            root = parent.root if parent is not None and kind != "branch" else key
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
                "activity": self._newest_activity() + 1,
                **self._sealed(key, name, source, clean, None),
                **{column: value for column, value in more.items() if column in PLAIN and value is not None},
            }
            columns["archived"] = int(columns.get("archived", 0))
            added = _ADD.format(columns=", ".join(columns), marks=", ".join(["?"] * len(columns)))
            if not self.database.rows(added, list(columns.values())):
                raise StorageError(f"there is already a session {name!r}; leave session_id out to get a new one")
            if kind == "compression" and parent is not None:  # of several parts, only the newest is listed
                # "root <> key" is the condition of a partial index; without it, SQLite walks all sessions of the owner.
                parts = "UPDATE sessions SET listed = 0 WHERE +owner = ? AND root = ? AND root <> key AND key <> ?"
                self.database.run(parts, (self._owner, root, key))
                self._change(root, {"listed": 0})
            prompt = more.get("system_prompt")
            rest = {k: v for k, v in more.items() if k not in PLAIN and k != "system_prompt" and v is not None}
            if rest or prompt is not None:
                self._put_details(key, prompt, json.dumps(rest) if rest else None)
            if clean:
                self.index_title(key, clean)
        return Created(name, key, clean)

    def find(self, session_id: str) -> Session | None:
        """The session with this id; None if the person has none."""
        return self._first("WHERE owner = ? AND id = ?", (self._owner, session_id))

    @abstractmethod
    def by_keys(self, keys: Sequence[int]) -> dict[int, Session]:
        """Sessions by their keys; keys of other owners and of deleted sessions are missing."""

    def resolve(self, name: str) -> Session | None:
        """Finds a session by id or title; if the conversation continued as `TITLE #N`, finds its newest part."""
        found = self.find(name)
        title = clean_title(name)
        if found is not None or title is None:
            return found
        exact = self._first("WHERE owner = ? AND title = ?", (self._owner, title))
        values = {"owner": self._owner, "title": title, "root": exact.root if exact else None}
        return self._first(_RESOLVED, values)

    def resembling(self, words: str, limit: int) -> list[Session]:
        """Conversations whose id begins with the words or whose title contains them, the last used first."""
        return self._all(_RESEMBLING, (self._owner, words, words, limit))

    def listing(
        self, *, limit: int, offset: int, source: str | None, project: str | None, archived: bool, begun: bool
    ) -> list[Session]:
        """One row per conversation, the most recently used first; by order of arrival, not by the clock.

        With `begun`, only those with a message or a title.
        """
        where = ["owner = ?", "listed = 1", "archived = 1" if archived else "archived = 0"]
        if begun:
            where.append("(last_id > 0 OR title IS NOT NULL)")
        values: list[Any] = [self._owner]
        for column, value in (("source", source), ("project", project)):
            if value is not None:
                where.append(f"{column} = ?")
                values.append(value)
        wanted = f"WHERE {' AND '.join(where)} ORDER BY activity DESC LIMIT ? OFFSET ?"
        return self._all(wanted, (*values, EVERYTHING if limit < 0 else limit, offset))

    def lineage(self, session: Session) -> list[Session]:
        """Every session of the conversation, oldest first, delegated ones included."""
        return self._all(_LINEAGE, (self._owner, session.root, session.root))

    def tip(self, session: Session) -> Session:
        """Where a conversation continues: the newest of its continuations, however long the chain of compactions is."""
        return self._first(_TIP, (self._owner, session.root)) or session

    def keys_after(self, key: int, most: int) -> list[int]:
        """Keys of the next sessions after `key`, in the order in which they were made."""
        wanted = "SELECT key FROM sessions WHERE owner = ? AND key > ? ORDER BY key LIMIT ?"
        return self.database.column(wanted, (self._owner, key, most))

    def details(self, session: Session) -> dict[str, Any]:
        """The system prompt of a session and everything else that has no column of its own."""
        prompt, details = self._stored_details(session.key) or (None, None)
        stored: dict[str, Any] = json.loads(details) if details else {}
        return stored if prompt is None else {"system_prompt": prompt, **stored}

    def set_details(self, session: Session, prompt: str, details: Mapping[str, Any]) -> None:
        """Replaces the system prompt and the details of a session."""
        self._put_details(session.key, prompt, json.dumps(details) if details else None)

    def rename(self, session: Session, title: str | None) -> str | None:
        """Gives a session a title, with ` #N` if it is taken, and returns the title it got."""
        with self.transaction():
            kept = self._free_title(title, holder=session.key)
            sealed = self._sealed(session.key, session.id, session.source, kept, session.preview)
            self._change(session.key, {"title": kept, **sealed})
            self.index_title(session.key, kept)
        return kept

    def update(self, session: Session, values: Mapping[str, Any]) -> None:
        """Sets columns of a session; counters are added to what is stored."""
        self._change(session.key, {name: int(given) if name == "archived" else given for name, given in values.items()})

    def end(self, session: Session, reason: str, at: float | None = None) -> bool:
        """Marks a session as ended now or at `at`; False if it already was."""
        with self.transaction():
            when = time.time() if at is None else at
            return bool(self.database.rows(_END, (when, reason, self._owner, session.key)))

    @abstractmethod
    def delete(self, key: int) -> None:
        """Deletes a session with its messages and its delegated children."""

    def _delete(self, key: int) -> None:
        """Deletes a session and its delegated children; of the others, the first continuation becomes the new root."""
        mine = (self._owner, key)
        children = "SELECT key FROM sessions WHERE +owner = ? AND parent = ? AND kind = 'delegate'"
        for child in self.database.column(children, mine):
            self._delete(child)
        if heir := self.database.row(_HEIR, mine):
            follow = "UPDATE sessions SET root = ? WHERE +owner = ? AND root = ? AND root <> key"
            self.database.run(follow, (heir[0], *mine))
        self._remove(key)

    def counts(self) -> dict[str, int]:
        """How many sessions and messages the person has."""
        sessions, messages = self.database.row(_COUNTS, (self._owner,))
        return {"sessions": sessions, "messages": messages}

    # --- messages ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def append(self, session_id: str, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """Stores the messages, with their images, and returns their ids in order."""

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
        """The messages of a session with ids from `low` to `high`; `newest` reads backwards."""
        span = {"first": low >> BLOCK_BITS, "last": high >> BLOCK_BITS, "low": low, "high": high}
        most = EVERYTHING if limit is None else limit
        values = {"owner": self._owner, "session": session.key, **span, "limit": most}
        values |= {"rewound": rewound, "spoken": spoken}
        return self._read(_NEWEST_FIRST if newest else _OLDEST_FIRST, values, session, newest=newest)

    def _read(self, sql: str, values: dict[str, int], session: Session, *, newest: bool) -> list[StoredMessage]:  # noqa: ARG002 - of the local engine
        return [decode(self._row(row[1:]), row[0], session.key) for row in self.database.rows(sql, values)]

    def _row(self, found: Sequence[Any]) -> Row:
        """A message as an engine reads it."""
        return found  # type: ignore[return-value] # as it was stored

    def expect(self, message_ids: Sequence[int], keys: Sequence[int]) -> None:  # noqa: B027 - only an engine elsewhere
        """Announces the next rows and sessions to be read, so that a database server sends them in one round trip."""

    @abstractmethod
    def rows(self, message_ids: Iterable[int]) -> dict[int, Row]:
        """Rows by id, for a search that has already checked that they are the person's."""

    @abstractmethod
    def texts(self, message_ids: Sequence[int]) -> list[tuple[int, bytes]]:
        """The whole stored text of these messages as bytes, in the given order."""

    def session_key(self, message_id: int) -> int | None:
        """The key of the session that a message belongs to; None if the person has no such message."""
        wanted = "SELECT session FROM blocks WHERE owner = ? AND block = ?"
        row = self.database.row(wanted, (self._owner, message_id >> BLOCK_BITS))
        return int(row[0]) if row else None

    def place_of(self, message_id: int) -> int:
        """How many messages come before this one in its session; -1 if there is no such message."""
        wanted = "SELECT first_place FROM blocks WHERE owner = ? AND block = ?"
        row = self.database.row(wanted, (self._owner, message_id >> BLOCK_BITS))
        return int(row[0]) + message_id % BLOCK if row else -1

    def first_message(self, session: int) -> int | None:
        """The id of the first message of a session; None if it has none."""
        row = self.database.row("SELECT min(block) FROM blocks WHERE owner = ? AND session = ?", (self._owner, session))
        return None if row[0] is None else int(row[0]) << BLOCK_BITS

    def spans(self, low: int, high: int, most: int) -> list[tuple[int, int, int]]:
        """(first, last, session) of the blocks of ids between two ids, in order."""
        return self.database.rows(_SPANS, (self._owner, low >> BLOCK_BITS, high >> BLOCK_BITS, most))

    def count_before(self, session: Session, message_id: int) -> int:
        """How many messages of a session that were not taken back come before this one."""
        values = (self._owner, session.key, message_id >> BLOCK_BITS, message_id)
        return int(self.database.row(_SEEN_BEFORE, values)[0])

    def holds_compacted(self, session: Session) -> bool:
        """Whether a compaction removed messages of this session from its context."""
        return bool(self.database.rows(_ANY_COMPACTED, (self._owner, session.key)))

    @abstractmethod
    def holds_pointers(self, session: Session) -> bool:
        """Whether messages of this session refer to other messages by id."""

    @abstractmethod
    def set_state(self, session: Session, message_ids: Iterable[int], state: int) -> None:
        """Marks messages as COMPACTED or REWOUND; a compacted message can become rewound, but never the reverse."""

    @abstractmethod
    def remove_unused_images(self) -> int:
        """Deletes the images that no message names any more; returns how many."""

    @abstractmethod
    def start_ids_at(self, message_id: int) -> None:
        """Gives out only ids above this one, so that those of a spare database differ from the main one's."""

    @abstractmethod
    def has_others(self) -> bool:
        """Whether the same place holds conversations of other people."""

    # --- small values ------------------------------------------------------------------------------------------------

    @abstractmethod
    def get_meta(self, key: str) -> Any:
        """A value stored under a key of its own; None if there is none."""

    @abstractmethod
    def set_meta(self, key: str, value: str | float | bytes | None) -> None:
        """Stores a value under a key of its own; None removes it."""

    @abstractmethod
    def meta_from(self, prefix: str) -> list[tuple[str, Any]]:
        """The keys with this prefix and their values, in order; the prefix is removed."""

    # --- moves between engines ---------------------------------------------------------------------------------------

    def whole(self, key: int) -> Whole:
        """Reads a session with everything that belongs to it; keys, ids and checksums are the same in every engine."""
        mine = (self._owner, key)
        span = {"first": 0, "last": EVERYTHING, "low": 0, "high": EVERYTHING, "limit": EVERYTHING}
        everything = {"owner": self._owner, "session": key, **span, "rewound": True, "spoken": False}
        with self.reading():
            row = self.database.row(_SESSION, mine)
            if row is None:
                raise NotFound(f"session {key} is gone")
            return Whole(
                row=dict(zip(SESSION_COLUMNS, row, strict=True)),
                details=self._stored_details(key),
                blocks=self.database.rows(_BLOCKS, mine),
                messages=[self._row(found[1:]) for found in self.database.rows(_OLDEST_FIRST, everything)],
                summaries=self.summaries.of_session(key),
            )

    def put(self, whole: Whole) -> None:
        """Stores a session from another engine, with the same keys, ids and checksums."""
        row = whole.row
        key = row["key"]
        sealed = self._sealed(key, row["id"], row["source"], row["title"], row["preview"])
        columns = {"owner": self._owner, **row, **sealed}
        with self.transaction():
            added = f"INSERT INTO sessions ({', '.join(columns)}) VALUES ({', '.join(['?'] * len(columns))})"  # noqa: S608 - our names
            self.database.run(added, list(columns.values()))
            if whole.details is not None:
                self._put_details(key, *whole.details)
            for block, place in whole.blocks:
                self.database.run(_NEW_BLOCK, (self._owner, block, key, place))
            self._put_messages(key, whole.messages)
            self.summaries.put(key, whole.summaries)
            self.index_title(key, row["title"])

    # --- what engines do differently ---------------------------------------------------------------------------------

    @abstractmethod
    def _next_session(self) -> int:
        """A key that no session ever had."""

    @abstractmethod
    def _next_block(self, count: int) -> int:
        """The first of `count` consecutive numbers that no block ever had."""

    @abstractmethod
    def _sealed(self, key: int, name: str, source: str, title: str | None, preview: str | None) -> dict[str, Any]:
        """Columns with checksums, by which a damaged session row is noticed."""

    @abstractmethod
    def _stored_details(self, key: int) -> tuple[str | None, str | None] | None: ...

    @abstractmethod
    def _put_details(self, key: int, prompt: str | None, details: str | None) -> None: ...

    @abstractmethod
    def _put_messages(self, key: int, rows: Sequence[Row]) -> None: ...

    @abstractmethod
    def index_title(self, key: int, title: str | None) -> None:
        """Replaces the words of a title in the index."""

    @abstractmethod
    def _remove(self, key: int) -> None:
        """Removes a session on which nothing depends, with its messages and their words in the index."""

    def _change(self, key: int, values: Mapping[str, Any]) -> None:
        changes = [f"{name} = coalesce({name}, 0) + ?" if name in COUNTERS else f"{name} = ?" for name in values]
        if changes:
            change = f"UPDATE sessions SET {', '.join(changes)} WHERE owner = ? AND key = ?"  # noqa: S608 - the caller checks names
            self.database.run(change, (*values.values(), self._owner, key))

    def _first(self, wanted: str, values: Values) -> Session | None:
        found = self._all(wanted, values)
        return found[0] if found else None

    def _all(self, wanted: str, values: Values) -> list[Session]:
        rows = self.database.rows(f"SELECT {FIELDS} FROM sessions {wanted}", values)  # noqa: S608 - column names are ours
        return [Session(*row) for row in rows]

    def _free_title(self, title: str | None, *, holder: int = 0) -> str | None:
        """The title, with the next free ` #N` if another session already has it."""
        clean = clean_title(title)
        if clean is None:
            return None
        base = base_title(clean)
        taken = set(self.database.column(_TITLES, {"owner": self._owner, "title": base, "holder": holder}))
        if clean not in taken:
            return clean
        free = numbered_title(base, taken)
        return free if free.startswith(f"{base} #") else self._free_title(free, holder=holder)

    def _next_ids(self, session: int, last_id: int, count: int) -> list[int]:
        """The next ids of a session: first those left in its last block, then those of new blocks."""
        left = -(last_id + 1) % BLOCK if last_id else 0
        ids = list(range(last_id + 1, last_id + 1 + min(left, count)))
        blocks = -(-(count - len(ids)) // BLOCK)
        if blocks > 0:
            place = self.place_of(last_id) + 1 + len(ids) if last_id else 0
            first = self._next_block(blocks)
            for number in range(blocks):
                self.database.run(_NEW_BLOCK, (self._owner, first + number, session, place + number * BLOCK))
            ids += range(first << BLOCK_BITS, (first << BLOCK_BITS) + count - len(ids))
        return ids

    def _newest_activity(self) -> int:
        return int(self.database.row(_NEWEST_ACTIVITY, (self._owner,))[0])


_OF_CONVERSATION = """
    WITH RECURSIVE family (root) AS (
        SELECT root FROM sessions WHERE owner = :owner AND id = :id
        UNION SELECT above.root FROM family
            JOIN sessions first ON first.key = family.root AND first.owner = :owner
            JOIN sessions above ON above.key = first.parent AND above.owner = :owner
    )
    SELECT s.node, s.depth, s.ids, s.messages, s.text, s.made_by FROM summaries s JOIN sessions c ON c.key = s.session
    WHERE c.owner = :owner AND c.root IN (SELECT root FROM family)
        AND (CAST(:number AS bigint) IS NULL OR s.node = :number)
        AND (CAST(:depth AS bigint) IS NULL OR (s.depth = :depth AND s.ids = :ids))
        AND (CAST(:parent AS bigint) IS NULL OR {child})
    ORDER BY s.node
"""


class Summaries(ABC):
    """The summaries of a conversation and of those it branched from, whichever session they were made in."""

    child: str  # says of a row s that it is a child of the summary :parent

    def __init__(self, database: EngineDatabase, owner: int) -> None:
        self._database = database
        self._owner = owner

    def nodes(
        self,
        session_id: str,
        *,
        number: int | None = None,
        same: tuple[int, str] | None = None,
        parent: int | None = None,
    ) -> list[Summary]:
        """All summaries by number, or only the one with a number, with this depth and ids, or with this parent."""
        depth, ids = same or (None, None)
        values = {"owner": self._owner, "id": session_id, "number": number, "depth": depth, "ids": ids}
        wanted = _OF_CONVERSATION.format(child=self.child)
        return [Summary(*row) for row in self._database.rows(wanted, {**values, "parent": parent})]

    @abstractmethod
    def add(self, session_id: str, node: Summary, children: Sequence[int]) -> Summary:
        """Stores a summary and gives it its number."""

    @abstractmethod
    def of_session(self, key: int) -> list[Any]:
        """What was made in a session, as rows: number, depth, ids, messages, text, who made it and when, children."""

    @abstractmethod
    def put(self, key: int, nodes: Sequence[Any]) -> None:
        """Stores such rows in a session."""


_IN_ORDER_OF_USE = """
    SELECT s.key, s.last_active, s.ended_at IS NOT NULL, s.source, s.archived = 1,
        coalesce(instr(d.details, '"imported_at"'), 0) > 0
    FROM sessions s LEFT JOIN session_details d ON {details} WHERE s.owner = ? AND s.listed = 1
    ORDER BY s.activity, s.key
"""
_TOTALS = """
    SELECT count(*), coalesce(sum(listed), 0), CAST(coalesce(sum(message_count), 0) AS bigint),
        CAST(coalesce(sum(tool_call_count), 0) AS bigint), count(*) FILTER (WHERE ended_at IS NULL),
        coalesce(sum(archived), 0), min(started_at), max(last_active)
    FROM sessions WHERE owner = ?
"""
_BY_SOURCE = """
    SELECT source, count(*), CAST(coalesce(sum(message_count), 0) AS bigint),
        CAST(coalesce(sum(tool_call_count), 0) AS bigint)
    FROM sessions WHERE owner = ? GROUP BY source ORDER BY 3 DESC, source
"""
_MOMENTS = """
    SELECT max(moment) FROM (
        SELECT max(last_active) AS moment FROM sessions WHERE owner = :owner AND last_active <= :now
        UNION ALL SELECT max(ended_at) FROM sessions WHERE owner = :owner AND ended_at <= :now
    ) AS moments
"""


class Maintenance(ABC):
    """Figures about what is stored, and the maintenance of index and file."""

    details = "d.session = s.key"  # which details belong to a session

    def __init__(self, database: EngineDatabase, owner: int) -> None:
        self._database = database
        self._owner = owner

    def uses(self) -> list[Use]:
        """Every conversation in order of use."""
        rows = self._database.rows(_IN_ORDER_OF_USE.format(details=self.details), (self._owner,))
        return [
            Use(key, last, bool(ended), source, bool(archived), bool(imported))
            for key, last, ended, source, archived, imported in rows
        ]

    def last_moment(self, now: float) -> float | None:
        """The newest recorded time that is not in the future."""
        row = self._database.row(_MOMENTS, {"owner": self._owner, "now": now})
        return None if row[0] is None else float(row[0])

    def totals(self) -> dict[str, Any]:
        """Counts of sessions, conversations, messages and tool calls, with the first and last use."""
        names = ("sessions", "conversations", "messages", "tool_calls", "open", "archived", "first_used", "last_used")
        return dict(zip(names, self._database.row(_TOTALS, (self._owner,)), strict=True))

    def by_source(self) -> list[dict[str, Any]]:
        """Sessions, messages and tool calls of each source, the one with most messages first."""
        names = ("source", "sessions", "messages", "tool_calls")
        return [dict(zip(names, row, strict=True)) for row in self._database.rows(_BY_SOURCE, (self._owner,))]

    def by_month(self, months: int) -> list[dict[str, Any]]:
        """Sessions and messages of each of the newest months, in the time zone of this machine."""
        found: dict[str, list[int]] = {}
        begun = "SELECT started_at, CAST(message_count AS bigint) FROM sessions WHERE owner = ?"
        for started, messages in self._database.rows(begun, (self._owner,)):
            month = time.strftime("%Y-%m", time.localtime(moment(started, 0.0)))
            counted = found.setdefault(month, [0, 0])
            counted[0] += 1
            counted[1] += messages
        newest = sorted(found.items(), reverse=True)[:months]
        return [{"month": month, "sessions": sessions, "messages": count} for month, (sessions, count) in newest]

    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """Bytes of the data, of its write-ahead log, and of free space inside the file."""

    def is_in_pieces(self) -> bool:
        """Whether an import has left the index in so many segments that merging them is worth the time."""
        return False

    def merge_steps(self) -> Iterator[str]:
        """Merges the index in small steps, so that others can write in between."""
        return iter(())

    def checkpoint(self) -> None:  # noqa: B027 - a server does it by itself
        """Copies the write-ahead log into the database."""

    def rewrite(self) -> None:  # noqa: B027 - a server does it by itself
        """Returns free space to the disk; other programs wait meanwhile."""
