"""Which facts of a long history are found, and which of them are kept word for word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hermes.compaction.facts import CUE_WORDS, Held, find_facts, keep_exactly, sentences_of
from hermes.compaction.messages import at_most

if TYPE_CHECKING:
    from histories import Message

ALL = 1_000_000
# Each with a number of its own: a text that stands in two messages is kept once, as what it was first found as.
QUESTION = "Should the {0}th worker of the queue be restarted before the others are, or after all of them?"
RULE = "Never restart worker {0} by hand."
PROSE = "the queue reads the table again and then it writes the record after each request of a worker " * 3
NAMES = "It is in src/table_{0}.py and in lock_{0} on 10.0.{0}.1."


def history(said: list[tuple[str, str]]) -> list[Message]:
    return [{"role": role, "content": text.format(number + 100)} for number, (role, text) in enumerate(said)]


@pytest.mark.proves("compression.kept")
@pytest.mark.parametrize("kind", CUE_WORDS)
def test_each_cue_is_found_wherever_it_stands(kind: str) -> None:
    around = ("{}", "{} it", "do {}", "We {} it.", "one\n{}\ttwo", "好的。{} 好的", "{}\u3000x", "x" * 70_000 + " {} y")
    missed = [
        (cue, each)
        for cue in CUE_WORDS[kind]
        for each in around
        if kind not in [found for found, _ in sentences_of(each.format(cue))]
    ]
    assert missed == []
    assert [cue for cue in CUE_WORDS[kind] if cue.isascii() and list(sentences_of(f"x{cue}x"))] == []


@pytest.mark.proves("compression.kept")
@pytest.mark.parametrize("around", ["{}", "do {}", "one\n{}\ttwo", "好的。{} 好的", "{}\u3000x"])
def test_a_cue_is_found_among_many_messages(around: str) -> None:
    said = [around.format(cue) for cue in sorted(frozenset().union(*CUE_WORDS.values()))]
    messages: list[Message] = [{"role": "assistant", "content": text} for text in said]
    found = {messages[fact.position]["content"] for fact in find_facts(messages, ALL)}
    assert sorted(set(said) - found) == []


@pytest.mark.proves("compression.kept")
def test_questions_leave_a_third_of_the_room_to_the_newest_names() -> None:
    messages = history([("user", RULE)] + [("assistant", NAMES), ("user", QUESTION)] * 150)
    kept = keep_exactly("", find_facts(messages, ALL), Held("nothing"), 900).splitlines()
    assert kept[0] == "- constraint: Never restart worker 100 by hand."
    asked = [line for line in kept if line.startswith("- question: ")]
    names = [word for line in kept if line.startswith(("- identifiers: ", "- paths: ")) for word in line.split()]
    assert 0.6 < sum(at_most(line.removeprefix("- question: ")) + 2 for line in asked) / 900 < 0.7
    assert sum(map(at_most, names)) / 900 > 0.15
    assert {"src/table_399.py", "lock_399"} < set(names)
    # What is no question gets what they do not need, the most important first.
    few = keep_exactly("", find_facts(messages[-20:], ALL), Held("nothing"), 900)
    assert few.count("- question: ") == 10
    assert "lock_399" in few


@pytest.mark.proves("compression.kept")
def test_rules_are_found_behind_more_names_than_are_looked_for() -> None:
    messages = history([("assistant", NAMES)] * 200 + [("user", RULE)] + [("user", NAMES)] * 300)
    found = find_facts(messages, 100)
    assert "Never restart worker 300 by hand." in {fact.text for fact in found}
    assert sum(fact.kind in ("path", "identifier", "number") for fact in found) < 120


@pytest.mark.proves("compression.kept")
def test_scarce_names_and_rules_are_found_far_back() -> None:
    messages = history([("user", RULE), ("tool", "lock A-{0} is held")] + [("assistant", PROSE)] * 6_000)
    messages[0:0] = history([("assistant", PROSE)] * 60)  # the first messages are always read
    assert [fact.text for fact in find_facts(messages, 100)] == ["Never restart worker 100 by hand.", "100", "A-101"]


@pytest.mark.proves("compression.kept")
def test_behind_much_else_rules_are_found_as_far_back_as_a_model_has_time_for() -> None:
    said = [("user", NAMES), ("user", QUESTION), ("tool", NAMES), ("assistant", NAMES), ("assistant", PROSE)]
    messages = history([("assistant", PROSE)] * 60 + [("user", RULE)] + said * 2_000)
    function = {"name": "read_file", "arguments": '{"paths": ["src/a_1.py", "src/a_2.py"]}'}
    messages.append({"role": "assistant", "content": "", "tool_calls": [{"id": "1", "function": function}]})
    rule = "Never restart worker 160 by hand."
    assert rule not in {fact.text for fact in find_facts(messages, 10)}
    assert rule in {fact.text for fact in find_facts(messages, 10, thorough=True)}


@pytest.mark.proves("compression.kept")
def test_a_text_that_contains_what_parts_texts_hides_no_names() -> None:
    said = [("user", "plain words\0 and more"), ("user", NAMES), ("assistant", "\0"), ("tool", "Error: a_b")]
    found = {fact.text for fact in find_facts(history(said), ALL)}
    assert {"src/table_101.py", "lock_101", "10.0.101.1", "a_b"} < found
