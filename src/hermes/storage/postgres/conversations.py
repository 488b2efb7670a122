"""The PostgreSQL engine's conversations: every session and message of one person among many.

Ids, words and checksums are those of the local engine, so a search ranks the same candidates in both. Message texts are
stored as bytes, because PostgreSQL's text cannot contain the character NUL.
"""

from __future__ import annotations

import contextlib
import struct
import time
from typing import TYPE_CHECKING, Any, Self

from hermes.base.errors import LockTimeout, NotFound
from hermes.base.words import Words
from hermes.storage.conversations import FIELDS, MESSAGES, Conversations, Maintenance, Summaries
from hermes.storage.images import IMAGES, Images
from hermes.storage.postgres.database import WAIT_SECONDS, PersonDatabase, person_named
from hermes.storage.postgres.documents import PostgresLease
from hermes.storage.postgres.search import PostgresIndex, PostgresVectors, Terms, terms_of
from hermes.storage.records import (
    BLOCK_BITS,
    REWOUND,
    STATE_BITS,
    Session,
    prepared,
    runs,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hermes.storage.ports import Summary
    from hermes.storage.records import Row


_COLUMNS = "id, role, state, timestamp, content, name, tool_calls, tool_call_id, token_count, extra, checksum"
_BY_IDS = f"SELECT {_COLUMNS} FROM messages WHERE person = %s AND id = ANY(%s)"
_BY_KEYS = f"SELECT {FIELDS} FROM sessions WHERE person = %s AND key = ANY(%s)"
_TEXTS = "SELECT id, name, content, tool_calls FROM messages WHERE person = %s AND id = ANY(%s)"
_TO_APPEND_TO = """
    SELECT key, last_id, activity, preview, (
        SELECT coalesce(max(activity), 0) FROM sessions WHERE person = %(person)s AND listed = 1 AND archived = 0
    ) FROM sessions WHERE person = %(person)s AND id = %(id)s
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
# Keys of a message that refer to others; bytes, because `extra` is stored as bytes.
_POINTERS = (b'"compaction":true', b'"copy_of":')
_ANY_POINTER = f"""
    SELECT 1 FROM {MESSAGES} WHERE b.owner = ? AND b.session = ?
        AND (position(?::bytea IN m.extra) > 0 OR position(?::bytea IN m.extra) > 0) LIMIT 1
"""
_PUT_DETAILS = """
    INSERT INTO session_details (person, session, system_prompt, details) VALUES (%s, %s, %s, %s)
    ON CONFLICT (person, session) DO UPDATE SET system_prompt = excluded.system_prompt, details = excluded.details
"""
_KEEP_META = """
    INSERT INTO meta (person, key, kind, value) VALUES (%s, %s, %s, %s)
    ON CONFLICT (person, key) DO UPDATE SET kind = excluded.kind, value = excluded.value
"""
_WITH_IMAGES = "SELECT extra FROM messages WHERE person = %s AND position(%s::bytea IN extra) > 0"
_IMPORTING = ".importing"
_LEASE_SECONDS = 600.0  # after which an import whose process died no longer keeps others out
_TABLES = (
    *("messages", "vocabulary", "blocks", "vectors", "summaries", "session_details", "sessions", "meta", "images"),
    *("documents", "logs", "people"),
)


class PostgresConversations(Conversations):
    """The conversations of one person; row-level security hides the rows of everyone else."""

    database: PersonDatabase

    def __init__(self, database: PersonDatabase, owner: str) -> None:
        super().__init__(database, owner, database.person)
        self._person = database.person
        self._words = Words()
        self.images = Images(PostgresImages(database))
        self.index = PostgresIndex(database, self._words)
        self.summaries = PostgresSummaries(database, self._person)
        self.maintenance = PostgresMaintenance(database, self._person)
        self.imports = PostgresImports(database)

    @classmethod
    def open(cls, address: str, *, owner: str, wait: float | None = None) -> Self:
        """Opens the conversations of the person with this name; `wait` limits how long a statement waits for a lock."""
        wait = WAIT_SECONDS if wait is None else wait
        return cls(PersonDatabase(address, person_named(address, owner, wait=wait), wait=wait), owner)

    def vectors(self) -> PostgresVectors:
        return PostgresVectors(self.database)

    def reading(self) -> contextlib.AbstractContextManager[object]:
        return self.database.searching()

    # --- sessions ----------------------------------------------------------------------------------------------------

    def expect(self, message_ids: Sequence[int], keys: Sequence[int]) -> None:
        message_ids = [i for i in message_ids if ("message", i) not in self.database.known]
        keys = [key for key in keys if ("session", key) not in self.database.known]
        if (message_ids or keys) and not self.database.in_transaction:
            asked = [(_BY_IDS, (self._person, message_ids))] if message_ids else []
            *rows, sessions = self.database.many([*asked, (_BY_KEYS, (self._person, keys))])
            # What is missing is remembered as None, so that it is not asked for again.
            known = self.database.known
            known |= dict.fromkeys([*(("message", i) for i in message_ids), *(("session", key) for key in keys)])
            known |= {("message", row[0]): _row(row) for found in rows for row in found}
            known |= {("session", row[0]): Session(*row) for row in sessions}

    def by_keys(self, keys: Sequence[int]) -> dict[int, Session]:
        known = self.database.known
        found = {key: known["session", key] for key in keys if ("session", key) in known}
        if missing := [key for key in keys if key not in found]:
            found |= {row[0]: Session(*row) for row in self.database.rows(_BY_KEYS, (self._person, missing))}
        return {key: session for key, session in found.items() if session is not None}

    def delete(self, key: int) -> None:
        with self.database.writing():
            self._delete(key)
            self.remove_unused_images()

    def _remove(self, key: int) -> None:
        # The words are read before their messages are deleted, and removed after, when it shows which are still used.
        mine = (self._person, key)
        with self.database.writing() as connection:
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

    def _next_session(self) -> int:
        return self._next("last_session", 1)

    def _next_block(self, count: int) -> int:
        return self._next("last_block", count)

    def _next(self, counter: str, count: int) -> int:
        """The first of `count` consecutive numbers that were never given out."""
        taken = f"UPDATE people SET {counter} = {counter} + %s WHERE person = %s RETURNING {counter}"
        return int(self.database.row(taken, (count, self._person))[0]) - count + 1

    def _sealed(self, key: int, name: str, source: str, title: str | None, preview: str | None) -> dict[str, Any]:
        return {}  # PostgreSQL has checksums of its own

    def _stored_details(self, key: int) -> tuple[str | None, str | None] | None:
        wanted = "SELECT system_prompt, details FROM session_details WHERE person = %s AND session = %s"
        found: tuple[str | None, str | None] | None = self.database.row(wanted, (self._person, key))
        return found

    def _put_details(self, key: int, prompt: str | None, details: str | None) -> None:
        self.database.run(_PUT_DETAILS, (self._person, key, prompt, details))

    def _put_messages(self, key: int, rows: Sequence[Row]) -> None:
        counted = "UPDATE sessions SET said_messages = %s, said_words = %s WHERE person = %s AND key = %s"
        self.database.run(counted, (*self.add_rows(rows), self._person, key))

    def index_title(self, key: int, title: str | None) -> None:
        with self.database.writing() as connection:
            words = list(Terms.cut(self._words.of(title))) if title else None
            connection.execute(
                "UPDATE sessions SET title_words = array_to_tsvector(%s::text[]) WHERE person = %s AND key = %s",
                (words, self._person, key),
            )
            if words:
                connection.execute(_NEW_WORDS, (self._person, "titles", words))

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
            used = activity if activity and activity == newest else newest + 1  # keeps it if it already is the newest
            said = self.add_rows(batch.rows)
            counted = (ids[-1], len(ids), batch.calls, batch.newest, batch.preview, used, *said)
            connection.execute(_COUNT_IN, (*counted, self._person, key))
        return ids

    def add_rows(self, rows: Sequence[Row]) -> tuple[int, int]:
        """Stores messages with their words in the index; returns how many have spoken text, and its number of words."""
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

    def _row(self, found: Sequence[Any]) -> Row:
        return _row(found)

    def rows(self, message_ids: Iterable[int]) -> dict[int, Row]:
        wanted, known = list(message_ids), self.database.known
        found = {i: known["message", i] for i in wanted if ("message", i) in known}
        if missing := [i for i in wanted if i not in found]:
            found |= {row[0]: _row(row) for row in self.database.rows(_BY_IDS, (self._person, missing))}
        return {i: row for i in wanted if (row := found.get(i)) is not None and row[2] & STATE_BITS != REWOUND}

    def texts(self, message_ids: Sequence[int]) -> list[tuple[int, bytes]]:
        rows = self.database.rows(_TEXTS, (self._person, list(message_ids))) if message_ids else []
        found = {row[0]: b" ".join(part for part in row[1:] if part is not None) for row in rows}
        return [(i, found[i]) for i in message_ids if i in found]

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
        self.database.run(
            "UPDATE people SET last_block = %s WHERE person = %s", (message_id >> BLOCK_BITS, self._person)
        )

    def has_others(self) -> bool:
        return False  # row-level security hides them

    def forget(self) -> None:
        """Deletes everything that is stored for this person, and the person."""
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

    def words_of(self, ids: Sequence[int]) -> dict[str, list[str]]:
        """The indexed words of messages that are about to be removed, by kind; `forget_words` takes them afterwards."""
        if not ids:
            return {}
        return {
            kind: self.database.column(_HELD_WORDS.format(column=column), (self._person, list(ids)))
            for kind, column in (("messages", "said"), ("tools", "tools"))
        }

    def forget_words(self, words: Mapping[str, Sequence[str]]) -> None:
        """Removes those of the words from the vocabulary that no message contains any more."""
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
    """A value of `meta` as its kind and bytes, so that it comes back with the same type as from SQLite."""
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


class PostgresImports:
    """Keeps imports apart with a lease, because a lock would occupy a connection for as long as the import runs."""

    def __init__(self, database: PersonDatabase) -> None:
        self._database = database
        self._person = database.person

    @contextlib.contextmanager
    def alone(self, timeout: float) -> Iterator[Callable[[], None]]:
        lease = PostgresLease(self._database, _IMPORTING, _LEASE_SECONDS)

        def renew() -> None:
            if not lease.take():
                raise LockTimeout("another import into these conversations is running; wait until it has ended")

        renew()
        try:
            yield renew
        finally:
            lease.give_back()

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
        self._database.run(back, values)


# Images, the summaries that a context engine keeps, and the size of a person's conversations in PostgreSQL.


class PostgresImages:
    """A person's images as rows, under their names."""

    def __init__(self, database: PersonDatabase) -> None:
        self._database = database
        self._person = database.person

    def names(self) -> list[str]:
        return self._database.column("SELECT name FROM images WHERE person = %s", (self._person,))

    def put(self, images: Iterable[tuple[str, bytes]]) -> None:
        added = "INSERT INTO images (person, name, data) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
        with self._database.writing() as connection:
            for name, data in images:
                connection.execute(added, (self._person, name, data))

    def read(self, name: str, at_most: int) -> bytes | None:
        wanted = "SELECT substring(data FROM 1 FOR %s) FROM images WHERE person = %s AND name = %s"
        row = self._database.row(wanted, (at_most, self._person, name))
        return None if row is None else bytes(row[0])

    def remove(self, names: Sequence[str]) -> None:
        self._database.run("DELETE FROM images WHERE person = %s AND name = ANY(%s)", (self._person, list(names)))


_ADD_SUMMARY = """
    INSERT INTO summaries (person, node, session, depth, ids, messages, text, made_by, made_at, children)
    SELECT %s, %s, key, %s, %s, %s, %s, %s, %s, %s FROM sessions WHERE person = %s AND id = %s
"""

_OF_SESSION = """
    SELECT node, depth, ids, messages, text, made_by, made_at, children
    FROM summaries WHERE person = %s AND session = %s ORDER BY node
"""
_PUT_SUMMARY = """
    INSERT INTO summaries (person, session, node, depth, ids, messages, text, made_by, made_at, children)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""


class PostgresSummaries(Summaries):
    """The summary graph in PostgreSQL; a row names its children, where SQLite has a table of edges."""

    child = """s.node = ANY(
        (SELECT p.children FROM summaries p WHERE p.person = :owner AND p.node = :parent)::bigint[])"""

    def add(self, session_id: str, node: Summary, children: Sequence[int]) -> Summary:
        person = self._owner
        with self._database.writing() as connection:
            taken = "UPDATE people SET last_node = last_node + 1 WHERE person = %s RETURNING last_node"
            number = int(self._database.row(taken, (person,))[0])
            row = (person, number, node.depth, node.ids, node.messages, node.text, node.made_by, time.time())
            connection.execute(_ADD_SUMMARY, (*row, list(children), person, session_id))
        return node._replace(number=number)

    def of_session(self, key: int) -> list[Any]:
        return [(*row[:-1], tuple(sorted(row[-1]))) for row in self._database.rows(_OF_SESSION, (self._owner, key))]

    def put(self, key: int, nodes: Sequence[Any]) -> None:
        with self._database.writing() as connection:
            for node in nodes:
                connection.execute(_PUT_SUMMARY, (self._owner, key, *node[:-1], list(node[-1])))
            # Later summaries get numbers above those that came from another engine.
            newest = "UPDATE people SET last_node = greatest(last_node, %s) WHERE person = %s"
            connection.execute(newest, (max((node[0] for node in nodes), default=0), self._owner))


class PostgresMaintenance(Maintenance):
    """Sizes of a person's rows; upkeep of tables and indexes is left to the server's autovacuum."""

    details = "d.person = s.person AND d.session = s.key"

    def sizes(self) -> dict[str, int]:
        stored = "SELECT coalesce(sum(pg_column_size(m.*)), 0)::bigint FROM messages m WHERE person = %s"
        return {"file_bytes": int(self._database.row(stored, (self._owner,))[0]), "log_bytes": 0, "free_bytes": 0}
