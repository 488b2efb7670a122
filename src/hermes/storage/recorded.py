"""A `SessionDB` that remembers what it adds, so that an import that fails can be taken back as if it had not begun.

An import commits in small steps, because others must be able to write in between. What it made is kept here as a list
of sessions made, and of how sessions that were there before looked; `take_back` puts all of that right in one
transaction. What others wrote meanwhile, in other sessions, stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.storage.database import all_rows, one_row
from hermes.storage.index import set_title
from hermes.storage.migrations import BLOCK_BITS
from hermes.storage.sessions import SessionDB

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ABSENT = object()
_LATER = """
    SELECT m.id FROM blocks b CROSS JOIN messages m ON m.id BETWEEN (b.block << 5) AND (b.block << 5) + 31
    WHERE b.session = ? AND b.block >= ? AND m.id > ?
"""


class RecordedDB(SessionDB):
    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._made: list[str] = []
        self._looked: dict[str, dict[str, Any]] = {}
        self._noted: dict[str, Any] = {}
        self._numbers: dict[str, int] = dict(self._database.rows("SELECT name, seq FROM sqlite_sequence"))

    def create_session(self, *given: Any, **more: Any) -> str:
        name = super().create_session(*given, **more)
        self._made.append(name)
        self._looked[name] = {}
        return name

    def append_many(self, session_id: str, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        self._look(session_id)
        return super().append_many(session_id, messages)

    def rename(self, session_id: str, title: str | None) -> str | None:
        self._look(session_id)
        return super().rename(session_id, title)

    def set_meta(self, key: str, value: str | float | bytes | None) -> None:
        if key not in self._noted:
            row = self._database.row("SELECT value FROM state_meta WHERE key = ?", (f"{self._owner_key}:{key}",))
            self._noted[key] = row[0] if row else _ABSENT
        super().set_meta(key, value)

    def take_back(self) -> None:
        """Removes everything this handle added; sessions it added to look as they did before."""
        with self._database.writing() as connection:
            for name in reversed(self._made):
                found = one_row(connection, "SELECT key FROM sessions WHERE owner = ? AND id = ?", self._named(name))
                if found:
                    self._delete(connection, found[0])
            for row in filter(None, self._looked.values()):
                self._cut(connection, row)
            for key, value in self._noted.items():
                name = f"{self._owner_key}:{key}"
                connection.execute("DELETE FROM state_meta WHERE key = ?", (name,))
                if value is not _ABSENT:
                    connection.execute("INSERT INTO state_meta (key, value) VALUES (?, ?)", (name, value))
            for table, column in (("sessions", "key"), ("blocks", "block")):
                used = one_row(connection, f"SELECT max({column}) FROM {table}")[0] or 0  # noqa: S608 - names are ours
                number = max(used, self._numbers.get(table, 0))
                connection.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", (number, table))
        self._made, self._looked, self._noted = [], {}, {}

    def _look(self, session_id: str) -> None:
        if session_id in self._looked:
            return
        names = [row[1] for row in self._database.rows("PRAGMA table_info(sessions)")]
        row = self._database.row("SELECT * FROM sessions WHERE owner = ? AND id = ?", self._named(session_id))
        if row is not None:
            self._looked[session_id] = dict(zip(names, row, strict=True))

    def _cut(self, connection: Any, row: dict[str, Any]) -> None:
        last = row["last_id"]
        later = [i for (i,) in all_rows(connection, _LATER, (row["key"], last >> BLOCK_BITS, last))]
        self._remove_words(connection, later)
        connection.executemany("DELETE FROM messages WHERE id = ?", [(i,) for i in later])
        connection.execute(
            "DELETE FROM blocks WHERE session = ? AND block > ?", (row["key"], last >> BLOCK_BITS if last else -1)
        )
        if one_row(connection, "SELECT 1 FROM sqlite_schema WHERE name = 'vectors'"):
            connection.execute("DELETE FROM vectors WHERE block = ?", (last >> BLOCK_BITS,))
        set_title(connection, row["key"], row["owner"], row["title"])
        names = [name for name in row if name not in ("key", "owner", "id")]
        connection.execute(
            f"UPDATE sessions SET {', '.join(f'{name} = ?' for name in names)} WHERE key = ?",  # noqa: S608 - names are ours
            (*(row[name] for name in names), row["key"]),
        )

    def _named(self, session_id: str) -> tuple[int, str]:
        return self._owner_key, session_id
