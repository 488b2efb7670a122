"""Writes salvaged rows into a new database: same ids, same order, counts and index computed afresh."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes.base.errors import StorageError
from hermes.storage.local.damage import seal
from hermes.storage.local.database import Database, all_rows
from hermes.storage.local.index import complete
from hermes.storage.local.repair.salvage import Source
from hermes.storage.local.schema import migrate
from hermes.storage.records import BLOCK, BLOCK_BITS, REWOUND, STATE_BITS, beginning, readable, unpacked

if TYPE_CHECKING:
    from collections.abc import Callable

    import apsw

    from hermes.storage.local.repair.salvage import Structure
    from hermes.storage.local.sqlite_pages import Image
    from hermes.storage.records import Row

    Progress = Callable[[str, int, int], None]

NOBODY = "unattributed"
_BATCH = 2000
_NUMBERS = ("last_id", "activity", "listed", "archived")
_INSERT = "INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


@dataclass(slots=True, kw_only=True)
class Salvaged:
    """What came back and what did not; `altered` rows are shown to a person, never stored as messages."""

    sessions: int = 0
    messages: int = 0
    lost: int = 0
    altered: list[Row] = field(default_factory=list)
    damaged_sessions: list[str] = field(default_factory=list)
    salvage_sessions: list[str] = field(default_factory=list)
    moved: int = 0
    summaries: int = 0


@dataclass(slots=True)
class _Tally:
    """What the kept messages say about their session."""

    ids: list[int] = field(default_factory=list)
    live: int = 0
    calls: int = 0
    first: float = float("inf")
    last: float = 0.0
    preview: str | None = None

    def take(self, row: Row) -> None:
        message_id, role, state, timestamp, content, _, calls, *_ = row
        text = readable(unpacked(content)) if content else ""
        self.ids.append(message_id)
        self.live += state & STATE_BITS != REWOUND
        self.calls += len(json.loads(calls)) if calls else 0
        self.first, self.last = min(self.first, timestamp), max(self.last, timestamp)
        if role == "user" and self.preview is None and text:
            self.preview = beginning(text)


def rebuild(image: Image, readable_path: str, target: str, progress: Progress) -> Salvaged:
    """Fills a new database at `target` with everything that can be believed and returns the account of it."""
    database = Database.open(target, durability="turn")
    try:
        migrate(database)
        columns = [row[1] for row in database.rows("PRAGMA table_info(sessions)")]
        source = Source(image, readable_path, columns)
        try:
            return _Rebuild(database, source, columns, progress).run()
        finally:
            source.close()
    finally:
        database.close()


class _Rebuild:
    def __init__(self, database: Database, source: Source, columns: list[str], progress: Progress) -> None:
        self._database = database
        self._source = source
        self._columns = columns
        self._progress = progress
        self._result = Salvaged()
        self._tallies: dict[int, _Tally] = {}
        self._titles: set[tuple[int, str | None]] = set()
        self._homes: dict[int, int] = {}  # block to session, as the messages themselves prove

    def run(self) -> Salvaged:
        self._progress("reading sessions", 0, 0)
        structure = self._source.read_structure()
        self._copy_messages()
        self._count_lost(structure)
        with self._database.writing() as connection:
            connection.execute("PRAGMA defer_foreign_keys = ON")  # a parent may be lost; `_tie_lineage` sees to that
            self._write_owners(connection, structure)
            for key in sorted({*structure.sessions, *self._tallies}):
                self._write_session(connection, structure, key)
            self._tie_lineage(connection)
            self._write_blocks(connection, structure)
            connection.executemany(
                "INSERT OR REPLACE INTO session_details VALUES (?, ?, ?, ?)",
                [row for key, row in structure.details.items() if key in self._known(connection)],
            )
            connection.executemany("INSERT OR REPLACE INTO state_meta VALUES (?, ?)", structure.meta.items())
            known = self._known(connection)
        self._result.summaries = structure.graph.write(self._database, known)
        self._progress("indexing and checking the result", 0, self._result.messages)
        verdict = complete(self._database)
        if verdict != "ok":
            raise StorageError(f"the rebuilt database is not sound ({verdict}); nothing was replaced")
        return self._result

    def _copy_messages(self) -> None:
        batch: list[Row] = []
        for row, session in self._source.messages():
            if session is None:
                self._result.altered.append(row)
                continue
            listed = self._source.structure.blocks.get(row[0] >> BLOCK_BITS)
            self._result.moved += listed is not None and listed[1] != session
            self._homes[row[0] >> BLOCK_BITS] = session
            self._tallies.setdefault(session, _Tally()).take(row)
            batch.append(row)
            self._result.messages += 1
            if len(batch) == _BATCH:
                self._store(batch)
        self._store(batch)

    def _store(self, batch: list[Row]) -> None:
        with self._database.writing() as connection:
            connection.executemany(_INSERT, batch)
        batch.clear()
        self._progress("keeping messages", self._result.messages, 0)

    def _write_owners(self, connection: apsw.Connection, structure: Structure) -> None:
        used = {values["owner"] for values in structure.sessions.values()} | {
            block[0] for block in structure.blocks.values()
        }
        names = {1: "local", **structure.owners}
        for number in sorted(used - set(names)):
            names[number] = f"{NOBODY}-{number}"  # the name is lost; nobody is taken for somebody else
        for number, name in names.items():
            for known in (
                name,
                f"{NOBODY}-{number}",
            ):  # the second when the first is taken, which damage can bring about
                connection.execute("INSERT OR IGNORE INTO owners (key, name) VALUES (?, ?)", (number, known))

    def _write_session(self, connection: apsw.Connection, structure: Structure, key: int) -> None:
        tally = self._tallies.get(key, _Tally())
        values = structure.sessions.get(key)
        if values is None:
            values = self._stub(connection, structure, key, tally)
            self._result.salvage_sessions.append(values["id"])
        elif key in structure.damaged_sessions:
            values |= {"title": None, "preview": tally.preview, "source": "unknown"}
            self._result.damaged_sessions.append(values["id"])
        values |= {name: values[name] if isinstance(values.get(name), int) else 0 for name in _NUMBERS}
        for name, fallback in (("started_at", tally.first), ("last_active", tally.last)):
            if not isinstance(values.get(name), float):
                values[name] = fallback if tally.ids else 0.0
        if values["title"] is not None and (values["owner"], values["title"]) in self._titles:
            values["title"] = None
        self._titles.add((values["owner"], values["title"]))
        values |= {
            "last_id": max([values["last_id"], *tally.ids]),
            "indexed_id": 0,
            "message_count": tally.live,
            "tool_call_count": tally.calls,
        }
        shown = (values["source"], values["title"], values["preview"])
        values["seal"] = seal(key, values["owner"], values["id"], *shown)
        kept = {name: value for name, value in values.items() if name in self._columns and value is not None}
        connection.execute(
            f"INSERT INTO sessions ({', '.join(kept)}) VALUES ({', '.join('?' * len(kept))})",  # noqa: S608 - our columns
            tuple(kept.values()),
        )
        self._result.sessions += 1

    def _stub(self, connection: apsw.Connection, structure: Structure, key: int, tally: _Tally) -> dict[str, Any]:
        """A session whose own row is lost; its messages stay together under a name that says so."""
        owners = {structure.blocks[i >> BLOCK_BITS][0] for i in tally.ids if i >> BLOCK_BITS in structure.blocks}
        everyone = {*structure.owners, *(values["owner"] for values in structure.sessions.values()), 1}
        owner = owners.pop() if len(owners) == 1 else everyone.pop() if len(everyone) == 1 else None
        if owner is None:
            connection.execute("INSERT OR IGNORE INTO owners (name) VALUES (?)", (NOBODY,))
            owner = all_rows(connection, "SELECT key FROM owners WHERE name = ?", (NOBODY,))[0][0]
        return {
            "key": key,
            "owner": owner,
            "id": f"salvaged-{key}",
            "source": "salvage",
            "title": f"Salvaged conversation {key}",
            "preview": tally.preview,
            "started_at": tally.first,
            "last_active": tally.last,
            "listed": 1,
            "root": key,
        }

    def _count_lost(self, structure: Structure) -> None:
        """Messages of which no byte was found, though their session's row counts them or their ids were given out."""
        found = {row[0] for row in self._result.altered}
        found.update(i for tally in self._tallies.values() for i in tally.ids)
        given_out = 0
        for block, (_, session, _) in structure.blocks.items():
            newest = structure.sessions.get(session, {}).get("last_id") or 0
            given_out += len(set(range(block << BLOCK_BITS, min((block + 1) << BLOCK_BITS, newest + 1))) - found)
        counted = sum(
            min(_number(values.get("message_count")), _number(values.get("last_id")))  # neither carries a checksum
            for values in structure.sessions.values()
        )
        kept = sum(self._tallies[key].live for key in structure.sessions if key in self._tallies)
        self._result.lost = max(given_out, counted - kept - len(self._result.altered), 0)

    def _tie_lineage(self, connection: apsw.Connection) -> None:
        """Nothing points to a session that is gone, and each conversation is listed by its newest session."""
        connection.execute("UPDATE sessions SET parent = NULL WHERE parent NOT IN (SELECT key FROM sessions)")
        connection.execute("UPDATE sessions SET root = key WHERE root IS NULL OR typeof(root) <> 'integer'")
        connection.execute(
            "UPDATE sessions SET root = (SELECT min(s.key) FROM sessions s WHERE s.root = sessions.root)"
            " WHERE root NOT IN (SELECT key FROM sessions)"
        )
        connection.execute(
            "UPDATE sessions SET listed = 1 WHERE key IN (SELECT max(key) FROM sessions"
            " WHERE kind IS NOT 'delegate' GROUP BY owner, root HAVING max(listed) = 0)"
        )

    def _write_blocks(self, connection: apsw.Connection, structure: Structure) -> None:
        owner_of = dict(all_rows(connection, "SELECT key, owner FROM sessions"))
        homes = {block: session for block, (_, session, _) in structure.blocks.items() if session in owner_of}
        homes |= self._homes
        for key, last in all_rows(connection, "SELECT key, last_id FROM sessions WHERE last_id > 0"):
            homes.setdefault(last >> BLOCK_BITS, key)  # the next message continues there
        places: dict[int, int] = {}
        for block, session in sorted(homes.items()):
            listed = structure.blocks.get(block)
            known = listed[2] if listed and listed[1] == session else places.get(session, 0)
            places[session] = known + BLOCK
            connection.execute("INSERT INTO blocks VALUES (?, ?, ?, ?)", (block, owner_of[session], session, known))

    def _known(self, connection: apsw.Connection) -> set[int]:
        return {key for (key,) in all_rows(connection, "SELECT key FROM sessions")}


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
