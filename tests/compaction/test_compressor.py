"""The default compressor: when, what stays, who summarises, and what it never does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from histories import call, openai_faults, working_session

from hermes.base.tokens import estimate
from hermes.compaction.compressor import Breaker, ContextCompressor
from hermes.compaction.messages import (
    CLEARED,
    MISSING_RESULT,
    SYSTEM_NOTE,
    Counts,
    clear_tool_results,
    find_cut,
    is_block,
    parse_block,
    repair_pairs,
)

if TYPE_CHECKING:
    from histories import Message

pytestmark = pytest.mark.usefixtures("both_engines")

GOOD = """## Goal
Repair the modules one after the other.

## Progress
### Done
- module_1 to module_30 were repaired, the tests pass.

## Next Steps
- go on with the next module."""


class Model:
    """A summariser that does as it is told and remembers what it was asked."""

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers)
        self.prompts: list[str] = []

    def __call__(self, prompt: str, max_tokens: int) -> str:
        assert max_tokens > 0
        self.prompts.append(prompt)
        answer = self.answers[min(len(self.prompts), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer


def ids_for(messages: list[Message]) -> list[int]:
    return list(range(100, 100 + len(messages)))


def block_text(messages: list[Message]) -> str:
    return next(str(message["content"]) for message in messages if is_block(message))


@pytest.mark.proves("compression.threshold")
def test_the_documents_numbers_for_a_window_of_200_000() -> None:
    engine = ContextCompressor(200_000)
    assert engine.threshold_tokens == 100_000
    assert engine.tail_token_budget == 20_000
    assert engine.max_summary_tokens == 10_000
    assert [engine.summary_budget(content) for content in (1_000, 20_000, 400_000)] == [2_000, 4_000, 10_000]
    assert ContextCompressor(1_000_000).max_summary_tokens == 12_000
    assert [engine.should_compress(tokens) for tokens in (99_999, 100_000)] == [False, True]
    assert not ContextCompressor(200_000, enabled=False).should_compress(199_000)
    engine.update_from_response({"prompt_tokens": 150_000, "completion_tokens": 10})
    assert engine.should_compress()
    assert engine.last_total_tokens == 150_010


@pytest.mark.proves("compression.threshold")
def test_an_estimate_just_over_the_threshold_waits_for_what_the_provider_counts() -> None:
    engine = ContextCompressor(200_000)
    assert not engine.should_defer_preflight_to_real_usage(100_500)
    engine.update_from_response({"prompt_tokens": 90_000})
    assert engine.should_defer_preflight_to_real_usage(100_500)
    assert not engine.should_defer_preflight_to_real_usage(120_000)
    assert not engine.should_compress_preflight(working_session(3))
    assert ContextCompressor(4_000).should_compress_preflight(working_session(60))


@pytest.mark.proves("compression.cleared")
def test_old_tool_results_are_cleared_and_say_where_they_are() -> None:
    messages = [
        {"role": "tool", "tool_call_id": "a", "content": "x" * 201},
        {"role": "tool", "tool_call_id": "b", "content": "x" * 200},
        {"role": "user", "content": "x" * 500},
        {"role": "tool", "tool_call_id": "c", "content": "x" * 500},
    ]
    cleared = clear_tool_results(messages, 3)
    assert [message["content"] for message in cleared] == [CLEARED, "x" * 200, "x" * 500, "x" * 500]
    assert 'ids="7"' in clear_tool_results(messages, 3, [7, 8, 9, 10])[0]["content"]


@pytest.mark.proves("compression.boundaries")
def test_the_tail_follows_the_budget_or_the_number_of_messages() -> None:
    messages = working_session(30)
    counts = Counts(messages, [10] * len(messages))
    limits = {"protect_first_n": 3, "head_ceiling": 10_000, "tail_ceiling": 10_000}
    assert find_cut(messages, counts, protect_last_n=4, tail_budget=200, **limits).tail == len(messages) - 20
    assert find_cut(messages, counts, protect_last_n=8, tail_budget=20, **limits).tail == len(messages) - 8
    cut = find_cut(messages, counts, protect_last_n=2, tail_budget=20, **limits)
    # The third message is a call: its result stays with it, in the head and in the tail.
    assert (cut.head, messages[cut.head]["role"], messages[cut.tail]["role"]) == (4, "assistant", "assistant")
    assert messages[cut.tail].get("tool_calls")


@pytest.mark.proves("compression.last_request")
def test_one_endless_turn_is_compacted_around_its_request() -> None:
    request = {"role": "user", "content": "Please migrate the whole archive to v2."}
    messages: list[Message] = [{"role": "system", "content": "You are Hermes."}, request]
    for number in range(200):
        result = {"role": "tool", "tool_call_id": f"call-{number}", "content": "row moved " * 30}
        messages += [{"role": "assistant", "content": None, "tool_calls": [call(f"call-{number}")]}, result]
    done = ContextCompressor(20_000, protect_first_n=1).compact(messages, ids=ids_for(messages))
    assert done.changed
    assert request in done.messages
    assert [message["role"] for message in done.messages[:5]] == ["system", "user", "assistant", "user", "assistant"]
    assert done.messages[3] is request
    assert openai_faults(done.messages) == []


@pytest.mark.proves("compression.valid")
def test_orphans_go_and_missing_results_are_made_up() -> None:
    messages: list[Message] = [
        {"role": "tool", "tool_call_id": "lost", "content": "?"},
        {"role": "assistant", "content": None, "tool_calls": [call("a"), call("b")]},
        {"role": "tool", "tool_call_id": "b", "content": "fine"},
        {"role": "user", "content": "go on"},
    ]
    repaired, origin = repair_pairs(messages)
    assert origin == [1, 2, None, 3]
    assert repaired[2]["content"] == MISSING_RESULT
    assert openai_faults(list(repaired)) == []


@pytest.mark.proves("compression.template", "compression.ladder")
def test_a_good_summary_takes_the_place_of_the_middle() -> None:
    messages = working_session(60)
    model = Model(GOOD)
    done = ContextCompressor(16_000, summarise=model).compact(messages, ids=ids_for(messages))
    assert (done.how, len(model.prompts)) == ("helper", 1)
    for heading in ("## Goal", "## Constraints & Preferences", "### Done", "### In Progress", "### Blocked"):
        assert heading in model.prompts[0]
    assert SYSTEM_NOTE in done.messages[0]["content"]
    assert GOOD in block_text(done.messages)
    assert done.tokens_after < done.tokens_before / 2
    assert "messages were compacted by the helper" in done.notice


@pytest.mark.proves("compression.focus", "compression.template")
def test_a_subject_and_what_memory_knows_reach_the_model() -> None:
    messages = working_session(60)
    model = Model(GOOD)
    engine = ContextCompressor(16_000, summarise=model)
    engine.compress(messages, focus_topic="auth tokens", memory_context="Prefers short answers.")
    assert "auth tokens" in model.prompts[0]
    assert "Prefers short answers." in model.prompts[0]
    engine.compress(working_session(60))
    assert "auth tokens" not in model.prompts[1]


@pytest.mark.proves("compression.template")
def test_no_credential_reaches_the_helper() -> None:
    key = "sk-ant-api03-" + "a1B2c3D4" * 8
    messages = working_session(60)
    messages[9] = {"role": "user", "content": f"use {key} for the upload"}
    model = Model(GOOD)
    ContextCompressor(16_000, summarise=model).compact(messages)
    assert "for the upload" in model.prompts[0]
    assert key not in model.prompts[0]


@pytest.mark.proves("compression.iterative", "compression.twice")
def test_the_second_compaction_updates_the_first_summary_and_keeps_its_pointers() -> None:
    model = Model(GOOD, GOOD.replace("module_30", "module_60"))
    engine = ContextCompressor(16_000, summarise=model)
    messages = working_session(60)
    once = engine.compact(messages, ids=ids_for(messages))
    later = working_session(60)[1:]
    twice = engine.compact([*once.messages, *later], ids=[*once.ids, *range(5_000, 5_000 + len(later))])
    assert GOOD in model.prompts[1]
    assert "Where the originals are" not in model.prompts[1]
    assert [is_block(message) for message in twice.messages].count(True) == 1
    first, second = (parse_block(next(filter(is_block, each.messages))) for each in (once, twice))
    assert first.chapters[0].ids[0][0] == second.chapters[0].ids[0][0]
    assert max(last for chapter in second.chapters for _, last in chapter.ids) > 5_000
    assert twice.messages[0]["content"].count(SYSTEM_NOTE) == 1


@pytest.mark.proves("compression.window")
@pytest.mark.parametrize("window", [4_000, 8_000, 30_000])
def test_no_prompt_is_larger_than_the_window_and_there_are_few(window: int) -> None:
    model = Model(GOOD)
    messages = working_session(700, words=300)
    messages[5] = {"role": "user", "content": "这是一个很长的说明。" * 30_000}
    engine = ContextCompressor(16_000, summarise=model, summary_context_length=window)
    done = engine.compact(messages, ids=ids_for(messages))
    assert done.how.startswith("helper in")
    assert len(model.prompts) <= 8
    assert max(map(estimate, model.prompts)) + engine.max_summary_tokens <= window
    assert all("<notes>" in prompt for prompt in model.prompts[1:])


@pytest.mark.proves("compression.window")
@pytest.mark.parametrize("window", [2_000, 4_000, 16_000])
def test_a_small_helper_serves_a_large_model_with_a_shorter_summary(window: int) -> None:
    model, main = Model(GOOD), Model(GOOD)
    messages = working_session(700, words=300)
    engine = ContextCompressor(200_000, summarise=model, summary_context_length=window, main_summarise=main)
    done = engine.compact(messages, ids=ids_for(messages))
    assert (done.how.startswith("helper in"), main.prompts) == (True, [])
    assert max(map(estimate, model.prompts)) + window // 4 <= window


@pytest.mark.proves("compression.ladder")
@pytest.mark.parametrize(
    ("helper", "main", "how"),
    [
        ([RuntimeError("context length exceeded"), GOOD], [GOOD], "helper"),
        ([TimeoutError("slow")], [GOOD], "main"),
        ([""], [GOOD], "main"),
        (["I'm sorry, I can't help with that."], [ValueError("no")], "extract"),
        ([RuntimeError("down")], [RuntimeError("down")], "extract"),
    ],
)
def test_when_one_fails_the_next_is_asked_and_at_last_nobody(helper: list[Any], main: list[Any], how: str) -> None:
    messages = working_session(60)
    engine = ContextCompressor(16_000, summarise=Model(*helper), main_summarise=Model(*main))
    done = engine.compact(messages, ids=ids_for(messages))
    assert done.how.startswith(how)
    assert done.failures
    assert len(done.replaced) + sum(each is not None for each in done.ids) == len(messages)


@pytest.mark.proves("compression.ladder")
def test_a_person_may_prefer_no_compaction_to_one_without_a_model() -> None:
    messages = working_session(60)
    engine = ContextCompressor(16_000, summarise=Model(RuntimeError("down")), abort_on_summary_failure=True)
    done = engine.compact(messages)
    assert (done.changed, done.messages) == (False, messages)
    assert "no model" in done.notice


@pytest.mark.proves("compression.breaker")
def test_a_model_that_failed_rests_and_the_pause_survives_a_restart() -> None:
    now = 1_000.0
    model = Model(TimeoutError("slow"))
    engine = ContextCompressor(16_000, summarise=model, clock=lambda: now)
    engine.compact(working_session(60))
    stored = engine.breaker.as_dict()
    again = ContextCompressor(16_000, summarise=model, clock=lambda: now + 59, breaker=Breaker.from_dict(stored))
    assert again.compact(working_session(60)).how == "extract"
    assert len(model.prompts) == 1
    assert again.compact(working_session(60), force=True).how == "extract"
    assert len(model.prompts) == 2  # a person asked, so it was tried; the second failure means five minutes
    assert not again.breaker.may_ask("helper", now + 59 + 299)
    assert again.breaker.may_ask("helper", now + 59 + 300)


@pytest.mark.proves("compression.breaker")
def test_compaction_that_does_not_help_stops_until_the_prompt_has_grown() -> None:
    engine = ContextCompressor(16_000)
    for _ in range(2):
        assert engine.should_compress(9_000)
        engine.compact(working_session(60))
        engine.update_from_response({"prompt_tokens": 9_000})
        engine.on_session_end("s", [])  # ends and starts inside a compaction clear nothing
        engine.on_session_start("s", boundary_reason="compression")
    assert not engine.should_compress(9_000)
    assert engine.get_status()["tripped"]
    restarted = ContextCompressor(16_000, breaker=Breaker.from_dict(engine.breaker.as_dict()))
    assert not restarted.should_compress(9_100)
    assert restarted.should_compress(10_600)
    restarted.update_from_response({"prompt_tokens": 5_000})
    assert restarted.should_compress(9_000)


@pytest.mark.proves("compression.breaker")
def test_a_damaged_stored_breaker_starts_fresh() -> None:
    stored = {"ineffective": "two", "helper_until": 5, "tokens": None, "other": 1}
    assert Breaker.from_dict(stored) == Breaker(helper_until=5.0)
    assert Breaker.from_dict(None) == Breaker()


@pytest.mark.proves("compression.thrift")
def test_what_would_save_little_is_left_alone_and_costs_no_call() -> None:
    model = Model(GOOD)
    engine = ContextCompressor(200_000, summarise=model)
    messages = working_session(6)
    done = engine.compact(messages)
    assert (done.changed, done.messages, model.prompts) == (False, messages, [])
    assert "Nothing was compacted" in done.notice
    assert not engine.has_content_to_compress(messages[:4])
    assert engine.has_content_to_compress(working_session(400, words=600))
