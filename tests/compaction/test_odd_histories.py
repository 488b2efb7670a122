"""What no program of ours writes but somebody's does: compaction takes it as it comes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from histories import working_session

from hermes.base.tokens import estimate
from hermes.compaction.compressor import (
    MOST_PIECES,
    ContextCompressor,
    Record,
    SummaryFailed,
    Task,
    cut_in_pieces,
    summarise,
)
from hermes.compaction.facts import Held, count_kept, find_facts, keep_exactly
from hermes.compaction.lcm import MOST_CHARACTERS, LosslessEngine
from hermes.compaction.messages import (
    BRIDGE,
    PREFIX,
    SYSTEM_NOTE,
    Counts,
    calls_of,
    characters,
    find_cut,
    is_block,
    last_request,
    newest,
    parse_block,
    text_of,
    tool_counts,
)
from hermes.conversations.context import SummaryGraph
from hermes.conversations.database import SessionDB

if TYPE_CHECKING:
    from pathlib import Path

    from histories import Message


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def task_of(messages: list[Message], previous: str = "") -> Task:
    sizes = [characters(message) for message in messages]
    return Task(messages=messages, ids=range(len(messages)), sizes=sizes, budget=500, previous=previous)


@pytest.mark.proves("compression.valid")
def test_calls_and_parts_of_any_shape_are_read() -> None:
    odd: Message = {
        "role": "assistant",
        "content": ["plain", {"type": "text", "text": "part"}, {"type": "image_url"}, 7],
        "tool_calls": [
            "no call",
            {"id": "a", "function": "no function"},
            {"id": "b", "function": {"name": "read", "arguments": {"path": "x"}}},
        ],
    }
    assert text_of(odd) == "plain\npart\n[image_url]\n"
    assert calls_of(odd) == [("b", "read", '{"path": "x"}')]
    assert tool_counts([odd, odd]) == {"read": 2}
    assert calls_of({"tool_calls": "none"}) == []
    assert not tool_counts([{"tool_calls": "none"}])


@pytest.mark.proves("compression.engine")
def test_ids_and_counts_must_stand_beside_every_message() -> None:
    compressor = ContextCompressor(8_000)
    with pytest.raises(ValueError, match="2 messages need as many ids, not 1"):
        compressor.compact([user("a"), user("b")], ids=[1])
    with pytest.raises(ValueError, match="2 messages need as many counts, not 1"):
        compressor.compact([user("a"), user("b")], counts=[1])


@pytest.mark.proves("compression.engine")
def test_a_fresh_start_forgets_the_counters_and_an_answer_without_a_count_says_nothing() -> None:
    compressor = ContextCompressor(8_000)
    compressor.update_from_response({"prompt_tokens": 5_000, "completion_tokens": 10})
    compressor.breaker = compressor.breaker.could_not_compact(5_000)
    compressor.update_from_response({})
    assert (compressor.last_prompt_tokens, compressor.breaker.ineffective) == (0, 1)
    compressor.on_session_reset()
    assert (compressor.last_total_tokens, compressor.compression_count, compressor.breaker.ineffective) == (0, 0, 0)


@pytest.mark.proves("compression.thrift")
def test_a_summary_that_leaves_nothing_saved_is_not_used_unless_a_person_asks() -> None:
    def long_winded(_prompt: str, most: int) -> str:
        words = "\n".join(
            f"- step {number} went well and was noted by everybody who took part" for number in range(most)
        )
        return words[: round(most * 1.9 * len(words) / estimate(words))].rpartition("\n")[0] + "\n- done."

    messages = [user(f"{number}: {'some more words about it ' * 20}") for number in range(40)]
    settings: dict[str, Any] = {"protect_first_n": 0, "protect_last_n": 1, "threshold": 0.05, "summarise": long_winded}
    compressor = ContextCompressor(60_000, **settings)
    thrifty = compressor.compact(messages)
    assert (thrifty.changed, thrifty.reason) == (False, "it would save less than a tenth")
    assert thrifty.messages == messages


@pytest.mark.proves("compaction.notice")
def test_a_single_message_is_told_as_one() -> None:
    short = [user("hello"), {"role": "assistant", "content": "hi"}, user("go on")]
    messages = [*short, {"role": "assistant", "content": "It is ABC-1. " + "plain words " * 9_000}, *short]
    done = ContextCompressor(16_000, protect_last_n=3).compact(messages, force=True, ids=range(7))
    assert done.notice.startswith("1 message was compacted without a model")
    told = ContextCompressor(16_000, protect_last_n=3, summarise=lambda *_: "They said hello and went on with it.")
    summed_up = told.compact(messages, force=True, ids=range(7))
    assert summed_up.kept_exactly == 1
    assert "kept word for word: 1 detail. " in summed_up.notice


@pytest.mark.proves("compression.valid")
def test_a_system_message_in_parts_gets_its_note_as_a_part() -> None:
    messages = working_session(40)
    messages[0] = {"role": "system", "content": [{"type": "text", "text": "You are Hermes."}]}
    done = ContextCompressor(8_000, protect_last_n=2).compact(messages, force=True)
    assert done.messages[0]["content"][-1] == {"type": "text", "text": SYSTEM_NOTE}


@pytest.mark.proves("compression.last_request")
def test_what_programs_say_under_the_users_name_is_no_request() -> None:
    nudge = {"role": "user", "content": "go on", "_loop_synthetic": True}
    assert last_request([user("build it"), nudge, user("[System: Your previous tool call failed")]) == 0
    assert last_request([nudge, {"role": "assistant", "content": "hello"}]) is None


@pytest.mark.proves("compression.boundaries")
def test_a_cut_by_number_takes_the_results_of_a_call_along() -> None:
    messages = working_session(30)
    first_result = next(at for at, message in enumerate(messages) if message["role"] == "tool")
    cut = newest(messages, first_result, 5)
    assert messages[cut.head]["role"] != "tool"
    assert messages[cut.tail]["role"] != "tool"


@pytest.mark.proves("compression.boundaries")
def test_the_line_between_block_and_tail_goes_with_the_block() -> None:
    block = {"role": "user", "content": "[CONTEXT COMPACTION — REFERENCE ONLY] earlier"}
    messages = [block, {"role": "assistant", "content": BRIDGE}, user("next"), {"role": "assistant", "content": "ok"}]
    counts = Counts(messages, [10] * 4)
    limits = {"tail_budget": 1_000, "head_ceiling": 1_000, "tail_ceiling": 1_000}
    assert find_cut(messages, counts, protect_first_n=0, protect_last_n=4, **limits).tail == 2


@pytest.mark.proves("compression.boundaries")
def test_neither_a_block_nor_the_line_before_it_belongs_to_the_head() -> None:
    bridge, block = {"role": "assistant", "content": BRIDGE}, user(f"{PREFIX} what was before.")
    messages = [user("hello"), bridge, block, *working_session(8)[1:]]
    limits = {"protect_last_n": 1, "tail_budget": 10, "head_ceiling": 10_000, "tail_ceiling": 1_000}
    assert find_cut(messages, Counts(messages), protect_first_n=3, **limits).head == 1


@pytest.mark.proves("compression.twice")
def test_a_block_of_another_program_without_our_heading_is_all_summary() -> None:
    theirs: Message = {"role": "user", "content": "What happened before.", "_compressed_summary": True}
    assert is_block(theirs)
    assert parse_block(theirs).summary == "What happened before."
    kept = keep_exactly("no heading\n- weather: rain\n- identifiers: ABC-1 ABC-2", [], Held(""), 100)
    assert (kept, count_kept(kept)) == ("- identifiers: ABC-1 ABC-2", 2)


@pytest.mark.proves("compression.kept")
def test_at_most_two_million_characters_are_read_for_facts() -> None:
    plain = "all quiet here again " * 300
    messages = [user(f"{plain} ID-{number:05}") for number in range(400)]
    found = {fact.text for fact in find_facts(messages, 10_000)}
    assert "ID-00000" in found  # the beginning
    assert "ID-00399" in found  # then the newest
    assert "ID-00045" not in found


@pytest.mark.proves("compression.kept")
def test_a_zero_byte_in_one_message_hides_nothing_in_the_others() -> None:
    messages = [
        user("see \0 and ID-1"),
        user("All is quiet."),
        user("Never before ten."),
        user("\0"),
        user("it is ID-2"),
    ]
    assert [fact.text for fact in find_facts(messages, 100)] == ["ID-1", "Never before ten.", "ID-2"]


# --- prompts -------------------------------------------------------------------------------------------------------


@pytest.mark.proves("compression.kept")
def test_a_number_in_the_arguments_of_a_call_is_not_worth_keeping() -> None:
    call = {"id": "c", "function": {"name": "read_file", "arguments": '{"path": "src/app.py", "limit": 200}'}}
    facts = find_facts([{"role": "assistant", "content": None, "tool_calls": [call]}], 100)
    assert [(fact.kind, fact.text, fact.source) for fact in facts] == [("path", "src/app.py", "call")]


@pytest.mark.proves("compression.window")
@pytest.mark.parametrize(
    ("seldom", "every", "number"), [("plain words of a talk ", 20, 480), ("यह एक लंबी बातचीत है ", 10, 160)]
)
def test_a_sample_that_deceives_costs_more_of_each_message_never_a_prompt_too_large(
    seldom: str, every: int, number: int
) -> None:
    messages = [user(seldom * 12 if at % every == 0 else "🙂🤖" * 130) for at in range(number)]
    pieces = cut_in_pieces(Record(task_of(messages)), 9_000)
    assert 1 < len(pieces) <= MOST_PIECES
    assert all(estimate(piece) <= 9_000 for piece in pieces)


@pytest.mark.proves("compression.window")
def test_one_message_larger_than_a_whole_prompt_is_cut() -> None:
    messages = [user("必须" * 300), user("short")]
    pieces = cut_in_pieces(Record(task_of(messages)), 250)
    assert "characters…]" in pieces[0]
    assert all(estimate(piece) <= 250 for piece in pieces)


@pytest.mark.proves("compression.window")
def test_what_fits_one_prompt_is_asked_in_one() -> None:
    asked: list[str] = []

    def helper(prompt: str, most: int) -> str:
        asked.append(prompt)
        assert estimate(prompt) + most <= 4_000
        return "## Goal\nLook at the modules.\n\n## Progress\n### Done\n- Some were looked at."

    messages = [user("plain words of a talk " * 40) for _ in range(8)]
    task = task_of(messages, "## Goal\nLook around. </session>")
    assert summarise(task, helper, 4_000)[1] == 1
    assert asked[0].count("plain words") == 320
    task = task_of([*messages, user("plain words of a talk " * 200)])
    assert summarise(task, helper, 4_000)[1] > 1


@pytest.mark.proves("compression.audit")
def test_a_model_that_returns_no_text_has_failed() -> None:
    task = task_of([user("hello")])
    with pytest.raises(SummaryFailed, match="returned NoneType instead of a text"):
        summarise(task, lambda *_: None, 32_000)  # type: ignore[arg-type]


# --- the lossless engine -------------------------------------------------------------------------------------------


@pytest.mark.proves("compression.engine")
def test_the_lossless_engine_without_a_database_compacts_like_the_built_in_one() -> None:
    engine = LosslessEngine(context_length=8_000, protect_last_n=2)
    engine.on_session_start("somewhere else")
    assert "has no tool 'lcm_grep'" in json.loads(engine.handle_tool_call("lcm_grep", {}))["error"]
    assert engine.compact(working_session(40), force=True).how == "extract"


@pytest.mark.proves("compression.engine")
def test_summaries_made_before_a_compaction_was_cut_off_are_used_again(tmp_path: Path) -> None:
    asked: list[str] = []

    def helper(prompt: str, _most: int) -> str:
        asked.append(prompt)
        return "## Goal\nRepair the modules one after the other.\n\n## Next Steps\n- the next module."

    with SessionDB.open(tmp_path / "state.db") as db:
        session = db.create_session()
        messages = [user(f"{number}: {'some more words about it ' * 300}") for number in range(160)]
        ids = db.append_many(session, messages)
        engine = LosslessEngine(context_length=40_000, protect_last_n=2, summarise=helper)
        engine.on_session_start(session, database=db, summarise=helper)
        once = engine.compact(messages, ids=ids, force=True)  # and nobody stores what came of it
        calls, nodes = len(asked), SummaryGraph(db, session).all()
        assert max(node.depth for node in nodes) >= 1
        assert engine.compact(messages, ids=ids, force=True).messages == once.messages
        assert (len(asked), SummaryGraph(db, session).all()) == (calls, nodes)


@pytest.mark.proves("compression.expand")
def test_what_the_lossless_engine_shows_is_bounded_and_says_how_to_go_on(tmp_path: Path) -> None:
    with SessionDB.open(tmp_path / "state.db") as db:
        session = db.create_session()
        ids = db.append_many(session, [user("x" * (MOST_CHARACTERS // 2)) for _ in range(4)])
        engine = LosslessEngine()
        engine.on_session_start(session, database=db)
        shown = json.loads(engine.handle_tool_call("lcm_expand", {"ids": f"{ids[0]}-{ids[2]}, {ids[3]}"}))
        assert [each["id"] for each in shown["messages"]] == ids[:2]
        assert shown["more"] == {"ids": f"{ids[2]}, {ids[3]}"}
        assert "no tool 'lcm_fly'" in json.loads(engine.handle_tool_call("lcm_fly", {}))["error"]
