"""SQLite's write-ahead log: made to survive a power cut, and kept short, while other processes already write on.

A commit puts its pages into the log; syncing that file afterwards makes it last. SQLite would sync inside the write
lock, where each process waits in turn for the disk of all the others. Here the lock is given back first, and the disk
answers at once all who wait for it. Bringing the log into the database happens beside the writers for the same reason.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import TYPE_CHECKING, Any

import apsw

from hermes.storage.turnstile import Turnstile
from hermes.vocabulary.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

LONG = 1000  # pages; whenever the log has grown by so many, it is brought into the database
_LARGE = 250  # pages; who commits so many at once can wait for the disk
_TOO_LONG = 16 * LONG  # then writers are held up for a moment, or a log that never rests would grow for ever
_FAR_TOO_LONG = 32 * LONG
_PATIENCE = 2.0  # seconds
_to_disk = getattr(os, "fdatasync", os.fsync)


class WriteLog:
    def __init__(self, path: str, connection: apsw.Connection, another: Callable[[], apsw.Connection]) -> None:
        """`another` opens one more connection, for work beside this one."""
        self._path = path
        self._connection = connection
        self._another = another
        self._file: int | None = None
        self._pages = 0
        self._work: threading.Thread | None = None
        self._doubted: str | None = None  # why the log could not be synced
        connection.set_wal_hook(self._note_length)  # takes the place of SQLite's own checkpoints
        self._pages_written()

    def shorten(self) -> None:
        """Brings a log that has grown long into the database: here after a large commit, beside further small ones."""
        mine = self._pages_written()
        if self._pages // LONG == (self._pages - mine) // LONG:
            return  # whoever's commit makes a thousand full sees to it, so that one of many processes does
        if self._pages >= _FAR_TOO_LONG and self._work is not None:
            self._work.join()  # the disk cannot keep up
        if mine >= _LARGE or not self._start_beside():
            self._checkpoint(self._connection)

    def sync(self) -> None:
        """Everything that was committed into the log so far is on the disk when this returns."""
        try:
            if self._doubted is None:
                _to_disk(self._opened())
                return
        except OSError as error:
            self._doubted = error.strerror or "unknown error"
        self._write_through()

    def close(self) -> None:
        if self._work is not None:
            self._work.join()
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _pages_written(self) -> int:
        """By this connection, since the last call."""
        return int(self._connection.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE, True)[0])

    def _note_length(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._pages = pages
        return apsw.SQLITE_OK

    def _start_beside(self) -> bool:
        if self._work is not None and self._work.is_alive():
            return True
        self._work = threading.Thread(target=self._shorten_beside, name="hermes-log")
        try:
            self._work.start()
        except RuntimeError:  # no more threads, or the program is ending
            self._work = None
        return self._work is not None

    def _shorten_beside(self) -> None:
        # What fails here is tried again after a later commit, or at the latest by whoever closes the file.
        with contextlib.suppress(apsw.Error, StorageError), contextlib.closing(self._another()) as other:
            self._checkpoint(other)
            if self._pages >= _TOO_LONG:  # it starts again from its beginning only if nothing was added meanwhile
                turnstile = Turnstile(self._path + ".lock", wait_seconds=1.0)
                with contextlib.closing(turnstile), turnstile:  # little is left to do, so nobody waits for long
                    self._checkpoint(other)

    def _checkpoint(self, connection: apsw.Connection, mode: str = "PASSIVE") -> bool:
        """True when all of the log is in the database: nobody still reads older pages, nobody writes on."""
        rows: list[Any] = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()
        busy, pages, done = rows[0]
        return not busy and bool(done == pages)

    def _opened(self) -> int:
        if self._file is None:
            # SQLite holds no locks on this file, so closing another descriptor of it takes none away.
            self._file = os.open(self._path + "-wal", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        return self._file

    def _write_through(self) -> None:
        """The log could not be synced and is not relied on again until the database itself has taken what it holds."""
        end = time.monotonic() + _PATIENCE
        whole = False
        with contextlib.suppress(apsw.IOError, apsw.FullError, apsw.BusyError, apsw.LockedError):
            while not (whole := self._checkpoint(self._connection, "FULL")) and time.monotonic() < end:
                time.sleep(0.01)  # another one is at it
        if not whole:
            raise StorageError(
                f"{self._path} could not be brought to the disk ({self._doubted}); what was written last is not"
                " acknowledged: look whether it is there before you write it again"
            )
        self._doubted = None
