"""What models get wrong and an agent forgives: malformed JSON, arguments beside the schema, answers cut off."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from agents import call_tools
from hypothesis import given, settings
from hypothesis import strategies as st
from model_server import Answer, ModelServer, chat, claude

from hermes import Agent, MemorySession, MemoryStore, SessionDB
from hermes.base.errors import ModelRefused
from hermes.base.events import Continuing, Notice, TextDelta, ToolReturned, TurnFinished
from hermes.base.text import read_arguments, valid_arguments
from hermes.llm.anthropic import Anthropic
from hermes.llm.client import Endpoint
from hermes.llm.openai import OpenAICompatible
from hermes.llm.scripted import Reply, Scripted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WIRES = {"openai": OpenAICompatible, "anthropic": Anthropic}
SAVE = '"action": "add", "content": "Likes tea."'
# What a model wrote, and the words of the entry that it meant.
REPAIRED = [
    ("a trailing comma", f"{{{SAVE},}}", "Likes tea."),
    ("single quotes", "{'action': 'add', 'content': 'The \"best\" tea.'}", 'The "best" tea.'),
    ("an open bracket", f"{{{SAVE}", "Likes tea."),
    ("open brackets", f'{{"operations": [{{{SAVE}}}', "Likes tea."),
    ("a bracket too many", f"{{{SAVE}}}}}", "Likes tea."),
    ("Python's words", f'{{{SAVE}, "operations": None}}', "Likes tea."),
    ("a code fence", f"```json\n{{{SAVE}}}\n```", "Likes tea."),
    ("a bare line break", '{"action": "add", "content": "Likes tea\nand cake."}', "Likes tea\nand cake."),
    ("a pattern", r'{"action": "add", "content": "Dates match \d\d."}', r"Dates match \d\d."),
    ("bare keys", '{action: "add", content: "Likes tea."}', "Likes tea."),
    ("JSON in JSON", json.dumps(f"{{{SAVE}}}"), "Likes tea."),
]
# What may mean several things, or nothing.
REFUSED = [
    '{"action": "add", "content": "Likes te',
    '{"action": "add", "content": "Says "hello" often."}',
    r'{"action": "add", "content": "Files in C:\Users\new."}',
    '{"action": "add", "content":',
    f"{{{SAVE},",
    f'{{{SAVE}, "limit": 1',
    f'{{{SAVE}, "limit": 2 5,}}',
    f"]{{{SAVE}}}",
    f"[{{{SAVE}}}]",
    f"{{{SAVE}}} I hope this helps",
    "please save it",
]


def calling(wire: str, name: str, arguments: str, *, reason: str = "") -> Answer:
    """An answer that calls one tool, with the arguments as the model wrote them."""
    if wire == "openai":
        call = {"index": 0, "id": "c1", "function": {"name": name, "arguments": arguments}}
        return Answer(pieces=[chat({"tool_calls": [call]}, reason=reason or "tool_calls")])
    block: Any = {"type": "tool_use", "id": "c1", "name": name, "input": {}}
    deltas = [{"type": "input_json_delta", "partial_json": arguments}]
    return Answer(pieces=[claude((block, deltas), reason=reason or "tool_use")])


def saying(wire: str, text: str, *, reason: str = "") -> Answer:
    if wire == "openai":
        return Answer(pieces=[chat({"content": text}, reason=reason or "stop")])
    return Answer(pieces=[claude(({"type": "text", "text": text}, []), reason=reason or "end_turn")])


def model_at(server: ModelServer, wire: str, name: str = "m") -> Any:
    return WIRES[wire](Endpoint(model=name, base_url=server.url, replays_reasoning="content"))


def cut(wire: str) -> str:
    """What a provider gives as the reason when its output limit is reached."""
    return {"openai": "length", "anthropic": "max_tokens"}[wire]


def stored(home: Path, session_id: str) -> list[dict[str, Any]]:
    with SessionDB.open(home / "state.db") as db:
        return [each.message for each in db.messages(session_id)]


def replayed(wire: str, body: Any) -> dict[str, Any]:
    """The arguments of the first call in a request."""
    called = next(each for each in body["messages"] if each["role"] == "assistant")
    if wire == "openai":
        arguments: dict[str, Any] = json.loads(called["tool_calls"][0]["function"]["arguments"])
        return arguments
    return next(dict(block["input"]) for block in called["content"] if block["type"] == "tool_use")


@pytest.mark.proves("llm.malformed-calls")
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(("how", "written", "meant"), REPAIRED, ids=[case[0] for case in REPAIRED])
def test_malformed_json_is_repaired_run_and_told_to_the_model(
    home: Path, wire: str, how: str, written: str, meant: str
) -> None:
    del how
    answers = [calling(wire, "memory", written), *(saying(wire, text) for text in ("Noted.", "Sure.", "Still."))]
    with ModelServer(*answers, strict=True) as server:
        with Agent.open(home, model=model_at(server, wire)) as agent:
            [returned] = [each for each in agent.turn("I like tea") if isinstance(each, ToolReturned)]
            list(agent.turn("and?"))
        with Agent.open(home, model=model_at(server, wire), resume=agent.session.id) as agent:
            list(agent.turn("after a resume?"))
        sent = [each.json for each in server.received]
    assert MemoryStore.open(home).entries("memory") == (meant,)
    result = json.loads(returned.result)
    assert result["success"]
    assert "not valid JSON" in result["repaired_arguments"]
    arguments = [replayed(wire, body) for body in sent[1:]]
    assert arguments == [json.loads(returned.call.arguments)] * 3  # the bytes of a past message stay what they are
    json.loads(stored(home, agent.session.id)[1]["tool_calls"][0]["function"]["arguments"])


@pytest.mark.proves("llm.malformed-calls")
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("written", REFUSED)
def test_what_may_mean_several_things_is_not_run_and_later_turns_work(home: Path, wire: str, written: str) -> None:
    answers = [calling(wire, "memory", written), saying(wire, "Sorry."), saying(wire, "Sure.")]
    with ModelServer(*answers, strict=True) as server, Agent.open(home, model=model_at(server, wire)) as agent:
        [returned] = [each for each in agent.turn("I like tea") if isinstance(each, ToolReturned)]
        list(agent.turn("and?"))
        assert [replayed(wire, each.json) for each in server.received[1:]] == [{}, {}]
    error = json.loads(returned.result)["error"]
    assert "arguments must be a JSON object" in error
    assert written[:40] in error
    assert MemoryStore.open(home).entries("memory") == ()


@pytest.mark.proves("llm.malformed-calls")
def test_a_host_that_records_malformed_calls_itself_gets_valid_ones_back(home: Path) -> None:
    written = f"{{{SAVE},}}"
    call = {"id": "c1", "type": "function", "function": {"name": "memory", "arguments": written}}
    odd = {"id": "c2", "type": "function", "function": {"name": "memory", "arguments": "not json"}}
    with MemorySession.open(home) as session:
        session.prepare_turn("I like tea")
        session.record({"role": "assistant", "content": None, "tool_calls": [call, odd]})
        assert "repaired_arguments" in session.call_tool("memory", written, call_id="c1")
        assert "cannot be read" in session.call_tool("memory", "not json", call_id="c2")
        asked = session.request().messages[1]
        session.finish_turn("Noted.")
    assert [each["function"]["arguments"] for each in asked["tool_calls"]] == [
        json.dumps(json.loads(f"{{{SAVE}}}")),
        "{}",
    ]
    with MemorySession.open(home, resume=session.id) as again:
        assert again.prepare_turn("and?").messages[1] == asked


@pytest.mark.proves("llm.malformed-calls")
def test_a_conversation_stored_with_malformed_calls_can_be_gone_on_with(home: Path) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "memory", "arguments": "{'action': 'add',}"}}
    with MemorySession.open(home) as session:
        session.prepare_turn("hello")
        session.finish_turn("Hi.")
    with SessionDB.open(home / "state.db") as db:  # as versions before stored it, and as imports bring it
        db.append(session.id, {"role": "user", "content": "save it"})
        db.append(session.id, {"role": "assistant", "content": None, "tool_calls": [call]})
        db.append(session.id, {"role": "tool", "tool_call_id": "c1", "content": "failed"})
        db.append(session.id, {"role": "assistant", "content": "It failed."})
    with (
        ModelServer(saying("openai", "Hm."), strict=True) as server,
        Agent.open(home, model=model_at(server, "openai"), resume=session.id) as agent,
    ):
        *_, end = agent.turn("again?")
    assert isinstance(end, TurnFinished)
    assert end.reply == "Hm."


@pytest.mark.proves("llm.malformed-calls", "agent.outside")
def test_a_client_gets_the_calls_of_its_functions_as_valid_json(home: Path) -> None:
    weather = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
    with Agent(MemorySession.open(home), Scripted([Reply(calls=[("weather", "{'city': 'Oslo',}")])])) as agent:
        *_, end = agent.turn_with([weather], "weather?")
    assert isinstance(end, TurnFinished)
    assert end.message["tool_calls"][0]["function"]["arguments"] == '{"city": "Oslo"}'


ODD_JSON = st.text(st.sampled_from("{}[]:,\"'\\ntruefalsNone01.- `\n")) | st.text()


@pytest.mark.proves("llm.malformed-calls")
@settings(max_examples=300)
@given(ODD_JSON)
def test_any_text_becomes_the_json_of_an_object(text: str) -> None:
    valid = json.loads(valid_arguments(text))
    read, wrong = read_arguments(text)
    assert valid == (read or {})
    if not wrong and text.strip():
        assert json.loads(text) in (valid, None)


WORDS = st.text(st.characters(exclude_categories=["Cn", "Co", "Cs", "Cf"]))  # Python writes these in ways of its own
OBJECTS = st.dictionaries(
    st.text(st.sampled_from("abc_"), min_size=1),
    st.none() | st.booleans() | st.integers() | WORDS | st.lists(WORDS),
    min_size=1,
)


@pytest.mark.proves("llm.malformed-calls")
@given(OBJECTS)
def test_an_object_is_repaired_to_what_it_was(value: dict[str, Any]) -> None:
    right = json.dumps(value, ensure_ascii=False)
    assert valid_arguments(right) == right
    for broken in (f"{right[:-1]},}}", f"```json\n{right}\n```", f"{right}}}", repr(value)):
        assert read_arguments(broken)[0] == value, broken


# Arguments


class Anything:
    """A tool of somebody who writes few words into their schema."""

    brings = ""
    schema: ClassVar[dict[str, Any]] = {
        "name": "anything",
        "description": "Takes what it gets.",
        "parameters": {
            "type": "object",
            "properties": {
                "count": {"type": "integer"},
                "share": {"type": "number"},
                "loud": {"type": "boolean"},
                "names": {"type": "array", "items": {"type": "string"}},
                "metadata": {"type": "object"},
                "inner": {"type": "object", "properties": {"deep": {"type": "object", "properties": {}}}},
                "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "either": {"type": ["string", "integer"]},
            },
        },
    }

    def call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"success": True, "got": arguments}


@pytest.mark.proves("agent.forgiving-arguments")
@pytest.mark.parametrize(
    ("sent", "got"),
    [
        ({"count": "5"}, {"count": 5}),
        ({"count": 5.0}, {"count": 5}),
        ({"share": "0.5"}, {"share": 0.5}),
        ({"loud": "True"}, {"loud": True}),
        ({"names": '["a", "b"]'}, {"names": ["a", "b"]}),
        ({"names": "['a', 'b',]"}, {"names": ["a", "b"]}),
        ({"names": "a"}, {"names": ["a"]}),
        ({"names": [1, 2]}, {"names": ["1", "2"]}),
        ({"metadata": '{"about": {"birds": true}}'}, {"metadata": {"about": {"birds": True}}}),
        ({"metadata": {"any": 1, "keys": [2]}}, {"metadata": {"any": 1, "keys": [2]}}),
        ({"inner": {"deep": {"any": "5"}}}, {"inner": {"deep": {"any": "5"}}}),
        ({"maybe": "7"}, {"maybe": 7}),
        ({"either": "7"}, {"either": "7"}),
    ],
)
def test_arguments_are_taken_in_the_types_of_the_schema(home: Path, sent: dict[str, Any], got: dict[str, Any]) -> None:
    with MemorySession.open(home, tools=[Anything()]) as session:
        assert json.loads(session.call_tool("anything", sent)) == {"success": True, "got": got}


@pytest.mark.proves("agent.forgiving-arguments")
@pytest.mark.parametrize(
    "sent",
    [{"count": "five"}, {"count": 5.5}, {"count": True}, {"share": "NaN"}, {"loud": "maybe"}, {"metadata": "words"}],
)
def test_what_does_not_fit_is_refused_by_its_name(home: Path, sent: dict[str, Any]) -> None:
    with MemorySession.open(home, tools=[Anything()]) as session:
        result = json.loads(session.call_tool("anything", sent))
    assert f"{next(iter(sent))} must be" in result["error"]


@pytest.mark.proves("agent.forgiving-arguments")
def test_unknown_keys_are_ignored_and_named(home: Path) -> None:
    save = {"action": "add", "content": "Likes tea.", "reason": "they said so"}
    several = {"operations": [{**save, "content": "Likes cake."}], "why": 1}
    with MemorySession.open(home) as session:
        one = json.loads(session.call_tool("memory", save))
        two = json.loads(session.call_tool("memory", several))
    assert (one["success"], one["ignored_arguments"]) == (True, ["reason"])
    assert (two["success"], two["ignored_arguments"]) == (True, ["why", "operations[0].reason"])
    assert MemoryStore.open(home).entries("memory") == ("Likes tea.", "Likes cake.")


@pytest.mark.proves("agent.forgiving-arguments")
def test_memory_without_a_target_is_memory(home: Path, tmp_path: Path) -> None:
    save = {"action": "add", "content": "Likes tea."}
    null = {"action": "add", "content": "Likes cake.", "target": None}
    text = {"operations": json.dumps([{"action": "add", "content": "Likes jam."}]), "target": "user"}
    results = call_tools(home, tmp_path / "work", *(("memory", each) for each in (save, null, text)))
    assert [each["target"] for each in results] == ["memory", "memory", "user"]
    assert MemoryStore.open(home).entries("memory") == ("Likes tea.", "Likes cake.")
    assert MemoryStore.open(home).entries("user") == ("Likes jam.",)


# Answers that are cut off


@pytest.mark.proves("llm.continues")
@pytest.mark.parametrize("wire", WIRES)
def test_an_answer_that_was_cut_off_is_continued_and_stored_as_one(home: Path, wire: str) -> None:
    parts = ["Tea is a dr", "ink made of le", "aves."]
    answers = [*(saying(wire, part, reason=cut(wire)) for part in parts[:2]), saying(wire, parts[2])]
    answers.append(saying(wire, "Black."))
    with ModelServer(*answers, strict=True) as server, Agent.open(home, model=model_at(server, wire)) as agent:
        events = list(agent.turn("what is tea?"))
        list(agent.turn("which one?"))
        sent = [each.json["messages"] for each in server.received]
    end = events[-1]
    assert isinstance(end, TurnFinished)
    assert (end.reply, end.reason, end.model_calls) == ("Tea is a drink made of leaves.", "stop", 3)
    assert "".join(each.text for each in events if isinstance(each, TextDelta)) == end.reply
    assert [each.number for each in events if isinstance(each, Continuing)] == [1, 2]
    assert [each["content"] for each in stored(home, agent.session.id)[:2]] == ["what is tea?", end.reply]
    first, *continued, following = [[_text(each) for each in messages] for messages in sent]
    at = len(first)
    assert [messages[:at] for messages in continued] == [first[:at]] * 2
    assert [messages[at] for messages in continued] == [parts[0], parts[0] + parts[1]]
    assert all("cut off" in messages[at + 1] for messages in continued)
    assert following[at:] == [end.reply, "which one?"]


@pytest.mark.proves("llm.continues")
def test_an_answer_is_continued_three_times_at_most(home: Path) -> None:
    endless = [Reply(text=f"{number} ", reason="length") for number in range(9)]
    with Agent(MemorySession.open(home), Scripted(endless)) as agent:
        *_, end = agent.turn("count")
    assert isinstance(end, TurnFinished)
    assert (end.reply, end.reason, end.model_calls) == ("0 1 2 3 ", "length", 4)


@pytest.mark.proves("llm.continues")
def test_what_there_is_of_an_answer_is_kept_when_the_rest_does_not_come(home: Path) -> None:
    steps: list[Any] = [Reply(text="Tea is a", reason="length"), ModelRefused("no more for you")]
    with Agent(MemorySession.open(home), Scripted(steps)) as agent:
        *events, end = agent.turn("what is tea?")
    assert isinstance(end, TurnFinished)
    assert (end.reply, end.reason) == ("Tea is a", "length")
    assert any(isinstance(each, Notice) and "no more for you" in each.text for each in events)
    assert stored(home, agent.session.id)[-1]["content"] == "Tea is a"


@pytest.mark.proves("llm.continues")
def test_stopping_in_a_continuation_keeps_all_that_was_said(home: Path) -> None:
    steps: list[Any] = [Reply(text="Tea is a ", reason="length"), Reply(text="drink made of leaves and water.")]
    with Agent(MemorySession.open(home), Scripted(steps)) as agent:
        events = agent.turn("what is tea?")
        _read_until(events, "drink")
        events.close()  # type: ignore[attr-defined] # it is a generator
    last = stored(home, agent.session.id)[-1]
    assert last["content"].startswith("Tea is a drink")
    assert last["interrupted"]


@pytest.mark.proves("llm.continues")
def test_a_continuation_may_end_in_a_tool_call(home: Path) -> None:
    save = ("memory", {"action": "add", "content": "Likes tea."})
    steps: list[Any] = [Reply(text="I will sa", reason="length"), Reply(text="ve it.", calls=[save]), "Saved."]
    with Agent(MemorySession.open(home), Scripted(steps)) as agent:
        list(agent.turn("I like tea"))
    written = stored(home, agent.session.id)
    assert [each["role"] for each in written] == ["user", "assistant", "tool", "assistant"]
    assert written[1]["content"] == "I will save it."
    assert MemoryStore.open(home).entries("memory") == ("Likes tea.",)


@pytest.mark.proves("llm.continues", "llm.loop-scrubs")
def test_recalled_memory_that_is_cut_in_two_stays_hidden(home: Path) -> None:
    steps: list[Any] = [
        Reply(text="Sure.\n<memory-context>\nthe sec", reason="length"),
        Reply(text="ret\n</memory-context>\nTea it is."),
    ]
    with Agent(MemorySession.open(home), Scripted(steps)) as agent:
        *_, end = agent.turn("what do I drink?")
    assert isinstance(end, TurnFinished)
    assert "sec" not in end.reply
    assert "ret" not in end.reply
    assert end.reply.startswith("Sure.")
    assert end.reply.endswith("Tea it is.")


@pytest.mark.proves("llm.continues")
def test_a_limit_that_reasoning_used_up_is_told_to_the_person(home: Path) -> None:
    with Agent(MemorySession.open(home), Scripted([Reply(reasoning="hm", reason="length")])) as agent:
        *events, end = agent.turn("what is tea?")
    assert isinstance(end, TurnFinished)
    assert (end.reason, end.model_calls) == ("length", 1)
    assert any(isinstance(each, Notice) and "output limit" in each.text for each in events)


@pytest.mark.proves("llm.continues")
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("written", ['{"action": "add", "content": "Likes te', f"{{{SAVE}", ""])
def test_a_call_that_was_cut_off_is_not_run_and_both_sides_are_told(home: Path, wire: str, written: str) -> None:
    answers = [calling(wire, "memory", written, reason=cut(wire)), saying(wire, "Sorry."), saying(wire, "Sure.")]
    with ModelServer(*answers, strict=True) as server, Agent.open(home, model=model_at(server, wire)) as agent:
        events = list(agent.turn("I like tea"))
        list(agent.turn("and?"))
    [returned] = [each for each in events if isinstance(each, ToolReturned)]
    assert "This call was cut off: your answer reached the output limit" in json.loads(returned.result)["error"]
    [notice] = [each.text for each in events if isinstance(each, Notice)]
    assert "output limit while it wrote a call of memory" in notice
    assert MemoryStore.open(home).entries("memory") == ()


@pytest.mark.proves("llm.continues")
def test_a_call_that_was_complete_when_the_limit_came_is_run(home: Path) -> None:
    steps: list[Any] = [
        Reply(calls=[("memory", f"{{{SAVE}}}"), ("memory", '{"action": "ad')], reason="length"),
        "Saved.",
    ]
    with Agent(MemorySession.open(home), Scripted(steps)) as agent:
        results = [json.loads(each.result) for each in agent.turn("tea") if isinstance(each, ToolReturned)]
    assert [each["success"] for each in results] == [True, False]
    assert MemoryStore.open(home).entries("memory") == ("Likes tea.",)


@pytest.mark.proves("llm.continues")
def test_a_model_whose_calls_never_fit_is_stopped(home: Path) -> None:
    endless = [Reply(calls=[("write_file", '{"path": "a", "content": "' + "x" * 99)], reason="length")] * 9
    with Agent(MemorySession.open(home), Scripted(endless)) as agent:
        *_, end = agent.turn("write a book")
    assert isinstance(end, TurnFinished)
    assert (end.reason, end.model_calls) == ("length", 3)
    assert "output limit" in end.reply


@pytest.mark.proves("llm.continues", "agent.outside")
def test_a_clients_call_that_was_cut_off_does_not_reach_the_client(home: Path) -> None:
    weather = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
    steps: list[Any] = [
        Reply(calls=[("weather", '{"city": "Os')], reason="length"),
        Reply(calls=[("weather", {"city": "Oslo"})]),
    ]
    with Agent(MemorySession.open(home), Scripted(steps)) as agent:
        *_, end = agent.turn_with([weather], "weather?")
    assert isinstance(end, TurnFinished)
    assert (end.reason, end.model_calls) == ("tool_calls", 2)
    assert json.loads(end.message["tool_calls"][0]["function"]["arguments"]) == {"city": "Oslo"}


def _read_until(events: Iterator[Any], text: str) -> None:
    """Reads events until one of them shows this."""
    next(each for each in events if isinstance(each, TextDelta) and text in each.text)


def _text(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
