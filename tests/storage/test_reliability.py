"""Kills, damage, other writers and replaced files: what was acknowledged is there, and what is wrong is said."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from hermes.base.errors import DamagedFile, LockTimeout, StorageError
from hermes.conversations.database import SessionDB
from hermes.storage.locks import WriteQueue

if TYPE_CHECKING:
    from pathlib import Path

_WRITER = """
import sys
from hermes.conversations.database import SessionDB
db = SessionDB.open(sys.argv[1], durability=sys.argv[4])
for number in range(int(sys.argv[3])):
    db.append(sys.argv[2], {"role": "user", "content": f"entry {number} of {sys.argv[5]}"})
    print(number, flush=True)
"""


def writer(path: Path, session: str, count: int, name: str, durability: str = "turn") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path), session, str(count), durability, name],
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.proves("sessions.durable")
@pytest.mark.parametrize("durability", ["turn", "message"])
def test_every_acknowledged_message_survives_a_kill_and_is_searchable(tmp_path: Path, durability: str) -> None:
    path = tmp_path / "state.db"
    with SessionDB.open(path) as db:
        session = db.create_session()
    process = writer(path, session, 100_000, "victim", durability)
    assert process.stdout is not None
    acknowledged = [int(process.stdout.readline()) for _ in range(150)][-1]
    process.send_signal(signal.SIGKILL)
    acknowledged = max([acknowledged, *(int(line) for line in process.communicate()[0].split())])
    with SessionDB.open(path) as db:
        texts = [message.text for message in db.messages(session)]
        assert texts[: acknowledged + 1] == [f"entry {number} of victim" for number in range(acknowledged + 1)]
        assert len(db.search("victim", limit=len(texts) + 10, sort="newest")) == len(texts)


@pytest.mark.proves("sessions.durable")
def test_sync_is_accepted_at_both_levels(tmp_path: Path) -> None:
    with SessionDB.open(tmp_path / "state.db", durability="turn") as db:
        db.append(db.create_session(), {"role": "user", "content": "x"})
        db.sync()


@pytest.mark.proves("sessions.writers")
def test_many_processes_write_and_read_at_once(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with SessionDB.open(path) as db:
        sessions = [db.create_session() for _ in range(4)]
        processes = [writer(path, sessions[number % 3], 60, f"w{number}") for number in range(6)]
        while any(process.poll() is None for process in processes):
            db.search("entry")
        assert [process.wait() for process in processes] == [0] * 6
        for process in processes:
            process.communicate()
        assert db.counts()["messages"] == 360
        assert len(db.search("entry", limit=400, sort="newest")) == 360


@pytest.mark.proves("sessions.lock_wait")
@pytest.mark.parametrize("held", [["lock"], ["lock", "lock.queue"]], ids=["while it writes", "while it draws a number"])
def test_a_writer_that_never_ends_is_reported_after_a_bounded_wait(tmp_path: Path, held: list[str]) -> None:
    write_queue = WriteQueue(str(tmp_path / "lock"), wait_seconds=0.05)
    holders = [os.open(tmp_path / name, os.O_RDWR | os.O_CREAT, 0o600) for name in held]
    for holder in holders:
        fcntl.flock(holder, fcntl.LOCK_EX)
    with pytest.raises(LockTimeout, match=r"more than 0.05 s"), write_queue:
        pass
    for holder in holders:
        os.close(holder)
    with write_queue:
        pass
    write_queue.close()


@pytest.mark.proves("sessions.replaced_file")
def test_a_file_replaced_under_an_open_handle_is_noticed_before_the_next_acknowledgement(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with SessionDB.open(path) as db:
        session = db.create_session()
        db.append(session, {"role": "user", "content": "before"})
        shutil.copy(path, tmp_path / "backup")
        os.replace(tmp_path / "backup", path)
        with pytest.raises(StorageError, match="replaced"):
            db.append(session, {"role": "user", "content": "after"})
        os.unlink(path)
        with pytest.raises(StorageError, match="replaced or removed"):
            db.append(session, {"role": "user", "content": "after"})


def stored(path: Path, count: int = 40) -> tuple[str, bytes]:
    """A closed store with one session; returns its id and the bytes of the file."""
    with SessionDB.open(path) as db:
        session = db.create_session()
        db.append_many(
            session, [{"role": "user", "content": f"genuine text {number} " * 20} for number in range(count)]
        )
        db.index()
    return session, path.read_bytes()


@pytest.mark.proves("sessions.damage")
def test_altered_text_is_left_out_and_nothing_more_is_written(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    session, data = stored(path)
    path.write_bytes(data.replace(b"genuine text 7 genuine text 7", b"genuine text 7 genuinE text 7"))
    with SessionDB.open(path) as db:
        hits = db.search("genuine", limit=100)
        assert len(hits) == 39
        assert "hermes sessions repair" in (hits.note or "")
        assert [message.damaged for message in db.messages(session)].count(True) == 1
        assert "genuinE" not in "".join(message.text for message in db.messages(session))
        with pytest.raises(DamagedFile, match="hermes sessions repair"):
            db.append(session, {"role": "user", "content": "more"})


@pytest.mark.proves("sessions.damage")
def test_any_flipped_bit_is_noticed_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    session, data = stored(path)
    with SessionDB.open(path) as db:
        genuine = {message.text for message in db.messages(session)}
    for number in range(60):
        at = 100 + (number * 7919) % (len(data) - 100)
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << number % 8]) + data[at + 1 :])
        for side in ("-wal", "-shm"):
            (tmp_path / f"state.db{side}").unlink(missing_ok=True)
        try:
            with SessionDB.open(path) as db:
                read = {message.text for message in db.messages(session) if not message.damaged}
                assert read <= genuine
        except StorageError as error:
            assert "hermes" in str(error)  # noqa: PT017 - either outcome is right


@pytest.mark.proves("sessions.damage")
@pytest.mark.parametrize("kind", ["zeroed page", "truncated", "not a database"])
def test_a_broken_file_refuses_the_first_write_with_the_repair(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "state.db"
    session, data = stored(path, 400)
    middle = len(data) // 2 // 4096 * 4096
    broken = {
        "zeroed page": data[:middle] + bytes(4096) + data[middle + 4096 :],
        "truncated": data[:middle],
        "not a database": b"nonsense" * 2000,
    }[kind]
    path.write_bytes(broken)
    with pytest.raises(DamagedFile, match="hermes sessions repair"), SessionDB.open(path) as db:
        db.append(session, {"role": "user", "content": "more"})
