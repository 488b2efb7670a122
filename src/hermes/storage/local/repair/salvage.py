"""Recovers every row of a damaged `state.db` that can be believed, through SQLite or from the pages.

A message is believed when its checksum holds for a session; a lost session number is found by trying the known ones.
What SQLite no longer lists because it was deleted is not brought back, as long as the tables that say so can be read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import apsw

from hermes.storage.local.damage import details_seal, identity_holds, is_shaped, mended, text_as_bytes, texts_hold
from hermes.storage.local.database import DAMAGE, open_immutable
from hermes.storage.local.schema import add_summaries, schema_problems
from hermes.storage.local.sqlite_pages import Scan
from hermes.storage.records import BLOCK_BITS, COLUMNS, bound, unbound

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from hermes.storage.local.database import Database
    from hermes.storage.local.sqlite_pages import Image
    from hermes.storage.records import Row

NODES, EDGES = "summaries", "summary_children"
NODE_COLUMNS = ["node", "session", "depth", "ids", "messages", "text", "made_by", "made_at"]
EDGE_COLUMNS = ["parent", "child"]
_TYPES = (int, int, int, str, int, str, str, float)
_RANGES = re.compile(r"\d{1,19}(?:-\d{1,19})?(?:, \d{1,19}(?:-\d{1,19})?)*")
_SESSION, _DEPTH, _IDS = 1, 2, 3


@dataclass(slots=True)
class Graph:
    """The summary graph as read from a damaged database."""

    nodes: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    _pairs: set[tuple[int, int]] = field(default_factory=set)

    def take_node(self, row: tuple[Any, ...]) -> None:
        moment = float(row[-1]) if type(row[-1]) is int else row[-1]  # whole numbers are stored as such
        row = (*row[:-1], moment)
        if tuple(map(type, row)) == _TYPES and row[0] > 0 and row[_DEPTH] >= 0 and _RANGES.fullmatch(row[_IDS]):
            self.nodes.setdefault(row[0], row)

    def take_pairs(self, pairs: Iterable[tuple[Any, ...]]) -> None:
        """What may be edges; whether they are shows when all summaries are known."""
        self._pairs.update((parent, child) for parent, child in pairs if type(parent) is type(child) is int)

    def write(self, database: Database, sessions: Collection[int]) -> int:
        """Stores the summaries of these sessions and what connects them; returns how many there are."""
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
_ALWAYS = {"owners", "sessions", "session_details", "blocks", "state_meta"}
_REAL = ("started_at", "last_active", "ended_at", "estimated_cost_usd", "actual_cost_usd")
_UNUSED_NUMBERS = 10_000  # how far beyond the numbers that were seen a lost session may lie


@dataclass(slots=True)
class Structure:
    """Everything but the messages: who, which sessions, and which block of message ids is whose."""

    owners: dict[int, str] = field(default_factory=dict)
    sessions: dict[int, dict[str, Any]] = field(default_factory=dict)
    details: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    blocks: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)
    graph: Graph = field(default_factory=Graph)
    damaged_sessions: set[int] = field(default_factory=set)
    complete: set[str] = field(default_factory=set)  # the tables SQLite read from end to end


class Source:
    """The damaged database, opened for reading only; `session_columns` are those of the layout to come."""

    def __init__(self, image: Image, path: str, session_columns: list[str]) -> None:
        self._image = image
        self._columns = session_columns
        self._connection = open_unchanged(path)
        self._misread = _misread(self._connection)
        self.structure = Structure()
        self._confirmed: dict[int, int] = {}
        self._numbers: range | list[int] = []

    def read_structure(self) -> Structure:
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
            # Damaged pointers can lead SQLite to the same leaf twice.
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
                # Behind the break of a kept log stands another message whose number was given out again.
                if session is not None:
                    yield row, None
            elif session is None:
                doubtful[row[0]] = row
            else:
                seen[row[0]] = row[-1]
                yield row, session
        yield from ((row, None) for number, row in doubtful.items() if number not in seen)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _table(self, table: str, columns: list[str], order: str = "rowid") -> Iterator[tuple[Any, ...]]:
        """The rows SQLite can read; the table is complete when it came to the end."""
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
        # A leaf that lost its count of rows reads without an error; and a broken log may hold newer rows.
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
        found, scan = self.structure, Scan(self._image)
        for rowid, values in scan.rows():
            if values[0] is not None:
                continue  # every table of ours has its key as the rowid
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
        known = self.structure.sessions.get(key)
        if known is None or _progress(values) > _progress(known):
            self.structure.sessions[key] = values
        if not texts_hold(sealed, key, values["source"], values["title"], values["preview"]):
            self.structure.damaged_sessions.add(key)

    def _take_meta(self, pairs: Iterable[tuple[Any, ...]]) -> None:
        for key, value in pairs:
            if (
                isinstance(key, str) and key.partition(":")[0].isdecimal()
            ):  # the owner's number; other indexes have none
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
        return "blocks" in self.structure.complete and message_id >> BLOCK_BITS not in self.structure.blocks


def _misread(connection: apsw.Connection | None) -> set[str]:
    """Tables whose columns SQLite would take for others, because their schema text was changed."""
    try:
        return set(schema_problems(connection)) if connection is not None else set()
    except apsw.Error:
        return set()


def _progress(values: dict[str, Any]) -> tuple[int, int]:
    """Of two copies of a session's row, the one that knows more messages is newer."""
    last, activity = values.get("last_id"), values.get("activity")
    return (last if isinstance(last, int) else 0, activity if isinstance(activity, int) else 0)


def open_unchanged(path: str) -> apsw.Connection | None:
    """The file as it is: no log, no lock, nothing written; None when SQLite cannot make sense of it."""
    try:
        connection = open_immutable(path)
        connection.pragma("cell_size_check", "ON")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    except apsw.Error:
        return None
    return connection
