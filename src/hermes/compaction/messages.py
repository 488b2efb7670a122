"""Reads a conversation for compaction: texts, sizes, where to cut, and the block that replaces the middle."""

from __future__ import annotations

import json
import os
import re
from bisect import bisect_right
from collections import Counter
from functools import cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, TypeVar

from hermes.base.tokens import BLOB_TOKENS, estimate, estimate_message
from hermes.base.values import value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Message = Mapping[str, Any]
    from collections.abc import Callable

    Messages = Sequence[dict[str, Any]]
    NewIds = Callable[[int, int], list[tuple[int, int]]]

_SAMPLE = 48  # messages from which the tokens per character of a long history are estimated
_PLACES = 12  # places of a long text from which its tokens are estimated
_PLACE = 170  # characters of one such place
_BLOB_CHARACTERS = 4 * BLOB_TOKENS


def text_of(message: Message) -> str:
    """The text of a message; a picture or file is represented by its type."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(_part_text(part) for part in content)
    return ""


def calls_of(message: Message) -> list[tuple[str, str, str]]:
    """Lists the tool calls of a message as (id, tool, arguments as text); malformed calls are left out."""
    found: list[tuple[str, str, str]] = []
    calls = message.get("tool_calls")
    if not calls or not isinstance(calls, list):  # most messages have none
        return found
    for call in calls:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):  # an import may contain malformed calls
            arguments = function.get("arguments")
            if not isinstance(arguments, str):
                arguments = json.dumps(arguments, ensure_ascii=False, default=str)
            found.append((str(call.get("id")), str(function.get("name") or "?"), arguments))
    return found


def tool_counts(messages: Iterable[Message]) -> Counter[str]:
    """How often each tool is called."""
    given = [message["tool_calls"] for message in messages if "tool_calls" in message]
    functions = [call.get("function") for calls in given for call in calls or () if isinstance(call, dict)]
    return Counter([str(each.get("name") or "?") for each in functions if isinstance(each, dict)])


def characters(message: Message) -> int:
    """Size of a message in characters; a picture counts as many as its tokens correspond to."""
    content = message.get("content")
    if isinstance(content, str):
        size = len(content)
    elif isinstance(content, list):
        size = sum(_part_characters(part) for part in content)
    else:
        size = 0
    if message.get("tool_calls"):
        size += sum(len(arguments) + 40 for _, _, arguments in calls_of(message))
    return size + 16


def excerpt(text: str, limit: int) -> str:
    """Shortens a text to its beginning and end, with the number of omitted characters between them."""
    if len(text) <= limit:
        return text
    marker = f" […{len(text) - limit:,} characters…] "
    room = max(limit - len(marker), 2)
    ending = room // 4
    return text[: room - ending] + marker + text[len(text) - ending :]


def find_folded(text: str, wanted: str) -> int:
    """The position of a text, ignoring case; -1 when it does not occur."""
    folded = text.casefold()
    place = folded.find(wanted.casefold())
    if place <= 0 or len(folded) == len(text):
        return place
    # Some characters, such as the German sharp s, fold to two, so the position in the folded text must be mapped back.
    return bisect_right(range(len(text)), place, key=lambda end: len(text[:end].casefold())) - 1


def one_line(text: str, limit: int) -> str:
    """Shortens a text to one line of at most `limit` characters."""
    joined = " ".join(text[: 4 * limit].split())
    return joined if len(joined) <= limit else joined[: limit - 1].rstrip() + "…"


def at_most(text: str) -> int:
    """A cheap upper bound for the tokens of one line, where `estimate` would be too slow."""
    return len(text) // 3 + 2 if text.isascii() else len(text.encode("utf-8", "surrogatepass")) // 3 + 2


def estimate_sampled(text: str) -> int:
    """Estimates the tokens of a text from samples when it is long: much faster, and within a few percent."""
    if len(text) <= _PLACES * _PLACE:
        return estimate(text)
    step = len(text) // _PLACES
    sample = "".join([text[at : at + _PLACE] for at in range(0, len(text), step)])
    return round(estimate(sample) * len(text) / len(sample))


class Counts:
    """Token counts of messages: those that are known, others estimated on first use."""

    def __init__(self, messages: Sequence[Message], known: Sequence[int | None] | None = None) -> None:
        self._messages = messages
        self._per_character: float | None = None
        self._counts: list[int | None] = list(known) if known is not None else [None] * len(messages)
        if len(self._counts) != len(messages):
            raise ValueError(f"{len(messages)} messages need as many counts, not {len(self._counts)}")

    def __getitem__(self, position: int) -> int:
        count = self._counts[position]
        if count is None:
            count = self._counts[position] = estimate_message(self._messages[position])
        return count

    def sizes(self, positions: Iterable[int]) -> list[int]:
        """Approximate characters of messages, derived from their token counts where those are known."""
        counts = self._counts
        return [4 * count if (count := counts[at]) is not None else characters(self._messages[at]) for at in positions]

    def total(self, start: int, stop: int) -> int:
        """Tokens of messages[start:stop]; many uncounted ones are extrapolated from a sample, by their characters."""
        span = self._counts[start:stop]
        known = [count for count in span if count is not None]
        if len(known) == len(span):
            return sum(known)
        missing = [start + offset for offset, count in enumerate(span) if count is None]
        if len(missing) <= _SAMPLE:
            return sum(known) + sum(self[position] for position in missing)
        if self._per_character is None:
            sample = missing[:: len(missing) // _SAMPLE]
            sizes = sum(characters(self._messages[position]) for position in sample)
            self._per_character = sum(self[position] for position in sample) / max(sizes, 1)
        return sum(known) + round(
            sum(characters(self._messages[position]) for position in missing) * self._per_character
        )


def _part_text(part: object) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return ""
    if isinstance(part.get("text"), str):
        return str(part["text"])
    return f"[{part.get('type') or 'part'}]"


def _part_characters(part: object) -> int:
    if isinstance(part, dict) and not isinstance(part.get("text"), str):
        return _BLOB_CHARACTERS
    return len(_part_text(part))


# The block: one message that replaces many, with pointers to them. Its text can be parsed again:
#
# [CONTEXT COMPACTION — REFERENCE ONLY] …how to read it…
# …summary…
# ## Kept exactly
# ## Files changed and commands run
# ## Where the originals are
# --- END OF CONTEXT SUMMARY …

CHAPTER_CHARACTERS = 15_000  # a chapter is what one context_expand can show
MOST_CHAPTERS = 48  # lines of pointers in a block
_MOST_RANGES = 4  # of one chapter; its ids have gaps when other conversations stored messages meanwhile
_LABEL = 90  # characters of a chapter's label
_LABELLED = 200  # first messages of a chapter, from which its label is made
_LONG_RESULTS = "long tool results"
_ID = r"\d{1,18}"  # message ids have no more digits, but other numbers in a text may
# One pointer of a block: `- 12-15, 20 (5 messages): label`.
_LINE = re.compile(
    rf"^- (?P<ids>{_ID}(?:-{_ID})?(?:, {_ID}(?:-{_ID})?)*) \((?P<count>{_ID}) messages?\)(?:: (?P<label>.*))?$"
)
# `12`, `12-15` (also with an en dash) or `12..15`, as models write ranges.
_RANGE = re.compile(rf"(?<!\d)({_ID})(?!\d)\s*(?:(?:-|\N{{EN DASH}}|\.\.)\s*({_ID})(?!\d))?")


@value
class Chapter:
    """A stretch of compacted messages: their ids, their number, and a label of what they were about."""

    ids: tuple[tuple[int, int], ...]
    count: int
    label: str = ""

    @property
    def line(self) -> str:
        """The chapter as a line of pointers in a block."""
        noun = "message" if self.count == 1 else "messages"
        label = f": {self.label}" if self.label else ""
        return f"- {format_ranges(self.ids)} ({self.count} {noun}){label}"


def to_ranges(ids: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Groups ids into runs of consecutive ones, as (first, last)."""
    numbers = sorted(set(ids))
    if numbers and numbers[-1] - numbers[0] < len(numbers):  # without a gap, as most are
        return ((numbers[0], numbers[-1]),)
    gaps = [at for at, (before, after) in enumerate(pairwise(numbers), start=1) if after != before + 1]
    borders = [0, *gaps, len(numbers)] if numbers else []
    return tuple((numbers[start], numbers[stop - 1]) for start, stop in pairwise(borders))


def format_ranges(ranges: Iterable[tuple[int, int]]) -> str:
    """Renders ranges of ids as `12-15, 20`."""
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def parse_ranges(text: str) -> list[range]:
    """Parses ranges of ids such as `12-15, 20`; [] when the text contains anything else."""
    if re.sub(_RANGE, "", text).strip(" ,;\t\n"):
        return []
    return [range(int(low), int(high or low) + 1) for low, high in _RANGE.findall(text)]


def chapters_of(
    messages: Sequence[Message],
    ids: Sequence[int | None],
    more: Sequence[int] = (),
    sizes: Sequence[int] | None = None,
) -> list[Chapter]:
    """Cuts messages into at most `MOST_CHAPTERS` chapters, each of a size that one `context_expand` can show.

    `more` are ids to which shortened results among the messages point; `sizes` are characters, if known.
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
    """Renders one line per chapter within `room` tokens: drops the labels first, then joins neighbours."""
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
    """Reads chapters back from the lines of a block; other lines are ignored."""
    chapters = []
    for line in text.splitlines():
        if found := _LINE.match(line.strip()):
            spans = tuple((span.start, span.stop - 1) for span in parse_ranges(found["ids"]))
            chapters.append(Chapter(ids=spans, count=int(found["count"]), label=found["label"] or ""))
    return chapters


def joined(chapters: Sequence[Chapter], most: int) -> list[Chapter]:
    """Reduces chapters to at most `most` by joining the two smallest neighbours repeatedly."""
    kept, most = list(chapters), max(most, 1)
    while len(kept) > 2 * most:  # only in text that imitates a block; searching for the smallest would take too long
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
    """Covers ranges with at most `_MOST_RANGES`, closing the smallest gaps, whose ids belong elsewhere."""
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
    """A label for a chapter: the first thing the person said, and the tools that were used most."""
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
LEDGER_HEADING = "## Files changed and commands run"
POINTERS_HEADING = "## Where the originals are"
BRIDGE = "[Part of this conversation was compacted; I go on from what is known.]"
SYSTEM_NOTE = "[Note: Some earlier turns of this conversation have been compacted into one block marked as such.]"
_FLAG = "_compressed_summary"  # how hermes-agent marks its summaries
_TEXTS = os.path.join(os.path.dirname(__file__), "text")
_SIGNS = "[#- "
_PREAMBLE_END = re.compile(r"\n\s*\n")


@value
class Block:
    """The sections of a block: summary, facts kept word for word, ledger, and the chapters it points to."""

    summary: str
    kept: str = ""
    ledger: str = ""
    chapters: tuple[Chapter, ...] = ()


def is_block(message: Message) -> bool:
    """Whether a message is the block of a compaction, ours or that of hermes-agent."""
    content = message.get("content")  # a block is always one text
    marked = isinstance(content, str) and content.startswith((MARK, LEGACY_PREFIX))
    return (marked or _FLAG in message) and message.get("role") in ("user", "assistant")


def blocks_in(messages: Iterable[Message]) -> list[Message]:
    """The blocks among messages."""
    # Most messages begin otherwise, so this is asked first: histories may be long.
    marked = [
        each for each in messages if _FLAG in each or (type(text := each.get("content")) is str and text[:1] == MARK[0])
    ]
    return [each for each in marked if is_block(each)]


def pointed_in(messages: Iterable[Message]) -> list[int]:
    """The ids of original results that an earlier compaction, which left a block, shortened."""
    texts = [each.get("content") for each in messages if each.get("role") == "tool"]
    pointing = [text for text in texts if isinstance(text, str) and _POINTER in text]
    return [int(number) for text in pointing for number in POINTED.findall(text)]


def render_block(summary: str, kept: str, pointers: str, ledger: str = "") -> str:
    """Renders a block from its sections, with the texts that tell the model how to read it."""
    parts = [f"{PREFIX} {prose('preamble')}", _without_marks(summary.strip())]
    if kept:
        parts.append(f"{KEPT_HEADING}\n{_without_marks(kept)}")
    if ledger:
        parts.append(f"{LEDGER_HEADING}\n{_without_marks(ledger)}")
    if pointers:
        parts.append(f"{POINTERS_HEADING}\n{prose('pointers')}\n{pointers}")
    parts.append(f"{END} — {prose('ending')} ---")
    return "\n\n".join(part for part in parts if part)


def parse_block(message: Message) -> Block:
    """Parses a block; one that another program wrote consists of a summary only."""
    text = text_of(message).strip()
    if text.startswith(MARK):
        found = _PREAMBLE_END.search(text)
        text = text[found.end() :] if found else text.partition("]")[2]
    elif text.startswith(LEGACY_PREFIX):
        text = text[len(LEGACY_PREFIX) :]
    # Text after the last end line does not belong to the block.
    text = text.rpartition(f"\n{END}")[0] if f"\n{END}" in text else text
    text, _, pointers = text.partition(f"\n{POINTERS_HEADING}\n")
    text, _, ledger = text.partition(f"\n{LEDGER_HEADING}\n")
    summary, _, kept = text.partition(f"{KEPT_HEADING}\n")
    chapters = tuple(parse_chapters(pointers))
    return Block(summary=summary.strip(), kept=kept.strip(), ledger=ledger.strip(), chapters=chapters)


def _without_marks(text: str) -> str:
    """Removes our headings from a text: a model or person who writes one must not end a section early."""
    for mark in (MARK, END, KEPT_HEADING, LEDGER_HEADING, POINTERS_HEADING):
        if mark in text:
            bare = mark.strip(_SIGNS)
            before = text.split(bare)
            # Remove all signs before it: after removing one "##" of "## ##", a heading would be left.
            before[:-1] = [each.rstrip(_SIGNS) if f"{each}{bare}".endswith(mark) else each for each in before[:-1]]
            text = bare.join(before)
    return text


def join_blocks(blocks: Sequence[Block]) -> Block:
    """Joins the blocks of one history, oldest first."""
    return Block(
        summary="\n\n".join(block.summary for block in blocks),
        kept="\n".join(block.kept for block in blocks if block.kept),
        ledger="\n".join(block.ledger for block in blocks if block.ledger),
        chapters=tuple(chapter for block in blocks for chapter in block.chapters),
    )


@cache
def prose(name: str) -> str:
    """Reads one of the texts in `compaction/text`."""
    with open(os.path.join(_TEXTS, f"{name}.md"), encoding="utf-8") as file:
        return file.read().strip()


# Where a history may be cut, and how pointers are renumbered when it moves to another database.
#
# Phase 1 clears old tool results, phase 2 finds head and tail by token budget without separating a call from its
# results, and phase 4 joins the pieces so that both the OpenAI and the Anthropic API accept them. Phase 3, the summary,
# is in `compressor.py`.

CLEARED = "[Old tool output cleared to save context space]"
CLEAR_OVER = 200  # characters; shorter tool results stay as they are
MISSING_RESULT = "[The result of this call is no longer in the context.]"
# Beginnings of messages that programs add in the user's role; such a message is not the person's last request.
_SYNTHETIC = (
    "[System: Your previous response was truncated",
    "[System: The previous response was cut off",
    "[System: Your previous tool call",
    "[IMPORTANT: Background process ",
)
_POINTER = 'context_expand ids="'
POINTED = re.compile(r'(?:\] |; )context_expand ids="(\d{1,19})" shows')
Item = TypeVar("Item")
_CHARACTERS_PER_TOKEN = 2  # a low assumption: on average, only Chinese text has fewer


@value
class Cut:
    """Where to cut: messages[:head] and messages[tail:] stay, and so does `pinned`, a last request between them."""

    head: int
    tail: int
    pinned: int | None = None

    def middle(self, beside: Sequence[Item]) -> list[Item]:
        """The part to replace, of the messages or of a list that belongs to them, such as their ids."""
        if self.pinned is None:
            return [*beside[self.head : self.tail]]
        return [*beside[self.head : self.pinned], *beside[self.pinned + 1 : self.tail]]


def clear_tool_results(
    messages: Messages, end: int, ids: Sequence[int | None] | None = None, start: int = 0
) -> list[dict[str, Any]]:
    """Phase 1: replaces tool results of messages[start:end] that are longer than `CLEAR_OVER` by a short note.

    With ids, the note says how to read the result again. All other messages stay the same objects.
    """
    cleared = list(messages)
    for position in range(start, end):
        message = messages[position]
        if message.get("role") == "tool" and len(text_of(message)) > CLEAR_OVER:
            number = ids[position] if ids is not None else None
            pointer = f' {_POINTER}{number}" shows it.' if number is not None else ""
            cleared[position] = {**message, "content": CLEARED + pointer}
    return cleared


def find_cut(
    messages: Messages,
    counts: Counts,
    *,
    protect_first_n: int,
    protect_last_n: int,
    tail_budget: int,
    head_ceiling: int,
    tail_ceiling: int,
) -> Cut:
    """Phase 2: decides which messages stay.

    The tail keeps as many whole groups as fit its budget, or `protect_last_n` messages if that is more and fits the
    ceiling; it always keeps the last group. The head is shortened only when it exceeds its ceiling.
    """
    head = _head(messages, counts, protect_first_n, head_ceiling)
    tail = _tail(messages, counts, head, protect_last_n=protect_last_n, budget=tail_budget, ceiling=tail_ceiling)
    return _pinned(messages, head, tail)


def newest(messages: Messages, first: int, last: int) -> Cut:
    """The cut that leaves about `first` messages at the beginning and `last` at the end, in whole groups."""
    head = min(first, len(messages))
    while head < len(messages) and messages[head].get("role") == "tool":
        head += 1
    tail = max(group_start(messages, len(messages) - max(last, 1)), head)
    return _pinned(messages, head, tail)


def _pinned(messages: Messages, head: int, tail: int) -> Cut:
    last = last_request(messages)
    return Cut(head=head, tail=tail, pinned=last if last is not None and head <= last < tail else None)


def last_request(messages: Messages) -> int | None:
    """The position of the person's last message; None when there is none."""
    for position in range(len(messages) - 1, -1, -1):
        message = messages[position]
        if message.get("role") == "user" and not is_block(message) and not is_synthetic(message):
            return position
    return None


def group_start(messages: Messages, position: int) -> int:
    """The start of the group at `position`; a group is a message with all the tool results after it."""
    while 0 < position < len(messages) and messages[position].get("role") == "tool":
        position -= 1
    return position


def shorten_results(messages: Messages, ids: Sequence[int | None], counts: Counts, room: int) -> list[dict[str, Any]]:
    """Shortens tool results to beginning and end, with a pointer between, until the messages fit `room` tokens."""
    positions = [at for at, message in enumerate(messages) if message.get("role") == "tool"]
    total = sum(counts[at] for at in range(len(messages)))
    if total <= room or not positions:
        return list(messages)
    results = sum(counts[at] for at in positions)
    share = max((room - (total - results)) // len(positions), 50) * _CHARACTERS_PER_TOKEN
    shortened = list(messages)
    for at in positions:
        text = text_of(messages[at])
        if len(text) > share:
            number = ids[at]
            pointer = f'; {_POINTER}{number}" shows all of it' if number is not None else ""
            marker = f"\n[… {len(text) - share:,} of {len(text):,} characters left out{pointer} …]\n"
            shown = text[: share * 3 // 4] + marker + text[len(text) - share // 4 :]
            shortened[at] = {**messages[at], "content": shown}
    return shortened


def block_messages(text: str, before: Message | None, after: Message | None) -> list[dict[str, Any]]:
    """Phase 4: the block as a message whose role fits its neighbours, with an assistant line where none does.

    For some models, roles must alternate and the first message must be the user's. The extra line has the assistant's
    role, because the person did not say it.
    """
    asked = before is not None and before.get("role") in ("user", "tool")
    answers_next = after is not None and after.get("role") == "assistant"
    bridge = {"role": "assistant", "content": BRIDGE}
    if asked and not answers_next:
        return [{"role": "assistant", "content": text}]
    block = {"role": "user", "content": text}
    if asked:
        return [bridge, block]
    return [block] if answers_next or after is None else [block, bridge]


def repair_pairs(messages: Messages) -> tuple[list[dict[str, Any]], list[int | None]]:
    """Repairs a history so that every result directly follows its call and every call has a result.

    Also returns the original position of each message; None for a result that was added here.
    """
    repaired: list[dict[str, Any]] = []
    origin: list[int | None] = []
    waiting: dict[str, str] = {}
    for position, message in enumerate(messages):
        role = message.get("role")
        if role == "tool":
            if waiting.pop(str(message.get("tool_call_id")), None) is None:
                continue  # a result without a call: no API accepts it
        else:
            if waiting:
                _answer(waiting, repaired, origin)
            if role == "assistant" and message.get("tool_calls"):
                waiting = {number: name for number, name, _ in calls_of(message)}
        repaired.append(message)
        origin.append(position)
    _answer(waiting, repaired, origin)
    return repaired, origin


def _answer(waiting: dict[str, str], repaired: list[dict[str, Any]], origin: list[int | None]) -> None:
    for number, name in waiting.items():
        repaired.append({"role": "tool", "tool_call_id": number, "name": name, "content": MISSING_RESULT})
        origin.append(None)
    waiting.clear()


def _head(messages: Messages, counts: Counts, protect_first_n: int, ceiling: int) -> int:
    lowest = 0
    while lowest < len(messages) and messages[lowest].get("role") in ("system", "developer"):
        lowest += 1
    head = min(max(protect_first_n, lowest), len(messages))
    head = next((at for at in range(lowest, head) if is_block(messages[at])), head)
    if head > lowest and messages[head - 1].get("content") == BRIDGE:
        head -= 1
    whole = head
    while whole < len(messages) and messages[whole].get("role") == "tool":
        whole += 1
    head = whole
    while head > lowest and sum(counts[at] for at in range(lowest, head)) > ceiling:
        head = max(lowest, group_start(messages, head - 1))
    return head


def _tail(messages: Messages, counts: Counts, head: int, *, protect_last_n: int, budget: int, ceiling: int) -> int:
    tail = len(messages)
    filled = 0
    while tail > head:
        start = max(group_start(messages, tail - 1), head)
        filled += sum(counts[at] for at in range(start, tail))
        wanted = filled <= budget or (len(messages) - tail < protect_last_n and filled <= ceiling)
        if (tail < len(messages) and not wanted) or is_block(messages[start]):
            break
        tail = start
    if tail < len(messages) and messages[tail].get("content") == BRIDGE:
        tail += 1
    return tail


def is_synthetic(message: Message) -> bool:
    """Whether a program added this message in the user's role."""
    if any(key.endswith("_synthetic") for key in message if key.startswith("_")):
        return True
    content = message.get("content")
    return isinstance(content, str) and content.startswith(_SYNTHETIC)


_NOWHERE = 0  # an id that no message has
_USED_AGAIN = re.compile(rf"^(- used again: .+?) \[({_ID})\](?= “)", re.MULTILINE)
_SUMMARY_OF = re.compile(r"^### lcm:\d{1,18} · messages ([\d, -]+)$", re.MULTILINE)


def renumbered(message: Mapping[str, Any], new_ids: NewIds) -> dict[str, Any]:
    """Translates the pointers in a message for another database, in which the messages have other ids.

    Pointers without a message there are left out.
    """
    text = message.get("content")
    if not isinstance(text, str):
        return dict(message)
    if is_block(message):
        said, heading, pointers = text.partition(f"\n{POINTERS_HEADING}\n")
        # The summary graph of `lcm` is not copied: the block has its texts, and the messages are found by their ids.

        def moved(found: re.Match[str]) -> str:
            spans = ((span.start, span.stop - 1) for span in parse_ranges(found[1]))
            return f"### messages {format_ranges(_moved(spans, new_ids))}"

        def named(found: re.Match[str]) -> str:
            new = _moved([(int(found[2]), int(found[2]))], new_ids)
            return found[1] + (f" [{new[0][0]}]" if new else "")

        said = _USED_AGAIN.sub(named, _SUMMARY_OF.sub(moved, said))
        lines = [line for each in pointers.split("\n") if (line := _line(each, new_ids)) is not None]
        return {**message, "content": said + heading + "\n".join(lines)}
    if message.get("role") == "tool":

        def renumber(found: re.Match[str]) -> str:
            new = _moved([(int(found[1]), int(found[1]))], new_ids) or ((_NOWHERE, _NOWHERE),)
            return found[0].replace(found[1], str(new[0][0]))

        return {**message, "content": POINTED.sub(renumber, text)}
    return dict(message)


def _line(line: str, new_ids: NewIds) -> str | None:
    chapters = parse_chapters(line)
    if not chapters:
        return line
    (chapter,) = chapters
    ids = _moved(chapter.ids, new_ids)
    return Chapter(ids=ids, count=chapter.count, label=chapter.label).line if ids else None


def _moved(spans: Iterable[tuple[int, int]], new_ids: NewIds) -> tuple[tuple[int, int], ...]:
    return few(moved for first, last in spans for moved in new_ids(first, last))
