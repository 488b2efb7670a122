"""Reviews, notes and tidying that cannot be done: the turn and its end go on, and status tells why."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from reviewed import BREW, TEA, chat, outcome, settings

from hermes import Agent, MemorySession, SessionDB
from hermes.base.errors import StorageError
from hermes.llm.scripted import Reply, Scripted
from hermes.memory.store import MemoryStore
from hermes.session import review
from hermes.session.review import Reviews, last_review

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.proves("review.failure")
def test_a_helper_that_cannot_be_had_is_told_by_status_and_one_switched_off_is_not_missed(home: Path) -> None:
    settings(home, auxiliary__background_review={"provider": "nobody", "model": "none"})
    agent, model = chat(home, ["Noted."])
    assert len(model.requests) == 1
    assert (outcome(agent)["status"], "'nobody'" in outcome(agent)["error"]) == ("failed", True)
    agent.close()
    settings(home, auxiliary__background_review={"enabled": False})
    agent, model = chat(home, ["Noted."])
    assert len(model.requests) == 1
    agent.close()


@pytest.mark.proves("review.failure")
def test_an_outcome_that_cannot_be_kept_is_logged(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings(home)
    real = SessionDB.set_meta

    def full(db: SessionDB, name: str, value: str) -> None:
        if name == review.LAST_REVIEW:
            raise StorageError("No space left on device")
        real(db, name, value)

    monkeypatch.setattr(SessionDB, "set_meta", full)
    agent, _ = chat(home, ["Noted.", Reply(calls=[("memory", TEA)]), "done"])
    agent.close()
    assert "the outcome of a review could not be kept: No space left on device" in caplog.text
    assert MemoryStore.open(home).entries("user") == (TEA["content"],)


@pytest.mark.proves("review.failure")
def test_tidying_that_fails_is_told_by_status(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings(home, sessions__auto_prune=True)

    def broken(*_: Any) -> None:
        raise RuntimeError("no such table")

    monkeypatch.setattr("hermes.session.review.prune", broken)
    with Agent.open(home, model=Scripted(["hi"])) as agent:
        assert agent.reviews.wait(20)
        found = last_review(agent.session.database)
    assert found is not None
    assert (found["status"], found["error"]) == ("failed", "tidying: no such table")


@pytest.mark.proves("review.toolbox")
def test_a_review_of_skills_where_memory_is_not_offered_cannot_write_memory(home: Path) -> None:
    settings(home, memory__nudge_interval=0, skills__creation_nudge_interval=1)
    calls = [("memory", TEA), ("skill_manage", BREW)]
    steps = [Reply(calls=[("skills_list", {})]), "Looked.", Reply(calls=calls), "done"]
    agent, model = chat(home, steps, toolsets=["skills"])
    results = [json.loads(each["content"]) for each in model.requests[3].messages if each["role"] == "tool"]
    assert [each["success"] for each in results[1:]] == [False, True]
    assert "nobody can be asked" in results[1]["error"]
    agent.close()


@pytest.mark.proves("review.toolbox", "skills.approval")
def test_skills_of_a_review_wait_for_a_person_where_all_of_them_do(home: Path) -> None:
    settings(home, skills__write_approval=True)
    agent, _ = chat(home, ["Noted.", Reply(calls=[("skill_manage", BREW)]), "done"])
    agent.close()
    assert not (home / "skills/brew").exists()
    assert list((home / "pending/skills").iterdir())


@pytest.mark.proves("review.curation", "review.notice")
@pytest.mark.parametrize("how", ["on", "off"])
def test_contradictions_are_shown_once_nothing_else_changed(home: Path, how: str) -> None:
    settings(home, curator__interval_hours=1, curator__min_idle_hours=0, display__memory_notifications=how)
    store = MemoryStore.open(home)
    for entry in ("The deploy host is atlas-7.", "The deploy host is boreas-2."):
        store.add("memory", entry)
    with Agent.open(home, model=Scripted(["hi"])):
        pass
    (home / "curator/state.json").write_text(json.dumps({"first_seen": time.time() - 7200}))
    with Agent.open(home, model=Scripted(["hi"])) as agent:
        assert agent.reviews.wait(20)
        told = [each.text for each in agent.session.notices.take()]
    assert [text.partition("(")[0] for text in told] == (
        ["Which holds? 'The deploy host is atlas-7.' or 'The deploy host is boreas-2.' "] if how == "on" else []
    )


def _talk(home: Path) -> str:
    with MemorySession.open(home) as session:
        for asked in ("Please move billing to atlas-7.", "We decided to keep the old host.", "Is it done?"):
            session.prepare_turn(asked)
            session.finish_turn("It is done.")
    return session.id


@pytest.mark.proves("episode.model")
@pytest.mark.parametrize(
    ("helper", "goal"),
    [
        ({"model": "scripted:note.json"}, "Goal: Move billing."),
        ({"provider": "nobody", "model": "none"}, "Goal: Please move billing to atlas-7."),
        ({"enabled": False}, "Goal: Please move billing to atlas-7."),
    ],
)
def test_the_helper_of_summaries_writes_notes_when_the_settings_say_so(
    home: Path, helper: dict[str, Any], goal: str
) -> None:
    settings(home, memory__nudge_interval=0, sessions__notes="model", auxiliary__compression=helper)
    written = json.dumps({"goal": "Move billing.", "outcome": "Done."})
    (home / "note.json").write_text(json.dumps([written]))
    session_id = _talk(home)
    with SessionDB.open(home / "state.db") as db:
        (note,) = db.messages(f"{session_id}.note")
    assert goal in note.text


@pytest.mark.proves("review.close")
def test_nothing_is_tidied_while_a_review_runs(home: Path) -> None:
    settings(home, sessions__auto_prune=True)
    go = threading.Event()
    with MemorySession.open(home) as session:
        reviews = Reviews(session)
        reviews._in_background(go.wait, "review")
        assert not reviews.tidy_if_due()
        go.set()
        assert reviews.wait(20)
