"""Facts are collected only while there is room for them: what is kept is what all of them would have given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.compaction.audit import Held, keep_exactly
from hermes.compaction.extract import extract, wanted_for
from hermes.compaction.facts import Wanted, cost_of, find_facts

if TYPE_CHECKING:
    from histories import Message

ALL = 1_000_000
# Each with a number of its own: a text that stands in two messages is kept once, as what it was first found as.
SAID = (
    "Should the {0}th worker of the queue be restarted before the others are, or after all of them?",
    "Never restart worker {0} by hand.",
    "We decided to keep table {0} as it is.",
    "It is in src/table_{0}.py and in lock_{0} on 10.0.{0}.1.",
    "好的。Never touch row {0}。",
    "必须保留第 {0} 行。",
    "All quiet here.",
)


def history(said: list[tuple[str, int]]) -> list[Message]:
    return [{"role": role, "content": SAID[which].format(number + 100)} for number, (role, which) in enumerate(said)]


histories = st.lists(
    st.tuples(st.sampled_from(["user", "assistant", "tool"]), st.integers(0, len(SAID) - 1)), min_size=60, max_size=160
).map(history)


@pytest.mark.proves("compression.kept")
@given(histories, st.integers(0, 600), st.integers(0, 160))
def test_what_is_kept_is_what_all_facts_would_have_given(messages: list[Message], room: int, told: int) -> None:
    held = Held("\n".join(str(message["content"]) for message in messages[-told:]) if told else "nothing")
    whole = keep_exactly("", find_facts(messages, ALL), held, room)
    wanted = Wanted(ALL, room, is_held=held.has)
    assert keep_exactly("", find_facts(messages, wanted), held, room) == whole


@pytest.mark.proves("compression.extract")
@given(histories, st.integers(100, 3_000))
def test_an_extract_shows_what_it_would_of_all_facts(messages: list[Message], room: int) -> None:
    ids = list(range(len(messages)))
    whole = extract(messages, ids, find_facts(messages, ALL), room)
    facts = find_facts(messages, wanted_for(messages, room, room / 3, ALL))
    assert extract(messages, ids, facts, room) == whole
    held = Held(whole)
    kept = keep_exactly("", facts, held, room // 3, for_names=0)
    assert kept == keep_exactly("", find_facts(messages, ALL), held, room // 3, for_names=0)


@pytest.mark.proves("compression.kept")
def test_questions_leave_a_third_of_the_room_to_the_newest_names() -> None:
    messages = history([("user", 1)] + [("assistant", 3), ("user", 0)] * 150)
    kept = keep_exactly("", find_facts(messages, Wanted(ALL, 900)), Held("nothing"), 900).splitlines()
    assert kept[0] == "- constraint: Never restart worker 100 by hand."
    asked = [line for line in kept if line.startswith("- question: ")]
    names = [word for line in kept if line.startswith(("- identifiers: ", "- paths: ")) for word in line.split()]
    assert 0.6 < sum(cost_of("question", line.removeprefix("- question: ")) for line in asked) / 900 < 0.7
    assert sum(cost_of("path", word) for word in names) / 900 > 0.15
    assert {"src/table_399.py", "lock_399"} < set(names)
    # What is no question gets what they do not need, the most important first.
    few = keep_exactly("", find_facts(messages[-20:], ALL), Held("nothing"), 900)
    assert few.count("- question: ") == 10
    assert "lock_399" in few


@pytest.mark.proves("compression.kept")
def test_rules_are_found_behind_more_questions_than_there_is_room_for() -> None:
    messages = history([("assistant", 3)] * 200 + [("user", 1)] + [("user", 0)] * 300)
    found = find_facts(messages, Wanted(ALL, 500))
    assert "Never restart worker 300 by hand." in {fact.text for fact in found}
    newer = [fact.kind for fact in found if fact.position >= 40]
    assert newer.count("question") < 30
    assert "path" not in newer


@pytest.mark.proves("compression.kept")
def test_no_message_is_read_once_there_is_enough_of_every_source() -> None:
    messages = history([("user", 3), ("assistant", 3), ("tool", 3)] * 100)
    for number, message in enumerate(messages[1::3]):
        function = {"name": "read_file", "arguments": f'{{"path": "src/app_{number}.py"}}'}
        message["tool_calls"] = [{"id": "c", "function": function}]
    read: list[Message] = []

    class Watched(list[dict[str, Any]]):
        def __getitem__(self, at: Any) -> Any:
            read.append(list.__getitem__(self, at))
            return read[-1]

    found = find_facts(Watched(messages), 8)
    assert {fact.source for fact in found} == {"user", "assistant", "result", "call"}
    assert len(read) < 200
