"""A power cut during a long turn loses at most the answer that is being streamed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from power import Disk

from hermes.agent import Agent
from hermes.base.events import TextDelta
from hermes.llm.scripted import Reply, Scripted
from hermes.session.session import MemorySession
from hermes.storage.local import database

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk(tmp_path)
    monkeypatch.setattr(database, "_to_disk", made)
    return made


@pytest.mark.proves("session.power-cut")
def test_the_persons_message_and_every_tool_result_are_on_the_disk_when_they_are_recorded(
    tmp_path: Path, disk: Disk
) -> None:
    with MemorySession.open(tmp_path) as session:
        session.prepare_turn("What do I like?")
        assert disk.texts(session.id) == ["What do I like?"]
        first = session.call_tool("memory", {"action": "add", "target": "memory", "content": "Likes tea."})
        assert disk.texts(session.id)[-1] == first
        call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
        session.record({"role": "assistant", "content": None, "tool_calls": [call]})
        session.record_result("call_1", "Sunny.")
        assert disk.texts(session.id)[-1] == "Sunny."
        before = disk.syncs
        session.finish_turn("Tea, in the sun.")
        assert (before, disk.syncs) == (3, 4)  # one for each of them and one for the answer, whatever is recorded


@pytest.mark.proves("session.power-cut")
def test_only_the_answer_that_is_being_streamed_can_be_lost(tmp_path: Path, disk: Disk) -> None:
    adds = Reply(calls=[("memory", {"action": "add", "target": "memory", "content": "Likes tea."})])
    with Agent(MemorySession.open(tmp_path), Scripted([adds, "I will remember the tea."])) as agent:
        seen = [disk.texts(agent.session.id) for event in agent.turn("I like tea.") if isinstance(event, TextDelta)]
        assert seen[0][0] == "I like tea."
        assert "Likes tea." in seen[0][-1]
        assert disk.texts(agent.session.id)[-1] == "I will remember the tea."


@pytest.mark.proves("session.power-cut")
def test_a_history_is_synced_once_and_not_for_each_message(tmp_path: Path, disk: Disk) -> None:
    with MemorySession.open(tmp_path) as session:
        for number in range(10):
            call = {"id": f"c{number}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
            session.record({"role": "user", "content": f"question {number}"}, sync=False)
            session.record({"role": "assistant", "content": None, "tool_calls": [call]}, sync=False)
            session.record({"role": "tool", "tool_call_id": f"c{number}", "content": "seen"}, sync=False)
            session.record({"role": "assistant", "content": "answer"}, sync=False)
        assert disk.syncs == 0
        session.prepare_turn("And now?")
        assert disk.syncs == 1
        assert len(disk.texts(session.id)) == 41
