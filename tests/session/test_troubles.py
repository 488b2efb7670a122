"""What is broken beside a conversation does not stop it: unreadable notes, histories, states and caches."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from agents import configure
from curation_home import FILLER, curator, store_with

from hermes import Agent, MemorySession, SessionDB
from hermes.base.errors import NotFound, StorageError
from hermes.base.events import ToolReturned
from hermes.llm.scripted import Reply, Scripted
from hermes.memory.store import MemoryStore
from hermes.session import lifecycle as episodes
from hermes.session.lifecycle import Titles

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran


DARK = ("Prefers dark mode.", "Prefers dark mode in the terminal.", "Uses vim.", "Has a dog.", "Bakes.")


def unreadable(path: Path) -> None:
    """A folder where a file is expected: nobody can read it, not even root."""
    if path.exists():
        path.unlink()
    path.mkdir()


def turn(session: MemorySession, said: str, reply: str = "Noted.") -> None:
    session.prepare_turn(said)
    session.finish_turn(reply)


@pytest.mark.proves("session.announce")
def test_an_unreadable_history_of_memory_has_nothing_to_announce(home: Path) -> None:
    MemoryStore.open(home).add("user", "Likes tea.")
    unreadable(home / "memories/USER.md.history.jsonl")
    with MemorySession.open(home) as session:
        assert "is a folder, not a regular file" in session.system_prompt  # the model is told, and so is the person
        assert session.prepare_turn("hello").messages == [{"role": "user", "content": "hello"}]


@pytest.mark.proves("archive.found")
def test_an_unreadable_archive_leaves_a_search_of_conversations_as_it_is(home: Path) -> None:
    with MemorySession.open(home) as session:
        turn(session, "The walrus lives in the harbour.")
    MemoryStore.open(home).add("memory", "Uses vim.")
    unreadable(home / "memories/MEMORY.md.history.jsonl")
    with MemorySession.open(home) as session:
        session.prepare_turn("where was it?")
        found = json.loads(session.call_tool("session_search", {"query": "walrus"}))
    assert (found["count"], "archived_memory" in found) == (1, False)


@pytest.mark.proves("archive.found")
def test_an_archived_entry_that_another_took_over_is_found_with_that_one(home: Path) -> None:
    store_with(home, *DARK)
    curator(home).run()
    with MemorySession.open(home) as session:
        session.prepare_turn("which mode?")
        found = json.loads(session.call_tool("session_search", {"query": "Prefers dark mode"}))
    (entry,) = found["archived_memory"]
    assert (entry["entry"], entry["now"]) == ("Prefers dark mode.", "Prefers dark mode in the terminal.")


@pytest.mark.proves("session.front-door")
def test_there_is_nothing_to_take_back_before_anything_was_said(home: Path) -> None:
    with MemorySession.open(home) as session, pytest.raises(NotFound, match="nothing to undo"):
        session.undo()


@pytest.mark.proves("capture.setting")
def test_what_cannot_be_captured_stays_in_the_conversation(home: Path) -> None:
    configure(home, "memory: {capture: 'on', when_full: refuse, user_char_limit: 200}\n")
    MemoryStore.open(home).add("user", "x" * 190)
    with MemorySession.open(home) as session:
        turn(session, "My name is Ada.")
        unreadable(home / "memories/USER.md")
        turn(session, "I live in Berlin.")
        said = [message["content"] for message in session.request().messages]
    assert said == ["My name is Ada.", "Noted.", "I live in Berlin.", "Noted."]


@pytest.mark.proves("capture.correction")
def test_a_fact_that_left_for_the_archive_comes_back_when_it_is_spoken_of(home: Path) -> None:
    configure(home, "memory: {capture: 'on', user_char_limit: 200}\n")
    with MemorySession.open(home) as session:
        turn(session, "My timezone is Europe/Lisbon.")
        MemoryStore.open(home).add("user", "x" * 190)
        assert [each.entry for each in MemoryStore.open(home).archived("user")] == ["User's timezone is Europe/Lisbon."]
        turn(session, "Actually, my timezone is Europe/Berlin.")
    store = MemoryStore.open(home)
    both = [*store.entries("user"), *(each.entry for each in store.archived("user"))]
    assert "User's timezone is Europe/Berlin." in store.entries("user")
    assert "User's timezone is Europe/Lisbon." not in both


@pytest.mark.proves("curator.commands")
def test_a_switch_of_the_curator_that_cannot_be_read_is_off_and_written_anew(
    home: Path, hermes: Callable[..., Ran]
) -> None:
    hermes("curator", "pause")
    (state,) = [path for path in home.rglob("*") if path.is_file() and b"paused" in path.read_bytes()]
    state.write_text("{not JSON")
    assert hermes("curator", "status", "--json").json["paused"] is False
    hermes("curator", "pause")
    assert hermes("curator", "status", "--json").json["paused"] is True


@pytest.mark.proves("curator.undo")
def test_a_run_over_memory_that_is_switched_off_now_is_taken_back_by_nobody(
    home: Path, hermes: Callable[..., Ran]
) -> None:
    store_with(home, *DARK)
    assert hermes("curator", "run").code == 0
    configure(home, "memory: {memory_enabled: false, user_profile_enabled: false}\n")
    ran = hermes("curator", "undo")
    assert (ran.code, "memory is switched off" in ran.err) == (1, True)


@pytest.mark.proves("curator.undo", "skills.lifecycle")
def test_what_a_run_cannot_do_is_told_and_the_rest_is_done(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store_with(home, *DARK)
    skill = home / "skills/brew/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: brew\ndescription: How to brew tea.\n---\nBoil water.\n")

    def full(*_: Any, **__: Any) -> Any:
        raise StorageError("No space left on device")

    monkeypatch.setattr("hermes.skills.files.archive", full)
    monkeypatch.setattr(MemoryStore, "curate", full)
    report = curator(home, hours=400 * 24).run()
    assert report["refused"] == [
        "memory was left as it is: No space left on device",
        "the skill brew stays where it is: No space left on device",
    ]
    assert (report["changes"], report["skills"], skill.exists()) == ([], [], True)
    assert "Prefers dark mode." in MemoryStore.open(home).entries("memory")


@pytest.mark.proves("curator.proposals")
def test_an_entry_that_was_changed_while_the_helper_thought_is_left_alone(home: Path) -> None:
    configure(home, "curator: {consolidate: true}\n")
    store_with(home, "Prefers dark mode.", "Prefers dark mode in the terminal.", *FILLER)

    def slow(_system: str, _text: str) -> str:
        MemoryStore.open(home).replace("memory", "Prefers dark mode in the terminal.", "Prefers a light terminal.")
        return "[]"

    assert curator(home, ask=slow).run()["changes"] == []
    assert {"Prefers dark mode.", "Prefers a light terminal."} <= set(MemoryStore.open(home).entries("memory"))


@pytest.mark.proves("episode.note")
def test_a_note_that_cannot_be_written_does_not_spoil_the_end(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any) -> None:
        raise StorageError("No space left on device")

    monkeypatch.setattr(episodes, "write_note", full)
    with MemorySession.open(home) as session:
        turn(session, "Move the billing service.")
    assert "was not written: No space left on device" in caplog.text
    with SessionDB.open(home / "state.db") as db:
        assert len(list(db.messages(session.id))) == 2


@pytest.mark.proves("nudge.survives")
def test_counts_that_cannot_be_read_begin_anew(home: Path) -> None:
    with MemorySession.open(home) as session:
        turn(session, "one")
    with SessionDB.open(home / "state.db") as db:
        db.set_meta(session.counters._key, "{half")
    with MemorySession.open(home, resume=session.id) as session:
        assert session.counters.turns == 0
        turn(session, "two")
        assert session.counters.turns == 1


@pytest.mark.proves("session.frozen-prompt")
def test_a_cache_of_judgements_that_can_be_neither_read_nor_kept_costs_nothing_else(home: Path, tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    (home / ".judged").mkdir(parents=True)
    with MemorySession.open(home, cwd=str(tmp_path)) as session:
        assert "Use tabs." in session.system_prompt
    assert sorted(path.name for path in home.iterdir() if path.name.endswith(".tmp")) == []


@pytest.mark.proves("agent.titles")
def test_a_helper_that_still_thinks_holds_nobody_up() -> None:
    import threading

    go, named = threading.Event(), list[str]()

    def slow(_system: str, _text: str) -> str:
        go.wait()
        return "Backups"

    Titles(named.append, None).start("!!!", "Sure.")
    assert named == []  # no words, no name
    titles = Titles(named.append, slow)
    titles.start("how do I back it up?", "Sure.")
    titles.settle()
    assert named == ["How do I back it up?"]
    go.set()
    titles.settle(10)
    assert named == ["How do I back it up?", "Backups"]


@pytest.mark.proves("session.hints")
def test_arguments_that_are_no_object_lead_into_no_folder(home: Path, tmp_path: Path) -> None:
    calls = [("read_file", "{half"), ("read_file", "[]")]
    with Agent.open(home, model=Scripted([*(Reply(calls=[call]) for call in calls), "ok"]), cwd=str(tmp_path)) as agent:
        results = [json.loads(each.result) for each in agent.turn("go") if isinstance(each, ToolReturned)]
    assert ["success" in each and not each["success"] for each in results] == [True, True]


@pytest.mark.proves("agent.toolsets")
def test_a_tool_of_the_host_belongs_to_its_toolset(home: Path) -> None:
    class Kettle:
        toolset = "web"
        schema: dict[str, Any] = {"name": "kettle", "description": "", "parameters": {"type": "object"}}  # noqa: RUF012

        def call(self, arguments: dict[str, Any]) -> dict[str, Any]:
            return {"success": True, **arguments}

    def offered(toolsets: list[str]) -> bool:
        with MemorySession.open(home, tools=[Kettle()], toolsets=toolsets) as session:
            return "kettle" in [tool["function"]["name"] for tool in session.request().tools]

    assert (offered(["memory"]), offered(["memory", "web"])) == (False, True)


@pytest.mark.proves("session.resume")
def test_a_session_that_cannot_be_opened_leaves_the_database_closed(home: Path, hermes: Callable[..., Ran]) -> None:
    with MemorySession.open(home) as session:
        turn(session, "hello")

    shutil.rmtree(home / "memories", ignore_errors=True)
    (home / "memories").symlink_to("/etc")
    with pytest.raises(StorageError):
        MemorySession.open(home)
    assert not [name for name in os.listdir("/proc/self/fd") if str(home) in _target(name)]
    assert hermes("tool", "memory", '{"action": "add", "target": "memory", "content": "x"}').code == 1


def _target(name: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{name}")
    except OSError:  # it was the one that listed them
        return ""
