"""The note a conversation leaves behind: what it says, where it is found, and where it is not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from hermes import MemorySession, SessionDB
from hermes.base.errors import ModelBusy
from hermes.memory.store import MemoryStore
from hermes.session.lifecycle import write_note

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

TALK = (
    ("Please move the billing service to atlas-7.", "I started; the database is copied."),
    ("We decided to keep the old host until Friday.", "Noted."),
    ("Is the DNS entry changed?", "It is done. One thing is still pending here, boreas-2."),
)


def talk(home: Path, *turns: tuple[str, str], resume: str | None = None) -> str:
    with MemorySession.open(home, resume=resume) as session:
        for asked, said in turns:
            session.prepare_turn(asked)
            session.finish_turn(said)
    return session.id


def note(home: Path, session_id: str) -> str:
    with SessionDB.open(home / "state.db") as db:
        (message,) = db.messages(f"{session_id}.note")
    return message.text


@pytest.mark.proves("episode.note")
def test_a_conversation_that_ends_leaves_a_dated_note(home: Path) -> None:
    session_id = talk(home, *TALK)
    written = note(home, session_id)
    assert written.startswith("Note on the conversation of 20")
    assert "Goal: Please move the billing service to atlas-7." in written
    assert "Outcome: It is done. One thing is still pending here, boreas-2." in written
    assert "Decisions:\n- We decided to keep the old host until Friday." in written
    assert "boreas-2" in written.partition("Open:")[2]


@pytest.mark.proves("episode.note")
def test_a_conversation_that_goes_on_gets_a_new_note_in_place_of_the_old(home: Path) -> None:
    session_id = talk(home, TALK[0], TALK[0], TALK[1])
    first = note(home, session_id)
    talk(home, TALK[2], resume=session_id)
    assert "Outcome: Noted." in first
    assert "Outcome: It is done." in note(home, session_id)
    talk(home, resume=session_id)
    assert "Outcome: It is done." in note(home, session_id)


@pytest.mark.proves("episode.note")
def test_a_single_exchange_and_a_switched_off_setting_leave_none(home: Path, hermes: Callable[..., Ran]) -> None:
    short = talk(home, *TALK[:2])
    hermes("config", "set", "sessions.notes", "off")
    silent = talk(home, *TALK)
    with SessionDB.open(home / "state.db") as db:
        assert db.find_session(f"{short}.note") is None
        assert db.find_session(f"{silent}.note") is None


@pytest.mark.proves("episode.search")
def test_a_note_is_searched_with_the_conversations_and_injected_nowhere(home: Path, hermes: Callable[..., Ran]) -> None:
    session_id = talk(home, *TALK)
    with SessionDB.open(home / "state.db") as db:
        found = {hit.session_id for hit in db.search("note on the conversation billing service")}
        assert f"{session_id}.note" in found
        assert [each.id for each in db.list_sessions()] == [session_id]
        assert len(db.messages(session_id)) == 6
        details = db.messages(session_id)
    assert not any("Note on the conversation" in message.text for message in details)
    with MemorySession.open(home, resume=session_id) as resumed:
        assert len(resumed.request().messages) == 6
    with MemorySession.open(home) as fresh:
        assert "billing" not in fresh.system_prompt
    hermes("sessions", "delete", session_id, "--yes")
    with SessionDB.open(home / "state.db") as db:
        assert db.find_session(f"{session_id}.note") is None


@pytest.mark.proves("episode.model")
def test_a_helpers_note_is_taken_when_it_names_only_what_was_said(home: Path, hermes: Callable[..., Ran]) -> None:
    hermes("config", "set", "sessions.notes", "off")
    session_id = talk(home, *TALK)

    def answering(**fields: object) -> Callable[[str, str], str]:
        return lambda _system, _told: json.dumps({"goal": "Move billing.", "outcome": "Done.", **fields})

    def failing(_system: str, _told: str) -> str:
        raise ModelBusy("overloaded")

    with SessionDB.open(home / "state.db") as db:
        messages = [each.message for each in db.messages(session_id)]
        write_note(db, session_id, messages, answering(decisions=["Keep the old host."], open=["Remove boreas-2"]))
    assert "Goal: Move billing.\nOutcome: Done.\nDecisions:\n- Keep the old host.\nOpen:" in note(home, session_id)
    for bad in (answering(outcome="Moved to evil-99."), lambda *_: "It went well!", lambda *_: "[1]", failing):
        with SessionDB.open(home / "state.db") as db:
            write_note(db, session_id, messages, bad)
        assert "Goal: Please move the billing service" in note(home, session_id)


@pytest.mark.proves("episode.use")
def test_entries_that_came_up_in_a_conversation_count_as_used(home: Path) -> None:
    store = MemoryStore.open(home)
    store.add("memory", "The billing service runs beside the database.")
    store.add("memory", "The gardener comes on Tuesdays.")
    talk(home, *TALK)
    uses = {entry: marks.uses for entry, marks in store.marks("memory").items()}
    assert list(uses.values()) == [1, 0]
