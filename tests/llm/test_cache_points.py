"""Anthropic cache points: where they go, and that marking costs the same for any history."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.base.errors import SettingsError
from hermes.llm.anthropic import Anthropic, cache_points
from hermes.llm.client import Endpoint

MARK = {"type": "ephemeral"}
SYSTEM = {"role": "system", "content": "You are Hermes."}


def talk(turns: int) -> list[dict[str, Any]]:
    return [{"role": ("user", "assistant")[n % 2], "content": f"message {n}"} for n in range(turns)]


def with_cache_points(messages: list[dict[str, Any]], *, native: bool = True) -> list[Any]:
    marked = cache_points(messages, native=native)
    return [marked.get(position, message) for position, message in enumerate(messages)]


@pytest.mark.proves("prompt.cache.where")
def test_the_system_prompt_and_the_last_three_messages_are_marked() -> None:
    marked = with_cache_points([SYSTEM, *talk(10)])
    assert [n for n, message in enumerate(marked) if "cache_control" in str(message)] == [0, 8, 9, 10]


@pytest.mark.proves("prompt.cache.where")
@pytest.mark.parametrize(("turns", "expected"), [(0, [0]), (1, [0, 1]), (2, [0, 1, 2]), (3, [0, 1, 2, 3])])
def test_a_short_conversation_has_as_many_points_as_messages(turns: int, expected: list[int]) -> None:
    assert sorted(cache_points([SYSTEM, *talk(turns)])) == expected


@pytest.mark.proves("prompt.cache.where")
def test_without_a_system_message_only_the_last_three_are_marked() -> None:
    assert sorted(cache_points(talk(5))) == [2, 3, 4]
    assert cache_points([]) == {}
    claude = Anthropic(Endpoint(model="m", base_url="https://example.com", wire="anthropic", cache_points="native"))
    sent = json.loads(claude.body("You are Hermes.", talk(1), []))
    assert sent["system"] == [{"type": "text", "text": "You are Hermes.", "cache_control": MARK}]
    assert "system" not in json.loads(claude.body("", talk(1), []))


@pytest.mark.proves("prompt.cache.content")
def test_string_content_becomes_one_text_part_with_the_point() -> None:
    marked = cache_points([{"role": "user", "content": "hello", "name": "ada"}])[0]
    assert marked == {
        "role": "user",
        "name": "ada",
        "content": [{"type": "text", "text": "hello", "cache_control": MARK}],
    }


@pytest.mark.proves("prompt.cache.content")
def test_in_a_list_the_last_part_gets_the_point() -> None:
    parts: list[dict[str, Any]] = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:"}},
    ]
    marked = cache_points([{"role": "user", "content": parts}])[0]
    assert marked["content"] == [parts[0], {**parts[1], "cache_control": MARK}]


@pytest.mark.proves("prompt.cache.content")
def test_a_part_the_api_refuses_a_point_on_is_passed_over() -> None:
    parts = [{"type": "text", "text": "so"}, {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": ""}]
    marked = cache_points([{"role": "assistant", "content": parts}])[0]
    assert marked["content"] == [{**parts[0], "cache_control": MARK}, *parts[1:]]


@pytest.mark.proves("prompt.cache.content")
@pytest.mark.parametrize("content", [None, "", []])
def test_an_empty_message_carries_the_point_itself_on_the_native_api_and_none_elsewhere(content: object) -> None:
    message = {"role": "assistant", "content": content, "tool_calls": [{"id": "1"}]}
    assert cache_points([message])[0] == {**message, "cache_control": MARK}
    history = [*talk(4), message]
    assert sorted(cache_points(history, native=False)) == [1, 2, 3]


@pytest.mark.proves("prompt.cache.content")
def test_a_tool_result_carries_the_point_itself_on_the_native_api_and_in_its_text_elsewhere() -> None:
    message = {"role": "tool", "tool_call_id": "1", "content": "done"}
    assert cache_points([message])[0] == {**message, "cache_control": MARK}
    elsewhere = cache_points([message], native=False)[0]
    assert elsewhere["content"] == [{"type": "text", "text": "done", "cache_control": MARK}]


@pytest.mark.proves("prompt.cache.ttl")
def test_the_hour_long_point_names_its_ttl_and_any_other_ttl_is_a_settings_error() -> None:
    assert cache_points(talk(1), ttl="1h")[0]["content"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    with pytest.raises(SettingsError, match=r'prompt_caching\.cache_ttl is \'10m\'.*"5m" or "1h"'):
        cache_points(talk(1), ttl="10m")


class Watched(list[dict[str, Any]]):
    """A history that counts how many of its messages are looked at."""

    looked = 0

    def __getitem__(self, position: Any) -> Any:
        self.looked += 1
        return super().__getitem__(position)

    def __iter__(self) -> Any:
        raise AssertionError("the history was walked")


@pytest.mark.proves("prompt.cache.cost")
def test_marking_looks_at_as_many_messages_of_a_long_history_as_of_a_short_one() -> None:
    looked = []
    for turns in (10, 10_000):
        history = Watched([SYSTEM, *talk(turns)])
        cache_points(history)
        looked.append(history.looked)
    assert looked[0] == looked[1] <= 16


PARTS = st.lists(
    st.fixed_dictionaries({"type": st.sampled_from(["text", "thinking", "image"]), "text": st.text()}) | st.none()
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["system", "user", "assistant", "tool"]),
            "content": st.none() | st.text() | PARTS,
        }
    )
)


@pytest.mark.proves("prompt.cache.cost")
@given(MESSAGES, st.booleans())
def test_the_history_is_never_changed_and_never_gets_more_than_four_points(
    messages: list[dict[str, Any]],
    native: bool,
) -> None:
    before = copy.deepcopy(messages)
    marked = with_cache_points(messages, native=native)
    assert messages == before
    assert sum(str(new) != str(old) for new, old in zip(marked, messages, strict=True)) <= 4
    assert sum(new is not old for new, old in zip(marked, messages, strict=True)) <= 4
