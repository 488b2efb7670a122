"""Many writers: each in its turn, the dead passed by, and what was acknowledged is on the disk."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest
from engines import database_of
from power import Disk

from hermes.base.errors import LockTimeout, StorageError
from hermes.conversations.database import SessionDB
from hermes.storage import locks as locks_module
from hermes.storage.files import Folder
from hermes.storage.local import database as write_log
from hermes.storage.locks import FileLock, WriteQueue

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_WAITER = """
import sys
from hermes.storage.locks import WriteQueue
write_queue = WriteQueue(sys.argv[1], wait_seconds=20)
print("ready", flush=True)
with write_queue:
    pass
"""


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk(tmp_path)
    monkeypatch.setattr(write_log, "_to_disk", made)
    return made


@pytest.mark.proves("sessions.durable")
def test_what_append_acknowledged_was_synced_before(tmp_path: Path, disk: Disk) -> None:
    with SessionDB.open(tmp_path / "state.db") as db:
        session = db.create_session()
        for number in range(3):
            before = disk.syncs
            db.append(session, {"role": "user", "content": f"number {number}"})
            assert disk.syncs == before + 1
            assert disk.texts(session) == [f"number {each}" for each in range(number + 1)]


@pytest.mark.proves("sessions.durable")
def test_with_durability_of_a_turn_the_disk_is_asked_at_its_end_only(tmp_path: Path, disk: Disk) -> None:
    with SessionDB.open(tmp_path / "state.db", durability="turn") as db:
        session = db.create_session()
        for number in range(3):
            db.append(session, {"role": "user", "content": f"number {number}"})
        assert disk.syncs == 0
        db.sync()
        assert disk.texts(session) == [f"number {each}" for each in range(3)]


@pytest.mark.proves("sessions.durable")
def test_when_the_log_cannot_be_synced_the_database_takes_what_it_holds(tmp_path: Path, disk: Disk) -> None:
    with SessionDB.open(tmp_path / "state.db") as db:
        session = db.create_session()
        disk.broken = True
        db.append(session, {"role": "user", "content": "whole"})
        shutil.copy(tmp_path / "state.db", tmp_path / "alone.db")  # without the log
    with SessionDB.open(tmp_path / "alone.db") as db:
        assert [message.text for message in db.messages(session)] == ["whole"]


@pytest.mark.proves("sessions.durable")
def test_what_cannot_be_brought_to_the_disk_is_not_acknowledged(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SessionDB.open(tmp_path / "state.db") as db, SessionDB.open(tmp_path / "state.db") as reader:
        session = db.create_session()
        database_of(db).connection.set_busy_timeout(10)
        database_of(reader).connection.execute("BEGIN")
        assert not reader.messages(session)  # from here on the reader holds on to the log as it is now
        disk.broken = True
        monkeypatch.setattr(write_log, "_PATIENCE", 0.05)
        for _ in range(2):  # a log that was doubted once is doubted until it is in the database
            with pytest.raises(StorageError, match="is not acknowledged"):
                db.append(session, {"role": "user", "content": "doubtful"})
            disk.broken = False
        database_of(reader).connection.execute("ROLLBACK")
        db.append(session, {"role": "user", "content": "certain"})


@pytest.mark.proves("sessions.writers")
def test_the_log_of_a_store_that_is_written_without_pause_stays_short(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with SessionDB.open(path, durability="turn") as db:
        session = db.create_session()
        for _ in range(400):
            db.append_many(session, [{"role": "user", "content": os.urandom(600).hex()} for _ in range(20)])
        assert os.path.getsize(path) > 8 << 20
        assert os.path.getsize(tmp_path / "state.db-wal") < 4 << 20
    assert not (tmp_path / "state.db-wal").exists()
    with SessionDB.open(path) as db:
        assert len(db.messages(session)) == 8000


def pass_through(path: Path, taken: list[int], number: int) -> None:
    mine = WriteQueue(str(path), wait_seconds=20)
    with mine:
        taken.append(number)
    mine.close()


def pass_through_file_lock(path: Path, taken: list[int], number: int) -> None:
    with Folder.create(str(path.parent)) as folder, FileLock(folder, path.name, timeout=20):
        taken.append(number)


def stand_in_line(
    path: Path, taken: list[int], number: int, through: Callable[[Path, list[int], int], None] = pass_through
) -> threading.Thread:
    """A thread that waits; returns when it has drawn its number."""
    before = drawn(path)
    thread = threading.Thread(target=through, args=(path, taken, number))
    thread.start()
    until(lambda: drawn(path) == before + 1)
    return thread


def drawn(path: Path) -> int:
    queue = path.with_name(path.name + ".queue")
    return int.from_bytes(queue.read_bytes()[:8], "little") if queue.exists() else 0


def until(true: Callable[[], bool]) -> None:
    while not true():  # the suite's own limit ends it
        time.sleep(0.001)


@pytest.mark.proves("sessions.writers")
def test_who_waits_longest_writes_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks_module, "_NOBODY_COMES", 10.0)  # however long a thread is not let run
    path = tmp_path / "state.db.lock"
    write_queue = WriteQueue(str(path), wait_seconds=20)
    taken: list[int] = []
    with write_queue:
        threads = [stand_in_line(path, taken, number) for number in range(8)]
    for thread in threads:
        thread.join()
    assert taken == list(range(8))
    assert (path.with_name("state.db.lock.queue").stat().st_mode & 0o777) == 0o600
    write_queue.close()


@pytest.mark.proves("durable.writers")
def test_who_waits_longest_for_a_memory_file_writes_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks_module, "_NOBODY_COMES", 10.0)
    path = tmp_path / "MEMORY.md.lock"
    taken: list[int] = []
    with Folder.create(str(tmp_path)) as folder, FileLock(folder, path.name, timeout=5):
        threads = [stand_in_line(path, taken, number, pass_through_file_lock) for number in range(8)]
        with pytest.raises(LockTimeout), FileLock(folder, path.name, timeout=0):
            pytest.fail("who does not wait gets it only when it is free")
    for thread in threads:
        thread.join()
    assert taken == list(range(8))


@pytest.mark.proves("sessions.writers")
def test_a_process_killed_in_line_holds_nobody_up(tmp_path: Path) -> None:
    path = tmp_path / "state.db.lock"
    write_queue = WriteQueue(str(path), wait_seconds=20)
    taken: list[int] = []
    with write_queue:
        process = subprocess.Popen([sys.executable, "-c", _WAITER, str(path)], stdout=subprocess.PIPE)
        until(lambda: drawn(path) == 1)
        process.kill()
        process.communicate()
        waiter = stand_in_line(path, taken, 1)
    waiter.join()
    assert taken == [1]
    with write_queue:  # the one that was killed holds up nobody
        taken.append(2)
    assert taken == [1, 2]
    write_queue.close()


@pytest.mark.proves("sessions.writers")
@pytest.mark.parametrize("numbers", [(10**12, 3), (3, 10**12), (2**64 - 1, 0), (2**64 - 1, 2**64 - 1)])
def test_numbers_that_nobody_drew_hold_up_no_writer(tmp_path: Path, numbers: tuple[int, int]) -> None:
    """A torn or foreign queue file costs a moment once, and is right again afterwards."""
    path = tmp_path / "state.db.lock"
    path.with_name("state.db.lock.queue").write_bytes(b"".join(each.to_bytes(8, "little") for each in numbers))
    taken: list[int] = []
    threads = [threading.Thread(target=pass_through, args=(path, taken, number)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [0, 1, 2]


@pytest.mark.proves("sessions.writers")
def test_a_queue_that_cannot_be_written_is_an_error_with_a_remedy_and_lets_go_of_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "state.db.lock"
    path.with_name("state.db.lock.queue").write_bytes((1).to_bytes(8, "little") + bytes(8))
    taken: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(StorageError, match="free some space"), WriteQueue(str(path), wait_seconds=1):
            pytest.fail("nobody may write here")
    pass_through(path, taken, 1)
    assert taken == [1]


@pytest.mark.proves("sessions.writers")
def test_without_file_locks_sqlite_waits_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(descriptor: int, kind: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with SessionDB.open(tmp_path / "state.db") as db, SessionDB.open(tmp_path / "state.db") as other:
        sessions = [db.create_session(), db.create_session()]

        def write(handle: SessionDB, session: str) -> None:
            for number in range(20):
                handle.append(session, {"role": "user", "content": f"number {number}"})

        threads = [threading.Thread(target=write, args=pair) for pair in zip((db, other), sessions, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [len(db.messages(session)) for session in sessions] == [20, 20]


@pytest.mark.proves("sessions.writers")
def test_a_lock_that_fails_for_another_reason_stores_nothing_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(descriptor: int, kind: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with SessionDB.open(tmp_path / "state.db") as db:
        session = db.create_session()
        with monkeypatch.context() as patch:
            patch.setattr(fcntl, "flock", broken)
            with pytest.raises(StorageError, match=r"the queue of writers does not work: .* check the folder"):
                db.append(session, {"role": "user", "content": "lost"})
        db.append(session, {"role": "user", "content": "kept"})
        assert [message.text for message in db.messages(session)] == ["kept"]
