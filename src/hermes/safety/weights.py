"""Weighs a stretch of text: the concepts its words have and the wording itself, as far as both speak for an attack.

Rules name a few concepts and their order; a new wording has the old ingredients in another order, and a harmless note
has them among other words. Where no rule matches, a heavy stretch is worth a question, never a refusal; where a rule
matches, a light one makes it milder. The weights come from `bin/weigh-wordings`, in hundredths of the logarithm of the
odds: at 0 a stretch is as likely to be an attack as not, among the examples they were learned from.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate

from hermes.safety.lexicon import bits_of, known_bits
from hermes.safety.tables import compiled, load_table
from hermes.safety.wording import ENDS, STRETCH, pieces_of, weights_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes.safety.lexicon import Reading

REACH = STRETCH // 2  # words on either side of a match
HEAVY = 150  # above, a stretch is asked about even if no rule matches
LIGHT = 200  # below, a rule that would refuse only asks
LEAST_TO_ASK = 150  # below, a rule that would only ask is silent
LEAST_TO_REFUSE = 0  # below, every rule is
_FEW = 8  # words of a sentence, with fewer than which it is judged by rules alone
START = "every stretch"  # the key of what each begins with
_loaded: list[tuple[int, dict[int, int]]] = []
_by_mask: dict[int, int] = {}


def weights() -> tuple[int, dict[int, int]]:
    """What a stretch begins with, and the weight of each concept by its bit."""
    if not _loaded:
        _loaded.append(compiled("weights") or read_weights())
    return _loaded[0]


def read_weights() -> tuple[int, dict[int, int]]:
    table = load_table("weights.txt")
    bits = known_bits()
    start = int(table.pop(START))
    return start, {bits[concept]: int(weight) for concept, weight in table.items() if concept in bits}


def weight_of_concepts(mask: int) -> int:
    weight = _by_mask.get(mask)
    if weight is None:
        by_bit = weights()[1]
        weight = _by_mask[mask] = sum(by_bit.get(each, 0) for each in bits_of(mask))
    return weight


class Scale:
    """One reading of a text with the words it was read from, to weigh any part of it."""

    __slots__ = ("_places", "_text", "_tokens", "reading")

    def __init__(self, reading: Reading, tokens: Sequence[str], text: str = "") -> None:
        self.reading, self._tokens, self._text = reading, tokens, text
        self._places: list[tuple[int, int, int]] = []

    def around(self, start: int, end: int) -> int:
        """How heavy a match is, with as much of what stands around it as makes it heaviest: padding is no excuse.

        A sentence of few words has nothing that could speak for it, so there the rule is believed.
        """
        inside = [place for place in self._placed() if start <= place[0] < end]
        first, last = inside[0], inside[-1]
        if self._is_short(first[1], last[1]):
            return LIGHT
        begin = max(0, first[1] - REACH)
        added, firsts = self._weigh(begin, last[1] + REACH + 1)
        sums = list(accumulate(added, initial=0))
        left = firsts[first[1] - begin] + first[2]
        right = firsts[last[1] - begin] + last[2] + 1
        before = min(sums[max(0, left - REACH) : left + 1])
        return weights()[0] + max(sums[right : right + REACH + 1]) - before

    def _is_short(self, first: int, last: int) -> bool:
        """Whether the sentence around these tokens has hardly more words than a rule needs."""
        tokens = self._tokens
        begin = next((at + 1 for at in range(first, max(-1, first - _FEW), -1) if tokens[at] in ENDS), first - _FEW)
        end = next((at for at in range(last, min(len(tokens), last + _FEW)) if tokens[at] in ENDS), last + _FEW)
        return sum(len(pieces_of(token)) for token in tokens[max(0, begin) : end]) < _FEW

    def heavy_stretch(self) -> tuple[int, int, int] | None:
        """The heaviest stretch if it is too heavy: where it begins and ends in the reading, and its concepts."""
        added, firsts = self._weigh(0, len(self._tokens))
        ends = {firsts[at] for at, token in enumerate(self._tokens) if token in ENDS}
        heaviest, first, last = _heaviest(added, sorted({0, *ends, len(added)}))
        if weights()[0] + heaviest <= HEAVY:
            return None
        inside = [position for position, token, letter in self._placed() if first <= firsts[token] + letter < last]
        start, end = (inside[0], inside[-1] + 1) if inside else (0, len(self.reading.codes))
        mask = 0
        for code in set(self.reading.codes[start:end]):
            mask |= self.reading.lexicon.mask_behind(code)
        return start, end, mask

    def _weigh(self, begin: int, end: int) -> tuple[list[int], list[int]]:
        """What each piece of some tokens weighs, and the number of the first piece of each token."""
        pieces: list[str] = []
        firsts: list[int] = []
        for word in self._tokens[begin:end]:
            firsts.append(len(pieces))
            if word not in ENDS:
                pieces += pieces_of(word)
        added = list(weights_of(pieces))
        placed, meaning = self._placed(), self.reading.lexicon.mask_behind
        for at in range(bisect_left(placed, begin, key=_token_of), bisect_left(placed, end, key=_token_of)):
            position, token, letter = placed[at]
            added[firsts[token - begin] + letter] += weight_of_concepts(meaning(self.reading.codes[position]))
        return added, firsts

    def _placed(self) -> list[tuple[int, int, int]]:
        """Every code that means something: its place, its token, and which letter of that if they count one by one."""
        if not self._places:
            reading = self.reading
            if reading.places is None:
                meaning, index = reading.lexicon.mask_behind, reading.index
                self._places = [(at, index[at], 0) for at, code in enumerate(reading.codes) if meaning(code)]
            else:
                starts = self._starts()
                for position, at, _ in reading.places:
                    token = bisect_right(starts, at) - 1
                    apart = len(pieces_of(self._tokens[token])) > 1
                    self._places.append((position, token, at - starts[token] if apart else 0))
        return self._places

    def _starts(self) -> list[int]:
        """Where each token begins in the text: they stand in it one after the other."""
        starts, at = [], 0
        for token in self._tokens:
            at = self._text.index(token, at)
            starts.append(at)
            at += len(token)
        return starts


def _token_of(place: tuple[int, int, int]) -> int:
    return place[1]


def _heaviest(added: Sequence[int], bounds: Sequence[int]) -> tuple[int, int, int]:
    """The heaviest run of whole sentences that fits into a stretch; of a longer sentence, its heaviest stretch."""
    sums = list(accumulate(added, initial=0))
    candidates = [(0, 0, 0)]
    for at, first in enumerate(bounds[:-1]):
        following = bounds[at + 1]
        if following - first > STRETCH:
            candidates += [
                (sums[begin + STRETCH] - sums[begin], begin, begin + STRETCH)
                for begin in range(first, following - STRETCH + 1)
            ]
        for last in bounds[at + 1 :]:
            if last - first > STRETCH:
                break
            candidates.append((sums[last] - sums[first], first, last))
    return max(candidates)
