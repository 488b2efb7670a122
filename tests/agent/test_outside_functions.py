"""Functions that a client of the server runs itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hermes import Agent, MemorySession
from hermes.base.events import TurnFinished
from hermes.llm.scripted import Reply, Scripted

if TYPE_CHECKING:
    from pathlib import Path

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
ADD = ("memory", {"action": "add", "target": "user", "content": "Lives in Oslo."})


@pytest.mark.proves("agent.outside")
def test_a_call_of_a_clients_function_ends_the_turn_and_its_result_goes_on_with_it(home: Path) -> None:
    model = Scripted([Reply(text="Let me look.", calls=[ADD, ("weather", {"city": "Oslo"})]), "Rain."])
    with Agent(MemorySession.open(home), model) as agent:
        *_, end = agent.turn_with([WEATHER], "weather here?")
        assert isinstance(end, TurnFinished)
        assert (end.reason, end.reply) == ("tool_calls", "Let me look.")
        [call] = end.message["tool_calls"]
        assert call["function"]["name"] == "weather"
        result = {"role": "tool", "tool_call_id": call["id"], "content": "rain"}
        *_, end = agent.turn_with([WEATHER], None, [result])
        assert isinstance(end, TurnFinished)
        assert (end.reason, end.reply) == ("stop", "Rain.")
        roles = [each["role"] for each in agent.session.context.messages]
    assert roles == ["user", "assistant", "tool", "tool", "assistant"]
    names = [tool["function"]["name"] for tool in model.requests[0].tools]
    assert {"memory", "session_search"} < set(names)
    assert names[-1] == "weather"


@pytest.mark.proves("agent.outside")
def test_a_clients_function_takes_the_place_of_a_tool_of_the_same_name(home: Path) -> None:
    theirs = {"type": "function", "function": {"name": "memory", "parameters": {"type": "object"}}}
    model = Scripted([Reply(calls=[ADD])])
    with Agent(MemorySession.open(home), model) as agent:
        *_, end = agent.turn_with([theirs], "I live in Oslo")
    assert isinstance(end, TurnFinished)
    assert end.reason == "tool_calls"
    assert [tool for tool in model.requests[0].tools if tool["function"]["name"] == "memory"] == [theirs]
