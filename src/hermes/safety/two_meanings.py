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
    from collections.abc import Iterator, Mapping

_LETTERS = re.compile(f"[a-z]{{{STRONG_LENGTH},}}")  # so many are hardly ever a word by chance
_IN_A_ROW = re.compile(f"[a-z]{{{LONGEST_WORD + 1},}}")
_ALMOST_ALL = (17, 20)
_SET_APART = re.compile("(?<![a-z0-9])([a-z]{2,4})[^a-z0-9]+(?=([a-z]{2,4})(?![a-z0-9]))")
_known: list[_Known] = []


def with_words(pieces: Mapping[str, str]) -> set[str]:
    """Those of `pieces` that hold a word as they stand: a long one, two short ones set apart, or several in a row.

    Each comes with what it decodes to; words in a row may decode to signs, but not to words.
    """
    lines = list(pieces)
    every = "\n1\n".join(lines).lower()  # looked through at once: a text may be full of them
    starts = list(accumulate([len(line) + 3 for line in lines], initial=0))
    found = {lines[bisect_right(starts, place) - 1] for place in _telling(every)}
    glued = {lines[bisect_right(starts, run.start()) - 1] for run in _IN_A_ROW.finditer(every)}
    found |= {line for line in glued if line.startswith("xn--") or not _is_prose(pieces[line])}
    if atoms.mark(every) != every:
        found |= {line for line in lines if atoms.mark(line.lower()) != line.lower()}
    return found


def _is_prose(text: str) -> bool:
    return (sum(map(str.isalpha, text)) + text.count(" ")) * _ALMOST_ALL[1] > len(text) * _ALMOST_ALL[0]


def _telling(text: str) -> Iterator[int]:
    """Where words stand that somebody knows."""
    if not _known:
        _known.append(_Known())
    letters = set(_LETTERS.findall(text))
    stems = _known[0].stems
    long = (letters & _known[0].words) | {word for word in letters if word[:STRONG_LENGTH] in stems}
    yield from (start for start, _ in places_of(text, long, _LETTERS))
    yield from (pair.start() for pair in _SET_APART.finditer(text) if _known[0].words.issuperset(pair.groups()))
    words = vocabulary(languages.english().lexicon)
    for place in telling_places(text, words):
        for at in (place - 1, place):
            if any(text.startswith(word, at) for word in words.telling.get(text[at : at + STRONG_LENGTH], ())):
                yield at


class _Known:
    """The words of all languages in Latin letters, and the first letters of their longer stems."""

    __slots__ = ("stems", "words")

    def __init__(self) -> None:
        english, others = languages.english().lexicon, languages.latin_languages()
        self.words = frozenset({*english.masks, *english.phrases, *others.exact})
        self.stems = frozenset(stem[:STRONG_LENGTH] for stem in others.stems if len(stem) >= STRONG_LENGTH)
