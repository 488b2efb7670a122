"""Two programs go on with one conversation at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.session.context import in_tool_order, unanswered_calls
from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from pathlib import Path

    Messages = list[dict[str, Any]]

_ADD = '{"action": "add", "target": "user", "content": "Likes %s."}'


def calls(*ids: str) -> dict[str, Any]:
    made = [{"id": each, "type": "function", "function": {"name": "memory", "arguments": _ADD % each}} for each in ids]
    return {"role": "assistant", "content": None, "tool_calls": made}


def groups_are_whole(messages: Messages) -> bool:
    """What every model asks for: behind calls stand their results, all of them, and results stand nowhere else."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return False
            waiting.remove(message["tool_call_id"])
        elif waiting:
            return False
        else:
            waiting = [call["id"] for call in message.get("tool_calls") or ()]
    return not waiting or sorted(waiting) == sorted(unanswered_calls(messages))


@pytest.mark.moves_prefix(reason="two programs go on with one conversation, each with what it knows")
@pytest.mark.proves("session.order", "session.open-calls")
def test_a_conversation_that_two_programs_went_on_with_can_be_gone_on_with(home: Path) -> None:
    with MemorySession.open(home) as first:
        first.prepare_turn("hello")
        first.finish_turn("hi")
        with MemorySession.open(home, resume=first.id) as second:
            first.prepare_turn("from the first")
            first.record(calls("a1", "a2"))
            second.prepare_turn("from the second")
            second.record(calls("b1"))
            first.call_tool("memory", _ADD % "a1", call_id="a1")
            second.call_tool("memory", _ADD % "b1", call_id="b1")
            first.call_tool("memory", _ADD % "a2", call_id="a2")
            first.finish_turn("first done")
            second.finish_turn("second done")
    with MemorySession.open(home, resume=first.id) as third:
        sent = third.prepare_turn("go on").messages
        assert groups_are_whole(sent)
        said = [message["content"] for message in sent if message["role"] != "tool" and message["content"]]
        assert said[2:] == ["from the first", "from the second", "first done", "second done", "go on"]
        assert sum(message["role"] == "tool" for message in sent) == 3
        third.finish_turn("ok")


_ids = st.sampled_from("abcd")
_message = st.one_of(
    st.just({"role": "user", "content": "hello"}),
    st.just({"role": "assistant", "content": "hi"}),
    st.lists(_ids, min_size=1, max_size=3, unique=True).map(lambda ids: calls(*ids)),
    _ids.map(lambda each: {"role": "tool", "tool_call_id": each, "content": "done"}),
)


@pytest.mark.proves("session.order")
@given(st.lists(_message, max_size=12))
def test_any_order_becomes_one_that_models_take(messages: Messages) -> None:
    numbered = list(enumerate(messages))
    arranged = in_tool_order(numbered)
    assert groups_are_whole([dict(message) for _, message in arranged])
    assert in_tool_order(arranged) == arranged
    kept = {number for number, _ in arranged}
    assert all(number in kept for number, message in numbered if message["role"] != "tool"), "nothing said is lost"
