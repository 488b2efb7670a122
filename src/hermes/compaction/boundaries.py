"""Where a history may be cut, and how pointers are renumbered when it moves to another database.

Phase 1 clears old tool results, phase 2 finds head and tail by token budget without separating a call from its results,
phase 4 puts the pieces together so that both the OpenAI and the Anthropic format accept them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

from hermes.base.values import value
from hermes.compaction.block import (
    BRIDGE,
    POINTERS_HEADING,
    Chapter,
    few,
    format_ranges,
    is_block,
    parse_chapters,
    parse_ranges,
)
from hermes.compaction.messages import calls_of, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hermes.compaction.messages import Counts, Message

    Messages = Sequence[dict[str, Any]]
    NewIds = Callable[[int, int], list[tuple[int, int]]]

CLEARED = "[Old tool output cleared to save context space]"
CLEAR_OVER = 200  # characters of a tool result that may stay
MISSING_RESULT = "[The result of this call is no longer in the context.]"
# What programs put into a conversation under the user's name; none of it is the person's last request.
_SYNTHETIC = (
    "[System: Your previous response was truncated",
    "[System: The previous response was cut off",
    "[System: Your previous tool call",
    "[IMPORTANT: Background process ",
)
_POINTER = 'context_expand ids="'
POINTED = re.compile(r'(?:\] |; )context_expand ids="(\d{1,19})" shows')
Item = TypeVar("Item")
_CHARACTERS_PER_TOKEN = 2  # a cautious reading: no text has fewer on average but Chinese, and then a result is shorter


@value
class Cut:
    """messages[:head] and messages[tail:] stay; so does the one at `pinned`, the last request, when it is between."""

    head: int
    tail: int
    pinned: int | None = None

    def middle(self, beside: Sequence[Item]) -> list[Item]:
        """What lies between, of the messages or of anything that stands beside them."""
        if self.pinned is None:
            return [*beside[self.head : self.tail]]
        return [*beside[self.head : self.pinned], *beside[self.pinned + 1 : self.tail]]


def clear_tool_results(
    messages: Messages, end: int, ids: Sequence[int | None] | None = None, start: int = 0
) -> list[dict[str, Any]]:
    """Phase 1: tool results of messages[start:end] that are longer than `CLEAR_OVER` make room.

    With ids they say how to read them again. Other messages are the same objects as before.
    """
    cleared = list(messages)
    for position in range(start, end):
        message = messages[position]
        if message.get("role") == "tool" and len(text_of(message)) > CLEAR_OVER:
            number = ids[position] if ids is not None else None
            pointer = f' {_POINTER}{number}" shows it.' if number is not None else ""
            cleared[position] = {**message, "content": CLEARED + pointer}
    return cleared


def shortened_ids(messages: Messages) -> list[int]:
    """Ids of the originals of results that an earlier compaction cleared or shortened."""
    results = [message.get("content") for message in messages if message.get("role") == "tool"]
    pointing = [content for content in results if type(content) is str and _POINTER in content]
    return [int(number) for content in pointing for number in POINTED.findall(content)]


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
    """Phase 2: what stays.

    The tail holds as many whole groups as fit its budget, or `protect_last_n` messages if that is more and fits the
    ceiling; the last group always. The head gives way only when it is larger than its ceiling.
    """
    head = _head(messages, counts, protect_first_n, head_ceiling)
    tail = _tail(messages, counts, head, protect_last_n=protect_last_n, budget=tail_budget, ceiling=tail_ceiling)
    return _pinned(messages, head, tail)


def newest(messages: Messages, first: int, last: int) -> Cut:
    """Everything between the first messages and the last ones, whole groups."""
    head = min(first, len(messages))
    while head < len(messages) and messages[head].get("role") == "tool":
        head += 1
    tail = max(group_start(messages, len(messages) - max(last, 1)), head)
    return _pinned(messages, head, tail)


def _pinned(messages: Messages, head: int, tail: int) -> Cut:
    last = last_request(messages)
    return Cut(head=head, tail=tail, pinned=last if last is not None and head <= last < tail else None)


def last_request(messages: Messages) -> int | None:
    """Where the person spoke last."""
    for position in range(len(messages) - 1, -1, -1):
        message = messages[position]
        if message.get("role") == "user" and not is_block(message) and not is_synthetic(message):
            return position
    return None


def group_start(messages: Messages, position: int) -> int:
    """Where the group begins that `position` lies in: a message with all the tool results after it is one group."""
    while 0 < position < len(messages) and messages[position].get("role") == "tool":
        position -= 1
    return position


def shorten_results(messages: Messages, ids: Sequence[int | None], counts: Counts, room: int) -> list[dict[str, Any]]:
    """Tool results that alone would overflow the window keep their beginning and end, with a pointer between."""
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
    """Phase 4: the block in the role that fits between its neighbours, with one assistant line where none does.

    Roles must alternate for some models, and the first message must be the user's. The line is never put into the
    user's mouth.
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
    """A history in which every result directly follows its call and every call has one.

    Beside it: for each message its position in what was given, None for a result made up here.
    """
    repaired: list[dict[str, Any]] = []
    origin: list[int | None] = []
    waiting: dict[str, str] = {}
    for position, message in enumerate(messages):
        role = message.get("role")
        if role == "tool":
            if waiting.pop(str(message.get("tool_call_id")), None) is None:
                continue  # an orphan: no wire takes it
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
    """Whether a program put it into the conversation under the user's name."""
    if any(key.endswith("_synthetic") for key in message if key.startswith("_")):
        return True
    content = message.get("content")
    return isinstance(content, str) and content.startswith(_SYNTHETIC)


_NOWHERE = 0  # no message has it
_SUMMARY_OF = re.compile(r"^### lcm:\d{1,18} · messages ([\d, -]+)$", re.MULTILINE)


def renumbered(message: Mapping[str, Any], new_ids: NewIds) -> dict[str, Any]:
    """A message of a compacted history for another database, in which the messages it points to have other ids.

    A line that would lead to no message is left out.
    """
    text = message.get("content")
    if not isinstance(text, str):
        return dict(message)
    if is_block(message):
        said, heading, pointers = text.partition(f"\n{POINTERS_HEADING}\n")
        # The summaries themselves stay behind; what they say is in the block, and the messages are found by their ids.

        def moved(found: re.Match[str]) -> str:
            spans = ((span.start, span.stop - 1) for span in parse_ranges(found[1]))
            return f"### messages {format_ranges(_moved(spans, new_ids))}"

        said = _SUMMARY_OF.sub(moved, said)
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
