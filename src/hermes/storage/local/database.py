"""One open handle on `state.db`: a private file, WAL or its fallback, queued writers, reliable acknowledgements.

A write is acknowledged only when it is committed into the file that is at the path. With durability "message", each
commit is synced to disk, so it survives a power cut. With "turn", a commit survives a killed process at once and a
power cut after the next `sync()`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import threading
import time
import urllib.parse
from typing import TYPE_CHECKING, Any, BinaryIO

import apsw

from hermes.base.errors import DamagedFile, ForeignFile, LockTimeout, StorageError, UnsafePath, WriteRefused
from hermes.storage.files import explained, keep_private, make_private_folders
from hermes.storage.locks import WriteQueue

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hermes.storage.ports import Durability

APPLICATION_ID = 0x48524D53  # "HRMS"
HERMES_AGENT = "hermes-agent"


def program_of(connection: apsw.Connection) -> str | None:
    """The name of the program that wrote a database; None for one of ours or an empty one."""
    if connection.pragma("application_id") == APPLICATION_ID:
        return None
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if not tables or {"blocks", "migrations"} <= tables:
        return None
    return HERMES_AGENT if {"sessions", "messages"} <= tables else "another program"


def foreign_program(path: str) -> str | None:
    """As `program_of` for a file, which is not changed; also None if it cannot be read."""
    try:
        connection = open_immutable(path)
        try:
            return program_of(connection)
        finally:
            connection.close()
    except (apsw.Error, UnicodeDecodeError):
        return None


def open_immutable(path: str) -> apsw.Connection:
    """Opens a file as it is: without its log, without locks, and without writing anything."""
    name = urllib.parse.quote(os.path.abspath(path))
    return apsw.Connection(f"file:{name}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)


# SQLite's write-ahead log: made to survive a power cut.
#
# A commit puts its pages into the log; syncing that file afterwards makes it durable. SQLite would sync inside the
# write lock, where each process waits for the disk writes of all the others: eight processes wrote a fifth as much.
# Here the lock is released first, and one disk write serves all who wait for it. SQLite itself copies the log into the
# database, after a commit that fills a thousand pages; a thread of ours for that took more time than it saved.

_PATIENCE = 2.0  # seconds
_LOG_HEADER, _FRAME_HEADER = 32, 24  # bytes
KEPT_LOG = "-wal.kept-"  # and a time: the copy of a log whose end could not be read
_to_disk = getattr(os, "fdatasync", os.fsync)


class WriteLog:
    """SQLite's write-ahead log, which is synced when a write must be durable."""

    def __init__(self, path: str, connection: apsw.Connection) -> None:
        self._path = path
        self._connection = connection
        self._file: int | None = None
        self._opening = threading.Lock()
        self._doubted: str | None = None  # why the log could not be synced

    def sync(self) -> None:
        """Makes everything committed into the log so far durable."""
        if not self.try_sync():
            self.write_through()

    def try_sync(self) -> bool:
        """Syncs the log; needs no lock, so that other threads can use the connection meanwhile."""
        try:
            if self._doubted is None:
                _to_disk(self._opened())
                return True
        except OSError as error:
            self._doubted = error.strerror or "unknown error"
        return False

    def close(self) -> None:
        """Closes the descriptor; safe to call twice."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # everything that matters was synced before
                os.close(self._file)
            self._file = None

    def write_through(self) -> None:
        """Copies the log into the database, after a failed sync: until then, the log is not relied on."""
        end = time.monotonic() + _PATIENCE
        whole = False
        with contextlib.suppress(apsw.IOError, apsw.FullError, apsw.BusyError, apsw.LockedError):
            while not (whole := self._checkpoint()) and time.monotonic() < end:
                time.sleep(0.01)  # another one is at it
        if not whole:
            raise StorageError(
                f"{self._path} could not be brought to the disk ({self._doubted}); what was written last is not"
                " acknowledged: look whether it is there before you write it again"
            )
        self._doubted = None

    def _checkpoint(self) -> bool:
        """Copies the log; True if all of it is in the database, which readers of older pages can prevent."""
        [(busy, pages, done)] = self._connection.execute("PRAGMA wal_checkpoint(FULL)").fetchall()
        return not busy and bool(done == pages)

    def _opened(self) -> int:
        with self._opening:
            if self._file is None:
                # Closing any descriptor of a file drops the process's locks on it, but SQLite has none on this file.
                self._file = os.open(self._path + "-wal", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            return self._file


WAIT_SECONDS = 5.0
_BETWEEN_TRIES = 0.01  # seconds
# A live append writes every page it touches into the log whole: half the usual size is half the bytes (34 instead of
# 58 per byte of content).
PAGE = 2048
REPAIR = "run `hermes sessions repair`; it keeps the original file"
_SMALL_ENOUGH_TO_CHECK = 4 << 20  # bytes; a larger file is checked page by page, as it is read
_LITTLE_SPACE = 1 << 20  # bytes
DAMAGE = (apsw.CorruptError, apsw.NotADBError, apsw.FormatError)
# Errors with which SQLite fails where a file system has no shared memory, which a write-ahead log needs.
_WAL_FAILS = (
    apsw.IOError,
    apsw.CantOpenError,
    apsw.PermissionsError,
    apsw.AuthError,
    apsw.LockedError,
    apsw.ReadOnlyError,
)


def all_rows(connection: apsw.Connection, sql: str, values: Sequence[Any] = ()) -> list[Any]:
    """All rows of a statement, run inside a transaction that the caller holds."""
    return connection.execute(sql, values).fetchall()


def one_row(connection: apsw.Connection, sql: str, values: Sequence[Any] = ()) -> Any:
    """The first row of a statement; None if there is none."""
    return connection.execute(sql, values).fetchone()


class Database:
    """One SQLite file: connection, transactions, durability."""

    def __init__(
        self,
        path: str,
        connection: apsw.Connection,
        *,
        durability: Durability,
        journal: str,
        only_read: str = "",
        wait: float = WAIT_SECONDS,
    ) -> None:
        self.path = self.place = path
        self.connection = connection
        self.durability: Durability = durability
        self.journal = journal
        self._only_read = only_read  # why nothing can be written
        self.lock = threading.RLock()
        self._wait = wait  # seconds, while another program has the file locked
        self._write_queue = WriteQueue(path + ".lock", wait_seconds=wait)
        self._log = WriteLog(path, connection) if journal == "wal" else None
        # SQLite removes its log and its shared memory only when the last connection closes.
        self._files = [path, path + "-wal", path + "-shm"] if journal == "wal" else [path]
        self._identities = [_identity(name) for name in self._files]
        self._checked = False
        self._damage: str | None = None

    @classmethod
    def open(
        cls, path: str, *, durability: Durability = "message", wait: float | None = None, reading: bool = False
    ) -> Database:
        """Opens or creates the file; waits `wait` seconds for another program's lock (WAIT_SECONDS by default).

        With `reading`, nothing is written, so nothing waits for a program that holds the write lock.
        """
        _make_private(path)
        wait = WAIT_SECONDS if wait is None else wait
        try:
            if reading:
                why = "another program held it when it was opened"
                return cls(path, _to_look(path, wait), durability=durability, journal="", only_read=why, wait=wait)
            connection, journal = _connect_patiently(path, wait)
        except DAMAGE as error:
            raise DamagedFile(f"{path} is not a readable database ({error}); {REPAIR}") from error
        except apsw.BusyError as error:
            raise _held(path, wait) from error
        except apsw.Error as error:
            connection, why = _connect_to_read(path, error, wait), str(error)
            return cls(path, connection, durability=durability, journal="", only_read=why, wait=wait)
        # With a log, a commit is synced after the lock is released: see WriteLog.
        connection.pragma("synchronous", "NORMAL" if journal == "wal" else "FULL")
        if journal != "wal":
            _warn_without_wal(path, journal)
        return cls(path, connection, durability=durability, journal=journal, wait=wait)

    @contextlib.contextmanager
    def waiting_at_most(self, seconds: float) -> Iterator[None]:
        """Inside, calls wait no longer than this for another program's lock."""
        with self.lock:
            before = self._wait
            self._set_wait(min(seconds, before))
            try:
                yield
            finally:
                self._set_wait(before)

    def _set_wait(self, seconds: float) -> None:
        self._wait = self._write_queue.wait_seconds = seconds
        with self.translated():
            self.connection.set_busy_timeout(int(seconds * 1000))

    def rows(self, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[Any]:
        """All rows of a result; on a damaged page, raises an error that names the repair command."""
        with self.lock, self.translated():
            return self.connection.execute(sql, values).fetchall()

    def column(self, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[Any]:
        """All values of a result with one column, which is never null."""
        with self.lock, self.translated():
            found = self.connection.execute(sql, values).get  # makes no tuple for each of them
        return found if isinstance(found, list) else [] if found is None else [found]

    def row(self, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> Any:
        """The first row of a result; None if there is none."""
        with self.lock, self.translated():
            return self.connection.execute(sql, values).fetchone()

    def run(self, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> None:
        """Runs a statement without a result, inside the running transaction or in one of its own."""
        with self.writing() as connection:
            connection.execute(sql, values)

    def reading(self) -> contextlib.AbstractContextManager[object]:
        """Keeps other threads away from the connection for several reads."""
        return self.lock

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction of this connection is running."""
        return self.connection.in_transaction

    @contextlib.contextmanager
    def writing(self, *, synced: bool = True) -> Iterator[apsw.Connection]:
        """One transaction, which is durable and in the right file once the block has ended without an error.

        `synced=False` is for data that can be made again, such as the index: a power cut may undo the transaction.
        """
        with self.lock:
            self._refuse_damaged()
            if self._only_read:
                raise StorageError(f"{self.path} can only be read ({self._only_read}); {_remedy(self.path)}")
            with self.translated():
                inside = self.connection.in_transaction
            if inside:  # part of a longer transaction, which acknowledges all of it
                yield self.connection
                return
            self._check_small_file_once()
            self._require_same_file()
            with self._write_queue, self.translated(), self._transaction():
                yield self.connection
            if self._log is not None and synced and self.durability == "message":
                with self.translated():
                    self._log.sync()
            self._require_same_file()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.connection.execute("COMMIT")
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise

    def sync(self) -> None:
        """Makes everything committed so far survive a power cut as well (durability "turn")."""
        if self._log is not None and not self._log.try_sync():
            with self.lock, self.translated():
                self._log.write_through()
        self._require_same_file()

    def mark_damaged(self, seen: str) -> None:
        """Notes damage and refuses to write from then on, because writing could make it worse."""
        self._damage = self._damage or seen

    @property
    def only_read(self) -> bool:
        """Whether nothing can be written, as on a full or read-only disk."""
        return bool(self._only_read)

    @property
    def damage(self) -> str | None:
        """The first damage that was seen; None if none was."""
        return self._damage

    def is_replaced(self) -> bool:
        """Whether other files are at the paths now, so that writes would be lost."""
        return [_identity(name) for name in self._files] != self._identities

    def close(self) -> None:
        """Closes the connection and the files of the log and the queue."""
        with self.lock:
            if self._log is not None:
                self._log.close()
            self.connection.close()
            self._write_queue.close()

    @contextlib.contextmanager
    def translated(self) -> Iterator[None]:
        """Turns SQLite's errors into ours, each with the file and what to do."""
        try:
            yield
        except (*DAMAGE, apsw.SQLError, UnicodeDecodeError) as error:
            # Our statements are correct, so if one does not compile, the schema is damaged.
            self.mark_damaged(str(error))
            raise DamagedFile(f"{self.path} is damaged ({error}); {REPAIR}") from error
        except DamagedFile as error:
            self.mark_damaged(str(error))
            raise
        except apsw.BusyError as error:
            raise _held(self.path, self._wait) from error
        except apsw.ReadOnlyError as error:
            raise StorageError(f"{self.path} cannot be written ({error}); {_remedy(self.path)}") from error
        except (apsw.FullError, apsw.IOError) as error:
            raise StorageError(
                f"{self.path} could not be written ({error}); the message is not stored; {_remedy(self.path)}"
            ) from error
        except apsw.ConstraintError as error:
            raise StorageError(f"{self.path} contradicts itself ({error}), nothing was stored; {REPAIR}") from error
        except apsw.ConnectionClosedError as error:
            raise StorageError(f"{self.path} was closed; open it again") from error
        except (apsw.Error, OSError) as error:
            raise StorageError(f"{self.path} cannot be used now ({error}); {_remedy(self.path)}") from error
        except UnicodeEncodeError as error:
            half = "what was given holds half of a character (a lone surrogate); leave it out"
            raise WriteRefused(half, kind="bad_argument") from error

    def _refuse_damaged(self) -> None:
        if self._damage is not None:
            raise DamagedFile(f"{self.path} is damaged ({self._damage}); nothing is written to it: {REPAIR}")

    def _check_small_file_once(self) -> None:
        # A whole check takes milliseconds here and minutes on a large file, where pages are judged as they are read.
        if self._checked:
            return
        self._checked = True
        with self.translated():
            size = os.stat(self.path).st_size
        if size <= _SMALL_ENOUGH_TO_CHECK:
            with self.translated():
                verdict = self.row("PRAGMA quick_check(1)")[0]
            if verdict != "ok":
                self.mark_damaged(str(verdict).splitlines()[0])
                self._refuse_damaged()

    def _require_same_file(self) -> None:
        # If a backup was renamed over the path, or the log was removed, our writes would go into a file nobody reads.
        for name, identity in zip(self._files, self._identities, strict=True):
            if _identity(name) != identity:
                raise StorageError(
                    f"{name} was replaced or removed while it was open; nothing was acknowledged: open it again"
                )


def _make_private(path: str) -> None:
    make_private_folders(os.path.dirname(path))
    try:
        # Only a new file is opened here: closing a descriptor of a live database would drop SQLite's locks on it.
        created = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(created, 0o600)  # a umask such as 777 takes our own rights away
        finally:
            os.close(created)
    except FileExistsError:
        with explained("look at", path):
            kind = os.lstat(path).st_mode
        if not stat.S_ISREG(kind):
            raise UnsafePath(
                f"{path} is not a regular file; a database is not opened through a link or device"
            ) from None
        keep_private(path)
    except OSError as error:
        raise StorageError(f"{path} cannot be created: {error.strerror}; check the folder") from error


def _connect_patiently(path: str, wait: float) -> tuple[apsw.Connection, str]:
    """Connects, retrying while other processes create the database: the switch to WAL does not wait by itself."""
    end = time.monotonic() + wait
    while True:
        try:
            return _connect(path, wait)
        except apsw.BusyError:
            if time.monotonic() > end:
                raise
            time.sleep(_BETWEEN_TRIES)


def _connect(path: str, wait: float) -> tuple[apsw.Connection, str]:
    try:
        return _with_wal(path, wait)
    except _WAL_FAILS:
        return _without_wal(path, wait)


def _with_wal(path: str, wait: float) -> tuple[apsw.Connection, str]:
    connection = _connection(path, wait)
    with _closed_on_error(connection):
        _refuse_foreign(connection, path)
        journal = str(connection.pragma("journal_mode", "wal"))
        if journal == "wal":
            _keep_cut_log(connection, path)  # before anything is written over what SQLite leaves out
        connection.execute("BEGIN IMMEDIATE; COMMIT")
        _first_write(connection)
    return connection, journal


def _keep_cut_log(connection: apsw.Connection, path: str) -> None:
    """Keeps a copy of a log with commits after a damaged frame, which SQLite does not read.

    SQLite takes the first frame with a wrong checksum as the end of its log and overwrites the rest. After a power cut,
    the rest was never acknowledged; after a flipped bit, it was. `repair` restores the messages whose checksums hold.
    """
    try:
        with open(path + "-wal", "rb") as log:
            reached = _frames_in_use(connection)
            if not commits_behind(log, reached) or _frames_in_use(connection) != reached:  # else somebody writes
                return
            log.seek(0)
            kept = f"{path}{KEPT_LOG}{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"
            file = os.open(kept, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(file, "wb") as copy:
                shutil.copyfileobj(log, copy)
                copy.flush()
                os.fsync(copy.fileno())
    except FileNotFoundError:
        return  # no log
    except OSError as error:
        raise StorageError(
            f"the log {path}-wal is damaged, and no copy of it could be kept ({error.strerror}): {_remedy(path)}"
        ) from error
    import logging

    logging.getLogger("hermes.storage").warning(
        "the end of %s-wal cannot be read, so the newest messages may be missing; a copy is kept: %s", path, REPAIR
    )


def _frames_in_use(connection: apsw.Connection) -> int:
    rows: list[Any] = connection.execute("PRAGMA wal_checkpoint(NOOP)").fetchall()
    return int(rows[0][1])


def commits_behind(log: BinaryIO, frames: int) -> bool:
    """Whether the log has commits after its first `frames`, written since the log was last restarted."""
    header = log.read(_LOG_HEADER)
    if len(header) < _LOG_HEADER:
        return False
    step = _FRAME_HEADER + int.from_bytes(header[8:12], "big")
    current = _salt_at(log, _LOG_HEADER + (frames - 1) * step) if frames else b""
    end = os.fstat(log.fileno()).st_size - step
    for at in range(_LOG_HEADER + frames * step, end + 1, step):
        log.seek(at)
        frame = log.read(_FRAME_HEADER)
        if frame[4:8] != bytes(4) and (not frames or frame[8:16] == current):
            return True
    return False


def _salt_at(log: BinaryIO, at: int) -> bytes:
    log.seek(at + 8)
    return log.read(8)


def _connection(path: str, wait: float, *, exclusive: bool = False) -> apsw.Connection:
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW)
    with _closed_on_error(connection):
        if exclusive:  # before the first read, so that SQLite reads the log without shared memory
            connection.pragma("locking_mode", "EXCLUSIVE")
        connection.set_busy_timeout(int(wait * 1000))
        # Otherwise, a commit that finds a reader in the log blocks in the kernel for the whole busy timeout, while it
        # holds the write lock: with eight processes, all of them stopped for five seconds.
        connection.setlk_timeout(0, 0)
        connection.pragma("page_size", PAGE)
        connection.pragma("foreign_keys", "ON")
        connection.pragma("cell_size_check", "ON")
    return connection


@contextlib.contextmanager
def _closed_on_error(connection: apsw.Connection) -> Iterator[None]:
    """Closes a failed connection at once; else it would keep its locks as long as the error is referenced."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


def _first_write(connection: apsw.Connection) -> None:
    # Some file systems accept the pragma and fail at the first write, which needs shared memory.
    if connection.pragma("application_id") != APPLICATION_ID:
        connection.pragma("application_id", APPLICATION_ID)


def _without_wal(path: str, wait: float) -> tuple[apsw.Connection, str]:
    connection = _connection(path, wait, exclusive=True)
    with _closed_on_error(connection):
        journal = str(connection.pragma("journal_mode", "delete"))
        _refuse_foreign(connection, path)
        _first_write(connection)
        connection.pragma("locking_mode", "NORMAL")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # gives the exclusive lock back
    return connection, journal


def _to_look(path: str, wait: float) -> apsw.Connection:
    connection = _connection(path, wait)
    with _closed_on_error(connection):
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        _refuse_foreign(connection, path)
    return connection


def _connect_to_read(path: str, error: apsw.Error, wait: float) -> apsw.Connection:
    connection = open_to_read(path, wait)
    if connection is None:
        raise StorageError(f"{path} cannot be opened: {error}; {_remedy(path)}") from error
    with _closed_on_error(connection):
        _refuse_foreign(connection, path)
    return connection


def open_to_read(path: str, wait: float) -> apsw.Connection | None:
    """Opens a file where nothing can be written, not even the log's shared memory; None if it cannot be read."""
    for attempt in (_reading_the_log_alone, _reading_without_log, _reading_a_copy):
        with contextlib.suppress(apsw.Error, OSError):
            connection = attempt(path, wait)
            with _closed_on_error(connection):
                connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
            return connection
    return None


def _reading_the_log_alone(path: str, wait: float) -> apsw.Connection:
    """For a full disk: reads without shared memory, which keeps others out while the connection is open."""
    return _connection(path, wait, exclusive=True)


def _reading_without_log(path: str, _wait: float) -> apsw.Connection:
    """For a read-only disk, where nothing changes: reads without locks, if there is no log that would be missed."""
    log = path + "-wal"
    if not os.statvfs(path).f_flag & os.ST_RDONLY or (os.path.lexists(log) and os.path.getsize(log)):
        raise apsw.CantOpenError
    return open_immutable(path)


def _reading_a_copy(path: str, wait: float) -> apsw.Connection:
    """For a read-only disk with a log: reads a copy, because SQLite must write next to a log to read it."""
    if not os.statvfs(path).f_flag & os.ST_RDONLY:
        raise apsw.CantOpenError
    with tempfile.TemporaryDirectory(prefix="hermes-copy-") as place:
        copy = os.path.join(place, "copy.db")
        for suffix in ("", "-wal"):
            shutil.copyfile(path + suffix, copy + suffix)
        connection = _connection(copy, wait, exclusive=True)
        with _closed_on_error(connection):
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # has the log open from here on
        return connection  # open files outlive their names


def _held(path: str, wait: float) -> LockTimeout:
    return LockTimeout(f"{path} is held by another program for more than {wait:g} s; try again when it has ended")


def _remedy(path: str) -> str:
    try:
        system = os.statvfs(os.path.dirname(path))
    except OSError:
        return "check its folder"
    if system.f_flag & os.ST_RDONLY:
        return "the file system is mounted read-only; remount it or choose another home with --home"
    if system.f_bavail * system.f_frsize < _LITTLE_SPACE:
        return "free some space on the disk and try again"
    return "check the permissions of its folder, and the disk"


def _warn_without_wal(path: str, journal: str) -> None:
    import logging

    logging.getLogger("hermes.storage").warning(
        "%s has no write-ahead log, because its file system lacks shared memory; it works with journal mode %s, "
        "but writing takes longer and readers wait for writers",
        path,
        journal,
    )


def _refuse_foreign(connection: apsw.Connection, path: str) -> None:
    program = program_of(connection)
    if program is None:
        return
    if program == HERMES_AGENT:
        raise ForeignFile(
            f"{path} was written by hermes-agent and is left untouched; `hermes import hermes-agent` makes its home "
            "ours and keeps the original"
        )
    raise ForeignFile(f"{path} is a database of another program; name another path or move the file away")


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
