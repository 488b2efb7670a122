"""The store at its edges: names that are taken, odd values, interrupted writes, other processes in between."""

from __future__ import annotations

import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from engines import database_of

from hermes.base.errors import DamagedFile, StorageError
from hermes.conversations import maintenance as upkeep
from hermes.conversations.context import Contexts
from hermes.conversations.database import SessionDB
from hermes.conversations.maintenance import Maintenance
from hermes.storage import documents as journal
from hermes.storage.documents import Journal
from hermes.storage.files import Folder
from hermes.storage.local import database, index
from hermes.storage.local.schema import apply_steps

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import apsw


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB.open(tmp_path / "home" / "state.db", durability="turn") as opened:
        yield opened


@pytest.mark.proves("sessions.metadata")
def test_an_id_that_is_taken_and_a_kind_that_is_none_are_refused(db: SessionDB) -> None:
    db.create_session(session_id="one")
    with pytest.raises(StorageError, match="there is already a session 'one'"):
        db.create_session(session_id="one")
    with pytest.raises(ValueError, match="kind is 'odd'; it must be one of"):
        db.create_session(kind="odd")
    assert [session.id for session in db.list_sessions()] in (["one"], [])


@pytest.mark.proves("sessions.titles")
def test_a_title_of_nothing_but_blanks_is_none_and_finds_nothing(db: SessionDB) -> None:
    session = db.create_session(title="   ")
    assert db.get_session(session).title is None
    assert db.resolve("   ") is None


@pytest.mark.proves("compression.expand")
def test_no_ids_are_no_messages(db: SessionDB) -> None:
    assert list(Contexts(db).read("", [])) == []


@pytest.mark.proves("sessions.one_transaction")
def test_a_transaction_that_ended_by_itself_is_not_taken_back_twice(db: SessionDB) -> None:
    with pytest.raises(StorageError, match="nothing was stored"), database_of(db).writing() as connection:
        connection.execute("ROLLBACK; INSERT INTO owners (name) VALUES ('local')")  # as SQLite does when a disk is full
    assert db.append(db.create_session(), {"role": "user", "content": "goes on"})


@pytest.mark.proves("repair.refuses-writing")
def test_a_large_file_is_not_checked_as_a_whole_before_the_first_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SessionDB.open(tmp_path / "state.db").close()
    monkeypatch.setattr(database, "_SMALL_ENOUGH_TO_CHECK", 0)
    asked: list[str] = []
    real = database.Database.row

    def row(opened: database.Database, statement: str, *given: Any) -> Any:
        asked.append(statement)
        return real(opened, statement, *given)

    monkeypatch.setattr(database.Database, "row", row)
    with SessionDB.open(tmp_path / "state.db") as db:
        db.append(db.create_session(), {"role": "user", "content": "hello"})
    assert not [statement for statement in asked if "quick_check" in statement]


@pytest.mark.proves("sessions.damage")
def test_a_packed_message_that_does_not_open_stops_the_index_with_the_remedy(db: SessionDB) -> None:
    session = db.create_session()
    db.append(session, {"role": "user", "content": [{"type": "text", "text": "packed"}]})
    path = db.path
    db.close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE messages SET tool_calls = '{half'")
    connection.execute("UPDATE sessions SET indexed_id = 0")
    connection.commit()
    connection.close()
    with SessionDB.open(path) as again, pytest.raises(DamagedFile, match="holds a message that cannot be read"):
        again.index()


@pytest.mark.proves("sessions.damage")
def test_a_list_of_owners_that_cannot_be_read_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    SessionDB.open(path).close()
    real = database.Database.row
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            database.Database,
            "row",
            lambda opened, statement, *given: None if "FROM owners" in statement else real(opened, statement, *given),
        )
        with pytest.raises(DamagedFile, match="its list of owners cannot be read"):
            SessionDB.open(path)


@pytest.mark.proves("sessions.migrations")
def test_a_step_that_another_process_took_meanwhile_is_not_taken_twice(tmp_path: Path) -> None:
    taken: list[str] = []
    path = str(tmp_path / "other.db")
    one, two = (database.Database.open(path) for _ in range(2))

    def first(connection: apsw.Connection) -> None:
        taken.append("first")
        connection.execute("CREATE TABLE things (name TEXT)")

    def both(_connection: apsw.Connection) -> None:
        taken.append("second")

    class Steps(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            yield ("a", first)
            apply_steps(two, [("b", both)])  # what the other process does in between
            yield ("b", both)

    apply_steps(one, Steps())
    assert taken == ["first", "second"]
    one.close()
    two.close()


@pytest.mark.proves("search.tools")
@pytest.mark.parametrize("arguments", ['{"path": "walrus.txt"}', "walrus, not JSON", {"path": ["walrus"]}, 17, None])
def test_arguments_of_any_form_can_be_found_or_do_no_harm(db: SessionDB, arguments: Any) -> None:
    session = db.create_session()
    call = {"id": "1", "function": {"name": "read_file", "arguments": arguments}}
    message = db.append(session, {"role": "assistant", "content": None, "tool_calls": [call, "odd", 3]})
    assert [hit.message_id for hit in db.search("read_file")] == [message]
    assert ([hit.message_id for hit in db.search("walrus")] == [message]) is ("walrus" in str(arguments))


@pytest.mark.proves("search.sees_everything")
def test_settling_writes_the_log_into_the_file_now_and_then(db: SessionDB, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "_STEPS_PER_CHECKPOINT", 1)
    session = db.create_session()
    for start in range(0, 300, 30):
        db.append_many(session, [{"role": "user", "content": f"word{start + n} said"} for n in range(30)])
        db.index()
    before = os.path.getsize(f"{db.path}-wal")
    steps = list(Maintenance.of_db(db).settle())
    assert steps == list(range(1, len(steps) + 1))
    assert before > 0
    assert db.search("word41")


@pytest.mark.proves("sessions.wal_fallback")
def test_a_store_without_a_log_has_a_log_of_no_size(tmp_path: Path) -> None:
    (tmp_path / "state.db-shm").mkdir()  # so there is a rollback journal instead
    with SessionDB.open(tmp_path / "state.db") as db:
        sizes = Maintenance.of_db(db).sizes()
        session = db.create_session()
        db.append(session, {"role": "user", "content": "hello"})
        db.sync()  # what was committed is in the file already
        assert len(db.messages(session)) == 1
    assert (sizes["file_bytes"] > 0, sizes["log_bytes"]) == (True, 0)


@pytest.mark.proves("search.cli-wrong-clock")
def test_an_imported_conversation_keeps_its_own_time_beside_a_wrong_clock(db: SessionDB) -> None:
    from hermes.conversations.maintenance import _moments_of_use
    from hermes.storage.ports import Use

    uses = [
        Use(key=1, recorded=100.0, ended=True, source="cli", archived=False, imported=False),
        Use(key=2, recorded=50.0, ended=True, source="import", archived=False, imported=True),
        Use(key=3, recorded=9_000.0, ended=True, source="cli", archived=False, imported=False),
    ]
    assert _moments_of_use(uses, 1_000.0) == [100.0, 50.0, 1_000.0]


@pytest.mark.proves("curated.history")
def test_the_last_record_of_a_journal_is_found_behind_any_amount_of_rubbish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_TAIL", 64)
    with Folder.create(str(tmp_path / "folder")) as folder:
        log = Journal(folder, "x.jsonl")
        log.sync()  # nothing was written yet
        assert log.last() is None
        log.append([{"id": "one"}], sync=False)
        with (tmp_path / "folder/x.jsonl").open("ab") as file:
            file.write(b"rubbish\n" * 100)
        assert (log.last() or {}).get("id") == "one"
        (tmp_path / "folder/x.jsonl").write_bytes(b"rubbish\n" * 100)
        assert log.last() is None


@pytest.mark.proves("search.sees_everything")
def test_a_search_in_the_middle_of_a_bulk_sees_what_was_written_before_it(db: SessionDB) -> None:
    session = db.create_session()
    with db.bulk():
        written = db.append(session, {"role": "user", "content": "the walrus"})
        db.index()
        assert [hit.message_id for hit in db.search("walrus")] == [written]


@pytest.mark.proves("search.sees_everything")
def test_what_another_process_indexes_first_is_not_waited_for(db: SessionDB, monkeypatch: pytest.MonkeyPatch) -> None:
    session = db.create_session()
    written = db.append(session, {"role": "user", "content": "the walrus"})
    with monkeypatch.context() as patched:
        patched.setattr(index, "_index_batch", lambda *_: 0)
        assert db.index() == 0
    assert [hit.message_id for hit in db.search("walrus")] == [written]


@pytest.mark.proves("sessions.listing")
@pytest.mark.parametrize(
    ("said", "preview"),
    [
        ("the kettle", "the kettle"),
        (f"the {'kettle' * 20}", "the..."),
        ("kettle" * 20, "kettleke..."),
        ("水" * 80, "水" * 60 + "..."),
    ],
)
def test_a_conversation_is_listed_by_how_it_begins_and_no_word_is_cut_through(
    db: SessionDB, said: str, preview: str
) -> None:
    db.append(db.create_session(), {"role": "user", "content": said})
    assert db.list_sessions()[0].preview == preview


@pytest.mark.internal("two conversations of one person may save the same small file at once")
def test_threads_that_replace_the_same_file_do_not_take_each_others_copy(tmp_path: Path) -> None:
    def replace(number: int) -> None:
        with Folder.create(str(tmp_path / "home")) as folder:
            for _ in range(20):
                folder.replace("state.json", b"%d" % number)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(replace, range(8)))
    assert os.listdir(tmp_path / "home") == ["state.json"]
