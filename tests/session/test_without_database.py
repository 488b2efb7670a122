"""`state.db` is locked or damaged: the conversation goes on with a notice, and is stored when that works again."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import apsw
import gateway_home
import http_service
import pytest
from agents import configure
from engines import database_of
from telegram_server import bot_api
from terminal_program import Terminal, script

from hermes import Agent, MemorySession, SessionDB
from hermes.base.errors import DamagedFile, ForeignFile, LockTimeout, StorageError
from hermes.base.events import Notice, TurnFinished
from hermes.llm.scripted import Reply, Scripted
from hermes.memory.store import MemoryStore
from hermes.storage.local.repair.check import repair

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Ran


@contextlib.contextmanager
def locked(home: Path, how: str = "EXCLUSIVE") -> Iterator[None]:
    """Another program keeps the database locked."""
    other = apsw.Connection(str(home / "state.db"))
    other.execute(f"BEGIN {how}")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


def turn(session: MemorySession, said: str, reply: str = "Noted.") -> None:
    session.prepare_turn(said)
    session.finish_turn(reply, usage={"input_tokens": 100, "output_tokens": 10})


def stored(home: Path, session_id: str) -> list[str]:
    with SessionDB.open(home / "state.db") as db:
        return [each.text for each in db.messages(session_id)]


def told(session: MemorySession) -> str:
    return " | ".join(event.text for event in session.notices.take())


def overwrite(home: Path, how: str) -> None:
    path = home / "state.db"
    for name in ("state.db-wal", "state.db-shm"):
        (home / name).unlink(missing_ok=True)
    content = bytearray(path.read_bytes())
    match how:
        case "not a database":
            content[:] = b"these are not the bytes of a database" * 200
        case "pages":
            content[2048:] = b"\xa5" * (len(content) - 2048)
        case "schema":
            at = content.index(b"CREATE TABLE sessions")
            content[at : at + 21] = b"CREATE TUBLE sessions"
        case "cut":
            del content[len(content) // 3 :]
    path.write_bytes(content)


@pytest.fixture
def quick(home: Path) -> Path:
    """A home whose sessions wait briefly for a lock, with one past conversation."""
    configure(home, "sessions: {lock_wait_seconds: 0.05}\n")
    with MemorySession.open(home, title="Past") as session:
        turn(session, "The walrus lives in the harbour.")
    return home


@pytest.mark.proves("private.stored", "private.sent", "failure.locked")
def test_private_words_stay_in_memory_while_the_database_is_locked(quick: Path) -> None:
    said = "the code is <private>swordfish</private>"
    with MemorySession.open(quick) as session:
        turn(session, said)
        with locked(quick):
            turn(session, f"again: {said}")
            assert [each["content"] for each in session.request().messages[::2]] == [said, f"again: {said}"]
            assert not [path for path in quick.rglob("*") if path.is_file() and b"swordfish" in path.read_bytes()]
        turn(session, "and now?")
        assert [each["content"] for each in session.request().messages[:3:2]] == [said, f"again: {said}"]
    assert stored(quick, session.id)[:3:2] == ["the code is [private]", "again: the code is [private]"]


@pytest.mark.proves("failure.locked")
def test_a_lock_in_the_middle_of_a_session_delays_what_is_stored_and_loses_nothing(quick: Path) -> None:
    with MemorySession.open(quick) as session:
        turn(session, "one")
        prompt = session.system_prompt
        with locked(quick):
            turn(session, "two")
            assert "another program" in (notice := told(session))
            assert "unsaved/" in notice
            turn(session, "three <private>1234</private>")
            assert told(session) == ""  # once
            assert stored_reading(quick, session.id) == ["one", "Noted."]
        request = session.prepare_turn("four")
        assert "4 messages of this conversation stored" in told(session)
        session.finish_turn("Noted.")
        assert session.system_prompt == prompt
        assert [message["content"] for message in request.messages][::2] == [
            *("one", "two", "three <private>1234</private>", "four")
        ]
    assert stored(quick, session.id)[::2] == ["one", "two", "three [private]", "four"]
    with SessionDB.open(quick / "state.db") as db:
        row = db.get_session(session.id)
        assert (row.api_call_count, row.input_tokens, row.ended_at is not None) == (3, 300, True)
        assert not database_of(db).rows("SELECT key FROM state_meta WHERE key LIKE '%unsaved%'")
    assert not (quick / "unsaved").exists()


def stored_reading(home: Path, session_id: str) -> list[str]:
    with SessionDB.open(home / "state.db", reading=True) as db:
        return [each.text for each in db.messages(session_id)]


@pytest.mark.proves("failure.locked")
def test_a_session_that_opens_and_closes_during_a_lock_is_stored_by_the_next_one(quick: Path) -> None:
    with locked(quick):
        with MemorySession.open(quick, title="Urgent", model="m") as session:
            assert "until it is free" in told(session)
            turn(session, "Remember the heron.")
            session.call_tool("memory", {"action": "add", "target": "memory", "content": "Likes herons."})
            session.finish_turn("Done.")
        assert "the next session adds it" in told(session)
        assert MemoryStore.open(quick).entries("memory") == ("Likes herons.",)
    with MemorySession.open(quick) as following:
        assert "5 messages that could not be stored before are in state.db now" in told(following)
        following.prepare_turn("where was it?")
        found = json.loads(following.call_tool("session_search", {"query": "heron"}))
        assert found["count"] >= 1
    with SessionDB.open(quick / "state.db") as db:
        row = db.get_session(session.id)
        assert (row.title, row.model, row.end_reason, row.input_tokens) == ("Urgent", "m", "agent_close", 100)
        assert db.session_details(session.id)["system_prompt"] == session.system_prompt
    assert not (quick / "unsaved").exists()
    with MemorySession.open(quick, resume="Urgent") as again:
        assert again.request().messages[0]["content"] == "Remember the heron."


@pytest.mark.proves("failure.locked")
def test_a_conversation_is_resumed_and_searched_during_a_lock(quick: Path) -> None:
    with locked(quick, "IMMEDIATE"), MemorySession.open(quick, resume="Past") as session:
        request = session.prepare_turn("and the seal?")
        assert request.messages[0]["content"] == "The walrus lives in the harbour."
        found = json.loads(session.call_tool("session_search", {"query": "walrus"}))
        assert found["success"], found
        session.finish_turn("In the bay.")
    with MemorySession.open(quick, resume="Past") as session:
        said = [each["content"] for each in session.request().messages if each["role"] == "user"]
    assert said == ["The walrus lives in the harbour.", "and the seal?"]


@pytest.mark.proves("failure.locked")
def test_where_a_lock_keeps_readers_out_the_model_is_told_at_once(quick: Path) -> None:
    connection = apsw.Connection(str(quick / "state.db"))
    connection.pragma("journal_mode", "delete")  # in this mode a writer keeps readers out, too
    connection.execute("BEGIN EXCLUSIVE")
    with MemorySession.open(quick) as session:
        session.prepare_turn("where was it?")
        found = json.loads(session.call_tool("session_search", {"query": "walrus"}))
        assert (found["success"], found["unavailable"]) == (False, True)
        assert "held by another program" in found["error"]
        session.finish_turn("I cannot look now.")
    connection.execute("ROLLBACK")
    connection.close()
    MemorySession.open(quick).close()
    assert stored(quick, session.id)[0] == "where was it?"


@pytest.mark.proves("failure.locked")
def test_a_killed_process_leaves_what_it_could_not_store_and_nothing_comes_in_twice(quick: Path) -> None:
    program = """
import os, sys
from hermes import MemorySession
session = MemorySession.open(sys.argv[1])
session.prepare_turn("said before the kill")
os.kill(os.getpid(), 9)
"""
    with locked(quick):
        subprocess.run([sys.executable, "-c", program, str(quick)], check=False)
    (left,) = (quick / "unsaved").glob("*.db")
    kept = {path.name: path.read_bytes() for path in (quick / "unsaved").iterdir()}
    MemorySession.open(quick).close()
    with SessionDB.open(quick / "state.db") as db:
        (session,) = [each for each in db.list_sessions() if each.preview == "said before the kill"]
        # As if the process had been killed between storing the conversation and removing the file.
        db.set_meta(f"unsaved:{left.name}", 1 << 40)
    (quick / "unsaved").mkdir()
    for name, content in kept.items():
        (quick / "unsaved" / name).write_bytes(content)
    MemorySession.open(quick).close()
    assert (stored(quick, session.id), (quick / "unsaved").exists()) == (["said before the kill"], False)


@pytest.mark.proves("failure.locked")
def test_undo_rename_and_compaction_work_during_a_lock(quick: Path) -> None:
    with MemorySession.open(quick, context_length=20_000) as session:
        turn(session, "keep this")
        turn(session, "forget this")
        with locked(quick):
            turn(session, "said during the lock")
            assert session.undo() == "said during the lock"
            assert session.undo() == "forget this"
            session.rename("Renamed")
            with pytest.raises(StorageError, match="cannot be branched"):
                session.branch()
            for number in range(12):
                turn(session, f"number {number} " + "word " * 300, "answer " * 300)
            assert session.compact() is not None
            turn(session, "after the compaction")
        turn(session, "still here")
    said = stored(quick, session.id)
    assert [text.split(" word")[0] for text in said[::2]] == [
        "keep this",
        *[f"number {number}" for number in range(12)],
        "after the compaction",
        "still here",
    ]
    with SessionDB.open(quick / "state.db") as db:
        assert db.get_session(session.id).title == "Renamed"


@pytest.mark.proves("failure.damaged")
@pytest.mark.parametrize("how", ["not a database", "pages", "schema", "cut"])
def test_a_session_opens_over_a_damaged_database_and_is_stored_after_the_repair(quick: Path, how: str) -> None:
    overwrite(quick, how)
    with MemorySession.open(quick) as session:
        turn(session, "Which animal?")
        assert "hermes sessions repair" in told(session)
        found = json.loads(session.call_tool("session_search", {"query": "walrus"}))
        assert (found["success"], found["unavailable"]) == (False, True)
        assert "hermes sessions repair" in found["error"]
        saved = json.loads(
            session.call_tool("memory", {"action": "add", "target": "memory", "content": "Likes herons."})
        )
        assert saved["success"]
        session.finish_turn("Saved.")
    repair(str(quick / "state.db"))
    MemorySession.open(quick).close()
    assert stored(quick, session.id)[0] == "Which animal?"
    assert not (quick / "unsaved").exists()


@pytest.mark.proves("failure.damaged")
def test_damage_in_the_middle_of_a_session_is_told_and_a_repair_ends_it(quick: Path) -> None:
    with MemorySession.open(quick) as session:
        turn(session, "one")
        other = apsw.Connection(str(quick / "state.db"))
        other.execute("INSERT INTO state_meta (key, value) VALUES ('1:other', 'program')")
        other.wal_checkpoint(None, apsw.SQLITE_CHECKPOINT_TRUNCATE)
        other.close()
        with (quick / "state.db").open("r+b") as file:
            whole = file.read()
            file.seek(2048)
            file.write(b"\xa5" * (len(whole) - 2048))
        turn(session, "two")
        assert "hermes sessions repair" in told(session)
        turn(session, "three")
        assert told(session) == ""
        repaired = quick / "repaired.db"  # as `hermes sessions repair` or a backup puts it in place
        repaired.write_bytes(whole)
        repaired.replace(quick / "state.db")
        turn(session, "four")
        assert "4 messages of this conversation stored" in told(session)
    assert stored(quick, session.id)[::2] == ["one", "two", "three", "four"]


@pytest.mark.proves("failure.damaged")
def test_a_damaged_database_cannot_be_resumed_from(quick: Path) -> None:
    overwrite(quick, "not a database")
    with pytest.raises(DamagedFile, match="hermes sessions repair"):
        MemorySession.open(quick, resume="Past")


@pytest.mark.proves("failure.strict")
@pytest.mark.parametrize("by", ["keyword", "setting"])
def test_a_host_can_demand_that_everything_is_stored(quick: Path, by: str) -> None:
    if by == "setting":
        configure(quick, "sessions: {lock_wait_seconds: 0.05, required: true}\n")
    must = True if by == "keyword" else None
    with MemorySession.open(quick, must_store=must) as session:
        turn(session, "one")
        with locked(quick):
            with pytest.raises(LockTimeout):
                session.prepare_turn("two")
            with pytest.raises(LockTimeout):
                MemorySession.open(quick, must_store=must)
        turn(session, "two")
    overwrite(quick, "not a database")
    with pytest.raises(DamagedFile):
        MemorySession.open(quick, must_store=must)
    assert not (quick / "unsaved").exists()


@pytest.mark.proves("failure.strict")
def test_a_database_of_another_program_is_refused_and_left_alone(home: Path) -> None:
    home.mkdir(parents=True, exist_ok=True)
    other = apsw.Connection(str(home / "state.db"))
    other.execute("CREATE TABLE recipes (name TEXT); INSERT INTO recipes VALUES ('soup')")
    other.close()
    with pytest.raises(ForeignFile, match="another program"):
        MemorySession.open(home)


@pytest.mark.proves("failure.locked")
def test_an_agent_answers_and_delegates_during_a_lock(quick: Path) -> None:
    task = Reply(calls=[("delegate_task", {"goal": "Count to three."})])
    with locked(quick), Agent.open(quick, model=Scripted([task, "1 2 3", "Counted."])) as agent:
        events = list(agent.turn("count"))
        (end,) = [event for event in events if isinstance(event, TurnFinished)]
        assert end.reply == "Counted."
        assert any("another program" in event.text for event in events if isinstance(event, Notice))
    MemorySession.open(quick).close()
    with SessionDB.open(quick / "state.db") as db:
        sources = sorted(each.source for each in db.list_sessions() if each.message_count)
        assert stored(quick, agent.session.id)[0] == "count"
        assert db.get_session(agent.session.id).title == "Count"
    assert "cli" in sources


@pytest.mark.proves("failure.locked", "failure.damaged")
def test_the_chat_goes_on_through_a_lock_and_over_a_damaged_file(home: Path) -> None:
    script(home, {"when": "", "text": "Understood."})
    with Terminal(home) as terminal:
        terminal.wait_for_prompt()
        terminal.say("first words")
        terminal.wait_for("Understood.")
        (home / "config.yaml").write_text((home / "config.yaml").read_text() + "sessions: {lock_wait_seconds: 0.05}\n")
        terminal.say("/new")
        terminal.wait_for("new conversation")
        with locked(home):
            terminal.say("during the lock")
            terminal.wait_for("has state.db locked")
            terminal.wait_for_prompt()
        terminal.say("after the lock")
        terminal.wait_for("2 messages of this conversation stored")
    overwrite(home, "not a database")
    with Terminal(home) as terminal:
        terminal.wait_for("state.db is damaged")
        terminal.wait_for_prompt()
        terminal.say("over a damaged file")
        terminal.wait_for("Understood.")
        terminal.say("/quit")
        terminal.wait_for("is not in state.db yet")
        assert terminal.wait_for_end() == 0


@pytest.mark.proves("failure.locked", "failure.damaged")
def test_one_question_is_answered_and_the_notice_goes_to_standard_error(home: Path, hermes: Callable[..., Ran]) -> None:
    script(home, {"when": "", "text": "Understood."})
    assert hermes("-q", "first words").code == 0
    with (home / "config.yaml").open("a") as file:
        file.write("sessions: {lock_wait_seconds: 0.05}\n")
    with locked(home):
        ran = hermes("-q", "during the lock")
        assert (ran.code, ran.out) == (0, "Understood.\n")
        assert "another program has state.db locked" in ran.err
        assert "during the lock" not in hermes("sessions", "list").out
        assert "first words" in hermes("sessions", "list").out.lower()  # reading does not need the lock
    overwrite(home, "not a database")
    ran = hermes("-q", "over a damaged file", "--json")
    assert (ran.code, ran.json["reply"]) == (0, "Understood.")
    assert "hermes sessions repair" in ran.json["notices"][0]


@pytest.mark.proves("failure.locked", "failure.damaged")
def test_the_gateway_answers_with_a_notice(home: Path) -> None:
    with bot_api() as api:
        gateway_home.prepare(home, api, settings="sessions: {lock_wait_seconds: 0.05}\n")
        ann = home / "users" / "ann"
        with gateway_home.running(home) as gateway:
            assert gateway_home.ask(api, gateway, gateway_home.ANN, "first words") == "Understood."
            with locked(ann):
                told = gateway_home.ask(api, gateway, gateway_home.ANN, "during the lock")
            assert "Understood." in told
            assert "has state.db locked" in told
            assert "2 messages" in gateway_home.ask(api, gateway, gateway_home.ANN, "after the lock")
        overwrite(ann, "not a database")
        with gateway_home.running(home) as gateway:
            told = gateway_home.ask(api, gateway, gateway_home.ANN, "over a damaged file")
            assert "Understood." in told
            assert "hermes sessions repair" in told


@pytest.mark.proves("failure.locked", "failure.damaged")
def test_the_http_server_chats_and_serves_memory_without_its_database(home: Path) -> None:
    keys = http_service.prepare(home, [{"when": "", "text": "Understood."}], "sessions: {lock_wait_seconds: 0.05}\n")
    ann = home / "users" / "ann"
    with http_service.listening(home, keys) as up, up.client("ann") as http:
        asked = {"model": "hermes", "messages": [{"role": "user", "content": "first words"}]}
        assert http.post("/v1/chat/completions", json=asked).status_code == 200
    for how in ("locked", "damaged"):
        if how == "damaged":
            overwrite(ann, "not a database")
        with (
            locked(ann) if how == "locked" else contextlib.nullcontext(),
            http_service.listening(home, keys) as up,
            up.client("ann") as http,
        ):
            answer = http.post("/v1/chat/completions", json=asked)
            assert answer.json()["choices"][0]["message"]["content"] == "Understood."
            assert http.get("/api/v1/memory/user").status_code == 200
            listed = http.get("/api/v1/sessions")
            assert listed.status_code == (200 if how == "locked" else 503), listed.text
            assert how == "locked" or listed.json()["error"]["code"] == "storage"  # the operator's log says more


@pytest.mark.proves("failure.told")
def test_status_doctor_and_one_question_say_what_happened(quick: Path, hermes: Callable[..., Ran]) -> None:
    with locked(quick), MemorySession.open(quick) as session:
        turn(session, "unsaved words")
    status = hermes("status", "--json").json
    assert [each["open"] for each in status["sessions"]["unsaved"]] == [False]
    assert "1 conversation" in hermes("status").out
    assert "not in state.db" in hermes("doctor").out
    overwrite(quick, "not a database")
    ran = hermes("status")
    assert "hermes sessions repair" in ran.out
    ran = hermes("sessions", "repair")
    assert "2 messages that could not be stored before are in state.db now" in ran.out
    assert stored(quick, session.id) == ["unsaved words", "Noted."]
