"""The compacted block: one message that replaces many, with pointers to them, as text that can be read back.

[CONTEXT COMPACTION — REFERENCE ONLY] …how to read it…
…summary…
## Kept exactly
## Where the originals are
--- END OF CONTEXT SUMMARY …
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from functools import cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from hermes.base.tokens import estimate
from hermes.base.values import value
from hermes.compaction.messages import at_most, characters, one_line, text_of, tool_counts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hermes.compaction.messages import Message

CHAPTER_CHARACTERS = 15_000  # a chapter is what one context_expand can show
MOST_CHAPTERS = 48
_MOST_RANGES = 4  # of one chapter; ids of other conversations may lie between
_LABEL = 90
_LABELLED = 200  # messages of a chapter that its label is made of
_LONG_RESULTS = "long tool results"
_ID = r"\d{1,18}"  # anybody may write a longer number into a text; no message has one
_LINE = re.compile(
    rf"^- (?P<ids>{_ID}(?:-{_ID})?(?:, {_ID}(?:-{_ID})?)*) \((?P<count>{_ID}) messages?\)(?:: (?P<label>.*))?$"
)
_RANGE = re.compile(rf"(?<!\d)({_ID})(?!\d)\s*(?:(?:-|\N{{EN DASH}}|\.\.)\s*({_ID})(?!\d))?")


@value
class Chapter:
    """Some consecutive messages of the past: their ids, how many they are, and what they were about."""

    ids: tuple[tuple[int, int], ...]
    count: int
    label: str = ""

    @property
    def line(self) -> str:
        noun = "message" if self.count == 1 else "messages"
        label = f": {self.label}" if self.label else ""
        return f"- {format_ranges(self.ids)} ({self.count} {noun}){label}"


def to_ranges(ids: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Runs of consecutive ids as (first, last)."""
    numbers = sorted(set(ids))
    runs: list[tuple[int, int]] = []
    for each in numbers:
        if runs and each == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], each)
        else:
            runs.append((each, each))
    return tuple(runs)


def format_ranges(ranges: Iterable[tuple[int, int]]) -> str:
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def parse_ranges(text: str) -> list[range]:
    """`"12-15, 20"` as ranges; [] when the text holds anything else."""
    if re.sub(_RANGE, "", text).strip(" ,;\t\n"):
        return []
    return [range(int(low), int(high or low) + 1) for low, high in _RANGE.findall(text)]


def chapters_of(
    messages: Sequence[Message],
    ids: Sequence[int | None],
    more: Sequence[int] = (),
    sizes: Sequence[int] | None = None,
) -> list[Chapter]:
    """The messages in order, cut into chapters that one expansion can show, at most `MOST_CHAPTERS` of them.

    `more` are ids that some of the messages point to themselves; `sizes` are characters, where they are known.
    """
    sizes = sizes if sizes is not None else [characters(message) for message in messages]
    limit = max(CHAPTER_CHARACTERS, sum(sizes) // (MOST_CHAPTERS - 8))
    chapters = [Chapter(ids=few(to_ranges(more)), count=len(more), label=_LONG_RESULTS)] if more else []
    ends = list(accumulate(sizes))
    start = 0
    while start < len(ends):
        full = ends[start] - sizes[start] + limit
        stop = max(bisect_right(ends, full), start + 1)
        while stop < len(ends) and messages[stop].get("role") == "tool":
            stop += 1  # a result stays in the chapter of its call
        if known := [each for each in ids[start:stop] if each is not None]:
            label = _label(messages[start:stop])
            chapters.append(Chapter(ids=few(to_ranges(known)), count=len(known), label=label))
        start = stop
    return chapters


def render_chapters(chapters: Sequence[Chapter], room: int) -> str:
    """One line per chapter in at most about `room` tokens: labels go first, then neighbours are joined."""
    kept = joined(chapters, MOST_CHAPTERS)
    text = "\n".join([chapter.line for chapter in kept])
    if at_most(text) <= room or estimate(text) <= room:
        return text
    kept = [Chapter(ids=each.ids, count=each.count) for each in kept]
    text = "\n".join([chapter.line for chapter in kept])
    while len(kept) > 1 and estimate(text) > room:
        kept = joined(kept, (len(kept) + 1) // 2)
        text = "\n".join([chapter.line for chapter in kept])
    return text


def parse_chapters(text: str) -> list[Chapter]:
    chapters = []
    for line in text.splitlines():
        if found := _LINE.match(line.strip()):
            spans = tuple((span.start, span.stop - 1) for span in parse_ranges(found["ids"]))
            chapters.append(Chapter(ids=spans, count=int(found["count"]), label=found["label"] or ""))
    return chapters


def joined(chapters: Sequence[Chapter], most: int) -> list[Chapter]:
    """At most `most` chapters: the two smallest neighbours become one until it fits."""
    kept, most = list(chapters), max(most, 1)
    while len(kept) > 2 * most:  # far too many, as only a text has that looks like a block: no look for the smallest
        kept = [_together(*kept[at : at + 2]) for at in range(0, len(kept), 2)]
    while len(kept) > most:
        smallest = min(range(len(kept) - 1), key=lambda position: kept[position].count + kept[position + 1].count)
        kept[smallest : smallest + 2] = [_together(*kept[smallest : smallest + 2])]
    return kept


def _together(one: Chapter, *others: Chapter) -> Chapter:
    for other in others:
        label = one_line(" / ".join(filter(None, (one.label, other.label))), _LABEL)
        one = Chapter(ids=few(one.ids + other.ids), count=one.count + other.count, label=label)
    return one


def few(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """At most `_MOST_RANGES` ranges that cover the given ones; what lies in the gaps belongs to nobody here."""
    runs = sorted(ranges)
    whole: list[tuple[int, int]] = []
    for first, last in runs:
        if whole and first <= whole[-1][1] + 1:
            whole[-1] = (whole[-1][0], max(last, whole[-1][1]))
        else:
            whole.append((first, last))
    if len(whole) > _MOST_RANGES:
        gaps = sorted(range(1, len(whole)), key=lambda at: whole[at - 1][1] - whole[at][0])[: _MOST_RANGES - 1]
        borders = [0, *sorted(gaps), len(whole)]
        whole = [(whole[a][0], whole[b - 1][1]) for a, b in pairwise(borders)]
    return tuple(whole)


def _label(messages: Sequence[Message]) -> str:
    """The first thing a person said in it, and the tools that were used most."""
    some = messages[:_LABELLED]
    said = next((one_line(text_of(each), 60) for each in some if each.get("role") == "user" and text_of(each)), "")
    most = sorted(tool_counts(some).items(), key=lambda each: -each[1])[:3]
    used = ", ".join([f"{times} {name}" if times > 1 else name for name, times in most])
    return one_line(" · ".join(filter(None, (f"“{said}”" if said else "", used))), _LABEL)


MARK = "[CONTEXT COMPACTION"
PREFIX = f"{MARK} — REFERENCE ONLY]"
LEGACY_PREFIX = "[CONTEXT SUMMARY]:"
END = "--- END OF CONTEXT SUMMARY"
KEPT_HEADING = "## Kept exactly"
POINTERS_HEADING = "## Where the originals are"
BRIDGE = "[Part of this conversation was compacted; I go on from what is known.]"
SYSTEM_NOTE = "[Note: Some earlier turns of this conversation have been compacted into one block marked as such.]"
_FLAG = "_compressed_summary"  # how hermes-agent marks its own
_TEXTS = os.path.join(os.path.dirname(__file__), "text")
_SIGNS = "[#- "
_PREAMBLE_END = re.compile(r"\n\s*\n")


@value
class Block:
    """What a block says: the summary, the facts kept word for word, the chapters it points to."""

    summary: str
    kept: str = ""
    chapters: tuple[Chapter, ...] = ()


def is_block(message: Message) -> bool:
    content = message.get("content")  # a block is always one text
    marked = isinstance(content, str) and content.startswith((MARK, LEGACY_PREFIX))
    return (marked or _FLAG in message) and message.get("role") in ("user", "assistant")


def render_block(summary: str, kept: str, pointers: str) -> str:
    parts = [f"{PREFIX} {prose('preamble')}", _without_marks(summary.strip())]
    if kept:
        parts.append(f"{KEPT_HEADING}\n{_without_marks(kept)}")
    if pointers:
        parts.append(f"{POINTERS_HEADING}\n{prose('pointers')}\n{pointers}")
    parts.append(f"{END} — {prose('ending')} ---")
    return "\n\n".join(part for part in parts if part)


def parse_block(message: Message) -> Block:
    """Reads a block back; one that another program wrote is all summary."""
    text = text_of(message).strip()
    if text.startswith(MARK):
        found = _PREAMBLE_END.search(text)
        text = text[found.end() :] if found else text.partition("]")[2]
    elif text.startswith(LEGACY_PREFIX):
        text = text[len(LEGACY_PREFIX) :]
    # Whatever stands behind the last end line is no part of the block.
    text = text.rpartition(f"\n{END}")[0] if f"\n{END}" in text else text
    text, _, pointers = text.partition(f"\n{POINTERS_HEADING}\n")
    summary, _, kept = text.partition(f"{KEPT_HEADING}\n")
    return Block(summary=summary.strip(), kept=kept.strip(), chapters=tuple(parse_chapters(pointers)))


def _without_marks(text: str) -> str:
    """The text without our own headings: a model or a person who writes them must not end a section early."""
    for mark in (MARK, END, KEPT_HEADING, POINTERS_HEADING):
        if mark in text:
            bare = mark.strip(_SIGNS)
            before = text.split(bare)
            # All signs before it go: of "## ##" one would be left.
            before[:-1] = [each.rstrip(_SIGNS) if f"{each}{bare}".endswith(mark) else each for each in before[:-1]]
            text = bare.join(before)
    return text


def join_blocks(blocks: Sequence[Block]) -> Block:
    """Several blocks of one history as one, oldest first."""
    return Block(
        summary="\n\n".join(block.summary for block in blocks),
        kept="\n".join(block.kept for block in blocks if block.kept),
        chapters=tuple(chapter for block in blocks for chapter in block.chapters),
    )


@cache
def prose(name: str) -> str:
    """One of the texts beside this module."""
    with open(os.path.join(_TEXTS, f"{name}.md"), encoding="utf-8") as file:
        return file.read().strip()
