"""What compaction reads from OpenAI-format messages: text, tool calls, size in tokens."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Any

from hermes.base.tokens import BLOB_TOKENS, estimate, estimate_message

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Message = Mapping[str, Any]

_SAMPLE = 48  # messages that say enough about how many characters make a token in a history
_PLACES = 12
_PLACE = 170  # characters of one place of a long text
_BLOB_CHARACTERS = 4 * BLOB_TOKENS


def text_of(message: Message) -> str:
    """What a person would read of the content; a picture or file is named, never spelled out."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(_part_text(part) for part in content)
    return ""


def calls_of(message: Message) -> list[tuple[str, str, str]]:
    """(id, tool, arguments) of each tool call."""
    found = []
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):  # both have the shape they should have
            arguments = function.get("arguments")
            if not isinstance(arguments, str):
                arguments = json.dumps(arguments, ensure_ascii=False, default=str)
            found.append((str(call.get("id")), str(function.get("name") or "?"), arguments))
    return found


def tool_counts(messages: Iterable[Message]) -> Counter[str]:
    """How often each tool is called."""
    return Counter(name for message in messages if message.get("tool_calls") for _, name, _ in calls_of(message))


def characters(message: Message) -> int:
    """Size of a message in characters, with a picture counted as what it costs."""
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
    """The text, or its beginning and end with the number of characters left out between them."""
    if len(text) <= limit:
        return text
    marker = f" […{len(text) - limit:,} characters…] "
    room = max(limit - len(marker), 2)
    ending = room // 4
    return text[: room - ending] + marker + text[len(text) - ending :]


def find_folded(text: str, wanted: str) -> int:
    """Where the wanted text stands, in whatever case; -1 when it does not."""
    folded = text.casefold()
    place = folded.find(wanted.casefold())
    if place <= 0 or len(folded) == len(text):
        return place
    # Some characters, such as the German sharp s, fold to two: the place is the one before which so many stand.
    return bisect_right(range(len(text)), place, key=lambda end: len(text[:end].casefold())) - 1


def one_line(text: str, limit: int) -> str:
    """The beginning of a text without line breaks, cut at `limit` characters."""
    joined = " ".join(text[: 4 * limit].split())
    return joined if len(joined) <= limit else joined[: limit - 1].rstrip() + "…"


def at_most(text: str) -> int:
    """A cheap upper figure for the tokens of one line; `estimate` costs more than the line is worth."""
    return len(text) // 3 + 2 if text.isascii() else len(text.encode("utf-8", "surrogatepass")) // 3 + 2


def estimate_sampled(text: str) -> int:
    """Tokens of a text, from some places when it is long: a fraction of the time, and within a few percent."""
    if len(text) <= _PLACES * _PLACE:
        return estimate(text)
    step = len(text) // _PLACES
    sample = "".join([text[at : at + _PLACE] for at in range(0, len(text), step)])
    return round(estimate(sample) * len(text) / len(sample))


class Counts:
    """Token counts beside messages: the ones handed in, others estimated when first asked for."""

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
        """About how many characters messages have: from their counts where those are known."""
        counts = self._counts
        return [4 * count if (count := counts[at]) is not None else characters(self._messages[at]) for at in positions]

    def total(self, start: int, stop: int) -> int:
        """Tokens of messages[start:stop]; of many that were never counted a sample tells, weighted by characters."""
        span = self._counts[start:stop]
        known = sum(filter(None, span))
        if None not in span:
            return known
        missing = [start + offset for offset, count in enumerate(span) if count is None]
        if len(missing) <= _SAMPLE:
            return known + sum(self[position] for position in missing)
        if self._per_character is None:
            sample = missing[:: len(missing) // _SAMPLE]
            sizes = sum(characters(self._messages[position]) for position in sample)
            self._per_character = sum(self[position] for position in sample) / max(sizes, 1)
        return known + round(sum(characters(self._messages[position]) for position in missing) * self._per_character)


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
