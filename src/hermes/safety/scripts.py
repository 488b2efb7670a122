"""Reads scripts that inflect richly or write no spaces: their words are searched for inside the text."""

from __future__ import annotations

import re
import sys

from hermes.safety import atoms
from hermes.safety.lexicon import Lexicon, Reading, bit
from hermes.safety.places import Index, Places
from hermes.safety.surroundings import WIDEST_RULE, in_parts
from hermes.safety.tables import load_table
from hermes.safety.words import UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_WIDEST_GAP = 12
_UNREAD = "\0"  # which folding leaves nowhere
_CODING = "utf-32-le"


class ScriptLexicon(Lexicon):
    """A vocabulary whose words are told by their first two characters, which are compared as one number."""

    def __init__(self, name: str, files: Sequence[str]) -> None:
        from hermes.safety.unicode import fold

        super().__init__(name, [])
        words: dict[str, int] = {}
        for table in (*(load_table(f"{file}.txt") for file in files), atoms.CONCEPTS):
            for concept, listed in table.items():
                for word in listed.split():
                    plain = fold(word.replace("_", " ")) if table is not atoms.CONCEPTS else word
                    words[plain] = words.get(plain, 0) | bit(concept)
        lengths: dict[str, set[int]] = {}
        self.words: dict[str, str] = {}
        for word in words:
            lengths.setdefault(word[:2], set()).add(len(word))
            mask = 0
            for length in range(1, len(word) + 1):  # a short stem still counts inside a longer word
                mask |= words.get(word[:length], 0)
            self.words[word] = self.code(mask)
        self.lengths = {start: sorted(found, reverse=True) for start, found in lengths.items()}
        self.pairs = {_as_number(start): self.words[start] for start, found in lengths.items() if found == {2}}
        self.starts = frozenset(map(_as_number, lengths))
        self.singles = {word: code for word, code in self.words.items() if len(word) == 1}
        self._single = re.compile(f"[{re.escape(''.join(self.singles))}]")

    def search(self, text: Pairs, word_start: bool, spaced: bool) -> Reading | None:  # noqa: FBT001 - a row of a table
        """The words of this vocabulary in a text; `spaced` is whether spaces stand between words."""
        starts, ends, codes = self.words_in(text, word_start)
        if not codes:
            return None
        gaps: dict[str, str] = {}
        for at, (start, done) in enumerate(zip(starts, (0, *ends), strict=False)):
            if start > done:
                between = text.text[done:start]
                gap = gaps.get(between)
                if gap is None:
                    gap = gaps[between] = UNKNOWN * _gap(between, spaced=spaced)
                if spaced and not at and len(gap) < _WIDEST_GAP and not between[0].isspace():
                    gap += UNKNOWN  # what stands before the first word is whole words
                codes[at] = gap + codes[at]
        read = "".join(codes)
        present = 0
        for code in set(read):
            present |= self.mask_behind(code)
        return Reading(self, read, Index(lambda: list(range(len(read)))), present, Places(codes, starts, ends))

    def words_in(self, pairs: Pairs, word_start: bool) -> tuple[list[int], list[int], list[str]]:  # noqa: FBT001 - as above
        """Where the longest word at each place begins and ends, and its code; none inside another."""
        text, words, lengths, known, singles = pairs.text, self.words, self.lengths, self.pairs, self.singles
        numbers = pairs.numbers
        starts: list[int] = []
        ends: list[int] = []
        codes: list[str] = []
        done = 0
        for at in self._likely(pairs, word_start):
            if at < done:
                continue
            size, code = 2, known.get(numbers[at])
            if code is None:
                for size in lengths.get(text[at : at + 2], ()):
                    code = words.get(text[at : at + size])
                    if code is not None:
                        break
                else:
                    size, code = 1, singles.get(text[at])
                    if code is None:
                        continue
            done = at + size
            starts.append(at)
            ends.append(done)
            codes.append(code)
        return starts, ends, codes

    def _likely(self, pairs: Pairs, word_start: bool) -> list[int]:  # noqa: FBT001 - as above
        """Where a word may begin: anywhere, or only where no other word goes on."""
        numbers, starts = pairs.numbers, self.starts
        places = [at for at in pairs.likely if numbers[at] in starts]
        alone = [found.start() for span in pairs.spans for found in self._single.finditer(pairs.text, *span)]
        places = sorted([*places, *alone]) if alone else places
        if not word_start:
            return places
        before = " " + pairs.text
        return [at for at in places if not before[at].isalnum()]


class Pairs:
    """A text, each two neighbours of its characters as one number, and where any word of some vocabularies may begin.

    Most places are told from the beginning of a word once for all of these. Only some parts of the text are read.
    """

    __slots__ = ("likely", "numbers", "spans", "text")

    def __init__(self, text: str, vocabularies: Iterable[ScriptLexicon], spans: Sequence[tuple[int, int]]) -> None:
        parts = in_parts(text, spans)
        parts[::2] = [_UNREAD * len(part) for part in parts[::2]]
        self.text, self.spans = "".join(parts), spans
        starts = frozenset[int]().union(*(each.starts for each in vocabularies))
        self.numbers = [0] * len(text)  # the last character of a part has no neighbour
        self.likely: list[int] = []
        for start, end in spans:
            raw = memoryview(text[start:end].encode(_CODING, "surrogatepass"))
            for first in (0, 1):
                size = (end - start - first) // 2 * 8
                self.numbers[start + first : end - 1 : 2] = raw[4 * first : 4 * first + size].cast("Q").tolist()
            numbers = enumerate(self.numbers[start:end], start)
            self.likely += [at for at, number in numbers if number in starts]


def _as_number(pair: str) -> int:
    return int.from_bytes(pair.encode(_CODING), sys.byteorder)


def _gap(between: str, *, spaced: bool) -> int:
    """How many unknown words stand between two known ones; the rest of an inflected word is no word."""
    if _UNREAD in between:
        return WIDEST_RULE
    words = between.split()
    if not spaced:
        return min(_WIDEST_GAP, sum(map(len, words)) // 2)
    return min(_WIDEST_GAP, len(words) - (not between[0].isspace()))
