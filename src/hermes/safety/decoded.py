"""A text whose encodings were undone, and the way back from what it says to what stands there."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate

from hermes.safety.surroundings import LONG_TEXT, surroundings
from hermes.safety.two_meanings import with_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

LETTER_SPACING = "letter spacing"
_OF_WORDS = frozenset({"hyphenation", "ascii85"})  # what is undone are words, or may be any
_OF_LETTERS = frozenset({"base64", "base32", "punycode"})  # it may be
_FEWEST_APART = 100  # characters from one place to the next; where they are nearer, all of the text is around them
_NEAR = 200  # characters, and on to the next space


class Decoded:
    """A text with its encodings undone layer by layer: their names, and where each part of it stood in the text itself.

    `as_it_stood` is what was undone but says something as it stands, too, with the words around it, each with the
    encodings that had been undone before; `letter_by_letter` is a text that was written so.
    """

    __slots__ = ("_steps", "as_it_stood", "letter_by_letter", "text", "used")

    def __init__(self, text: str) -> None:
        self.text = text
        self.used: list[str] = []
        self.as_it_stood: list[tuple[str, list[str]]] = []
        self.letter_by_letter: list[tuple[str, list[str]]] = []
        self._steps: list[_Step] = []

    def replace(self, name: str, before: list[str], after: list[str]) -> None:
        """`before` are all parts of the text in order, and `after` is what each has become."""
        step = _Step(before, after)
        self._keep_what_has_two_meanings(name, step)
        self._take(step, [name])

    def replace_near_changes(self, before: list[str], inner: Decoded, after: list[str]) -> None:
        """A deeper layer was undone, in every second part of the text by itself."""
        self.as_it_stood += [(part, [*self.used, *used]) for part, used in inner.as_it_stood]
        self.letter_by_letter += [(part, [*self.used, *used]) for part, used in inner.letter_by_letter]
        self._take(_Step(before, after), inner.used)

    def _take(self, step: _Step, names: list[str]) -> None:
        self.used += [name for name in names if name not in self.used]
        self._steps.append(step)
        self.text = "".join(step.after)

    def _keep_what_has_two_meanings(self, name: str, step: _Step) -> None:
        if name == LETTER_SPACING:
            self.letter_by_letter.append((self.text, self.used[:]))
            return
        meant: Collection[str] = ()
        if name in _OF_WORDS:
            meant = step.changed()
        elif name in _OF_LETTERS:
            meant = with_words(step.changed())
        if meant:
            self.as_it_stood.append((surroundings(self.text, step.places_before(meant)), self.used[:]))

    def origin(self, start: int, end: int) -> tuple[int, int, bool]:
        """Where a part of the decoded text stands in the text itself, and whether any word of it was encoded."""
        was_encoded = False
        for step in reversed(self._steps):
            was_encoded = was_encoded or step.changes_words(start, end)
            start, end = step.origin(start, end)
        return start, end, was_encoded

    def near_changes(self, layer: int) -> list[str] | None:
        """The text in parts, every second one near to what was undone from this step on; None when they are many."""
        text = self.text
        if len(text) < LONG_TEXT:
            return None
        places: list[tuple[int, int]] = []
        for step in self._steps[layer:]:
            places = [*(step.destination(*place) for place in places), *step.places_after()]
            if len(places) * _FEWEST_APART > len(text):
                return None
        parts: list[str] = []
        done = 0
        for start, end in sorted(places):
            if end + _NEAR <= done:
                continue
            first = text.rfind(" ", done, max(done, start - _NEAR)) + 1 or done
            last = text.find(" ", end + _NEAR)
            last = last if last >= 0 else len(text)
            if parts and first <= done:
                parts[-1] += text[done:last]
            else:
                parts += text[done:first], text[first:last]
            done = last
        return [*parts, text[done:]]

    def steps(self) -> int:
        return len(self._steps)


class _Step:
    """The parts of a text before and after one encoding was undone."""

    __slots__ = ("_before", "_ends_after", "_ends_before", "after")

    def __init__(self, before: list[str], after: list[str]) -> None:
        self._before, self.after = before, after
        self._ends_before: list[int] = []
        self._ends_after: list[int] = []

    def changed(self) -> dict[str, str]:
        """What each part has become that is not what it was."""
        return {part: became for part, became in zip(self._before, self.after, strict=True) if part != became}

    def places_before(self, meant: Collection[str]) -> list[tuple[int, int]]:
        """Where the parts stood that are among those `meant`."""
        ends = accumulate(map(len, self._before))
        return [(end - len(part), end) for end, part in zip(ends, self._before, strict=True) if part in meant]

    def places_after(self) -> list[tuple[int, int]]:
        """Where that stands which the parts that have changed became."""
        ends = accumulate(map(len, self.after))
        parts = zip(ends, self._before, self.after, strict=True)
        return [(end - len(became), end) for end, part, became in parts if part != became]

    def changes_words(self, start: int, end: int) -> bool:
        before, after = self._before, self.after
        first, last = _parts_at(start, end, self._ends()[1])
        changed = [after[at] for at in range(first, last + 1) if before[at] != after[at]]
        return any(sign.isalnum() for part in changed for sign in part)

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """Where a part of the text after the step stood before it."""
        before, after = self._ends()
        return self._moved(start, end, after, before)

    def destination(self, start: int, end: int) -> tuple[int, int]:
        """Where a part of the text before the step stands after it."""
        before, after = self._ends()
        return self._moved(start, end, before, after)

    def _moved(self, start: int, end: int, ends: list[int], moved: list[int]) -> tuple[int, int]:
        first, last = _parts_at(start, end, ends)
        begins, stops = moved[first - 1] if first else 0, moved[last]
        if self._before[first] == self.after[first]:
            begins += start - (ends[first - 1] if first else 0)
        if self._before[last] == self.after[last]:
            stops -= ends[last] - end
        return begins, stops

    def _ends(self) -> tuple[list[int], list[int]]:
        if not self._ends_after:  # hardly ever asked for, and then often
            self._ends_before = list(accumulate(map(len, self._before)))
            self._ends_after = list(accumulate(map(len, self.after)))
        return self._ends_before, self._ends_after


def _parts_at(start: int, end: int, ends: list[int]) -> tuple[int, int]:
    """The first and the last part that a stretch of text touches, by where each part ends."""
    first = min(bisect_right(ends, start), len(ends) - 1)
    return first, max(first, min(bisect_left(ends, end), len(ends) - 1))
