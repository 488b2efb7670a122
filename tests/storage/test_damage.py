"""Damage: altered text is never shown as genuine, writing stops at once, reading goes on where it can."""

from __future__ import annotations

import contextlib
import os
import random
from typing import TYPE_CHECKING

import apsw
import pytest

from hermes.base.errors import DamagedFile, StorageError
from hermes.conversations.database import SessionDB
from hermes.storage.local.database import PAGE
from hermes.storage.local.repair.check import repair
from soak import sessions_clock, sessions_owners, sessions_processes
from soak.common import Options, Outcome
from soak.sessions_damage import KINDS, Specimen, damaged, killed_writer, try_damage
from soak.sessions_kills import run as run_kills

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database of two sessions, closed."""
    place = tmp_path / "state.db"
    with SessionDB.open(place) as db:
        for name in ("first", "second"):
            db.create_session(session_id=name, title=f"Title of {name}", system_prompt=f"prompt of {name}")
            db.append_many(name, [{"role": "user", "content": f"{name} said number{n}"} for n in range(40)])
        db.append("first", {"role": "user", "content": [{"type": "text", "text": "packedword"}]})
        db.index()
    return place


def _alter(path: Path, *statements: str) -> None:
    """Changes stored values as a disk would: without our program, so no checksum follows."""
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement)
    connection.close()


@pytest.mark.proves("repair.altered-text")
@pytest.mark.parametrize(
    "change",
    [
        "content = replace(content, 'number7', 'number8')",
        "content = CAST(x'ff' || content AS TEXT)",
        "content = 17",
        "role = 'assistant'",
        "timestamp = timestamp + 1",
        "name = 'somebody'",
        'extra = \'{"content": "forged"}\'',
        "id = id + 1000",
    ],
)
def test_an_altered_message_is_shown_as_damaged_and_never_as_text(path: Path, change: str) -> None:
    _alter(path, f"UPDATE messages SET {change} WHERE content LIKE 'first said number7'")
    with SessionDB.open(path) as db:
        shown = [message.text for message in db.messages("first") if not message.damaged]
        assert len(shown) == 40
        assert all(text == "packedword" or text.startswith("first said number") for text in shown)
        assert "first said number7" not in shown
        assert len(db.messages("second")) == 40


@pytest.mark.proves("repair.altered-text")
def test_a_search_leaves_altered_messages_out_and_says_so(path: Path) -> None:
    _alter(
        path,
        "UPDATE messages SET content = replace(content, 'said', 'swore') WHERE content LIKE '%number7'",
        "UPDATE messages SET content = CAST(substr(CAST(content AS BLOB), 1, 12) AS TEXT)"
        " WHERE instr(CAST(content AS BLOB), CAST('packedword' AS BLOB)) > 0",  # half of its JSON
    )
    with SessionDB.open(path) as db:
        found = db.search("number7", limit=50)
        assert not any("swore" in hit.snippet for hit in found)
        assert "hermes sessions repair" in (found.note or "")
        assert db.search("packedword number9")[0].snippet.endswith("number9<<<")


@pytest.mark.proves("repair.altered-session")
def test_an_altered_title_is_not_shown_and_a_session_of_unsure_owner_is_nobodys(path: Path) -> None:
    _alter(path, "UPDATE sessions SET title = 'Forged' WHERE id = 'first'", "INSERT INTO owners VALUES (2, 'eve')")
    _alter(path, "UPDATE sessions SET owner = 2 WHERE id = 'second'", "UPDATE blocks SET owner = 2 WHERE session = 2")
    with SessionDB.open(path) as db:
        assert [(session.id, session.title, session.damaged) for session in db.list_sessions()] == [
            ("first", None, True)
        ]
        assert len(db.messages("first")) == 41
    with SessionDB.open(path, owner="eve") as eve:
        assert eve.list_sessions() == []
        assert eve.find_session("second") is None
        assert eve.search("second said") == []


@pytest.mark.proves("repair.altered-session")
def test_messages_moved_to_another_session_are_not_believed_there(path: Path) -> None:
    _alter(path, "UPDATE blocks SET session = 2 WHERE session = 1")
    with SessionDB.open(path) as db:
        assert not any(message.text.startswith("first") for message in db.messages("second"))
        with contextlib.suppress(DamagedFile):  # tables that disagree may also be refused
            found = db.search('"first said number3"')  # genuine messages of the second session may be found instead
            assert not any("first" in hit.excerpt.text() for hit in found)


@pytest.mark.proves("repair.altered-session")
def test_an_altered_system_prompt_is_not_handed_out(path: Path) -> None:
    _alter(path, "UPDATE session_details SET system_prompt = 'obey' WHERE session = 1")
    with SessionDB.open(path) as db:
        assert db.session_details("first") == {}
        assert db.session_details("second")["system_prompt"] == "prompt of second"


@pytest.mark.proves("repair.refuses-writing")
def test_damage_that_was_seen_stops_every_write_and_names_the_repair(path: Path) -> None:
    _alter(path, "UPDATE messages SET content = 'forged' WHERE id = 40")
    with SessionDB.open(path) as db:
        db.messages("first")
        for write in (
            lambda: db.append("second", {"role": "user", "content": "x"}),
            db.create_session,
            lambda: db.rename("second", "New"),
            lambda: db.delete("second"),
            lambda: db.set_meta("key", "value"),
        ):
            with pytest.raises(DamagedFile, match="hermes sessions repair"):
                write()
        assert len(db.messages("second")) == 40


@pytest.mark.proves("repair.refuses-writing")
@pytest.mark.parametrize("kind", ["not a database", "empty pages", "cut short"])
def test_a_file_that_is_no_database_is_refused_with_the_repair(path: Path, kind: str) -> None:
    sound = path.read_bytes()
    path.write_bytes({"not a database": b"x" * 9000, "empty pages": bytes(len(sound)), "cut short": sound[:9000]}[kind])
    with pytest.raises(DamagedFile, match="hermes sessions repair"), SessionDB.open(path) as db:
        db.append("first", {"role": "user", "content": "x"})


@pytest.mark.proves("repair.any-damage")
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "truncation"])
def test_whatever_breaks_nothing_altered_is_served_and_repair_brings_the_rest_back(kind: str, tmp_path: Path) -> None:
    specimen = Specimen(os.fspath(tmp_path), messages=120, sessions=4)
    for number in range(3):
        bad = damaged(kind, specimen.bytes, random.Random(f"{kind}/{number}"))
        problems, _ = try_damage(specimen, bad, Outcome(name=kind))
        assert problems == []


@pytest.mark.proves("repair.any-damage")
def test_pointers_that_lead_to_one_page_twice_cost_no_message(tmp_path: Path) -> None:
    specimen = Specimen(os.fspath(tmp_path), messages=400)
    bad = bytearray(specimen.bytes)
    for start in range(PAGE, len(bad), PAGE):
        if bad[start] == 5 and bad[start + 4] > 0:  # an inner page of a table with two children or more
            first, second = (int.from_bytes(bad[start + at : start + at + 2], "big") for at in (12, 14))
            bad[start + first : start + first + 4] = bad[start + second : start + second + 4]
    problems, kept = try_damage(specimen, bytes(bad), Outcome(name="pointers"))
    assert problems == []
    assert kept == len(specimen.texts)


@pytest.mark.proves("repair.any-damage")
def test_a_flipped_bit_in_the_name_of_a_migration_is_damage_not_a_newer_version(path: Path) -> None:
    sound = path.read_bytes()
    path.write_bytes(sound.replace(b"m002_full_text_index", b"m002_full_text_i~dex"))
    with pytest.raises(DamagedFile, match="hermes sessions repair"):
        SessionDB.open(path)
    repair(os.fspath(path))
    with SessionDB.open(path) as db:
        assert db.search("number7")[0].session_id in ("first", "second")


@pytest.mark.proves("repair.replaced")
@pytest.mark.parametrize("how", ["renamed over", "removed"])
def test_a_database_replaced_under_an_open_handle_is_noticed_before_the_next_acknowledgement(
    path: Path, how: str
) -> None:
    backup = path.with_name("backup.db")
    backup.write_bytes(path.read_bytes())
    with SessionDB.open(path) as db:
        db.append("first", {"role": "user", "content": "before"})
        if how == "renamed over":
            os.replace(backup, path)
        else:
            path.unlink()
        with pytest.raises(StorageError, match="replaced or removed"):
            db.append("first", {"role": "user", "content": "after"})
        with pytest.raises(StorageError, match="replaced or removed"):
            db.sync()


@pytest.mark.proves("repair.replaced")
@pytest.mark.parametrize("side", ["-wal", "-shm"])
def test_an_append_after_the_log_was_removed_is_not_acknowledged(path: Path, side: str) -> None:
    with SessionDB.open(path) as db:
        db.append("first", {"role": "user", "content": "before"})
        os.unlink(f"{path}{side}")
        with pytest.raises(StorageError, match=f"state.db{side} was replaced or removed"):
            db.append("first", {"role": "user", "content": "after"})


@pytest.mark.proves("repair.schema")
def test_a_flipped_bit_in_the_schema_is_found_and_repaired(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data.replace(b"UPDATE sessions SET waiting = new.", b"UPDATE sessions SET waiting = nev."))
    assert any("sessions_wait" in problem for problem in repair(str(path), dry_run=True).problems)
    assert repair(str(path)).backup
    with SessionDB.open(path) as db:
        db.append("first", {"role": "user", "content": "a kite after the repair"})
        assert db.search("kite after repair")
        assert len(db.messages("first")) == 42


@pytest.mark.proves("repair.log")
def test_acknowledged_messages_behind_a_flipped_bit_of_the_log_come_back(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    texts = killed_writer(str(path), messages=40)
    log = tmp_path / "state.db-wal"
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 4
    log.write_bytes(data)
    with SessionDB.open(path) as db:  # SQLite drops the second half of its log, and nothing says so
        assert len(db.messages("killed")) < len(texts)
    (kept,) = tmp_path.glob("state.db-wal.kept-*")
    assert kept.read_bytes() == data
    assert repair(str(path)).salvaged
    with SessionDB.open(path) as db:
        assert len(set(texts) - {each.text for each in db.messages("killed")}) <= 1
    assert not list(tmp_path.glob("state.db-wal.kept-*"))


@pytest.mark.proves("repair.kills")
def test_what_a_killed_writer_acknowledged_is_there_in_order_and_searchable(tmp_path: Path) -> None:
    assert run_kills(25, _options(tmp_path)).failures == []


@pytest.mark.proves("repair.processes")
def test_sixteen_processes_write_and_read_without_being_told_that_it_is_locked(tmp_path: Path) -> None:
    work = sessions_processes.Work(processes=16, reading=True, appends=12)
    outcome = sessions_processes.run_work(work, 1, _options(tmp_path))
    assert outcome.failures == []
    assert outcome.figures["acknowledged"] == 16 * 12


@pytest.mark.proves("repair.clock")
def test_order_neighbours_and_listing_do_not_depend_on_the_clock(tmp_path: Path) -> None:
    assert sessions_clock.run(6, _options(tmp_path)).failures == []


@pytest.mark.proves("repair.owners")
def test_nothing_of_one_owner_is_reached_by_another_through_any_method(tmp_path: Path) -> None:
    assert sessions_owners.run(300, _options(tmp_path)).failures == []


def _options(folder: Path) -> Options:
    return Options(folder=os.fspath(folder), quiet=True)


@pytest.mark.proves("repair.any-damage")
def test_a_message_that_is_gone_beside_one_that_cannot_be_read_costs_no_other(path: Path) -> None:
    unreadable = "UPDATE messages SET content = CAST(x'ff' || content AS TEXT) WHERE content LIKE 'first%number5'"
    _alter(path, "DELETE FROM messages WHERE content LIKE 'first%number4'", unreadable)
    with SessionDB.open(path) as db:
        shown = [message.text for message in db.messages("first")]
    assert [text for text in shown if text.startswith("first said")] == [
        f"first said number{n}" for n in range(40) if n not in (4, 5)
    ]
