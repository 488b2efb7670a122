"""OpenViking's client on answers that other versions give, and turns in every form."""

from __future__ import annotations

from typing import Any

import pytest
from wire_server import WireService

from hermes.base.errors import ProviderError
from hermes.providers.service import Turn
from hermes.providers.services.openviking import OpenViking, as_messages


class Answers(WireService):
    """Gives the same answer to everything."""

    def __init__(self, status: int, content: Any) -> None:
        super().__init__()
        self._given = status, content

    def answer(self, asked: Any) -> tuple[int, Any]:
        del asked
        return self._given


def client(service: WireService) -> OpenViking:
    return OpenViking(service.url, "", account="default", user="ada", agent="hermes", recall_seconds=5.0)


@pytest.mark.proves("openviking.tools")
@pytest.mark.parametrize(
    ("content", "kind", "said"),
    [
        ({"result": {"surprise": 1}}, "malformed", "without results"),
        ({"status": "error", "error": {"message": "no such search"}}, "refused", "no such search"),
        ({"status": "error", "error": "no such search"}, "refused", "no such search"),
    ],
)
def test_an_answer_that_is_an_error_or_none_says_so(content: Any, kind: str, said: str) -> None:
    with Answers(200, content) as service, pytest.raises(ProviderError, match=said) as caught:
        client(service).find("parrots", limit=5)
    assert caught.value.kind == kind


@pytest.mark.proves("openviking.once")
def test_what_is_there_already_is_written_and_what_is_not_there_is_nothing() -> None:
    with Answers(409, {"status": "error", "error": {"message": "it exists"}}) as service:
        client(service).write("viking://user/ada/memories/a.md", "tea")
    with Answers(422, {"status": "error", "error": {"message": "no"}}) as service, pytest.raises(ProviderError):
        client(service).write("viking://user/ada/memories/a.md", "tea")
    with Answers(404, {"status": "error", "error": {"message": "gone"}}) as service:
        api = client(service)
        api.drop_session("s1")
        found = (api.delete("viking://x"), api.has_turn("s1", "k"), api.outcome("t"), api.below("viking://user/ada"))
    assert found == (0, False, ("completed", ""), [])
    with Answers(200, {"result": {}}) as service, pytest.raises(ProviderError, match="without results"):
        client(service).find("parrots", limit=3)


@pytest.mark.proves("openviking.parts")
def test_a_call_without_result_waits_and_odd_arguments_are_kept_as_they_came() -> None:
    calls = [
        {"id": "a", "function": {"name": "run", "arguments": "{not json"}},
        {"id": "b", "function": {"name": "run", "arguments": "[1]"}},
        {"id": "c", "function": {"name": "run", "arguments": {"n": 1}}},
    ]
    steps = [
        {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "one"}, "odd"]},
    ]
    turn = Turn(user="count", assistant="one", session="s1", steps=steps, key="")
    [said, answer] = as_messages(turn, agent="hermes", own=())
    assert "turn_id" not in said
    tools = [(part["tool_id"], part["tool_input"], part["tool_status"]) for part in answer["parts"][:-1]]
    assert tools == [
        ("a", {"arguments": "{not json"}, "pending"),
        ("b", {}, "pending"),
        ("c", {"n": 1}, "completed"),
    ]
    assert answer["parts"][2]["tool_output"] == "one"
