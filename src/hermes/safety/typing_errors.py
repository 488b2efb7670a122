"""Finds the word that a misspelt one was meant to be: a letter is missing, too many or another, or two are swapped."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class Errors:
    """Words, to be found by a misspelling: an error touches two neighbours, so most of the word is as it should be."""

    def __init__(self, words: Iterable[str], real: frozenset[str]) -> None:
        self.words = frozenset(words)
        self.real = real
        # By both ends, for an error in the middle; by all but a few last letters; by all but a few first ones.
        self._framed: dict[str, list[str]] = {}
        self._headed: dict[str, list[str]] = {}
        self._tailed: dict[str, list[str]] = {}
        for word in self.words:
            self._framed.setdefault(word[:2] + word[-2:], []).append(word)
            for size in range(len(word) - 4, len(word) - 1):  # the error may have added a letter, or taken one
                self._headed.setdefault(word[:size], []).append(word)
                self._tailed.setdefault(word[-size:], []).append(word)

    def alike(self, unknown: Iterable[str]) -> list[str]:
        """Those that may be meant for a listed word, and are no words of their own."""
        framed, headed, tailed, real = self._framed, self._headed, self._tailed, self.real
        return [
            word
            for word in unknown
            if (word[:2] + word[-2:] in framed or word[:-3] in headed or word[3:] in tailed) and word not in real
        ]

    def correct(self, word: str) -> str:
        """The listed word that `word` is a typing error of, or an empty string."""
        if word in self.words:
            return word
        candidates = {
            *self._framed.get(word[:2] + word[-2:], ()),
            *self._headed.get(word[:-3], ()),
            *self._tailed.get(word[3:], ()),
        }
        meant = [right for right in candidates if one_error(right, word)]
        # Of several the one that begins alike, as a reader would take it.
        return min(meant, key=lambda right: (right[:3] != word[:3], right[-3:] != word[-3:], right), default="")


def one_error(right: str, wrong: str) -> bool:
    """True when one letter is missing, too many or another, or two neighbours are swapped."""
    if abs(len(right) - len(wrong)) > 1:
        return False
    first = 0
    for one, other in zip(right, wrong, strict=False):  # a plain loop: asked for every pair of words that are alike
        if one != other:
            break
        first += 1
    else:
        return len(right) != len(wrong)  # it is the last one
    if len(right) > len(wrong):
        return right[first + 1 :] == wrong[first:]
    if len(right) < len(wrong):
        return right[first:] == wrong[first + 1 :]
    swapped = right[first : first + 2] == wrong[first : first + 2][::-1]
    return right[first + 1 :] == wrong[first + 1 :] or (swapped and right[first + 2 :] == wrong[first + 2 :])
