"""What comes back: streams of both wires, whole or in pieces, from a server on loopback."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import httpcore
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_server import Answer, ModelServer, chat, claude, sse

from hermes.base.errors import ModelBusy, ModelError, ModelUnreachable
from hermes.base.events import Finished, ReasoningDelta, TextDelta, ToolCall, ToolCallStarted, Usage
from hermes.llm.anthropic import Anthropic
from hermes.llm.client import Endpoint, Retries, _chunks, _understood
from hermes.llm.openai import OpenAICompatible
from hermes.llm.transport import Reply

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hermes.base.events import ModelEvent
    from hermes.llm.client import HttpModel

ASK = [{"role": "user", "content": "hello"}]
ONCE = Retries(attempts=1)


def model(server: ModelServer, wire: str, retries: Retries = ONCE) -> HttpModel:
    if wire == "openai":
        return OpenAICompatible(Endpoint(model="m", base_url=f"{server.url}/v1", key="k"), retries)
    return Anthropic(Endpoint(model="m", base_url=server.url, wire="anthropic", key="k"), retries)


def answered(wire: str, *pieces: bytes, content_type: str = "text/event-stream; charset=utf-8") -> list[ModelEvent]:
    with ModelServer(Answer(pieces=pieces, content_type=content_type)) as server:
        return list(model(server, wire).stream("", ASK))


def finished(events: Iterable[ModelEvent]) -> Finished:
    *_, last = events
    assert isinstance(last, Finished)
    return last


def piece(index: int | None, text: str = "", call_id: str = "", name: str = "") -> dict[str, Any]:
    call: dict[str, Any] = {"function": {"arguments": text}}
    if index is not None:
        call["index"] = index
    if call_id:
        call |= {"id": call_id, "type": "function"}
        call["function"]["name"] = name
    return {"tool_calls": [call]}


USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 9,
    "prompt_tokens_details": {"cached_tokens": 90, "cache_write_tokens": 5},
    "completion_tokens_details": {"reasoning_tokens": 4},
}
CHAT = chat(
    {"role": "assistant", "content": ""},
    {"reasoning": "I "},
    {"reasoning": "think"},
    {"content": "Let me 看 \u2028 see"},
    {"content": " it."},
    piece(0, "", "c1", "memory"),
    piece(1, '{"b":', "c2", "search"),
    piece(0, '{"content": "茶"}'),
    piece(1, "2}"),
    reason="tool_calls",
    usage=USAGE,
)
THOUGHTS = [
    {"type": "thinking_delta", "thinking": "I "},
    {"type": "thinking_delta", "thinking": "think"},
    {"type": "signature_delta", "signature": "sig"},
]
TEXTS = [{"type": "text_delta", "text": "Let me 看"}, {"type": "text_delta", "text": " it."}]
ARGUMENTS = [{"type": "input_json_delta", "partial_json": part} for part in ('{"content"', ': "茶"}')]
CLAUDE = claude(
    ({"type": "thinking", "thinking": "", "signature": ""}, THOUGHTS),
    ({"type": "text", "text": ""}, TEXTS),
    ({"type": "redacted_thinking", "data": "xyz"}, []),
    ({"type": "tool_use", "id": "c1", "name": "memory", "input": {}}, ARGUMENTS),
    ({"type": "tool_use", "id": "c2", "name": "search", "input": {}}, []),
    reason="tool_use",
    cache_read_input_tokens=80,
    cache_creation_input_tokens=5,
)


@pytest.mark.proves("llm.stream", "llm.parallel-calls", "llm.usage")
def test_a_chat_completions_stream_becomes_events_and_one_message() -> None:
    events = answered("openai", CHAT)
    assert "".join(each.text for each in events if isinstance(each, TextDelta)) == "Let me 看 \u2028 see it."
    assert "".join(each.text for each in events if isinstance(each, ReasoningDelta)) == "I think"
    assert [each.name for each in events if isinstance(each, ToolCallStarted)] == ["memory", "search"]
    calls = [each for each in events if isinstance(each, ToolCall)]
    assert [(each.id, each.arguments) for each in calls] == [("c1", '{"content": "茶"}'), ("c2", '{"b":2}')]
    last = finished(events)
    assert last.message == {
        "role": "assistant",
        "content": "Let me 看 \u2028 see it.",
        "reasoning": "I think",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "memory", "arguments": '{"content": "茶"}'}},
            {"id": "c2", "type": "function", "function": {"name": "search", "arguments": '{"b":2}'}},
        ],
    }
    assert (last.reason, last.model) == ("tool_calls", "m-1")
    assert last.usage == Usage(
        input_tokens=100, output_tokens=9, cache_read_tokens=90, cache_write_tokens=5, reasoning_tokens=4
    )


@pytest.mark.proves("llm.stream", "llm.parallel-calls", "llm.usage", "llm.reasoning")
def test_a_messages_stream_becomes_events_and_one_message_that_can_be_sent_back() -> None:
    events = answered("anthropic", CLAUDE)
    assert "".join(each.text for each in events if isinstance(each, ReasoningDelta)) == "I think"
    last = finished(events)
    assert last.message["content"] == "Let me 看 it."
    assert [call["function"] for call in last.message["tool_calls"]] == [
        {"name": "memory", "arguments": '{"content": "茶"}'},
        {"name": "search", "arguments": "{}"},
    ]
    assert (last.reason, last.model) == ("tool_calls", "claude-x")
    assert last.usage == Usage(input_tokens=95, output_tokens=7, cache_read_tokens=80, cache_write_tokens=5)
    wire = Anthropic(Endpoint(model="m", base_url="http://localhost", wire="anthropic"))
    blocks = json.loads(wire.body("", [*ASK, last.message], []))["messages"][1]["content"]
    assert blocks == [
        {"type": "thinking", "thinking": "I think", "signature": "sig"},
        {"type": "text", "text": "Let me 看 it."},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "tool_use", "id": "c1", "name": "memory", "input": {"content": "茶"}},
        {"type": "tool_use", "id": "c2", "name": "search", "input": {}},
    ]


# They are given what a server sent, so that none needs to answer.
READERS = {
    "openai": OpenAICompatible(Endpoint(model="m", base_url="http://127.0.0.1:9/v1")),
    "anthropic": Anthropic(Endpoint(model="m", base_url="http://127.0.0.1:9", wire="anthropic")),
}


def reply(pieces: list[bytes]) -> Reply:
    return Reply(httpcore.Response(200, headers=[("Content-Type", "text/event-stream")], content=iter(pieces)))


@pytest.mark.proves("llm.stream")
@given(st.sampled_from(["openai", "anthropic"]), st.lists(st.integers(0, 2_000), max_size=30), st.booleans())
def test_the_events_do_not_depend_on_where_the_bytes_are_split(wire: str, cuts: list[int], crlf: bool) -> None:
    data = CHAT if wire == "openai" else CLAUDE
    data = data.replace(b"\n", b"\r\n") if crlf else data
    borders = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[start:end] for start, end in pairwise(borders)]
    reader = READERS[wire]
    whole = list(reader.read(_chunks(reader.endpoint, reply([data]))))
    assert list(reader.read(_chunks(reader.endpoint, reply(pieces)))) == whole


@pytest.mark.proves("llm.parallel-calls")
@pytest.mark.parametrize(
    "deltas",
    [
        [piece(0, '{"a":1}', "x", "one"), piece(0, '{"b":2}', "y", "two")],  # every call at index 0
        [piece(None, '{"a":1}', "x", "one"), piece(None, '{"b":2}', "y", "two")],  # no index at all
        [piece(1, '{"b":2}', "y", "two"), piece(0, '{"a":1}', "x", "one")],
        [
            {
                "tool_calls": [
                    *piece(0, '{"a":1}', "x", "one")["tool_calls"],
                    *piece(1, '{"b":2}', "y", "two")["tool_calls"],
                ]
            }
        ],
    ],
)
def test_parallel_calls_are_told_apart_as_servers_number_them(deltas: list[dict[str, Any]]) -> None:
    last = finished(answered("openai", chat(*deltas)))
    assert last.reason == "tool_calls"
    made = {call["id"]: call["function"] for call in last.message["tool_calls"]}
    assert made == {"x": {"name": "one", "arguments": '{"a":1}'}, "y": {"name": "two", "arguments": '{"b":2}'}}


@pytest.mark.proves("llm.parallel-calls")
def test_calls_without_an_id_or_with_the_same_one_get_ids_of_their_own() -> None:
    nameless = {"tool_calls": [{"index": 0, "function": {"name": "one", "arguments": {"a": "é"}}}]}
    twice = [piece(1, "{}", "x", "two"), piece(2, "{}", "x", "three")]
    calls = finished(answered("openai", chat(nameless, *twice))).message["tool_calls"]
    assert len({call["id"] for call in calls}) == 3
    assert calls[0]["function"] == {"name": "one", "arguments": '{"a": "é"}'}


@pytest.mark.proves("llm.reasoning")
def test_reasoning_is_kept_under_the_name_and_in_the_form_the_server_gave_it() -> None:
    details = [
        {"reasoning_details": [{"type": "reasoning.text", "text": "a", "index": 0}]},
        {"reasoning_details": [{"type": "reasoning.text", "text": "b", "signature": "s", "index": 0}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "x", "index": 1}]},
    ]
    message = finished(answered("openai", chat({"reasoning_content": "hm"}, *details, {"content": "x"}))).message
    assert message["reasoning_content"] == "hm"
    assert message["reasoning_details"] == [
        {"type": "reasoning.text", "text": "ab", "signature": "s", "index": 0},
        {"type": "reasoning.encrypted", "data": "x", "index": 1},
    ]


@pytest.mark.proves("llm.stream")
@pytest.mark.parametrize(
    ("wire", "said", "reason"),
    [
        ("openai", "stop", "stop"),
        ("openai", "length", "length"),
        ("openai", "content_filter", "content_filter"),
        ("anthropic", "end_turn", "stop"),
        ("anthropic", "max_tokens", "length"),
        ("anthropic", "refusal", "content_filter"),
    ],
)
def test_why_a_model_stopped_has_one_name_for_all(wire: str, said: str, reason: str) -> None:
    text: Any = ({"type": "text", "text": "hi"}, [])
    data = chat({"content": "hi"}, reason=said) if wire == "openai" else claude(text, reason=said)
    last = finished(answered(wire, data))
    assert (last.reason, last.message["content"]) == (reason, "hi")


@pytest.mark.proves("llm.stream")
def test_several_texts_stay_apart_parts_become_one_and_nothing_is_an_empty_text() -> None:
    texts: Any = ({"type": "text", "text": "One."}, []), ({"type": "text", "text": "Two."}, [])
    between: Any = ({"type": "redacted_thinking", "data": "x"}, [{"type": "a_delta_of_the_future"}])
    assert [
        part["text"] for part in finished(answered("anthropic", claude(texts[0], between, texts[1]))).message["content"]
    ] == [
        "One.",
        "Two.",
    ]
    parts = [{"type": "text", "text": "from "}, {"type": "text", "text": "Mistral"}, "?"]
    assert finished(answered("openai", chat({"content": parts}))).message["content"] == "from Mistral"
    assert finished(answered("openai", chat({}))).message["content"] == ""
    refused = answered("openai", chat({"content": None, "refusal": "I will "}, {"refusal": "not."}))
    assert finished(refused).message["content"] == "I will not."


@pytest.mark.proves("llm.stream")
def test_a_server_that_does_not_stream_is_understood() -> None:
    whole = {"choices": [{"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}], "usage": USAGE}
    last = finished(answered("openai", json.dumps(whole).encode(), content_type="application/json"))
    assert (last.message["content"], last.usage.cache_read_tokens) == ("hi", 90)
    content = [{"type": "text", "text": "hi"}, {"type": "tool_use", "id": "c", "name": "x", "input": {"a": 1}}]
    message = {"type": "message", "content": content, "stop_reason": "tool_use", "usage": {"input_tokens": 3}}
    last = finished(answered("anthropic", json.dumps(message).encode(), content_type="application/json"))
    assert last.message["tool_calls"][0]["function"] == {"name": "x", "arguments": '{"a": 1}'}


@pytest.mark.proves("llm.stream")
def test_comments_and_unknown_events_are_passed_over() -> None:
    start = b': OPENROUTER PROCESSING\n\nretry: 100\n\nevent: later\ndata: {"choices": null}\n\n'
    assert finished(answered("openai", start + chat({"content": "hi"}))).message["content"] == "hi"


@pytest.mark.proves("llm.errors")
@pytest.mark.parametrize("wire", ["openai", "anthropic"])
@pytest.mark.parametrize("data", [b"data: {not json\n\n", b"data: [1, 2]\n\n", b"data: " + b"[" * 100_000 + b"\n\n"])
def test_a_malformed_stream_is_a_passing_error(wire: str, data: bytes) -> None:
    with pytest.raises(ModelBusy, match="sent something that is not its protocol"):
        answered(wire, data)


SCALARS = st.none() | st.booleans() | st.integers(-2, 2) | st.text(max_size=3)
WORDS = """type index choices delta message content content_block text tool_calls function id name arguments usage
    reasoning_details stop_reason finish_reason partial_json message_start content_block_start content_block_delta
    content_block_stop message_delta thinking tool_use text_delta thinking_delta input_json_delta signature_delta"""
NAMES = KINDS = st.sampled_from(WORDS.split())
ANYTHING = st.recursive(
    SCALARS | KINDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=12,
)


@pytest.mark.proves("llm.errors")
@given(st.sampled_from(["openai", "anthropic"]), st.lists(st.dictionaries(NAMES, ANYTHING | KINDS), max_size=4))
def test_objects_of_any_shape_lead_to_an_answer_or_to_an_error_of_a_model(wire: str, sent: list[Any]) -> None:
    reader = {"openai": OpenAICompatible, "anthropic": Anthropic}[wire](Endpoint(model="m", base_url="http://x"))
    response = reply([sse(*sent)])
    with suppress(ModelError):
        last = finished(_understood(reader.endpoint, reader.read(_chunks(reader.endpoint, response))))
        json.dumps(last.message)


@pytest.mark.proves("llm.errors")
def test_a_web_page_instead_of_a_model_says_to_check_the_address() -> None:
    with pytest.raises(ModelBusy, match="sent text/html instead of an event stream"):
        answered("openai", b"<html>Hello</html>", content_type="text/html")


@pytest.mark.proves("llm.errors")
@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_a_stream_without_an_end_is_a_broken_connection(wire: str) -> None:
    data = sse({"choices": [{"delta": {"content": "hal"}}]}) if wire == "openai" else CLAUDE[:600]
    with pytest.raises(ModelUnreachable, match="broke off in the middle"):
        answered(wire, data)
