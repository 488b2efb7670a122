"""What a helper model proposes to the curator is checked, each operation by itself."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hermes.memory.capture import Fact
from hermes.memory.curation import checked, question

TEA = Fact(entry="The user drinks green tea in the morning.", at=1_000.0)
TEA_AGAIN = Fact(entry="The user drinks green tea.", at=2_000.0)
COFFEE = Fact(entry="The user drinks coffee in the morning, not tea.", at=3_000.0)
PINNED = Fact(entry="The user drinks green tea in summer.", at=4_000.0, pinned=True)
PAGE = Fact(entry="The user drinks cola in the morning.", at=5_000.0, trusted=False)
HOST = Fact(entry="The deploy host is atlas-7.", at=6_000.0)
UNDATED = Fact(entry="The user once lived in Oslo.")
FACTS = [TEA, TEA_AGAIN, COFFEE, PINNED, PAGE, HOST, UNDATED]


def refusal(*operations: Any, allowed: int = 9) -> str:
    found = checked(json.dumps(operations), FACTS, allowed)
    assert (found.operations, found.contradictions, found.categories) == ((), (), ())
    return "; ".join(found.refused)


def merge(*entries: Any, keep: Any = 1, **more: Any) -> dict[str, Any]:
    return {"op": "merge", "entries": list(entries), "keep": keep, **more}


REFUSED: list[tuple[Any, str]] = [
    ("merge them all", "not a JSON object"),
    ({"op": "rewrite"}, "there is no operation 'rewrite'"),
    ({"op": "category", "entry": 1, "category": "beverages"}, "there is no category 'beverages'"),
    ({"op": "category", "entry": 99, "category": "environment"}, "there is no entry 99"),
    (merge(2, 3, keep=1), "the entry to keep is not among those to merge"),
    (merge(1), "two"),
    (merge(1, 4), "a pinned entry does not leave"),
    (merge(1, 2, text=["green", "tea"]), "the new wording is not text"),
    (merge(2, 4, keep=4, text="The user drinks green tea."), "a pinned entry is not reworded"),
    (merge(1, 2, text="The user drinks green tea in the morning on deck-9."), "it invents deck-9"),
    (merge(1, 6, text="The user drinks green tea in the morning."), "it would lose"),
    (merge(1, 2, text="The user drinks hot green tea in the morning."), "it adds words that no entry has: hot"),
    (merge(1, 2, text="The user drinks tea in the morning."), "it would lose green"),
    (merge(1, 7, keep=7), "too little in common"),
    (merge(1, 2, text="The user does not drink green tea in the morning."), "it turns a negation round"),
    (
        merge(1, 2, text="The user drinks green tea in the morning, in the morning, in the morning, in the morning."),
        "longer than the entries",
    ),
    ({"op": "supersede", "old": 2, "new": 1}, "only a newer entry supersedes an older one"),
    ({"op": "supersede", "old": 7, "new": 1}, "only a newer entry supersedes an older one"),
    ({"op": "supersede", "old": 1, "new": 1}, "only a newer entry supersedes an older one"),
    ({"op": "supersede", "old": 4, "new": 6}, "a pinned entry is not superseded"),
    ({"op": "supersede", "old": 1, "new": 5}, "text from outside does not supersede"),
    ({"op": "supersede", "old": True, "new": 5}, ""),
]


@pytest.mark.proves("curator.proposals")
@pytest.mark.parametrize(("operation", "why"), REFUSED, ids=range(len(REFUSED)))
def test_an_operation_that_does_not_hold_is_refused_with_the_reason(operation: Any, why: str) -> None:
    assert why in refusal(operation)


@pytest.mark.proves("curator.proposals")
@pytest.mark.parametrize("answer", ["Merge one and two.", '{"op": "merge"}', "[" * 100_000, "```json\n{}\n```"])
def test_an_answer_that_is_no_list_changes_nothing(answer: str) -> None:
    found = checked(answer, FACTS, 9)
    assert (found.operations, found.refused) == ((), ("the answer is not a JSON list of operations",))


@pytest.mark.proves("curator.proposals", "curator.contradiction", "curator.categories")
def test_what_holds_is_taken_also_out_of_a_fence_and_contradictions_are_only_shown() -> None:
    operations = [
        merge(1, 2),
        {"op": "contradiction", "entries": [1, 3], "why": "tea or coffee " * 50},
        {"op": "category", "entry": 6, "category": "environment"},
        {"op": "supersede", "old": 2, "new": 3},
        {"op": "supersede", "old": 3, "new": 6},
    ]
    found = checked(f"Here:\n```json\n{json.dumps(operations)}\n```", FACTS, 1)
    assert [(each.kind, each.keep, each.drop) for each in found.operations] == [("merge", TEA.entry, TEA_AGAIN.entry)]
    assert [(each.one, each.other, len(each.why) < 300) for each in found.contradictions] == [
        (TEA.entry, COFFEE.entry, True)
    ]
    assert len(found.refused) + len(found.categories) == 3
    assert "was changed by an operation before" in " ".join(found.refused)
    assert "that is used up" in " ".join(found.refused)


@pytest.mark.proves("curator.proposals")
def test_the_helper_is_shown_the_entries_with_their_numbers_and_days() -> None:
    _, lines = question(FACTS)
    assert lines.splitlines()[0] == '1. (1970-01-01) "The user drinks green tea in the morning."'
    assert "Oslo" in lines.splitlines()[6]
