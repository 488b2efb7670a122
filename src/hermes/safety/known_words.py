"""What disguises are checked against: the words of a lexicon by their letters, the strong ones, and ciphers."""

from __future__ import annotations

import sys

from hermes.safety.lexicon import bit
from hermes.safety.tables import compiled, load_table
from hermes.safety.typing_errors import Errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hermes.safety.lexicon import Lexicon

STRONG_LENGTH = 5
LETTERS = "abcdefghijklmnopqrstuvwxyz"
_ROT13 = str.maketrans(LETTERS, "nopqrstuvwxyzabcdefghijklm")
_ATBASH = str.maketrans(LETTERS, "zyxwvutsrqponmlkjihgfedcba")
_SHORT_WORD = 2
_SHORT_LENGTHS = (3, 2)
_vocabularies: dict[str, Vocabulary] = {}


class Vocabulary:
    """What the disguises are checked against, worked out once per lexicon."""

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        self._segments: dict[str, tuple[int, ...]] = {}
        self.openings: dict[str, int] = {}
        self.telling: dict[str, list[str]] = {}
        self.inside: frozenset[int] = frozenset()
        self.words: frozenset[str] = frozenset()
        self._errors: list[Errors] = []
        tables = compiled("disguises")
        if tables is None:
            self._work_out()
        else:
            self.fillers, self.short, self.strong, self.ciphered = tables
            self.long = [word for word in self.strong if len(word) > STRONG_LENGTH]

    def _work_out(self) -> None:
        lexicon = self.lexicon
        wanted = 0
        tables = load_table("disguises.txt")
        for concept in tables["key_concepts"].split():
            wanted |= bit(concept)
        self.fillers = tables["fillers"].split()
        self.short = {*lexicon.masks, *lexicon.phrases, *self.fillers}
        self.strong = {
            word: mask
            for word, mask in lexicon.masks.items()
            if mask & wanted and len(word) >= STRONG_LENGTH and "'" not in word
        }
        self.long = [word for word in self.strong if len(word) > STRONG_LENGTH]
        self.ciphered = {
            form(word): name for name, form in CIPHERS for word in self.strong if form(word) not in lexicon.masks
        }

    def state(self) -> tuple[object, ...]:
        """What takes time to work out, as plain values for the compiled tables."""
        return self.fillers, self.short, self.strong, self.ciphered

    def segments(self) -> dict[str, tuple[int, ...]]:
        """The lengths that words of four letters and more have, by the first four.

        Beside it: `openings`, three letters that any word can begin with, each with the length of the short word in it,
        and `telling`, strong words by their first letters, of which `inside` has four, as numbers.
        """
        if not self._segments:
            words = {*self.lexicon.masks, *self.fillers, *self.lexicon.phrases}
            for seconds in self.lexicon.phrases.values():
                words.update(
                    part for second, endings in seconds.items() for rest, _ in endings for part in (second, *rest)
                )
            self.words = frozenset(word for word in words if len(word) > 1 and word.isascii())
            lengths: dict[str, set[int]] = {}
            for word in self.words:
                if len(word) > _SHORT_WORD + 1:
                    lengths.setdefault(word[:4], set()).add(len(word))
            self._segments = {start: tuple(sorted(found, reverse=True)) for start, found in lengths.items()}
            pairs = [word for word in self.words if len(word) == _SHORT_WORD]
            starts = {word[:3] for word in self.words} | {pair + letter for pair in pairs for letter in LETTERS}
            self.openings = {start: self._short_length(start) for start in starts}
            for word in self.strong:
                self.telling.setdefault(word[:STRONG_LENGTH], []).append(word)
            self.inside = _as_numbers(start[at : at + 4] for start in self.telling for at in (0, 1))
        return self._segments

    def _short_length(self, start: str) -> int:
        """How long the word of at most three letters is that `start` begins with; 0 when there is none."""
        return next((length for length in _SHORT_LENGTHS if len(start) >= length and start[:length] in self.words), 0)

    def covers(self, found: list[str]) -> bool:
        """True when `found` is a row of known words, most of its letters in words of some length."""
        self.segments()
        letters = short = unknown = 0
        for word in found:  # one plain loop: asked for every match among letters without spaces
            size = len(word)
            letters += size
            if size <= _SHORT_WORD:
                short += size
            if word not in self.words:
                unknown += size
        return unknown * 10 <= letters and short * 3 <= letters

    def strong_errors(self) -> Errors:
        if not self._errors:
            self._errors.append(Errors(self.long, self._real()))
        return self._errors[0]

    def all_errors(self) -> Errors:
        if len(self._errors) < 2:  # noqa: PLR2004 - the strong ones come first
            self.segments()
            every = {word for word in self.words if len(word) > STRONG_LENGTH}
            self._errors.append(Errors(every, self._real()))
        return self._errors[1]

    def _real(self) -> frozenset[str]:
        return frozenset(load_table("real_words.txt")["words"].split())


def _as_numbers(letters: Iterable[str]) -> frozenset[int]:
    return frozenset(int.from_bytes(each.encode(), sys.byteorder) for each in letters)


def vocabulary(lexicon: Lexicon) -> Vocabulary:
    if lexicon.name not in _vocabularies:
        _vocabularies[lexicon.name] = Vocabulary(lexicon)
    return _vocabularies[lexicon.name]


def _rot13(word: str) -> str:
    return word.translate(_ROT13)


def _atbash(word: str) -> str:
    return word.translate(_ATBASH)


def _backwards(word: str) -> str:
    return word[::-1]


CIPHERS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("rot13", _rot13),
    ("reversed", _backwards),
    ("atbash", _atbash),
)
