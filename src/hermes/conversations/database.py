"""`SessionDB`: every conversation of one owner in one file, appended durably and found again by a question.

`append` returns when the message is in the file. With durability "message" (the default), it then also survives a power
cut. With "turn", it survives a killed process at once and a power cut after `sync()`, in a seventh of the time.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from hermes.base.errors import DamagedFile, NotFound, StorageError
from hermes.conversations.search.engine import SearchEngine
from hermes.conversations.search.reranker import Reranking
from hermes.conversations.search.semantic import Meaning
from hermes.storage.engines import open_conversations
from hermes.storage.files import is_running
from hermes.storage.images import IMAGES, to_store
from hermes.storage.ports import BATCH, BULK_BATCH, LARGE_BATCH, OPTIONAL_WAIT, is_address
from hermes.storage.records import COMPACTED, PLAIN, REWOUND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from hermes.conversations.search.reranker import FindReranker
    from hermes.conversations.search.results import SearchResults
    from hermes.conversations.search.semantic import Find
    from hermes.storage.conversations import Conversations
    from hermes.storage.images import Images
    from hermes.storage.ports import Durability
    from hermes.storage.records import Session, StoredMessage

_REPAIR = "run `hermes sessions repair`; it keeps the original file"
_NEVER = "never recall:"
_NOT_INDEXED = "nothing can be written now, so the newest messages are not indexed and may be missing"


class SessionDB:
    """Every conversation of one owner in one SQLite file: written durably, searched in plain words."""

    def __init__(
        self, store: Conversations, semantic: Find | None = None, reranker: FindReranker | None = None
    ) -> None:
        self.store = store
        self.owner = store.owner
        self._meaning = Meaning(store, semantic)
        self._search = SearchEngine(store, self._meaning, Reranking(reranker))
        self._waiting = 0
        self._stay: Callable[[], object] = lambda: None  # called in each transaction of an import
        self._users = 1
        self._users_lock = threading.Lock()

    @cached_property
    def images(self) -> Images:
        """Where the images of messages are stored, apart from their text."""
        return self.store.images

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        owner: str = "local",
        durability: Durability = "message",
        semantic: Find | None = None,
        reranker: FindReranker | None = None,
        wait: float | None = None,
        reading: bool = False,
    ) -> Self:
        """Opens or creates the file; the handle cannot reach what belongs to another owner.

        `semantic` finds an embedding, and `reranker` a service that reorders the first hits of a question.
        `path` may also be the address of a PostgreSQL database (`postgresql://…`) that `hermes storage init` prepared.
        `wait` is how many seconds to wait for another program's lock, here and at every write (5 by default).
        With `reading`, nothing is written, and nothing waits for a program that holds the write lock.
        """
        where = os.fspath(path)
        where = where if is_address(where) else os.path.abspath(where)
        store = open_conversations(where, owner=owner, durability=durability, wait=wait, reading=reading)
        return cls(store, semantic, reranker)

    @property
    def path(self) -> str:
        """The absolute path of the file, or the address of the PostgreSQL database."""
        return self.store.place

    @property
    def journal_mode(self) -> str:
        """`wal`, or `delete` on a file system without shared memory."""
        return self.store.journal_mode

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
        parent = self.get_session(parent_session_id) if parent_session_id else None
        created = self.store.create(
            source=source,
            title=title,
            started_at=started_at,
            session_id=session_id,
            parent=parent,
            kind=kind,
            more=more,
        )
        return created.id

    def append(self, session_id: str, message: Mapping[str, Any]) -> int:
        """Stores a message in OpenAI's format and returns its id; it is durable when this returns."""
        return self.append_many(session_id, [message])[0]

    def append_many(self, session_id: str, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """Stores the messages in one transaction and returns their ids, in order."""
        if not messages:
            return []
        if any(type(message.get("content")) is list or IMAGES in message for message in messages):
            messages = [to_store(message) for message in messages]
        ids = self.store.append(session_id, messages)
        self._waiting += len(ids)
        if self._waiting >= BATCH and not self.store.in_transaction:
            # Index no more than this append brought, so that an append does not pay for messages of other writers.
            most = max(BATCH, len(ids))
            self._waiting = max(0, self._waiting - most)
            # The messages are stored. If indexing fails, the next search brings the index up to date.
            with contextlib.suppress(StorageError):
                self.store.index.update(batch=BULK_BATCH if most >= LARGE_BATCH else BATCH, most=most)
        return ids

    @contextlib.contextmanager
    def bulk(self) -> Iterator[None]:
        """Puts everything inside into one transaction, for imports; nobody else can write meanwhile, so keep it short.

        Messages of several bulks are indexed together, because many at once cost less. Call `index` after the last
        bulk, or the next search takes the time.
        """
        with self.store.transaction():
            self._stay()
            yield
        if self._waiting >= BULK_BATCH:
            self.index()

    @contextlib.contextmanager
    def importing(self, timeout: float) -> Iterator[None]:
        """Keeps other imports into these conversations out; raises LockTimeout while one is running."""
        with self.store.imports.alone(timeout) as stay:
            self._stay = stay
            try:
                yield
            finally:
                self._stay = lambda: None

    def index(self) -> int:
        """Brings the full-text index up to date with the messages; every search does this first."""
        batch = BULK_BATCH if self._waiting >= LARGE_BATCH else LARGE_BATCH
        self._waiting = 0
        return self.store.index.update(batch=batch)

    def embed(self, most: int | None = None) -> int:
        """Makes missing vectors for search by meaning (a search makes some); returns for how many messages."""
        self.index()
        return self._meaning.embed_waiting(most)

    def sync(self) -> None:
        """Makes everything appended so far survive a power cut; only needed with durability "turn"."""
        self.store.sync()

    def search(self, query: str, limit: int = 10, **filters: Any) -> SearchResults:
        """The messages that answer a question best.

        Filters are roles, sources, exclude_sources, sessions, exclude_sessions, since and until (seconds), project,
        prefer_project, sort (relevance, newest, oldest) and explain.
        """
        indexed = not self.store.only_read
        try:
            with self.store.waiting_at_most(OPTIONAL_WAIT):
                self.index()
        except StorageError:  # if the file is damaged or locked or the disk is full, search it as it is
            indexed = False
        try:
            results = self._search.search(query, limit=limit, **filters)
        except LookupError as error:  # tables that contradict each other
            self.store.mark_damaged(f"its tables disagree about {error}")
            raise DamagedFile(f"{self.path} is damaged: its tables disagree; {_REPAIR}") from error
        if self.store.damage is not None:
            results.note = f"the database is damaged, so messages may be missing here; {_REPAIR}"
        elif not indexed and not self.store.index.is_level():
            results.note = "; ".join(filter(None, (results.note, _NOT_INDEXED)))
        return results

    def get_session(self, session_id: str) -> Session:
        """What is stored about a session; NotFound if there is none with this id."""
        found = self.store.find(session_id)
        if found is None:
            raise NotFound(f"there is no session {session_id!r}; `hermes sessions list` shows what there is")
        return found

    def find_session(self, session_id: str) -> Session | None:
        """What is stored about a session; None if there is none with this id."""
        return self.store.find(session_id)

    def resolve(self, name: str) -> Session | None:
        """The session with this id or title; the newest part of a conversation that continued as `TITLE #N`."""
        return self.store.resolve(name)

    def resembling(self, words: str, limit: int = 20) -> list[Session]:
        """Conversations whose id begins with the words or whose title contains them, the last used first."""
        return self.store.resembling(words, limit)

    def session_details(self, session_id: str) -> dict[str, Any]:
        """The system prompt of a session, and what `create_session` was given beyond the fields of `Session`."""
        return self.store.details(self.get_session(session_id))

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
        """Conversations, the most recently used first; `begun` leaves out those without a message."""
        return self.store.listing(
            limit=limit, offset=offset, source=source, project=project, archived=archived, begun=begun
        )

    def lineage(self, session_id: str) -> list[Session]:
        """Every session of the conversation, oldest first, including delegated ones."""
        return self.store.lineage(self.get_session(session_id))

    def root(self, session_id: str) -> Session:
        """The first session of the conversation, which stands for all of its sessions."""
        return self.store.by_keys([root := self.get_session(session_id).root])[root]

    def tip(self, session_id: str) -> Session:
        """The newest session of the conversation, where it continues after compactions."""
        return self.store.tip(self.get_session(session_id))

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
        session = self.get_session(session_id)
        if around is not None:
            return Pages.of_db(self).around(session, around, window)
        found = self.store.read(session, limit=limit, newest=newest, rewound=rewound)
        return found[::-1] if newest else found

    def bookends(self, session_id: str, count: int = 3) -> tuple[list[StoredMessage], list[StoredMessage]]:
        """The first and the last messages that a person or the assistant wrote."""
        session = self.get_session(session_id)
        first = self.store.read(session, limit=count, spoken=True)
        last = self.store.read(session, limit=count, spoken=True, newest=True)
        return first, last[::-1]

    def session_of(self, message_id: int) -> Session | None:
        """The session of a message; None if the owner has no such message."""
        key = self.store.session_key(message_id)
        return None if key is None else self.store.by_keys([key]).get(key)

    def rename(self, session_id: str, title: str | None) -> str | None:
        """Gives the session a title, with ` #N` if another session has it, and returns the title it now has."""
        return self.store.rename(self.get_session(session_id), title)

    def update_session(self, session_id: str, **values: Any) -> None:
        """Sets fields of a session; counters of tokens, calls and costs are added to the stored values."""
        unknown = sorted(set(values) - set(PLAIN))
        if unknown:
            raise ValueError(f"a session has no field {', '.join(unknown)}; it has {', '.join(PLAIN)}")
        self.store.update(self.get_session(session_id), values)

    def end_session(self, session_id: str, reason: str) -> None:
        """Marks the session as ended; if it already is, its first reason stays."""
        self.store.end(self.get_session(session_id), reason)

    def delete(self, session_id: str) -> None:
        """Removes a session, its messages and its delegated children; other children stay without a parent."""
        self.store.delete(self.get_session(session_id).key)
        self._search.forget()

    def remove_unused_images(self) -> int:
        """Removes the image files that no message names any more; returns how many."""
        return self.store.remove_unused_images()

    def set_compacted(self, session_id: str, message_ids: Iterable[int]) -> None:
        """Marks messages that left the context; they stay readable and searchable."""
        self.store.set_state(self.get_session(session_id), message_ids, COMPACTED)

    def set_rewound(self, session_id: str, message_ids: Iterable[int]) -> None:
        """Marks messages as taken back; they stay stored, but no search and no resume shows them."""
        self.store.set_state(self.get_session(session_id), message_ids, REWOUND)
        self._search.forget()

    def rewind(self, session_id: str, message_id: int) -> int:
        """Takes back every message after the given one; they are kept, but no search and no resume shows them."""
        session = self.get_session(session_id)
        later = [message.id for message in self.store.read(session, low=message_id + 1)]
        self.store.set_state(session, later, REWOUND)
        self._search.forget()
        return len(later)

    def keep_from_recall(self, message_ids: Iterable[int], *, recall: bool = False) -> None:
        """Hides messages from the searches of models (`recall` shows them again); people still find them."""
        for number in message_ids:
            self.store.set_meta(f"{_NEVER}{number}", None if recall else "1")

    def never_recalled(self) -> frozenset[int]:
        """The ids of the messages that searches never show to a model."""
        return frozenset(int(number) for number, _ in self.store.meta_from(_NEVER))

    def counts(self) -> dict[str, int]:
        """How many sessions and messages the owner has."""
        return self.store.counts()

    def get_meta(self, key: str) -> Any:
        """A value that was stored under a key of its own, apart from sessions; None if there is none."""
        return self.store.get_meta(key)

    def set_meta(self, key: str, value: str | float | bytes | None) -> None:
        """Stores a value under a key of its own; None removes it."""
        self.store.set_meta(key, value)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def share(self) -> Self | None:
        """Returns this handle for one more user, who must close it too; the last one closes the file.

        None if the handle is of no use to others: closed, damaged, read-only, or its file was replaced.
        """
        with self._users_lock:
            if not self._users or self.store.damage or self.store.only_read or self.store.is_replaced():
                return None
            self._users += 1
            return self

    def close(self) -> None:
        """Closes the handle; the last of several users closes the file."""
        with self._users_lock:
            self._users = max(0, self._users - 1)
            if self._users:
                return
        self.store.close()


# Which process has a session open, so that the next process can end sessions whose process died.
#
# A mark names the machine and the process, and is removed when the session is closed. If a process died, its session
# counts as ended when it was last active: no better time is known. Processes on another machine cannot be checked, so
# their marks stay.

KILLED = "process_ended"
_OPEN = "open:"


class Opened:
    """Which sessions a running process has open, so that abandoned ones can be ended."""

    def __init__(self, db: SessionDB) -> None:
        self._db = db
        self._store = db.store

    def mark(self, session_id: str) -> None:
        """Notes that this process has a session open, after ending the sessions that dead processes left open."""
        self.end_abandoned()
        here = json.dumps({"host": os.uname().nodename, "pid": os.getpid()})
        self._db.set_meta(_OPEN + session_id, here)

    def clear(self, session_id: str) -> None:
        """Removes the mark, because the session was closed here."""
        self._db.set_meta(_OPEN + session_id, None)

    def together(self) -> AbstractContextManager[object]:
        """A transaction, so that a mark and what belongs to it are stored together or not at all."""
        return self._store.transaction()

    def end_abandoned(self) -> list[str]:
        """Ends the sessions of dead processes; returns their ids."""
        left = [name for name, mark in self._store.meta_from(_OPEN) if _is_abandoned(json.loads(mark))]
        if not left:
            return []
        with self._store.transaction():
            return [ended for name in left if (ended := self._end(name))]

    def _end(self, session_id: str) -> str:
        self._store.set_meta(_OPEN + session_id, None)
        opened = self._db.find_session(session_id)
        if opened is None:
            return ""  # deleted since
        # After a compaction, the conversation may continue in a child; then the child is what was open.
        tip = self._db.tip(opened.id)
        return tip.id if self._store.end(tip, KILLED, at=max(tip.last_active, tip.started_at)) else ""


def _is_abandoned(mark: dict[str, object]) -> bool:
    return mark["host"] == os.uname().nodename and not is_running(int(str(mark["pid"])))


# Reads transcripts of any length a page at a time, and counts the messages before and after a window.

_PAGE = 256  # messages or sessions held in memory at once


class Pages:
    """Reads long sessions in pieces instead of all at once."""

    def __init__(self, store: Conversations) -> None:
        self._store = store

    @classmethod
    def of_db(cls, db: SessionDB) -> Pages:
        """Pages over the conversations of a handle."""
        return cls(db.store)

    def messages(self, session: Session, *, page: int = _PAGE) -> Iterator[StoredMessage]:
        """Every message of a session in order, one page at a time."""
        after = 0
        while found := self._store.read(session, low=after + 1, limit=page):
            yield from found
            after = found[-1].id

    def between(self, session: Session, low: int, high: int) -> list[StoredMessage]:
        """The messages of a session with ids from `low` to `high`."""
        return self._store.read(session, low=low, high=high)

    def around(self, session: Session, message_id: int, window: int) -> list[StoredMessage]:
        """The message itself with up to `window` neighbours on each side."""
        if self._store.session_key(message_id) != session.key:
            raise NotFound(f"message {message_id} is not in session {session.id!r}; search again for a current id")
        before = self._store.read(session, high=message_id - 1, limit=window, newest=True)[::-1] if window else []
        return before + self._store.read(session, low=message_id, limit=window + 1)

    def sessions(self, *, page: int = _PAGE) -> Iterator[Session]:
        """Every session of the owner, in the order in which they were made: parents before their children."""
        after = 0
        while keys := self._store.keys_after(after, page):
            found = self._store.by_keys(keys)
            yield from (found[key] for key in keys if key in found)
            after = keys[-1]

    def around_any(self, session: Session, first: StoredMessage, last: StoredMessage) -> tuple[int, int]:
        """How many messages of the session come before `first` and after `last`."""
        total = session.message_count
        if self._store.place_of(session.last_id) == total - 1:  # nothing was taken back, so places count messages
            return first.place, max(0, total - last.place - 1)
        before = self._store.count_before
        return before(session, first.id), max(0, total - before(session, last.id + 1))

    def holds_pointers(self, session: Session) -> bool:
        """Whether messages of this session refer to others by id, as what a compaction wrote and copies do."""
        may = session.kind in ("compression", "branch") or self._store.holds_compacted(session)
        return may and self._store.holds_pointers(session)

    def parent_id(self, session: Session) -> str | None:
        """The id of the session that this one continues or branched from; None if there is none any more."""
        if session.parent is None:
            return None
        parent = self._store.by_keys([session.parent]).get(session.parent)
        return parent.id if parent else None
