"""Whether a text says what a person said: that need not wait because of a page that was read earlier.

Errs on the side of "no": names, numbers and addresses must all be the person's, and most of the other words.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hermes.curation.wording import SMALL_WORDS, is_name, stem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_WORD = re.compile(r"[^\W_]+")
_EDGES = ".,;:!?()[]{}'\"`*\u2018\u2019\u201c\u201d\u2026"
_ENDS_SENTENCE = (".", "!", "?")
_BEGINNING = 4  # letters that two forms of a word share
_SHORTEST = 3
_SHARE = 0.6
# What a note about a person is framed with; it tells nothing.
_FRAMING = (
    "prefer prefers preferred like likes want wants use uses using name named called said says asked told note notes "
    "remember always never should must not when who works lives"
)
_FRAME = frozenset(_FRAMING.split())
_WITHOUT_BLANKS = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def is_said(text: str, said: Sequence[str]) -> bool:
    """Whether `text` is made of the words of a person who said `said`."""
    spoken = {form for each in said for word, _ in _words(each) for form in (word, stem(word), word[:_BEGINNING])}
    words = dict(_words(text))
    if any(stem(word) not in spoken for word, is_exact in words.items() if is_exact):
        return False
    telling = [word for word in words if word not in _FRAME]
    return sum(word[:_BEGINNING] in spoken for word in telling) >= _SHARE * len(telling)


def _words(text: str) -> Iterator[tuple[str, bool]]:
    """Each word that tells something, and whether it is of a name, of which nothing may be different."""
    begins = True
    for token in text.split():
        plain = token.strip(_EDGES)
        exact = is_name(plain) or (plain[:1].isupper() and not begins)
        begins = token.endswith(_ENDS_SENTENCE)
        for word in _WORD.findall(plain.casefold()):
            if _WITHOUT_BLANKS.search(word):
                yield from ((word[at : at + 2], False) for at in range(max(len(word) - 1, 1)))
            elif word not in SMALL_WORDS and (exact or len(word) >= _SHORTEST):
                yield word, exact
