"""Brings the conversations of a hermes-agent `state.db` in: every message, title, flag and lineage, once."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from hermes.migration.hermes_agent_file import HermesAgentFile
from hermes.storage.recorded import RecordedDB
from hermes.storage.repair import SIDE_FILES, alone
from hermes.storage.sessions import SessionDB
from hermes.storage.upkeep import Upkeep
from hermes.vocabulary.errors import NotFound, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hermes.migration.hermes_agent_file import ForeignMessage, ForeignSession
    from hermes.migration.undo_log import UndoLog

    Progress = Callable[[str, int, int], None]  # what is being done, how far, of how much

_BATCH = 1000  # messages to a transaction; others can write in between
_PARTS = ("", *SIDE_FILES, ".lock", ".lock.queue")
_TIME = ("started_at", "ended_at")


@dataclass(slots=True, kw_only=True)
class Imported:
    """What a run added; `known` sessions were brought in before, `taken` ids belong to a session of our own."""

    sessions: int = 0
    messages: int = 0
    known: int = 0
    taken: int = 0


def import_hermes_agent(path: str, db: SessionDB, progress: Progress | None = None) -> Imported:
    """Adds what is not there yet; a second run adds only what hermes-agent has written since the first."""
    told = progress or (lambda *_: None)
    counts = Imported()
    with HermesAgentFile.open(os.path.abspath(path)) as file:
        total, done = file.count(), 0
        for session in file.sessions():
            mark = _mark(session.id)
            reached = db.get_meta(mark)
            if reached is None and db.find_session(session.id) is not None:
                counts.taken += 1
                continue
            counts.known += reached is not None
            for batch in _batches(file.messages(session.id, after=reached or 0)):
                if not batch and reached is not None:
                    continue
                with db.bulk():
                    _store(db, session, batch, counts)
                    db.set_meta(mark, batch[-1].id if batch else 0)
                done += len(batch)
                told("importing messages", done, total)
    return counts


def has_news(path: str, db: SessionDB) -> bool:
    """Whether an import would add anything."""
    with HermesAgentFile.open(os.path.abspath(path)) as file:
        for session in file.sessions():
            reached = db.get_meta(_mark(session.id))
            if reached is None and db.find_session(session.id) is None:
                return True
            if reached is not None and session.newest > reached:
                return True
    return False


def open_for_import(path: str, log: UndoLog) -> RecordedDB:
    """A database for one step of a migration: taken back, or removed when it was not there, if the rest fails."""
    name = log.importing(path)
    if not os.path.exists(path):
        for suffix in _PARTS:
            log.protect(os.path.relpath(path + suffix, log.home))
    db = RecordedDB.open(path, durability="turn", name=name)
    log.when_failing.append(db.close)
    log.when_done += [db.complete, partial(_merge_index, db), db.close]
    return db


def _merge_index(db: SessionDB) -> None:
    upkeep = Upkeep.of_db(db)
    with contextlib.suppress(StorageError):  # everything is there; a search only takes longer
        db.index()
        if upkeep.is_in_pieces():
            for _ in upkeep.settle():
                pass


def adopt_hermes_agent(path: str, log: UndoLog, progress: Progress | None = None) -> tuple[Imported, str]:
    """Puts a database of ours in the place of hermes-agent's; returns what came over and where the original now is."""
    path = os.path.abspath(path)
    if not os.path.exists(path):
        raise NotFound(f"{path} does not exist")
    kept = f"{path}.hermes-agent-{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"
    ours = f"{path}.importing-{os.urandom(4).hex()}"
    for suffix in _PARTS:
        log.protect(os.path.relpath(ours + suffix, log.home))
    try:
        with alone(path):
            pass  # says at once that hermes-agent still has it open, rather than after a long import
        with SessionDB.open(ours, durability="turn") as db:
            counts = import_hermes_agent(path, db, progress)
            db.sync()
            _merge_index(db)
        with alone(path):
            parts = [suffix for suffix in ("", *SIDE_FILES) if os.path.exists(path + suffix)]
            log.giving_way(path, kept, parts)
            _give_way(path, kept)
            os.replace(ours, path)
    finally:
        for suffix in _PARTS:
            if os.path.exists(ours + suffix):
                os.unlink(ours + suffix)
    return counts, kept


def _give_way(path: str, kept: str) -> None:
    """The original under its new name, log included; the log must not stay, or it would be laid over our file."""
    for suffix in ("", *SIDE_FILES):
        if os.path.exists(path + suffix):
            os.link(path + suffix, kept + suffix)
    for suffix in SIDE_FILES:
        if os.path.exists(path + suffix):
            os.unlink(path + suffix)


def _store(db: SessionDB, session: ForeignSession, batch: list[ForeignMessage], counts: Imported) -> None:
    if db.find_session(session.id) is None:
        parent = session.parent if session.parent and db.find_session(session.parent) else None
        fields: dict[str, Any] = {
            name: _moment(value) if name in _TIME else value for name, value in session.fields.items()
        }
        kind = session.kind if parent else None
        db.create_session(session_id=session.id, parent_session_id=parent, kind=kind, **fields)
        counts.sessions += 1
    ids = db.append_many(session.id, [each.message for each in batch])
    counts.messages += len(ids)
    for mark, wanted in ((db.set_compacted, "compacted"), (db.set_rewound, "rewound")):
        flagged = [new for new, each in zip(ids, batch, strict=True) if getattr(each, wanted)]
        if flagged:
            mark(session.id, flagged)


def _batches(messages: Iterator[ForeignMessage]) -> Iterator[list[ForeignMessage]]:
    """The messages in pieces; one empty piece for a session without messages, which is kept too."""
    batch = list(itertools.islice(messages, _BATCH))
    yield batch
    while batch := list(itertools.islice(messages, _BATCH)):
        yield batch


def _moment(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _mark(session_id: str) -> str:
    return f"imported:hermes-agent:{session_id}"
