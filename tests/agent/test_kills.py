"""A process that is killed in the middle of a turn, and what the next one finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hermes import Agent, SessionDB
from hermes.base.events import TurnFinished
from hermes.llm.scripted import Reply, Scripted
from soak.agent import run_kills, wire_problems
from soak.common import Options

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.proves("agent.kills")
def test_killed_at_random_points_a_conversation_resumes_valid_and_complete(tmp_path: Path) -> None:
    outcome = run_kills(12, Options(folder=str(tmp_path), seed=3, quiet=True))
    assert outcome.failures == []
    assert outcome.figures["acknowledged"] > 0


@pytest.mark.proves("agent.kills", "agent.interrupt")
def test_a_turn_that_a_dead_process_left_is_marked_before_the_next_one(home: Path) -> None:
    agent = Agent.open(home, model=Scripted([Reply(calls=[("todo", {}), ("todo", {})])]))
    events = agent.turn("begin")
    for _ in range(3):
        next(events)
    # As if killed: nothing is closed, another process opens the conversation.
    with Agent.open(home, model=Scripted(["fine"]), resume=agent.session.id) as again:
        *_, end = again.turn("are you there?")
        assert wire_problems(again.session.request()) == []
    assert isinstance(end, TurnFinished)
    with SessionDB.open(home / "state.db") as db:
        messages = [each.message for each in db.messages(agent.session.id)]
    marked = [each["content"] for each in messages if each.get("interrupted")]
    assert marked == ["[This turn was broken off before there was an answer.]"]
    events.close()  # type: ignore[attr-defined]  # turn is a generator
    agent.close()
