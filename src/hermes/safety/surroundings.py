"""What stands around some places of a long text: as many words each way as any rule spans, the rest left out.

Decoding and disguises change a few words of a text that was read before; only those words and their neighbours can mean
anything new.
"""

from __future__ import annotations

import re
from bisect import bisect_left

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

LONG_TEXT = 4_000  # characters; a shorter text is read whole
WIDEST_RULE = 60  # words
_MANY = 20  # places, from which on it is quicker to count all words once
_REACH = 1_000  # characters each way in which the words around one place are counted
_APART = " .\n\n"
_WORD = re.compile(r"[^\W_]+")


def surroundings(text: str, places: Sequence[tuple[int, int]]) -> str:
    """`text` around `places`, which are in order; whole when it is short."""
    if len(text) < LONG_TEXT:
        return text
    done = 0
    pieces: list[str] = []
    for first, last in _widened(text, places):
        if pieces and first <= done:
            pieces.append(text[done:last])
        else:
            pieces += [_APART, text[first:last]]
        done = last
    return "".join(pieces)


def places_of(text: str, words: Iterable[str]) -> list[tuple[int, int]]:
    """Where any of `words` stands in `text`, in order."""
    found = []
    for word in words:
        at = text.find(word)
        while at >= 0:
            found.append((at, at + len(word)))
            at = text.find(word, at + len(word))
    return sorted(found)


def _widened(text: str, places: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    every = _starts(text, 0, len(text)) if len(places) > _MANY else []
    for start, end in places:
        starts = every or _starts(text, max(0, start - _REACH), end + _REACH)
        if len(starts) < WIDEST_RULE * 4 and not every:  # long words; then the words of all the text are counted
            starts = every = _starts(text, 0, len(text))
        before, behind = bisect_left(starts, start) - WIDEST_RULE, bisect_left(starts, end) + WIDEST_RULE
        first = starts[before] if before >= 0 else 0
        yield first, starts[behind] if behind < len(starts) else len(text)


def _starts(text: str, first: int, last: int) -> list[int]:
    return [word.start() for word in _WORD.finditer(text, first, last)]
