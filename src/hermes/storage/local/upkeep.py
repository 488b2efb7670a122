"""Figures about `state.db`, keeping its index and file in shape, and the summaries a context engine keeps there."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

from hermes.storage.conversations import Maintenance, Summaries
from hermes.storage.local.database import one_row
from hermes.storage.local.index import segments
from hermes.storage.local.schema import add_summaries
from hermes.storage.ports import SAID, TITLES, TOOLS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hermes.storage.local.database import Database
    from hermes.storage.ports import Summary

_PAGES_PER_STEP = 128
_MANY_SEGMENTS = 16
_LITTLE = 2  # changes of a merge that found nothing to merge


class LocalMaintenance(Maintenance):
    """Counts, sizes and old sessions in SQLite."""

    _database: Database

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


_ADD = """
    INSERT INTO summaries (session, depth, ids, messages, text, made_by, made_at) VALUES (?, ?, ?, ?, ?, ?, ?)
    RETURNING node
"""

_OF_SESSION = """
    SELECT node, depth, ids, messages, text, made_by, made_at, (
        SELECT json_group_array(child) FROM (SELECT child FROM summary_children WHERE parent = node ORDER BY child)
    ) FROM summaries WHERE session = ? ORDER BY node
"""


class LocalSummaries(Summaries):
    """The summary graph in SQLite."""

    child = "s.node IN (SELECT child FROM summary_children WHERE parent = :parent)"
    _database: Database

    def nodes(
        self,
        session_id: str,
        *,
        number: int | None = None,
        same: tuple[int, str] | None = None,
        parent: int | None = None,
    ) -> list[Summary]:
        add_summaries(self._database)
        return super().nodes(session_id, number=number, same=same, parent=parent)

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

    def of_session(self, key: int) -> list[Any]:
        if not self._database.rows("SELECT 1 FROM sqlite_schema WHERE name = 'summaries'"):
            return []
        return [(*row[:-1], tuple(json.loads(row[-1]))) for row in self._database.rows(_OF_SESSION, (key,))]

    def put(self, key: int, nodes: Sequence[Any]) -> None:
        if nodes:
            add_summaries(self._database)
        with self._database.writing() as connection:
            for node, *rest, children in nodes:
                connection.execute("INSERT INTO summaries VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (node, key, *rest))
                edges = [(node, child) for child in children]
                connection.executemany("INSERT INTO summary_children (parent, child) VALUES (?, ?)", edges)
