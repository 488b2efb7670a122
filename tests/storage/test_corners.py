"""Damage that leaves a database half readable: odd values, lost names, cut transactions, interrupted repairs."""

from __future__ import annotations

import os
import shutil
import struct
from typing import TYPE_CHECKING, Any

import apsw
import pytest
from damaged import alter, kept

from hermes.base.errors import DamagedFile, NotFound, StorageError
from hermes.conversations.database import SessionDB
from hermes.storage.local.damage import seal
from hermes.storage.local.database import APPLICATION_ID, PAGE, Database, one_row
from hermes.storage.local.repair import check as checkup
from hermes.storage.local.repair import salvage
from hermes.storage.local.repair.check import repair
from hermes.storage.local.sqlite_pages import Image, Scan, log_pages, record
from soak.sessions_damage import Specimen

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.proves("repair.account")
@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE sessions SET title = 'forged' WHERE key = 1", "the row of session 1 does not match its seal"),
        ("UPDATE session_details SET details = '{}' WHERE session = 4", "the details of session 4 do not match"),
        ("DELETE FROM blocks WHERE session = 2", "belongs to no session"),
        ("UPDATE messages SET content = x'ff' WHERE id = FIRST", "does not match its text"),
        ("UPDATE messages SET tool_calls = x'00ff' WHERE id = FIRST", "does not match its text"),
        ("UPDATE messages SET role = 17 WHERE id = FIRST", "does not match its text"),
        ("INSERT INTO messages_fts_docsize VALUES (99999, x'01', NULL)", "knows a message 99999 that does not exist"),
        ("UPDATE sessions SET waiting = 1 - waiting WHERE key = 1", "is wrong about whether it waits for the index"),
    ],
)
def test_every_kind_of_altered_row_is_named(small: Specimen, statement: str, problem: str) -> None:
    with SessionDB.open(small.path) as db:
        db.create_session(session_id="told", system_prompt="prompt", note="x")
    alter(small.path, statement.replace("FIRST", str(min(small.texts))))
    assert any(problem in each for each in repair(small.path, dry_run=True).problems)


@pytest.mark.proves("repair.index")
def test_a_message_that_nobody_can_open_counts_as_missing_in_the_index(small: Specimen) -> None:
    victim = min(small.texts)
    alter(
        small.path,
        f"DELETE FROM messages_fts WHERE rowid = {victim}",
        f"UPDATE messages SET content = NULL, tool_calls = '{{half' WHERE id = {victim}",
    )
    told = repair(small.path, dry_run=True)
    assert f"message {victim} is missing in the index" in told.problems


@pytest.mark.proves("repair.account")
def test_more_problems_than_anybody_reads_are_cut(small: Specimen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "_MOST_SHOWN", 5)
    alter(small.path, "UPDATE messages SET content = 'forged'")
    told = repair(small.path, dry_run=True)
    assert (len(told.problems), told.problems[-1]) == (6, "and more")


@pytest.mark.proves("repair.owners")
def test_names_of_owners_that_are_lost_are_nobodys(small: Specimen) -> None:
    with SessionDB.open(small.path, owner="ann") as db:
        db.append(db.create_session(), {"role": "user", "content": "mine"})
    victim = min(small.texts)
    alter(
        small.path,
        "DELETE FROM owners WHERE name = 'ann'",
        f"UPDATE messages SET content = 'forged' WHERE id = {victim}",
    )
    told = repair(small.path)
    assert told.salvaged is not None
    connection = apsw.Connection(small.path)
    names = {name for (name,) in connection.execute("SELECT name FROM owners")}
    connection.close()
    assert "ann" not in names
    assert any(name.startswith(salvage.NOBODY) for name in names)
    with SessionDB.open(small.path, owner="ann") as db:
        assert db.list_sessions() == []


@pytest.mark.proves("repair.lost-tables")
def test_odd_values_in_every_table_cost_only_themselves(small: Specimen) -> None:
    with SessionDB.open(small.path, owner="ann") as db:
        db.append(db.create_session(title="Ann's"), {"role": "user", "content": "mine"})
    alter(
        small.path,
        "UPDATE sessions SET started_at = 'never', last_active = 'now', message_count = 'many' WHERE key = 1",
        "UPDATE sessions SET seal = 0 WHERE key = 2",
        "INSERT INTO owners (key, name) VALUES (77, x'ff')",
        "UPDATE blocks SET first_place = -5 WHERE session = 3",
        "DELETE FROM sessions WHERE key = 3",
        "INSERT INTO state_meta (key, value) VALUES ('odd', 'kept by nobody')",
    )
    told = repair(small.path)
    assert told.salvaged is not None
    assert (told.salvaged.lost, told.salvaged.messages) == (0, len(small.texts) + 1)
    # Whose the third session was cannot be told any more, so it is shown to nobody.
    assert set(kept(small.path)) < set(small.texts)


@pytest.mark.proves("repair.lost-tables")
def test_a_title_that_two_sessions_have_after_all_is_given_once(small: Specimen) -> None:
    connection = apsw.Connection(small.path)
    (title,) = one_row(connection, "SELECT title FROM sessions WHERE key = 1")
    row = one_row(connection, "SELECT owner, id, source, preview FROM sessions WHERE key = 2")
    for (index,) in connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'sessions' AND sql IS NOT NULL"
    ).fetchall():
        connection.execute(f'DROP INDEX "{index}"')
    believed = seal(2, row[0], row[1], row[2], title, row[3])
    connection.execute("UPDATE sessions SET title = ?, seal = ? WHERE key = 2", (title, believed))
    connection.execute("UPDATE messages SET content = 'forged' WHERE id = (SELECT min(id) FROM messages)")
    connection.close()
    repair(small.path)
    with SessionDB.open(small.path) as db:
        titles = [session.title for session in db.list_sessions(limit=10)]
    assert (titles.count(title), titles.count(None)) == (1, 1)


@pytest.mark.proves("repair.nothing-to-do")
def test_what_does_not_exist_cannot_be_repaired(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is nothing to repair"):
        repair(str(tmp_path / "none.db"))


@pytest.mark.proves("repair.foreign-refused")
def test_a_database_of_another_program_is_not_repaired(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    connection = apsw.Connection(path)
    connection.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT); INSERT INTO notes VALUES (1, 'x')")
    connection.close()
    with pytest.raises(StorageError, match="is not ours to repair"):
        repair(path)
    with pytest.raises(StorageError, match="a database of another program"):
        SessionDB.open(path)


@pytest.mark.proves("repair.kills")
@pytest.mark.parametrize("broken", [False, True])
def test_a_transaction_that_was_cut_off_is_taken_back_before_anything_is_judged(tmp_path: Path, broken: bool) -> None:
    (tmp_path / "state.db-shm").mkdir()  # without shared memory there is a rollback journal instead of a log
    path = str(tmp_path / "state.db")
    with SessionDB.open(path) as db:
        session = db.create_session()
        first = db.append(session, {"role": "user", "content": "acknowledged"})
    shutil.rmtree(tmp_path / "state.db-shm", ignore_errors=True)
    connection = apsw.Connection(path)
    connection.pragma("journal_mode", "delete")
    connection.pragma("cache_size", 1)
    connection.execute("BEGIN IMMEDIATE; UPDATE messages SET content = 'half done'")
    connection.execute("CREATE TABLE filler (x); INSERT INTO filler VALUES (zeroblob(200000))")
    journal = (tmp_path / "state.db-journal").read_bytes()
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copyfile(path, copy / "state.db")
    if broken:
        (copy / "state.db").write_bytes(os.urandom(3 * PAGE))
    (copy / "state.db-journal").write_bytes(journal)
    connection.execute("ROLLBACK")
    connection.close()
    told = repair(str(copy / "state.db"))
    if not broken:
        assert told.problems == []
        assert kept(str(copy / "state.db")) == {first: "acknowledged"}


@pytest.mark.proves("repair.kills")
def test_a_repair_that_was_interrupted_loses_nothing_of_the_log(small: Specimen) -> None:
    folder = os.path.dirname(small.path)
    with SessionDB.open(small.path) as db:
        session = db.create_session()
        late = db.append(session, {"role": "user", "content": "only in the log"})
        with open(f"{small.path}-wal", "rb") as file:
            log = file.read()
        with open(small.path, "rb") as file:
            data = file.read()
    small.put(data)
    backup = f"{small.path}.damaged-20260101-000000-abcd"
    os.mkdir(backup)
    for name, content in (("state.db-wal", log), ("rebuilt.db", b"half")):
        with open(os.path.join(backup, name), "wb") as file:
            file.write(content)
    assert repair(small.path).problems == []
    assert kept(small.path)[late] == "only in the log"
    assert not os.path.exists(os.path.join(backup, "rebuilt.db"))
    assert folder


@pytest.mark.proves("repair.any-damage")
def test_a_result_that_is_not_sound_replaces_nothing(small: Specimen, monkeypatch: pytest.MonkeyPatch) -> None:
    alter(small.path, f"UPDATE messages SET content = 'forged' WHERE id = {min(small.texts)}")
    with open(small.path, "rb") as file:
        before = file.read()
    real = Database.row

    def verdict(database: Database, statement: str, *given: Any) -> Any:
        return ("row 3 missing",) if "integrity_check" in statement else real(database, statement, *given)

    monkeypatch.setattr(Database, "row", verdict)
    with pytest.raises(StorageError, match="nothing was replaced"):
        repair(small.path)
    with open(small.path, "rb") as file:
        assert file.read() == before


@pytest.mark.proves("repair.any-damage")
@pytest.mark.parametrize(
    "log", [b"", b"\xff" * 200, struct.pack(">8I", 0x377F0682, 3007000, 4096, 0, 1, 2, 3, 4) + bytes(4096 + 24)]
)
def test_a_log_that_is_none_has_no_pages(log: bytes) -> None:
    assert log_pages(log)[1:] == ({}, {})


@pytest.mark.proves("repair.any-damage")
def test_pages_that_cannot_be_what_they_say_are_left_out(small: Specimen, tmp_path: Path) -> None:
    assert record(b"") == ()
    other = apsw.Connection(str(tmp_path / "other.db"))
    other.pragma("page_size", 512)
    other.pragma("journal_mode", "wal")
    other.execute("CREATE TABLE x (y)")
    log = (tmp_path / "other.db-wal").read_bytes()
    assert log_pages(log)[0] == 512
    assert Image(small.bytes, log).count == len(small.bytes) // PAGE  # a log of pages of another size is none
    other.close()
    header = bytearray(small.bytes)
    struct.pack_into(">II", header, 32, 2, 1)  # a list of free pages that begins on a page of rows
    assert Image(bytes(header)).count == len(small.bytes) // PAGE
    rows = list(Scan(Image(bytes(header))).rows())
    assert rows is not None
    page = bytearray(PAGE)
    page[0] = 10
    struct.pack_into(">H", page, 3, 2)
    struct.pack_into(">HH", page, 8, 3, PAGE - 5)
    page[PAGE - 5] = 100  # longer than what is left of the page
    assert list(Scan(Image(small.bytes + bytes(page))).index_rows()) == list(
        Scan(Image(small.bytes + bytes(PAGE))).index_rows()
    )


def retyped(path: str, table: str, *statements: str) -> None:
    """The same table without the types of its columns, as bytes that changed kind would be read."""
    connection = apsw.Connection(path)
    names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    columns = ", ".join([f"{names[0]} INTEGER PRIMARY KEY", *names[1:]])
    connection.execute(
        f"PRAGMA foreign_keys = OFF; CREATE TABLE odd ({columns}); INSERT INTO odd SELECT * FROM {table}"
    )
    connection.execute(f"PRAGMA legacy_alter_table = ON; DROP TABLE {table}; ALTER TABLE odd RENAME TO {table}")
    for statement in statements:
        connection.execute(statement)
    connection.close()


@pytest.mark.proves("repair.any-damage")
def test_values_of_a_kind_that_cannot_be_cost_only_their_rows(small: Specimen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(salvage, "_BATCH", 16)
    first, second, *_ = sorted(small.texts)
    retyped(small.path, "owners", "INSERT INTO owners VALUES (77, 5)")
    retyped(
        small.path,
        "messages",
        f"UPDATE messages SET role = 17 WHERE id = {first}",
        f"UPDATE messages SET timestamp = 'late' WHERE id = {second}",
    )
    told = repair(small.path)
    assert told.salvaged is not None
    assert told.salvaged.messages == len(small.texts) - 2
    assert set(kept(small.path)) == set(small.texts) - {first, second}


@pytest.mark.proves("repair.any-damage")
def test_a_page_of_messages_that_is_rubbish_is_told_and_the_others_come_back(tmp_path: Path) -> None:
    specimen = Specimen(os.fspath(tmp_path), messages=400)
    number = next(n for n in range(len(specimen.bytes) // PAGE // 2, 10_000) if len(specimen.on_page(n)) > 3)
    start = number * PAGE
    specimen.put(specimen.bytes[:start] + b"\xff" * PAGE + specimen.bytes[start + PAGE :])
    told = repair(specimen.path)
    assert told.problems
    assert len(kept(specimen.path)) >= len(specimen.texts) - 2 * len(specimen.on_page(number))


def rooted(small: Specimen, table: str) -> int:
    """Where the first page of a table begins in the file."""
    connection = apsw.Connection(small.path)
    (root,) = one_row(connection, "SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,))
    connection.close()
    return (int(root) - 1) * PAGE


def overwrite(path: str, start: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(start)
        file.write(data)


@pytest.mark.proves("repair.refuses-writing")
def test_a_list_of_sessions_that_is_rubbish_is_damage_with_the_remedy(small: Specimen) -> None:
    overwrite(small.path, rooted(small, "sessions"), b"\xff" * PAGE)
    with SessionDB.open(small.path) as db, pytest.raises(DamagedFile, match="sessions repair"):
        db.list_sessions()


@pytest.mark.proves("repair.lost-tables")
def test_notes_of_the_program_come_back_from_pages_whose_table_is_lost(small: Specimen) -> None:
    with SessionDB.open(small.path) as db:
        for number in range(300):
            db.set_meta(f"note{number}", f"{number} " + "x" * 200)
    overwrite(small.path, rooted(small, "state_meta"), b"\xff" * PAGE)
    repair(small.path)
    with SessionDB.open(small.path) as db:
        found = [number for number in range(300) if str(db.get_meta(f"note{number}")).startswith(f"{number} ")]
    assert len(found) > 200


@pytest.mark.proves("repair.any-damage")
def test_rows_of_a_kind_that_cannot_be_are_left_out_on_loose_pages_too(small: Specimen) -> None:
    first, *_ = sorted(small.texts)
    retyped(small.path, "messages", f"UPDATE messages SET role = 17 WHERE id = {first}")
    overwrite(small.path, rooted(small, "messages"), b"\xff" * PAGE)
    repair(small.path)
    assert set(kept(small.path)) == set(small.texts) - {first}


@pytest.mark.proves("repair.any-damage")
def test_a_row_without_a_length_is_none(small: Specimen) -> None:
    page = bytearray(PAGE)
    page[0] = 13
    struct.pack_into(">H", page, 3, 1)
    struct.pack_into(">H", page, 8, PAGE - 8)
    before = len(list(Scan(Image(small.bytes)).rows()))
    assert len(list(Scan(Image(small.bytes + bytes(page))).rows())) == before


@pytest.mark.proves("repair.nothing-to-do")
def test_a_file_in_which_nothing_was_ever_stored_is_sound(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    connection = apsw.Connection(path)
    connection.pragma("application_id", APPLICATION_ID)
    connection.execute("CREATE TABLE migrations (name TEXT PRIMARY KEY, applied_at REAL)")
    connection.close()
    assert repair(path).problems == []
