"""`SessionDB`: every conversation of one owner in one file, appended safely and found again by asking.

`append` returns when the message is in the file at the path. With durability "message" (the default) it then also
survives a power cut; with "turn" it survives a kill at once and a power cut after `sync()`, at a seventh of the time.
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
    from collections.abc import Iterable, Iterator, Mapping, Sequence
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
        self._users = 1
        self._users_lock = threading.Lock()

    @cached_property
    def images(self) -> Images:
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
        """Opens or creates the file; what belongs to another owner cannot be reached.

        `semantic` finds an embedding, and `reranker` a service that orders the first hits of a question again.
        `path` may also be the address of a PostgreSQL database (`postgresql://…`) that `hermes storage init` prepared.
        `wait` is how many seconds another program's lock is waited for, here and at every write (5 unless given).
        With `reading` nothing is written, and a program that holds the write lock is not waited for.
        """
        where = os.fspath(path)
        where = where if is_address(where) else os.path.abspath(where)
        store = open_conversations(where, owner=owner, durability=durability, wait=wait, reading=reading)
        return cls(store, semantic, reranker)

    @property
    def path(self) -> str:
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
            most = max(BATCH, len(ids))  # an append takes as long as others do, whatever waits from before or elsewhere
            self._waiting = max(0, self._waiting - most)
            # The messages are stored; whatever happens here, the next search brings the index level.
            with contextlib.suppress(StorageError):
                self.store.index.update(batch=BULK_BATCH if most >= LARGE_BATCH else BATCH, most=most)
        return ids

    @contextlib.contextmanager
    def bulk(self) -> Iterator[None]:
        """One transaction around everything inside: for imports. Others cannot write meanwhile, so keep it short.

        Its messages are indexed with those of the following ones, because many at once cost less: call `index` after
        the last one, or the next search takes the time.
        """
        with self.store.transaction():
            yield
        if self._waiting >= BULK_BATCH:
            self.index()

    def index(self) -> int:
        """Brings the full-text index level with the messages; a search does this by itself."""
        batch = BULK_BATCH if self._waiting >= LARGE_BATCH else LARGE_BATCH
        self._waiting = 0
        return self.store.index.update(batch=batch)

    def embed(self, most: int | None = None) -> int:
        """Makes the vectors of meaning that are missing (a search makes some); returns for how many messages."""
        self.index()
        return self._meaning.embed_waiting(most)

    def sync(self) -> None:
        """After this, everything appended before survives a power cut too (needed with durability "turn" only)."""
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
        except StorageError:  # a damaged file, one on a full disk or one that others hold is searched as it is
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
        """What is stored about a session; NotFound when there is none of that id."""
        found = self.store.find(session_id)
        if found is None:
            raise NotFound(f"there is no session {session_id!r}; `hermes sessions list` shows what there is")
        return found

    def find_session(self, session_id: str) -> Session | None:
        return self.store.find(session_id)

    def resolve(self, name: str) -> Session | None:
        """The session with this id or title; of a conversation that went on under numbers its newest part."""
        return self.store.resolve(name)

    def resembling(self, words: str, limit: int = 20) -> list[Session]:
        return self.store.resembling(words, limit)

    def session_details(self, session_id: str) -> dict[str, Any]:
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
        """Conversations, the most recently used first; `begun` leaves out those in which nothing was said."""
        return self.store.listing(
            limit=limit, offset=offset, source=source, project=project, archived=archived, begun=begun
        )

    def lineage(self, session_id: str) -> list[Session]:
        return self.store.lineage(self.get_session(session_id))

    def root(self, session_id: str) -> Session:
        return self.store.by_keys([root := self.get_session(session_id).root])[root]

    def tip(self, session_id: str) -> Session:
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
        key = self.store.session_key(message_id)
        return None if key is None else self.store.by_keys([key]).get(key)

    def rename(self, session_id: str, title: str | None) -> str | None:
        """Gives the session a title, with ` #N` when another has it, and returns the title it now has."""
        return self.store.rename(self.get_session(session_id), title)

    def update_session(self, session_id: str, **values: Any) -> None:
        """Sets plain fields; token, call and cost counters are added to what is there."""
        unknown = sorted(set(values) - set(PLAIN))
        if unknown:
            raise ValueError(f"a session has no field {', '.join(unknown)}; it has {', '.join(PLAIN)}")
        self.store.update(self.get_session(session_id), values)

    def end_session(self, session_id: str, reason: str) -> None:
        """Marks the end; the first reason given stays."""
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
        """No model is shown these messages by a search any more, or with `recall` again; people find them as before."""
        for number in message_ids:
            self.store.set_meta(f"{_NEVER}{number}", None if recall else "1")

    def never_recalled(self) -> frozenset[int]:
        """The messages that no model is shown by a search."""
        return frozenset(int(number) for number, _ in self.store.meta_from(_NEVER))

    def counts(self) -> dict[str, int]:
        return self.store.counts()

    def get_meta(self, key: str) -> Any:
        return self.store.get_meta(key)

    def set_meta(self, key: str, value: str | float | bytes | None) -> None:
        self.store.set_meta(key, value)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def share(self) -> Self | None:
        """One more user of this handle, who closes it too: the last to do so closes the file.

        None when the handle is of no more use: closed, damaged, only to read, or its file was replaced.
        """
        with self._users_lock:
            if not self._users or self.store.damage or self.store.only_read or self.store.is_replaced():
                return None
            self._users += 1
            return self

    def close(self) -> None:
        with self._users_lock:
            self._users = max(0, self._users - 1)
            if self._users:
                return
        self.store.close()


# Which process has a session open, so that one whose process died can be ended by whoever comes next.
#
# A mark names the machine and the process. It goes when the session is closed. A session whose mark is left by a
# process that no longer runs ended when it was last active: nobody knows more. A process on another machine is left
# alone.

KILLED = "process_ended"
_OPEN = "open:"


class Opened:
    """Which sessions a running process has open, so that abandoned ones can be ended."""

    def __init__(self, db: SessionDB) -> None:
        self._db = db
        self._store = db.store

    def mark(self, session_id: str) -> None:
        """Notes that this process has it open; what dead ones left open is ended on the way."""
        self.end_abandoned()
        here = json.dumps({"host": os.uname().nodename, "pid": os.getpid()})
        self._db.set_meta(_OPEN + session_id, here)

    def clear(self, session_id: str) -> None:
        self._db.set_meta(_OPEN + session_id, None)

    def together(self) -> AbstractContextManager[object]:
        """One transaction for a mark and what it goes with."""
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
        # A compaction may have gone on in a child, which is what was open.
        tip = self._db.tip(opened.id)
        return tip.id if self._store.end(tip, KILLED, at=max(tip.last_active, tip.started_at)) else ""


def _is_abandoned(mark: dict[str, object]) -> bool:
    return mark["host"] == os.uname().nodename and not is_running(int(str(mark["pid"])))


# Walks through transcripts of any length a page at a time, and says how much stands before and after a window.

_PAGE = 256


class Pages:
    """Reads long sessions in pieces instead of all at once."""

    def __init__(self, store: Conversations) -> None:
        self._store = store

    @classmethod
    def of_db(cls, db: SessionDB) -> Pages:
        return cls(db.store)

    def messages(self, session: Session, *, page: int = _PAGE) -> Iterator[StoredMessage]:
        """Every message of a session in order, with one page of them in memory."""
        after = 0
        while found := self._store.read(session, low=after + 1, limit=page):
            yield from found
            after = found[-1].id

    def between(self, session: Session, low: int, high: int) -> list[StoredMessage]:
        """The messages of a session whose ids lie in a span, ends included."""
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
        """How many messages of the session stand before `first` and after `last`."""
        total = session.message_count
        if self._store.place_of(session.last_id) == total - 1:  # nothing was taken back, so places count messages
            return first.place, max(0, total - last.place - 1)
        before = self._store.count_before
        return before(session, first.id), max(0, total - before(session, last.id + 1))

    def holds_pointers(self, session: Session) -> bool:
        """Whether a message of this session names others by their ids: a compaction wrote it, or it is a copy."""
        may = session.kind in ("compression", "branch") or self._store.holds_compacted(session)
        return may and self._store.holds_pointers(session)

    def parent_id(self, session: Session) -> str | None:
        if session.parent is None:
            return None
        parent = self._store.by_keys([session.parent]).get(session.parent)
        return parent.id if parent else None
