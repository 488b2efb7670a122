"""Messages wait for the index: known at no cost to an append, indexed together after an import, never forgotten."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import apsw
import pytest
from engines import database_of
from older import make_older

from hermes.base.errors import StorageError
from hermes.conversations import database as sessions
from hermes.conversations.database import SessionDB
from hermes.storage.local import database, index
from hermes.storage.local.database import PAGE
from hermes.storage.local.index import segments
from hermes.storage.local.repair.check import repair

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.internal("how many messages are indexed together is a matter of speed")
def test_several_bulks_are_indexed_together_and_an_append_after_them_takes_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "BULK_BATCH", 1500)
    with SessionDB.open(tmp_path / "state.db", durability="turn") as db:
        session, connection = db.create_session(), database_of(db).connection

        def bring_in(count: int) -> None:
            with db.bulk():
                db.append_many(session, [{"role": "user", "content": f"number {number}"} for number in range(count)])

        bring_in(700)
        assert segments(connection, "messages_fts") == 0
        bring_in(800)
        assert segments(connection, "messages_fts") == 1
        bring_in(700)
        last = db.append(session, {"role": "user", "content": "a live one"})
        indexed = connection.execute("SELECT count(*) FROM messages_fts_docsize").fetchall()
        assert indexed == [(1500 + 96,)]
        assert [hit.message_id for hit in db.search("live")] == [last]
        assert len(db.search("number", limit=8000, sort="newest")) == 2200


@pytest.mark.internal("how many segments an index has is a matter of speed")
@pytest.mark.parametrize(("most", "left"), [(16, range(16, 100)), (1000, range(140, 141))])
def test_an_import_in_very_many_parts_is_merged_on_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, left: range
) -> None:
    monkeypatch.setattr(index, "_MANY", 5)
    monkeypatch.setattr(index, "_MOST_SEGMENTS", most)
    with SessionDB.open(tmp_path / "state.db", durability="turn") as db:
        session, connection = db.create_session(), database_of(db).connection
        for part in range(140):
            db.append_many(session, [{"role": "user", "content": f"part {part} number {n}"} for n in range(5)])
            db.index()
        listed = connection.execute("SELECT count(DISTINCT segid) FROM messages_fts_idx").fetchone()
        assert listed == (segments(connection, "messages_fts"),)
        assert segments(connection, "messages_fts") in left
        assert len(db.search("part 77", limit=100, sort="newest")) == 5


@pytest.mark.proves("search.sees_everything")
@pytest.mark.parametrize(
    "meanwhile", ["nothing", "indexed", "appended", "rewound", "deleted", "own-rewind", "own-append"]
)
def test_what_waits_between_two_bulks_is_found_whatever_happens_to_it_meanwhile(tmp_path: Path, meanwhile: str) -> None:
    path = tmp_path / "state.db"
    with SessionDB.open(path) as db, SessionDB.open(path) as other:
        kept, touched = db.create_session(), db.create_session()

        def bring_in(first: int) -> list[int]:
            with db.bulk():
                db.append(kept, {"role": "user", "content": f"kept walrus {first}"})
                more = [{"role": "user", "content": f"touched walrus {first + number}"} for number in range(3)]
                return db.append_many(touched, more)

        ids = bring_in(1)
        live = {"role": "user", "content": "a live walrus"}
        happenings: dict[str, Callable[[], object]] = {
            "nothing": lambda: None,
            "indexed": other.index,
            "appended": lambda: other.append(touched, live),
            "rewound": lambda: other.set_rewound(touched, ids[1:]),
            "deleted": lambda: other.delete(touched),
            "own-rewind": lambda: db.set_rewound(touched, ids[1:]),
            "own-append": lambda: [db.append(touched, live) for _ in range(100)],
        }
        happenings[meanwhile]()
        if meanwhile != "deleted":
            ids += bring_in(11)
        db.index()
        found = [hit.message_id for hit in db.search("walrus", limit=300, sort="newest")]
        stored = [m.id for session in db.list_sessions() for m in db.messages(session.id)]
        assert sorted(found) == sorted(stored)
        assert not database_of(db).rows("SELECT key FROM sessions WHERE waiting = 1")
        rows = database_of(db).rows("SELECT id FROM messages_fts_docsize ORDER BY id")
        assert [number for (number,) in rows] == sorted(stored)
    assert repair(str(path), dry_run=True).problems == []


@pytest.mark.proves("sessions.one_transaction")
def test_of_a_bulk_that_fails_no_word_goes_into_the_index(tmp_path: Path) -> None:
    with SessionDB.open(tmp_path / "state.db") as db:
        session = db.create_session()
        with db.bulk():
            kept = db.append(session, {"role": "user", "content": "the walrus stays"})
        with pytest.raises(ZeroDivisionError), db.bulk():
            _fail_after(db.append(session, {"role": "user", "content": "the heron goes"}))
        again = db.append(session, {"role": "user", "content": "an otter takes its number"})
        assert [hit.message_id for hit in db.search("walrus")] == [kept]
        assert (db.search("heron"), [hit.message_id for hit in db.search("otter")]) == ([], [again])


@pytest.mark.proves("search.sees_everything")
def test_a_search_says_when_others_write_for_so_long_that_it_cannot_see_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "WAIT_SECONDS", 0.05)
    path = tmp_path / "state.db"
    with SessionDB.open(path) as db, SessionDB.open(path) as other, SessionDB.open(path, owner="ann") as third:
        session = db.create_session()
        db.append(session, {"role": "user", "content": "an indexed walrus"})
        db.index()
        db.append(session, {"role": "user", "content": "a walrus that waits"})
        with db.bulk():
            found = other.search("walrus")
            assert (len(found), "may be missing" in str(found.note)) == (1, True)
            assert "may be missing" not in str(third.search("walrus").note)
        found = other.search("walrus")
        assert (len(found), found.note) == (2, None)


@pytest.mark.proves("sessions.one_transaction")
def test_after_bulks_of_several_threads_no_word_of_an_append_that_failed_goes_into_the_index(tmp_path: Path) -> None:
    with SessionDB.open(tmp_path / "state.db", durability="turn") as db:
        session, together = db.create_session(), threading.Barrier(4)

        def bring_in() -> None:
            together.wait()
            for _ in range(5):
                with db.bulk():
                    db.append_many(session, [{"role": "user", "content": "a walrus"}] * 20)

        threads = [threading.Thread(target=bring_in) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        db.index()
        database_of(db).connection.set_commit_hook(lambda: True)  # which takes the transaction back
        with pytest.raises(StorageError):
            db.append_many(session, [{"role": "user", "content": "the heron goes"}] * 2)
        database_of(db).connection.set_commit_hook(None)
        wanted = db.append(session, {"role": "user", "content": "an otter takes its number"})
        assert (db.search("heron"), [hit.message_id for hit in db.search("otter")]) == ([], [wanted])
        after = db.append(session, {"role": "user", "content": "a beaver takes the other"})
        assert [hit.message_id for hit in db.search("beaver")] == [after]
        assert len(db.search("walrus", limit=500, sort="newest")) == 400


@pytest.mark.proves("sessions.written")
def test_an_append_writes_the_page_of_its_message_and_that_of_its_session(tmp_path: Path) -> None:
    with SessionDB.open(tmp_path / "state.db") as db:
        session, connection = db.create_session(title="A title", project="web"), database_of(db).connection
        db.append(session, {"role": "user", "content": "the first one makes room for more"})

        def pages_of_an_append() -> int:
            log = tmp_path / "state.db-wal"
            before = log.stat().st_size
            db.append(session, {"role": "assistant", "content": "yes"})
            return (log.stat().st_size - before) // (PAGE + 24)

        assert [pages_of_an_append() for _ in range(20)] == [2] * 20
        assert connection.execute("SELECT count(*) FROM sessions WHERE waiting = 1").fetchone() == (1,)


@pytest.mark.proves("sessions.migrations")
def test_a_file_from_before_sessions_were_marked_as_waiting_is_brought_up_to_date(tmp_path: Path) -> None:
    path, fresh = tmp_path / "state.db", tmp_path / "fresh.db"
    SessionDB.open(fresh).close()
    with SessionDB.open(path) as db:
        level, behind = db.create_session(), db.create_session()
        db.append(level, {"role": "user", "content": "an indexed walrus"})
        db.index()
        wanted = db.append(behind, {"role": "user", "content": "a walrus that waits"})
    make_older(path)
    assert repair(str(path), dry_run=True).problems == []
    with SessionDB.open(path) as db:
        connection = database_of(db).connection
        assert connection.execute("SELECT key FROM sessions WHERE waiting = 1").fetchall() == [
            (db.get_session(behind).key,)
        ]
        assert wanted in [hit.message_id for hit in db.search("walrus")]
        assert not connection.execute("SELECT key FROM sessions WHERE waiting = 1").fetchall()
        assert len(db.search("walrus")) == 2
    assert _schema(path) == _schema(fresh)


@pytest.mark.proves("search.sees_everything")
def test_what_a_program_appends_that_does_not_know_of_waiting_is_found(tmp_path: Path) -> None:
    with SessionDB.open(tmp_path / "state.db") as db:
        session = db.create_session()
        wanted = db.append(session, {"role": "user", "content": "the walrus"})
        db.index()
        other = apsw.Connection(db.path)
        other.execute("UPDATE sessions SET indexed_id = 0")
        other.close()
        database_of(db).connection.execute("DELETE FROM messages_fts WHERE rowid = ?", (wanted,))
        assert [hit.message_id for hit in db.search("walrus")] == [wanted]


def _schema(path: Path) -> list[tuple[str, list[str]]]:
    connection = apsw.Connection(str(path))
    try:
        rows = connection.execute("SELECT name, coalesce(sql, '') FROM sqlite_schema ORDER BY name").fetchall()
    finally:
        connection.close()
    return [(str(name), str(sql).split()) for name, sql in rows]


def _fail_after(_: object) -> None:
    raise ZeroDivisionError


@pytest.mark.proves("search.during_lock")
def test_a_search_answers_while_another_program_keeps_the_file_locked(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with SessionDB.open(path, wait=3600) as db:  # a search that waited for the lock would take three hours
        session = db.create_session()
        db.append(session, {"role": "user", "content": "an indexed walrus"})
        db.index()
        db.append(session, {"role": "user", "content": "a walrus that waits"})
        other = apsw.Connection(str(path))
        other.execute("BEGIN EXCLUSIVE")
        found = db.search("walrus")
        assert (len(found), "may be missing" in str(found.note)) == (1, True)
        with SessionDB.open(path, wait=3600, reading=True) as reader:
            assert len(reader.messages(session)) == 2
            with pytest.raises(StorageError, match="can only be read"):
                reader.append(session, {"role": "user", "content": "no"})
        other.execute("ROLLBACK")
        assert len(db.search("walrus")) == 2
