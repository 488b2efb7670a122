"""Whole sessions as records, taken out of a SQLite file and put into one, for moving a person between engines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.base.errors import NotFound
from hermes.storage.local.damage import details_seal, seal
from hermes.storage.local.index import set_title
from hermes.storage.local.schema import add_summaries
from hermes.storage.ports import Whole
from hermes.storage.records import COLUMNS, SESSION_COLUMNS

if TYPE_CHECKING:
    from hermes.storage.local.database import Database

_SESSION = f"SELECT {', '.join(SESSION_COLUMNS)} FROM sessions WHERE owner = ? AND key = ?"  # noqa: S608 - our names
_MESSAGES = f"""
    SELECT {", ".join(f"m.{name}" for name in COLUMNS.split(", "))}
    FROM blocks b CROSS JOIN messages m ON m.id BETWEEN (b.block << 5) AND (b.block << 5) + 31
    WHERE b.session = ? ORDER BY b.block, m.id
"""  # noqa: S608 - our names
_SUMMARIES = """
    SELECT node, depth, ids, messages, text, made_by, made_at, (
        SELECT json_group_array(child) FROM (SELECT child FROM summary_children WHERE parent = node ORDER BY child)
    ) FROM summaries WHERE session = ? ORDER BY node
"""


class LocalCopies:
    """Reads and writes whole sessions, for moving between engines."""

    def __init__(self, database: Database, owner: int) -> None:
        self._database = database
        self._owner = owner

    def session(self, key: int) -> Whole:
        with self._database.lock:
            row = self._database.row(_SESSION, (self._owner, key))
            if row is None:
                raise NotFound(f"session {key} is gone")
            details = self._database.row("SELECT system_prompt, details FROM session_details WHERE session = ?", (key,))
            places = "SELECT block, first_place FROM blocks WHERE session = ? ORDER BY block"
            return Whole(
                row=dict(zip(SESSION_COLUMNS, row, strict=True)),
                details=details,
                blocks=self._database.rows(places, (key,)),
                messages=self._database.rows(_MESSAGES, (key,)),
                summaries=self._summaries(key),
            )

    def put(self, whole: Whole) -> None:
        row, owner = whole.row, self._owner
        key = row["key"]
        columns: dict[str, Any] = {
            **row,
            "owner": owner,
            "words": sum(len(message[4] or "") for message in whole.messages) // 6,
            "seal": seal(key, owner, row["id"], row["source"], row["title"], row["preview"]),
        }
        names, marks = ", ".join(columns), ", ".join(["?"] * len(columns))
        if whole.summaries:
            add_summaries(self._database)
        with self._database.writing() as connection:
            connection.execute(f"INSERT INTO sessions ({names}) VALUES ({marks})", tuple(columns.values()))  # noqa: S608 - our names
            if whole.details is not None:
                given = (key, *whole.details)
                connection.execute("INSERT INTO session_details VALUES (?, ?, ?, ?)", (*given, details_seal(*given)))
            connection.executemany(
                "INSERT INTO blocks (block, owner, session, first_place) VALUES (?, ?, ?, ?)",
                [(block, owner, key, place) for block, place in whole.blocks],
            )
            connection.executemany("INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", whole.messages)
            for node, *rest, children in whole.summaries:
                connection.execute("INSERT INTO summaries VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (node, key, *rest))
                edges = [(node, child) for child in children]
                connection.executemany("INSERT INTO summary_children (parent, child) VALUES (?, ?)", edges)
            set_title(connection, key, owner, row["title"])

    def _summaries(self, key: int) -> list[Any]:
        import json

        if not self._database.rows("SELECT 1 FROM sqlite_schema WHERE name = 'summaries'"):
            return []
        return [(*row[:-1], tuple(json.loads(row[-1]))) for row in self._database.rows(_SUMMARIES, (key,))]
