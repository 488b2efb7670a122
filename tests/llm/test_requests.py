"""What goes over the wire, beside what the official SDKs would send for the same conversation."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import anthropic
import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversations import AS_CLAUDE, CALLS, CLAUDE_TOOL, CONVERSATIONS, PLAIN, SYSTEM, THINKING, TOOL, text
from hermes.llm.anthropic import Anthropic
from hermes.llm.client import Endpoint
from hermes.llm.openai import OpenAICompatible

if TYPE_CHECKING:
    from collections.abc import Callable

MARK = {"type": "ephemeral"}
OPENAI = Endpoint(model="m", base_url="https://example.com/v1", provider="openai", key="k")
CLAUDE = Endpoint(model="m", base_url="https://example.com", provider="anthropic", key="k", max_output=99)
KINDS = list(CONVERSATIONS)


def captured(ask: Callable[[httpx2.Client], object]) -> httpx2.Request:
    """The request an SDK makes; nothing leaves the process."""
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(400, json={"error": {"message": "enough"}})

    with (
        httpx2.Client(transport=httpx2.MockTransport(answer)) as client,
        pytest.raises((openai.BadRequestError, anthropic.BadRequestError)),
    ):
        ask(client)
    return seen[0]


def openai_request(**given: Any) -> httpx2.Request:
    return captured(
        lambda client: openai.OpenAI(
            api_key="k", base_url="https://example.com/v1", http_client=client, max_retries=0
        ).chat.completions.create(model="m", stream=True, stream_options={"include_usage": True}, **given)
    )


def claude_request(**given: Any) -> httpx2.Request:
    return captured(
        lambda client: anthropic.Anthropic(
            api_key="k", base_url="https://example.com", http_client=client, max_retries=0
        ).messages.create(model="m", max_tokens=99, stream=True, **given)
    )


def ours_on_the_way(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a chat-completions server is meant to see: without the reasoning we keep for ourselves."""
    return [{key: part for key, part in each.items() if not key.startswith("reasoning")} for each in messages]


@pytest.mark.proves("llm.sdk-bytes")
@pytest.mark.parametrize("kind", KINDS)
def test_a_chat_completions_request_is_the_one_the_openai_sdk_makes(kind: str) -> None:
    messages = CONVERSATIONS[kind]
    ours = json.loads(OpenAICompatible(OPENAI).body(SYSTEM, messages, [TOOL]))
    system = {"role": "system", "content": SYSTEM}
    theirs = openai_request(messages=[system, *ours_on_the_way(messages)], tools=[TOOL])
    assert ours == json.loads(theirs.content)
    assert str(theirs.url) == OPENAI.base_url + OpenAICompatible.path
    assert OpenAICompatible(OPENAI).headers().items() <= dict(theirs.headers).items()


@pytest.mark.proves("llm.sdk-bytes")
@pytest.mark.parametrize("kind", KINDS)
def test_a_messages_request_is_the_one_the_anthropic_sdk_makes(kind: str) -> None:
    ours = json.loads(Anthropic(CLAUDE).body(SYSTEM, CONVERSATIONS[kind], [TOOL]))
    theirs = claude_request(system=[text(SYSTEM)], messages=AS_CLAUDE[kind], tools=[CLAUDE_TOOL])
    assert ours == json.loads(theirs.content)
    assert str(theirs.url) == CLAUDE.base_url + Anthropic.path
    assert Anthropic(CLAUDE).headers().items() <= dict(theirs.headers).items()


@pytest.mark.proves("llm.sdk-bytes")
def test_without_system_prompt_and_tools_the_requests_are_the_sdks_too() -> None:
    ours = json.loads(Anthropic(CLAUDE).body("", PLAIN, []))
    assert ours == json.loads(claude_request(messages=AS_CLAUDE["plain"]).content)
    assert json.loads(OpenAICompatible(OPENAI).body("", PLAIN, [])) == json.loads(
        openai_request(messages=PLAIN).content
    )


@pytest.mark.proves("llm.sdk-bytes")
def test_one_message_has_the_bytes_the_sdk_writes() -> None:
    theirs = openai_request(messages=PLAIN).content
    ours = OpenAICompatible(OPENAI).body("", PLAIN, [])
    messages = ours[ours.index(b'"messages":') :]
    assert messages.removesuffix(b"}") in theirs


@pytest.mark.proves("llm.cache-points")
def test_the_system_prompt_and_the_last_three_messages_carry_cache_points() -> None:
    endpoint = Endpoint(**{**_fields(CLAUDE), "cache_points": "native", "cache_ttl": "1h"})
    hour = {**MARK, "ttl": "1h"}
    marked = copy.deepcopy(AS_CLAUDE["calls"])
    marked[2]["content"][1]["cache_control"] = hour
    marked[3]["content"][0]["cache_control"] = hour
    marked[4]["content"][0]["cache_control"] = hour
    theirs = claude_request(system=[{**text(SYSTEM), "cache_control": hour}], messages=marked, tools=[CLAUDE_TOOL])
    assert json.loads(Anthropic(endpoint).body(SYSTEM, CALLS, [TOOL])) == json.loads(theirs.content)


@pytest.mark.proves("llm.cache-points")
def test_a_point_that_a_short_conversation_leaves_over_stands_on_the_tools() -> None:
    model = Anthropic(Endpoint(**{**_fields(CLAUDE), "cache_points": "native"}))
    other: dict[str, Any] = {"type": "function", "function": {"name": "other", "parameters": {"type": "object"}}}
    said = [{"role": ("user", "assistant")[n % 2], "content": f"message {n}"} for n in range(3)]
    for count, expected in ((1, [None, MARK]), (2, [None, MARK]), (3, [None, None])):
        sent = json.loads(model.body(SYSTEM, said[:count], [TOOL, other]))
        assert [tool.get("cache_control") for tool in sent["tools"]] == expected
        assert json.dumps(sent).count("cache_control") == min(count + 2, 4)


@pytest.mark.internal("threads that share a model cannot be made to meet in the middle of a request otherwise")
@pytest.mark.parametrize("model", [OpenAICompatible(OPENAI), Anthropic(CLAUDE)], ids=["openai", "anthropic"])
def test_a_summary_that_is_asked_for_meanwhile_does_not_get_into_a_request(model: Any) -> None:
    class Tools(list[Any]):
        """Another thread has its turn whenever these are read."""

        def __iter__(self) -> Any:
            model.body("Write notes.", [{"role": "user", "content": "<session>"}], [])
            return super().__iter__()

    expected = model.body(SYSTEM, PLAIN, [TOOL])
    assert model.body(SYSTEM, PLAIN, Tools([TOOL])) == expected


@pytest.mark.proves("llm.cache-points")
def test_behind_openrouter_the_points_stand_in_content_parts() -> None:
    endpoint = Endpoint(**{**_fields(OPENAI), "provider": "openrouter", "cache_points": "envelope"})
    sent = json.loads(OpenAICompatible(endpoint).body(SYSTEM, PLAIN, []))["messages"]
    assert [each["content"][0].get("cache_control") for each in sent] == [MARK] * 4


@pytest.mark.proves("llm.reasoning")
def test_reasoning_goes_back_only_where_it_is_wanted() -> None:
    message: dict[str, Any] = {"role": "assistant", "content": "x", "reasoning": "a", "reasoning_content": "b"}
    message["reasoning_details"] = [{"type": "reasoning.text", "text": "c"}, {"type": "thinking", "thinking": "d"}]
    message["reasoning_model"] = OPENAI.model
    sent = {}
    for kind in ("", "content", "details"):
        endpoint = Endpoint(**{**_fields(OPENAI), "replays_reasoning": kind})
        sent[kind] = json.loads(OpenAICompatible(endpoint).body("", [message], []))["messages"][0]
    plain = {"role": "assistant", "content": "x"}
    assert sent[""] == plain
    assert sent["content"] == {**plain, "reasoning_content": "b"}
    assert sent["details"] == {**plain, "reasoning_details": [{"type": "reasoning.text", "text": "c"}]}


@pytest.mark.proves("llm.reasoning")
def test_thinking_of_another_model_is_left_out() -> None:
    other = Endpoint(**{**_fields(CLAUDE), "model": "another"})
    blocks = json.loads(Anthropic(other).body("", THINKING, []))["messages"][1]["content"]
    assert [block["type"] for block in blocks] == ["text", "text", "tool_use"]


@pytest.mark.proves("llm.awkward-histories")
def test_awkward_histories_become_ones_anthropic_accepts() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "assistant", "content": "I came first."},
        {"role": "system", "content": "A note in between."},
        {"role": "user", "content": ""},
        {"role": "assistant", "content": "", "tool_calls": []},
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "functions.memory:0", "function": {"name": "memory", "arguments": "not json"}}],
        },
        {"role": "tool", "tool_call_id": "functions.memory:0", "content": ""},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "I will not."}]},
    ]
    sent = json.loads(Anthropic(CLAUDE).body("", messages, []))["messages"]
    assert [each["role"] for each in sent] == ["user", "assistant"] * 3
    assert [block["text"] for block in sent[2]["content"]] == [
        "A note in between.",
        "(no text)",
        "[a part of the kind 'input_audio' was here; this model cannot read it]",
    ]
    used = {"type": "tool_use", "id": "functions_memory_0", "name": "memory", "input": {}}
    assert sent[3]["content"] == [used]
    assert sent[4]["content"] == [{"type": "tool_result", "tool_use_id": "functions_memory_0"}]
    assert sent[5]["content"] == [{"type": "text", "text": "I will not."}]
    assert json.loads(Anthropic(CLAUDE).body("", [], []))["messages"][0]["role"] == "user"


@pytest.mark.proves("llm.awkward-histories")
def test_parts_in_anthropics_own_form_stay_and_a_bare_tool_is_one() -> None:
    page = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "tea"}}
    thought = {"type": "thinking", "thinking": "hm", "signature": "s", "model": "m"}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": ["plain words", page]},
        {"role": "assistant", "content": "", "reasoning_details": [thought], "cache_control": MARK},
    ]
    sent = json.loads(Anthropic(CLAUDE).body("", messages, [{"type": "function", "function": {"name": "look"}}]))
    assert sent["messages"][0]["content"] == [{"type": "text", "text": "plain words"}, page]
    assert "cache_control" not in json.dumps(sent["messages"])  # thinking cannot carry a cache point
    assert sent["tools"] == [{"name": "look", "input_schema": {"type": "object"}}]


@pytest.mark.proves("llm.flat-cost")
def test_a_history_whose_middle_was_changed_is_sent_as_it_is_now() -> None:
    model = OpenAICompatible(OPENAI)
    messages = [{"role": "user", "content": f"message {number}"} for number in range(6)]
    model.body(SYSTEM, messages, [])
    changed = [messages[0], {"role": "user", "content": "new"}, messages[2], {"role": "user", "content": "also"}]
    changed += messages[4:]
    sent = json.loads(model.body(SYSTEM, changed, []))["messages"][1:]
    assert [each["content"] for each in sent] == [each["content"] for each in changed]


@pytest.mark.proves("llm.awkward-histories")
def test_half_a_character_does_not_stop_a_request() -> None:
    for model in (Anthropic(CLAUDE), OpenAICompatible(OPENAI)):
        body = model.body("", [{"role": "user", "content": "a\ud800b"}], [])
        assert "a?b" in body.decode("utf-8")


@pytest.mark.proves("llm.options")
def test_more_fields_and_the_answers_limit_come_from_the_endpoint() -> None:
    extra = {"reasoning_effort": "low", "stream": False}
    endpoint = Endpoint(**{**_fields(OPENAI), "extra_body": extra, "max_output": 7})
    sent = json.loads(OpenAICompatible(endpoint).body("", PLAIN, []))
    assert (sent["reasoning_effort"], sent["stream"], sent["max_completion_tokens"]) == ("low", False, 7)
    local = Endpoint(**{**_fields(OPENAI), "provider": "llama.cpp", "max_output": 7})
    assert json.loads(OpenAICompatible(local).body("", PLAIN, []))["max_tokens"] == 7


PARTS = st.text(max_size=8) | st.none() | st.lists(st.builds(text, st.text(max_size=5)), max_size=2)
TURNS = st.lists(
    st.tuples(PARTS, st.lists(st.tuples(st.text(max_size=4), st.text(max_size=6)), max_size=3), PARTS), max_size=6
)


def history(turns: list[Any]) -> list[list[dict[str, Any]]]:
    """The messages of each request of a conversation with these questions, calls and answers."""
    messages: list[dict[str, Any]] = []
    requests = []
    for number, (question, calls, answer) in enumerate(turns):
        messages.append({"role": "user", "content": question})
        requests.append(list(messages))
        if calls:
            ids = [f"c{number}_{place}" for place in range(len(calls))]
            made = [
                {
                    "id": each,
                    "type": "function",
                    "function": {"name": name or "x", "arguments": json.dumps({"a": name})},
                }
                for each, (name, _) in zip(ids, calls, strict=True)
            ]
            messages.append({"role": "assistant", "content": answer, "tool_calls": made})
            for each, (_, got) in zip(ids, calls, strict=True):
                messages.append({"role": "tool", "tool_call_id": each, "content": got})
            requests.append(list(messages))
        messages.append({"role": "assistant", "content": "so be it"})
    return requests


@pytest.mark.proves("llm.prefix")
@given(TURNS, st.sampled_from(["", "points"]))
def test_every_request_begins_with_the_bytes_of_the_one_before_it(turns: list[Any], points: str) -> None:
    models = [
        (Anthropic(Endpoint(**{**_fields(CLAUDE), "cache_points": points and "native"})), b"]}]}"),
        (OpenAICompatible(Endpoint(**{**_fields(OPENAI), "cache_points": points and "envelope"})), b"]}"),
    ]
    for model, closing in models:
        before = b""
        for messages in history(turns):
            body = model.body(SYSTEM, messages, [TOOL]).replace(b',"cache_control":{"type":"ephemeral"}', b"")
            assert body.startswith(before)
            before = body.removesuffix(closing)


class Counting(dict[str, Any]):
    """A message that counts how often it is looked into."""

    looks = 0

    def __getitem__(self, key: str) -> Any:
        type(self).looks += key in ("content", "tool_calls")
        return super().__getitem__(key)


@pytest.mark.proves("llm.flat-cost")
def test_a_message_is_encoded_once_however_many_requests_it_is_part_of() -> None:
    model = OpenAICompatible(OPENAI)
    messages: list[dict[str, Any]] = [Counting(role="user", content=f"message {n}") for n in range(500)]
    first = model.body(SYSTEM, messages, [TOOL])
    looked = Counting.looks
    longer = [*messages, Counting(role="user", content="one more")]
    assert model.body(SYSTEM, longer, [TOOL]).startswith(first.removesuffix(b"]}"))
    assert Counting.looks - looked == 1
    assert model.body(SYSTEM, longer[-2:], [TOOL]).endswith(b'"message 499"},{"role":"user","content":"one more"}]}')


@pytest.mark.proves("llm.flat-cost")
def test_what_is_kept_of_old_conversations_is_bounded() -> None:
    model = OpenAICompatible(OPENAI)
    for number in range(30):
        model.body("", [{"role": "user", "content": f"{number} {n}"} for n in range(200)], [])
    assert len(model._log._kept) <= 2 * 200 + 1_000


def _fields(endpoint: Endpoint) -> dict[str, Any]:
    return {name: getattr(endpoint, name) for name in endpoint.__dataclass_fields__}
