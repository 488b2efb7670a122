"""The PostgreSQL engine's conversations: every session and message of one person among many."""

from __future__ import annotations

import contextlib
import json
import struct
import time
from typing import TYPE_CHECKING, Any, Self

from hermes.base.errors import LockTimeout, NotFound, StorageError
from hermes.base.words import Words
from hermes.storage.images import IMAGES, Images
from hermes.storage.ports import EVERYTHING, Whole
from hermes.storage.postgres.database import WAIT_SECONDS, PersonDatabase, person_named
from hermes.storage.postgres.search import PostgresIndex, PostgresVectors, Terms, terms_of
from hermes.storage.postgres.upkeep import PostgresImages, PostgresMaintenance, PostgresSummaries
from hermes.storage.records import (
    BLOCK,
    BLOCK_BITS,
    COUNTERS,
    KINDS,
    PLAIN,
    REWOUND,
    SESSION_COLUMNS,
    STATE_BITS,
    Created,
    Session,
    base_title,
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

    from hermes.storage.records import Row, StoredMessage

_FIELDS = ", ".join(name for name in Session._fields if name != "damaged")
_COLUMNS = "id, role, state, timestamp, content, name, tool_calls, tool_call_id, token_count, extra, checksum"
_READ = """
    SELECT b.first_place + (m.id & 31), m.id, m.role, m.state, m.timestamp, m.content, m.name, m.tool_calls,
        m.tool_call_id, m.token_count, m.extra, m.checksum
    FROM blocks b JOIN messages m ON m.person = b.person
        AND m.id BETWEEN greatest(b.block << 5, %(low)s) AND least((b.block << 5) + 31, %(high)s)
    WHERE b.person = %(person)s AND b.session = %(session)s
        AND b.block BETWEEN %(low)s::bigint >> 5 AND %(high)s::bigint >> 5
        AND ((m.state & 3) <> 2 OR %(rewound)s)
        AND (NOT %(spoken)s OR (m.role IN ('user', 'assistant') AND m.content IS NOT NULL))
    ORDER BY m.id {order} LIMIT %(limit)s
"""
_OLDEST_FIRST, _NEWEST_FIRST = _READ.format(order="ASC"), _READ.format(order="DESC")
_BY_IDS = f"SELECT {_COLUMNS} FROM messages WHERE person = %s AND id = ANY(%s)"
_TEXTS = "SELECT id, name, content, tool_calls FROM messages WHERE person = %s AND id = ANY(%s)"
_TO_APPEND_TO = """
    SELECT key, last_id, activity, preview, (
        SELECT coalesce(max(activity), 0) FROM sessions WHERE person = %(person)s AND listed = 1 AND archived = 0
    ) FROM sessions WHERE person = %(person)s AND id = %(id)s
"""
_NEWEST_ACTIVITY = """
    SELECT coalesce(max(activity), 0) FROM sessions WHERE person = %s AND listed = 1 AND archived = 0
"""
_INSERT = f"""
    INSERT INTO messages (person, {_COLUMNS}, length, said, tools)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s,
        array_to_tsvector(%s::text[]), array_to_tsvector(%s::text[]))
"""
_COUNT_IN = """
    UPDATE sessions SET last_id = %s, message_count = message_count + %s, tool_call_count = tool_call_count + %s,
        last_active = greatest(last_active, %s), preview = %s, activity = %s,
        said_messages = said_messages + %s, said_words = said_words + %s
    WHERE person = %s AND key = %s
"""
_WHOLE = f"""
    SELECT {", ".join(f"m.{name}" for name in _COLUMNS.split(", "))}
    FROM blocks b JOIN messages m ON m.person = b.person AND m.id BETWEEN b.block << 5 AND (b.block << 5) + 31
    WHERE b.person = %s AND b.session = %s ORDER BY m.id
"""
_NEW_WORDS = """
    INSERT INTO vocabulary SELECT %s, %s, word FROM unnest(%s::text[]) AS word ORDER BY word ON CONFLICT DO NOTHING
"""
_SET_STATE = """
    UPDATE messages SET state = (state & ~3) | %(state)s, said = CASE WHEN %(gone)s THEN NULL ELSE said END,
        tools = CASE WHEN %(gone)s THEN NULL ELSE tools END
    WHERE person = %(person)s AND id BETWEEN %(first)s AND %(last)s AND (state & 3) < %(state)s
        AND EXISTS (SELECT FROM blocks b WHERE b.person = %(person)s AND b.block = id >> 5 AND b.session = %(session)s)
    RETURNING CASE WHEN %(gone)s THEN length ELSE 0 END
"""
_HELD_WORDS = """
    SELECT DISTINCT unnest(tsvector_to_array({column})) FROM messages WHERE person = %s AND id = ANY(%s)
"""
_FORGET_WORDS = "DELETE FROM vocabulary WHERE person = %s AND kind = %s AND word IN (SELECT unheld(%s, %s::text[]))"
_MESSAGES_OF = """
    SELECT m.id FROM blocks b
        JOIN messages m ON m.person = b.person AND m.id BETWEEN b.block << 5 AND (b.block << 5) + 31
    WHERE b.person = %s AND b.session = %s AND m.id > %s
"""
_ANY = """
    SELECT 1 FROM blocks b JOIN messages m ON m.person = b.person AND m.id BETWEEN b.block << 5 AND (b.block << 5) + 31
    WHERE b.person = %s AND b.session = %s AND {wanted} LIMIT 1
"""
_ANY_COMPACTED = _ANY.format(wanted="(m.state & 3) = 1")
_POINTERS = (b'"compaction":true', b'"copy_of":')
_ANY_POINTER = _ANY.format(wanted="(position(%s::bytea IN m.extra) > 0 OR position(%s::bytea IN m.extra) > 0)")
_SEEN_BEFORE = """
    SELECT count(*) FROM blocks b
        JOIN messages m ON m.person = b.person AND m.id BETWEEN b.block << 5 AND (b.block << 5) + 31
    WHERE b.person = %s AND b.session = %s AND m.id < %s AND (m.state & 3) <> 2
"""
_SPANS = """
    SELECT block << 5, (block << 5) + 31, session FROM blocks
    WHERE person = %s AND block BETWEEN %s AND %s ORDER BY block LIMIT %s
"""
_KEEP_META = """
    INSERT INTO meta (person, key, kind, value) VALUES (%s, %s, %s, %s)
    ON CONFLICT (person, key) DO UPDATE SET kind = excluded.kind, value = excluded.value
"""
_WITH_IMAGES = "SELECT extra FROM messages WHERE person = %s AND position(%s::bytea IN extra) > 0"
_TITLES = """
    SELECT title FROM sessions WHERE person = %(person)s AND key <> %(holder)s
        AND (title = %(base)s OR (title > %(base)s || ' #' AND title < %(base)s || ' $'))
"""
_RESOLVE = f"""
    SELECT {_FIELDS} FROM sessions WHERE person = %(person)s
        AND (title = %(title)s OR (title > %(title)s || ' #' AND title < %(title)s || ' $'))
        AND (%(root)s::bigint IS NULL OR root = %(root)s) ORDER BY activity DESC LIMIT 1
"""
_LEASE_SECONDS = 600.0
_TABLES = (
    *("messages", "vocabulary", "blocks", "vectors", "summaries", "session_details", "sessions", "meta", "images"),
    *("documents", "logs", "people"),
)


class PostgresConversations:
    """The conversations of one person; the database itself shows no row of anybody else."""

    only_read = False
    damage = None
    journal_mode = "postgresql"

    def __init__(self, database: PersonDatabase, owner: str) -> None:
        self.database = database
        self.owner = owner
        self._person = database.person
        self._words = Words()
        self.images = Images(PostgresImages(database))
        self.index = PostgresIndex(database, self._words)
        self.summaries = PostgresSummaries(database)
        self.maintenance = PostgresMaintenance(database)
        self.undo = PostgresUndo(self)
        self.copies = PostgresCopies(self)

    @classmethod
    def open(cls, address: str, *, owner: str, wait: float | None = None) -> Self:
        wait = WAIT_SECONDS if wait is None else wait
        return cls(PersonDatabase(address, person_named(address, owner, wait=wait), wait=wait), owner)

    @property
    def place(self) -> str:
        return self.database.place

    @property
    def in_transaction(self) -> bool:
        return self.database.in_transaction

    def is_replaced(self) -> bool:
        return False  # a database elsewhere is reached again by its address

    def mark_damaged(self, seen: str) -> None:
        raise StorageError(f"{self.place} contradicts itself: {seen}; restore it from a backup")

    def vectors(self) -> PostgresVectors:
        return PostgresVectors(self.database)

    def transaction(self, *, synced: bool = True) -> AbstractContextManager[object]:
        return self.database.writing()

    def reading(self) -> AbstractContextManager[object]:
        return self.database.reading()

    def waiting_at_most(self, seconds: float) -> AbstractContextManager[object]:
        return self.database.waiting_at_most(seconds)

    def sync(self) -> None:
        """Every commit is on the server's disk already."""

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
        now = time.time()
        started = now if started_at is None else float(started_at)
        name = session_id or new_id(now)
        if parent is not None:
            kind = kind or ("delegate" if source in ("subagent", "tool") else "compression")
        if kind is not None and kind not in KINDS:
            raise ValueError(f"kind is {kind!r}; it must be one of {', '.join(KINDS)}")
        with self.database.writing() as connection:
            clean = self._free_title(title)
            key = self._next("last_session")
            root = parent.root if parent is not None and kind != "branch" else key
            columns = {
                "person": self._person,
                "key": key,
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
                **{column: value for column, value in more.items() if column in PLAIN and value is not None},
            }
            columns["archived"] = int(columns.get("archived", 0))
            made = f"""
                INSERT INTO sessions ({", ".join(columns)}) VALUES ({", ".join(["%s"] * len(columns))})
                ON CONFLICT (person, id) DO NOTHING RETURNING key
            """
            if not connection.execute(made, list(columns.values()), binary=True).fetchall():
                raise StorageError(f"there is already a session {name!r}; leave session_id out to get a new one")
            if kind == "compression" and parent is not None:
                connection.execute(
                    "UPDATE sessions SET listed = 0 WHERE person = %s AND key <> %s AND (root = %s OR key = %s)",
                    (self._person, key, root, root),
                )
            rest = {k: v for k, v in more.items() if k not in PLAIN and k != "system_prompt" and v is not None}
            if rest or more.get("system_prompt") is not None:
                self._set_details(key, more.get("system_prompt"), rest)
            self.index_title(key, clean)
        return Created(name, key, clean)

    def find(self, session_id: str) -> Session | None:
        return self._first("WHERE person = %s AND id = %s", (self._person, session_id))

    def by_keys(self, keys: Sequence[int]) -> dict[int, Session]:
        found = self._all("WHERE person = %s AND key = ANY(%s)", (self._person, list(keys))) if keys else []
        return {session.key: session for session in found}

    def resolve(self, name: str) -> Session | None:
        found = self.find(name)
        if found is not None:
            return found
        title = clean_title(name)
        if title is None:
            return None
        exact = self._first("WHERE person = %s AND title = %s", (self._person, title))
        values = {"person": self._person, "title": title, "root": exact.root if exact else None}
        row = self.database.row(_RESOLVE, values)
        return Session(*row) if row else None

    def resembling(self, words: str, limit: int) -> list[Session]:
        return self._all(
            "WHERE person = %s AND listed = 1 AND (starts_with(id, %s) OR strpos(lower(title), lower(%s)) > 0)"
            " ORDER BY activity DESC LIMIT %s",
            (self._person, words, words, limit),
        )

    def listing(
        self, *, limit: int, offset: int, source: str | None, project: str | None, archived: bool, begun: bool
    ) -> list[Session]:
        where = ["person = %s", "listed = 1", "archived = 1" if archived else "archived = 0"]
        if begun:
            where.append("(last_id > 0 OR title IS NOT NULL)")
        values: list[Any] = [self._person]
        for column, value in (("source", source), ("project", project)):
            if value is not None:
                where.append(f"{column} = %s")
                values.append(value)
        wanted = f"WHERE {' AND '.join(where)} ORDER BY activity DESC LIMIT %s OFFSET %s"
        return self._all(wanted, (*values, None if limit < 0 else limit, offset))

    def lineage(self, session: Session) -> list[Session]:
        wanted = "WHERE person = %s AND (key = %s OR (root = %s AND root <> key)) ORDER BY key"
        return self._all(wanted, (self._person, session.root, session.root))

    def tip(self, session: Session) -> Session:
        later = "WHERE person = %s AND root = %s AND root <> key AND kind = 'compression' ORDER BY key DESC LIMIT 1"
        return self._first(later, (self._person, session.root)) or session

    def keys_after(self, key: int, most: int) -> list[int]:
        wanted = "SELECT key FROM sessions WHERE person = %s AND key > %s ORDER BY key LIMIT %s"
        return self.database.column(wanted, (self._person, key, most))

    def details(self, session: Session) -> dict[str, Any]:
        wanted = "SELECT system_prompt, details FROM session_details WHERE person = %s AND session = %s"
        row = self.database.row(wanted, (self._person, session.key))
        if row is None:
            return {}
        stored: dict[str, Any] = json.loads(row[1]) if row[1] else {}
        return stored if row[0] is None else {"system_prompt": row[0], **stored}

    def set_details(self, session: Session, prompt: str, details: Mapping[str, Any]) -> None:
        self._set_details(session.key, prompt, details)

    def rename(self, session: Session, title: str | None) -> str | None:
        with self.database.writing() as connection:
            kept = self._free_title(title, holder=session.key)
            connection.execute(
                "UPDATE sessions SET title = %s WHERE person = %s AND key = %s", (kept, self._person, session.key)
            )
            self.index_title(session.key, kept)
        return kept

    def update(self, session: Session, values: Mapping[str, Any]) -> None:
        with self.database.writing() as connection:
            for name, given in values.items():
                value = int(given) if name == "archived" else given
                change = f"coalesce({name}, 0) + %s" if name in COUNTERS else "%s"
                connection.execute(
                    f"UPDATE sessions SET {name} = {change} WHERE person = %s AND key = %s",
                    (value, self._person, session.key),
                )

    def end(self, session: Session, reason: str, at: float | None = None) -> bool:
        ended = """
            UPDATE sessions SET ended_at = %s, end_reason = %s
            WHERE person = %s AND key = %s AND ended_at IS NULL RETURNING key
        """
        with self.database.writing() as connection:
            values = (time.time() if at is None else at, reason, self._person, session.key)
            return bool(connection.execute(ended, values, binary=True).fetchall())

    def delete(self, key: int) -> None:
        """Delegated children go with it; other children stay, and the first continuation becomes the beginning."""
        with self.database.writing() as connection:
            mine = (self._person, key)
            children = "SELECT key FROM sessions WHERE person = %s AND parent = %s AND kind = 'delegate'"
            for child in self.database.column(children, mine):
                self.delete(child)
            heir = self.database.row(
                "SELECT key FROM sessions WHERE person = %s AND root = %s AND root <> key AND kind = 'compression'"
                " ORDER BY key LIMIT 1",
                mine,
            )
            if heir:
                connection.execute(
                    "UPDATE sessions SET root = %s WHERE person = %s AND root = %s AND key <> %s", (heir[0], *mine, key)
                )
            connection.execute("UPDATE sessions SET parent = NULL WHERE person = %s AND parent = %s", mine)
            ids = self.database.column(_MESSAGES_OF, (*mine, -1))
            words = self.words_of(ids)
            connection.execute("DELETE FROM messages WHERE person = %s AND id = ANY(%s)", (self._person, ids))
            connection.execute(
                "DELETE FROM vectors WHERE person = %s AND block IN"
                " (SELECT block FROM blocks WHERE person = %s AND session = %s)",
                (self._person, *mine),
            )
            for table in ("blocks", "session_details", "summaries"):
                connection.execute(f"DELETE FROM {table} WHERE person = %s AND session = %s", mine)
            connection.execute("DELETE FROM sessions WHERE person = %s AND key = %s", mine)
            self.forget_words(words)
            self.remove_unused_images()

    def counts(self) -> dict[str, int]:
        counted = "SELECT count(*), coalesce(sum(message_count), 0)::bigint FROM sessions WHERE person = %s"
        sessions, messages = self.database.row(counted, (self._person,))
        return {"sessions": sessions, "messages": messages}

    # --- messages ----------------------------------------------------------------------------------------------------

    def append(self, session_id: str, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        with self.database.writing() as connection:
            if any(message.get(IMAGES) for message in messages):
                messages = self.images.put(messages)
            found = self.database.row(_TO_APPEND_TO, {"person": self._person, "id": session_id})
            if found is None:
                raise NotFound(f"there is no session {session_id!r}; create_session makes one")
            key, last_id, activity, preview, newest = found
            ids = self._next_ids(key, last_id, len(messages))
            batch = prepared(ids, messages, key, now=time.time(), preview=preview)
            used = activity if activity and activity == newest else newest + 1
            said = self.add_rows(batch.rows)
            counted = (ids[-1], len(ids), batch.calls, batch.newest, batch.preview, used, *said)
            connection.execute(_COUNT_IN, (*counted, self._person, key))
        return ids

    def add_rows(self, rows: Sequence[Row]) -> tuple[int, int]:
        """Stores messages with their words; returns how many of them said something, and how many words."""
        terms = [terms_of(row, self._words) for row in rows]
        bound = [_bound(self._person, row, each) for row, each in zip(rows, terms, strict=True)]
        said = [each.length for each in terms if each.said is not None]
        with self.database.writing() as connection:
            if len(bound) == 1:
                connection.execute(_INSERT, bound[0])
            else:
                with connection.cursor() as cursor:
                    cursor.executemany(_INSERT, bound)
            for kind, column in (("messages", "said"), ("tools", "tools")):
                words = {word for each in terms for word in getattr(each, column) or ()}
                if words:
                    connection.execute(_NEW_WORDS, (self._person, kind, list(words)))
        return len(said), sum(said)

    def rows_of(self, session: int) -> list[Row]:
        """Every message of a session, in order."""
        return [_row(row) for row in self.database.rows(_WHOLE, (self._person, session))]

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
            "person": self._person,
            "session": session.key,
            "low": low,
            "high": high,
            "limit": limit,
            "rewound": rewound,
            "spoken": spoken,
        }
        rows = self.database.rows(_NEWEST_FIRST if newest else _OLDEST_FIRST, values)
        return [decode(_row(row[1:]), row[0], session.key) for row in rows]

    def rows(self, message_ids: Iterable[int]) -> dict[int, Row]:
        wanted = list(message_ids)
        found = {row[0]: _row(row) for row in self.database.rows(_BY_IDS, (self._person, wanted))} if wanted else {}
        return {i: found[i] for i in wanted if i in found and found[i][2] & STATE_BITS != REWOUND}

    def texts(self, message_ids: Sequence[int]) -> list[tuple[int, bytes]]:
        rows = self.database.rows(_TEXTS, (self._person, list(message_ids))) if message_ids else []
        found = {row[0]: b" ".join(part for part in row[1:] if part is not None) for row in rows}
        return [(i, found[i]) for i in message_ids if i in found]

    def session_key(self, message_id: int) -> int | None:
        wanted = "SELECT session FROM blocks WHERE person = %s AND block = %s"
        row = self.database.row(wanted, (self._person, message_id >> BLOCK_BITS))
        return int(row[0]) if row else None

    def place_of(self, message_id: int) -> int:
        wanted = "SELECT first_place FROM blocks WHERE person = %s AND block = %s"
        row = self.database.row(wanted, (self._person, message_id >> BLOCK_BITS))
        return int(row[0]) + message_id % BLOCK if row else -1

    def first_message(self, session: int) -> int | None:
        row = self.database.row(
            "SELECT min(block) FROM blocks WHERE person = %s AND session = %s", (self._person, session)
        )
        return None if row[0] is None else int(row[0]) << BLOCK_BITS

    def spans(self, low: int, high: int, most: int) -> list[tuple[int, int, int]]:
        return self.database.rows(_SPANS, (self._person, low >> BLOCK_BITS, high >> BLOCK_BITS, most))

    def count_before(self, session: Session, message_id: int) -> int:
        return int(self.database.row(_SEEN_BEFORE, (self._person, session.key, message_id))[0])

    def holds_compacted(self, session: Session) -> bool:
        return bool(self.database.rows(_ANY_COMPACTED, (self._person, session.key)))

    def holds_pointers(self, session: Session) -> bool:
        return bool(self.database.rows(_ANY_POINTER, (self._person, session.key, *_POINTERS)))

    def set_state(self, session: Session, message_ids: Iterable[int], state: int) -> None:
        ids = sorted(set(message_ids))
        gone = state == REWOUND
        values = {"person": self._person, "session": session.key, "state": state, "gone": gone}
        with self.database.writing() as connection:
            words = self.words_of(ids) if gone else {}
            lengths: list[int] = []
            for first, last in runs(ids):
                changed = connection.execute(_SET_STATE, {**values, "first": first, "last": last}, binary=True)
                lengths += [length for (length,) in changed.fetchall()]
            if gone and lengths:
                connection.execute(
                    "UPDATE sessions SET message_count = message_count - %s, said_messages = said_messages - %s,"
                    " said_words = said_words - %s WHERE person = %s AND key = %s",
                    (len(lengths), sum(1 for length in lengths if length), sum(lengths), self._person, session.key),
                )
                self.forget_words(words)

    def remove_unused_images(self) -> int:
        with self.database.writing():
            if not self.images.exist:
                return 0
            rows = self.database.column(_WITH_IMAGES, (self._person, b'"images":['))
            return self.images.keep_only(bytes(row).decode() for row in rows)

    def start_ids_at(self, message_id: int) -> None:
        with self.database.writing() as connection:
            connection.execute(
                "UPDATE people SET last_block = %s WHERE person = %s", (message_id >> BLOCK_BITS, self._person)
            )

    def has_others(self) -> bool:
        return False  # nobody else's can be seen

    def forget(self) -> None:
        """Removes everything of this person, and the person."""
        with self.database.writing() as connection:
            for table in _TABLES:
                connection.execute(f"DELETE FROM {table} WHERE person = %s", (self._person,))

    # --- small values ------------------------------------------------------------------------------------------------

    def get_meta(self, key: str) -> Any:
        row = self.database.row("SELECT kind, value FROM meta WHERE person = %s AND key = %s", (self._person, key))
        return _opened(*row) if row else None

    def set_meta(self, key: str, value: str | float | bytes | None) -> None:
        with self.database.writing() as connection:
            if value is None:
                connection.execute("DELETE FROM meta WHERE person = %s AND key = %s", (self._person, key))
            else:
                connection.execute(_KEEP_META, (self._person, key, *_packed(value)))

    def meta_from(self, prefix: str) -> list[tuple[str, Any]]:
        wanted = "SELECT key, kind, value FROM meta WHERE person = %s AND starts_with(key, %s) ORDER BY key"
        rows = self.database.rows(wanted, (self._person, prefix))
        return [(key.removeprefix(prefix), _opened(kind, value)) for key, kind, value in rows]

    def forget_meta(self, prefix: str, first: str = "") -> None:
        gone = "DELETE FROM meta WHERE person = %s AND starts_with(key, %s) AND key >= %s"
        with self.database.writing() as connection:
            connection.execute(gone, (self._person, prefix, prefix + first))

    # --- parts -------------------------------------------------------------------------------------------------------

    def _first(self, wanted: str, values: tuple[Any, ...]) -> Session | None:
        found = self._all(wanted, values)
        return found[0] if found else None

    def _all(self, wanted: str, values: tuple[Any, ...]) -> list[Session]:
        return [Session(*row) for row in self.database.rows(f"SELECT {_FIELDS} FROM sessions {wanted}", values)]

    def _free_title(self, title: str | None, *, holder: int = 0) -> str | None:
        clean = clean_title(title)
        if clean is None:
            return None
        base = base_title(clean)
        taken = set(self.database.column(_TITLES, {"person": self._person, "base": base, "holder": holder}))
        if clean not in taken:
            return clean
        free = numbered_title(base, taken)
        return free if free.startswith(f"{base} #") else self._free_title(free, holder=holder)

    def index_title(self, key: int, title: str | None) -> None:
        with self.database.writing() as connection:
            words = list(Terms.cut(self._words.of(title))) if title else None
            connection.execute(
                "UPDATE sessions SET title_words = array_to_tsvector(%s::text[]) WHERE person = %s AND key = %s",
                (words, self._person, key),
            )
            if words:
                connection.execute(_NEW_WORDS, (self._person, "titles", words))

    def _set_details(self, key: int, prompt: str | None, details: Mapping[str, Any]) -> None:
        kept = """
            INSERT INTO session_details (person, session, system_prompt, details) VALUES (%s, %s, %s, %s)
            ON CONFLICT (person, session)
            DO UPDATE SET system_prompt = excluded.system_prompt, details = excluded.details
        """
        with self.database.writing() as connection:
            connection.execute(kept, (self._person, key, prompt, json.dumps(details) if details else None))

    def _next(self, counter: str, count: int = 1) -> int:
        """The first of so many numbers that nobody had."""
        taken = f"UPDATE people SET {counter} = {counter} + %s WHERE person = %s RETURNING {counter}"
        return int(self.database.row(taken, (count, self._person))[0]) - count + 1

    def _newest_activity(self) -> int:
        return int(self.database.row(_NEWEST_ACTIVITY, (self._person,))[0])

    def _next_ids(self, session: int, last_id: int, count: int) -> list[int]:
        """Ids that follow the session's last one inside its block, then those of new blocks."""
        left = -(last_id + 1) % BLOCK if last_id else 0
        ids = list(range(last_id + 1, last_id + 1 + min(left, count)))
        blocks = -(-(count - len(ids)) // BLOCK)
        if blocks > 0:
            place = self.place_of(last_id) + 1 + len(ids) if last_id else 0
            first = self._next("last_block", blocks)
            added = [(self._person, first + n, session, place + n * BLOCK) for n in range(blocks)]
            with self.database.writing() as connection, connection.cursor() as cursor:
                cursor.executemany(
                    "INSERT INTO blocks (person, block, session, first_place) VALUES (%s, %s, %s, %s)", added
                )
            ids += range(first << BLOCK_BITS, (first << BLOCK_BITS) + count - len(ids))
        return ids

    def words_of(self, ids: Sequence[int]) -> dict[str, list[str]]:
        """What the index holds of messages that are about to go."""
        if not ids:
            return {}
        return {
            kind: self.database.column(_HELD_WORDS.format(column=column), (self._person, list(ids)))
            for kind, column in (("messages", "said"), ("tools", "tools"))
        }

    def forget_words(self, words: Mapping[str, Sequence[str]]) -> None:
        """Words that no message holds any more."""
        with self.database.writing() as connection:
            for kind, gone in words.items():
                if gone:
                    connection.execute(_FORGET_WORDS, (self._person, kind, kind, list(gone)))


def _bound(person: int, row: Row, terms: Terms) -> tuple[Any, ...]:
    message_id, role, state, timestamp, content, name, calls, call_id, tokens, extra, checksum = row
    texts = [None if text is None else text.encode() for text in (content, name, calls, call_id, extra)]
    parts = (person, message_id, role, state, timestamp, *texts[:4], tokens, texts[4], checksum, terms.length)
    return (*parts, terms.said, terms.tools)


def _row(found: Sequence[Any]) -> Row:
    texts = [None if part is None else bytes(part).decode() for part in found[4:8]]
    extra = None if found[9] is None else bytes(found[9]).decode()
    return (*found[:4], *texts, found[8], extra, found[10])


def _packed(value: str | float | bytes) -> tuple[str, bytes]:
    if isinstance(value, bytes):
        return "bytes", value
    if isinstance(value, str):
        return "text", value.encode()
    if isinstance(value, int):
        return "integer", str(int(value)).encode()
    return "float", struct.pack("<d", value)


def _opened(kind: str, value: bytes) -> Any:
    match kind:
        case "bytes":
            return bytes(value)
        case "text":
            return bytes(value).decode()
        case "integer":
            return int(value)
        case _:
            return struct.unpack("<d", value)[0]


class PostgresUndo:
    """Takes back what an import added."""

    def __init__(self, store: PostgresConversations) -> None:
        self._store = store
        self._database = store.database
        self._person = store.database.person

    def numbers(self) -> dict[str, int]:
        row = self._database.row("SELECT last_session, last_block FROM people WHERE person = %s", (self._person,))
        return {"sessions": row[0], "blocks": row[1]}

    def put_numbers_back(self, numbers: Mapping[str, int]) -> None:
        back = """
            UPDATE people SET
                last_session = greatest(%(sessions)s, (SELECT max(key) FROM sessions WHERE person = %(person)s)),
                last_block = greatest(%(blocks)s, (SELECT max(block) FROM blocks WHERE person = %(person)s))
            WHERE person = %(person)s
        """
        values = {"person": self._person, "sessions": numbers.get("sessions", 0), "blocks": numbers.get("blocks", 0)}
        with self._database.writing() as connection:
            connection.execute(back, values)

    def session_row(self, session_id: str) -> dict[str, Any] | None:
        wanted = "SELECT row_to_json(s)::text FROM sessions s WHERE person = %s AND id = %s"
        row = self._database.row(wanted, (self._person, session_id))
        return json.loads(row[0]) if row else None

    def cut(self, row: Mapping[str, Any]) -> None:
        last, mine = row["last_id"], (self._person, row["key"])
        block = last >> BLOCK_BITS
        with self._database.writing() as connection:
            later = self._database.column(_MESSAGES_OF, (*mine, last))
            words = self._store.words_of(later)
            connection.execute("DELETE FROM messages WHERE person = %s AND id = ANY(%s)", (self._person, later))
            connection.execute("DELETE FROM vectors WHERE person = %s AND block = %s", (self._person, block))
            connection.execute(
                "DELETE FROM blocks WHERE person = %s AND session = %s AND block > %s", (*mine, block if last else -1)
            )
            names = [name for name in row if name not in ("person", "key", "id", "title_words", "embedded_id")]
            put_back = ", ".join(f"{name} = %s" for name in names)
            connection.execute(
                f"UPDATE sessions SET {put_back}, embedded_id = least(embedded_id, %s) WHERE person = %s AND key = %s",
                (*(row[name] for name in names), last, *mine),
            )
            self._store.index_title(row["key"], row["title"])
            self._store.forget_words(words)

    @contextlib.contextmanager
    def alone(self, timeout: float) -> Iterator[None]:
        """A lease, because a lock would need a connection for as long as the import runs."""
        mine = {"until": time.time() + _LEASE_SECONDS}
        with self._store.transaction():
            if self.is_running():
                raise LockTimeout("another import into these conversations is running; wait until it has ended")
            self._store.set_meta("importing", json.dumps(mine))
        try:
            yield
        finally:
            if not self._database.is_closed:
                self._store.set_meta("importing", None)

    def is_running(self) -> bool:
        lease = self._store.get_meta("importing")
        return lease is not None and json.loads(lease)["until"] > time.time()


_SESSION = f"SELECT {', '.join(SESSION_COLUMNS)} FROM sessions WHERE person = %s AND key = %s"
_SUMMARIES = """
    SELECT node, depth, ids, messages, text, made_by, made_at, children
    FROM summaries WHERE person = %s AND session = %s ORDER BY node
"""
_ADD_SUMMARY = """
    INSERT INTO summaries (person, session, node, depth, ids, messages, text, made_by, made_at, children)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""
_COUNT_WORDS = "UPDATE sessions SET said_messages = %s, said_words = %s WHERE person = %s AND key = %s"


class PostgresCopies:
    """Reads and writes whole sessions, for moving between engines."""

    def __init__(self, store: PostgresConversations) -> None:
        self._store = store
        self._database = store.database

    def session(self, key: int) -> Whole:
        mine = (self._database.person, key)
        with self._database.reading():
            row = self._database.row(_SESSION, mine)
            if row is None:
                raise NotFound(f"session {key} is gone")
            details = "SELECT system_prompt, details FROM session_details WHERE person = %s AND session = %s"
            places = "SELECT block, first_place FROM blocks WHERE person = %s AND session = %s ORDER BY block"
            summaries = self._database.rows(_SUMMARIES, mine)
            return Whole(
                row=dict(zip(SESSION_COLUMNS, row, strict=True)),
                details=self._database.row(details, mine),
                blocks=self._database.rows(places, mine),
                messages=self._store.rows_of(key),
                summaries=[(*node[:-1], tuple(sorted(node[-1]))) for node in summaries],
            )

    def put(self, whole: Whole) -> None:
        key, person = whole.row["key"], self._database.person
        columns: dict[str, Any] = {"person": person, **whole.row}
        names, marks = ", ".join(columns), ", ".join(["%s"] * len(columns))
        with self._database.writing() as connection:
            connection.execute(f"INSERT INTO sessions ({names}) VALUES ({marks})", list(columns.values()))
            if whole.details is not None:
                connection.execute(
                    "INSERT INTO session_details (person, session, system_prompt, details) VALUES (%s, %s, %s, %s)",
                    (person, key, *whole.details),
                )
            with connection.cursor() as cursor:
                blocks = [(person, block, key, place) for block, place in whole.blocks]
                cursor.executemany(
                    "INSERT INTO blocks (person, block, session, first_place) VALUES (%s, %s, %s, %s)", blocks
                )
                nodes = [(person, key, *node[:-1], list(node[-1])) for node in whole.summaries]
                cursor.executemany(_ADD_SUMMARY, nodes)
            said = self._store.add_rows(whole.messages) if whole.messages else (0, 0)
            connection.execute(_COUNT_WORDS, (*said, person, key))
            self._store.index_title(key, whole.row["title"])
            connection.execute(
                "UPDATE people SET last_node = greatest(last_node, %s) WHERE person = %s",
                (max((node[0] for node in whole.summaries), default=0), person),
            )
