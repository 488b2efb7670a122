"""`hermes sessions repair`: original bytes kept, every readable row back, an account of the rest."""

from __future__ import annotations

import json
import os
import signal
import stat
from typing import TYPE_CHECKING

import apsw
import pytest

from hermes.base.errors import LockTimeout
from hermes.conversations.database import SessionDB
from hermes.storage.local.database import PAGE, one_row
from hermes.storage.local.repair.check import repair
from soak.sessions_damage import Specimen

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran


@pytest.fixture
def specimen(home: Path) -> Specimen:
    home.mkdir(mode=0o700)
    return Specimen(os.fspath(home), messages=120, sessions=4)


def _kept(path: str) -> dict[int, str]:
    with SessionDB.open(path) as db:
        return {m.id: m.text for session in db.list_sessions(limit=1000) for m in db.messages(session.id)}


@pytest.mark.proves("repair.nothing-to-do")
def test_a_sound_database_is_left_as_it_is(specimen: Specimen, hermes: Callable[..., Ran]) -> None:
    ran = hermes("sessions", "repair")
    assert (ran.code, "sound" in ran.out) == (0, True)
    with open(specimen.path, "rb") as file:
        assert file.read() == specimen.bytes
    assert not [name for name in os.listdir(os.path.dirname(specimen.path)) if "damaged" in name]


@pytest.mark.proves("repair.keeps-original", "repair.account")
def test_the_original_bytes_and_an_account_are_kept_privately(specimen: Specimen, hermes: Callable[..., Ran]) -> None:
    victim = min(specimen.texts)
    connection = apsw.Connection(specimen.path)
    connection.execute("UPDATE messages SET content = 'forged' WHERE id = ?", (victim,))
    connection.close()
    with open(specimen.path, "rb") as file:
        before = file.read()
    told = hermes("sessions", "repair", "--json").json
    assert (told["messages_kept"], told["messages_altered"], told["messages_lost"]) == (119, 1, 0)
    with open(os.path.join(told["backup"], "state.db"), "rb") as file:
        assert file.read() == before
    with open(os.path.join(told["backup"], "unverified.jsonl"), encoding="utf-8") as file:
        assert json.loads(file.read())["content"] == "forged"
    modes = {stat.S_IMODE(os.stat(os.path.join(told["backup"], name)).st_mode) for name in os.listdir(told["backup"])}
    assert (modes, stat.S_IMODE(os.stat(told["backup"]).st_mode)) == ({0o600}, 0o700)
    assert _kept(specimen.path) == {i: text for i, text in specimen.texts.items() if i != victim}
    assert hermes("sessions", "repair", "--json").json["sound"]


@pytest.mark.proves("repair.dry-run")
def test_a_dry_run_says_what_would_be_kept_and_changes_nothing(specimen: Specimen, hermes: Callable[..., Ran]) -> None:
    specimen.put(specimen.bytes[: len(specimen.bytes) // 2])
    ran = hermes("sessions", "repair", "--dry-run")
    assert (ran.code, "can keep" in ran.out) == (0, True)
    assert os.path.getsize(specimen.path) == len(specimen.bytes) // 2
    assert not [name for name in os.listdir(os.path.dirname(specimen.path)) if "damaged" in name]


@pytest.mark.proves("repair.lost-tables")
@pytest.mark.parametrize("table", ["sessions", "blocks", "owners", "session_details", "state_meta", "messages"])
def test_messages_come_back_when_the_root_page_of_a_table_is_destroyed(specimen: Specimen, table: str) -> None:
    connection = apsw.Connection(specimen.path)
    root = one_row(connection, "SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,))[0]
    connection.close()
    start = (root - 1) * PAGE
    specimen.put(specimen.bytes[:start] + os.urandom(PAGE) + specimen.bytes[start + PAGE :])
    told = repair(specimen.path)
    assert told.salvaged is not None
    assert _kept(specimen.path) == specimen.texts


@pytest.mark.proves("repair.lost-tables")
def test_messages_of_a_lost_session_stay_together_in_a_salvage_session(specimen: Specimen) -> None:
    connection = apsw.Connection(specimen.path)
    connection.execute(
        "PRAGMA foreign_keys = OFF; DELETE FROM sessions WHERE key = 2; DELETE FROM blocks WHERE session = 3"
    )
    connection.close()
    told = repair(specimen.path)
    assert told.salvaged is not None
    assert told.salvaged.salvage_sessions == ["salvaged-2"]
    assert _kept(specimen.path) == specimen.texts
    with SessionDB.open(specimen.path) as db:
        assert db.get_session("salvaged-2").source == "salvage"
        assert db.search("mark7x")[0].message_id in specimen.texts


@pytest.mark.proves("repair.lost-tables")
def test_a_destroyed_header_costs_nothing(specimen: Specimen) -> None:
    specimen.put(os.urandom(PAGE) + specimen.bytes[PAGE:])
    repair(specimen.path)
    assert _kept(specimen.path) == specimen.texts


@pytest.mark.proves("repair.truncated")
@pytest.mark.parametrize("share", [0.9, 0.5])
def test_a_truncated_file_gives_back_what_it_still_holds(tmp_path: Path, share: float) -> None:
    specimen = Specimen(os.fspath(tmp_path), messages=1200)
    specimen.put(specimen.bytes[: int(len(specimen.bytes) * share)])
    repair(specimen.path)
    kept = _kept(specimen.path)
    assert kept.items() <= specimen.texts.items()
    assert len(kept) >= (share - 0.05) * len(specimen.texts)


@pytest.mark.proves("repair.log")
def test_messages_that_are_only_in_the_log_come_back_even_behind_a_broken_frame(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with SessionDB.open(path) as db:
        name = db.create_session()
        ids = [db.append(name, {"role": "user", "content": f"logged {n} " + "x" * 3000}) for n in range(30)]
        copy = tmp_path / "copy"
        copy.mkdir()
        log = bytearray((tmp_path / "state.db-wal").read_bytes())
        (copy / "state.db").write_bytes(path.read_bytes())
    log[len(log) // 2] ^= 4
    (copy / "state.db-wal").write_bytes(log)
    told = repair(os.fspath(copy / "state.db"))
    assert told.problems[0].startswith("the log")
    assert len(_kept(os.fspath(copy / "state.db"))) >= len(ids) - 2


@pytest.mark.proves("repair.deleted")
def test_deleted_sessions_do_not_come_back(specimen: Specimen) -> None:
    with SessionDB.open(specimen.path) as db:
        gone = {message.id for message in db.messages(specimen.names[0])}
        db.delete(specimen.names[0])
    connection = apsw.Connection(specimen.path)
    root = one_row(connection, "SELECT rootpage FROM sqlite_schema WHERE name = 'messages'")[0]
    connection.close()
    with open(specimen.path, "r+b") as file:
        file.seek((root - 1) * PAGE)
        file.write(bytes(PAGE))
    repair(specimen.path)
    assert _kept(specimen.path) == {i: text for i, text in specimen.texts.items() if i not in gone}


@pytest.mark.proves("repair.index")
def test_an_index_that_lost_a_message_is_made_anew(specimen: Specimen) -> None:
    connection = apsw.Connection(specimen.path)
    connection.execute("DELETE FROM messages_fts WHERE rowid = ?", (min(specimen.texts),))
    connection.close()
    told = repair(specimen.path)
    assert any("missing in the index" in problem for problem in told.problems)
    with SessionDB.open(specimen.path) as db:
        assert min(specimen.texts) in {hit.message_id for hit in db.search("mark0x", limit=5)}


@pytest.mark.proves("repair.alone")
def test_a_database_that_another_program_has_open_is_not_swapped_under_it(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with SessionDB.open(path) as db:
        db.create_session()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        held = SessionDB.open(path)
        os.write(writer, b"open" if held.list_sessions() else b"none")
        signal.pause()  # until it is ended
    assert os.read(reader, 4) == b"open"
    try:
        with pytest.raises(LockTimeout, match=f"process {child}"):
            repair(os.fspath(path))
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)
