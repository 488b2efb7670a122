"""A text whose encodings were undone, and the way back from what it says to what stands there."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from itertools import accumulate

from hermes.safety.surroundings import LONG_TEXT, in_parts, spans_around
from hermes.safety.two_meanings import is_known, with_names, with_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

LETTER_SPACING = "letter spacing"
SEAM = "\0\1\0!\n\n"  # between parts that are read as one text: what no encoding is made of, and the end of a sentence
_OF_WORDS = frozenset({"hyphenation", "ascii85"})  # what is undone are words, or may be any
_OF_LETTERS = frozenset({"base64", "base32", "punycode"})  # it may be
_OF_SIGNS = frozenset({"hex", "character codes", "unicode escapes"})  # hardly, but an address or a short word may be
_OF_HEX_DIGITS = frozenset({"hex", "url escapes", "quoted printable"})  # which words begin or end with, too
_FEWEST_APART = 100  # characters from one place to the next; where they are nearer, all of the text is around them
_NEAR = 100  # characters, and on to the next space
_PARTING = 4  # words; fewer part a sentence no more than as many plain ones would
_SPACE_OR_SIGN = re.compile(r"[\s.]")
_ADDRESS_BEFORE = re.compile(r"(?:@|\w\.|//)\Z")
_ADDRESS_BEHIND = re.compile(r"@|\.\w")
_CHANGED = re.compile("xx*")  # which is searched for ten times as fast as "x+"
_LETTERS = re.compile(r"[^\W\d_]+")
_LONGEST_WORD = 20


class Decoded:
    """A text with its encodings undone layer by layer: their names, and where each part of it stood in the text itself.

    `other_readings` are what else it may mean: what was undone but says something as it stands, too, and the words
    around something encoded as if that were not there. `letter_by_letter` is a text that was written so.
    """

    __slots__ = ("_changes", "_steps", "letter_by_letter", "other_readings", "text", "used")

    def __init__(self, text: str) -> None:
        self.text = text
        self.used: list[str] = []
        self.other_readings: list[Decoded] = []
        self.letter_by_letter: list[Decoded] = []
        self._steps: list[_Step] = []
        self._changes: tuple[int, int, list[tuple[int, int]]] = (0, 0, [])  # from and up to which step, and where

    def replace(self, name: str, before: list[str], after: list[str]) -> None:
        """`before` are all parts of the text in order, and `after` is what each has become."""
        step = _Step(before, after)
        self._keep_what_has_two_meanings(name, step)
        self._take(step, [name])

    def replace_near_changes(self, before: list[str], inner: Decoded, after: list[str]) -> None:
        """A deeper layer was undone, in every second part of the text by itself."""
        self.other_readings += inner.other_readings
        self.letter_by_letter += inner.letter_by_letter
        self._take(_Step(before, after), inner.used)

    def every_second(self, parts: list[str]) -> Decoded:
        """A text of every second one of these parts of it."""
        after = [SEAM] * len(parts)
        after[1::2] = parts[1::2]
        after[0] = after[-1] = ""
        return self._read_as(parts, after)

    def _read_as(self, before: list[str], after: list[str], *, sets_aside: bool = False) -> Decoded:
        other = Decoded(self.text)
        other.used, other._steps = self.used[:], self._steps[:]
        other._take(_Step(before, after, sets_aside=sets_aside), [])
        return other

    def _take(self, step: _Step, names: list[str]) -> None:
        self.used += [name for name in names if name not in self.used]
        self._steps.append(step)
        self.text = "".join(step.after)

    def _keep_what_has_two_meanings(self, name: str, step: _Step) -> None:
        if name == LETTER_SPACING:
            self.letter_by_letter.append(self._read_as([self.text], [self.text]))
            return
        meant: set[str] = set()
        if name in _OF_WORDS:
            meant |= step.changed().keys()
        elif name in _OF_LETTERS:
            meant |= with_words(step.changed())
        elif name in _OF_SIGNS:
            meant |= with_names(step.changed())
        if name in _OF_HEX_DIGITS:
            meant |= {piece for piece, word in step.words_cut() if is_known(word)}
        if meant:
            self.other_readings.append(self.around(step.places_before(meant)))

    def around(self, places: list[tuple[int, int]]) -> Decoded:
        """The text as it is now around some places."""
        return self.every_second(in_parts(self.text, spans_around(self.text, places)))

    def keep_what_reads_on(self, layer: int) -> None:
        """Keeps what the text says if nothing stood where several words were decoded from this step on.

        Else a sentence could be hidden by something encoded in its midst, and an address by what is a part of it.
        """
        if not any(step.may_part_others() for step in self._steps[layer:]):
            return
        text = self.text
        self._changes = layer, self.steps(), self.changed_since(layer)
        places = [
            (start, end)
            for start, end in self._changes[2]
            if len(text[start:end].split(None, _PARTING)) >= _PARTING or _splits_an_address(text, start, end)
        ]
        if places:
            parts = in_parts(text, places)
            after = parts[:]
            after[1::2] = [_instead(text, *place) for place in places]
            bare = self._read_as(parts, after, sets_aside=True)
            if any(map(str.isalnum, bare.text)):
                self.other_readings.append(bare.around(bare.changed_since(self.steps())))

    def changed_since(self, layer: int) -> list[tuple[int, int]]:
        """Where that stands which was undone from this step on."""
        first, last, known = self._changes
        if (first, last) == (layer, self.steps()):
            return known
        changes = ""
        for step in self._steps[layer:]:
            changes = step.carry(changes)
        return [found.span() for found in _CHANGED.finditer(changes)]

    def origin(self, start: int, end: int) -> tuple[int, int, bool]:
        """Where a part of the decoded text stands in the text itself, and whether any word of it was encoded."""
        return self._traced(start, end, self.steps())

    def _traced(self, start: int, end: int, after: int) -> tuple[int, int, bool]:
        """The same for the text as it was after so many steps."""
        was_encoded = False
        for at in reversed(range(after)):
            step = self._steps[at]
            if step.sets_aside and (kept := list(step.kept(start, end))):
                traced = [self._traced(*part, at) for part in kept]
                return traced[0][0], traced[-1][1], was_encoded or any(encoded for *_, encoded in traced)
            was_encoded = was_encoded or step.changes_words(start, end)
            start, end = step.origin(start, end)
        return start, end, was_encoded

    def near_changes(self, layer: int) -> list[str] | None:
        """The text in parts, every second one near to what was undone from this step on; None when they are many."""
        text = self.text
        if len(text) < LONG_TEXT:
            return None
        places = self.changed_since(layer)
        if len(places) * _FEWEST_APART > len(text):
            return None
        parts: list[str] = []
        done = 0
        for start, end in places:
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


def _splits_an_address(text: str, start: int, end: int) -> bool:
    if text[end : end + 1] not in "@." and text[start - 1 : start] not in "@./":
        return False
    return bool(_ADDRESS_BEHIND.match(text, end) or _ADDRESS_BEFORE.search(text, max(0, start - 2), start))


class _Step:
    """The parts of a text before and after one encoding was undone, or what it said was set aside."""

    __slots__ = ("_before", "_ends_after", "_ends_before", "after", "sets_aside")

    def __init__(self, before: list[str], after: list[str], *, sets_aside: bool = False) -> None:
        self._before, self.after, self.sets_aside = before, after, sets_aside
        self._ends_before: list[int] = []
        self._ends_after: list[int] = []

    def changed(self) -> dict[str, str]:
        """What each part has become that is not what it was."""
        return {part: became for part, became in zip(self._before, self.after, strict=True) if part != became}

    def places_before(self, meant: Collection[str]) -> list[tuple[int, int]]:
        """Where the parts stood that are among those `meant`."""
        ends = accumulate(map(len, self._before))
        return [(end - len(part), end) for end, part in zip(ends, self._before, strict=True) if part in meant]

    def words_cut(self) -> Iterator[tuple[str, str]]:
        """The parts that have changed of which two letters belonged to a word beside them, with that word."""
        pieces, became, beside = self._before[1::2], self.after[1::2], self._before[::2]
        for piece, new, left, right in zip(pieces, became, beside, beside[1:], strict=False):
            if right[:1].isalpha() and piece[-2:].isalpha() and not piece[-3].isalnum() and piece != new:
                yield piece, piece[-2:] + "".join(_LETTERS.findall(right[:_LONGEST_WORD])[:1])
            if left[-1:].isalpha() and piece[:2].isalpha() and not piece[2].isalnum() and piece != new:
                yield piece, "".join(_LETTERS.findall(left[-_LONGEST_WORD:])[-1:]) + piece[:2]

    def may_part_others(self) -> bool:
        """Whether anything that was decoded can be several words, or stand in an address."""
        became = set(self.after).difference(self._before)
        return _SPACE_OR_SIGN.search("".join(became)) is not None

    def carry(self, changes: str) -> str:
        """An "x" for each sign after the step that was changed by it or is one in `changes`, a "." for each other."""
        pairs = zip(self._before, self.after, strict=True)
        if not changes:
            return "".join(["." * len(part) if part == became else "x" * len(became) for part, became in pairs])
        ends = accumulate(map(len, self._before))
        return "".join(
            [
                changes[end - len(part) : end] if part == became else "x" * len(became)
                for (part, became), end in zip(pairs, ends, strict=True)
            ]
        )

    def changes_words(self, start: int, end: int) -> bool:
        """Whether there is a letter or digit in this part of the text after the step that was not there before."""
        ends = self._ends()[1]
        first, last = _parts_at(start, end, ends)
        for at in range(first, last + 1):
            became = self.after[at]
            if became != self._before[at]:
                begin = ends[at] - len(became)
                if any(map(str.isalnum, became[max(0, start - begin) : max(0, end - begin)])):
                    return True
        return False

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """Where a part of the text after the step stood before it."""
        before, after = self._ends()
        first, last = _parts_at(start, end, after)
        begins, stops = before[first - 1] if first else 0, before[last]
        if self._before[first] == self.after[first]:
            begins += start - (after[first - 1] if first else 0)
        if self._before[last] == self.after[last]:
            stops -= after[last] - end
        return begins, stops

    def kept(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Where those parts of a part of the text after the step stood before it that it left as they were."""
        before, after = self._ends()
        first, last = _parts_at(start, end, after)
        for at in range(first, last + 1):
            if self._before[at] == self.after[at] != "":
                moved = before[at] - after[at]
                yield max(start, after[at] - len(self.after[at])) + moved, min(end, after[at]) + moved

    def _ends(self) -> tuple[list[int], list[int]]:
        if not self._ends_after:  # hardly ever asked for, and then often
            self._ends_before = list(accumulate(map(len, self._before)))
            self._ends_after = list(accumulate(map(len, self.after)))
        return self._ends_before, self._ends_after


def _parts_at(start: int, end: int, ends: list[int]) -> tuple[int, int]:
    """The first and the last part that a stretch of text touches, by where each part ends."""
    first = min(bisect_right(ends, start), len(ends) - 1)
    return first, max(first, min(bisect_left(ends, end), len(ends) - 1))


def _instead(text: str, start: int, end: int) -> str:
    """What stands for something set aside: no word, but it may be part of an address."""
    return (" " if text[start - 1 : start].isalnum() else "") + "-" + (" " if text[end : end + 1].isalnum() else "")
