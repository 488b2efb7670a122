"""Converts `state.db` to JSON lines and back: every owner, session and message with its number and state.

Tables that other parts of Hermes keep in the file are included. Only what can be computed again is left out: the
indexes, the vectors, and the counters of the file itself. Messages are written in the format of a conversation, so
that any program can read them.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from hermes.base.errors import DamagedFile, StorageError
from hermes.storage.local.damage import details_seal, seal
from hermes.storage.local.database import Database, all_rows
from hermes.storage.local.index import complete
from hermes.storage.local.schema import OPTIONAL, apply_steps, migrate
from hermes.storage.records import BLOCK, BLOCK_BITS, COLUMNS, COMPACTED, REWOUND, STATE_BITS, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import apsw

    Record = dict[str, Any]
    Chosen = Callable[[Record], bool]  # of a session's record

_HELD = ("owners", "sessions", "session_details", "blocks", "messages", "state_meta")  # have records of their own
_MADE_ANEW = ("migrations", "vectors", "vectors_waiting")
# Columns of a session that a reader of the dump may want; all others go into "row", which only `Load` reads.
_SHOWN = (
    *("id", "source", "title", "model", "kind", "archived", "project", "cwd", "started_at", "ended_at", "end_reason"),
    *("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens"),
    *("api_call_count", "estimated_cost_usd", "actual_cost_usd"),
)
_NOT_KEPT = ("owner", "seal", "indexed_id", "waiting")  # computed again by `Load`
_COUNTER = "syncs"  # an entry of `state_meta` about the file itself
_BATCH = 2000  # records stored in one transaction
_PAGE = 1000  # messages read at a time, so that a long session is never in memory as a whole
_MESSAGES = f"""
    SELECT {", ".join(f"m.{name}" for name in COLUMNS.split(", "))}
    FROM blocks b CROSS JOIN messages m ON m.id BETWEEN (b.block << 5) AND (b.block << 5) + 31
    WHERE b.session = ? AND b.block >= ? AND m.id > ? ORDER BY m.id LIMIT {_PAGE}
"""  # noqa: S608 - column names are ours
assert (BLOCK, BLOCK_BITS) == (32, 5)  # noqa: S101 - the statement above spells the block size out


class Dump:
    """Reads the records of one file, all from the same moment, even while others write.

    `chosen` selects sessions by their records; without it, everything is dumped. The counts are complete once all
    records have been read.
    """

    def __init__(self, path: str, chosen: Chosen | None = None) -> None:
        self._path = path
        self._chosen = chosen
        self.sessions = self.messages = self.taken_back = self.damaged = 0

    def records(self) -> Iterator[Record]:
        """Yields all records: the database first, then each session with its messages, then everything else."""
        database = Database.open(self._path)
        try:
            migrate(database)
            with database.translated():
                database.connection.execute("BEGIN")  # a read transaction sees one state until it ends
                yield from self._records(database.connection)
        finally:
            database.close()

    def _records(self, connection: apsw.Connection) -> Iterator[Record]:
        names = dict(all_rows(connection, "SELECT key, name FROM owners ORDER BY key"))
        sequences = dict(all_rows(connection, "SELECT name, seq FROM sqlite_sequence ORDER BY name"))
        optional = [name for (name,) in all_rows(connection, "SELECT name FROM migrations ORDER BY name")]
        whole = self._chosen is None
        yield {
            "type": "database",
            "owners": {str(key): name for key, name in names.items()},
            **({"sequences": sequences} if whole else {}),
            "layout": [name for name in optional if name in {each for each, _ in OPTIONAL} and "vectors" not in name],
        }
        taken: set[int] = set()
        columns = _columns(connection, "sessions")
        for row in connection.execute("SELECT * FROM sessions ORDER BY key").fetchall():
            record = self._session(connection, dict(zip(columns, row, strict=True)), names)
            if self._chosen is None or self._chosen(record):
                taken.add(record["row"]["key"])
                self.sessions += 1
                yield record
                yield from self._spoken(connection, record)
        yield from self._others(connection, None if whole else taken)

    def _session(self, connection: apsw.Connection, row: Record, names: dict[int, str]) -> Record:
        record: Record = {"type": "session", "owner": names.get(row["owner"], "")}
        record |= {name: row[name] for name in _SHOWN if row.get(name) not in (None, 0)}
        parent = all_rows(connection, "SELECT id FROM sessions WHERE key = ?", (row["parent"],))
        if parent:
            record["parent_session_id"] = parent[0][0]
        stored = "SELECT system_prompt, details FROM session_details WHERE session = ?"
        for prompt, details in all_rows(connection, stored, (row["key"],)):
            record["details"] = json.loads(details) if details else {}
            if prompt is not None:
                record["details"]["system_prompt"] = prompt
        kept = {name: value for name, value in row.items() if name not in (*_SHOWN, *_NOT_KEPT)}
        return {**record, "row": {name: value for name, value in kept.items() if value is not None}}

    def _spoken(self, connection: apsw.Connection, session: Record) -> Iterator[Record]:
        key, after = session["row"]["key"], 0
        while rows := all_rows(connection, _MESSAGES, (key, after >> BLOCK_BITS, after)):
            for row in rows:
                message = decode(row, 0, key)
                if message.damaged:
                    self.damaged += 1
                    continue
                self.messages += not message.rewound
                self.taken_back += message.rewound
                state = row[2] & STATE_BITS
                yield {
                    "type": "message",
                    "session": session["id"],
                    "id": message.id,
                    **({"compacted": True} if state & COMPACTED else {}),
                    **({"rewound": True} if state & REWOUND else {}),
                    "at": message.timestamp,
                    "message": message.message,
                }
            after = rows[-1][0]

    def _others(self, connection: apsw.Connection, taken: set[int] | None) -> Iterator[Record]:
        """What is not a session or a message: the entries of `state_meta`, and the tables of other parts of Hermes."""
        if taken is None:
            for key, value in all_rows(connection, "SELECT key, value FROM state_meta ORDER BY key"):
                if key != _COUNTER:
                    yield {"type": "meta", "key": key, "value": _packed(value)}
        for table in _own_tables(connection):
            columns = _columns(connection, table)
            order = ", ".join(str(number + 1) for number in range(len(columns)))
            for row in connection.execute(f'SELECT * FROM "{table}" ORDER BY {order}'):  # noqa: S608 - names from the schema
                values = dict(zip(columns, row, strict=True))
                if taken is None or values.get("session") in taken:
                    packed = {name: _packed(value) for name, value in values.items() if value is not None}
                    yield {"type": "row", "table": table, "values": packed}


class Load:
    """Fills a new file with the records of a dump; every value is checked, because a dump may come from anywhere.

    The counts are complete once `take` has returned; `left_out` counts rows of tables that this program does not have.
    """

    def __init__(self, path: str) -> None:
        self._database = Database.open(path, durability="turn")
        self._owners: dict[str, int] = {}
        self._places: dict[int, int] = {}
        self._last: tuple[int, int] = (0, 0)
        self._sequences: dict[str, int] = {}
        self.sessions = self.messages = self.taken_back = self.left_out = 0

    def take(self, records: Iterable[Record]) -> None:
        """Stores all records, builds the indexes and checks the file; raises DamagedFile for bad records."""
        try:
            migrate(self._database)
            batch: list[Record] = []
            for record in records:
                batch.append(record)
                if len(batch) >= _BATCH:
                    self._store(batch)
                    batch = []
            self._store(batch)
            self._complete()
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise DamagedFile(f"a record of the conversations cannot be read ({error!r}); use another copy") from error
        except StorageError as error:
            raise DamagedFile(f"the conversations contradict each other ({error}); the archive is damaged") from error
        finally:
            self._database.close()

    def _store(self, batch: list[Record]) -> None:
        with self._database.writing() as connection:
            for record in batch:
                kind = record["type"]
                if kind == "message":
                    self._message(connection, record)
                elif kind == "session":
                    self._session(connection, record)
                elif kind == "database":
                    self._file(connection, record)
                elif kind == "meta":
                    values = (_text(record["key"]), _unpacked(record["value"]))
                    connection.execute("INSERT OR REPLACE INTO state_meta (key, value) VALUES (?, ?)", values)
                else:
                    self._row(connection, record)

    def _file(self, connection: apsw.Connection, record: Record) -> None:
        for key, name in record["owners"].items():
            connection.execute("INSERT OR REPLACE INTO owners (key, name) VALUES (?, ?)", (int(key), _text(name)))
            self._owners[name] = int(key)
        self._sequences = {_text(table): int(number) for table, number in record.get("sequences", {}).items()}
        wanted = [step for step in OPTIONAL if step[0] in record.get("layout", ())]
        apply_steps(self._database, wanted)

    def _session(self, connection: apsw.Connection, record: Record) -> None:
        known = set(_columns(connection, "sessions")) - set(_NOT_KEPT)
        values = {name: value for name, value in {**record["row"], **record}.items() if name in known}
        if not all(isinstance(value, str | int | float | None) for value in values.values()):
            raise ValueError("a session holds a value that is neither text nor number")
        key, owner = int(values["key"]), self._owners[record["owner"]]
        # In a dump of chosen sessions, the parent or the root may be missing.
        if values.get("parent") is not None and not self._is_there(connection, values["parent"]):
            values |= {"parent": None, "kind": None}
        if not self._is_there(connection, values.get("root")):
            values["root"] = key
        name, source = _text(values["id"]), _text(values["source"])
        values |= {"owner": owner, "indexed_id": 0}
        values["seal"] = seal(key, owner, name, source, values.get("title"), values.get("preview"))
        connection.execute(
            f"INSERT INTO sessions ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})",  # noqa: S608 - known columns
            tuple(values.values()),
        )
        if "details" in record:
            details = dict(record["details"])
            prompt = details.pop("system_prompt", None)
            row = (key, prompt, json.dumps(details) if details else None)
            connection.execute("INSERT INTO session_details VALUES (?, ?, ?, ?)", (*row, details_seal(*row)))
        self._current = (name, key, owner)
        self.sessions += 1

    def _is_there(self, connection: apsw.Connection, key: Any) -> bool:
        return bool(all_rows(connection, "SELECT 1 FROM sessions WHERE key = ?", (key,)))

    def _message(self, connection: apsw.Connection, record: Record) -> None:
        name, key, owner = self._current
        if record["session"] != name:
            raise ValueError(f"a message of {record['session']!r} stands among those of {name!r}")
        number = int(record["id"])
        block = number >> BLOCK_BITS
        if self._last != (key, block):
            place = self._places.get(key, 0)
            connection.execute("INSERT INTO blocks VALUES (?, ?, ?, ?)", (block, owner, key, place))
            self._places[key] = place + BLOCK
            self._last = (key, block)
        state = (COMPACTED if record.get("compacted") else 0) | (REWOUND if record.get("rewound") else 0)
        whole = encode(number, record["message"], float(record["at"]), key)
        row = (*whole[:2], whole[2] | state, *whole[3:])
        connection.execute(f"INSERT INTO messages VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608 - a fixed width
        self.messages += state != REWOUND
        self.taken_back += state == REWOUND

    def _row(self, connection: apsw.Connection, record: Record) -> None:
        table, values = record["table"], record["values"]
        if table not in _own_tables(connection) or not set(values) <= set(_columns(connection, table)):
            self.left_out += 1  # a table or column that this program does not have
            return
        names = ", ".join(f'"{name}"' for name in values)
        connection.execute(
            f'INSERT OR REPLACE INTO "{table}" ({names}) VALUES ({", ".join("?" * len(values))})',  # noqa: S608 - from the schema
            tuple(_unpacked(value) for value in values.values()),
        )

    def _complete(self) -> None:
        """Builds the indexes, checks the file and makes it durable."""
        verdict = complete(self._database)
        with self._database.writing() as connection:
            for table, number in self._sequences.items():  # ids of deleted rows are never given out again
                if table in ("sessions", "blocks", *_own_tables(connection)):
                    connection.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
                    connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table, number))
        if verdict != "ok":
            raise ValueError(f"the database made of it is not sound: {verdict}")
        self._database.sync()


def _columns(connection: apsw.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]


def _own_tables(connection: apsw.Connection) -> list[str]:
    """Tables that other parts of Hermes keep in the file, without full-text indexes and their shadow tables."""
    names = all_rows(connection, "SELECT name, sql FROM sqlite_schema WHERE type = 'table' ORDER BY name")
    virtual = [name for name, sql in names if sql and sql.upper().startswith("CREATE VIRTUAL")]
    return [
        name
        for name, _ in names
        if name not in (*_HELD, *_MADE_ANEW, *virtual)
        and not name.startswith(("sqlite_", *(f"{table}_" for table in virtual)))
    ]


def _packed(value: Any) -> Any:
    """A value of SQLite as JSON; bytes become an object with base64, which no other value can be confused with."""
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _unpacked(value: Any) -> Any:
    if isinstance(value, dict):
        return base64.b64decode(value["base64"], validate=True)
    if not isinstance(value, str | int | float | None):
        raise TypeError(f"a {type(value).__name__} where a text or number is expected")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f"{value!r} where a name is expected")
    return value
