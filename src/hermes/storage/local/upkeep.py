"""Figures about `state.db`, keeping its index and file in shape, and the summaries a context engine keeps there."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from hermes.storage.local.database import one_row
from hermes.storage.local.index import segments
from hermes.storage.local.schema import add_summaries
from hermes.storage.ports import SAID, TITLES, TOOLS, Summary, Use

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hermes.storage.local.database import Database

_PAGES_PER_STEP = 128
_MANY_SEGMENTS = 16
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
TOTALS = ("sessions", "conversations", "messages", "tool_calls", "open", "archived", "first_used", "last_used")
BY_SOURCE = ("source", "sessions", "messages", "tool_calls")
BY_MONTH = ("month", "sessions", "messages")


class LocalMaintenance:
    """Counts, sizes and old sessions in SQLite."""

    def __init__(self, database: Database, owner: int) -> None:
        self._database = database
        self._owner = owner

    def uses(self) -> list[Use]:
        return [
            Use(key, last, bool(ended), source, bool(archived), bool(imported))
            for key, last, ended, source, archived, imported in self._database.rows(_IN_ORDER_OF_USE, (self._owner,))
        ]

    def last_moment(self, now: float) -> float | None:
        row = self._database.row(_LAST_MOMENT, {"now": now})
        return None if row[0] is None else float(row[0])

    def totals(self) -> dict[str, Any]:
        return dict(zip(TOTALS, self._database.row(_TOTALS, (self._owner,)), strict=True))

    def by_source(self) -> list[dict[str, Any]]:
        return [dict(zip(BY_SOURCE, row, strict=True)) for row in self._database.rows(_BY_SOURCE, (self._owner,))]

    def by_month(self, months: int) -> list[dict[str, Any]]:
        rows = self._database.rows(_BY_MONTH, (self._owner, months))
        return [dict(zip(BY_MONTH, row, strict=True)) for row in rows]

    def sizes(self) -> dict[str, int]:
        return {
            "file_bytes": _size(self._database.path),
            "log_bytes": _size(self._database.path + "-wal"),
            "free_bytes": self._pragma("freelist_count") * self._pragma("page_size"),
        }

    def is_in_pieces(self) -> bool:
        with self._database.lock, self._database.translated():
            connection = self._database.connection
            return any(segments(connection, f"{table}_fts") >= _MANY_SEGMENTS for table in (SAID, TOOLS, TITLES))

    def merge_steps(self) -> Iterator[str]:
        for table in (SAID, TOOLS, TITLES):
            pages = -_PAGES_PER_STEP  # a negative number first: take every segment in, not only large groups of them
            while self._merge(f"{table}_fts", pages) >= _LITTLE:
                pages = _PAGES_PER_STEP
                yield table

    def checkpoint(self) -> None:
        with self._database.lock, self._database.translated():
            self._database.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def rewrite(self) -> None:
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


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


_NODE = "s.node, s.depth, s.ids, s.messages, s.text, s.made_by"
_ADD = """
    INSERT INTO summaries (session, depth, ids, messages, text, made_by, made_at) VALUES (?, ?, ?, ?, ?, ?, ?)
    RETURNING node
"""
# A branch goes on with what its conversation had, so the summaries of that one are its own, too.
_OF_CONVERSATION = f"""
    SELECT {_NODE} FROM summaries s JOIN sessions c ON c.key = s.session
    WHERE c.owner = :owner AND c.root IN (
        WITH RECURSIVE family (root) AS (
            SELECT root FROM sessions WHERE owner = :owner AND id = :id
            UNION SELECT above.root FROM family JOIN sessions first ON first.key = family.root
                JOIN sessions above ON above.key = first.parent AND above.owner = first.owner
        ) SELECT root FROM family
    )
    AND (:number IS NULL OR s.node = :number)
    AND (:depth IS NULL OR (s.depth = :depth AND s.ids = :ids))
    AND (:parent IS NULL OR s.node IN (SELECT child FROM summary_children WHERE parent = :parent))
    ORDER BY s.node
"""  # noqa: S608 - column names are ours


class LocalSummaries:
    """The summary graph in SQLite."""

    def __init__(self, database: Database, owner: int) -> None:
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
        add_summaries(self._database)
        depth, ids = same or (None, None)
        values = {"owner": self._owner, "id": session_id, "number": number, "depth": depth, "ids": ids}
        rows = self._database.rows(_OF_CONVERSATION, {**values, "parent": parent})
        names = ("number", "depth", "ids", "messages", "text", "made_by")
        return [Summary(**dict(zip(names, row, strict=True))) for row in rows]

    def add(self, session_id: str, node: Summary, children: Sequence[int]) -> Summary:
        add_summaries(self._database)
        with self._database.writing() as connection:
            wanted = "SELECT key FROM sessions WHERE owner = ? AND id = ?"
            key = one_row(connection, wanted, (self._owner, session_id))[0]
            row = (key, node.depth, node.ids, node.messages, node.text, node.made_by, time.time())
            number = int(one_row(connection, _ADD, row)[0])
            edges = [(number, child) for child in children]
            connection.executemany("INSERT INTO summary_children (parent, child) VALUES (?, ?)", edges)
        return node._replace(number=number)
