"""`/v1/responses` and `/v1/embeddings` as OpenAI's own client uses them, in front of a model that keeps what it got."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import openai
import pytest
from http_service import behind, listening, prepare, running
from model_server import Answer, ModelServer, chat
from pictures import png, url

from hermes.conversations.search.semantic import Embedding

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from http_service import Running

CLOSE = {"connection": "close"}  # no client leaves a socket open for the garbage collector to find
SCHEMA: Any = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER: Any = {"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": False}
STEPS = [
    {"when": "weather", "text": "Let me look.", "calls": [{"name": "get_weather", "arguments": {"city": "Oslo"}}]},
    {"when": "rain, 4 degrees", "text": "Take an umbrella."},
    {"when": "", "text": "Understood.", "reasoning": "Easy."},
]


@pytest.fixture
def up(home: Path) -> Iterator[Running]:
    with running(home, STEPS) as service:
        yield service


def responses(up: Running, person: str = "ann") -> Any:
    return openai.OpenAI(
        base_url=f"{up.url}/v1", api_key=up.keys[person], max_retries=0, default_headers=CLOSE
    ).responses


def ask(up: Running, stream: bool, **asked: Any) -> Any:
    """The whole response; what the events of a stream add up to must be the same as its last event."""
    if not stream:
        return responses(up).create(model="hermes", **asked)
    with responses(up).stream(model="hermes", **asked) as events:
        seen = list(events)
        whole = events.get_final_response()
    assert [each.sequence_number for each in seen] == list(range(len(seen)))
    assert "".join(each.delta for each in seen if each.type == "response.output_text.delta") == whole.output_text
    return whole


def stored(up: Running) -> list[tuple[str, int]]:
    with up.client() as http:
        return sorted(
            (each["session_id"], each["message_count"]) for each in http.get("/api/v1/sessions").json()["sessions"]
        )


@pytest.mark.proves("http.responses")
@pytest.mark.parametrize("stream", [False, True])
def test_answers_go_on_from_the_one_before_and_tools_come_back(up: Running, stream: bool) -> None:
    first = ask(up, stream, input="I moved to Oslo", reasoning={"summary": "auto"}, instructions="Be brief.")
    assert (first.status, first.output_text) == ("completed", "Understood.")
    assert first.output[0].summary[0].text == "Easy."
    assert first.usage.total_tokens > 0
    second = ask(up, stream, input="how is the weather?", tools=[WEATHER], previous_response_id=first.id)
    call = second.output[-1]
    assert (call.type, call.name, call.arguments) == ("function_call", "get_weather", '{"city": "Oslo"}')
    assert second.output_text == "Let me look."
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "rain, 4 degrees"}
    third = ask(up, stream, input=[result], tools=[WEATHER], previous_response_id=second.id)
    assert third.output_text == "Take an umbrella."
    assert [count for _, count in stored(up)] == [6]


@pytest.mark.proves("http.responses")
def test_an_earlier_answer_is_a_fork_and_nobody_elses_can_be_named(up: Running) -> None:
    first = ask(up, False, input="I moved to Oslo")
    ask(up, False, input="and I like tea", previous_response_id=first.id)
    ask(up, False, input="and I like fish", previous_response_id=first.id)
    assert sorted(count for _, count in stored(up)) == [4, 4]
    for person, named in (("bob", first.id), ("ann", "resp_none")):
        with pytest.raises(openai.BadRequestError) as refused:
            responses(up, person).create(model="hermes", input="and?", previous_response_id=named)
        assert refused.value.code == "previous_response_not_found"


@pytest.mark.proves("http.responses")
def test_a_client_that_sends_all_items_goes_on_in_its_conversation(up: Running) -> None:
    items: list[Any] = [{"role": "user", "content": [{"type": "input_text", "text": "how is the weather?"}]}]
    first = ask(up, False, input=items, tools=[WEATHER], store=False)
    items += [each.model_dump() for each in first.output]
    items.append({"type": "function_call_output", "call_id": first.output[-1].call_id, "output": "rain, 4 degrees"})
    second = ask(up, False, input=items, tools=[WEATHER], store=False)
    assert second.output_text == "Take an umbrella."
    assert [count for _, count in stored(up)] == [4]


@pytest.mark.proves("http.responses")
def test_an_answer_can_be_gone_on_from_after_a_restart(home: Path) -> None:
    keys = prepare(home, STEPS)
    with listening(home, keys) as up:
        first = ask(up, False, input="how is the weather?", tools=[WEATHER])
    with listening(home, keys) as up:
        result = {"type": "function_call_output", "call_id": first.output[-1].call_id, "output": "rain, 4 degrees"}
        second = ask(up, False, input=[result], tools=[WEATHER], previous_response_id=first.id)
        assert second.output_text == "Take an umbrella."


@pytest.mark.proves("http.responses")
@pytest.mark.parametrize("stream", [False, True])
def test_functions_of_a_namespace_keep_it(home: Path, stream: bool) -> None:
    outdoors = {"type": "namespace", "name": "outdoors", "description": "Outside.", "tools": [WEATHER]}
    steps = [
        {"when": "weather", "calls": [{"name": "outdoors__get_weather", "arguments": {"city": "Oslo"}}]},
        *STEPS[1:],
    ]
    with running(home, steps) as up:
        first = responses(up).create(model="hermes", input="how is the weather?", tools=[outdoors], stream=stream)
        last = list(first)[-1].response if stream else first
        call = last.output[-1]
        assert (call.name, call.namespace) == ("get_weather", "outdoors")
        items = [{"role": "user", "content": "how is the weather?"}, call.model_dump(exclude_none=True)]
        items.append({"type": "function_call_output", "call_id": call.call_id, "output": "rain, 4 degrees"})
        assert ask(up, False, input=items, tools=[outdoors]).output_text == "Take an umbrella."
        assert [count for _, count in stored(up)] == [4]


OPTIONS: list[tuple[dict[str, Any], dict[str, Any] | None]] = [
    ({"temperature": 0.2, "top_p": 0.9}, {"temperature": 0.2, "top_p": 0.9}),
    ({"max_output_tokens": 50}, {"max_completion_tokens": 50}),
    ({"reasoning": {"effort": "low"}}, {"reasoning_effort": "low"}),
    (
        {"text": {"format": {"type": "json_schema", "name": "place", "schema": SCHEMA, "strict": True}}},
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "place", "schema": SCHEMA, "strict": True},
            }
        },
    ),
    ({"text": {"verbosity": "low"}}, {"verbosity": "low"}),
    (
        {"tools": [WEATHER], "tool_choice": {"type": "function", "name": "get_weather"}, "parallel_tool_calls": False},
        {"tool_choice": {"type": "function", "function": {"name": "get_weather"}}, "parallel_tool_calls": False},
    ),
    ({"store": True, "user": "u", "truncation": "auto", "include": ["reasoning.encrypted_content"]}, {}),
    ({"background": True}, None),
    ({"conversation": "conv_1"}, None),
    ({"max_tool_calls": 1}, None),
    ({"tools": [{"type": "web_search"}]}, None),
]
ALWAYS = {"model": "m-1", "stream": True, "stream_options": {"include_usage": True}}


@pytest.mark.proves("http.forwarded", "http.responses")
def test_every_field_of_a_responses_client_goes_on_or_is_refused_by_name(home: Path) -> None:
    image = url(png(3, 2))
    content = [{"type": "input_text", "text": "What is this?"}, {"type": "input_image", "image_url": image}]
    said: Any = [{"role": "user", "content": content}]
    with (
        ModelServer(*(Answer(pieces=[chat({"content": "Yes."})]) for _ in OPTIONS)) as model,
        listening(home, behind(home, "openai", model.url)) as up,
    ):
        for asked, expected in OPTIONS:
            model.received.clear()
            if expected is None:
                with pytest.raises(openai.BadRequestError) as refused:
                    ask(up, False, input=said, **asked)
                assert refused.value.param in asked
                assert not model.received
                continue
            assert ask(up, False, input=said, **asked).output_text == "Yes."
            sent = model.received[0].json
            body = {name: each for name, each in sent.items() if name not in ("messages", "tools")}
            assert body == ALWAYS | expected, asked
            text, shown = sent["messages"][-1]["content"]
            assert (text, shown["image_url"]["url"]) == ({"type": "text", "text": "What is this?"}, image)
            function = {name: each for name, each in WEATHER.items() if name != "type"}
            assert "tools" not in asked or sent["tools"][-1] == {"type": "function", "function": function}


def letters(texts: list[str]) -> list[list[float]]:
    return [[float(text.count(letter)) for letter in "abst"] for text in texts]


@pytest.mark.proves("http.embeddings")
def test_texts_become_vectors_of_length_one(home: Path) -> None:
    made = Embedding(name="letters", dimensions=4, embed=letters)
    with running(home, find_embedding=lambda _setting: made) as up:
        client = openai.OpenAI(base_url=f"{up.url}/v1", api_key=up.keys["ann"], max_retries=0, default_headers=CLOSE)
        packed = client.embeddings.create(model="hermes", input=["a boat", "xyz"])
        plain = client.embeddings.create(model="hermes", input="a boat", encoding_format="float")
        assert packed.data[0].embedding == pytest.approx(plain.data[0].embedding)
        assert plain.data[0].embedding == pytest.approx([2 / 6**0.5, 1 / 6**0.5, 0, 1 / 6**0.5])
        assert packed.data[1].embedding == [0, 0, 0, 0]
        assert plain.usage.total_tokens > 0
        refused: list[Any] = [{"input": [1, 2]}, {"input": "a boat", "dimensions": 7}, {"input": []}]
        for wrong in refused:
            with pytest.raises(openai.BadRequestError):
                client.embeddings.create(model="hermes", **wrong)


@pytest.mark.proves("http.embeddings")
def test_a_server_without_search_by_meaning_says_what_is_missing(home: Path) -> None:
    with running(home, find_embedding=lambda _setting: None) as up:
        client = openai.OpenAI(base_url=f"{up.url}/v1", api_key=up.keys["ann"], max_retries=0, default_headers=CLOSE)
        with pytest.raises(openai.NotFoundError) as absent:
            client.embeddings.create(model="hermes", input="a boat")
        assert (absent.value.code, "semantic" in str(absent.value)) == ("no_embedding", True)
