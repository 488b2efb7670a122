"""Keeps a conversation in a database of its own while `state.db` is locked or damaged, and adds it there later.

The spare database is a file in `unsaved/` with the layout of `state.db`, so everything a session does works on it, and
a kill loses nothing. The context of the session is copied into it first. When `state.db` works again (at the next turn,
at the close, or when the next session opens), what was said meanwhile is added in one transaction and the file is
removed. A process holds a lock on its spare database, so that no other process adds it at the same time.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import TYPE_CHECKING, Any, Self

import apsw

from hermes.base.errors import DamagedFile, LockTimeout, StorageError
from hermes.base.text import counted
from hermes.conversations.context import RECEIPT, Contexts
from hermes.conversations.database import KILLED, SessionDB
from hermes.settings.config import storage_address
from hermes.settings.home import DATABASE
from hermes.settings.home import UNSAVED as FOLDER
from hermes.storage.files import Folder
from hermes.storage.locks import FileLock, is_held
from hermes.storage.records import COUNTERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hermes.settings.home import Home
    from hermes.storage.records import Session

KIND = "storage"  # kind of the notices about it
# Ids in a spare database begin here, so that they differ from ids of state.db that a block in the context mentions.
FIRST_ID = 1 << 37
_ABOUT = "unsaved"  # key of the facts about the conversation, in the spare database
_SUFFIX = ".db"
# Suffixes of the files that SQLite and our locks create for a database.
_SIDE_FILES = ("", "-wal", "-shm", "-journal", ".lock.queue", ".lock", ".held")


class Spare:
    """The spare database of one conversation; `why` is the error that makes `state.db` unusable."""

    def __init__(self, home: Home, name: str, db: SessionDB, held: contextlib.ExitStack, why: StorageError) -> None:
        self.db = db
        self.name = name
        self.why = why
        self.session = ""  # its id when it was moved here; after a compaction it may continue in a child session
        self._home = home
        self._held = held
        self._seen: tuple[int, int, int] | None = None

    @classmethod
    def make(cls, home: Home, owner: str, why: StorageError) -> Self:
        """Creates an empty spare database; StorageError if nothing can be written or the home was removed."""
        if not os.path.isdir(home.path):
            raise why
        name = f"{time.strftime('%Y%m%d_%H%M%S')}_{os.urandom(3).hex()}{_SUFFIX}"
        with contextlib.ExitStack() as held:
            folder = held.enter_context(Folder.create(home.join(FOLDER)))
            held.enter_context(FileLock(folder, f"{name}.held", timeout=0))
            db = SessionDB.open(folder.join(name), owner=owner, durability="turn")
            db.store.start_ids_at(FIRST_ID)
            return cls(home, name, db, held.pop_all(), why)

    def begun(self, session_id: str, *, parent: str | None = None, carried: Mapping[int, int] | None = None) -> None:
        """Notes which conversation it contains; `carried` maps ids of messages here to those in `state.db`."""
        self.session = session_id
        about = {"session": session_id, "parent": parent, "carried": list((carried or {}).items())}
        self.db.set_meta(_ABOUT, json.dumps(about))

    def carry(
        self, row: Session, details: Mapping[str, Any], messages: Iterable[tuple[int, Mapping[str, Any]]]
    ) -> list[int]:
        """Copies a session and its context from `state.db`; returns the new ids of the messages."""
        given = list(messages)
        plain = {name: getattr(row, name) for name in ("model", "project", "cwd")}
        with self.db.bulk():
            self.db.create_session(
                row.source, row.title, session_id=row.id, started_at=row.started_at, **{**details, **plain}
            )
            ids = self.db.append_many(row.id, [message for _, message in given])
            self.begun(row.id, carried=dict(zip(ids, (number for number, _ in given), strict=True)))
        return ids

    def look(self) -> None:
        """Remembers the state of the unusable `state.db`, for `worth_trying`."""
        self._seen = _stamp(self._home.join(DATABASE))

    def worth_trying(self) -> bool:
        """Whether to try `state.db` again: a lock may end at any time, but a damaged file must have changed first."""
        if isinstance(self.why, LockTimeout) or storage_address(self._home):  # a server may be back at any time
            return True
        return _stamp(self._home.join(DATABASE)) != self._seen

    def in_words(self) -> str:
        """The notice for the person: what is wrong, and where the conversation is kept."""
        kept = f"kept in {os.path.join(FOLDER, self.name)}"
        if isinstance(self.why, LockTimeout):
            return f"another program has state.db locked; until it is free, this conversation is {kept}"
        if isinstance(self.why, DamagedFile):
            return (
                "state.db is damaged: run `hermes sessions repair`; until then past conversations cannot be searched, "
                f"and this one is {kept}; memory works"
            )
        return f"{self.why}; this conversation is {kept}, and the next session adds it; memory works"

    def is_empty(self) -> bool:
        """Whether it contains nothing that `state.db` lacks."""
        row = self.db.find_session(self.session)
        carried = json.loads(self.db.get_meta(_ABOUT) or "{}").get("carried", ())
        return row is None or (row.message_count <= len(carried) and self.db.tip(row.id).id == row.id)

    def close(self, *, discard: bool = False) -> None:
        """Closes it; the file stays for the next session that opens `state.db`, unless `state.db` has everything."""
        discard = discard or self.is_empty()
        self.db.close()
        if discard:
            with Folder.create(self._home.join(FOLDER)) as folder:
                _remove(folder, self.name)
        self._held.close()


def store(spare: SessionDB, database: SessionDB, name: str) -> tuple[str, int]:
    """Adds the messages of a spare database to `state.db`; returns their session and how many were added.

    The same transaction notes how far it came, so that nothing is added twice after a kill or a failure.
    """
    about = json.loads(spare.get_meta(_ABOUT) or "{}")
    session_id = about.get("session", "")
    if spare.find_session(session_id) is None:  # nothing was said, and so it was deleted
        return "", 0
    note = note_of(name)
    with database.bulk():
        done = int(database.get_meta(note) or 0)
        stored_in, said = _add(spare, database, about, done)
        database.set_meta(note, max([done, *said]))
    database.sync()
    return stored_in, len(said)


def note_of(name: str) -> str:
    """The key under which `state.db` notes how far a spare database was added, while that database exists."""
    return f"{_ABOUT}:{name}"


def _add(spare: SessionDB, database: SessionDB, about: Mapping[str, Any], done: int) -> tuple[str, list[int]]:
    first = spare.get_session(about["session"])
    last = spare.tip(first.id)
    carried = dict(about["carried"])
    known = database.find_session(first.id)
    if known is None:
        _create(spare, database, first, about["parent"])
        carried = {}
    session_id = database.tip(first.id).id
    said = [each for each in Contexts(spare).originals(last.id) if each.id not in carried and each.id > done]
    # A receipt after a compaction in the spare database refers to a summary and a prompt that are not copied.
    left = {RECEIPT} if Contexts(spare).was_compacted(last.id) else set()
    messages = [{"timestamp": each.timestamp, **each.message} for each in said]
    kept = [{name: part for name, part in each.items() if name not in left} for each in messages]
    database.append_many(session_id, kept)
    undone = [
        carried[each.id] for each in spare.messages(first.id, rewound=True) if each.rewound and each.id in carried
    ]
    database.set_rewound(session_id, undone)
    chain = spare.lineage(last.id)
    sums = {name: 0 if done else sum(getattr(each, name) or 0 for each in chain) for name in COUNTERS}
    database.update_session(session_id, **{name: added for name, added in sums.items() if added})
    if known is None:
        ended = last.ended_at or last.last_active
        database.update_session(session_id, ended_at=ended, end_reason=last.end_reason or KILLED)
    if last.title and database.get_session(session_id).title is None:
        database.rename(session_id, last.title)
    return session_id, [each.id for each in said]


def _create(spare: SessionDB, database: SessionDB, row: Session, parent: str | None) -> None:
    above = parent if parent and database.find_session(parent) is not None else None
    details = {**spare.session_details(row.id), **{name: getattr(row, name) for name in ("model", "project", "cwd")}}
    database.create_session(
        row.source,
        row.title,
        row.started_at,
        row.id,
        above,
        kind="delegate" if above else None,
        **details,
    )


def take_up(home: Home, database: SessionDB) -> list[str]:
    """Adds the spare databases that earlier processes left to `state.db`; returns notices for the person."""
    folder = Folder.open(home.join(FOLDER))
    if folder is None:
        return []
    told: list[str] = []
    with folder:
        for name in folder.names():
            if name.endswith(_SUFFIX):
                lock = FileLock(folder, f"{name}.held", timeout=0)
                if lock.try_to_take():
                    with lock:
                        told += _take_up_one(folder, name, database)
    return told


def _take_up_one(folder: Folder, name: str, database: SessionDB) -> list[str]:
    path = folder.join(name)
    try:
        with SessionDB.open(path, owner=database.owner, wait=0.0) as spare:
            others = spare.store.has_others()
            _, added = store(spare, database, name)
        if others:
            return []
        _remove(folder, name)
        database.set_meta(note_of(name), None)
    except StorageError as error:
        return [f"a conversation in {path} could not be added to state.db: {error}"]
    if not added:
        return []
    return [f"{counted(added, 'message')} that could not be stored before are in state.db now"]


def waiting(home: Home) -> list[dict[str, Any]]:
    """Lists the spare databases that are not in `state.db` yet, for `hermes status` and `hermes doctor`."""
    folder = Folder.open(home.join(FOLDER))
    if folder is None:
        return []
    with folder:
        names = sorted(name for name in folder.names() if name.endswith(_SUFFIX))
        return [{"file": folder.join(name), "open": is_held(folder, f"{name}.held")} for name in names]


def _remove(folder: Folder, name: str) -> None:
    for suffix in _SIDE_FILES:
        folder.discard(name + suffix)
    with contextlib.suppress(OSError):  # not empty: it contains other spare databases
        os.rmdir(folder.path)


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def close_quietly(database: SessionDB | None) -> None:
    """Closes a database that failed; further errors are ignored, because the failure is already reported."""
    if database is not None:
        with contextlib.suppress(StorageError, apsw.Error, OSError):
            database.close()
