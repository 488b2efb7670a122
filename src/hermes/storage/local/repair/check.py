"""`repair`: finds everything that is wrong with a `state.db`, and rebuilds it from what can still be read.

No other process may have the file open. Repair first copies the original, builds and checks the new database in the
same folder as that copy, and only then moves it into place with one rename. Rows that fail their checksum go to a
separate file for a person to read.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import mmap
import os
import shutil
import struct
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import apsw

from hermes.base.errors import LockTimeout, NotFound, StorageError
from hermes.storage.files import Folder, explained, make_private_folders
from hermes.storage.local.damage import details_seal, identity_holds, is_shaped, mended, text_as_bytes, texts_hold
from hermes.storage.local.database import KEPT_LOG, WAIT_SECONDS, foreign_program, one_row
from hermes.storage.local.repair.salvage import open_unchanged, rebuild
from hermes.storage.local.schema import schema_problems
from hermes.storage.local.sqlite_pages import Image
from hermes.storage.locks import WriteQueue
from hermes.storage.records import COLUMNS, REWOUND, STATE_BITS, called, checksum, said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes.storage.local.repair.salvage import Progress, Salvaged

_MOST_SHOWN = 20  # problems; the report says "and more" after that
_EVERY = 5000  # messages between two reports of progress


def problems_of(image: Image, path: str, progress: Progress) -> list[str]:
    """Describes the problems of a database in words, at most a screenful; empty when the database is sound.

    `image` and `path` are the same database: its pages, and a plain file without a log that SQLite can open.
    """
    if not image.header_holds and image.count:
        return ["the header of the file is damaged"]
    connection = open_unchanged(path)
    if connection is None:
        return ["SQLite cannot open the file"]
    found: list[str] = ["the log of the database breaks off before its end"] if image.doubtful() else []
    try:
        for problem in _all_problems(connection, progress):
            found.append(problem)
            if len(found) == _MOST_SHOWN:
                return [*found, "and more"]
    except (apsw.Error, UnicodeDecodeError) as error:
        found.append(f"the file cannot be read to its end: {error}")
    finally:
        connection.close()
    return found


def _all_problems(connection: apsw.Connection, progress: Progress) -> Iterator[str]:
    # SQLite's own checks miss a changed text, a changed schema and an incomplete index, so each is checked separately.
    progress("checking the structure", 0, 0)
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'messages'").fetchall():
        return  # nothing was ever stored
    yield from schema_problems(connection).values()
    for (verdict,) in connection.execute(f"PRAGMA integrity_check({_MOST_SHOWN})"):
        if verdict != "ok":
            yield str(verdict).splitlines()[0]
    yield from _session_problems(connection)
    yield from _message_problems(connection, progress)
    yield from _index_problems(connection)


def _session_problems(connection: apsw.Connection) -> Iterator[str]:
    """Sessions and their details whose values do not match their checksums."""
    rows = connection.execute(f"SELECT {text_as_bytes('key, owner, id, source, title, preview, seal')} FROM sessions")  # noqa: S608
    for row in rows:
        key, owner, name, *shown, sealed = mended(row)
        if not identity_holds(sealed, key, owner, name) or not texts_hold(sealed, key, *shown):
            yield f"the row of session {key} does not match its seal"
    columns = text_as_bytes("session, system_prompt, details, checksum")
    rows = connection.execute(f"SELECT {columns} FROM session_details")  # noqa: S608
    for row in rows:
        key, prompt, details, stored = mended(row)
        if details_seal(key, prompt, details) != stored:
            yield f"the details of session {key} do not match their checksum"


def _message_problems(connection: apsw.Connection, progress: Progress) -> Iterator[str]:
    """Messages that belong to no session or do not match their checksum."""
    total = one_row(connection, "SELECT count(*) FROM messages")[0]
    columns = text_as_bytes(", ".join(f"m.{column}" for column in COLUMNS.split(", ")))
    question = f"SELECT b.session, {columns} FROM messages m LEFT JOIN blocks b ON b.block = m.id >> 5"  # noqa: S608
    for number, (session, *values) in enumerate(connection.execute(question)):
        row = mended(values)
        if not number % _EVERY:
            progress("checking messages", number, total)
        if session is None:
            yield f"message {row[0]} belongs to no session"
        elif not is_shaped(row) or checksum(row[:-1], session) != row[-1]:
            yield f"the checksum of message {row[0]} does not match its text"


def _index_problems(connection: apsw.Connection) -> Iterator[str]:
    """Indexed messages without a row in the index, rows of the index without a message, and wrong `waiting` flags."""
    for table in ("messages_fts", "tools_fts"):
        orphan = f"SELECT id FROM {table}_docsize WHERE id NOT IN (SELECT id FROM messages) LIMIT 1"  # noqa: S608 - our tables
        for (message_id,) in connection.execute(orphan):
            yield f"the index knows a message {message_id} that does not exist"
    if "waiting" in {row[1] for row in connection.execute("PRAGMA table_info(sessions)")}:  # else of an older Hermes
        for (key,) in connection.execute("SELECT key FROM sessions WHERE waiting <> (indexed_id < last_id)"):
            yield f"session row {key} is wrong about whether it waits for the index"
    missing = """
        SELECT m.id, m.role, m.state, CAST(m.content AS BLOB), CAST(m.name AS BLOB), CAST(m.tool_calls AS BLOB)
        FROM messages m JOIN blocks b ON b.block = m.id >> 5 JOIN sessions s ON s.key = b.session
        WHERE m.id <= s.indexed_id AND m.id NOT IN (SELECT id FROM messages_fts_docsize)
            AND m.id NOT IN (SELECT id FROM tools_fts_docsize)
    """
    for row in connection.execute(missing):
        message_id, role, state, content, name, calls = mended(row)
        try:
            # Rewound messages are removed from the index, and messages without words never had a row there.
            words = state & STATE_BITS != REWOUND and (said(content, name) or called(calls) or role == "tool")
        except (ValueError, TypeError):
            words = True
        if words:
            yield f"message {message_id} is missing in the index"


SIDE_FILES = ("-wal", "-journal", "-shm")
# The range of bytes that SQLite locks for reading (`SHARED_FIRST` and `SHARED_SIZE` in its source). A connection in WAL
# mode holds that lock as long as it is open, so an exclusive lock on the range can be had only when none is open.
_SHARED_LOCK = 0x40000002
_SHARED_SIZE = 510


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What a repair found and did; `backup` is the folder with the original bytes, None when nothing was replaced."""

    path: str
    problems: list[str] = field(default_factory=list)
    salvaged: Salvaged | None = None
    backup: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The content of `report.json`; the counts of what was kept are missing when the database was sound."""
        found = self.salvaged
        document: dict[str, Any] = {
            "path": self.path,
            "sound": not self.problems,
            "problems": self.problems,
            "backup": self.backup,
        }
        if found is not None:
            document |= {
                "sessions_kept": found.sessions,
                "messages_kept": found.messages,
                "messages_altered": len(found.altered),
                "messages_lost": found.lost,
                "messages_reattributed": found.moved,
                "sessions_damaged": found.damaged_sessions,
                "sessions_salvaged": found.salvage_sessions,
                "summaries_kept": found.summaries,
            }
        return document


def repair(path: str, *, dry_run: bool = False, progress: Progress | None = None, out: str | None = None) -> Repair:
    """Repairs the database at `path` if it is damaged; with `dry_run`, only reports what a repair would keep.

    With `out`, leaves the database unchanged and repairs a copy at that path, for a disk that is full, read-only or
    failing.
    """
    path = os.path.abspath(path)
    tell = progress or (lambda *_: None)
    if not os.path.exists(path):
        raise NotFound(f"{path} does not exist; there is nothing to repair")
    if out is not None:
        path = _copied(path, os.path.abspath(out))
    queue = WriteQueue(path + ".lock", wait_seconds=WAIT_SECONDS)
    with contextlib.closing(queue), explained("repair", path), queue, alone(path) as file:
        _finish_interrupted(path)
        return _repair(path, file, tell, dry_run=dry_run)


def _copied(path: str, out: str) -> str:
    if os.path.lexists(out):
        raise StorageError(f"{out} is there already; name another file, or remove it first")
    make_private_folders(os.path.dirname(out))
    with explained("copy the database to", out), alone(path) as file:
        _copy_original(path, file, out)
    return out


def _repair(path: str, file: int, tell: Progress, *, dry_run: bool) -> Repair:
    """Checks a copy of the database and replaces the original only after the rebuilt one has passed its own check.

    The folder with the copy becomes the backup; it is removed again unless the database is replaced.
    """
    folder = f"{path}.damaged-{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"
    os.mkdir(folder, 0o700)
    keep = False
    try:
        tell("copying the original", 0, 0)
        copy = os.path.join(folder, os.path.basename(path))
        _copy_original(path, file, copy)
        image, readable = _as_sqlite_sees_it(copy)
        foreign = foreign_program(readable)
        if foreign is not None:
            raise StorageError(
                f"{path} was written by {foreign}, so it is not ours to repair; use its own command, or bring what it "
                "holds over (`hermes import --help`)"
            )
        problems = problems_of(image, readable, tell)
        if not problems:
            return Repair(path=path)
        rebuilt = os.path.join(folder, "rebuilt.db")
        salvaged = rebuild(image, readable, rebuilt, tell)
        if dry_run:
            return Repair(path=path, problems=problems, salvaged=salvaged)
        done = Repair(path=path, problems=problems, salvaged=salvaged, backup=folder)
        _write_account(folder, done)
        keep = True
        _discard(readable, unless=copy)
        _swap(path, rebuilt)
        return done
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def alone(path: str) -> Iterator[int]:
    """Holds SQLite's exclusive lock on the file and yields the descriptor that carries the lock.

    Waits up to `WAIT_SECONDS` for other processes and then names one that has the file open; processes that open it
    later wait. A process that still had the old file open would delete the new file's log, by name, when it closes.
    """
    nobody_writes = bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    how = os.O_RDONLY if nobody_writes else os.O_RDWR
    file = os.open(path, how | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        while not nobody_writes and (holder := _lock(file)) is not None:
            if time.monotonic() > deadline:
                raise LockTimeout(
                    f"{path} is open in another program (process {holder}); end it, then run the repair again"
                )
            time.sleep(0.05)
        yield file
    finally:
        os.close(file)


def _lock(file: int) -> int | None:
    """Takes the lock without waiting; returns None on success, else the process that holds it."""
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, _SHARED_SIZE, _SHARED_LOCK)
    except OSError:
        return _in_the_way(file)[1]
    return None


def open_elsewhere(path: str) -> int | None:
    """Returns a process that has the database open, or None; takes no lock, so no other process has to wait."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        kind, holder = _in_the_way(file)
    finally:
        os.close(file)
    return None if kind == fcntl.F_UNLCK else holder


def _in_the_way(file: int) -> tuple[int, int]:
    """The kind of lock that conflicts with an exclusive one (F_UNLCK if there is none), and the process that holds it.

    The format is that of `struct flock` on 64-bit Linux: kind, whence, start, length, process.
    """
    question = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, _SHARED_LOCK, _SHARED_SIZE, 0)
    kind, *_, holder = struct.unpack("hhqqi4x", fcntl.fcntl(file, fcntl.F_GETLK, question))
    return kind, holder


def _copy_original(path: str, file: int, copy: str) -> None:
    """Copies the database with its log, journal and kept logs, durably, because the originals are removed later."""
    # Read through the descriptor that holds the lock: closing any other descriptor of it would release the lock.
    with _private(copy) as target:
        size, at = os.fstat(file).st_size, 0
        while at < size and (data := os.pread(file, 1 << 20, at)):
            target.write(data)
            at += len(data)
        _synced(target)
    for suffix in (*SIDE_FILES, *_kept_logs(path)):
        if os.path.exists(path + suffix):
            with open(path + suffix, "rb") as source, _private(copy + suffix) as target:
                shutil.copyfileobj(source, target)
                _synced(target)
    _sync_folder(os.path.dirname(copy))


def _as_sqlite_sees_it(copy: str) -> tuple[Image, str]:
    """The pages with the committed part of the log applied, and a plain file with the same pages for SQLite to read."""
    log = _read(copy + "-wal")
    if _read(copy + "-journal").strip(b"\0"):
        copy = _rolled_back(copy)
    image = Image(_mapped(copy), log, [_read(copy + suffix) for suffix in _kept_logs(copy)])
    if not log:
        return image, copy
    merged = copy + ".merged"
    with _private(merged) as target:
        for page in image.whole():
            target.write(page)
    return image, merged


def _kept_logs(path: str) -> list[str]:
    """The suffixes of the logs that were kept when the database was opened and SQLite could not read them to the end.

    A suffix is what follows the name of the database; the oldest log comes first.
    """
    folder, name = os.path.split(path)
    return sorted(entry[len(name) :] for entry in os.listdir(folder) if entry.startswith(name + KEPT_LOG))


def _rolled_back(copy: str) -> str:
    """A second copy, in which SQLite has rolled back the interrupted transaction; `copy` itself if SQLite cannot."""
    merged = copy + ".merged"
    for suffix in ("", "-journal"):
        with open(copy + suffix, "rb") as source, _private(merged + suffix) as target:
            shutil.copyfileobj(source, target)
    try:
        connection = apsw.Connection(merged, flags=apsw.SQLITE_OPEN_READWRITE)
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        connection.close()
    except apsw.Error:
        return copy
    return merged


def _write_account(folder: str, done: Repair) -> None:
    """Writes `report.json`, and `unverified.jsonl` with the rows whose checksum does not hold."""
    found = done.salvaged.altered if done.salvaged else []
    with _private(os.path.join(folder, "unverified.jsonl")) as file:
        for row in found:
            names = ("id", "role", "state", "timestamp", "content", "name", "tool_calls", "tool_call_id")
            file.write(json.dumps(dict(zip(names, row, strict=False))).encode() + b"\n")
        _synced(file)
    with _private(os.path.join(folder, "report.json")) as file:
        file.write(json.dumps(done.as_json(), ensure_ascii=False, indent=2).encode("utf-8", "replace") + b"\n")
        _synced(file)
    _sync_folder(folder)


def _swap(path: str, rebuilt: str) -> None:
    """Moves the rebuilt database into place so that a crash at any step leaves a state that can be repaired again."""
    with open(rebuilt, "rb") as file:
        os.fsync(file.fileno())
    for suffix in ("-wal", "-shm", ".lock", ".lock.queue"):
        _discard(rebuilt + suffix)
    # The old log is removed before the rename, because SQLite would apply it to the new file. After a crash between the
    # two, `_finish_interrupted` restores it from the copy in the backup.
    for suffix in (*SIDE_FILES, *_kept_logs(path)):
        _discard(path + suffix)
    os.replace(rebuilt, path)
    _sync_folder(os.path.dirname(path))


def _finish_interrupted(path: str) -> None:
    """Restores the log that an interrupted repair had removed, so that the next repair does not miss what is in it.

    A `rebuilt.db` in a backup folder shows that its repair was interrupted: a finished one has moved that file.
    """
    folder, name = os.path.split(path)
    for entry in sorted(os.listdir(folder)):
        backup = os.path.join(folder, entry)
        if not entry.startswith(f"{name}.damaged-") or not os.path.exists(os.path.join(backup, "rebuilt.db")):
            continue
        kept = os.path.join(backup, name)
        for suffix in ("-wal", "-journal"):
            if os.path.exists(kept + suffix) and not os.path.exists(path + suffix):
                shutil.copyfile(kept + suffix, path + suffix)
                os.chmod(path + suffix, 0o600)
        os.unlink(os.path.join(backup, "rebuilt.db"))


def _sync_folder(path: str) -> None:
    with Folder.create(path) as folder:
        folder.sync()


def _private(path: str) -> Any:
    return os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600), "wb")


def _synced(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _mapped(path: str) -> bytes | mmap.mmap:
    """The content of a file as a memory map, so that a large database is not read into memory at once."""
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if os.fstat(file.fileno()).st_size else b""


def _discard(path: str, unless: str = "") -> None:
    if path != unless:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
