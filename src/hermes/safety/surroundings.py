"""What stands around some places of a long text: as many words each way as any rule spans, the rest left out.

Decoding and disguises change a few words of a text that was read before; only those words and their neighbours can mean
anything new.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

LONG_TEXT = 4_000  # characters; a shorter text is read whole
WIDEST_RULE = 60  # words
_MANY = 12  # words, from which on it is quicker to look at every word of the text once
_REACH = 1_000  # characters in which so many words usually stand
_APART = " .\n\n"
# One word more, because the place may end inside one. Whatever a word is made of, nothing here is tried twice.
_WORDS = re.compile(rf"(?:[\W_]{{0,9999}}+[^\W_]{{1,9999}}+){{0,{WIDEST_RULE + 1}}}+[\W_]{{0,9999}}+")


def surroundings(text: str, places: Sequence[tuple[int, int]]) -> str:
    """`text` around `places`, which are in order; whole when it is short."""
    if len(text) < LONG_TEXT:
        return text
    pieces: list[str] = []
    for first, last in _widened(text, places):
        pieces += [_APART, text[first:last]]
    return "".join(pieces)


def spans_around(text: str, places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Where that stands which `surroundings` shows."""
    return [(0, len(text))] if len(text) < LONG_TEXT else list(_widened(text, places))


def in_parts(text: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    """All of `text`: every second part is one of `spans`, which are in order."""
    parts: list[str] = []
    done = 0
    for first, last in spans:
        parts += text[done:first], text[first:last]
        done = last
    return [*parts, text[done:]]


def places_of(text: str, words: Collection[str], word: re.Pattern[str]) -> list[tuple[int, int]]:
    """Where any of `words` stands in `text`, in order; each is what the expression `word` matches."""
    if len(words) > _MANY:
        return [found.span() for found in word.finditer(text) if found[0] in words]
    places = []
    for each in words:
        at = text.find(each)
        while at >= 0:
            places.append((at, at + len(each)))
            at = text.find(each, at + len(each))
    return sorted(places)


def _widened(text: str, places: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Each place with the words around it; places that share some of these as one."""
    starts = [start for start, _ in places]
    ends = list(accumulate([end for _, end in places], max))
    done = at = 0
    while at < len(places):
        first = _words_before(text, starts[at], done)
        last = _words_behind(text, ends[at])
        while (nearest := bisect_right(starts, last, at) - 1) > at:
            at = nearest
            last = max(last, _words_behind(text, ends[at]))
        yield first, last
        done = last
        at += 1


def _words_before(text: str, place: int, done: int) -> int:
    for reach in (_REACH, len(text)):
        before = text[max(done, place - reach) : place][::-1]
        found = _WORDS.match(before)
        size = found.end() if found else 0
        if size < len(before):
            break
    return place - size


def _words_behind(text: str, place: int) -> int:
    found = _WORDS.match(text, place)
    return found.end() if found else place
