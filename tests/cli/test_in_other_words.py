"""What commands say where it seldom comes to it: nothing changed, something set aside, something lost."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from damaged import alter
from provider_plugins import Notebook, use

from hermes.base.errors import ProviderError
from hermes.conversations.database import SessionDB
from hermes.providers.delivery import Outbox
from hermes.session.session import MemorySession
from hermes.storage.documents import LocalDocuments

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

    Command = Callable[..., Ran]


@pytest.mark.proves("ground.words")
def test_a_backup_that_is_restored_twice_changes_nothing_the_second_time(home: Path, hermes: Command) -> None:
    hermes("memory", "add", "Likes walruses.")
    backup = hermes("backup", "create", "--json").json["path"]
    hermes("memory", "add", "Likes herons.")
    assert hermes("backup", "restore", backup, "--yes", "--json").json["changed"] is True
    assert "walruses" in hermes("memory", "list").out
    assert "herons" not in hermes("memory", "list").out
    again = hermes("backup", "restore", backup, "--yes")
    assert (again.code, "holds exactly this already; nothing was changed" in again.out) == (0, True)


@pytest.mark.proves("ground.words", "providers.status")
def test_what_a_provider_keeps_elsewhere_and_what_it_refused_are_told(home: Path, hermes: Command) -> None:
    class Elsewhere(Notebook):
        def backup_paths(self) -> list[str]:
            return [os.fspath(home.parent / "ledger.db")]

    def refuse(*_: object) -> None:
        raise ProviderError("no", kind="refused", status=400)

    (home.parent / "ledger.db").write_text("x")
    use(home, Elsewhere())
    assert f"with what the provider keeps at {home.parent}/ledger.db" in hermes("backup", "create").out
    outbox = Outbox(LocalDocuments(str(home)), "notebook")
    outbox.put("sync_turn", {"user": "tea?", "assistant": "yes", "session_id": "s", "messages": []})
    for _ in range(3):
        outbox.deliver(refuse)
    assert "! 1 call refused and set aside" in hermes("memory", "status").out


@pytest.mark.proves("ground.words", "providers.status")
def test_a_provider_that_lacks_something_is_told_with_the_command_that_asks_for_it(home: Path, hermes: Command) -> None:
    class Lacking(Notebook):
        def is_available(self) -> bool:
            return False

    use(home, Lacking())
    told = hermes("memory", "status").out
    assert "! not available: packages or settings are missing (`hermes memory setup`)" in told


@pytest.mark.proves("ground.words")
def test_what_a_repair_could_not_keep_is_told(home: Path, hermes: Command) -> None:
    with SessionDB.open(home / "state.db") as db:
        first, second = db.create_session(title="First"), db.create_session(title="Second")
        for session in (first, second):
            db.append_many(session, [{"role": "user", "content": f"number {n}"} for n in range(4)])
    alter(
        str(home / "state.db"),
        "UPDATE messages SET content = 'forged' WHERE content = 'number 2'",
        "UPDATE sessions SET title = 'Forged' WHERE title = 'Second'",
        "DELETE FROM sessions WHERE title = 'First'",
    )
    told = hermes("sessions", "repair").out
    assert "2 messages were altered; they are left out and kept in unverified.jsonl" in told
    assert f"sessions that lost their titles: {second}" in told
    assert "messages whose session is lost are in: " in told
    assert "is sound; nothing to repair" in hermes("sessions", "repair").out


@pytest.mark.proves("ground.words")
def test_a_repair_counts_a_single_thing_in_the_singular(home: Path, hermes: Command) -> None:
    with SessionDB.open(home / "state.db") as db:
        session = db.create_session(title="Only")
        db.append_many(session, [{"role": "user", "content": f"number {n}"} for n in range(2)])
    alter(str(home / "state.db"), "UPDATE messages SET content = 'forged' WHERE content = 'number 1'")
    told = hermes("sessions", "repair", "--dry-run").out
    assert "can keep 1 message in 1 session\n" in told
    assert "1 message was altered; it is left out and kept in unverified.jsonl\n" in told


@pytest.mark.proves("ground.words")
def test_room_inside_the_file_is_told_with_the_option_that_gives_it_back(home: Path, hermes: Command) -> None:
    with SessionDB.open(home / "state.db", durability="turn") as db:
        gone = db.create_session(title="Gone")
        db.append_many(gone, [{"role": "user", "content": os.urandom(2000).hex()} for _ in range(300)])
    assert hermes("sessions", "delete", "Gone", "--yes", "--json").json["sessions"] == [gone]
    assert "are free inside the file; --vacuum gives them back" in hermes("sessions", "optimize").out
    assert "free inside the file" not in hermes("sessions", "optimize", "--vacuum").out


@pytest.mark.proves("ground.words")
def test_an_import_that_cannot_begin_says_why(home: Path, hermes: Command, tmp_path: Path) -> None:
    assert "there is no file" in hermes("sessions", "import", str(tmp_path / "none.jsonl"), "--format", "jsonl").err
    assert "cannot be read: Is a directory" in hermes("sessions", "import", str(tmp_path), "--format", "jsonl").err
    wrong = hermes("sessions", "import", str(tmp_path), "--watch", "--interval", "0")
    assert "--interval 0: expected seconds, more than 0 and at most a day" in wrong.err


@pytest.mark.proves("ground.words")
def test_memory_that_is_switched_off_is_no_line_of_the_status(home: Path, hermes: Command) -> None:
    with MemorySession.open(home) as session:
        session.prepare_turn("hello")
        session.finish_turn("hello to you")
    hermes("config", "set", "memory.memory_enabled", "false")
    hermes("config", "set", "memory.user_profile_enabled", "false")
    assert hermes("status", "--json").json["memory"] == {}
    assert hermes("status").code == 0
