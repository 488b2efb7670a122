"""Whatever a model writes as arguments, each tool answers with JSON and says what is wrong."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from agents import configure

from hermes import Agent, MemorySession
from hermes.llm.scripted import Scripted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

NASTY: dict[str, list[Any]] = {
    "string": [
        *("", " ", ".", "..", "/", "~", "a" * 5_000, "a/" * 2_000, "nul\0inside", "\ud800", "日本.txt", "-rf", "["),
        *("(a+", "**/*", "http://[", "http://a:b", "http://a:99999999", "http://\x7f", "https://", "http://."),
        *("file:///", "%00", "\n"),
    ],
    "integer": [0, -1, 10**18, -(10**18)],
    "boolean": [True, False],
    "array": [[], [{}], [1], ["x"], [None], [{"id": "1", "content": "x", "status": "pending"}]],
    "object": [{}, {"x": 1}],
}


@pytest.mark.proves("agent.any-arguments")
def test_no_arguments_end_a_turn(home: Path, tmp_path: Path) -> None:
    configure(home, "terminal: {policy: deny}\nfiles: {outside: deny}\n")
    (tmp_path / "work").mkdir()
    chance = random.Random(7)
    toolsets = ("files", "terminal", "web", "todo")
    with Agent.open(home, model=Scripted([]), cwd=str(tmp_path / "work"), toolsets=toolsets) as agent:
        for tool in agent.session.request().tools:
            name, schema = tool["function"]["name"], tool["function"]["parameters"]
            for _ in range(25):
                result = agent.session.call_tool(name, json.dumps(_arguments(schema, chance)))
                json.JSONDecoder().raw_decode(result)
                assert "failed: " not in result[:60], result[:300]


def _arguments(schema: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    given = {}
    for name, field in schema.get("properties", {}).items():
        if name in schema.get("required", ()) or chance.random() < 0.5:
            kind = field["type"] if chance.random() < 0.9 else chance.choice(list(NASTY))
            given[name] = chance.choice(field.get("enum") or NASTY[kind])
    return given


@pytest.mark.proves("agent.any-arguments")
def test_a_tool_of_a_host_that_fails_is_a_result_and_not_the_end(home: Path) -> None:
    class Broken:
        schema = {"name": "broken", "description": "", "parameters": {"type": "object", "properties": {}}}  # noqa: RUF012

        def call(self, _: dict[str, Any]) -> dict[str, Any]:
            raise ZeroDivisionError("oops")

    with MemorySession.open(home, tools=[Broken()]) as session:
        result = json.loads(session.call_tool("broken", {}))
    assert result == {"success": False, "error": "broken failed: ZeroDivisionError: oops"}


@pytest.mark.proves("agent.any-arguments")
def test_a_schema_that_says_what_we_do_not_check_lets_everything_through(home: Path) -> None:
    class Odd:
        schema: ClassVar[dict[str, Any]] = {
            "name": "odd",
            "description": "",
            "parameters": {
                "type": "object",
                "properties": {"leaf": {"type": ["string", "integer"]}, "cup": {"$ref": "#/cup"}},
                "additionalProperties": {"type": "string"},
            },
        }

        def call(self, arguments: dict[str, Any]) -> dict[str, Any]:
            return {"success": True, "got": arguments}

    given = {"leaf": 3, "cup": [], "water": "hot"}
    with MemorySession.open(home, tools=[Odd()]) as session:
        session.prepare_turn("go")
        assert json.loads(session.call_tool("odd", given)) == {"success": True, "got": given}


@pytest.mark.proves("agent.any-arguments")
def test_a_tool_that_needs_a_conversation_says_so_outside_of_one(hermes: Callable[..., Ran]) -> None:
    ran = hermes("tool", "context_compact", "{}")
    assert (ran.code, "works inside a session" in ran.json["error"]) == (1, True)
