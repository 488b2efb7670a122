"""`Agent` around a real session with a scripted model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from model_server import Answer, ModelServer, chat, claude, failing

from hermes import Agent, MemorySession, SessionDB
from hermes.base.errors import ModelRefused, SettingsError
from hermes.base.events import Finished, Notice, TextDelta, ToolReturned, TurnFinished, Usage
from hermes.llm.anthropic import Anthropic
from hermes.llm.client import Endpoint, Fallback
from hermes.llm.openai import OpenAICompatible
from hermes.llm.scripted import Reply, Scripted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ADD = ("memory", {"action": "add", "target": "user", "content": "Likes tea."})


def stored(home: Path, agent: Agent) -> list[dict[str, Any]]:
    with SessionDB.open(home / "state.db") as db:
        return [each.message for each in db.messages(agent.session.id)]


def scripted_home(home: Path, steps: list[Any]) -> None:
    home.mkdir(exist_ok=True)
    (home / "script.json").write_text(json.dumps(steps))
    (home / "config.yaml").write_text("model:\n  provider: scripted\n  default: script.json\n")


@pytest.mark.proves("agent.turn")
def test_a_turn_runs_tools_and_is_stored_before_its_last_event_is_seen(home: Path) -> None:
    with Agent(MemorySession.open(home), Scripted([Reply(calls=[ADD]), "Noted."])) as agent:
        events = []
        for event in agent.turn("I like tea"):
            events.append(event)
            if isinstance(event, TurnFinished):
                assert [each["role"] for each in stored(home, agent)] == ["user", "assistant", "tool", "assistant"]
    assert any(isinstance(event, ToolReturned) for event in events)
    assert isinstance(events[-1], TurnFinished)
    assert events[-1].reply == "Noted."


@pytest.mark.proves("agent.turn")
def test_notices_reach_the_reader_before_the_turn_ends(home: Path) -> None:
    with Agent(MemorySession.open(home), Scripted(["Hello."])) as agent:
        agent.session.notices.add("provider", "the service is slow")
        *before, last = agent.turn("hi")
    assert Notice(kind="provider", text="the service is slow") in before
    assert isinstance(last, TurnFinished)


BROKEN = ("memory", {"action": "replace", "target": "user", "content": "Likes tea."})
NOT_SAVED = "nothing was saved to memory in this turn"


def notices(home: Path, steps: list[Any], said: str = "Please remember that I like tea.") -> list[str]:
    with Agent(MemorySession.open(home), Scripted(steps)) as agent:
        return [event.text for event in agent.turn(said) if isinstance(event, Notice)]


@pytest.mark.proves("agent.claims")
@pytest.mark.parametrize(
    "steps",
    [
        ["I'll remember that you like tea."],
        ["Got it! I've saved that for you."],
        ["I have noted your preference in my memory."],
        ["Saved."],
        ["Noted in memory: you like tea."],
        ["Okay. I will add this to memory."],
        ["Ich merke mir das."],
        ["我会记住的。"],
        ["覚えておきます。"],
        [Reply(calls=[BROKEN]), "Done! Tea it is."],
        [Reply(calls=[("session_search", {"query": "tea"})]), "I'll remember."],
    ],
)
def test_a_claim_to_have_saved_something_is_contradicted(home: Path, steps: list[Any]) -> None:
    assert [text.partition(",")[0] for text in notices(home, steps)] == [NOT_SAVED]


@pytest.mark.proves("agent.claims")
@pytest.mark.parametrize(
    "steps",
    [
        [Reply(calls=[ADD]), "Saved. I'll remember that."],
        [Reply(calls=[BROKEN]), Reply(calls=[ADD]), "I've saved that."],
        [Reply(calls=[BROKEN]), "I could not save it: the call failed."],
        ["Noted. What kind of tea?"],
        ["Should I remember that? I have not saved anything yet."],
        ["You told me to remember the milk."],
        ["“I'll remember you,” she said, and left."],
        ["Save the file and run `git add`; it is stored in the index."],
        ["The settings are saved in config.yaml."],
        ["The array is stored in memory, and I have added a field for your preferences to the class."],
    ],
)
def test_an_answer_that_claims_nothing_false_is_left_alone(home: Path, steps: list[Any]) -> None:
    assert notices(home, steps) == []


@pytest.mark.proves("agent.interrupt")
def test_an_interrupted_turn_is_marked_and_the_conversation_goes_on(home: Path) -> None:
    with Agent(MemorySession.open(home), Scripted(["one two three four five six", "fine"])) as agent:
        for event in agent.turn("count"):
            if isinstance(event, TextDelta):
                agent.interrupt()
        assert isinstance(event, TurnFinished)
        assert (event.reason, event.reply) == ("interrupted", "one two thre")
        assert stored(home, agent)[-1]["interrupted"] is True
        *_, end = agent.turn("and now?")
        assert isinstance(end, TurnFinished)
        assert end.reply == "fine"


@pytest.mark.proves("agent.interrupt")
def test_a_reader_that_goes_away_leaves_a_marked_turn(home: Path) -> None:
    with Agent(MemorySession.open(home), Scripted([Reply(calls=[ADD]), "one two three four", "fine"])) as agent:
        events = agent.turn("count")
        while not isinstance(next(events), TextDelta):
            pass
        events.close()  # type: ignore[attr-defined]  # turn is a generator
        last = stored(home, agent)[-1]
        assert (last["content"], last["interrupted"]) == ("one two thre", True)
        *_, end = agent.turn("and now?")
        assert isinstance(end, TurnFinished)


@pytest.mark.proves("agent.interrupt")
def test_a_turn_stopped_before_any_word_says_so_in_the_history(home: Path) -> None:
    with Agent(MemorySession.open(home), Scripted(["never"])) as agent:
        *_, end = agent.turn("hi", cancelled=lambda: True)
        assert stored(home, agent)[-1]["content"] == "[Stopped before there was an answer.]"
    assert isinstance(end, TurnFinished)
    assert end.reason == "interrupted"


@pytest.mark.proves("agent.turn")
def test_an_error_of_the_model_reaches_the_caller_and_the_next_turn_works(home: Path) -> None:
    with Agent(MemorySession.open(home), Scripted([ModelRefused("no credit"), "fine"])) as agent:
        with pytest.raises(ModelRefused, match="no credit"):
            list(agent.turn("hi"))
        *_, end = agent.turn("again")
        assert isinstance(end, TurnFinished)
        assert end.reply == "fine"


@pytest.mark.proves("agent.reasoning")
def test_the_reasoning_of_the_last_message_is_stored(home: Path) -> None:
    with Agent(MemorySession.open(home), Scripted([Reply(reasoning="tea, then", text="Tea.")])) as agent:
        list(agent.turn("what do I drink?"))
        assert stored(home, agent)[-1]["reasoning"] == "tea, then"


@pytest.mark.proves("agent.scripted")
def test_a_script_can_be_chosen_in_the_settings_and_by_name(home: Path) -> None:
    scripted_home(home, ["first", {"when": "tea", "text": "Always tea."}, "second"])
    with Agent.open(home) as agent:
        replies = [list(agent.turn(text))[-1] for text in ("one", "tea?", "two", "tea!")]
        assert [each.reply for each in replies if isinstance(each, TurnFinished)] == [
            "first",
            "Always tea.",
            "second",
            "Always tea.",
        ]
        with pytest.raises(ModelRefused, match="no step for call 5"):
            list(agent.turn("three"))
        (home / "other.json").write_text('["other"]')
        agent.switch_model("scripted:other.json")
        *_, end = agent.turn("four")
        assert isinstance(end, TurnFinished)
        assert end.reply == "other"


@pytest.mark.proves("agent.scripted")
@pytest.mark.parametrize("script", ["{", "{}", '[{"txt": "x"}]'])
def test_a_script_that_cannot_be_read_is_a_settings_error(home: Path, script: str) -> None:
    scripted_home(home, [])
    (home / "script.json").write_text(script)
    with pytest.raises(SettingsError, match=r"script\.json"):
        Agent.open(home)


@pytest.mark.proves("agent.reasoning")
@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_the_reasoning_of_an_answer_goes_back_with_the_next_turn_also_after_a_resume(home: Path, wire: str) -> None:
    if wire == "openai":
        first = chat({"reasoning_content": "tea, then", "content": "Tea."})
        second, third = (chat({"content": text}) for text in ("More.", "Enough."))
    else:
        thought: Any = ({"type": "thinking", "thinking": "tea, then", "signature": "s"}, [])
        first = claude(thought, ({"type": "text", "text": "Tea."}, []))
        second, third = (claude(({"type": "text", "text": text}, [])) for text in ("More.", "Enough."))
    with ModelServer(*[Answer(pieces=[piece]) for piece in (first, second, third)]) as server:
        made = {"openai": OpenAICompatible, "anthropic": Anthropic}[wire]

        def model() -> Any:
            return made(Endpoint(model="m", base_url=server.url, replays_reasoning="content"))

        with Agent.open(home, model=model()) as agent:
            list(agent.turn("what do I drink?"))
            list(agent.turn("and then?"))
        with Agent.open(home, model=model(), resume=agent.session.id) as agent:
            list(agent.turn("and now?"))
        sent = [each.json["messages"] for each in server.received]
    answers = [next(each for each in messages if each["role"] == "assistant") for messages in sent[1:]]
    if wire == "openai":
        assert [each["reasoning_content"] for each in answers] == ["tea, then"] * 2
    else:
        assert [each["content"][0]["thinking"] for each in answers] == ["tea, then"] * 2


THOUGHT = "the person wants tea"


def thinking(wire: str, text: str = "Tea.") -> Answer:
    """An answer with reasoning that its model wants back."""
    if wire == "anthropic":
        thought: Any = ({"type": "thinking", "thinking": THOUGHT, "signature": "s"}, [])
        return Answer(pieces=[claude(thought, ({"type": "text", "text": text}, []))])
    detail = {"type": "reasoning.text", "text": THOUGHT, "signature": "s", "index": 0}
    reasoning = {"reasoning_content": THOUGHT} if wire == "content" else {"reasoning_details": [detail]}
    return Answer(pieces=[chat({**reasoning, "content": text})])


def at(server: ModelServer, wire: str, name: str) -> Any:
    made = Anthropic if wire == "anthropic" else OpenAICompatible
    return made(Endpoint(model=name, base_url=server.url, replays_reasoning="" if wire == "anthropic" else wire))


@pytest.mark.proves("agent.reasoning", "llm.reasoning")
@pytest.mark.parametrize("after", ["content", "details", "anthropic"])
@pytest.mark.parametrize("before", ["content", "details", "anthropic"])
def test_one_models_reasoning_is_never_sent_to_another(home: Path, before: str, after: str) -> None:
    with ModelServer(*[thinking(before)] * 3, *[thinking(after)] * 4, thinking(before)) as server:
        with Agent.open(home, model=at(server, before, "one")) as agent:
            list(agent.turn("what do I drink?"))
            list(agent.turn("and then?"))
            fallback = Fallback([at(server, before, "one"), at(server, after, "two")])
            agent.model = fallback
            list(agent.turn("still there?"))
            server.answers.insert(0, failing(401, {"error": {"message": "no"}}))
            list(agent.turn("is anybody?"))
            agent.model = at(server, after, "two")
            list(agent.turn("who are you?"))
            branch = agent.session.branch()
        for resumed in (agent.session.id, branch):
            with Agent.open(home, model=at(server, after, "two"), resume=resumed) as other:
                list(other.turn("and now?"))
        with Agent.open(home, model=at(server, before, "one"), resume=agent.session.id) as back:
            list(back.turn("and you?"))
        sent = [(each.json["model"], each.body.decode().count(THOUGHT)) for each in server.received]
    # Each model gets its own thoughts back, and none of the other's.
    assert sent == [
        *(("one", 0), ("one", 1), ("one", 2), ("one", 3)),
        *(("two", 0), ("two", 1), ("two", 2), ("two", 2), ("one", 3)),
    ]


@pytest.mark.proves("agent.reasoning")
def test_reasoning_of_an_unknown_model_is_sent_to_none(home: Path) -> None:
    with MemorySession.open(home) as session:
        session.prepare_turn("what do I drink?")
        session.finish_turn("Tea.", message={"role": "assistant", "content": "Tea.", "reasoning_content": THOUGHT})
    with (
        ModelServer(thinking("content")) as server,
        Agent.open(home, model=at(server, "content", "one"), resume=session.id) as agent,
    ):
        list(agent.turn("and then?"))
        assert THOUGHT not in server.received[0].body.decode()


class AtOnce:
    """A model of somebody's own that does not stream."""

    name, context_length = "at-once", 32_000

    def stream(self, system: str, messages: Any, tools: Any = (), **more: Any) -> Iterator[Finished]:
        del system, tools, more
        call = {"id": "c1", "type": "function", "function": {"name": "skills_list", "arguments": "{}"}}
        asks = messages[-1]["role"] == "user"
        message: dict[str, Any] = {"role": "assistant", "content": "I look." if asks else "There is nothing."}
        message |= {"tool_calls": [call]} if asks else {}
        yield Finished(message=message, usage=Usage(), reason="tool_calls" if asks else "stop", model=self.name)


@pytest.mark.proves("agent.turn")
def test_a_model_that_does_not_stream_is_heard_as_well(home: Path) -> None:
    with Agent.open(home, model=AtOnce()) as agent:
        events = list(agent.turn("Which skills are there?"))
        told = [(each["role"], each["content"]) for each in agent.session.request().messages if each["role"] != "tool"]
    assert [each.text for each in events if isinstance(each, TextDelta)] == ["I look.", "There is nothing."]
    assert isinstance(events[-1], TurnFinished)
    assert events[-1].reply == "There is nothing."
    assert told[1:] == [("assistant", "I look."), ("assistant", "There is nothing.")]


@pytest.mark.proves("agent.turn")
def test_what_is_no_model_is_refused_with_what_is_one(home: Path) -> None:
    with pytest.raises(TypeError, match=r"an object with name, context_length and stream; .* has no name"):
        Agent.open(home, model=lambda text: text)  # type: ignore[arg-type]
