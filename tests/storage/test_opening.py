"""Databases that cannot be opened, read or written as usual: each failure says what to do."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import apsw
import pytest
from damaged import alter
from engines import database_of

from hermes.base.errors import DamagedFile, LockTimeout, StorageError
from hermes.conversations.database import SessionDB
from hermes.storage.local import database

if TYPE_CHECKING:
    from pathlib import Path

    from soak.sessions_damage import Specimen


@pytest.mark.proves("sessions.damage")
def test_text_that_is_no_longer_text_is_read_around(small: Specimen) -> None:
    with SessionDB.open(small.path) as db:
        name = small.names[0]
        taken_back = db.append(name, {"role": "user", "content": "taken back"})
        db.set_rewound(name, [taken_back])
        db.append(name, {"role": "tool", "content": "a result"})
        ids = [db.append(name, {"role": "user", "content": f"walrus number{n}"}) for n in range(6)]
        db.index()
    alter(small.path, f"UPDATE messages SET content = CAST(x'c328ff' AS TEXT) WHERE id = {ids[3]}")
    with SessionDB.open(small.path) as db:
        assert [each.id for each in db.messages(name, around=ids[3], window=2) if each.damaged] == [ids[3]]
    with SessionDB.open(small.path) as db:
        newest = db.messages(name, limit=4, newest=True)
        assert sorted(each.id for each in newest) == ids[2:]
        assert taken_back not in [each.id for each in db.messages(name)]
        first, last = db.bookends(name, 8)
        assert {each.role for each in (*first, *last)} == {"user"}
    with SessionDB.open(small.path) as db:
        found = [hit.message_id for hit in db.search("walrus", limit=10)]
        assert set(found) == set(ids) - {ids[3]}
        with pytest.raises(DamagedFile):
            db.append(name, {"role": "user", "content": "more"})


@pytest.mark.proves("sessions.damage")
def test_details_and_titles_that_are_no_longer_text_are_damage_and_no_crash(small: Specimen) -> None:
    with SessionDB.open(small.path) as db:
        db.create_session(session_id="told", title="Plans", system_prompt="prompt", note="x")
    alter(
        small.path,
        "UPDATE sessions SET preview = CAST(x'c328ff' AS TEXT)",
        "UPDATE session_details SET details = CAST(x'c328ff' AS TEXT)",
    )
    with SessionDB.open(small.path) as db:
        assert db.session_details("told") == {}
        assert db.list_sessions(limit=10)


@pytest.mark.proves("sessions.lock_wait")
@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (apsw.BusyError, LockTimeout, "is held by another program"),
        (apsw.ReadOnlyError, StorageError, "check the permissions"),
        (apsw.FullError, StorageError, "the message is not stored"),
        (apsw.ConstraintError, StorageError, "contradicts itself"),
        (apsw.CorruptError, DamagedFile, "is damaged"),
        (DamagedFile, DamagedFile, "told by SQLite"),
    ],
)
def test_every_failure_of_the_database_says_what_to_do(
    small: Specimen, error: type[Exception], kind: type[StorageError], words: str
) -> None:
    with SessionDB.open(small.path) as db:
        with pytest.raises(kind, match=words), database_of(db).translated():
            raise error("told by SQLite")
        with pytest.raises(kind, match=words), database_of(db).writing():
            raise error("told by SQLite")


@pytest.mark.proves("sessions.private")
def test_a_database_that_cannot_be_made_or_opened_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError):
        SessionDB.open(tmp_path / "file" / "state.db")

    def refused(*_: Any, **__: Any) -> Any:
        raise apsw.CantOpenError("unable to open database file")

    monkeypatch.setattr(apsw, "Connection", refused)
    with pytest.raises(StorageError, match="cannot be opened"):
        SessionDB.open(tmp_path / "other.db")


@pytest.mark.proves("sessions.writers")
def test_a_database_that_others_are_making_is_waited_for_but_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, left = database._connect, [2]

    def connect(path: str, wait: float) -> Any:
        left[0] -= 1
        if left[0] >= 0:
            raise apsw.BusyError("database is locked")
        return real(path, wait)

    monkeypatch.setattr(database, "_connect", connect)
    SessionDB.open(tmp_path / "state.db").close()
    left[0] = 10_000
    monkeypatch.setattr(database, "WAIT_SECONDS", 0.02)
    with pytest.raises(StorageError):
        SessionDB.open(tmp_path / "state.db")


@pytest.mark.proves("sessions.writers")
def test_a_connection_that_finds_the_file_busy_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SessionDB.open(tmp_path / "state.db").close()

    def busy(_connection: apsw.Connection) -> None:
        raise apsw.BusyError("database is locked")

    monkeypatch.setattr(database, "_first_write", busy)
    monkeypatch.setattr(database, "WAIT_SECONDS", 0.02)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(StorageError, match="held by another program"):
        SessionDB.open(tmp_path / "state.db")
    assert len(os.listdir("/proc/self/fd")) == before
