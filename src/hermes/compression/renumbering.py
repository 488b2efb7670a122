"""What a compaction wrote, taken to a database in which the messages that it points to have other ids."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hermes.compression.block import POINTERS_HEADING, is_block
from hermes.compression.boundaries import POINTED
from hermes.compression.pointers import Chapter, few, format_ranges, parse_chapters, parse_ranges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    # The ids that messages between two old ones, ends included, have now; none for what is not there.
    NewIds = Callable[[int, int], list[tuple[int, int]]]

_NOWHERE = 0  # no message has it
_SUMMARY_OF = re.compile(r"^### lcm:\d{1,18} · messages ([\d, -]+)$", re.MULTILINE)


def renumbered(message: Mapping[str, Any], new_ids: NewIds) -> dict[str, Any]:
    """The message with pointers that lead to the same messages as before; a line that would lead to none goes."""
    text = message.get("content")
    if not isinstance(text, str):
        return dict(message)
    if is_block(message):
        said, heading, pointers = text.partition(f"\n{POINTERS_HEADING}\n")
        # The summaries themselves stay behind; what they say is in the block, and the messages are found by their ids.
        said = _SUMMARY_OF.sub(lambda found: f"### messages {format_ranges(_moved(found[1], new_ids))}", said)
        lines = [line for each in pointers.split("\n") if (line := _line(each, new_ids)) is not None]
        return {**message, "content": said + heading + "\n".join(lines)}
    if message.get("role") == "tool":
        moved = POINTED.sub(lambda found: found[0].replace(found[1], str(_one(int(found[1]), new_ids))), text)
        return {**message, "content": moved}
    return dict(message)


def _line(line: str, new_ids: NewIds) -> str | None:
    chapters = parse_chapters(line)
    if not chapters:
        return line
    (chapter,) = chapters
    ids = few(_all_moved(chapter.ids, new_ids))
    return Chapter(ids=ids, count=chapter.count, label=chapter.label).line if ids else None


def _moved(ids: str, new_ids: NewIds) -> tuple[tuple[int, int], ...]:
    return few(_all_moved(((span.start, span.stop - 1) for span in parse_ranges(ids)), new_ids))


def _all_moved(spans: Iterable[tuple[int, int]], new_ids: NewIds) -> list[tuple[int, int]]:
    return [moved for first, last in spans for moved in new_ids(first, last)]


def _one(number: int, new_ids: NewIds) -> int:
    found = new_ids(number, number)
    return found[0][0] if found else _NOWHERE
