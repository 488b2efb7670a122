"""Recovers every trustworthy row of a damaged `state.db`, through SQLite where it can read, else from the raw pages.

A message is trusted when its checksum holds for a session, because the checksum covers the number of the session as
well as the text. If that number is lost, it is found by trying all plausible ones. Deleted messages are not brought
back as long as the table of blocks, which shows what was deleted, can be read.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import apsw

from hermes.base.errors import StorageError
from hermes.storage.local.damage import details_seal, identity_holds, is_shaped, mended, seal, text_as_bytes, texts_hold
from hermes.storage.local.database import DAMAGE, Database, all_rows, open_immutable
from hermes.storage.local.index import complete
from hermes.storage.local.schema import add_summaries, migrate, schema_problems
from hermes.storage.local.sqlite_pages import Scan
from hermes.storage.records import (
    BLOCK,
    BLOCK_BITS,
    COLUMNS,
    REWOUND,
    STATE_BITS,
    beginning,
    bound,
    readable,
    unbound,
    unpacked,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from hermes.storage.local.sqlite_pages import Image
    from hermes.storage.records import Row

    Progress = Callable[[str, int, int], None]


NODES, EDGES = "summaries", "summary_children"
NODE_COLUMNS = ["node", "session", "depth", "ids", "messages", "text", "made_by", "made_at"]
EDGE_COLUMNS = ["parent", "child"]
_TYPES = (int, int, int, str, int, str, str, float)
# The message ids below a summary, such as "4096-4131, 4140"; 19 digits are the most that SQLite's integers have.
_RANGES = re.compile(r"\d{1,19}(?:-\d{1,19})?(?:, \d{1,19}(?:-\d{1,19})?)*")
_SESSION, _DEPTH, _IDS = 1, 2, 3


@dataclass(slots=True)
class Graph:
    """The summary graph as read from a damaged database.

    Summaries carry no checksum, so a row is accepted by its shape, and an edge when both of its ends fit together.
    """

    nodes: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    _pairs: set[tuple[int, int]] = field(default_factory=set)

    def take_node(self, row: tuple[Any, ...]) -> None:
        """Keeps a row if it has the shape of a summary; the first row with a number wins."""
        moment = float(row[-1]) if type(row[-1]) is int else row[-1]  # whole numbers are stored as such
        row = (*row[:-1], moment)
        if tuple(map(type, row)) == _TYPES and row[0] > 0 and row[_DEPTH] >= 0 and _RANGES.fullmatch(row[_IDS]):
            self.nodes.setdefault(row[0], row)

    def take_pairs(self, pairs: Iterable[tuple[Any, ...]]) -> None:
        """Collects pairs that may be edges; `write` decides, because it knows all summaries."""
        self._pairs.update((parent, child) for parent, child in pairs if type(parent) is type(child) is int)

    def write(self, database: Database, sessions: Collection[int]) -> int:
        """Stores the summaries of these sessions and their edges; returns the number of summaries."""
        kept = {number: row for number, row in self.nodes.items() if row[_SESSION] in sessions}
        if not kept:
            return 0
        add_summaries(database)
        edges = sorted(pair for pair in self._pairs if _connects(kept, *pair))
        with database.writing() as connection:
            connection.executemany("INSERT INTO summaries VALUES (?, ?, ?, ?, ?, ?, ?, ?)", kept.values())
            connection.executemany("INSERT INTO summary_children VALUES (?, ?)", edges)
        return len(kept)


def _connects(nodes: dict[int, tuple[Any, ...]], parent: int, child: int) -> bool:
    """Whether the parent lies above the child in the graph and stands for all of the child's messages."""
    above, below = nodes.get(parent), nodes.get(child)
    if above is None or below is None or above[_DEPTH] <= below[_DEPTH]:
        return False
    inside = _numbers(above[_IDS])
    return all(any(low <= first and last <= high for low, high in inside) for first, last in _numbers(below[_IDS]))


def _numbers(ranges: str) -> list[tuple[int, int]]:
    ends = (part.partition("-") for part in ranges.split(", "))
    return [(int(first), int(last or first)) for first, _, last in ends]


_MESSAGE_COLUMNS = COLUMNS.split(", ")
_BLOCK_WIDTH, _DETAILS_WIDTH, _PAIR = 4, 4, 2
_ALWAYS = {"owners", "sessions", "session_details", "blocks", "state_meta"}  # every database has these tables
# SQLite stores a whole number in a REAL column as an integer to save space; read from the pages, it arrives as one.
_REAL = ("started_at", "last_active", "ended_at", "estimated_cost_usd", "actual_cost_usd")
_UNUSED_NUMBERS = 10_000  # how far above the highest known number a lost session's number is looked for


@dataclass(slots=True)
class Structure:
    """Everything but the messages: the owners, their sessions, and the session of each block of message ids."""

    owners: dict[int, str] = field(default_factory=dict)
    sessions: dict[int, dict[str, Any]] = field(default_factory=dict)
    details: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    blocks: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)
    graph: Graph = field(default_factory=Graph)
    damaged_sessions: set[int] = field(default_factory=set)
    complete: set[str] = field(default_factory=set)  # the tables SQLite read from end to end


class Source:
    """The damaged database, opened for reading only; `session_columns` are those of the new database."""

    def __init__(self, image: Image, path: str, session_columns: list[str]) -> None:
        self._image = image
        self._columns = session_columns
        self._connection = open_unchanged(path)
        self._misread = _misread(self._connection)
        self.structure = Structure()
        self._confirmed: dict[int, int] = {}  # block to session, as a message's checksum has proved
        self._numbers: range | list[int] = []

    def read_structure(self) -> Structure:
        """Reads all but the messages; tables that SQLite cannot read to the end are completed from the pages."""
        found = self.structure
        for rowid, name in self._table("owners", ["key", "name"]):
            if isinstance(name, str):
                found.owners[rowid] = name
        for row in self._table("sessions", self._columns):
            self._take_session(row[0], row)
        for row in self._table("session_details", ["session", "system_prompt", "details", "checksum"]):
            self._take_details(row[0], row)
        for block, owner, session, first in self._table("blocks", ["block", "owner", "session", "first_place"]):
            self._take_block(block, owner, session, first)
        for key, value in self._table("state_meta", ["key", "value"], order="key"):
            found.meta[key] = value
        for row in self._table(NODES, NODE_COLUMNS):
            found.graph.take_node(row)
        found.graph.take_pairs(self._table(EDGES, EDGE_COLUMNS, order="parent"))
        if (_ALWAYS | self._tables() & {NODES, EDGES}) - found.complete:
            self._structure_from_pages()
        self._numbers = range(1, max([0, *found.sessions, *(b[1] for b in found.blocks.values())]) + _UNUSED_NUMBERS)
        return found

    def messages(self) -> Iterator[tuple[Row, int | None]]:
        """Each message once, with the session it belongs to, or None when its checksum holds for none."""
        seen: dict[int, int] = {}  # ids and checksums
        kept: set[int] = set()
        for row in self._table("messages", _MESSAGE_COLUMNS):
            # Damaged page pointers can lead SQLite to the same leaf twice.
            if not is_shaped(row) or seen.get(row[0]) == row[-1]:
                continue
            seen[row[0]] = row[-1]
            session = None if row[0] in kept else self._session_of(row)
            if session is not None:
                kept.add(row[0])
            yield row, session
        if "messages" in self.structure.complete:
            return
        doubtful: dict[int, Row] = {}
        for row in self._messages_on_pages():
            if seen.get(row[0]) == row[-1] or self._was_deleted(row[0]):
                continue
            session = self._session_of(row)
            if row[0] in seen:
                # A kept log can contain, after the place where it breaks, another message with an id that was later
                # given out again. It may be genuine, but the id is taken, so it is only shown to a person.
                if session is not None:
                    yield row, None
            elif session is None:
                doubtful[row[0]] = row
            else:
                seen[row[0]] = row[-1]
                yield row, session
        yield from ((row, None) for number, row in doubtful.items() if number not in seen)

    def close(self) -> None:
        """Closes the database; call it after the last message was read."""
        if self._connection is not None:
            self._connection.close()

    def _table(self, table: str, columns: list[str], order: str = "rowid") -> Iterator[tuple[Any, ...]]:
        """The rows that SQLite can read; a table that it read to the end without an error is noted as complete."""
        if self._connection is None or table in self._misread:
            return
        try:
            there = {row[1] for row in self._connection.execute(f"PRAGMA table_info({table})")}
            wanted = ", ".join(text_as_bytes(name) if name in there else "NULL" for name in columns)
            for row in self._connection.execute(f"SELECT {wanted} FROM {table} ORDER BY {order}"):  # noqa: S608 - our names
                yield mended(row)
            sound = self._connection.execute(f"PRAGMA quick_check({table})").fetchall() == [("ok",)]
        except (*DAMAGE, apsw.SQLError, apsw.IOError, UnicodeDecodeError):
            return
        # A leaf whose count of rows was damaged reads without an error, so `quick_check` must agree. A log that breaks
        # off may contain newer rows after the break, so no table is complete then.
        if sound and not self._image.doubtful():
            self.structure.complete.add(table)

    def _tables(self) -> set[str]:
        if self._connection is None:
            return set()
        try:
            return {name for (name,) in self._connection.execute("SELECT name FROM sqlite_schema")}
        except UnicodeDecodeError:
            return {NODES, EDGES}  # they may be there

    def _structure_from_pages(self) -> None:
        """Collects rows from all pages; a leaf does not say which table it is part of, so the row's shape decides."""
        found, scan = self.structure, Scan(self._image)
        for rowid, values in scan.rows():
            if values[0] is not None:
                continue  # our tables have an INTEGER PRIMARY KEY, for which SQLite stores NULL: the rowid is the key
            if len(values) == _PAIR and isinstance(values[1], str) and "owners" not in found.complete:
                found.owners.setdefault(rowid, values[1])
            elif len(values) == _BLOCK_WIDTH and "blocks" not in found.complete:
                self._take_block(rowid, *values[1:])
            elif len(values) > len(_MESSAGE_COLUMNS) and "sessions" not in found.complete:
                self._take_session(rowid, (rowid, *values[1:]), only_sealed=True)
            if len(values) == _DETAILS_WIDTH:
                self._take_details(rowid, (rowid, *values[1:]))
            elif len(values) == len(NODE_COLUMNS) and NODES not in found.complete:
                found.graph.take_node((rowid, *values[1:]))
        if {"state_meta", EDGES} - found.complete:
            pairs = [values for values in scan.index_rows() if len(values) == _PAIR]
            self._take_meta(pairs if "state_meta" not in found.complete else ())
            found.graph.take_pairs(pairs)

    def _take_session(self, key: int, row: tuple[Any, ...], *, only_sealed: bool = False) -> None:
        values = dict(zip(self._columns, row, strict=False)) | {"key": key}
        values |= {name: float(values[name]) for name in _REAL if isinstance(values.get(name), int)}
        owner, name, sealed = values.get("owner"), values.get("id"), values.get("seal")
        if not isinstance(owner, int) or not isinstance(name, str) or not identity_holds(sealed, key, owner, name):
            if not only_sealed:
                self.structure.damaged_sessions.add(key)
            return
        # The identity is sealed separately from the texts: a session with a damaged title still keeps its messages.
        known = self.structure.sessions.get(key)
        if known is None or _progress(values) > _progress(known):
            self.structure.sessions[key] = values
        if not texts_hold(sealed, key, values["source"], values["title"], values["preview"]):
            self.structure.damaged_sessions.add(key)

    def _take_meta(self, pairs: Iterable[tuple[Any, ...]]) -> None:
        for key, value in pairs:
            if (
                isinstance(key, str) and key.partition(":")[0].isdecimal()
            ):  # a key begins with the owner's number, which tells these rows from those of other indexes
                self.structure.meta.setdefault(key, value)

    def _take_details(self, key: int, row: tuple[Any, ...]) -> None:
        if details_seal(key, row[1], row[2]) == row[3]:
            self.structure.details.setdefault(key, row)

    def _take_block(self, block: int, owner: Any, session: Any, first: Any) -> None:
        if block > 0 and all(type(value) is int and value >= 0 for value in (owner, session, first)):
            self.structure.blocks.setdefault(block, (owner, session, first))

    def _messages_on_pages(self) -> Iterator[Row]:
        width = len(_MESSAGE_COLUMNS)
        for rowid, values in Scan(self._image).rows():
            if len(values) == width and values[0] is None and rowid > 0:
                moment = float(values[3]) if isinstance(values[3], int) else values[3]
                row = (rowid, *values[1:3], moment, *values[4:])
                if is_shaped(row):
                    yield row

    def _session_of(self, row: Row) -> int | None:
        """The session for which the checksum of a message holds; tries the listed one first, then every other number.

        The long search runs at most once for each block with a hit, because all messages of a block share a session.
        """
        block, base, stored = row[0] >> BLOCK_BITS, unbound(row[:-1]), row[-1]
        listed = self.structure.blocks.get(block)
        likely = self._confirmed.get(block, listed[1] if listed else None)
        if likely is not None and bound(base, likely) == stored:
            self._confirmed[block] = likely
            return likely
        if block in self._confirmed:
            return None
        found = next((number for number in self._numbers if bound(base, number) == stored), None)
        if found is not None:
            self._confirmed[block] = found
        return found

    def _was_deleted(self, message_id: int) -> bool:
        """Whether the session of a message was deleted: its block is gone from a table of blocks that is complete."""
        return "blocks" in self.structure.complete and message_id >> BLOCK_BITS not in self.structure.blocks


def _misread(connection: apsw.Connection | None) -> set[str]:
    """Tables whose schema text was changed, so that SQLite may confuse their columns."""
    try:
        return set(schema_problems(connection)) if connection is not None else set()
    except apsw.Error:
        return set()


def _progress(values: dict[str, Any]) -> tuple[int, int]:
    """How new a session's row is, for comparing two copies of it: the copy that counts more messages is newer."""
    last, activity = values.get("last_id"), values.get("activity")
    return (last if isinstance(last, int) else 0, activity if isinstance(activity, int) else 0)


def open_unchanged(path: str) -> apsw.Connection | None:
    """Opens the file as it is, without its log, a lock or a write; None when SQLite cannot open it."""
    try:
        connection = open_immutable(path)
        connection.pragma("cell_size_check", "ON")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    except apsw.Error:
        return None
    return connection


# Writes salvaged rows into a new database: with the same ids in the same order, and new counts and a new index.

NOBODY = "unattributed"  # the owner of salvaged sessions whose own owner cannot be determined
_BATCH = 2000  # messages in one transaction
_NUMBERS = ("last_id", "activity", "listed", "archived")
_INSERT = "INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


@dataclass(slots=True, kw_only=True)
class Salvaged:
    """What a repair recovered and what it did not; `altered` rows are shown to a person, never stored as messages."""

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
    """Counts and times of a session, computed from its recovered messages."""

    ids: list[int] = field(default_factory=list)
    live: int = 0
    calls: int = 0
    first: float = float("inf")
    last: float = 0.0
    preview: str | None = None

    def take(self, row: Row) -> None:
        """Counts one message; the first text of a user becomes the preview."""
        message_id, role, state, timestamp, content, _, calls, *_ = row
        text = readable(unpacked(content)) if content else ""
        self.ids.append(message_id)
        self.live += state & STATE_BITS != REWOUND
        self.calls += len(json.loads(calls)) if calls else 0
        self.first, self.last = min(self.first, timestamp), max(self.last, timestamp)
        if role == "user" and self.preview is None and text:
            self.preview = beginning(text)


def rebuild(image: Image, readable_path: str, target: str, progress: Progress) -> Salvaged:
    """Fills a new database at `target` with every trustworthy row and returns counts of what was kept and lost."""
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
    """One rebuild: messages come first, because they prove which sessions existed and which block is whose."""

    def __init__(self, database: Database, source: Source, columns: list[str], progress: Progress) -> None:
        self._database = database
        self._source = source
        self._columns = columns
        self._progress = progress
        self._result = Salvaged()
        self._tallies: dict[int, _Tally] = {}
        self._titles: set[tuple[int, str | None]] = set()
        self._homes: dict[int, int] = {}  # block to session, as the checksums of the messages prove

    def run(self) -> Salvaged:
        """Copies everything, rebuilds the index and checks the result; raises StorageError if it is not sound."""
        self._progress("reading sessions", 0, 0)
        structure = self._source.read_structure()
        self._copy_messages()
        self._count_lost(structure)
        with self._database.writing() as connection:
            connection.execute("PRAGMA defer_foreign_keys = ON")  # a parent may be lost; see `_tie_lineage`
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
            names[number] = f"{NOBODY}-{number}"  # the name is lost; no one else gets these conversations
        for number, name in names.items():
            for known in (
                name,
                f"{NOBODY}-{number}",
            ):  # the second name applies only if the first is taken, which damage can cause
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
        # Damage can give two sessions the same title, which the schema forbids; the later one loses it.
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
        """A session whose own row is lost; its messages stay together under a name that says so.

        Its owner is that of its blocks or else the only owner there is. Otherwise it goes to `NOBODY`, because showing
        it to the wrong person would be worse than asking an operator.
        """
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
        """Counts messages of which no byte was found, though their session counts them or their ids were given out."""
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
        """Removes links to lost sessions, and lists each conversation by its newest session again."""
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
        """Stores which block belongs to which session; proof by checksums takes precedence over the damaged table."""
        owner_of = dict(all_rows(connection, "SELECT key, owner FROM sessions"))
        homes = {block: session for block, (_, session, _) in structure.blocks.items() if session in owner_of}
        homes |= self._homes
        for key, last in all_rows(connection, "SELECT key, last_id FROM sessions WHERE last_id > 0"):
            homes.setdefault(last >> BLOCK_BITS, key)  # the next append continues in this block
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
