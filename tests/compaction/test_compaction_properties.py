"""What holds for every history, however odd."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
from histories import anthropic_faults, histories, openai_faults
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from hermes.base.tokens import estimate_message
from hermes.compaction.compressor import ContextCompressor
from hermes.compaction.messages import is_block, last_request, parse_block, parse_ranges
from hermes.tools.memory import ContextExpand

if TYPE_CHECKING:
    from hermes.compaction.compressor import Compaction

Message = dict[str, Any]
FIRST_ID = 1_000
WINDOWS = st.sampled_from((4_000, 12_000, 40_000))
few = settings(max_examples=20, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))


def compacted(messages: list[Message], window: int, **options: Any) -> Compaction:
    ids = list(range(FIRST_ID, FIRST_ID + len(messages)))
    return ContextCompressor(window, protect_last_n=4, **options).compact(messages, ids=ids, force=True)


def tokens(messages: list[Message]) -> int:
    return sum(map(estimate_message, messages))


def block_of(messages: list[Message]) -> Message:
    return next(message for message in messages if is_block(message))


@pytest.mark.proves("compression.valid")
@few
@given(histories(), WINDOWS)
def test_the_result_is_valid_for_both_formats_and_the_input_is_untouched(messages: list[Message], window: int) -> None:
    before = copy.deepcopy(messages)
    done = compacted(messages, window)
    assert messages == before
    assert not done.changed or openai_faults(done.messages) == []
    assert not done.changed or anthropic_faults(done.messages, messages) == []


@pytest.mark.proves("compression.last_request", "compression.boundaries")
@few
@given(histories(), WINDOWS)
def test_the_last_request_and_the_end_stay_word_for_word(messages: list[Message], window: int) -> None:
    done = compacted(messages, window)
    last = last_request(messages)
    assert last is not None
    assert messages[last] in done.messages
    end = messages[-1]
    assert end["role"] == "tool" or end in done.messages
    assert messages[0]["role"] != "system" or str(done.messages[0]["content"]).startswith(messages[0]["content"])


@pytest.mark.proves("compression.budget")
@few
@given(histories(), WINDOWS)
def test_the_result_is_below_the_threshold_but_for_what_must_stay(messages: list[Message], window: int) -> None:
    done = compacted(messages, window)
    last = last_request(messages)
    assert last is not None
    end = max(at for at, each in enumerate(messages) if each["role"] != "tool")  # a result may have lost its call
    must = sum(estimate_message(messages[at]) for at in {last, end})
    calls = max((estimate_message(each) for each in messages if each.get("tool_calls")), default=0)
    framing = 700  # of a block, which no window is too small for
    assert not done.changed or tokens(done.messages) <= window * 0.5 + must + calls + framing


@pytest.mark.proves("compression.pointers", "compression.expand")
@few
@given(histories(), WINDOWS)
def test_every_message_is_in_the_context_or_one_pointer_away(messages: list[Message], window: int) -> None:
    done = compacted(messages, window)
    named = {each for message in done.messages for each in ids_named_in(message)}
    stays = {each for each in done.ids if each is not None}
    every = set(range(FIRST_ID, FIRST_ID + len(messages)))
    noted = {FIRST_ID} if messages[0]["role"] == "system" else set()  # the system message stays, with a note
    assert every <= stays | named | noted
    assert set(done.replaced) == every - stays


def ids_named_in(message: Message) -> list[int]:
    content = str(message["content"])
    if is_block(message):
        return [each for chapter in parse_block(message).chapters for a, b in chapter.ids for each in range(a, b + 1)]
    _, found, rest = content.partition('context_expand ids="')
    return [each for ids in parse_ranges(rest.partition('"')[0]) for each in ids] if found else []


@pytest.mark.proves("compression.twice")
@few
@given(histories(), histories(), WINDOWS)
def test_compacting_again_loses_nothing(first: list[Message], more: list[Message], window: int) -> None:
    once = compacted(first, window)
    later = [message for message in more if message["role"] != "system"]
    ids = [*once.ids, *range(5_000, 5_000 + len(later))]
    engine = ContextCompressor(window, protect_last_n=4)
    twice = engine.compact([*once.messages, *later], ids=ids, force=True)
    named = {each for message in twice.messages for each in ids_named_in(message)}
    stays = {each for each in twice.ids if each is not None}
    noted = {FIRST_ID} if first[0]["role"] == "system" else set()
    assert set(range(FIRST_ID, FIRST_ID + len(first))) <= stays | named | noted
    assert sum(is_block(message) for message in twice.messages) <= 1
    assert not twice.changed or openai_faults(twice.messages) == []


@pytest.mark.proves("compression.expand")
@few
@given(histories(), st.integers(300, 3_000))
def test_an_expansion_gives_everything_back_in_bounded_answers(messages: list[Message], room: int) -> None:
    stored = dict(enumerate(messages, start=FIRST_ID))
    tool = ContextExpand(
        lambda ids, _session: ((each, stored[each]) for each in ids if each in stored), most_characters=room
    )
    seen: dict[int, str] = {}
    ask: dict[str, Any] = {"ids": f"{FIRST_ID}-{FIRST_ID + len(messages) + 50}"}
    while ask:
        answer = tool.call(ask)
        assert sum(len(each["content"]) for each in answer["messages"]) <= room
        for each in answer["messages"]:
            seen[each["id"]] = seen.get(each["id"], "") + each["content"]
        ask = answer.get("more", {})
    assert list(seen) == list(stored)
    assert all(
        seen[each].startswith(stored[each]["content"]) for each in seen if isinstance(stored[each]["content"], str)
    )
