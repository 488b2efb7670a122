"""Tells which encoded pieces of a text say something as they stand, too.

Base64 is letters, and with small and capital letters chosen for it a sentence without spaces can be made to decode to
something else. A model reads the sentence, so it is read here as well.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate

from hermes.safety import atoms, languages
from hermes.safety.known_words import STRONG_LENGTH, vocabulary
from hermes.safety.separators import LONGEST_WORD, telling_places
from hermes.safety.surroundings import places_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_LETTERS = re.compile(f"[a-z]{{{STRONG_LENGTH},}}")  # so many are hardly ever a word by chance
_ODD = re.compile(r"[^a-z\s]")
_FEW = 7  # one in so many
_IN_A_ROW = re.compile(f"[a-z]{{{LONGEST_WORD + 1},}}")
_SET_APART = re.compile("(?<![a-z0-9])(?:([a-z]{3,4})(?![a-z0-9])|([a-z]{2})[^a-z0-9]+(?=([a-z]{2,4})(?![a-z0-9])))")
_ENCODED = re.compile(r"[A-Za-z0-9+/=_\s-]+")
_NOT_BY_CHANCE = 16
_ATOM = re.compile("[\ue800-\ue8ff]")
_LEET = (("0134578", str.maketrans("0134578", "oieastb")), ("1", str.maketrans("0134578", "oleastb")))
_known: list[_Known] = []


def with_words(pieces: Mapping[str, str]) -> set[str]:
    """Those of `pieces` that hold a word as they stand: a long one, a short one set apart, or several in a row.

    Each comes with what it decodes to. Who chooses capitals so that it can be decoded at all gets signs, hardly ever
    words; what decodes to words was meant to, so it is no word in disguise.
    """
    odd = [piece for piece, text in pieces.items() if piece.startswith("xn--") or not _is_prose(text)]
    lines = _Lines(odd)
    found = lines.at(_telling(lines.text)) | with_names(odd)
    found |= lines.at(map(re.Match.start, _IN_A_ROW.finditer(lines.text)))
    for digits, letters in _LEET:
        lines = _Lines([piece for piece in odd if not piece.startswith("xn--") and not set(digits).isdisjoint(piece)])
        found |= lines.at(_telling(lines.text.translate(letters)))
    return found


def with_names(pieces: Iterable[str]) -> set[str]:
    """Those of `pieces` in which a short word is set apart from the rest, or an address stands, or a secret's name."""
    lines = _Lines(pieces)
    return lines.at(_set_apart(lines.text)) | lines.at(map(re.Match.start, _ATOM.finditer(atoms.mark(lines.text))))


def is_known(word: str) -> bool:
    return word.lower() in _known_words().words


class _Lines:
    """Many pieces as one text, in small letters, so that they are looked through at once."""

    __slots__ = ("_lines", "_starts", "text")

    def __init__(self, pieces: Iterable[str]) -> None:
        self._lines = list(pieces)
        self._starts = list(accumulate([len(line) + 3 for line in self._lines], initial=0))
        self.text = "\n1\n".join(self._lines).lower()

    def at(self, places: Iterable[int]) -> set[str]:
        """The pieces that stand there."""
        return {self._lines[bisect_right(self._starts, place) - 1] for place in places}


def _is_prose(text: str) -> bool:
    """Whether a text is small letters and spaces, but for some signs and the very first letter, or encoded again."""
    shown = text.strip()
    letters = shown.replace(" ", "")[1:]
    if letters.isalpha() and letters == letters.lower():
        return True
    if len(shown) > _NOT_BY_CHANCE and _ENCODED.fullmatch(shown):
        return True
    odd = _ODD.findall(shown[1:])
    if not shown.isascii():
        odd = [sign for sign in odd if sign.isupper() or not sign.isalpha()]
    return len(odd) * _FEW < len(shown)


def _set_apart(text: str) -> Iterator[int]:
    """Where a known word of three or four letters, or one of two before another, stands by itself."""
    words = _known_words().words
    for found in _SET_APART.finditer(text):
        alone, first, second = found.groups()
        if alone in words or (first in words and second in words):
            yield found.start()


def _telling(text: str) -> Iterator[int]:
    """Where words stand that somebody knows."""
    letters = set(_LETTERS.findall(text))
    stems = _known_words().stems
    long = (letters & _known_words().words) | {word for word in letters if word[:STRONG_LENGTH] in stems}
    yield from (start for start, _ in places_of(text, long, _LETTERS))
    words = vocabulary(languages.english().lexicon)
    for place in telling_places(text, words):
        for at in (place - 1, place):
            if any(text.startswith(word, at) for word in words.telling.get(text[at : at + STRONG_LENGTH], ())):
                yield at


def _known_words() -> _Known:
    if not _known:
        _known.append(_Known())
    return _known[0]


class _Known:
    """The words of all languages in Latin letters, ciphered ones too, and the first letters of their longer stems."""

    __slots__ = ("stems", "words")

    def __init__(self) -> None:
        english, others = languages.english().lexicon, languages.latin_languages()
        self.words = frozenset({*english.masks, *english.phrases, *others.exact, *vocabulary(english).ciphered})
        self.stems = frozenset(stem[:STRONG_LENGTH] for stem in others.stems if len(stem) >= STRONG_LENGTH)
