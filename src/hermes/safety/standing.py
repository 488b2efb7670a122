"""Where concepts stand in a text of which each word has a code: numbers with a bit for each word or block of words.

Each number is worked out when a rule first asks for it, and kept, because many rules name the same concepts.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import chain

from hermes.safety.words import BOUNDARY, UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Step = tuple[int, int, int]  # the concepts, the most words before them, the concepts that none of those may have

BLOCK = 8  # words; rules that match nowhere are told by blocks of them
_LOOSE_GAP = 3  # gaps up to this size may cross a sentence end
_numbers: dict[int, tuple[int, ...]] = {}


class Standing:
    """Codes of words, and where the concepts stand that they mean."""

    __slots__ = (
        "_before", "_blocks", "_blocks_of", "_has_ends", "_lists", "_meaning", "_open", "_places", "_places_of",
        "codes",
    )  # fmt: skip

    def __init__(self, codes: str, meaning: Callable[[str], int]) -> None:
        self.codes = codes
        self._meaning = meaning
        self._lists: dict[int, list[list[int]]] = {}  # for each concept, where the codes stand that mean it
        self._blocks: dict[int, int] = {}  # of each concept
        self._places: dict[int, int] = {}
        self._blocks_of: dict[int, int] = {}  # of each set of concepts
        self._places_of: dict[int, int] = {}
        self._before: dict[Step, int] = {}
        self._has_ends = BOUNDARY in codes
        self._open: dict[tuple[int, int], int] = {}

    def places_of(self, concepts: int) -> int:
        """Where any of `concepts` stands, a bit for each place."""
        found = self._places_of.get(concepts)
        if found is None:
            if not self._lists:
                self._sort_by_concept()
            found = 0
            for each in numbers_of(concepts):
                if each in self._lists:
                    found |= self._places.get(each) or self._join(each)
            self._places_of[concepts] = found
        return found

    def _join(self, concept: int) -> int:
        places = chain.from_iterable(self._lists[concept])
        found = self._places[concept] = _as_number(places, len(self.codes))
        return found

    def blocks_of(self, concepts: int) -> int:
        """In which blocks of `BLOCK` words any of `concepts` stands, a bit for each block."""
        found = self._blocks_of.get(concepts)
        if found is None:
            if not self._lists:
                self._sort_by_concept()
            found, blocks = 0, self._blocks
            for each in numbers_of(concepts):
                found |= blocks.get(each, 0)
            self._blocks_of[concepts] = found
        return found

    def _sort_by_concept(self) -> None:
        lists, blocks, meaning = self._lists, self._blocks, self._meaning
        for code, places in _places_by_code(self.codes).items():
            inside = 0
            for place in places:
                inside |= 1 << place // BLOCK
            for each in numbers_of(meaning(code)):
                if each in lists:
                    lists[each].append(places)
                    blocks[each] |= inside
                else:
                    lists[each] = [places]
                    blocks[each] = inside

    def before_last(self, step: Step) -> int:
        """Where the last step of a rule can be reached from; many rules end alike."""
        found = self._before.get(step)
        if found is None:
            concepts, gap, without = step
            found = self._before[step] = self.before(self.places_of(concepts), gap, without)
        return found

    def before(self, places: int, gap: int, without: int) -> int:
        """The places that one of `places` follows behind at most `gap` words, none of them among `without`.

        Nor may the end of a sentence be between, unless the gap is small: one word per line is a disguise, no grammar.
        """
        strict = without or (gap > _LOOSE_GAP and self._has_ends)
        width = 1  # words that have been looked at
        while width <= gap:
            step = min(width, gap + 1 - width)
            nearer = places >> step
            places |= nearer & self._open_for(step, without) if strict else nearer
            width += step
        return places >> 1

    def _open_for(self, words: int, without: int) -> int:
        """The places from which on so many words are neither the end of a sentence nor among `without`."""
        key = words, without
        found = self._open.get(key)
        if found is None:
            if words == 1:
                closed = self.places_of(without) if without else 0
                found = ~(closed | _as_number(_places(BOUNDARY, self.codes), len(self.codes)))
            else:
                half = words // 2
                found = self._open_for(half, without) & (self._open_for(words - half, without) >> half)
            self._open[key] = found
        return found


def _places_by_code(codes: str) -> dict[str, list[int]]:
    """Where each code stands that means something."""
    if codes.count(UNKNOWN) * 6 > len(codes) * 5:  # then it is quicker to look for those that mean something
        return {code: list(_places(code, codes)) for code in set(codes) - {UNKNOWN, BOUNDARY}}
    found: dict[str, list[int]] = defaultdict(list)
    for place, code in enumerate(codes):
        found[code].append(place)
    found.pop(UNKNOWN, None)
    found.pop(BOUNDARY, None)
    return found


def _places(code: str, codes: str) -> Iterator[int]:
    place = codes.find(code)
    while place >= 0:
        yield place
        place = codes.find(code, place + 1)


def _as_number(places: Iterable[int], size: int) -> int:
    bits = bytearray(size // 8 + 1)
    for place in places:
        bits[place >> 3] |= 1 << (place & 7)
    return int.from_bytes(bits, "little")


def numbers_of(concepts: int) -> tuple[int, ...]:
    """The concepts of a set by their numbers, which are short; the tables have a few thousand sets in all."""
    found = _numbers.get(concepts)
    if found is None:
        found = _numbers[concepts] = tuple(each.bit_length() - 1 for each in bits_of(concepts))
    return found


def bits_of(mask: int) -> Iterator[int]:
    """Each concept of a set by itself."""
    while mask:
        lowest = mask & -mask
        yield lowest
        mask ^= lowest
