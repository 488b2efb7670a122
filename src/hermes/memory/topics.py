"""Which words belong to one topic: "dentist" and "appointment", "refund" and "pay back".

`text/topics.txt` holds lines of related words under sections. The rarer a word is in it, the more it says. English,
with a few words of other languages that turn up in names of files and addresses.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

from hermes.base.values import value
from hermes.base.words import Words

if TYPE_CHECKING:
    from collections.abc import Iterable

_FILE = os.path.join(os.path.dirname(__file__), "text", "topics.txt")
_TYPICAL = 16  # words of a line; those of a longer line are less related


@value
class Touched:
    """The lines that a text touches, each with how clearly it does (0 to 1), and their sections."""

    lines: dict[int, float]
    sections: frozenset[str]


class Topics:
    """`text/topics.txt`, with its words stemmed as the index stems them."""

    def __init__(self) -> None:
        words, section = Words(), ""
        self._names: list[str] = []
        self._sections: list[str] = []
        self._weights: list[float] = []
        lines: dict[str, set[int]] = {}
        with open(_FILE, encoding="utf-8") as file:
            for line in file:
                if line[0] == "[":
                    section = line.strip("[]\n")
                elif line.strip() and line[0] != "#":
                    stems = {each[0] for word in line.split() if len(each := words.of(word)) == 1}
                    for stem in stems:
                        lines.setdefault(stem, set()).add(len(self._names))
                    self._names.append(line.split()[0])
                    self._sections.append(section)
                    self._weights.append(min(1.0, (_TYPICAL / len(stems)) ** 0.5))
        self._lines = {stem: tuple(sorted(each)) for stem, each in lines.items()}

    def touched(self, stems: Iterable[str]) -> Touched:
        """Finds the lines that these stems are in."""
        found: dict[int, float] = {}
        for stem in stems:
            for number in (numbers := self._lines.get(stem, ())):
                found[number] = max(found.get(number, 0.0), len(numbers) ** -0.5)
        return Touched(lines=found, sections=frozenset(self._sections[number] for number in found))

    def kinship(self, stem: str, touched: Touched) -> float:
        """How near a word is to a text, from 0 to 1 (a word that shares only one small line with it)."""
        return self._nearest(stem, touched)[0]

    def shared(self, stem: str, touched: Touched) -> str:
        """Names the line that a word and a text share; "" without one."""
        return self._nearest(stem, touched)[1]

    def is_in_a_section(self, stem: str, touched: Touched) -> bool:
        """Whether a line of the word is in a section that the text touches."""
        return any(self._sections[number] in touched.sections for number in self._lines.get(stem, ()))

    def _nearest(self, stem: str, touched: Touched) -> tuple[float, str]:
        numbers = self._lines.get(stem, ())
        near = [
            (touched.lines[each] * self._weights[each], self._names[each]) for each in numbers if each in touched.lines
        ]
        best, name = max(near, default=(0.0, ""))
        return best * len(numbers) ** -0.5 if best else 0.0, name


@cache
def topics() -> Topics:
    """Loads `text/topics.txt` once per process."""
    return Topics()
