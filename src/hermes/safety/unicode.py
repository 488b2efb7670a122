"""Folds text to what a model reads: one case, no look-alikes, nothing invisible. The stored text stays untouched."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate, islice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hermes.safety.confusables import FoldTable

_ASCII_CONTROLS = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127))
_ANSI = r"\x1b\[[0-9;?]{0,16}[A-Za-z]"
_JAMO = "[\u1100-\u11ff]"
_LOOSE_SYLLABLES = "[\uac00-\ud7a3]?[\u1100-\u11ff]+"
_BLOCK = 256
_tables: list[FoldTable] = []


def fold(text: str) -> str:
    """`text` with case, look-alikes, accents, marks and invisible characters folded away, for matching only."""
    if text.isascii():
        return _without_controls(text).lower()
    folded = _without_ansi(text).translate(fold_table())
    # Marks are gone by now, so composing cannot run into the quadratic sorting of long mark sequences.
    return re.sub(_LOOSE_SYLLABLES, _composed, folded) if re.search(_JAMO, folded) else folded


def _composed(found: re.Match[str]) -> str:
    import unicodedata

    return unicodedata.normalize("NFC", found[0])


def fold_table() -> FoldTable:
    if not _tables:
        from hermes.safety.confusables import FoldTable

        _tables.append(FoldTable())
    return _tables[0]


class Origin:
    """Where folded characters come from; worked out when somebody asks, and once for all who do."""

    __slots__ = ("_ends", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends = [0]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where the folded span [start, end) stands; (-1, -1) when folding did more than replace characters."""
        text = self._text
        if text.isascii() and len(_without_controls(text)) == len(text):
            return start, end
        if "\x1b" in text or re.search(_JAMO, text):
            return -1, -1
        first, last = self._index_behind(start), self._index_behind(end - 1) + 1
        return (first, last) if first < last <= len(text) else (-1, -1)

    def _index_behind(self, folded_place: int) -> int:
        """Which character of the text became the one at `folded_place`."""
        text, table, ends = self._text, fold_table(), self._ends
        while ends[-1] <= folded_place and len(ends) * _BLOCK < len(text) + _BLOCK:  # whole blocks, in C
            start = (len(ends) - 1) * _BLOCK
            ends.append(ends[-1] + len(fold(text[start : start + _BLOCK])))
        block = bisect_right(ends, folded_place) - 1  # then one of them sign by sign
        start = block * _BLOCK
        each = accumulate((len(table[ord(char)]) for char in text[start : start + _BLOCK]), initial=ends[block])
        return start + sum(end <= folded_place for end in islice(each, 1, None))


def _without_controls(text: str) -> str:
    # isprintable is one pass in C; line breaks are the usual reason to look closer.
    if text.isprintable():
        return text
    return _without_ansi(text).translate(_ASCII_CONTROLS)


def _without_ansi(text: str) -> str:
    return re.sub(_ANSI, "", text) if "\x1b" in text else text
