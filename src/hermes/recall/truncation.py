"""Cuts a long text to the stretch a query is about: a quarter before the match, three quarters after."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from hermes.storage.english import STOP_WORDS
from hermes.storage.text import unspaced_runs

if TYPE_CHECKING:
    from collections.abc import Iterator

NEAR = 200
_MOST_PLACES = 20_000
_MOST_TERMS = 32
_WORD = re.compile(r"\w+")


def truncate_around(text: str, query: str, width: int) -> str:
    """At most `width` characters of the text, with `…` where something was cut off."""
    if len(text) <= width:
        return text
    places = match_places(text, query)
    start = _best_start(places, len(text), width)
    end = min(len(text), start + width)
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"


def match_places(text: str, query: str) -> list[int]:
    """Where the whole phrase stands; else where all its words stand near each other; else where any of them does."""
    phrase = " ".join(query.split()).strip("\"'?!.… ")
    if " " in phrase and (whole := _places(text, re.escape(phrase).replace(r"\ ", r"\s+"))):
        return whole
    by_term = [found for term in _terms(query) if (found := _places(text, re.escape(term)))]
    if len(by_term) > 1 and (together := _near_each_other(by_term)):
        return together
    return sorted(place for found in by_term for place in found)[:_MOST_PLACES]


def _best_start(places: list[int], length: int, width: int) -> int:
    """The start of the window that covers the most places, the earliest of equals."""
    if not places:
        return 0
    latest = length - width
    starts = [min(max(0, place - width // 4), latest) for place in places]
    covered = [bisect_left(places, start + width) - bisect_left(places, start) for start in starts]
    return starts[covered.index(max(covered))]


def _places(text: str, pattern: str) -> list[int]:
    found = []
    for match in re.finditer(pattern, text, re.IGNORECASE):
        found.append(match.start())
        if len(found) == _MOST_PLACES:
            break
    return found


def _near_each_other(by_term: list[list[int]]) -> list[int]:
    rarest = min(by_term, key=len)
    return [
        place
        for place in rarest
        if all(
            bisect_left(found, place - NEAR) < bisect_right(found, place + NEAR)
            for found in by_term
            if found is not rarest
        )
    ]


def _terms(query: str) -> list[str]:
    """Words that carry meaning; scripts without spaces in pairs of characters."""
    words = [word for word in _WORD.findall(query) if word.lower() not in STOP_WORDS] or _WORD.findall(query)
    return list(dict.fromkeys(piece for word in words for piece in _pieces(word)))[:_MOST_TERMS]


def _pieces(word: str) -> Iterator[str]:
    if not any(unspaced_runs(word)):
        yield word
        return
    yield from ([word[at : at + 2] for at in range(len(word) - 1)] or [word])
