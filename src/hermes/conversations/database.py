"""`SessionDB`: every conversation of one owner in one file, appended safely and found again by asking.

`append` returns when the message is in the file at the path. With durability "message" (the default) it then also
survives a power cut; with "turn" it survives a kill at once and a power cut after `sync()`, at a seventh of the time.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from hermes.base.errors import DamagedFile, NotFound, StorageError
from hermes.conversations.search.engine import SearchEngine
from hermes.conversations.search.semantic import Meaning
from hermes.safety.fence import storable
from hermes.storage.files import is_running
from hermes.storage.images import IMAGES, ImageFiles, to_store
from hermes.storage.local.conversations import Conversations, Transcripts
from hermes.storage.local.damage import seal
from hermes.storage.local.database import OPTIONAL_WAIT, REPAIR, Database, all_rows, one_row
from hermes.storage.local.index import (
    BATCH,
    BULK_BATCH,
    LARGE_BATCH,
    index_waiting,
    is_up_to_date,
    remove_rows,
    set_title,
)
from hermes.storage.local.schema import WITH_IMAGES, add_images, migrate
from hermes.storage.records import (
    BLOCK,
    BLOCK_BITS,
    COMPACTED,
    COUNTERS,
    PLAIN,
    REWOUND,
    calls,
    encode,
    length,
    moment,
    preview_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    import apsw

    from hermes.conversations.search.results import SearchResults
    from hermes.conversations.search.semantic import Find
    from hermes.storage.local.database import Durability
    from hermes.storage.records import Session, StoredMessage

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


_INSERT = "INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
# Only what changes is named: naming a column writes the pages of its indexes, even when it is set to what it was.
_COUNT_IN = """
    UPDATE sessions SET last_id = ?, message_count = message_count + ?, tool_call_count = tool_call_count + ?,
        words = words + ?, last_active = max(last_active, ?), preview = ?, seal = ?
    WHERE key = ?
"""
_COUNT_IN_FIRST = _COUNT_IN.replace("SET", "SET waiting = 1,")  # a trigger would do the same, and take longer
_NOT_INDEXED = "nothing can be written now, so the newest messages are not indexed and may be missing"
_NOTE_ACTIVITY = "UPDATE sessions SET activity = ? WHERE key = ?"
_TO_APPEND_TO = """
    SELECT key, last_id, waiting, activity, source, title, preview, seal FROM sessions WHERE owner = ? AND id = ?
"""


class SessionDB:
    """Every conversation of one owner in one SQLite file: written durably, searched in plain words."""

    def __init__(self, database: Database, owner: str, owner_key: int, semantic: Find | None = None) -> None:
        self.owner = owner
        self._database = database
        self._owner_key = owner_key
        self._sessions = Conversations(database, owner_key)
        self._transcripts = Transcripts(database, owner_key)
        self._meaning = Meaning(database, owner_key, semantic)
        self._search = SearchEngine(database, owner_key, self._sessions, self._meaning)
        self._waiting = 0

    @cached_property
    def images(self) -> ImageFiles:
        return ImageFiles(self._database.path)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        owner: str = "local",
        durability: Durability = "message",
        semantic: Find | None = None,
        wait: float | None = None,
        reading: bool = False,
    ) -> Self:
        """Opens or creates the file; what belongs to another owner cannot be reached. `semantic` finds an embedding.

        `wait` is how many seconds another program's lock is waited for, here and at every write (5 unless given).
        With `reading` nothing is written, and a program that holds the write lock is not waited for.
        """
        database = Database.open(os.path.abspath(os.fspath(path)), durability=durability, wait=wait, reading=reading)
        try:
            migrate(database)
            return cls(database, owner, owner_key(database, owner), semantic)
        except BaseException:
            database.close()
            raise

    @property
    def path(self) -> str:
        return self._database.path

    @property
    def journal_mode(self) -> str:
        """`wal`, or `delete` on a file system without shared memory."""
        return self._database.journal

    def create_session(
        self,
        source: str = "cli",
        title: str | None = None,
        started_at: float | None = None,
        session_id: str | None = None,
        parent_session_id: str | None = None,
        *,
        kind: str | None = None,
        **more: Any,
    ) -> str:
        """Starts a session and returns its id; `more` takes model, project, cwd, system_prompt and anything else."""
        parent = self._sessions.get(parent_session_id) if parent_session_id else None
        with self._database.writing() as connection:
            created = self._sessions.create(
                connection,
                source=source,
                title=title,
                started_at=started_at,
                session_id=session_id,
                parent=parent,
                kind=kind,
                more=more,
            )
            if created.title:
                set_title(connection, created.key, self._owner_key, created.title)
        return created.id

    def append(self, session_id: str, message: Mapping[str, Any]) -> int:
        """Stores a message in OpenAI's format and returns its id; it is durable when this returns."""
        return self.append_many(session_id, [message])[0]

    def append_many(self, session_id: str, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """Stores the messages in one transaction and returns their ids, in order."""
        if not messages:
            return []
        with_images = any(type(message.get("content")) is list or IMAGES in message for message in messages)
        if with_images:
            messages = [to_store(message) for message in messages]
            if with_images := any(message.get(IMAGES) for message in messages):
                add_images(self._database)
        with self._database.writing() as connection:
            if with_images:  # under the lock, so that nobody removes one that is about to be named
                messages = self.images.put(messages)
            ids = self._append(connection, session_id, messages)
        self._waiting += len(ids)
        if self._waiting >= BATCH and not self._database.connection.in_transaction:
            most = max(BATCH, len(ids))  # an append takes as long as others do, whatever waits from before or elsewhere
            self._waiting = max(0, self._waiting - most)
            # The messages are stored; whatever happens here, the next search brings the index level.
            with contextlib.suppress(StorageError):
                index_waiting(self._database, batch=BULK_BATCH if most >= LARGE_BATCH else BATCH, most=most)
        return ids

    @contextlib.contextmanager
    def bulk(self) -> Iterator[None]:
        """One transaction around everything inside: for imports. Others cannot write meanwhile, so keep it short.

        Its messages are indexed with those of the following ones, because many at once cost less: call `index` after
        the last one, or the next search takes the time.
        """
        with self._database.writing():
            yield
        if self._waiting >= BULK_BATCH:
            self.index()

    def index(self) -> int:
        """Brings the full-text index level with the messages; a search does this by itself."""
        batch = BULK_BATCH if self._waiting >= LARGE_BATCH else LARGE_BATCH
        self._waiting = 0
        return index_waiting(self._database, batch=batch)

    def embed(self, most: int | None = None) -> int:
        """Makes the vectors of meaning that are missing (a search makes some); returns for how many messages."""
        self.index()
        return self._meaning.embed_waiting(most)

    def sync(self) -> None:
        """After this, everything appended before survives a power cut too (needed with durability "turn" only)."""
        self._database.sync()

    def search(self, query: str, limit: int = 10, **filters: Any) -> SearchResults:
        """The messages that answer a question best.

        Filters are roles, sources, exclude_sources, sessions, exclude_sessions, since and until (seconds), project,
        prefer_project, sort (relevance, newest, oldest) and explain.
        """
        indexed = not self._database.only_read
        try:
            with self._database.waiting_at_most(OPTIONAL_WAIT):
                self.index()
        except StorageError:  # a damaged file, one on a full disk or one that others hold is searched as it is
            indexed = False
        try:
            results = self._search.search(query, limit=limit, **filters)
        except LookupError as error:  # tables that contradict each other
            self._database.mark_damaged(f"its tables disagree about {error}")
            raise DamagedFile(f"{self.path} is damaged: its tables disagree; {REPAIR}") from error
        if self._database.damage is not None:
            results.note = f"the database is damaged, so messages may be missing here; {REPAIR}"
        elif not indexed and not is_up_to_date(self._database, self._owner_key):
            results.note = "; ".join(filter(None, (results.note, _NOT_INDEXED)))
        return results

    def get_session(self, session_id: str) -> Session:
        """What is stored about a session; NotFound when there is none of that id."""
        return self._sessions.get(session_id)

    def find_session(self, session_id: str) -> Session | None:
        return self._sessions.find(session_id)

    def resolve(self, name: str) -> Session | None:
        """The session with this id or title; of a conversation that went on under numbers its newest part."""
        return self._sessions.resolve(name)

    def resembling(self, words: str, limit: int = 20) -> list[Session]:
        return self._sessions.resembling(words, limit)

    def session_details(self, session_id: str) -> dict[str, Any]:
        return self._sessions.details(self._sessions.get(session_id))

    def list_sessions(
        self,
        *,
        limit: int = 20,
        offset: int = 0,
        source: str | None = None,
        project: str | None = None,
        archived: bool = False,
        begun: bool = False,
    ) -> list[Session]:
        """Conversations, the most recently used first; `begun` leaves out those in which nothing was said."""
        return self._sessions.listing(
            limit=limit, offset=offset, source=source, project=project, archived=archived, begun=begun
        )

    def lineage(self, session_id: str) -> list[Session]:
        return self._sessions.lineage(self._sessions.get(session_id))

    def root(self, session_id: str) -> Session:
        return self._sessions.by_keys([root := self._sessions.get(session_id).root])[root]

    def tip(self, session_id: str) -> Session:
        return self._sessions.tip(self._sessions.get(session_id))

    def messages(
        self,
        session_id: str,
        *,
        around: int | None = None,
        window: int = 5,
        limit: int | None = None,
        newest: bool = False,
        rewound: bool = False,
    ) -> list[StoredMessage]:
        """A whole session, or `window` messages on each side of the one named by `around`."""
        session = self._sessions.get(session_id)
        if around is not None:
            return self._transcripts.around(session, around, window)
        return self._transcripts.of(session, limit=limit, newest=newest, rewound=rewound)

    def bookends(self, session_id: str, count: int = 3) -> tuple[list[StoredMessage], list[StoredMessage]]:
        """The first and the last messages that a person or the assistant wrote."""
        return self._transcripts.bookends(self._sessions.get(session_id), count)

    def session_of(self, message_id: int) -> Session | None:
        key = self._transcripts.session_key(message_id)
        return None if key is None else self._sessions.by_key(key)

    def rename(self, session_id: str, title: str | None) -> str | None:
        """Gives the session a title, with ` #N` when another has it, and returns the title it now has."""
        session = self._sessions.get(session_id)
        with self._database.writing() as connection:
            kept = self._sessions.free_title(connection, title, holder=session.key)
            sealed = seal(session.key, self._owner_key, session.id, session.source, kept, session.preview)
            connection.execute("UPDATE sessions SET title = ?, seal = ? WHERE key = ?", (kept, sealed, session.key))
            set_title(connection, session.key, self._owner_key, kept)
        return kept

    def update_session(self, session_id: str, **values: Any) -> None:
        """Sets plain fields; token, call and cost counters are added to what is there."""
        unknown = sorted(set(values) - set(PLAIN))
        if unknown:
            raise ValueError(f"a session has no field {', '.join(unknown)}; it has {', '.join(PLAIN)}")
        session = self._sessions.get(session_id)
        with self._database.writing() as connection:
            for name, value in values.items():
                change = f"coalesce({name}, 0) + ?" if name in COUNTERS else "?"
                connection.execute(f"UPDATE sessions SET {name} = {change} WHERE key = ?", (value, session.key))  # noqa: S608 - checked above

    def end_session(self, session_id: str, reason: str) -> None:
        """Marks the end; the first reason given stays."""
        session = self._sessions.get(session_id)
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE sessions SET ended_at = ?, end_reason = ? WHERE key = ? AND ended_at IS NULL",
                (time.time(), reason, session.key),
            )

    def delete(self, session_id: str) -> None:
        """Removes a session, its messages and its delegated children; other children stay without a parent."""
        session = self._sessions.get(session_id)
        with self._database.writing() as connection:
            before = self._pictured(connection)
            self._delete(connection, session.key)
            removed = before != self._pictured(connection)
        if removed:
            self.remove_unused_images()

    def remove_unused_images(self) -> int:
        """Removes the image files that no message names any more; returns how many."""
        if not self.images.exist or self._database.damage is not None:
            return 0
        with self._database.writing() as connection:
            rows = connection.execute(f"SELECT extra FROM messages WHERE {WITH_IMAGES}")  # noqa: S608 - ours
            return self.images.keep_only(row[0] for row in rows)

    def set_compacted(self, session_id: str, message_ids: Iterable[int]) -> None:
        """Marks messages that left the context; they stay readable and searchable."""
        self._set_state(session_id, message_ids, COMPACTED)

    def set_rewound(self, session_id: str, message_ids: Iterable[int]) -> None:
        self._set_state(session_id, message_ids, REWOUND)

    def rewind(self, session_id: str, message_id: int) -> int:
        """Takes back every message after the given one; they are kept, but no search and no resume shows them."""
        session = self._sessions.get(session_id)
        later = [message.id for message in self._transcripts.of(session) if message.id > message_id]
        self._set_state(session_id, later, REWOUND)
        return len(later)

    def counts(self) -> dict[str, int]:
        return self._transcripts.counts()

    def get_meta(self, key: str) -> Any:
        row = self._database.row("SELECT value FROM state_meta WHERE key = ?", (f"{self._owner_key}:{key}",))
        return row[0] if row else None

    def set_meta(self, key: str, value: str | float | bytes | None) -> None:
        with self._database.writing() as connection:
            named = f"{self._owner_key}:{key}"
            if value is None:
                connection.execute("DELETE FROM state_meta WHERE key = ?", (named,))
            else:
                connection.execute("INSERT OR REPLACE INTO state_meta (key, value) VALUES (?, ?)", (named, value))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._database.close()

    def _append(self, connection: apsw.Connection, session_id: str, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        found = one_row(connection, _TO_APPEND_TO, (self._owner_key, session_id))
        if found is None:
            raise NotFound(f"there is no session {session_id!r}; create_session makes one")
        key, last_id, waiting, activity, source, title, preview, sealed = found
        now = time.time()
        ids = next_ids(connection, self._owner_key, key, last_id, len(messages))
        times = [moment(message.get("timestamp"), now) for message in messages]
        messages = [storable(message) for message in messages]
        rows = [encode(*each, key) for each in zip(ids, messages, times, strict=True)]
        connection.executemany(_INSERT, rows)
        if preview is None and (preview := preview_of(messages)) is not None:
            sealed = seal(key, self._owner_key, session_id, source, title, preview)
        newest = self._sessions.next_activity(connection)
        if activity != newest - 1:  # else it was the last one used already
            connection.execute(_NOTE_ACTIVITY, (newest, key))
        connection.execute(
            _COUNT_IN if waiting else _COUNT_IN_FIRST,
            (
                ids[-1],
                len(ids),
                sum([calls(message) for message in messages]),
                sum([length(message) for message in messages]) // 6,
                max(times),
                preview,
                sealed,
                key,
            ),
        )
        return ids

    def _delete(self, connection: apsw.Connection, key: int) -> None:
        delete_session(connection, self._owner_key, key)

    def _pictured(self, connection: apsw.Connection) -> int:
        """How many messages have images."""
        if not self.images.exist:
            return 0
        add_images(self._database)
        return int(one_row(connection, f"SELECT count(*) FROM messages WHERE {WITH_IMAGES}")[0])  # noqa: S608 - ours

    def _remove_words(self, connection: apsw.Connection, ids: list[int]) -> None:
        remove_rows(connection, ids)

    def _set_state(self, session_id: str, message_ids: Iterable[int], state: int) -> None:
        """What is compacted may still be taken back; what was taken back stays so."""
        session = self._sessions.get(session_id)
        mine = [i for i in message_ids if self._transcripts.session_key(i) == session.key]
        with self._database.writing() as connection:
            before = connection.total_changes()
            connection.executemany(
                "UPDATE messages SET state = (state & ~3) | ?1 WHERE id = ?2 AND (state & 3) < ?1",
                [(state, i) for i in mine],
            )
            changed = connection.total_changes() - before
            if state == REWOUND:
                self._remove_words(connection, mine)
                connection.execute(
                    "UPDATE sessions SET message_count = message_count - ? WHERE key = ?", (changed, session.key)
                )


# Which process has a session open, so that one whose process died can be ended by whoever comes next.
#
# A mark names the machine and the process. It goes when the session is closed. A session whose mark is left by a
# process that no longer runs ended when it was last active: nobody knows more. A process on another machine is left
# alone.

KILLED = "process_ended"
_MARKS = "SELECT key, value FROM state_meta WHERE key >= ? AND key < ?"
_END = """
    UPDATE sessions SET ended_at = max(last_active, started_at), end_reason = ?
    WHERE owner = ? AND id = ? AND ended_at IS NULL RETURNING key
"""


class Opened:
    def __init__(self, db: SessionDB) -> None:
        self._db = db
        self._database = db._database  # noqa: SLF001 - one package, two files
        self._owner = db._owner_key  # noqa: SLF001
        self._prefix = f"{self._owner}:open:"

    def mark(self, session_id: str) -> None:
        """Notes that this process has it open; what dead ones left open is ended on the way."""
        self.end_abandoned()
        here = json.dumps({"host": os.uname().nodename, "pid": os.getpid()})
        self._db.set_meta(f"open:{session_id}", here)

    def clear(self, session_id: str) -> None:
        self._db.set_meta(f"open:{session_id}", None)

    def together(self) -> AbstractContextManager[object]:
        """One transaction for a mark and what it goes with."""
        return self._database.writing()

    def end_abandoned(self) -> list[str]:
        """Ends the sessions of dead processes; returns their ids."""
        end = self._prefix[:-1] + chr(ord(":") + 1)
        marks = self._database.rows(_MARKS, (self._prefix, end))
        left = [key for key, mark in marks if _is_abandoned(json.loads(mark))]
        if not left:
            return []
        with self._database.writing() as connection:
            return [ended for key in left if (ended := self._end(connection, key))]

    def _end(self, connection: apsw.Connection, key: str) -> str:
        connection.execute("DELETE FROM state_meta WHERE key = ?", (key,))
        opened = self._db.find_session(key.removeprefix(self._prefix))
        if opened is None:
            return ""  # deleted since
        # A compaction may have gone on in a child, which is what was open.
        tip = self._db.tip(opened.id).id
        return tip if all_rows(connection, _END, (KILLED, self._owner, tip)) else ""


def _is_abandoned(mark: dict[str, object]) -> bool:
    return mark["host"] == os.uname().nodename and not is_running(int(str(mark["pid"])))


# Walks through transcripts of any length a page at a time, and says how much stands before and after a window.

_PAGE = 256
_NEXT_SESSIONS = "SELECT key FROM sessions WHERE owner = ? AND key > ? ORDER BY key LIMIT ?"
_SEEN_BEFORE = """
    SELECT count(*) FROM blocks b CROSS JOIN messages m ON m.id BETWEEN (b.block << 5) AND (b.block << 5) + 31
    WHERE b.owner = ? AND b.session = ? AND b.block <= ? AND m.id < ? AND (m.state & 3) <> 2
"""
_FIRST_PLACE = "SELECT first_place FROM blocks WHERE block = ? AND owner = ?"


_ANY = """
    SELECT 1 FROM blocks b CROSS JOIN messages m ON m.id BETWEEN (b.block << 5) AND (b.block << 5) + 31
    WHERE b.owner = ? AND b.session = ? AND {wanted} LIMIT 1
"""
_ANY_COMPACTED = _ANY.format(wanted="(m.state & 3) = 1")  # the state stands before the text, so that none is read
_ANY_POINTER = _ANY.format(wanted="(instr(m.extra, '\"compaction\":true') OR instr(m.extra, '\"copy_of\":'))")


class Pages(Transcripts):
    def __init__(self, database: Database, owner: int) -> None:
        super().__init__(database, owner)
        self._conversations = Conversations(database, owner)

    @classmethod
    def of_db(cls, db: SessionDB) -> Pages:
        return cls(db._database, db._owner_key)  # noqa: SLF001 - one package, two files

    def messages(self, session: Session, *, page: int = _PAGE) -> Iterator[StoredMessage]:
        """Every message of a session in order, with one page of them in memory."""
        after = 0
        while found := self._read(session, low=after + 1, limit=page):
            yield from found
            after = found[-1].id

    def between(self, session: Session, low: int, high: int) -> list[StoredMessage]:
        """The messages of a session whose ids lie in a span, ends included."""
        return self._read(session, low=low, high=high)

    def sessions(self, *, page: int = _PAGE) -> Iterator[Session]:
        """Every session of the owner, in the order in which they were made: parents before their children."""
        after = 0
        while keys := [key for (key,) in self._database.rows(_NEXT_SESSIONS, (self._owner, after, page))]:
            found = self._conversations.by_keys(keys)
            yield from (found[key] for key in keys if key in found)
            after = keys[-1]

    def around_any(self, session: Session, first: StoredMessage, last: StoredMessage) -> tuple[int, int]:
        """How many messages of the session stand before `first` and after `last`."""
        total = session.message_count
        if self._place(session.last_id) == total - 1:  # nothing was taken back, so places count messages
            return first.place, max(0, total - last.place - 1)
        return self._before(session, first.id), max(0, total - self._before(session, last.id + 1))

    def holds_pointers(self, session: Session) -> bool:
        """Whether a message of this session names others by their ids: a compaction wrote it, or it is a copy."""
        one = (self._owner, session.key)
        may = session.kind in ("compression", "branch") or self._database.rows(_ANY_COMPACTED, one)
        return bool(may and self._database.rows(_ANY_POINTER, one))

    def parent_id(self, session: Session) -> str | None:
        if session.parent is None:
            return None
        parent = self._conversations.by_key(session.parent)
        return parent.id if parent else None

    def _place(self, message_id: int) -> int:
        row = self._database.row(_FIRST_PLACE, (message_id >> BLOCK_BITS, self._owner))
        return int(row[0]) + message_id % (1 << BLOCK_BITS) if row else -1

    def _before(self, session: Session, message_id: int) -> int:
        values = (self._owner, session.key, message_id >> BLOCK_BITS, message_id)
        return int(self._database.row(_SEEN_BEFORE, values)[0])
