"""The tool that brings compacted messages back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from histories import PICTURE, call

from hermes.tools.memory import ContextExpand
from hermes.tools.registry import Toolbox

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from histories import Message

pytestmark = pytest.mark.proves("compression.expand")

STORED: dict[int, Message] = {
    7: {"role": "user", "content": [{"type": "text", "text": "look at this"}, PICTURE]},
    8: {"role": "assistant", "content": None, "tool_calls": [call("a")]},
    9: {"role": "tool", "tool_call_id": "a", "name": "terminal", "content": f"{'.' * 900}Needle ORD-1{'.' * 900}"},
    20: {"role": "assistant", "content": "done"},
}


def read(ids: Sequence[int], _session: str) -> Iterator[tuple[int, Message]]:
    return ((each, STORED[each]) for each in STORED if each in ids)


def expand(most: int = 24_000, **arguments: Any) -> Any:
    box = Toolbox({"context_expand": lambda: ContextExpand(read, most)})  # without anybody who notes what comes in
    return json.loads(box.call("context_expand", arguments))


def test_ids_and_ranges_are_read_in_order_with_calls_and_pictures_named() -> None:
    shown = expand(ids="7-9, 20")["messages"]
    assert [each["id"] for each in shown] == [7, 8, 9, 20]
    assert shown[0]["content"] == "look at this\n[image_url]"
    assert shown[1]["content"] == '[calls terminal({"command": "pytest tests/a.py"})]'
    assert shown[2]["content"] == STORED[9]["content"]


def test_an_answer_is_bounded_and_says_how_to_go_on() -> None:
    first = expand(most=600, ids="7-9,20")
    assert first["more"] == {"ids": "9, 20"}
    second = expand(most=600, **first["more"])
    assert second["more"]["start"] == 520
    third = expand(most=600, **second["more"])
    assert third["messages"][0]["content"] == STORED[9]["content"][520:1040]


def test_find_shows_the_place_only() -> None:
    shown = expand(ids="1-30", find="needle ord")["messages"]
    assert [each["id"] for each in shown] == [9]
    assert "Needle ORD-1" in shown[0]["content"]
    assert len(shown[0]["content"]) < 850


@pytest.mark.parametrize(("ids", "why"), [("all of them", "ids must be"), ("", "ids must be"), ("500-600", "none of")])
def test_what_leads_nowhere_is_explained(ids: str, why: str) -> None:
    answer = expand(ids=ids)
    assert answer["success"] is False
    assert why in answer["error"]


def test_a_huge_range_reads_only_what_fits() -> None:
    asked: list[int] = []

    def endless(ids: Sequence[int], _session: str) -> Iterator[tuple[int, Message]]:
        for each in ids:
            asked.append(each)
            yield each, {"role": "user", "content": "x" * 1_000}

    answer = ContextExpand(endless).call({"ids": "1-9000000000"})
    assert len(asked) < 40
    assert answer["more"]["ids"].endswith("-9000000000")
