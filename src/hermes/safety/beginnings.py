"""`Beginnings`: where one of many words may begin in a text, in time that does not depend on how many words there are.

Each word belongs to one of eight groups, and a group is one bit. For each of the first letters there is a table that
says which groups have a given character at that place. The text is translated with each table, and the results, moved
so that the letters of a word lie above each other, are read as one long number each: where all of them have a bit in
common, a word of that group may begin. Translating and combining run at the speed of memory; to look for sixty words
one after the other takes six times as long.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_ANY_BYTE = range(256)
_NO_LETTERS = [byte for byte in _ANY_BYTE if not bytes((byte,)).isalpha()]
_USUAL = 100_000  # characters
_FIRST_BITS = b"\x11"  # of each group of four
UNUSUAL = _FIRST_BITS  # the mark of a character that is in no word: as if each might begin there
_FIRST_OF_FOUR = int.from_bytes(_FIRST_BITS * _USUAL, "little")


class Beginnings:
    def __init__(self, *groups: str) -> None:
        """At most eight groups of words in lower case, of three to five characters each: `"cvc|cvv|key."`.

        A full stop at the end of a word says that no letter follows. Words that differ in one place only, or that are
        rare in every place, go well together.
        """
        tables = [bytearray(256) for _ in range(max(len(word) for group in groups for word in group.split("|")))]
        for bit, group in enumerate(groups):
            for word in group.split("|"):
                for place, table in enumerate(tables):
                    for byte in _accepted(word, place):
                        table[byte] |= 1 << bit
        self._tables = tuple(map(bytes, tables))

    def places(self, text: bytes) -> Iterator[int]:
        """Every place where one of the words may begin, in any case, and some where none does."""
        padded = text + b" " * len(self._tables)
        common = -1
        for place, table in enumerate(self._tables):
            common &= int.from_bytes(padded[place : place + len(text)].translate(table), "little")
        return _marked(common, len(text))


class FewBeginnings:
    """The same for two groups of words of four characters: one table holds all of it, which takes half of the time.

    A text is first turned into marks, which also show where something stands that is not of `usual` characters.
    """

    def __init__(self, *groups: str, usual: bytes) -> None:
        table = bytearray(0 if byte in usual else UNUSUAL[0] for byte in _ANY_BYTE)
        for first, group in zip((0, 4), groups, strict=True):
            for word in group.split("|"):
                for place, sign in enumerate(word):
                    for either in {ord(sign), ord(sign.upper())}:
                        table[either] |= 1 << (first + place)
        self._table = bytes(table)

    def marks(self, text: bytes) -> bytes:
        return text.translate(self._table)

    @staticmethod
    def places(marks: bytes) -> Iterator[int]:
        """Every place where one of the words may begin, in any case, and some where none does."""
        # One byte on and one bit up stands what has to follow: two characters are compared at once, then two pairs.
        common = int.from_bytes(marks, "little")
        common &= common >> 9
        common &= common >> 18
        common &= _FIRST_OF_FOUR if len(marks) <= _USUAL else int.from_bytes(_FIRST_BITS * len(marks), "little")
        return _marked(common, len(marks))


def _marked(common: int, length: int) -> Iterator[int]:
    """The places of all bytes of a long number that are not zero."""
    if common:
        marks = common.to_bytes(length, "little")
        at = -1
        for mark in marks.translate(None, b"\0"):
            at = marks.index(mark, at + 1)
            yield at


def _accepted(word: str, place: int) -> Iterable[int]:
    if place >= len(word):
        return _ANY_BYTE
    return _NO_LETTERS if word[place] == "." else {ord(word[place]), ord(word[place].upper())}
