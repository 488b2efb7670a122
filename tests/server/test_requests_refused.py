"""Requests of any client that cannot be answered, and answers when something behind the server is wrong."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from http_service import running

from hermes.base.errors import RateLimited, StorageError
from hermes.server import conversations
from hermes.server.auth import Buckets
from hermes.server.conversations import Conversations
from hermes.settings.home import find_home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from http_service import Running

CHAT = "/v1/chat/completions"
HI = {"role": "user", "content": "hi"}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
ANSWERED: list[Any] = [HI, {"role": "assistant", "content": None, "tool_calls": [CALL]}]


@pytest.fixture
def up(home: Path) -> Iterator[Running]:
    with running(home) as service:
        yield service


def calling(**call: Any) -> dict[str, Any]:
    return {"messages": [HI, {"role": "assistant", "tool_calls": [CALL | call]}, HI]}


REFUSED: list[tuple[Any, str]] = [
    (["hi"], "the body must be a JSON object"),
    ({"messages": [HI], "n": 2}, "only one answer at a time"),
    ({"messages": [HI], "response_format": "text"}, "response_format is not what the API takes there"),
    ({"messages": [HI], "response_format": {"type": "json_schema"}}, "response_format is not what the API takes"),
    ({"messages": [HI], "temperature": "warm"}, "temperature is not what the API takes there"),
    ({"messages": [HI], "max_tokens": True}, "max_tokens is not what the API takes there"),
    ({"messages": [HI], "stop": []}, "stop is not what the API takes there"),
    ({"messages": [HI], "tool_choice": "required"}, "tool_choice wants a function that tools does not have: any"),
    ({"messages": [HI], "logprobs": True}, "logprobs is not supported here; leave it out"),
    ({"messages": [HI], "web_search_options": {}}, "web_search_options is not supported here; leave it out"),
    ({"messages": [HI], "temprature": 0.2}, "temprature is not supported here; leave it out"),
    ({"messages": [{**HI, "name": "ann"}, {**HI, "name": "bob"}]}, "several speakers (name) in one conversation"),
    ({}, "messages must be a list with at least one message"),
    ({"messages": []}, "messages must be a list with at least one message"),
    ({"messages": [HI] * 20_001}, "more than 20,000 messages"),
    ({"messages": ["hi"]}, "messages[0].role must be one of"),
    ({"messages": [{**HI, "role": "oracle"}]}, "messages[0].role must be one of"),
    ({"messages": [*ANSWERED, {"role": "tool", "content": "4"}]}, "messages[2].tool_call_id is missing"),
    ({"messages": [HI, {"role": "assistant", "content": "hello"}]}, "the last message must be the user's or a tool's"),
    (calling(id=None), "each call needs an id and a function"),
    (calling(function="look"), "each call needs an id and a function"),
    (calling(function={"name": "look", "arguments": {}}), "name and arguments must be texts"),
    ({"messages": [HI, {"role": "assistant", "tool_calls": "look"}, HI]}, "messages[1].tool_calls must be a list"),
    ({"messages": [{"role": "user", "content": 4}]}, "messages[0].content must be a list"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "give it as a data: or https: URL"),
    ({"messages": [HI], "tools": {"name": "look"}}, "tools must be a list"),
    ({"messages": [HI], "tools": [{"type": "function"}]}, "tools[0] must be a function with a name"),
    ({"messages": [HI], "tools": [{"type": "web_search"}]}, "tools[0] must be a function with a name"),
    (
        {"messages": [HI], "tools": [{"type": "function", "function": {"name": "look", "parameters": []}}]},
        "tools[0].function.parameters must be a JSON schema",
    ),
    ({"messages": [HI], "model": 4}, "model must be a text of at most 200 characters"),
    ({"messages": [HI], "stream": "yes"}, "stream must be true or false"),
]


@pytest.mark.proves("http.chat")
def test_a_request_that_makes_no_sense_is_told_what_is_wrong_with_it(up: Running) -> None:
    with up.client() as http:
        for body, message in REFUSED:
            answer = http.post(CHAT, json=body)
            assert (answer.status_code, message in answer.json()["error"]["message"]) == (400, True), (
                body,
                answer.text,
            )
        named = http.post(CHAT, json={"messages": [HI]}, headers={"x-hermes-session": "n" * 201})
        assert (named.status_code, "more than 200 characters" in named.text) == (400, True)
        assert http.post(CHAT, content=b"{").status_code == 400
        assert http.get("/api/v1/sessions").json()["sessions"] == []


@pytest.mark.proves("http.chat")
def test_words_in_parts_and_instructions_of_a_developer_are_understood(up: Running) -> None:
    parts = [{"type": "text", "text": "first"}, {"type": "text", "text": "second"}]
    messages = [{"role": "developer", "content": None}, {"role": "user", "content": parts}]
    with up.client() as http:
        assert http.post(CHAT, json={"messages": messages}).status_code == 200
        (session,) = http.get("/api/v1/sessions").json()["sessions"]
        said = http.get(f"/api/v1/sessions/{session['session_id']}/messages").json()["messages"]
    assert said[0]["content"] == "first\nsecond"


def streamed(up: Running, text: str) -> str:
    with (
        up.client() as http,
        http.stream("POST", CHAT, json={"messages": [HI | {"content": text}], "stream": True}) as got,
    ):
        return got.read().decode()


@pytest.mark.proves("http.stream", "http.errors")
def test_a_failure_after_the_first_words_is_an_event_of_the_stream(home: Path) -> None:
    class Broken:
        """An agent whose storage fails in the middle of an answer."""

        def __init__(self, agent: Any) -> None:
            self.inner = agent
            self.session = agent.session

        def turn_with(self, *given: Any, **named: Any) -> Iterator[Any]:
            events = self.inner.turn_with(*given, **named)
            yield next(event for event in events if type(event).__name__ == "TextDelta")
            events.close()
            raise StorageError("the disk at /secret/place is full")

        def close(self) -> None:
            self.inner.close()

    from hermes.agent import Agent

    def open_agent(*given: Any, **named: Any) -> Any:
        return Broken(Agent.open(*given, **named))

    with running(home, [{"when": "", "text": "one two three"}], open_agent=open_agent) as up:
        events = streamed(up, "count")
    assert '"content": "one' in events
    assert "could not be stored; the operator's log says why" in events
    assert "/secret/place" not in events
    assert "[DONE]" not in events


@pytest.mark.proves("http.errors")
@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (RateLimited("wait", seconds=7.2), 429, "wait"),
        (StorageError("the disk at /secret/place is full"), 503, "could not be stored"),
        (ValueError("/secret/place"), 500, "an error of this server"),
    ],
)
def test_what_went_wrong_behind_the_server_is_told_without_what_is_not_the_clients(
    home: Path, error: Exception, status: int, words: str
) -> None:
    def fails(*_given: Any, **_named: Any) -> Any:
        raise error

    with running(home, open_agent=fails) as up, up.client() as http:
        answer = http.post(CHAT, json={"messages": [HI]})
    assert (answer.status_code, words in answer.text, "/secret" in answer.text) == (status, True, False)
    assert answer.headers.get("retry-after") == ("7" if status == 429 else None)


@pytest.mark.proves("http.sessions")
def test_results_that_belong_to_no_call_are_refused_and_begin_nothing(up: Running) -> None:
    stray = {
        "messages": [HI, {"role": "assistant", "content": "hm"}, {"role": "tool", "tool_call_id": "x", "content": "4"}]
    }
    with up.client() as http:
        answer = http.post(CHAT, json=stray)
    assert (answer.status_code, "belong to no call" in answer.text) == (400, True)


@pytest.mark.proves("http.sessions")
def test_several_things_said_at_once_are_all_kept(up: Running) -> None:
    with up.client() as http:
        first = http.post(
            CHAT, json={"messages": [HI, {**HI, "content": "and hello"}]}, headers={"x-hermes-session": "s"}
        )
        assert first.status_code == 200
        (session,) = http.get("/api/v1/sessions").json()["sessions"]
    assert session["message_count"] == 3


@pytest.mark.proves("http.api")
def test_a_memory_that_cannot_be_read_or_written_is_the_operators_to_mend(up: Running) -> None:
    memories = up.home / "users" / "ann" / "memories"
    with up.client() as http:
        operations = {"operations": [{"action": "add", "content": "Grows orchids."}]}
        assert http.post("/api/v1/memory/memory", json=operations).status_code == 200
        (memories / "MEMORY.md").unlink()
        os.mkfifo(memories / "MEMORY.md")
        read = http.get("/api/v1/memory/memory")
        assert (read.status_code, read.json()["error"]["code"]) == (503, "storage")
        assert str(up.home) not in read.text
        state = http.get("/api/v1/status").json()["memory"]
        assert "cannot be read" in state["memory"]
        assert http.post("/api/v1/memory/memory", json={"operations": None}).status_code == 400


@pytest.mark.proves("http.limits")
def test_a_browsers_password_may_be_the_key_and_nonsense_is_none(up: Running) -> None:
    key = httpx.BasicAuth("anyone", up.keys["ann"])
    assert httpx.get(f"{up.url}/health", auth=key).status_code == 200
    for wrong in ("Basic ***", "Basic YW55b25l", "Digest x"):
        assert httpx.get(f"{up.url}/health", headers={"authorization": wrong}).status_code == 401
    ipv6 = {"authorization": f"Bearer {up.keys['ann']}", "host": f"[::1]:{up.url.rpartition(':')[2]}"}
    assert httpx.get(f"{up.url}/health", headers=ipv6).status_code == 200


@pytest.mark.proves("http.limits")
def test_there_is_no_socket_to_upgrade_to_and_a_broken_list_of_people_lets_nobody_in(up: Running) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def connect() -> None:
        await up.service.app({"type": "websocket", "headers": []}, receive, send)

    asyncio.run(connect())
    assert sent == [{"type": "websocket.close", "code": 1008}]
    (up.home / "users.json").write_text("{")
    with up.client() as http:
        answer = http.get("/health")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "people")


@pytest.mark.proves("http.limits")
def test_only_so_many_names_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    buckets = Buckets(1, lambda: 0.0, at_once=1)
    assert buckets.take("first") == 0
    for number in range(10_000):
        buckets.take(f"name {number}")
    assert buckets.take("first") == 0  # forgotten: the longest unused goes first


@pytest.mark.proves("people.apart")
def test_everything_of_a_person_is_closed_when_they_leave(home: Path) -> None:
    known = Conversations(lambda name: find_home(home / name))
    for name in ("ann", "bob"):
        known.workspace(name)
    known.leave("ann")
    assert known.people() == {"bob"}
    known.leave("ann")
    known.close()
    assert known.people() == set()


@pytest.mark.proves("mcp.tools")
def test_prompts_and_resources_nobody_has_are_errors_of_the_protocol(up: Running) -> None:
    def ask(method: str, params: dict[str, Any]) -> Any:
        headers = {"accept": "application/json, text/event-stream"}
        with up.client(headers=headers) as http:
            answer = http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        lines = [line for line in answer.text.splitlines() if line.startswith(("data: {", "{"))]
        return json.loads(lines[-1].removeprefix("data: "))

    assert "no such resource" in ask("resources/read", {"uri": "hermes://memory/OTHER.md"})["error"]["message"]
    assert "no such prompt" in ask("prompts/get", {"name": "nothing"})["error"]["message"]


@pytest.mark.proves("http.sessions")
def test_a_conversation_that_is_still_answering_is_not_entered_twice(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversations, "_BUSY_SECONDS", 0.2)
    steps = [{"when": "count", "text": "one two three four five six seven eight", "pause": 1.5}]
    named = {"x-hermes-session": "garden"}
    counting = {"messages": [HI | {"content": "count"}], "stream": True}
    with running(home, steps) as up, up.client() as one, up.client() as two:
        with one.stream("POST", CHAT, json=counting, headers=named) as answer:
            next(answer.iter_lines())
            busy = two.post(CHAT, json={"messages": [HI]}, headers=named)
        assert (busy.status_code, busy.json()["error"]["code"]) == (409, "busy")


@pytest.mark.proves("http.tools")
def test_results_and_new_words_may_come_together_and_the_limit_of_calls_is_told(home: Path) -> None:
    look = {"name": "look", "arguments": {}}
    steps = [
        {"when": "look", "calls": [look]},
        {"when": "loop", "calls": [{"name": "todo", "arguments": {}}]},
        {"when": "", "text": "Here.", "calls": [{"name": "todo", "arguments": {}}]},
    ]
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    with running(home, steps, "agent:\n  max_turns: 2\n") as up, up.client() as http:
        asked: dict[str, Any] = {"messages": [HI | {"content": "look"}], "tools": tools}
        first = http.post(CHAT, json=asked).json()["choices"][0]["message"]
        call = first["tool_calls"][0]["id"]
        result = {"role": "tool", "tool_call_id": call, "content": "a walrus"}
        more = [*asked["messages"], first, result, HI | {"content": "and"}, HI | {"content": "then?"}]
        second = http.post(CHAT, json={"messages": more, "tools": tools})
        assert second.status_code == 200
        assert second.json()["choices"][0]["finish_reason"] == "length"
        assert "Here." in second.json()["choices"][0]["message"]["content"]
        (session,) = http.get("/api/v1/sessions").json()["sessions"]
        said = http.get(f"/api/v1/sessions/{session['session_id']}/messages").json()["messages"]
    assert [each["role"] for each in said[:5]] == ["user", "assistant", "tool", "user", "user"]


@pytest.mark.proves("http.errors")
def test_a_wrong_address_says_where_the_right_ones_are(up: Running) -> None:
    with up.client() as http:
        answer = http.get("/api/v1/memories")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
        assert answer.json()["error"]["message"].startswith("there is nothing at this address; /openapi.json lists")
        target = http.get("/api/v1/memory/people").json()["error"]["message"]
        assert target == "there is no memory 'people'; there are memory, user"


@pytest.mark.proves("http.errors")
def test_a_method_an_address_does_not_have_is_told_which_it_has(up: Running) -> None:
    with up.client() as http:
        answer = http.delete("/api/v1/memory/user")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD, POST")
    said = answer.json()["error"]
    assert said["message"] == "DELETE is not possible at this address; GET, HEAD, POST are"
    assert said["code"] == "method_not_allowed"
