"""The one loop, around a real `MemorySession` with a scripted model."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from model_server import Answer, ModelServer, chat, claude

from hermes.base.errors import ContextTooLong, ModelBusy, ModelRefused
from hermes.base.events import Finished, ReasoningDelta, Retrying, TextDelta, ToolReturned, TurnFinished, Usage
from hermes.conversations.database import SessionDB
from hermes.llm.anthropic import Anthropic
from hermes.llm.client import Endpoint
from hermes.llm.openai import OpenAICompatible
from hermes.llm.scripted import Reply, Scripted
from hermes.memory.store import MemoryStore
from hermes.session.session import MemorySession
from hermes.tools.loop import run_turn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hermes.llm.client import Model

ADD = ("memory", {"action": "add", "target": "user", "content": "Likes tea."})
LIST: tuple[str, dict[str, Any]] = ("skills_list", {})


def turn(session: MemorySession, model: Model, text: str = "hello", **given: Any) -> list[Any]:
    session.prepare_turn(text)
    events = list(run_turn(model, session, **given))
    end = ended(events)
    session.finish_turn(end.reply, interrupted=end.reason == "interrupted", usage=end.usage, model=end.model)
    return events


def ended(events: Iterable[Any]) -> TurnFinished:
    *_, last = events
    assert isinstance(last, TurnFinished)
    return last


def roles(home: Path, session: MemorySession) -> list[str]:
    with SessionDB.open(home / "state.db") as db:
        return [each.message["role"] for each in db.messages(session.id)]


def assert_valid(messages: list[dict[str, Any]]) -> None:
    """No call without a result, no result without a call, as both wires want it."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
        else:
            assert not waiting
            waiting = [call["id"] for call in message.get("tool_calls") or ()]
    assert not waiting


@pytest.mark.proves("llm.loop", "llm.scripted")
def test_a_turn_calls_tools_until_the_model_has_an_answer(home: Path) -> None:
    model = Scripted([Reply(text="One moment.", calls=[ADD, LIST]), Reply(calls=[LIST]), "Noted."])
    with MemorySession.open(home) as session:
        events = turn(session, model)
        assert_valid(session.request().messages)
    end = ended(events)
    assert (end.reply, end.reason, end.model_calls, end.model) == ("Noted.", "stop", 3, "scripted")
    results = [each for each in events if isinstance(each, ToolReturned)]
    assert [each.call.name for each in results] == ["memory", "skills_list", "skills_list"]
    assert json.loads(results[0].result)["success"]
    assert MemoryStore.open(home).entries("user") == ("Likes tea.",)
    stored = ["user", "assistant", "tool", "tool", "assistant", "tool", "assistant"]
    assert roles(home, session) == stored
    assert [len(sent.messages) for sent in model.requests] == [1, 4, 6]


@pytest.mark.proves("llm.loop")
def test_usage_is_the_sum_over_the_model_calls_of_a_turn(home: Path) -> None:
    counted = Usage(input_tokens=100, output_tokens=5, cache_read_tokens=90)
    model = Scripted([Reply(calls=[LIST], usage=counted), Reply(text="ok", usage=counted)])
    with MemorySession.open(home) as session:
        end = ended(turn(session, model))
    assert end.usage == Usage(input_tokens=200, output_tokens=10, cache_read_tokens=180)


@pytest.mark.proves("llm.loop")
@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_a_whole_turn_runs_over_each_wire(home: Path, wire: str) -> None:
    name, arguments = ADD[0], json.dumps(ADD[1])
    if wire == "openai":
        call = {"index": 0, "id": "c1", "function": {"name": name, "arguments": arguments}}
        pieces = [chat({"tool_calls": [call]}, reason="tool_calls"), chat({"content": "Noted."})]
    else:
        thinking: Any = ({"type": "thinking", "thinking": "hm", "signature": "s"}, [])
        use = {"type": "tool_use", "id": "c1", "name": name, "input": {}}
        block = (use, [{"type": "input_json_delta", "partial_json": arguments}])
        pieces = [claude(thinking, block, reason="tool_use"), claude(({"type": "text", "text": "Noted."}, []))]
    with ModelServer(*[Answer(pieces=[piece]) for piece in pieces]) as server, MemorySession.open(home) as session:
        made = {"openai": OpenAICompatible, "anthropic": Anthropic}[wire]
        model = made(Endpoint(model="m", base_url=server.url, cache_points="native" if wire == "anthropic" else ""))
        assert ended(turn(session, model)).reply == "Noted."
        first, second = (each.json for each in server.received)
    assert second["messages"][: len(first["messages"]) - 1] == first["messages"][:-1]
    if wire == "anthropic":
        assert [block["type"] for block in second["messages"][1]["content"]] == ["thinking", "tool_use"]
        assert second["messages"][2]["content"][0]["type"] == "tool_result"
    assert MemoryStore.open(home).entries("user") == ("Likes tea.",)


@pytest.mark.proves("llm.loop")
def test_the_limit_of_model_calls_ends_a_turn_with_a_valid_history(home: Path) -> None:
    model = Scripted([Reply(calls=[LIST])] * 5)
    with MemorySession.open(home) as session:
        end = ended(turn(session, model, limit=3))
        assert_valid(session.request().messages)
    assert (end.reason, end.model_calls) == ("limit", 3)
    assert "after 3 model calls" in end.reply


@pytest.mark.proves("llm.loop")
def test_a_wrong_call_is_answered_for_the_model_to_correct(home: Path) -> None:
    model = Scripted([Reply(calls=[("nothing", {}), ("memory", '{"act')]), "I see."])
    with MemorySession.open(home) as session:
        results = [each.result for each in turn(session, model) if isinstance(each, ToolReturned)]
    assert "there is no tool 'nothing'" in results[0]
    assert "arguments must be a JSON object" in results[1]


@pytest.mark.proves("llm.loop")
def test_an_error_of_the_model_reaches_the_caller_and_the_session_goes_on(home: Path) -> None:
    with MemorySession.open(home) as session:
        session.prepare_turn("one")
        with pytest.raises(ModelRefused):
            list(run_turn(Scripted([Reply(calls=[LIST]), ModelRefused("no")]), session))
        assert ended(turn(session, Scripted(["fine"]), "two")).reply == "fine"
        assert_valid(session.request().messages)


@pytest.mark.proves("llm.loop")
def test_text_before_a_retry_is_void(home: Path) -> None:
    class Stuttering:
        name, context_length = "stuttering", 1_000

        def stream(self, *_: object, **__: object) -> Iterator[Any]:
            yield TextDelta(text="hal <memory-con")
            yield Retrying(error=ModelBusy("x"), seconds=0, model="stuttering")
            yield TextDelta(text="whole")
            message = {"role": "assistant", "content": "whole"}
            yield Finished(message=message, usage=Usage(), reason="stop", model="stuttering")

    with MemorySession.open(home) as session:
        assert ended(turn(session, Stuttering())).reply == "whole"


@pytest.mark.proves("llm.loop-stops")
@pytest.mark.parametrize("after", range(12))
def test_stopping_at_any_moment_leaves_a_history_every_model_accepts(home: Path, after: int) -> None:
    model = Scripted([Reply(text="I will do both.", calls=[ADD, LIST]), "Now it is done, all of it."])
    looks = iter(range(100))
    with MemorySession.open(home) as session:
        end = ended(turn(session, model, cancelled=lambda: next(looks) >= after))
        assert end.reason in ("interrupted", "stop")
        assert_valid(session.request().messages)
        assert ended(turn(session, Scripted(["next"]), "again")).reply == "next"
        assert_valid(session.request().messages)


@pytest.mark.proves("llm.loop-stops")
def test_what_was_said_before_the_stop_is_the_reply(home: Path) -> None:
    stop = threading.Event()
    with MemorySession.open(home) as session:
        session.prepare_turn("go")
        events = []
        for event in run_turn(Scripted(["one two three four five six"]), session, cancelled=stop.is_set):
            events.append(event)
            stop.set()
    end = ended(events)
    assert (end.reason, end.reply) == ("interrupted", "one two thre")


@pytest.mark.proves("llm.loop-stops")
@pytest.mark.parametrize("taken", range(1, 6))
def test_closing_the_iterator_leaves_a_valid_history(home: Path, taken: int) -> None:
    with MemorySession.open(home) as session:
        session.prepare_turn("go")
        events = run_turn(Scripted([Reply(calls=[ADD, LIST]), "done"]), session)
        for _ in range(taken):
            next(events)
        events.close()  # type: ignore[attr-defined]  # run_turn is a generator
        assert_valid(session.request().messages)


@pytest.mark.proves("llm.loop-stops")
def test_ctrl_c_in_a_tool_gives_every_call_a_result(home: Path) -> None:
    class Stopped:
        schema = {"name": "wait", "description": "", "parameters": {"type": "object", "properties": {}}}  # noqa: RUF012

        def call(self, _: dict[str, Any]) -> dict[str, Any]:
            raise KeyboardInterrupt

    with MemorySession.open(home, tools=[Stopped()]) as session:
        end = ended(turn(session, Scripted([Reply(text="I will wait.", calls=[ADD, ("wait", {}), LIST])])))
        messages = session.request().messages
        assert_valid(messages)
    assert (end.reason, end.reply) == ("interrupted", "")  # what it said before is saved with its calls
    assert [each["content"] for each in messages if each["role"] == "tool"][1:] == [
        "[This call was not run: the turn was stopped.]"
    ] * 2


@pytest.mark.proves("llm.loop-fits")
def test_a_conversation_that_is_too_long_is_compacted_once_and_asked_again(home: Path) -> None:
    errors: list[Any] = []

    def fit(request: Any, error: ContextTooLong | None) -> Any:
        errors.append(error)
        return replace(request, messages=request.messages[-1:]) if error else request

    model = Scripted(["ok", ContextTooLong("too long", limit=10), "fits"])
    with MemorySession.open(home) as session:
        turn(session, model, "one", fit=fit)
        events = turn(session, model, "two", fit=fit)
    assert isinstance(events[0], Retrying)
    assert ended(events).reply == "fits"
    assert [error.limit if error else None for error in errors] == [None, None, 10]
    assert [len(sent.messages) for sent in model.requests] == [1, 3, 1]


@pytest.mark.proves("llm.loop-fits")
def test_what_cannot_be_shortened_is_an_error(home: Path) -> None:
    with MemorySession.open(home) as session:
        session.prepare_turn("one")
        with pytest.raises(ContextTooLong):
            list(run_turn(Scripted([ContextTooLong("too long")] * 2), session))


@pytest.mark.proves("llm.loop-scrubs")
def test_recalled_memory_that_the_model_repeats_is_neither_shown_nor_stored(home: Path) -> None:
    leak = "Here:\n<memory-context>\nthe secret plan\n</memory-context> and on."
    with MemorySession.open(home) as session:
        events = turn(session, Scripted([Reply(text=leak, calls=[LIST]), leak]))
        shown = "".join(each.text for each in events if isinstance(each, TextDelta))
        messages = session.request().messages
    assert "secret plan" not in shown + ended(events).reply + json.dumps(messages)
    assert messages[1]["content"].startswith("Here:")
    assert messages[1]["tool_calls"]


@pytest.mark.proves("llm.scripted")
def test_a_script_may_look_at_the_messages_reason_fail_and_run_out() -> None:
    model = Scripted([lambda messages: f"{len(messages)} messages", Reply(text="hal", fails=ModelBusy("cut"))])
    *_, last = model.stream("s", [{"role": "user", "content": "x"}])
    assert isinstance(last, Finished)
    assert last.message["content"] == "1 messages"
    with pytest.raises(ModelBusy, match="cut"):
        list(model.stream("", []))
    with pytest.raises(ModelRefused, match="the script has 2 steps and this is call 3"):
        list(model.stream("", []))
    events = list(Scripted([Reply(reasoning="hm", text="ok")]).stream("system", [{"role": "user", "content": "hi"}]))
    assert isinstance(events[0], ReasoningDelta)
    assert isinstance(events[-1], Finished)
    assert events[-1].message == {"role": "assistant", "content": "ok", "reasoning": "hm"}
    assert events[-1].usage.input_tokens > 0


@pytest.mark.internal("the guide's example must not name what does not exist")
def test_the_example_of_the_guide_compiles_and_its_imports_exist() -> None:
    guide = Path(__file__).parents[2] / "docs" / "guides" / "models.md"
    example = guide.read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    compile(example, str(guide), "exec")
    exec("\n".join(line for line in example.splitlines() if line.startswith("from ")), {})


@pytest.mark.proves("llm.loop")
def test_a_hosts_model_that_stops_without_an_end_is_told_and_the_conversation_goes_on(home: Path) -> None:
    class Silent(Scripted):
        def stream(self, *given: Any, **more: Any) -> Iterator[Any]:
            yield from (each for each in super().stream(*given, **more) if not isinstance(each, Finished))

    with MemorySession.open(home) as session:
        session.prepare_turn("hello")
        with pytest.raises(ModelBusy, match="ended without finishing its answer"):
            list(run_turn(Silent(["Half an ans"]), session))
        assert ended(turn(session, Scripted(["Here."]))).reply == "Here."


@pytest.mark.proves("llm.loop")
def test_an_answer_that_ends_like_the_beginning_of_a_fence_is_shown_to_its_end(home: Path) -> None:
    with MemorySession.open(home) as session:
        events = turn(session, Scripted(["1 < 2 and a <memory-con"]))
    assert "".join(each.text for each in events if isinstance(each, TextDelta)) == "1 < 2 and a <memory-con"
    assert ended(events).reply == "1 < 2 and a <memory-con"
