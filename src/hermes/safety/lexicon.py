"""Words become concepts: a lexicon maps the words of one language to concept sets, one character per set.

A text is read as a string of such characters ("." for a word that means nothing here, "|" for the end of a sentence),
and a rule is a short pattern over concepts with bounded gaps. So vocabulary, languages and rules grow independently.
"""

from __future__ import annotations

from itertools import compress, repeat

from hermes.safety.phrases import phrases_in
from hermes.safety.places import Index
from hermes.safety.standing import Standing
from hermes.safety.words import BETWEEN, BOUNDARY, ENDS, UNKNOWN, Words, most_apart
from hermes.vocabulary.errors import ScannerUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet
    from typing import Any

    from hermes.safety.places import Places

_FIRST_CODE = 0xB0
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
        self._code_of: dict[str, str] = {}
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
        return self._with_phrases("".join(codes), present, words.tokens, words.places_of(starts))

    def read_alone(self, tokens: list[str]) -> Reading | None:
        """The same for words that no other language reads: each is looked up where it stands."""
        if not self._code_of:
            ends = dict.fromkeys(ENDS, BOUNDARY)
            self._code_of = ends | {word: self.code(mask) for word, mask in self.masks.items()}
        read = "".join(map(self._code_of.get, tokens, repeat(UNKNOWN)))
        if len(read) - read.count(UNKNOWN) - read.count(BOUNDARY) <= most_apart(len(tokens)):
            words = Words(tokens)
            words.locate(self.masks, self.phrases)
            return self.read(words)
        present = 0
        for code in set(read):
            present |= self._meanings[code]
        starts = compress(range(len(tokens)), map(self.phrases.__contains__, tokens))
        return self._with_phrases(read, present, tokens, starts)

    def _with_phrases(self, read: str, present: int, tokens: list[str], starts: Iterable[int]) -> Reading | None:
        """What the words of a text mean one by one, and as phrases, which begin at `starts`."""
        pieces: list[str] = []
        done = 0
        joined: list[tuple[int, int]] = []
        for position, end, mask in phrases_in(tokens, starts, self.phrases):
            pieces += read[done:position], self.code(mask)
            done = end
            joined.append((position, end))
            present |= mask
        codes = "".join([*pieces, read[done:]])
        return Reading(self, codes, Index(lambda: _unjoined(len(tokens), joined)), present) if present else None

    def _read_few(self, words: Words, meanings: Mapping[str, int], starts: AbstractSet[str]) -> Reading | None:
        """A reading of a long text in which few words mean something: of what is between, as much as a rule spans."""
        meant: dict[int, tuple[int, int]] = {}
        for word, mask in meanings.items():
            for place in words.where(word):
                meant[place] = place + 1, mask
        for position, end, mask in phrases_in(words.tokens, words.places_of(starts), self.phrases):
            meant[position] = end, mask
        unread = words.unread_text()
        codes: list[str] = []
        spans: list[tuple[int, int]] = []  # of the words that each piece of the codes stands for
        done = present = 0
        for place in sorted(meant):
            if place < done:
                continue
            end, mask = meant[place]
            if place - done > 2 * BETWEEN:
                left, right = done + BETWEEN, place - BETWEEN
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
        codes.append(unread[done : done + BETWEEN])
        spans.append((done, done + BETWEEN))
        index = Index(lambda: [place for start, end in spans for place in range(start, min(end, len(words.tokens)))])
        return Reading(self, "".join(codes), index, present) if present else None


class Reading(Standing):
    """A text as concepts: `codes` (one character per word), where each came from, and which concepts may occur."""

    __slots__ = ("index", "lexicon", "places", "present")

    def __init__(
        self,
        lexicon: Lexicon,
        codes: str,
        index: Index,
        present: int,
        places: Places | None = None,
    ) -> None:
        # Where every third "word" is a sentence end, the ends are a disguise and say nothing.
        if codes.count(BOUNDARY) * 3 > len(codes):
            index.leave_out(codes, BOUNDARY)
            codes = codes.replace(BOUNDARY, "")
        super().__init__(codes, lexicon.mask_behind)
        self.lexicon = lexicon
        self.places = places
        self.index = index
        self.present = present

    def holds(self, start: int, end: int, concepts: int) -> bool:
        """Whether any word between two places means one of `concepts`."""
        meaning = self.lexicon.mask_behind
        return any(meaning(code) & concepts for code in set(self.codes[start:end]))


def _unjoined(words: int, joined: Iterable[tuple[int, int]]) -> list[int]:
    """The places of all `words` but those inside phrases, which have one code."""
    every: list[int] = []
    done = 0
    for start, end in joined:
        every += range(done, start + 1)
        done = end
    return [*every, *range(done, words)]


def concept_mask(alternatives: str) -> int:
    mask = 0
    for concept in alternatives.split("|"):
        if concept not in _bits:
            raise ScannerUnavailable(
                f"threat rules name the concept {concept!r}, which no lexicon defines; mend the rule"
            )
        mask |= _bits[concept]
    return mask


def _longest_first(ending: tuple[list[str], int]) -> int:
    return -len(ending[0])
