"""`hermes bench prefix` without its model: what it sends, and what it compares."""

from __future__ import annotations

import itertools

import pytest
from benchmarks.prefix import compare

from hermes.base.events import Usage
from hermes.llm.scripted import Reply, Scripted

CALLS = 15  # ten turns, five of them with a tool call


@pytest.mark.proves("embedded.bench")
def test_the_frozen_conversation_keeps_its_prompt_and_the_naive_one_does_not() -> None:
    answer = Reply(text="Yes.", usage=Usage(input_tokens=100, cache_read_tokens=97))
    model = Scripted([answer] * 2 * CALLS)
    figures = compare(model)
    frozen, naive = model.requests[:CALLS], model.requests[CALLS:]
    assert len({sent.system for sent in frozen}) == 1
    assert len({sent.system for sent in naive}) == 5
    assert "Likes short answers." not in frozen[-1].system
    assert "Likes short answers." in naive[-1].system
    for before, after in itertools.pairwise(frozen):
        assert after.messages[: len(before.messages)] == before.messages
    whats = [turn["what"] for turn in figures["turns"]]
    assert (whats[7], whats.count("a memory write"), whats.count("a search")) == ("talk, after a resume", 4, 1)
    assert figures["smallest_share_after_first_turn"] == 0.97
    assert figures["met"] is True
