"""`/v1/messages` as Anthropic's own client uses it, in front of a model of either wire that keeps what it was sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anthropic
import pytest
from http_service import behind, listening, running
from model_server import Answer, ModelServer, chat, claude
from pictures import as_claude, png

if TYPE_CHECKING:
    from pathlib import Path

    from http_service import Running

CLOSE = {"connection": "close"}  # no client leaves a socket open for the garbage collector to find
SCHEMA: Any = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER: Any = {"name": "get_weather", "description": "Looks outside.", "input_schema": SCHEMA}
HI: Any = {"role": "user", "content": "How is it in Oslo?"}
CALL = {"index": 0, "id": "c1", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}
THOUGHTS = {"type": "thinking", "thinking": "", "signature": ""}
THINKS = [{"type": "thinking_delta", "thinking": "Rain?"}, {"type": "signature_delta", "signature": "sig"}]
SAYS = ({"type": "text", "text": ""}, [{"type": "text_delta", "text": "Rain."}])
USES = (
    {"type": "tool_use", "id": "c1", "name": "get_weather", "input": {}},
    [{"type": "input_json_delta", "partial_json": CALL["function"]["arguments"]}],  # type: ignore[index]
)


def client(up: Running, person: str = "ann") -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=up.url, api_key=up.keys[person], max_retries=0, default_headers=CLOSE)


def create(up: Running, stream: bool, **asked: Any) -> anthropic.types.Message:
    asked = {"model": "hermes", "max_tokens": 500, "messages": [HI], **asked}
    messages: Any = client(up).messages
    if not stream:
        whole: anthropic.types.Message = messages.create(**asked)
        return whole
    with messages.stream(**asked) as events:
        final: anthropic.types.Message = events.get_final_message()
    return final


# What a client of Anthropic asks for, and what each wire is sent for it. None: refused by that name.
OPTIONS: list[tuple[dict[str, Any], dict[str, Any] | None, dict[str, Any] | None]] = [
    ({}, {}, {}),
    ({"stop_sequences": ["END"]}, {"stop": ["END"]}, {"stop_sequences": ["END"]}),
    ({"extra_body": {"temperature": 0.2}}, {"temperature": 0.2}, {"temperature": 0.2}),
    ({"extra_body": {"top_k": 5}}, None, {"top_k": 5}),
    (
        {"thinking": {"type": "enabled", "budget_tokens": 2048}},
        {"reasoning_effort": "low"},
        {"thinking": {"type": "enabled", "budget_tokens": 2048}},
    ),
    ({"thinking": {"type": "adaptive"}}, {}, {"thinking": {"type": "adaptive"}}),
    (
        {"output_config": {"effort": "high", "format": {"type": "json_schema", "schema": SCHEMA}}},
        {
            "reasoning_effort": "high",
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA},
            },
        },
        {"output_config": {"effort": "high", "format": {"type": "json_schema", "schema": SCHEMA}}},
    ),
    (
        {"tools": [WEATHER], "tool_choice": {"type": "any", "disable_parallel_tool_use": True}},
        {"tool_choice": "required", "parallel_tool_calls": False},
        {"tool_choice": {"type": "any", "disable_parallel_tool_use": True}},
    ),
    (
        {"tools": [WEATHER], "tool_choice": {"type": "tool", "name": "get_weather"}},
        {"tool_choice": {"type": "function", "function": {"name": "get_weather"}}},
        {"tool_choice": {"type": "tool", "name": "get_weather"}},
    ),
    ({"metadata": {"user_id": "u"}, "service_tier": "auto", "cache_control": {"type": "ephemeral"}}, {}, {}),
    ({"inference_geo": "eu"}, None, None),
    ({"extra_body": {"mcp_servers": [{"url": "https://a.example"}]}}, None, None),
    ({"tools": [{"type": "web_search_20260209", "name": "web_search"}]}, None, None),
]
ALWAYS: dict[str, dict[str, Any]] = {
    "openai": {
        "model": "m-1",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 500,
    },
    "anthropic": {"model": "m-1", "stream": True, "max_tokens": 500},
}


@pytest.mark.proves("http.forwarded", "http.messages")
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_every_field_of_a_messages_client_goes_on_or_is_refused_by_name(home: Path, provider: str) -> None:
    said = chat({"content": "Rain."}) if provider == "openai" else claude(SAYS)
    with (
        ModelServer(*(Answer(pieces=[said]) for _ in OPTIONS)) as model,
        listening(home, behind(home, provider, model.url)) as up,
    ):
        for asked, at_openai, at_anthropic in OPTIONS:
            expected = at_openai if provider == "openai" else at_anthropic
            model.received.clear()
            if expected is None:
                with pytest.raises(anthropic.BadRequestError) as refused:
                    create(up, False, **asked)
                (name,) = asked.get("extra_body", asked)
                assert name in str(refused.value)
                assert not model.received
                continue
            assert create(up, False, **asked).content[-1].text == "Rain."  # type: ignore[union-attr]
            (sent,) = model.received
            body = {name: each for name, each in sent.json.items() if name not in ("messages", "system", "tools")}
            assert body == ALWAYS[provider] | expected, asked


@pytest.mark.proves("http.messages")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_tools_thinking_and_images_make_a_whole_exchange(home: Path, provider: str, stream: bool) -> None:
    image = as_claude(png(3, 2))
    if provider == "openai":
        used = chat({"reasoning_content": "Rain?"}, {"tool_calls": [CALL]}, reason="tool_calls")
        answers = [used, chat({"content": "Rain."})]
    else:
        answers = [claude((THOUGHTS, THINKS), USES, reason="tool_use"), claude(SAYS)]
    with ModelServer(*(Answer(pieces=[each]) for each in answers)) as model:
        with listening(home, behind(home, provider, model.url)) as up:
            asked: dict[str, Any] = {"tools": [WEATHER], "thinking": {"type": "adaptive"}, "system": "Be brief."}
            first = create(up, stream, **asked)
            assert [block.type for block in first.content] == ["thinking", "tool_use"]
            assert first.content[0].thinking == "Rain?"  # type: ignore[union-attr]
            assert first.stop_reason == "tool_use"
            use: Any = first.content[1]
            assert (use.id, use.input) == ("c1", {"city": "Oslo"})
            result = {
                "type": "tool_result",
                "tool_use_id": use.id,
                "content": [{"type": "text", "text": "4 degrees"}, image],
                "is_error": True,
            }
            history = [HI, {"role": "assistant", "content": [block.model_dump() for block in first.content]}]
            second = create(up, stream, messages=[*history, {"role": "user", "content": [result]}], **asked)
            assert second.content[0].text == "Rain."  # type: ignore[union-attr]
            assert (second.stop_reason, second.usage.output_tokens > 0) == ("end_turn", provider == "anthropic")
            with up.client() as http:
                assert len(http.get("/api/v1/sessions").json()["sessions"]) == 1
        sent = model.received[-1].json
    if provider == "openai":
        assert "Be brief." in sent["messages"][0]["content"]
        assert [each["role"] for each in sent["messages"]] == ["system", "user", "assistant", "tool", "user"]
        assert sent["messages"][3] == {"role": "tool", "content": "4 degrees", "tool_call_id": "c1"}
        assert sent["messages"][4]["content"][0]["type"] == "image_url"
    else:
        thought, call = sent["messages"][1]["content"]
        assert (thought["thinking"], thought["signature"], call["id"]) == ("Rain?", "sig", "c1")
        returned, shown = sent["messages"][2]["content"]
        assert (returned["tool_use_id"], returned["is_error"]) == ("c1", True)
        assert returned["content"] == [{"type": "text", "text": "4 degrees"}]
        assert shown["source"] == image["source"]


@pytest.mark.proves("http.messages")
def test_tokens_are_counted_and_errors_are_those_of_anthropic(home: Path) -> None:
    with running(home) as up:
        short = client(up).messages.count_tokens(model="hermes", messages=[HI])
        long = client(up).messages.count_tokens(model="hermes", messages=[HI], system="Be brief. " * 100)
        assert 5 < short.input_tokens < 40 < long.input_tokens
        with pytest.raises(anthropic.NotFoundError) as absent:
            create(up, False, model="claude-x")
        assert absent.value.body["error"]["type"] == "not_found_error"  # type: ignore[index]
        with pytest.raises(anthropic.AuthenticationError):
            anthropic.Anthropic(
                base_url=up.url, api_key="wrong", max_retries=0, default_headers=CLOSE
            ).messages.count_tokens(model="hermes", messages=[HI])
        assert [each.id for each in client(up).models.list()] == ["hermes"]
        with up.client() as http:
            for body, why in (
                ({"messages": [HI]}, "max_tokens: a number is needed"),
                ({"max_tokens": 5, "messages": "hi"}, "messages must be a list"),
                ({"max_tokens": 5, "messages": [{"role": "tool"}]}, "messages.0: role must be"),
                ({"max_tokens": 5, "messages": [{"role": "user", "content": ["hi"]}]}, "messages.0: content must be"),
                ({"max_tokens": 5, "messages": [HI], "system": [{}]}, "system: blocks of text"),
                ({"max_tokens": 5, "messages": [HI], "thinking": "yes"}, "thinking must be an object"),
                ({"max_tokens": 5, "messages": [HI], "tool_choice": "auto"}, "tool_choice: type must be"),
                ({"max_tokens": 5, "messages": [HI], "output_config": {"task": 1}}, "output_config.task is not"),
                ({"max_tokens": 5, "messages": [{"role": "user", "content": [{"type": "document"}]}]}, "'document'"),
            ):
                answer = http.post("/v1/messages", json=body)
                assert (answer.status_code, answer.json()["type"]) == (400, "error")
                assert why in answer.json()["error"]["message"]
