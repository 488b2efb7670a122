"""A SQLite file of another program, as its owner would see it, without altering a byte of it or of its log.

A file with a log is copied piece by piece, log included, and SQLite lays the log over the copy. So memory stays small
however large both are, and what a hostile log makes SQLite write lands in a private folder that is removed.
"""

from __future__ import annotations

import os
import stat
import time

import apsw

from hermes.storage.files import PRIVATE_FILE, explain
from hermes.vocabulary.errors import DamagedFile, StorageError, UnsafePath

_PIECE = 1 << 20
_LOGS = ("-wal", "-journal")
_TRIES = 5
_PAUSE = 0.2
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def merged(path: str, place: str) -> str:
    """The path itself, or a private copy in the folder `place` with the log laid over it when there is one."""
    if not any(os.path.lexists(path + suffix) for suffix in _LOGS):
        return path
    copy = os.path.join(place, "merged.db")
    for _ in range(_TRIES):
        before = _state(path)
        for suffix in ("", *_LOGS):
            _copy(path + suffix, copy + suffix)
        if _state(path) == before:
            _lay_over(path, copy)
            return copy
        time.sleep(_PAUSE)
    raise StorageError(f"{path} is being written all the time; end the program that has it open and try again")


def _state(path: str) -> list[tuple[int, int, int] | None]:
    """Enough to notice that somebody has written meanwhile: pieces of two moments would fit nowhere."""
    found: list[tuple[int, int, int] | None] = []
    for suffix in ("", *_LOGS):
        try:
            status = os.lstat(path + suffix)
        except FileNotFoundError:
            found.append(None)
        else:
            found.append((status.st_size, status.st_mtime_ns, status.st_ino))
    return found


def _copy(path: str, to: str) -> None:
    try:
        source = os.open(path, _READ)
    except FileNotFoundError:
        if os.path.lexists(to):
            os.unlink(to)  # of an earlier try
        return
    except OSError as error:
        raise explain("read", path, error) from error
    try:
        if not stat.S_ISREG(os.fstat(source).st_mode):
            raise UnsafePath(f"{path} is no regular file; move it away and try again")
        target = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE_FILE)
        with os.fdopen(target, "wb") as file:
            while piece := os.read(source, _PIECE):
                file.write(piece)
    except OSError as error:
        raise explain("copy", path, error) from error
    finally:
        os.close(source)


def _lay_over(path: str, copy: str) -> None:
    try:
        connection = apsw.Connection(copy)
        try:
            connection.pragma("trusted_schema", False)
            connection.pragma("journal_mode", "DELETE")  # brings the log into the file and removes it
        finally:
            connection.close()
    except apsw.Error as error:
        raise DamagedFile(f"{path} cannot be read with its log ({error}); copy it anew from where it came") from error
