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
_ANYTHING = b"\0" + b"\1" * 255


class Beginnings:
    def __init__(self, *groups: str) -> None:
        """At most eight groups of words in lower case, of three or four characters each: `"cvc|cvv|key."`.

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
        """Every place where one of the words may begin, and some where none does; `text` in lower case."""
        padded = text + b" " * len(self._tables)
        common = -1
        for place, table in enumerate(self._tables):
            common &= int.from_bytes(padded[place : place + len(text)].translate(table), "little")
        if not common:
            return
        marks = common.to_bytes(len(text), "little").translate(_ANYTHING)
        at = marks.find(1)
        while at >= 0:
            yield at
            at = marks.find(1, at + 1)


def _accepted(word: str, place: int) -> Iterable[int]:
    if place >= len(word):
        return _ANY_BYTE
    return _NO_LETTERS if word[place] == "." else (ord(word[place]),)
