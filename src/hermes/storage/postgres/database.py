"""One person's transactions in a PostgreSQL database: connections from a pool, the person set in each, typed errors.

A connection is taken for one transaction and given back, so none is held while a model answers, and nothing is left in
a connection: this works behind pgbouncer in transaction mode. Statements inside a transaction are sent as a pipeline,
so that a round trip is paid only where an answer is needed.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import re
import select
import threading
import time
import urllib.parse
from typing import TYPE_CHECKING, Any

from hermes.base.errors import ExtraMissing, LockTimeout, StorageError, WriteRefused, command

try:
    import psycopg
    import psycopg.conninfo
    import psycopg_pool
    from psycopg import errors
except ImportError as error:
    raise ExtraMissing(f"PostgreSQL needs the package psycopg ({error}): {command('postgres')} brings it") from error

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

APP, ENGINE, SCHEMA = "hermes_app", "hermes_engine", "hermes"
WAIT_SECONDS = 5.0
MOST_CONNECTIONS = 8
_MOST_USUAL = 32
_LOCKS = 0x4852 << 48  # our advisory locks: three for each person, of conversations, documents and a ledger
OF_DOCUMENTS, OF_LEDGER = 1 << 47, 1 << 46
_BEGIN = """
    SELECT set_config('role', 'hermes_app', true), set_config('search_path', 'hermes, public', true),
        set_config('hermes.person', %s, true), set_config('lock_timeout', %s, true)
"""
_LOCK = "SELECT pg_advisory_xact_lock(%s)"
# Every acknowledged write is before this position.
_WRITTEN = """
    SELECT CASE current_setting('synchronous_commit') WHEN 'off' THEN pg_current_wal_insert_lsn()
        ELSE pg_current_wal_flush_lsn() END::text
"""
_HOLDS = "SELECT NOT pg_is_in_recovery() OR pg_last_wal_replay_lsn() >= %s::pg_lsn"
_BEHIND = (0.002, 0.004, 0.008)  # seconds that a search waits for a standby


@functools.lru_cache(maxsize=512)
def _in_postgres(sql: str) -> str:
    """A statement of `storage/conversations`, which is written for SQLite; our own statements stay as they are."""
    sql = sql.replace("CROSS JOIN messages m ON", "JOIN messages m ON m.person = b.person AND")
    sql = re.sub(r"(?<![:\w])\+?owner\b", "person", sql).replace("instr(", "strpos(")
    return re.sub(r"(?<!:):(\w+)", r"%(\1)s", sql).replace("?", "%s")


@functools.cache
def parameters(address: str, *, standby: bool = False) -> dict[str, str]:
    """Which server a connection is for, if the address lists several: the primary, or preferably a standby."""
    several = "," in str(psycopg.conninfo.conninfo_to_dict(address).get("host") or "")
    return {"target_session_attrs": "prefer-standby" if standby else "read-write"} if several else {}


@functools.cache
def _pool(address: str, _process: int, standby: bool) -> psycopg_pool.ConnectionPool[Any]:  # noqa: FBT001 - the cache's key
    """One pool for each process, because connections do not survive a fork."""
    pool = psycopg_pool.ConnectionPool(
        address,
        min_size=0,
        max_size=MOST_CONNECTIONS,
        timeout=WAIT_SECONDS,
        max_idle=60,
        reconnect_timeout=1,  # otherwise, after a restart of the server, the pool waits longer and longer
        open=True,
        # No prepared statements: behind pgbouncer the next transaction may be on another connection.
        kwargs={
            "autocommit": True,
            "prepare_threshold": None,
            "application_name": "hermes",
            "connect_timeout": 5,
            **parameters(address, standby=standby),
        },
    )
    atexit.register(pool.close)
    return pool


def pool_of(address: str, *, standby: bool = False) -> psycopg_pool.ConnectionPool[Any]:
    """The pool of connections to an address in this process."""
    return _pool(address, os.getpid(), standby)


def shown(address: str) -> str:
    """The address without its password, for messages."""
    parts = urllib.parse.urlsplit(address)
    name = f"{parts.username}@" if parts.username else ""
    return f"{parts.scheme}://{name}{parts.netloc.rpartition('@')[2]}{parts.path}"


def _alive(pool: psycopg_pool.ConnectionPool[Any]) -> psycopg.Connection[Any]:
    """Takes a connection that the server has not closed meanwhile.

    A server that restarts reports it on the socket of an idle connection, where nothing else arrives. Checking the
    socket costs no round trip.
    """
    while True:
        connection = pool.getconn()
        readable, _, _ = select.select([connection.fileno()], [], [], 0)
        if not readable:
            return connection
        connection.close()
        pool.putconn(connection)


class PersonDatabase:
    """Runs statements as one person, in one transaction at a time."""

    journal = "postgresql"
    only_read = False
    damage = None

    def __init__(self, address: str, person: int, *, wait: float = WAIT_SECONDS, locks: int = 0) -> None:
        self.place = shown(address)
        self.person = person
        self._address = address
        self._wait = wait
        # Documents have a lock of their own: a transaction of conversations may write one, such as a decision.
        self._writers = _LOCKS + locks + person
        self._lock = threading.RLock()
        self._connection: psycopg.Connection[Any] | None = None
        self._writes = False
        self._closed = False
        # Answers that were asked for before they are needed, until the transaction that only reads has ended.
        self.known: dict[Any, Any] = {}
        self._usual: list[tuple[str, Any]] = []
        self._noted: list[tuple[str, Any]] | None = None

    @property
    def in_transaction(self) -> bool:
        return self._connection is not None and self._writes

    def is_replaced(self) -> bool:
        return False  # a database elsewhere is reached again by its address

    def mark_damaged(self, seen: str) -> None:
        raise StorageError(f"{self.place} contradicts itself: {seen}; restore it from a backup")

    def sync(self) -> None:
        """Every commit is on the server's disk already."""

    def rows(self, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[Any]:
        return self.many([(sql, values)])[0]

    def row(self, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> Any:
        return next(iter(self.rows(sql, values)), None)

    def column(self, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[Any]:
        return [found for (found,) in self.rows(sql, values)]

    def many(self, questions: Sequence[tuple[str, Sequence[Any] | dict[str, Any]]]) -> list[list[Any]]:
        """The rows of several questions, in one round trip; none for what was asked ahead."""
        if self._noted is not None:
            self._noted += questions
        if self.known:
            known = [self.known.get(_question(*each)) for each in questions]
            left = iter(self._many([each for each, rows in zip(questions, known, strict=True) if rows is None]))
            return [next(left) if rows is None else rows for rows in known]
        return self._many(questions)

    def ahead(self, questions: Sequence[tuple[str, Any]]) -> None:
        """Asks in one round trip what is about to be asked one by one; only where nothing is written meanwhile."""
        if self._connection is not None and not self._writes:
            found = self._many(questions)
            self.known |= {_question(*each): rows for each, rows in zip(questions, found, strict=True)}

    def _many(self, questions: Sequence[tuple[str, Sequence[Any] | dict[str, Any]]]) -> list[list[Any]]:
        if not questions:
            return []
        with self._asking() as connection:
            asked = [connection.execute(_in_postgres(sql), values, binary=True) for sql, values in questions]
            return [each.fetchall() for each in asked]

    def run(self, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> None:
        """A statement without an answer, inside the running transaction or in one of its own."""
        with self.writing() as connection:
            connection.execute(_in_postgres(sql), values)

    @contextlib.contextmanager
    def reading(self) -> Iterator[psycopg.Connection[Any]]:
        """One transaction for several questions; inside a longer one, that one."""
        with self._lock:
            if self._connection is not None:
                yield self._connection
            else:
                with self._transaction(writes=False) as connection:
                    yield connection

    @contextlib.contextmanager
    def searching(self) -> Iterator[None]:
        """As `reading`, on a standby if the address lists one that already has everything that was acknowledged."""
        with self._lock, contextlib.ExitStack() as stack:
            if self._connection is None and parameters(self._address):
                (position,) = self.row(_WRITTEN)
                with contextlib.suppress(StorageError), contextlib.ExitStack() as tried:
                    tried.enter_context(self._transaction(writes=False, standby=True))
                    if self._holds(position):
                        stack.push(tried.pop_all())
            stack.enter_context(self.reading())
            yield

    def _holds(self, position: str) -> bool:
        for pause in _BEHIND:
            if self.row(_HOLDS, (position,))[0]:
                return True
            time.sleep(pause)
        return False

    @contextlib.contextmanager
    def reading_as_usual(self) -> Iterator[None]:
        """As `reading`, where the same is asked each time: what was asked the last time is asked ahead."""
        with self.reading():
            if self._writes or self._noted is not None:
                yield
                return
            self.ahead(self._usual)
            self._noted = []
            try:
                yield
            finally:
                self._usual, self._noted = self._noted[:_MOST_USUAL], None

    @contextlib.contextmanager
    def _asking(self) -> Iterator[psycopg.Connection[Any]]:
        """For one question: what a pipeline sends at once is a transaction, for half the CPU of BEGIN and COMMIT."""
        with self._lock:
            if self._connection is not None:
                yield self._connection
            else:
                with self._borrowed() as connection, connection.pipeline():
                    self._set_person(connection)
                    yield connection

    @contextlib.contextmanager
    def writing(self, *, synced: bool = True) -> Iterator[psycopg.Connection[Any]]:
        """One transaction that is durable when the block has ended without an error; one writer for each person."""
        with self._lock:
            if self._connection is not None:
                if not self._writes:
                    raise StorageError(f"{self.place}: something was written while only reading was announced")
                yield self._connection
            else:
                with self._transaction(writes=True) as connection:
                    yield connection

    @contextlib.contextmanager
    def waiting_at_most(self, seconds: float) -> Iterator[None]:
        with self._lock:
            before = self._wait
            self._wait = min(seconds, before)
            try:
                yield
            finally:
                self._wait = before

    def close(self) -> None:
        self._closed = True

    @contextlib.contextmanager
    def _transaction(self, *, writes: bool, standby: bool = False) -> Iterator[psycopg.Connection[Any]]:
        """Waits for the server only where something is read, and at the end: two round trips for most writes."""
        with self._borrowed(standby=standby) as connection:
            self._connection, self._writes = connection, writes
            try:
                with connection.pipeline():
                    connection.execute("BEGIN" if writes else "BEGIN READ ONLY")
                    self._set_person(connection)
                    if writes:
                        connection.execute(_LOCK, (self._writers,))
                    yield connection
                    connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(psycopg.Error):
                    connection.execute("ROLLBACK")
                raise
            finally:
                self._connection = None
                self.known.clear()

    @contextlib.contextmanager
    def _borrowed(self, *, standby: bool = False) -> Iterator[psycopg.Connection[Any]]:
        if self._closed:
            raise StorageError(f"{self.place} was closed; open it again")
        with self.translated():
            pool = pool_of(self._address, standby=standby)
            connection = _alive(pool)
            try:
                yield connection
            finally:
                pool.putconn(connection)

    def _set_person(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute(_BEGIN, (str(self.person), f"{max(1, int(self._wait * 1000))}ms"))

    @contextlib.contextmanager
    def translated(self) -> Iterator[None]:
        try:
            yield
        except errors.LockNotAvailable as error:
            raise LockTimeout(
                f"{self.place}: another process has been writing this person's data for more than {self._wait:g} s; "
                "try again when it has ended"
            ) from error
        except UnicodeEncodeError as error:
            half = "what was given holds half of a character (a lone surrogate); leave it out"
            raise WriteRefused(half, kind="bad_argument") from error
        except psycopg.DataError as error:
            raise WriteRefused(
                f"what was given cannot be stored ({_first_line(error)})", kind="bad_argument"
            ) from error
        except psycopg_pool.PoolTimeout as error:
            raise StorageError(
                f"{self.place} cannot be reached, or all its connections are busy ({_first_line(error)}); "
                "check that the database runs"
            ) from error
        except (errors.UndefinedTable, errors.UndefinedFunction, errors.InvalidSchemaName) as error:
            raise StorageError(
                f"{self.place} is not ready ({_first_line(error)}); run `hermes storage init`"
            ) from error
        except psycopg.OperationalError as error:
            raise StorageError(
                f"{self.place} does not answer ({_first_line(error)}); what was being written is not acknowledged: "
                "look whether it is there before you write it again"
            ) from error
        except psycopg.Error as error:
            raise StorageError(
                f"{self.place} refused a statement ({_first_line(error)}); nothing was stored"
            ) from error


def _question(sql: str, values: Sequence[Any] | dict[str, Any]) -> Any:
    return sql, repr(values)


def person_named(address: str, name: str, *, wait: float = WAIT_SECONDS) -> int:
    """The number of a person, which is assigned on first use."""
    if not name or "\x00" in name:
        raise WriteRefused(f"{name!r} cannot be a person's name", kind="bad_argument")
    found = PersonDatabase(address, 0, wait=wait)
    with found.translated(), found.writing() as connection:
        return int(connection.execute("SELECT person_named(%s)", (name,), binary=True).fetchone()[0])


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
