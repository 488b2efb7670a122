"""Looks after a `state.db`: what it holds, what nobody has used for long, and keeping its index and file in shape."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hermes.storage.local.conversations import Conversations
from hermes.storage.local.index import segments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes.conversations.database import SessionDB
    from hermes.storage.local.database import Database
    from hermes.storage.records import Session

INDEXES = ("messages_fts", "tools_fts", "titles_fts")
_PAGES_PER_STEP = 128
_MANY_SEGMENTS = 16
_UNKNOWN = float("inf")
_STEPS_PER_CHECKPOINT = 16
_LITTLE = 2  # changes of a merge that found nothing to merge
_LAST_MOMENT = """
    SELECT max(moment) FROM (
        SELECT max(applied_at) AS moment FROM migrations WHERE applied_at <= :now
        UNION ALL SELECT max(last_active) FROM sessions WHERE last_active <= :now
        UNION ALL SELECT max(ended_at) FROM sessions WHERE ended_at <= :now
    )
"""
_IN_ORDER_OF_USE = """
    SELECT key, last_active, ended_at IS NOT NULL, source, archived, json_extract(details, '$.imported_at') IS NOT NULL
    FROM sessions LEFT JOIN session_details ON session = key
    WHERE owner = ? AND listed = 1 ORDER BY activity, key
"""
_BY_SOURCE = """
    SELECT source, count(*), coalesce(sum(message_count), 0), coalesce(sum(tool_call_count), 0)
    FROM sessions WHERE owner = ? GROUP BY source ORDER BY 3 DESC, source
"""
_BY_MONTH = """
    SELECT strftime('%Y-%m', started_at, 'unixepoch', 'localtime') AS month, count(*), coalesce(sum(message_count), 0)
    FROM sessions WHERE owner = ? GROUP BY month ORDER BY month DESC LIMIT ?
"""
_TOTALS = """
    SELECT count(*), coalesce(sum(listed), 0), coalesce(sum(message_count), 0), coalesce(sum(tool_call_count), 0),
        coalesce(sum(ended_at IS NULL), 0), coalesce(sum(archived), 0), min(started_at), max(last_active)
    FROM sessions WHERE owner = ?
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Use:
    key: int
    recorded: float
    ended: bool
    source: str
    archived: bool
    imported: bool


class Maintenance:
    def __init__(self, database: Database, owner: int) -> None:
        self._database = database
        self._owner = owner

    @classmethod
    def of_db(cls, db: SessionDB) -> Maintenance:
        return cls(db._database, db._owner_key)  # noqa: SLF001 - one package, two files

    def unused(
        self, days: float, *, source: str | None = None, archived: bool = False, now: float | None = None
    ) -> list[Session]:
        """The newest session of each ended conversation that was not used for so long, least recently used first."""
        clock = time.time() if now is None else now
        uses = [
            _Use(key=key, recorded=last, ended=bool(ended), source=where, archived=bool(away), imported=bool(imported))
            for key, last, ended, where, away, imported in self._database.rows(_IN_ORDER_OF_USE, (self._owner,))
        ]
        row = self._database.row(_LAST_MOMENT, {"now": clock})
        limit = (clock if row[0] is None else float(row[0])) - days * 86400
        moments = _moments_of_use(uses, clock)
        old = [
            use.key
            for use, moment in zip(uses, moments, strict=True)
            if moment < limit and use.ended and source in (None, use.source) and (archived or not use.archived)
        ]
        found = Conversations(self._database, self._owner).by_keys(old)
        return [found[key] for key in old if key in found]

    def totals(self) -> dict[str, Any]:
        names = ("sessions", "conversations", "messages", "tool_calls", "open", "archived", "first_used", "last_used")
        return dict(zip(names, self._database.row(_TOTALS, (self._owner,)), strict=True))

    def by_source(self) -> list[dict[str, Any]]:
        names = ("source", "sessions", "messages", "tool_calls")
        return [dict(zip(names, row, strict=True)) for row in self._database.rows(_BY_SOURCE, (self._owner,))]

    def by_month(self, months: int = 12) -> list[dict[str, Any]]:
        names = ("month", "sessions", "messages")
        return [dict(zip(names, row, strict=True)) for row in self._database.rows(_BY_MONTH, (self._owner, months))]

    def sizes(self) -> dict[str, int]:
        """Bytes on disk: the file, its log, and how much of the file is free for what comes next."""
        return {
            "file_bytes": _size(self._database.path),
            "log_bytes": _size(self._database.path + "-wal"),
            "free_bytes": self._pragma("freelist_count") * self._pragma("page_size"),
        }

    def is_in_pieces(self) -> bool:
        """Whether an import has left the index in so many segments that merging them is worth the time."""
        with self._database.lock, self._database.translated():
            return any(segments(self._database.connection, table) >= _MANY_SEGMENTS for table in INDEXES)

    def merge_steps(self) -> Iterator[str]:
        """Merges the segments of each index, a little at a time so that writers get their turn; yields after each."""
        for table in INDEXES:
            pages = -_PAGES_PER_STEP  # a negative number first: take every segment in, not only large groups of them
            while self._merge(table, pages) >= _LITTLE:
                pages = _PAGES_PER_STEP
                yield table

    def settle(self) -> Iterator[int]:
        """What a store wants after much was written at once, and for a search in a large one to be quick."""
        steps = 0
        for steps, _ in enumerate(self.merge_steps(), start=1):
            if steps % _STEPS_PER_CHECKPOINT == 0:
                self.checkpoint()
            yield steps
        self.checkpoint()

    def checkpoint(self) -> None:
        """Brings the log into the file as far as nobody still reads from it."""
        with self._database.lock, self._database.translated():
            self._database.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def rewrite(self) -> None:
        """Gives free space back to the disk; others wait meanwhile."""
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


def _moments_of_use(uses: list[_Use], clock: float) -> list[float]:
    """When each conversation was last used at the latest, told from the times recorded in order of use.

    A time before that of an earlier use came from a clock that was behind; one later than now from a clock that was
    ahead, and then the next sound one bounds it. What was imported happened elsewhere: its order here says nothing.
    """
    moments: list[float] = []
    newest = float("-inf")
    for use in uses:
        if use.recorded > clock:
            moments.append(_UNKNOWN)
            continue
        newest = max(newest, use.recorded)
        moments.append(use.recorded if use.imported else newest)
    following = clock
    for at in reversed(range(len(uses))):
        if moments[at] == _UNKNOWN:
            moments[at] = following
        elif not uses[at].imported:
            following = moments[at]
    return moments


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
