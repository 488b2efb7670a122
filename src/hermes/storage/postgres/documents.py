"""The PostgreSQL engine's documents: one row for each document, and one for each record of a log.

Names are paths as in a home (`memories/MEMORY.md`); a name that ends in `.jsonl` is a log. A lock is a transaction:
everything inside it takes effect, and becomes durable, together.
"""

from __future__ import annotations

import contextlib
import functools
import os
from typing import TYPE_CHECKING

from hermes.base.errors import DamagedFile, LockTimeout, StorageError
from hermes.storage.documents import ChangedMeanwhile, decode_record, encode_record, records_in
from hermes.storage.files import Fingerprint, ReadSoFar, Seen
from hermes.storage.postgres.database import OF_DOCUMENTS, PersonDatabase, person_named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType
    from typing import Self

    from hermes.storage.files import Identity, Record

LOG = ".jsonl"
_PEOPLE_KEPT = 4096  # handles in a process; the least recently used one is dropped
_READ = "SELECT data, version, extract(epoch FROM updated_at)::float8 FROM documents WHERE person = %s AND name = %s"
_PUT = """
    INSERT INTO documents (person, name, data) VALUES (%s, %s, %s)
    ON CONFLICT (person, name) DO UPDATE
        SET data = excluded.data, version = excluded.version, updated_at = excluded.updated_at
"""
_PUT_NEW = """
    INSERT INTO documents (person, name, data) VALUES (%s, %s, %s) ON CONFLICT (person, name) DO NOTHING
    RETURNING version
"""
_NEXT = "SELECT nextval('versions')"
_PUT_OVER = """
    UPDATE documents SET data = %s, version = %s, updated_at = clock_timestamp()
    WHERE person = %s AND name = %s AND version = %s RETURNING version
"""
_NAMES = """
    SELECT name, version FROM documents WHERE person = %(person)s AND name > %(low)s AND name < %(high)s
    UNION ALL SELECT name, max(version) FROM logs WHERE person = %(person)s AND name > %(low)s AND name < %(high)s
    GROUP BY name ORDER BY name
"""
_SIZE = "SELECT octet_length(data), version FROM documents WHERE person = %s AND name = %s"
_LOG_END = """
    SELECT start + octet_length(data), version FROM logs WHERE person = %s AND name = %s ORDER BY start DESC LIMIT 1
"""
_LOG = "SELECT start, data, version FROM logs WHERE person = %s AND name = %s AND start >= %s ORDER BY start"
_LAST_BEFORE = """
    SELECT start + octet_length(data), version FROM logs WHERE person = %s AND name = %s AND start < %s
    ORDER BY start DESC LIMIT 1
"""
_NEWEST = "SELECT start, data FROM logs WHERE person = %s AND name = %s ORDER BY start DESC LIMIT %s OFFSET %s"
_APPEND = "INSERT INTO logs (person, name, start, data) VALUES (%s, %s, %s, %s)"
_MENTIONS = "SELECT 1 FROM logs WHERE person = %s AND name = %s AND position(%s::bytea IN data) > 0 LIMIT 1"
# A lease that its holder has not renewed for so many seconds is free; the server's clock decides.
_TAKE_LEASE = """
    INSERT INTO documents (person, name, data) VALUES (%s, %s, %s) ON CONFLICT (person, name) DO UPDATE
        SET data = excluded.data, version = excluded.version, updated_at = excluded.updated_at
        WHERE documents.data = excluded.data OR documents.updated_at < clock_timestamp() - make_interval(secs => %s)
    RETURNING version
"""
_OTHERS_LEASE = """
    SELECT 1 FROM documents WHERE person = %s AND name = %s AND data <> %s
        AND updated_at >= clock_timestamp() - make_interval(secs => %s)
"""


@functools.lru_cache(maxsize=_PEOPLE_KEPT)
def _database(address: str, owner: str, _process: int) -> PersonDatabase:
    """One handle for each person and process, so that a lock inside a lock is part of the same transaction."""
    return PersonDatabase(address, person_named(address, owner), locks=OF_DOCUMENTS)


class PostgresDocuments:
    """The documents of one person below a folder; `path` is only for display."""

    def __init__(self, address: str, owner: str, folder: str = "") -> None:
        self._address = address
        self._owner = owner
        self._folder = folder
        self._database = _database(address, owner, os.getpid())
        self.path = f"{self._database.place}/{folder}".rstrip("/")

    def below(self, *names: str) -> PostgresDocuments:
        return PostgresDocuments(self._address, self._owner, "/".join(filter(None, (self._folder, *names))))

    def open(self) -> PostgresFolder:
        """Returns the folder, which always exists, because a folder is only a prefix of names."""
        return PostgresFolder(self._database, self._folder)

    def create(self) -> PostgresFolder:
        return PostgresFolder(self._database, self._folder)

    def reading(self) -> contextlib.AbstractContextManager[object]:
        return self._database.reading_as_usual()

    def every(self) -> dict[str, int]:
        """All names below the folder, however deep, each with its newest version."""
        start = f"{self._folder}/" if self._folder else ""
        values = {"person": self._database.person, **_between(start)}
        return {name.removeprefix(start): version for name, version in self._database.rows(_NAMES, values)}

    @staticmethod
    def renew() -> None:
        """Looks the numbers of people up again; call it after a person was added or deleted."""
        _database.cache_clear()


class PostgresFolder:
    """A folder of documents, as `LocalFolder` is one of files.

    A write is durable when its transaction ends, so methods that make files durable or remove leftovers do nothing.
    """

    __slots__ = ("_database", "_prefix", "path")

    def __init__(self, database: PersonDatabase, folder: str) -> None:
        self.path = f"{database.place}/{folder}".rstrip("/")
        self._database = database
        self._prefix = f"{folder}/" if folder else ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Closes nothing: no connection is held between two transactions."""

    def close(self) -> None: ...

    def sync(self) -> None: ...

    def discard_abandoned(self) -> None: ...

    def join(self, name: str) -> str:
        return f"{self.path}/{name}"

    def names(self) -> list[str]:
        values = {"person": self._database.person, **_between(self._prefix)}
        found = [name.removeprefix(self._prefix) for name, _ in self._database.rows(_NAMES, values)]
        return [name for name in found if "/" not in name]

    def read(self, name: str, *, at_most: int) -> bytes | None:
        if name.endswith(LOG):
            rows = self._database.rows(_LOG, (*self._key(name), 0))
            data = b"".join(bytes(each) for _, each, _ in rows) if rows else None
        else:
            row = self._database.row(_READ, self._key(name))
            data = bytes(row[0]) if row else None
        if data is not None and len(data) > at_most:
            raise DamagedFile(
                f"{self.join(name)} is larger than {at_most:,} bytes, which nothing of ours writes; look what is in it"
            )
        return data

    def write_new(self, name: str, data: bytes) -> None:
        with self._database.writing() as connection:
            if connection.execute(_PUT_NEW, (*self._key(name), data), binary=True).fetchone() is None:
                raise StorageError(f"{self.join(name)} exists already; remove it first")

    def replace(self, name: str, data: bytes) -> None:
        """Replaces the document, durably; the lines of a log become one row each."""
        with self._database.writing() as connection:
            if name.endswith(LOG):
                connection.execute("DELETE FROM logs WHERE person = %s AND name = %s", self._key(name))
                self.journal(name).append_lines(data.splitlines(keepends=True))
            else:
                connection.execute(_PUT, (*self._key(name), data))

    def write_soon(self, name: str, data: bytes) -> None:
        self.replace(name, data)

    def make_durable(self, name: str) -> None: ...

    def rename(self, old: str, new: str) -> None:
        table = _table(old)
        with self._database.writing() as connection:
            connection.execute(f"DELETE FROM {table} WHERE person = %s AND name = %s", self._key(new))
            moved = connection.execute(
                f"UPDATE {table} SET name = %s WHERE person = %s AND name = %s RETURNING 1",
                (self._key(new)[1], *self._key(old)),
            )
            if moved.fetchone() is None:
                raise StorageError(f"could not rename {self.join(old)}: there is no such document; look who removed it")

    def remove(self, name: str) -> bool:
        """Removes the document; False when there was none."""
        with self._database.writing() as connection:
            gone = f"DELETE FROM {_table(name)} WHERE person = %s AND name = %s RETURNING 1"
            return connection.execute(gone, self._key(name)).fetchone() is not None

    def discard(self, name: str) -> None:
        self.remove(name)

    def size(self, name: str) -> int | None:
        return (self.stamp(name) or (None,))[0]

    def stamp(self, name: str) -> tuple[int, ...]:
        """A tuple that begins with the size and changes with every write; empty when there is no such document."""
        return self._database.row(_LOG_END if name.endswith(LOG) else _SIZE, self._key(name)) or ()

    def journal(self, name: str) -> PostgresJournal:
        return PostgresJournal(self._database, self._key(name)[1], name)

    def lock(self, name: str, *, timeout: float) -> PostgresLock:
        return PostgresLock(self._database, timeout)

    def lease(self, name: str, *, seconds: float) -> PostgresLease:
        return PostgresLease(self._database, self._key(name)[1], seconds)

    def shared(self, name: str, *, at_most: int) -> PostgresShared:
        return PostgresShared(self._database, self._key(name)[1], at_most=at_most)

    def _key(self, name: str) -> tuple[int, str]:
        return self._database.person, f"{self._prefix}{name}"


def _between(start: str) -> dict[str, str]:
    """The range of names with this prefix, exclusive at both ends."""
    return {"low": start, "high": f"{start[:-1]}{chr(ord(start[-1]) + 1)}" if start else chr(0x10FFFF)}


def _table(name: str) -> str:
    return "logs" if name.endswith(LOG) else "documents"


class PostgresLock:
    """A transaction on this person's documents: no one else writes them meanwhile, and an error undoes all of it."""

    def __init__(self, database: PersonDatabase, timeout: float) -> None:
        self._database = database
        self._timeout = timeout
        self._held: contextlib.ExitStack | None = None

    def __enter__(self) -> Self:
        if self._held is None:
            with contextlib.ExitStack() as stack:
                stack.enter_context(self._database.waiting_at_most(self._timeout))
                stack.enter_context(self._database.writing())
                self._database.row("SELECT 1")  # in a pipeline, only an answer shows whether the lock was free
                self._held = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.__exit__(kind, error, trace)

    def try_to_take(self) -> bool:
        self._timeout = 0.001  # PostgreSQL takes a timeout of 0 as no limit
        try:
            self.__enter__()
        except LockTimeout:
            return False
        return True


class PostgresLease:
    """The right to do something that takes long, such as calling a service, without holding a connection."""

    def __init__(self, database: PersonDatabase, name: str, seconds: float) -> None:
        self._database = database
        self._name = name
        self._seconds = seconds
        self._holder = os.urandom(16)

    def take(self) -> bool:
        """Takes or renews the lease; False when another process has it."""
        values = (self._database.person, self._name, self._holder, self._seconds)
        with self._database.writing() as connection:
            return connection.execute(_TAKE_LEASE, values, binary=True).fetchone() is not None

    def give_back(self) -> None:
        gone = "DELETE FROM documents WHERE person = %s AND name = %s AND data = %s"
        self._database.run(gone, (self._database.person, self._name, self._holder))

    def is_taken(self) -> bool:
        values = (self._database.person, self._name, self._holder, self._seconds)
        return self._database.row(_OTHERS_LEASE, values) is not None


class SeenRow(Seen):
    """A document as it was read; its fingerprint has the row's version in place of a file's inode."""

    __slots__ = ("_modified",)

    def __init__(self, data: bytes, version: int, modified: float) -> None:
        super().__init__(data, None)
        self.fingerprint = Fingerprint.of(data, version)
        self._modified = modified

    @property
    def exists(self) -> bool:
        return self.fingerprint.inode > 0

    @property
    def modified_at(self) -> float:
        return self._modified


class PostgresShared:
    """A document with a history; rows change only in transactions of Hermes, so there are no leftovers to look for."""

    def __init__(self, database: PersonDatabase, name: str, *, at_most: int) -> None:
        self._database = database
        self._name = name
        self._at_most = at_most

    def see(self) -> SeenRow:
        row = self._database.row(_READ, (self._database.person, self._name))
        return SeenRow(bytes(row[0]), row[1], row[2]) if row else SeenRow(b"", 0, 0.0)

    def replace(
        self, seen: Seen, data: bytes, label: str, commit: Callable[[Fingerprint], None], prove: Callable[[], None]
    ) -> str:
        """Stores the record and the text in one transaction; no replaced version is kept, so `prove` is not called."""
        with self._database.writing() as connection:
            version = connection.execute(_NEXT, binary=True).fetchone()[0]
            commit(Fingerprint.of(data, version))
            values = (data, version, self._database.person, self._name, seen.fingerprint.inode)
            if connection.execute(_PUT_OVER, values, binary=True).fetchone() is None:
                raise ChangedMeanwhile
        return ""

    def holds(self, version: Fingerprint) -> bool:
        return self.see().fingerprint.inode == version.inode

    def leftovers(self) -> tuple[list[str], list[str], list[str]]:
        return [], [], []

    def is_waiting(self, version: Fingerprint, names: list[str]) -> bool:
        return False

    def old_version(self, name: str) -> None:
        return None

    def still_written(self, name: str) -> bool:
        return False


class PostgresJournal:
    """A log with one row for each record; a row contains the same line as a file would, and the offset of its start."""

    def __init__(self, database: PersonDatabase, full_name: str, name: str) -> None:
        self._database = database
        self._key = (database.person, full_name)
        self.name = name

    def append(self, records: Iterable[Record], *, sync: bool) -> Identity | None:
        with self._database.writing():
            self.append_lines([encode_record(record) for record in records])
            return self.identity()

    def append_lines(self, lines: Iterable[bytes]) -> None:
        """Adds lines that are already encoded, each with its newline."""
        with self._database.writing() as connection:
            end = (connection.execute(_LOG_END, self._key, binary=True).fetchone() or (0,))[0]
            for line in lines:
                connection.execute(_APPEND, (*self._key, end, line))
                end += len(line)

    def sync(self) -> None:
        """Does nothing: every transaction is durable once it has ended."""

    def withdraw(self, *record_ids: str) -> None:
        with self._database.writing() as connection:
            while row := connection.execute(_NEWEST, (*self._key, 1, 0), binary=True).fetchone():
                record = decode_record(bytes(row[1])[:-1])
                if record is None or record.get("id") not in record_ids:
                    return
                connection.execute(
                    "DELETE FROM logs WHERE person = %s AND name = %s AND start = %s", (*self._key, row[0])
                )

    def identity(self) -> Identity:
        size, version = self._database.row(_LOG_END, self._key) or (0, 0)
        return size, version, 0, 0, 0

    def last(self) -> Record | None:
        passed = 0
        while rows := self._database.rows(_NEWEST, (*self._key, passed + 1, passed)):
            for _, data in rows:
                if (record := decode_record(bytes(data)[:-1])) is not None:
                    return record
            passed += len(rows)
        return None

    def mentions(self, word: str) -> bool:
        return self._database.row(_MENTIONS, (*self._key, f'"{word}"'.encode())) is not None

    def read(self) -> tuple[list[Record], int]:
        return records_in(b"".join(bytes(data) for _, data, _ in self._database.rows(_LOG, (*self._key, 0))))

    def read_on(self, before: ReadSoFar) -> ReadSoFar:
        """Reads on if the last record read still has its version, which shows that nothing before it has changed."""
        with self._database.reading():
            goes_on = self._database.row(_LAST_BEFORE, (*self._key, before.size)) == (before.size, before.check)
            rows = self._database.rows(_LOG, (*self._key, before.size if goes_on else 0))
        records, damaged = records_in(b"".join(bytes(data) for _, data, _ in rows))
        size, check = (before.size, before.check) if goes_on else (0, 0)
        if rows:
            start, data, check = rows[-1]
            size = start + len(data)
        damaged += before.damaged if goes_on else 0
        return ReadSoFar(records=records, damaged=damaged, size=size, check=check, goes_on=goes_on)
