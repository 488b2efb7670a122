"""`/v1/chat/completions` as OpenAI's own client uses it, over a real socket."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import openai
import pytest
from http_service import listening, prepare, running
from pictures import as_openai, png
from pictures import text as words

from hermes import MemorySession
from hermes.conversations.database import SessionDB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from http_service import Running

    from conftest import Ran

    Command = Callable[..., Ran]

CLOSE = {"connection": "close"}  # no client leaves a socket open for the garbage collector to find
STEPS = [
    {
        "when": "I am vegetarian",
        "calls": [{"name": "memory", "arguments": {"action": "add", "target": "user", "content": "Is vegetarian."}}],
    },
    {"when": "Is vegetarian.", "text": "Noted: no meat."},
    {"when": "weather", "text": "Let me look.", "calls": [{"name": "get_weather", "arguments": {"city": "Oslo"}}]},
    {"when": "rain, 4 degrees", "text": "Take an umbrella."},
    {"when": "fail now", "error": "no credit left"},
    {"when": "", "text": "Understood."},
]
WEATHER: Any = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}


@pytest.fixture
def up(home: Path) -> Iterator[Running]:
    with running(home, STEPS) as service:
        yield service


def client(up: Running, person: str = "ann", **more: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{up.url}/v1", api_key=up.keys[person], max_retries=0, default_headers=CLOSE, **more)


def user(text: str) -> Any:
    return {"role": "user", "content": text}


def sessions(up: Running, person: str = "ann") -> list[dict[str, Any]]:
    with up.client(person) as http:
        listed: list[dict[str, Any]] = http.get("/api/v1/sessions").json()["sessions"]
    return listed


@pytest.mark.proves("http.chat")
def test_a_client_that_sends_its_whole_history_has_one_conversation_and_a_memory(up: Running) -> None:
    ann = client(up)
    assert ann.models.list().data[0].id == "hermes"
    history = [user("I am vegetarian")]
    first = ann.chat.completions.create(model="hermes", messages=history)
    assert first.choices[0].message.content == "Noted: no meat."
    assert first.choices[0].finish_reason == "stop"
    assert first.usage is not None
    assert first.usage.total_tokens > 0
    history += [{"role": "assistant", "content": first.choices[0].message.content}, user("and now?")]
    second = ann.chat.completions.create(model="hermes", messages=history)
    assert second.choices[0].message.content == "Understood."
    assert len(sessions(up)) == 1
    ann.chat.completions.create(model="hermes", messages=[user("a new conversation")])
    newest = sessions(up)[0]["session_id"]
    with SessionDB.open(up.home / "users" / "ann" / "state.db") as db:
        assert "Is vegetarian." in db.session_details(newest)["system_prompt"]
    assert len(sessions(up)) == 2
    assert sessions(up, "bob") == []


@pytest.mark.proves("http.stream")
def test_an_answer_can_be_streamed(up: Running) -> None:
    stream = client(up).chat.completions.create(
        model="hermes", messages=[user("hello")], stream=True, stream_options={"include_usage": True}
    )
    pieces = list(stream)
    text = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
    assert text == "Understood."
    assert [piece.choices[0].finish_reason for piece in pieces if piece.choices][-1] == "stop"
    assert pieces[-1].usage is not None
    assert len(pieces) > 3


@pytest.mark.proves("http.tools")
@pytest.mark.parametrize("stream", [False, True])
def test_functions_of_the_client_end_the_turn_and_come_back_with_the_next_request(up: Running, stream: bool) -> None:
    ann = client(up)
    history: list[Any] = [user("how is the weather?")]
    if stream:
        pieces = list(ann.chat.completions.create(model="hermes", messages=history, tools=[WEATHER], stream=True))
        called = next(piece.choices[0].delta.tool_calls for piece in pieces if piece.choices[0].delta.tool_calls)[0]
        text = "".join(piece.choices[0].delta.content or "" for piece in pieces)
        assert pieces[-1].choices[0].finish_reason == "tool_calls"
        assert called.function is not None
        call: dict[str, Any] = {"id": called.id, "type": "function", "function": called.function.model_dump()}
    else:
        first = ann.chat.completions.create(model="hermes", messages=history, tools=[WEATHER])
        assert first.choices[0].finish_reason == "tool_calls"
        text = first.choices[0].message.content or ""
        assert first.choices[0].message.tool_calls is not None
        call = first.choices[0].message.tool_calls[0].model_dump()
    assert text == "Let me look."
    assert json.loads(call["function"]["arguments"]) == {"city": "Oslo"}
    history += [
        {"role": "assistant", "content": text, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "rain, 4 degrees"},
    ]
    second = ann.chat.completions.create(model="hermes", messages=history, tools=[WEATHER])
    assert second.choices[0].message.content == "Take an umbrella."
    assert len(sessions(up)) == 1


@pytest.mark.proves("http.sessions")
def test_a_conversation_can_be_named_by_a_header_and_user_does_not_join_conversations(up: Running) -> None:
    for extra in ({"extra_headers": {"X-Hermes-Session": "garden"}}, {"user": "u1"}):
        for text in ("first", "second"):
            client(up).chat.completions.create(model="hermes", messages=[user(text)], **extra)
    assert sorted((each["title"], each["message_count"]) for each in sessions(up)) == [
        ("First", 2),
        ("Second", 2),
        ("garden", 4),
    ]
    client(up, "bob").chat.completions.create(
        model="hermes", messages=[user("third")], extra_headers={"X-Hermes-Session": "garden"}
    )
    assert [each["message_count"] for each in sessions(up, "bob")] == [2]
    assert max(each["message_count"] for each in sessions(up)) == 4


@pytest.mark.proves("http.sessions")
def test_an_edited_history_begins_a_new_conversation_with_it(up: Running) -> None:
    ann = client(up)
    ann.chat.completions.create(model="hermes", messages=[user("one")])
    edited = [user("eins"), {"role": "assistant", "content": "Understood."}, user("zwei")]
    ann.chat.completions.create(model="hermes", messages=edited)
    listed = sessions(up)
    assert [each["message_count"] for each in listed] == [4, 2]
    with up.client() as http:
        said = http.get(f"/api/v1/sessions/{listed[0]['session_id']}/messages").json()["messages"]
    assert [each["content"] for each in said] == ["eins", "Understood.", "zwei", "Understood."]


@pytest.mark.proves("http.sessions")
def test_a_conversation_goes_on_after_a_restart(home: Path) -> None:
    keys = prepare(home, STEPS)
    history = [user("one")]
    with listening(home, keys) as up:
        client(up).chat.completions.create(model="hermes", messages=history)
    history += [{"role": "assistant", "content": " Understood.\n"}, user("two")]
    with listening(home, keys) as up:
        client(up).chat.completions.create(model="hermes", messages=history)
        assert [each["message_count"] for each in sessions(up)] == [4]


@pytest.mark.proves("http.sessions")
def test_a_conversation_that_was_deleted_meanwhile_begins_anew_with_its_history(home: Path) -> None:
    keys = prepare(home, STEPS)
    history = [user("one")]
    with listening(home, keys) as up:
        client(up).chat.completions.create(model="hermes", messages=history)
        (gone,) = [each["session_id"] for each in sessions(up)]
    with SessionDB.open(home / "users" / "ann" / "state.db") as db:
        db.delete(gone)
    history += [{"role": "assistant", "content": "Understood."}, user("two")]
    with listening(home, keys) as up:
        client(up).chat.completions.create(model="hermes", messages=history)
        (new,) = sessions(up)
        assert (new["message_count"], new["session_id"] == gone) == (4, False)


@pytest.mark.proves("http.chat", "http.stream")
@pytest.mark.parametrize("stream", [False, True])
def test_a_turn_that_comes_to_the_limit_of_model_calls_says_so(home: Path, stream: bool) -> None:
    again = [{"when": "", "calls": [{"name": "memory", "arguments": {"action": "list"}}]}]
    with running(home, again, "agent:\n  max_turns: 2\n") as up:
        ask = client(up).chat.completions.create
        if stream:
            pieces = list(ask(model="hermes", messages=[user("go on for ever")], stream=True))
            told = "".join(piece.choices[0].delta.content or "" for piece in pieces)
        else:
            told = str(ask(model="hermes", messages=[user("go on for ever")]).choices[0].message.content)
    assert told.startswith("I stopped after 2 model calls")


@pytest.mark.proves("http.sessions")
def test_results_for_calls_that_a_restart_closed_go_on_in_a_new_conversation(home: Path) -> None:
    keys = prepare(home, STEPS)
    history: list[Any] = [user("how is the weather?")]
    with listening(home, keys) as up:
        first = client(up).chat.completions.create(model="hermes", messages=history, tools=[WEATHER])
    message = first.choices[0].message.model_dump(exclude_none=True)
    history += [
        message,
        {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "rain, 4 degrees"},
    ]
    with listening(home, keys) as up:
        second = client(up).chat.completions.create(model="hermes", messages=history, tools=[WEATHER])
    assert second.choices[0].message.content == "Take an umbrella."


@pytest.mark.proves("http.errors")
def test_errors_are_those_a_client_of_openai_knows(up: Running) -> None:
    ann = client(up)
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=f"{up.url}/v1", api_key="hk-wrong", max_retries=0, default_headers=CLOSE).models.list()
    with pytest.raises(openai.NotFoundError, match="no model"):
        ann.chat.completions.create(model="gpt-9", messages=[user("x")])
    for stream in (False, True):
        with pytest.raises(openai.InternalServerError, match="no credit left"):
            ann.chat.completions.create(model="hermes", messages=[user("fail now")], stream=stream)
    audio: Any = {"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}
    with pytest.raises(openai.BadRequestError, match="text and images"):
        ann.chat.completions.create(model="hermes", messages=[audio])
    with pytest.raises(openai.BadRequestError):
        ann.chat.completions.create(model="hermes", messages=[{"role": "assistant", "content": "x"}])
    with pytest.raises(openai.BadRequestError):
        ann.chat.completions.create(model="hermes", messages=[user("x")], n=2)


@pytest.mark.proves("http.errors")
def test_a_server_without_a_model_says_so_to_the_client_and_names_the_cause_to_the_operator(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys = prepare(home, STEPS)
    (home / "config.yaml").write_text("model:\n  default: served-by-nobody\n")
    with listening(home, keys) as up, pytest.raises(openai.InternalServerError, match="hermes setup") as refused:
        client(up).chat.completions.create(model="hermes", messages=[user("x")])
    assert refused.value.code == "no_model"
    assert "served-by-nobody" in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.proves("http.start")
def test_the_server_says_where_clients_go_and_that_a_model_is_missing(home: Path, hermes: Command) -> None:
    hermes("users", "key", "owner")
    hermes("config", "set", "model.default", "served-by-nobody")
    command = [sys.executable, "-m", "hermes", "serve", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        first, second, logged = (server.stderr.readline() for _ in range(3))
        server.terminate()
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+ INFO ", logged), "an operator sees when"
    assert re.match(r"OpenAI clients: http://127\.0\.0\.1:[1-9]\d+/v1 ", first)
    assert "served-by-nobody" in second
    assert second.endswith("until then only memory, search and MCP are served\n")
    assert "--model" not in second
    assert "`hermes config set model.default scripted:FILE`" in second
    (home / "script.json").write_text('["Good day."]')
    hermes("config", "set", "model.default", "scripted:script.json")
    assert hermes("-q", "hello").out == "Good day.\n"


@pytest.mark.proves("http.start")
def test_a_port_that_is_taken_is_all_that_is_said(hermes: Command) -> None:
    hermes("users", "key", "owner")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = hermes("serve", "--port", str(port))
    assert ran.code == 2
    assert ran.err.startswith(f"hermes: cannot listen on 127.0.0.1, port {port}: Address already in use; choose others")
    assert "--port is 70000; expected" in hermes("serve", "--port", "70000").err


@pytest.mark.proves("http.chat")
def test_another_model_can_be_named_when_the_operator_lists_it(home: Path) -> None:
    home.mkdir()
    (home / "other.json").write_text('[{"when": "", "text": "I am another."}]')
    with running(home, STEPS, "server:\n  models: ['scripted:other.json']\n") as up:
        ann = client(up)
        assert [model.id for model in ann.models.list()] == ["hermes", "scripted:other.json"]
        answer = ann.chat.completions.create(model="scripted:other.json", messages=[user("who?")])
        assert answer.choices[0].message.content == "I am another."


@pytest.mark.proves("http.sessions")
def test_conversations_beyond_the_limit_are_closed_and_found_again(home: Path) -> None:
    with running(home, STEPS, "server:\n  open_conversations: 2\n") as up:
        histories = []
        for number in range(5):
            history = [user(f"number {number}")]
            client(up).chat.completions.create(model="hermes", messages=history)
            histories.append([*history, {"role": "assistant", "content": "Understood."}, user("again")])
        assert len(up.service.conversations) <= 3
        client(up).chat.completions.create(model="hermes", messages=histories[0])
        assert sorted(each["message_count"] for each in sessions(up)) == [2, 2, 2, 2, 4]


@pytest.mark.proves("http.limits")
def test_a_turn_that_takes_too_long_is_cut_off_and_says_so(home: Path) -> None:
    steps = [{"when": "", "text": "one two three four five six seven eight nine ten", "pause": 0.4}]
    with running(home, steps, "server:\n  turn_timeout: 1\n") as up:
        answer = client(up).chat.completions.create(model="hermes", messages=[user("count")])
        assert answer.choices[0].finish_reason == "length"
        assert (answer.choices[0].message.content or "").startswith("one two thre")
        assert "ten" not in (answer.choices[0].message.content or "")


@pytest.mark.proves("http.limits")
def test_more_turns_than_workers_are_refused_until_one_is_free(home: Path) -> None:
    steps = [{"when": "", "text": "one two three four five six", "pause": 0.2}]
    with running(home, steps, "server:\n  workers: 1\n") as up:
        stream = client(up).chat.completions.create(model="hermes", messages=[user("count")], stream=True)
        next(iter(stream))
        with pytest.raises(openai.InternalServerError, match="busy"):
            client(up, "bob").chat.completions.create(model="hermes", messages=[user("me too")])
        list(stream)
        assert client(up, "bob").chat.completions.create(model="hermes", messages=[user("me too")]).choices


@pytest.mark.proves("http.stream", "http.sessions")
def test_a_client_that_goes_away_leaves_a_conversation_that_goes_on(home: Path) -> None:
    steps = [{"when": "count", "text": "one two three four five six", "pause": 0.1}, {"when": "", "text": "Here."}]
    with running(home, steps) as up:
        named = {"X-Hermes-Session": "lost"}
        ann = client(up)
        stream = ann.chat.completions.create(model="hermes", messages=[user("count")], stream=True, extra_headers=named)
        next(iter(stream))
        stream.close()
        again = ann.chat.completions.create(model="hermes", messages=[user("still there?")], extra_headers=named)
        assert again.choices[0].message.content == "Here."
        assert [each["title"] for each in sessions(up)] == ["lost"]


@pytest.mark.proves("images.http")
def test_images_over_http_are_stored_once_and_the_history_is_recognised(up: Running) -> None:
    ann = client(up)
    history: list[Any] = [{"role": "user", "content": [words("What is this?"), as_openai(png())]}]
    for question in ("And the axis?", "Thanks."):
        reply = ann.chat.completions.create(model="hermes", messages=history)
        history += [{"role": "assistant", "content": reply.choices[0].message.content}, user(question)]
    (first,) = sessions(up)
    assert first["message_count"] == 4
    other = [{"role": "user", "content": [words("What is this?"), as_openai(png(shade=9))]}, *history[1:]]
    ann.chat.completions.create(model="hermes", messages=other)
    assert len(sessions(up)) == 2
    home = up.home / "users" / "ann"
    assert len(list((home / "images").iterdir())) == 2
    with MemorySession.open(home, resume=first["session_id"]) as session:
        assert session.request().messages[0]["content"] == [words("What is this?"), as_openai(png())]


@pytest.mark.proves("images.http")
@pytest.mark.parametrize(
    ("role", "part", "why"),
    [
        ("user", as_openai(b"plain words"), "PNG, JPEG, GIF and WebP are taken"),
        ("user", {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}, "must begin with https:"),
        ("user", {"type": "image", "file": "../../etc/passwd"}, "neither data nor an address"),
        ("user", {"type": "input_audio", "input_audio": {}}, "text and images are supported here"),
        ("system", as_openai(png()), "only text is supported here"),
    ],
)
def test_an_image_that_is_not_taken_is_a_400_that_says_why(up: Running, role: str, part: Any, why: str) -> None:
    messages: list[Any] = [{"role": role, "content": [part]}, user("hi")]
    with pytest.raises(openai.BadRequestError, match=why) as refused:
        client(up).chat.completions.create(model="hermes", messages=messages)
    assert refused.value.param == "messages[0]"
    assert sessions(up) == []
