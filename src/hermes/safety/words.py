"""The words of a text as every language looks them up: which there are, and where those stand that somebody knows."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

UNKNOWN = "."
BOUNDARY = "|"
BETWEEN = 31  # words each way; twice that is more than any rule spans
_MANY_WORDS = 1_000
ENDS = frozenset(".!?\n")  # the tokens that end a sentence


def most_apart(words: int) -> int:
    """How many words of so many can mean something, and yet most of a long text lies between them."""
    return words // (4 * BETWEEN) if words > _MANY_WORDS else 0


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

    def places_of(self, words: Iterable[str]) -> list[int]:
        """Where any of these stands, in order."""
        return sorted([place for word in words for place in self._where[word]])

    def are_few(self, meant: Iterable[str]) -> bool:
        """Whether words stand so far from each other in a long text that most of it lies between them."""
        most = most_apart(len(self.tokens))
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
            if self.known.isdisjoint(ENDS):
                self._blank = [UNKNOWN] * len(self.tokens)
            else:
                self._blank = [BOUNDARY if token in ENDS else UNKNOWN for token in self.tokens]
        return self._blank[:]
