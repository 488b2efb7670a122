"""Words become concepts: a lexicon maps the words of one language to concept sets, one character per set.

A text is read as a string of such characters ("." for a word that means nothing here, "|" for the end of a sentence),
and a rule is a short pattern over concepts with bounded gaps. So vocabulary, languages and rules grow independently.
"""

from __future__ import annotations

from hermes.safety.places import Index
from hermes.vocabulary.errors import ScannerUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from typing import Any

    from hermes.safety.places import Places

UNKNOWN = "."
BOUNDARY = "|"
_FIRST_CODE = 0xB0
_BETWEEN = 31  # words each way; twice that is more than any rule spans
_MANY_WORDS = 1_000
_ENDS = frozenset(".!?\n")  # the tokens that end a sentence
_JOINERS = str.maketrans("-.&=", "____")  # text is cut into words at these signs, so the lexicon is too

_bits: dict[str, int] = {}


def bit(concept: str) -> int:
    """The bit that stands for a concept, the same in every language."""
    if concept not in _bits:
        _bits[concept] = 1 << len(_bits)
    return _bits[concept]


def known_bits() -> dict[str, int]:
    return _bits


class Lexicon:
    """The vocabulary of one language: words, stems ("instruc*") and phrases ("from_now_on"), each with its concepts."""

    def __init__(self, name: str, tables: Iterable[Mapping[str, str]]) -> None:
        self.name = name
        self.masks: dict[str, int] = {}
        self.stems: dict[str, int] = {}
        # first word -> second word -> (the words after it, meaning), longest first
        self.phrases: dict[str, dict[str, list[tuple[list[str], int]]]] = {}
        self._codes: dict[int, str] = {}
        self._meanings: dict[str, int] = {UNKNOWN: 0, BOUNDARY: 0}
        for table in tables:
            for concept, words in table.items():
                self._add(bit(concept), words)
        self._finish_phrases()
        for mask in self.masks.values():
            self.code(mask)

    def state(self) -> tuple[object, ...]:
        """Everything this lexicon knows, as plain values for the compiled tables."""
        return self.masks, self.stems, self.phrases, list(self._codes)

    @classmethod
    def restore(cls, name: str, state: tuple[Any, ...]) -> Lexicon:
        lexicon = cls(name, [])
        lexicon.masks, lexicon.stems, lexicon.phrases, codes = state
        lexicon._codes = {mask: chr(_FIRST_CODE + index) for index, mask in enumerate(codes)}
        lexicon._meanings |= {code: mask for mask, code in lexicon._codes.items()}
        return lexicon

    def _add(self, concept: int, words: str) -> None:
        for entry in words.translate(_JOINERS).split():
            parts = [part for part in entry.split("_") if part] if "_" in entry else [entry]
            if len(parts) > 1:
                self._add_phrase(parts, concept)
                continue
            word = parts[0]
            if word[-1] == "*":
                self.stems[word[:-1]] = self.stems.get(word[:-1], 0) | concept
            else:
                self.masks[word] = self.masks.get(word, 0) | concept

    def _add_phrase(self, words: list[str], concept: int) -> None:
        second = "*" if words[1][-1] == "*" else words[1]
        rest = words[1:] if second == "*" else words[2:]
        endings = self.phrases.setdefault(words[0], {}).setdefault(second, [])
        for index, (known, mask) in enumerate(endings):
            if known == rest:
                endings[index] = (known, mask | concept)
                return
        endings.append((rest, concept))

    def _finish_phrases(self) -> None:
        """A phrase still means what its words mean ("the user" is a user), except that "no longer" is no negation.

        Opaque phrases ("password reset") name a thing of their own and mean nothing else.
        """
        positive = ~bit("not")
        opaque = bit("opaque")
        masks = self.masks
        for first, seconds in self.phrases.items():
            for second, endings in seconds.items():
                meaning = masks.get(first, 0) | masks.get(second, 0)
                for index, (rest, mask) in enumerate(endings):
                    for word in rest:
                        meaning |= masks.get(word, 0)
                    endings[index] = (rest, mask if mask & opaque else mask | meaning & positive)
                    self.code(endings[index][1])
                endings.sort(key=_longest_first)

    def code(self, mask: int) -> str:
        if mask not in self._codes:
            code = self._codes[mask] = chr(_FIRST_CODE + len(self._codes))
            self._meanings[code] = mask
        return self._codes[mask]

    def meanings(self) -> list[int]:
        """Every set of concepts that a word or phrase can have."""
        return list(self._codes)

    def mask_behind(self, code: str) -> int:
        return self._meanings[code]

    def read(self, words: Words, stemmed: Mapping[str, int] | None = None) -> Reading | None:
        """The concepts of `words` in order; None when there are none. `stemmed` adds what stems say about words."""
        masks = self.masks
        meanings = {word: masks[word] for word in words.known & masks.keys()}
        for word, mask in (stemmed or {}).items():
            meanings[word] = mask | masks.get(word, 0)
        starts = words.known & self.phrases.keys()
        if not meanings and not starts:
            return None
        if words.are_few(meanings.keys() | starts):
            return self._read_few(words, meanings, starts)
        codes = words.unread()
        present = 0
        for word, mask in meanings.items():
            present |= mask
            code = self.code(mask)
            for place in words.where(word):
                codes[place] = code
        read = "".join(codes)
        pieces: list[str] = []
        done = 0
        joined: list[tuple[int, int]] = []
        for position, end, mask in self._phrases_in(words, starts):
            pieces += read[done:position], self.code(mask)
            done = end
            joined.append((position, end))
            present |= mask
        read = "".join([*pieces, read[done:]])
        return Reading(self, read, Index(lambda: _unjoined(len(codes), joined)), present) if present else None

    def _read_few(self, words: Words, meanings: Mapping[str, int], starts: AbstractSet[str]) -> Reading | None:
        """A reading of a long text in which few words mean something: of what is between, as much as a rule spans."""
        meant: dict[int, tuple[int, int]] = {}
        for word, mask in meanings.items():
            for place in words.where(word):
                meant[place] = place + 1, mask
        for position, end, mask in self._phrases_in(words, starts):
            meant[position] = end, mask
        unread = words.unread_text()
        codes: list[str] = []
        spans: list[tuple[int, int]] = []  # of the words that each piece of the codes stands for
        done = present = 0
        for place in sorted(meant):
            if place < done:
                continue
            end, mask = meant[place]
            if place - done > 2 * _BETWEEN:
                left, right = done + _BETWEEN, place - _BETWEEN
                sign = BOUNDARY if unread.find(BOUNDARY, left, right) >= 0 else UNKNOWN
                codes += unread[done:left], sign, unread[right:place]
                spans += (done, left), (left, left + 1), (right, place)
            else:
                codes.append(unread[done:place])
                spans.append((done, place))
            codes.append(self.code(mask))
            spans.append((place, place + 1))
            done = end
            present |= mask
        codes.append(unread[done : done + _BETWEEN])
        spans.append((done, done + _BETWEEN))
        index = Index(lambda: [place for start, end in spans for place in range(start, min(end, len(words.tokens)))])
        return Reading(self, "".join(codes), index, present) if present else None

    def _phrases_in(self, words: Words, starts: AbstractSet[str]) -> Iterator[tuple[int, int, int]]:
        """(start, end, meaning) of phrases, in order, none inside another."""
        tokens, phrases = words.tokens, self.phrases
        done = 0
        for position in sorted([place for word in starts for place in words.where(word)]):
            if position < done:
                continue
            seconds = phrases[tokens[position]]
            second = tokens[position + 1] if position + 1 < len(tokens) else ""
            if second not in seconds and "*" not in seconds:
                continue  # as most are
            length, mask = _phrase_at(tokens, position, seconds, second)
            if length:
                done = position + length
                yield position, done, mask


class Words:
    """The words of a text, looked up by every language: which there are, and where those stand that somebody knows."""

    __slots__ = ("_blank", "_text", "_where", "known", "tokens")

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.known = set(tokens)
        self._blank: list[str] = []
        self._text = ""
        self._where: dict[str, list[int]] = {}

    def locate(self, *vocabularies: Mapping[str, object]) -> None:
        """Notes where the words of all `vocabularies` stand, in one pass, so that a language looks at its own only."""
        where: dict[str, list[int]] = {}
        for vocabulary in vocabularies:
            for word in self.known & vocabulary.keys():
                where[word] = []
        for place, token in enumerate(self.tokens):
            if token in where:
                where[token].append(place)
        self._where = where

    def where(self, word: str) -> list[int]:
        return self._where[word]

    def are_few(self, meant: Iterable[str]) -> bool:
        """Whether words stand so far from each other in a long text that most of it lies between them."""
        most = len(self.tokens) // (4 * _BETWEEN) if len(self.tokens) > _MANY_WORDS else 0
        for word in meant:
            most -= len(self._where[word])
            if most < 0:
                return False
        return True

    def unread_text(self) -> str:
        if not self._text:
            self._text = "".join(self.unread())
        return self._text

    def unread(self) -> list[str]:
        """One code per word, as if none meant anything; a list of its own for each caller."""
        if not self._blank:
            if self.known.isdisjoint(_ENDS):
                self._blank = [UNKNOWN] * len(self.tokens)
            else:
                self._blank = [BOUNDARY if token in _ENDS else UNKNOWN for token in self.tokens]
        return self._blank[:]


class Reading:
    """A text as concepts: `codes` (one character per word), where each came from, and which concepts may occur."""

    __slots__ = ("_by_bit", "_by_mask", "codes", "index", "lexicon", "places", "present")

    def __init__(
        self,
        lexicon: Lexicon,
        codes: str,
        index: Index,
        present: int,
        places: Places | None = None,
    ) -> None:
        self.lexicon = lexicon
        self.places = places
        # Where every third "word" is a sentence end, the ends are a disguise and say nothing.
        if codes.count(BOUNDARY) * 3 > len(codes):
            index.leave_out(codes, BOUNDARY)
            codes = codes.replace(BOUNDARY, "")
        self.codes = codes
        self.index = index
        self.present = present
        self._by_bit: dict[int, list[int]] = {}
        self._by_mask: dict[int, list[int]] = {}

    def positions(self, concepts: int) -> list[int]:
        """Where any of `concepts` stands, in order; worked out once, because many rules name the same."""
        found = self._by_mask.get(concepts)
        if found is None:
            if not self._by_bit:
                self._sort_by_concept()
            lists = [self._by_bit[each] for each in bits_of(concepts & self.present) if each in self._by_bit]
            found = lists[0] if len(lists) == 1 else sorted(set().union(*lists))
            self._by_mask[concepts] = found
        return found

    def _sort_by_concept(self) -> None:
        codes = self.codes
        by_code: dict[str, list[int]] = {}
        if codes.count(UNKNOWN) * 4 > len(codes) * 3:  # then it is quicker to look for those that mean something
            by_code = {code: list(_places_of(code, codes)) for code in set(codes) - {UNKNOWN}}
        else:
            for place, code in enumerate(codes):
                if code != UNKNOWN:
                    by_code.setdefault(code, []).append(place)
        for code, places in by_code.items():
            for each in bits_of(self.lexicon.mask_behind(code)):
                self._by_bit.setdefault(each, []).extend(places)
        for places in self._by_bit.values():
            places.sort()

    def holds(self, start: int, end: int, concepts: int) -> bool:
        """Whether any word between two places means one of `concepts`."""
        meaning = self.lexicon.mask_behind
        return any(meaning(code) & concepts for code in set(self.codes[start:end]))


def _places_of(code: str, codes: str) -> Iterator[int]:
    place = codes.find(code)
    while place >= 0:
        yield place
        place = codes.find(code, place + 1)


def _unjoined(words: int, joined: Iterable[tuple[int, int]]) -> list[int]:
    """The places of all `words` but those inside phrases, which have one code."""
    every: list[int] = []
    done = 0
    for start, end in joined:
        every += range(done, start + 1)
        done = end
    return [*every, *range(done, words)]


def bits_of(mask: int) -> Iterator[int]:
    """Each concept of a set by itself."""
    while mask:
        lowest = mask & -mask
        yield lowest
        mask ^= lowest


def concept_mask(alternatives: str) -> int:
    mask = 0
    for concept in alternatives.split("|"):
        if concept not in _bits:
            raise ScannerUnavailable(
                f"threat rules name the concept {concept!r}, which no lexicon defines; mend the rule"
            )
        mask |= _bits[concept]
    return mask


def _phrase_at(
    tokens: list[str], position: int, seconds: Mapping[str, list[tuple[list[str], int]]], second: str
) -> tuple[int, int]:
    """How many words the phrase that begins here has, and what it means; none is (0, 0)."""
    for rest, mask in seconds.get(second, ()):
        if not rest or _continues(tokens[position + 2 : position + 2 + len(rest)], rest):
            return 2 + len(rest), mask
    for rest, mask in seconds.get("*", ()):
        if _continues(tokens[position + 1 : position + 1 + len(rest)], rest):
            return 1 + len(rest), mask
    return 0, 0


def _longest_first(ending: tuple[list[str], int]) -> int:
    return -len(ending[0])


def _continues(tokens: Sequence[str], rest: Sequence[str]) -> bool:
    if tokens == rest:
        return True
    stem = rest[-1]
    return (
        stem[-1] == "*" and len(tokens) == len(rest) and tokens[:-1] == rest[:-1] and tokens[-1].startswith(stem[:-1])
    )
