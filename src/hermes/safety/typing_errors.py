"""Finds the word that a misspelt one was meant to be: a letter is missing, too many or another, or two are swapped."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    _Spelling = tuple[str, int, int]  # a word, how many letters it has, and these as one number


class Errors:
    """Words, to be found by a misspelling: an error touches two neighbours, so most of the word is as it should be."""

    def __init__(self, words: Iterable[str], real: frozenset[str]) -> None:
        self.words = frozenset(words)
        self.real = real
        # By both ends, for an error in the middle; by all but a few last letters; by all but a few first ones.
        self._framed: dict[str, list[_Spelling]] = {}
        self._headed: dict[str, list[_Spelling]] = {}
        self._tailed: dict[str, list[_Spelling]] = {}
        for word in self.words:
            spelling = word, len(word), _as_number(word)
            self._framed.setdefault(word[:2] + word[-2:], []).append(spelling)
            for size in range(len(word) - 4, len(word) - 1):  # the error may have added a letter, or taken one
                self._headed.setdefault(word[:size], []).append(spelling)
                self._tailed.setdefault(word[-size:], []).append(spelling)

    def alike(self, unknown: Iterable[str]) -> list[str]:
        """Those that may be meant for a listed word, and are no words of their own."""
        framed, headed, tailed, real = self._framed, self._headed, self._tailed, self.real
        return [
            word
            for word in unknown
            if (word[:2] + word[-2:] in framed or word[:-3] in headed or word[3:] in tailed) and word not in real
        ]

    def correct(self, word: str) -> str:
        """The listed word that `word`, in letters of ASCII, is a typing error of, or an empty string."""
        if word in self.words:
            return word
        candidates = (
            *self._framed.get(word[:2] + word[-2:], ()),
            *self._headed.get(word[:-3], ()),
            *self._tailed.get(word[3:], ()),
        )
        size, wrong = len(word), _as_number(word)
        meant: list[str] = []
        for right, length, number in candidates:
            longer = length - size
            if -1 <= longer <= 1 and _one_error(number, wrong, longer):
                meant.append(right)
        if len(meant) < 2:  # noqa: PLR2004 - there is nothing to choose
            return meant[0] if meant else ""
        # Of several the one that begins alike, as a reader would take it.
        return min(meant, key=lambda right: (right[:3] != word[:3], right[-3:] != word[-3:], right))


def _as_number(word: str) -> int:
    """A word as one number, a byte for each letter, the first one lowest: two are compared all letters at once."""
    return int.from_bytes(word.encode(), "little")


def _one_error(right: int, wrong: int, longer: int) -> bool:
    """True when one letter is missing, too many or another, or two neighbours are swapped, and nothing else.

    `longer` is how many letters the right word has more.
    """
    differ = right ^ wrong
    same = (differ & -differ).bit_length() - 1 & -8  # bits of the letters before the first that differs
    right >>= same
    wrong >>= same
    if longer:
        return right >> 8 == wrong if longer > 0 else right == wrong >> 8
    if right >> 8 == wrong >> 8:
        return True
    return right >> 16 == wrong >> 16 and right & 0xFF == wrong >> 8 & 0xFF and right >> 8 & 0xFF == wrong & 0xFF
