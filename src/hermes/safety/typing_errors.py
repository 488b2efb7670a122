"""Finds the word that a misspelt one was meant to be: a letter is missing, too many or another, or two are swapped."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class Errors:
    """Words, to be found by a misspelling: an error touches two neighbours, so some end is as it should be."""

    def __init__(self, words: Iterable[str], real: frozenset[str]) -> None:
        self.words = frozenset(words)
        self.real = real
        # By their beginning, by their end, and by a little of both, which two letters swapped in the middle leave.
        self._starting: dict[str, list[str]] = {}
        self._ending: dict[str, list[str]] = {}
        self._framed: dict[str, list[str]] = {}
        for word in sorted(self.words):
            self._starting.setdefault(word[:3], []).append(word)
            self._ending.setdefault(word[-3:], []).append(word)
            self._framed.setdefault(word[:2] + word[-2:], []).append(word)

    def alike(self, unknown: Iterable[str]) -> list[str]:
        """Those that share an end with a listed word, and are no words of their own."""
        starting, ending, framed, real = self._starting, self._ending, self._framed, self.real
        return [
            word
            for word in unknown
            if (word[:3] in starting or word[-3:] in ending or word[:2] + word[-2:] in framed) and word not in real
        ]

    def correct(self, word: str) -> str:
        """The listed word that `word` is a typing error of, or an empty string."""
        if word in self.words:
            return word
        size = len(word)
        first, last, beginning, end = word[:2], word[-2:], word[: size - 3], word[3 - size :]
        # One error does not touch both ends, which is quicker to see than where it is.
        for right in self._starting.get(word[:3], ()):
            if (right[-2:] == last or right.startswith(beginning)) and one_error(right, word):
                return right
        for right in self._ending.get(word[-3:], ()):
            if (right[:2] == first or right.endswith(end)) and one_error(right, word):
                return right
        return next((right for right in self._framed.get(first + last, ()) if one_error(right, word)), "")


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
