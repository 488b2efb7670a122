"""Words become concepts: a lexicon maps the words of one language to concept sets, one character per set.

A text is read as a string of such characters ("." for a word that means nothing here, "|" for the end of a sentence),
and a rule is a short pattern over concepts with bounded gaps. So vocabulary, languages and rules grow independently.
"""

from __future__ import annotations

import re

from hermes.vocabulary.errors import ScannerUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

UNKNOWN = "."
BOUNDARY = "|"
_FIRST_CODE = 0xB0  # codes below U+0100 let the pattern engine use a bitmap, most lexicons stay there or just above
_LOOSE_GAP = 3  # gaps up to this size may cross a sentence end: one word per line is a disguise, not grammar

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
        self._compiled: dict[str, re.Pattern[str]] = {}
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
            self._compiled.clear()  # a new code may belong to a concept that a compiled rule names
        return self._codes[mask]

    def meanings(self) -> list[int]:
        """Every set of concepts that a word or phrase can have."""
        return list(self._codes)

    def mask_behind(self, code: str) -> int:
        return self._meanings[code]

    def read(self, tokens: list[str], stemmed: Mapping[str, int] | None = None) -> Reading | None:
        """The concepts of `tokens` in order; None when there are none. `stemmed` adds what stems say about words."""
        by_word = {".": BOUNDARY, "!": BOUNDARY, "?": BOUNDARY, "\n": BOUNDARY}
        known = set(tokens)
        for word in known & self.masks.keys():
            by_word[word] = self.code(self.masks[word])
        for word, mask in (stemmed or {}).items():
            by_word[word] = self.code(mask | self.masks.get(word, 0))
        codes = [by_word.get(token, UNKNOWN) for token in tokens]
        index: Sequence[int] = range(len(codes))
        if not self.phrases.keys().isdisjoint(known):
            codes, index = self._read_phrases(tokens, codes)
        present = 0
        for code in set(codes):
            present |= self._meanings[code]
        return Reading(self, "".join(codes), index, present) if present else None

    def _read_phrases(self, tokens: list[str], codes: list[str]) -> tuple[list[str], Sequence[int]]:
        phrases = self.phrases
        joined: list[str] = []
        index: list[int] = []
        done = 0
        for position in [at for at, token in enumerate(tokens) if token in phrases]:
            if position < done:
                continue
            length, mask = self._phrase_at(tokens, position)
            if length:
                joined += codes[done:position]
                index += range(done, position + 1)
                joined.append(self.code(mask))
                done = position + length
        if not done:
            return codes, range(len(codes))
        return joined + codes[done:], [*index, *range(done, len(codes))]

    def _phrase_at(self, tokens: list[str], position: int) -> tuple[int, int]:
        seconds = self.phrases[tokens[position]]
        second = tokens[position + 1] if position + 1 < len(tokens) else ""
        for rest, mask in seconds.get(second, ()):
            if _continues(tokens[position + 2 : position + 2 + len(rest)], rest):
                return 2 + len(rest), mask
        for rest, mask in seconds.get("*", ()):
            if _continues(tokens[position + 1 : position + 1 + len(rest)], rest):
                return 1 + len(rest), mask
        return 0, 0

    def pattern(self, rule: str) -> re.Pattern[str]:
        """`rule` ("ignore 5 prior|all 3 instr", or "any 6: a b c" for every order) compiled for these codes."""
        if rule not in self._compiled:
            if rule.startswith("any "):
                head, _, body = rule.partition(": ")
                source = self._any_order(body.split(), int(head[4:]))
            else:
                source = self._in_order(rule.split())
            self._compiled[rule] = re.compile(source, re.DOTALL)
        return self._compiled[rule]

    def _in_order(self, parts: Sequence[str]) -> str:
        return "".join(self._between(part) if part[0].isdigit() else self._class(part) for part in parts)

    def _between(self, part: str) -> str:
        """A gap: "5" for up to five words, "5!header" for up to five words of which none is a header."""
        size, _, without = part.partition("!")
        if not without:
            return _gap(int(size))
        wanted = concept_mask(without)
        chars = "".join(code for mask, code in self._codes.items() if mask & wanted)
        return f"[^{re.escape(chars + BOUNDARY)}]{{0,{size}}}"

    def _any_order(self, concepts: Sequence[str], gap: int) -> str:
        from itertools import permutations

        between = _gap(gap)
        return "|".join(between.join(self._class(part) for part in order) for order in permutations(concepts))

    def _class(self, alternatives: str) -> str:
        wanted = concept_mask(alternatives)
        chars = "".join(code for mask, code in self._codes.items() if mask & wanted)
        return f"[{re.escape(chars)}]" if chars else "(?!)"


class Reading:
    """A text as concepts: `codes` (one character per word), where each came from, and which concepts occur at all."""

    __slots__ = ("codes", "index", "lexicon", "places", "present")

    def __init__(
        self,
        lexicon: Lexicon,
        codes: str,
        index: Sequence[int],
        present: int,
        places: Sequence[tuple[int, int, int]] | None = None,
    ) -> None:
        self.lexicon = lexicon
        self.places = places
        # Where every third "word" is a sentence end, the ends are a disguise and say nothing.
        if codes.count(BOUNDARY) * 3 > len(codes):
            kept = [position for position, code in enumerate(codes) if code != BOUNDARY]
            index = [index[position] for position in kept]
            codes = codes.replace(BOUNDARY, "")
        self.codes = codes
        self.index = index
        self.present = present

    def has_near(self, start: int, end: int, concepts: int, reach: int) -> bool:
        return any(
            self.lexicon.mask_behind(code) & concepts
            for code in set(self.codes[max(0, start - reach) : end + reach])
            if code not in (UNKNOWN, BOUNDARY)
        )


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


def _continues(tokens: Sequence[str], rest: Sequence[str]) -> bool:
    if tokens == rest:
        return True
    stem = rest[-1]
    return (
        stem[-1] == "*" and len(tokens) == len(rest) and tokens[:-1] == rest[:-1] and tokens[-1].startswith(stem[:-1])
    )


def _gap(size: int) -> str:
    return f".{{0,{size}}}" if size <= _LOOSE_GAP else f"[^{BOUNDARY}]{{0,{size}}}"
