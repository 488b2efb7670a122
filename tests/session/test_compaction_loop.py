"""Compaction inside a turn and before one: when it happens, who summarises, what the person and providers are told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from compacted import configure, talk, texts
from histories import openai_faults

from hermes.agent import Agent
from hermes.base.errors import ContextTooLong, ModelRefused, ModelUnreachable
from hermes.base.events import Compacted, Notice, TurnFinished, Usage
from hermes.compaction.messages import is_block
from hermes.conversations.context import Contexts
from hermes.conversations.database import SessionDB
from hermes.llm.scripted import Reply, Scripted
from hermes.memory.store import MemoryStore
from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hermes.llm.client import Message

NO_HELPER = "auxiliary:\n  compression:\n    enabled: false\nreview:\n  enabled: false\n"
SUMMARY = (
    "## Goal\nRepair every module.\n\n## Progress\n### Done\n- The early modules work again.\n\n## Next Steps\n- Go on."
)


def answers(reply: str | Reply | Exception) -> Any:
    """A step that summarises when it is asked to, and otherwise answers as told."""

    def step(messages: Sequence[Message]) -> Any:
        return SUMMARY if "<session>" in str(messages[-1]["content"]) else reply

    return step


@pytest.mark.proves("compaction.threshold", "compaction.notice", "compaction.no-pressure")
def test_at_the_threshold_of_what_the_provider_counted_the_turn_goes_on_compacted(home: Path) -> None:
    configure(home, NO_HELPER)
    calls = [("session_search", {"query": "module"})]
    model = Scripted(
        [Reply(calls=calls, usage=Usage(input_tokens=9_000)), Reply(text="Done.", usage=Usage(input_tokens=3_000))],
        context_length=16_000,
    )
    with MemorySession.open(home) as session:
        talk(session, 12)
        before = session.request().messages
        events = list(Agent(session, model).turn("And now module_99?"))
    first, second = model.requests
    assert [dict(message) for message in first.messages[:-1]] == before  # nothing about a full window was said
    assert [type(event) for event in events if isinstance(event, Compacted | Notice)] == [Compacted, Notice]
    done = next(event for event in events if isinstance(event, Compacted))
    assert (done.why, done.how) == ("threshold", "extract")
    assert isinstance(events[-1], TurnFinished)
    assert len(second.messages) < len(first.messages)
    assert "And now module_99?" in texts([dict(message) for message in second.messages])
    assert openai_faults([dict(message) for message in second.messages]) == []


@pytest.mark.proves("compaction.ladder")
def test_without_a_helper_of_its_own_the_model_of_the_conversation_summarises(home: Path) -> None:
    configure(home)
    model = Scripted([answers("ok")] * 2, context_length=16_000)
    with MemorySession.open(home) as session:
        session.use_model(model)
        talk(session, 20)
        done = session.compact(focus="module_3")
    assert done is not None
    assert (done.how, done.failures) == ("main", ())
    asked = str(model.requests[0].messages[0]["content"])
    assert "module_3" in asked
    assert "The early modules work again" in texts(session.request().messages)


@pytest.mark.proves("compaction.ladder", "compaction.cooldown")
def test_a_helper_that_fails_gives_way_and_rests_also_after_a_restart(home: Path) -> None:
    script = home / "helper.json"
    configure(home, f"auxiliary:\n  compression:\n    model: scripted:{script}\n")
    script.write_text(json.dumps([{"error": "busy"}] * 4), encoding="utf-8")
    main = Scripted([ModelUnreachable("gone")] * 9, context_length=16_000)
    with MemorySession.open(home) as session:
        session.use_model(main)
        talk(session, 20)
        done = session.compact()
        assert done is not None
        assert done.how == "extract"
        assert [failure.split(":")[0] for failure in done.failures][-1] == "main"
    asked = len(main.requests)
    with MemorySession.open(home, resume=session.id) as again:
        again.use_model(main)
        talk(again, 12, start=20)
        again.fit(again.request())
        assert again.take_events()
    assert len(main.requests) == asked


@pytest.mark.proves("compaction.too-long")
def test_a_request_the_model_refuses_as_too_long_is_sent_again_shorter(home: Path) -> None:
    configure(home, NO_HELPER, window=200_000)
    refused = ContextTooLong("too long", limit=6_000)
    model = Scripted([refused, "It fits now."], context_length=200_000)
    with MemorySession.open(home) as session:
        talk(session, 30)
        events = list(Agent(session, model).turn("next"))
    assert isinstance(events[-1], TurnFinished)
    assert events[-1].reply == "It fits now."
    assert len(model.requests[1].messages) < len(model.requests[0].messages)
    assert next(event for event in events if isinstance(event, Compacted)).why == "too long"


@pytest.mark.proves("compaction.window")
def test_what_a_provider_said_fits_is_known_to_the_next_process(home: Path) -> None:
    configure(home, NO_HELPER)
    model = Scripted([answers("ok")], name="small", context_length=16_000)
    with MemorySession.open(home, model="small") as session:
        session.use_model(model)
        talk(session, 8)
        session.fit(session.request(), ContextTooLong("too long", limit=6_000))
        assert session.compactor.engine.context_length == 6_000
    with MemorySession.open(home, model="small") as session:
        assert session.compactor.engine.context_length == 6_000  # before any model was named
        session.use_model(Scripted([], name="small", context_length=16_000))
        assert session.compactor.engine.context_length == 6_000
        session.use_model(Scripted([], name="other", context_length=16_000))
        assert session.compactor.engine.context_length == 16_000
        # Somebody says another figure than the one the provider proved wrong: that is believed again.
        session.use_model(Scripted([], name="small", context_length=9_000))
        assert session.compactor.engine.context_length == 9_000


@pytest.mark.proves("compaction.window")
def test_a_guess_is_not_kept(home: Path) -> None:
    configure(home, NO_HELPER)
    for limit in (None, 20_000):
        with MemorySession.open(home, model="small") as session:
            talk(session, 8)
            session.fit(session.request(), ContextTooLong("too long", limit=limit))
        with MemorySession.open(home, model="small") as session:
            assert session.compactor.engine.context_length == 16_000


@pytest.mark.proves("compaction.hygiene")
def test_before_a_message_is_handled_a_history_at_85_percent_is_compacted(home: Path) -> None:
    configure(home, NO_HELPER, in_place=False)
    with MemorySession.open(home) as session:
        talk(session, 12)
        session.prepare_turn("a last one")
        session.finish_turn("ok", usage=Usage(input_tokens=13_700))
        assert session.take_events() == []
    with MemorySession.open(home, resume=session.id) as again:
        request = again.prepare_turn("good morning")
        done = again.take_events()[0]
        assert isinstance(done, Compacted)
        assert (done.why, again.id) == ("hygiene", session.id)  # always in place
        assert request.messages[-1]["content"] == "good morning"
        assert again.take_events() == []


@pytest.mark.proves("compaction.hygiene", "compression.hygiene")
def test_hygiene_needs_four_messages_and_compaction_switched_on_and_has_a_limit_of_messages(home: Path) -> None:
    configure(home, NO_HELPER)
    with MemorySession.open(home) as session:
        session.prepare_turn("word " * 20_000)
        session.finish_turn("ok")
        session.prepare_turn("next")
        assert session.take_events() == []
    configure(home, f"  hygiene_hard_message_limit: 60\n{NO_HELPER}", window=1_000_000)
    with MemorySession.open(home) as session:
        talk(session, 25, words=200)
        assert [event for event in session.take_events() if isinstance(event, Compacted)]
    configure(home, f"  enabled: false\n{NO_HELPER}")
    with MemorySession.open(home) as session:
        talk(session, 60)
        assert session.fit(session.request()) == session.request()
        assert session.take_events() == []
        assert "context_compact" not in [tool["function"]["name"] for tool in session.request().tools]


class Witness:
    """External memory that writes down what it is told."""

    def __init__(self, session: MemorySession) -> None:
        self.told: list[Any] = []
        self._session = session

    def on_pre_compress(self, messages: list[dict[str, Any]]) -> str:
        self.told.append(("on_pre_compress", len(messages), self._session.id))
        return "The provider knows: the release is on Friday."

    def on_session_end(self, messages: list[dict[str, Any]]) -> None:
        self.told.append(("on_session_end", len(messages), self._session.id))

    def on_session_switch(self, new_session_id: str, **kwargs: Any) -> None:
        self.told.append(("on_session_switch", new_session_id, kwargs))


@pytest.mark.proves("compaction.hooks")
def test_external_memory_is_told_before_at_the_end_and_after(home: Path) -> None:
    configure(home, in_place=False)
    model = Scripted([answers("ok")], context_length=16_000)
    with MemorySession.open(home) as session:
        session.use_model(model)
        session.boundary = witness = Witness(session)
        talk(session, 20)
        old, count = session.id, len(session.request().messages)
        session.compact()
        assert witness.told == [
            ("on_pre_compress", count, old),
            ("on_session_end", count, old),
            ("on_session_switch", session.id, {"parent_session_id": old, "reset": False, "reason": "compression"}),
        ]
    assert "the release is on Friday" in str(model.requests[0].messages[0]["content"])


@pytest.mark.proves("compaction.hooks")
@pytest.mark.parametrize("engine", ["compressor", "lcm"])
@pytest.mark.parametrize("window", [8_000, 16_000])
def test_external_memory_is_told_only_of_compactions_that_happen(home: Path, window: int, engine: str) -> None:
    configure(home, f"context: {{engine: {engine}}}\n{NO_HELPER}", window=window)
    with MemorySession.open(home) as session:
        session.boundary = witness = Witness(session)
        happened = []
        for number in range(30):
            talk(session, 1, start=number)
            session.prepare_turn("go on")
            session.fit(session.request())
            session.finish_turn("ok")
            happened += [event for event in session.take_events() if isinstance(event, Compacted)]
        told = [name for name, *_ in witness.told]
    assert happened
    assert told.count("on_pre_compress") == told.count("on_session_switch") == len(happened)


@pytest.mark.proves("compaction.notice", "compaction.cooldown")
def test_a_compaction_that_ends_without_a_summary_is_told_and_tried_again(home: Path) -> None:
    configure(home, "  abort_on_summary_failure: true\nreview:\n  enabled: false\n")
    model = Scripted([ModelRefused("no credit")] * 4, context_length=16_000)
    with MemorySession.open(home) as session:
        session.use_model(model)
        session.boundary = witness = Witness(session)
        talk(session, 20)
        before = session.request()
        assert session.fit(before) == before
        session.compactor.wait()
        assert session.fit(session.request()) == before
        (told,) = [event.text for event in session.take_events() if isinstance(event, Notice)]
        assert told.startswith(
            "Nothing was compacted: no model could summarise and compression.abort_on_summary_failure"
        )
        assert "`/compress` tries again" in told
        assert [name for name, *_ in witness.told] == ["on_pre_compress"]  # the model rests: nobody is asked again
        assert session.compact() is None
        assert [type(event) for event in session.take_events()] == [Notice]


@pytest.mark.proves("compaction.hygiene")
@pytest.mark.parametrize(("limit", "stay"), [(10, 6), (30, 16)])
def test_a_limit_of_messages_holds_for_short_ones(home: Path, limit: int, stay: int) -> None:
    configure(home, f"  hygiene_hard_message_limit: {limit}\n{NO_HELPER}", window=200_000)
    with MemorySession.open(home) as session:
        for number in range(40):
            session.prepare_turn(f"short {number}")
            assert len(session.request().messages) <= limit
            session.finish_turn("ok")
        done = [event for event in session.take_events() if isinstance(event, Compacted)]
        assert {event.why for event in done} == {"hygiene"}
        kept = texts(session.request().messages)
        assert "short 0" in kept
        assert "short 39" in kept
        assert len(done) < 40 // ((limit - stay) // 2) + 2  # not before every message
    with SessionDB.open(home / "state.db") as db:
        said = [each.text for each in Contexts(db).originals(session.id)]
    assert [text for text in said if text.startswith("short")] == [f"short {number}" for number in range(40)]


@pytest.mark.proves("compaction.lcm", "compaction.threshold")
def test_lcm_acts_where_the_compressor_does(home: Path) -> None:
    acted = {}
    for engine in ("compressor", "lcm"):
        configure(home, f"  threshold: 0.6\ncontext: {{engine: {engine}}}\n{NO_HELPER}", window=32_000)
        with MemorySession.open(home) as session:
            for number in range(40):
                talk(session, 1, start=number, words=150)
                session.fit(session.request())
                if events := [event for event in session.take_events() if isinstance(event, Compacted)]:
                    assert events[0].why == "threshold"
                    acted[engine] = number
                    break
            assert session.compactor.engine.threshold_tokens == 19_200
    assert acted["compressor"] - acted["lcm"] in (0, 1)  # its tools take room in the window, too


@pytest.mark.proves("compaction.reinjected", "compaction.prefix")
@pytest.mark.parametrize("in_place", [True, False])
def test_memory_and_instructions_come_from_their_source_again_in_one_move(
    home: Path, tmp_path: Path, in_place: bool
) -> None:
    configure(home, NO_HELPER, in_place=in_place)
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    mine: dict[str, Any] = {"trusted_folders": [str(tmp_path)], "vouches": True}
    with MemorySession.open(home, cwd=str(tmp_path), system_message="Be kind.", **mine) as session:
        talk(session, 20)
        session.call_tool("memory", {"action": "add", "target": "user", "content": "Lives in Berlin."})
        (tmp_path / "AGENTS.md").write_text("Use spaces.")
        assert "Lives in Berlin." not in session.system_prompt
        session.compact()
        after = session.system_prompt
        assert "Lives in Berlin." in after
        assert "Use spaces." in after
        assert "Be kind." in after
        MemoryStore.open(home).add("user", "Likes tea.")
        assert "Likes tea." in str(session.prepare_turn("one").messages[-1]["content"])
        session.finish_turn("ok")
        assert session.request().system == after
    with MemorySession.open(home, resume=session.id) as again:
        assert again.system_prompt == after
        assert again.prepare_turn("two").messages[-1]["content"] == "two"
        again.finish_turn("ok")
        talk(again, 20, start=20)
        again.compact()
        assert "Likes tea." in again.system_prompt
        assert again.system_prompt.count("[Note: Some earlier turns") == 1
        assert again.prepare_turn("three").messages[-1]["content"] == "three"


@pytest.mark.proves("compaction.recall")
def test_recalled_memory_is_not_taken_into_the_summary(home: Path) -> None:
    configure(home, window=16_000)
    model = Scripted([answers("ok")], context_length=16_000)
    with MemorySession.open(home) as session:
        session.use_model(model)
        talk(session, 2)
        session.prepare_turn("when do we meet?", recalled="The user met Ada in May.")
        session.finish_turn("in May")
        talk(session, 20, start=2)
        session.compact()
    assert "when do we meet?" in str(model.requests[0].messages[0]["content"])
    assert "met Ada" not in str(model.requests[0].messages[0]["content"])


@pytest.mark.proves("compaction.breaker")
def test_compaction_that_does_not_help_stops_also_after_a_restart(home: Path) -> None:
    configure(home, NO_HELPER)
    with MemorySession.open(home) as session:
        talk(session, 30)
        for number in range(6):
            talk(session, 3, start=30 + 3 * number)
            session.fit(session.request())
            session.prepare_turn("go on")
            session.finish_turn("ok", usage=Usage(input_tokens=9_000))  # the provider still counts too much
        assert len([event for event in session.take_events() if isinstance(event, Compacted)]) in (1, 2)
    with MemorySession.open(home, resume=session.id) as again:
        again.fit(again.request())
        assert again.take_events() == []
        assert again.compact() is not None  # a person may still ask
        assert [each for each in again.request().messages if is_block(each)]


@pytest.mark.proves("compaction.threshold")
def test_a_host_says_how_much_its_model_takes(home: Path) -> None:
    with MemorySession.open(home, context_length=400_000) as session:  # more than an unknown model is believed to take
        talk(session, 40)
        session.counted({"prompt_tokens": 30_000})
        session.fit(session.request())
        assert session.compactions == 0
    with MemorySession.open(home, resume=session.id, context_length=20_000) as session:
        session.prepare_turn("And now?")
        session.fit(session.request())
        assert session.compactions == 1
