"""What the model is asked is what the client asked for: requests of the official SDKs, compared field by field.

The model is a server on loopback that keeps what it was sent.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import openai
import pytest
from http_service import behind, listening
from model_server import Answer, ModelServer, chat, claude
from pictures import as_openai, png

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from http_service import Running

CLOSE = {"connection": "close"}  # no client leaves a socket open for the garbage collector to find
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
SHAPE: Any = {"type": "json_schema", "json_schema": {"name": "place", "strict": True, "schema": SCHEMA}}
WEATHER: Any = {
    "type": "function",
    "function": {"name": "get_weather", "description": "Looks outside.", "parameters": SCHEMA, "strict": True},
}
NAMED: Any = {"type": "function", "function": {"name": "get_weather"}}
HI: Any = {"role": "user", "content": "Where are we?"}
DOCUMENT = '{"city": "Oslo"}'
ADDRESS = {"openai": "{}", "anthropic": "{}", "custom": "{}/v1"}


def text_answer(provider: str, text: str = DOCUMENT) -> bytes:
    if provider == "anthropic":
        return claude(({"type": "text", "text": ""}, [{"type": "text_delta", "text": text}]))
    return chat({"content": text})


@contextmanager
def server_for(home: Path, provider: str, *answers: bytes, settings: str = "") -> Iterator[tuple[Running, ModelServer]]:
    with ModelServer(*(Answer(pieces=[each]) for each in answers)) as model:
        keys = behind(home, provider, model.url, settings)
        with listening(home, keys) as up:
            yield up, model


def openai_client(up: Running) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{up.url}/v1", api_key=up.keys["ann"], max_retries=0, default_headers=CLOSE)


# What an OpenAI client asks for, and what each wire is sent for it. None: refused by that name.
OPTIONS: list[tuple[dict[str, Any], dict[str, Any] | None, dict[str, Any] | None]] = [
    ({"temperature": 0.2}, {"temperature": 0.2}, {"temperature": 0.2}),
    ({"top_p": 0.9}, {"top_p": 0.9}, {"top_p": 0.9}),
    ({"max_tokens": 50}, {"max_completion_tokens": 50}, {"max_tokens": 50}),
    ({"max_completion_tokens": 60}, {"max_completion_tokens": 60}, {"max_tokens": 60}),
    ({"stop": "END"}, {"stop": "END"}, {"stop_sequences": ["END"]}),
    ({"stop": ["A", "B"]}, {"stop": ["A", "B"]}, {"stop_sequences": ["A", "B"]}),
    ({"seed": 7}, {"seed": 7}, None),
    ({"frequency_penalty": 0.5}, {"frequency_penalty": 0.5}, None),
    ({"presence_penalty": 0.5}, {"presence_penalty": 0.5}, None),
    ({"logit_bias": {"42": -100}}, {"logit_bias": {"42": -100}}, None),
    ({"reasoning_effort": "low"}, {"reasoning_effort": "low"}, {"output_config": {"effort": "low"}}),
    ({"verbosity": "low"}, {"verbosity": "low"}, None),
    (
        {"response_format": SHAPE},
        {"response_format": SHAPE},
        {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    ),
    ({"response_format": {"type": "json_object"}}, {"response_format": {"type": "json_object"}}, None),
    ({"response_format": {"type": "text"}}, {}, {}),
    ({"tools": [WEATHER], "tool_choice": "required"}, {"tool_choice": "required"}, {"tool_choice": {"type": "any"}}),
    ({"tools": [WEATHER], "tool_choice": "auto"}, {"tool_choice": "auto"}, {"tool_choice": {"type": "auto"}}),
    ({"tool_choice": "none"}, {"tool_choice": "none"}, {"tool_choice": {"type": "none"}}),
    (
        {"tools": [WEATHER], "tool_choice": NAMED, "parallel_tool_calls": False},
        {"tool_choice": NAMED, "parallel_tool_calls": False},
        {"tool_choice": {"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True}},
    ),
    ({"user": "u", "metadata": {"a": "b"}, "store": True, "service_tier": "auto", "prompt_cache_key": "k"}, {}, {}),
    ({"extra_body": {"top_k": 5}}, None, {"top_k": 5}),
]
ALWAYS = {
    "openai": {"model": "m-1", "stream": True, "stream_options": {"include_usage": True}},
    "anthropic": {"model": "m-1", "stream": True, "max_tokens": 32_000},
}


@pytest.mark.proves("http.forwarded")
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_every_field_of_a_chat_client_goes_on_or_is_refused_by_name(home: Path, provider: str) -> None:
    answers = [text_answer(provider)] * len(OPTIONS)
    with server_for(home, provider, *answers) as (up, model):
        client = openai_client(up)
        for asked, at_openai, at_anthropic in OPTIONS:
            expected = at_openai if provider == "openai" else at_anthropic
            model.received.clear()
            if expected is None:
                with pytest.raises(openai.BadRequestError) as refused:
                    client.chat.completions.create(model="hermes", messages=[HI], **asked)
                assert refused.value.param in [*asked, *asked.get("extra_body", {})]
                assert not model.received
                continue
            client.chat.completions.create(model="hermes", messages=[HI], **asked)
            (sent,) = model.received
            body = {name: each for name, each in sent.json.items() if name not in ("messages", "system", "tools")}
            assert body == ALWAYS[provider] | expected, asked
            sampled = {"temperature", "top_p", "top_k"} & expected.keys()
            version = "2023-06-01" if sampled else "2026-10-21"
            assert sent.headers.get("anthropic-version", version) == version


@pytest.mark.proves("http.forwarded")
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("stream", [False, True])
def test_messages_images_and_functions_arrive_as_they_were_sent(home: Path, provider: str, stream: bool) -> None:
    image = as_openai(png(3, 2))
    messages: list[Any] = [
        {"role": "system", "content": "Speak like a pirate."},
        {"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]},
    ]
    with server_for(home, provider, text_answer(provider)) as (up, model):
        asked = openai_client(up).chat.completions.create(
            model="hermes", messages=messages, tools=[WEATHER], stream=stream
        )
        pieces: list[Any] = list(asked) if stream else []
        sent = model.received[0].json
    said = sent["messages"][-1]["content"]
    tool = sent["tools"][-1]
    if provider == "openai":
        assert said == messages[1]["content"]
        assert tool == WEATHER
        assert "Speak like a pirate." in sent["messages"][0]["content"]
    else:
        data = image["image_url"]["url"].partition("base64,")[2]
        (text, shown) = ({key: each[key] for key in each if key != "cache_control"} for each in said)
        assert text == {"type": "text", "text": "What is this?"}
        assert shown == {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
        function = WEATHER["function"]
        assert {key: tool[key] for key in tool if key != "cache_control"} == {
            "name": function["name"],
            "description": function["description"],
            "input_schema": SCHEMA,
            "strict": True,
        }
        assert "Speak like a pirate." in sent["system"][0]["text"]
    assert not stream or "".join(piece.choices[0].delta.content or "" for piece in pieces) == DOCUMENT


@pytest.mark.proves("http.forwarded")
@pytest.mark.parametrize("stream", [False, True])
def test_a_document_is_not_mixed_with_what_is_said_beside_our_own_tools(home: Path, stream: bool) -> None:
    call = {"index": 0, "id": "c1", "function": {"name": "session_search", "arguments": '{"query": "Oslo"}'}}
    look = chat({"content": "Let me look."}, {"tool_calls": [call]}, reason="tool_calls")
    with server_for(home, "openai", look, chat({"content": '{"city"'}, {"content": ': "Oslo"}'})) as (up, model):
        client = openai_client(up)
        if stream:
            pieces = client.chat.completions.create(model="hermes", messages=[HI], response_format=SHAPE, stream=True)
            text = "".join(piece.choices[0].delta.content or "" for piece in pieces)
        else:
            whole = client.chat.completions.create(model="hermes", messages=[HI], response_format=SHAPE)
            text = whole.choices[0].message.content or ""
        assert [each.json["response_format"] for each in model.received] == [SHAPE, SHAPE]
    assert text == DOCUMENT


@pytest.mark.proves("http.forwarded")
def test_an_answer_that_the_client_limits_is_cut_off_and_not_continued(home: Path) -> None:
    with server_for(home, "openai", chat({"content": "Once upon"}, reason="length")) as (up, model):
        answer = openai_client(up).chat.completions.create(model="hermes", messages=[HI], max_tokens=2)
        assert len(model.received) == 1
    assert answer.choices[0].finish_reason == "length"
    assert answer.choices[0].message.content == "Once upon"


@pytest.mark.proves("http.models")
def test_models_have_other_names_and_can_be_looked_up(home: Path) -> None:
    settings = "server:\n  models: [m-2]\n  model_aliases: {gpt-4o: hermes, 'claude-*': m-2}\n"
    with server_for(home, "openai", *[chat({"content": "Yes."})] * 2, settings=settings) as (up, model):
        client = openai_client(up)
        assert [each.id for each in client.models.list()] == ["hermes", "m-2", "gpt-4o"]
        assert client.models.retrieve("m-2").id == "m-2"
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("m-3")
        for name, served in (("gpt-4o", "m-1"), ("claude-opus-5", "m-2")):
            answer = client.chat.completions.create(model=name, messages=[HI])
            assert (answer.model, model.received[-1].json["model"]) == (name, served)


@pytest.mark.proves("http.forwarded")
def test_instructions_that_a_client_adds_later_are_told_once(home: Path) -> None:
    with server_for(home, "openai", *[chat({"content": "Yes."})] * 3) as (up, model):
        client, history = openai_client(up), [{"role": "system", "content": "Be brief."}]
        for text in ("one", "two", "three"):
            history += [{"role": "user", "content": text}, {"role": "system", "content": "Now in rhyme."}]
            told: Any = history if text != "one" else history[:2]
            client.chat.completions.create(model="hermes", messages=told)
            history.append({"role": "assistant", "content": "Yes."})
        first, _, last = (each.json["messages"] for each in model.received)
    assert "Be brief." in first[0]["content"]
    assert last[: len(first)] == first
    assert ["Now in rhyme." in str(each["content"]) for each in last] == [False, False, False, True, False, False]
