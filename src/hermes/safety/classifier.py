"""Weighs how much the wording and the concepts of a passage speak for an attack."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate

from hermes.safety.fast_path import ENDS, STRETCH, pieces_of, weight_of_word, weights_of
from hermes.safety.lexicon import BOUNDARY, UNKNOWN, bits_of, known_bits
from hermes.safety.tables import compiled, load_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hermes.safety.lexicon import Reading

REACH = STRETCH // 2  # words on either side of a match
HEAVY = 100  # above, a stretch is asked about even if no rule matches
LIGHT = 200  # below, a rule that would refuse only asks
LEAST_TO_ASK = 100  # below, a rule that would only ask is silent
LEAST_TO_REFUSE = -200  # below, every rule is
HARMLESS = -200  # below, a sentence is so whatever a few light words in it match
_FEW = 8  # words of a sentence, with fewer than which it is judged by rules alone
_MANY_WORDS = 500  # of fewer all pieces are worked out at once
_LONG_WORD = 400  # letters; where there is a longer one, too
_AT_LEAST = 10  # parts are weighed by themselves
_LOOKED_AT = 130  # pieces in the time in which one part is weighed
_MEANINGLESS = frozenset((UNKNOWN, BOUNDARY))
START = "every stretch"  # the key of what each begins with
_loaded: list[tuple[int, dict[int, int]]] = []


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


class _Masks(dict[int, int]):
    """What sets of concepts weigh; each is worked out when it is first asked for."""

    def __missing__(self, mask: int) -> int:
        by_bit = weights()[1]
        weight = self[mask] = sum(by_bit.get(each, 0) for each in bits_of(mask))
        return weight


_by_mask = _Masks()


def weight_of_concepts(mask: int) -> int:
    return _by_mask[mask]


class Pieces:
    """The words of a text in the pieces that are weighed; worked out when asked for, once for all languages."""

    __slots__ = ("_asked", "_firsts", "_located", "_starts", "_text", "_weights", "tokens")

    def __init__(self, tokens: Sequence[str], text: str = "") -> None:
        self.tokens, self._text = tokens, text
        self._firsts: list[int] = []
        self._starts: list[int] = []
        self._located = 0  # characters of the text
        self._asked = 0
        self._weights: list[int] = []

    def weighed_often(self) -> bool:
        """Whether so many parts have been weighed that it is quicker to weigh every piece once."""
        self._asked += 1
        looked_at = self._asked * _LOOKED_AT
        # Most tokens have a piece, so for a few parts nobody needs to count them.
        return self._asked > _AT_LEAST and looked_at > len(self.tokens) // 2 and looked_at > self.firsts()[-1]

    def weights(self) -> list[int]:
        """What each piece weighs, by itself and behind the one before."""
        if not self._weights:
            every = [piece for token in self.tokens if token not in ENDS for piece in pieces_of(token)]
            self._weights = weights_of(every)
        return self._weights

    def firsts(self) -> list[int]:
        """The number of the first piece of each token, and behind them how many pieces there are."""
        if not self._firsts:
            # Most words are one piece, themselves; only the others are looked at one by one.
            others = {word: len(pieces_of(word)) for word in set(self.tokens) if not word.isascii()}
            others |= dict.fromkeys(ENDS, 0)
            self._firsts = list(accumulate([others.get(word, 1) for word in self.tokens], initial=0))
        return self._firsts

    def some(self, begin: int, stop: int) -> list[str]:
        """The pieces with these numbers."""
        firsts = self.firsts()
        found: list[str] = []
        for at in range(bisect_right(firsts, begin) - 1, len(self.tokens)):
            if firsts[at] >= stop:
                break
            if firsts[at] < firsts[at + 1]:  # else it ends a sentence
                found += pieces_of(self.tokens[at])[max(0, begin - firsts[at]) : stop - firsts[at]]
        return found

    def between(self, begin: int, end: int) -> tuple[int, Pieces]:
        """Some tokens by themselves, and how many stand before them; all of them, if a word has very many pieces."""
        if len(self.tokens) < _MANY_WORDS:
            return 0, self
        some = self.tokens[begin:end]
        return (0, self) if max(map(len, some), default=0) > _LONG_WORD else (begin, Pieces(some))

    def start_of(self, token: int) -> int:
        """Where a token begins in the text, or where that ends; an end of a sentence is behind the word before."""
        self._locate(token, -1)
        return self._starts[token]

    def token_at(self, place: int) -> int:
        """The last token that begins at a place of the text or before, else the first."""
        self._locate(-1, place)
        return max(0, bisect_right(self._starts, place, hi=min(len(self._starts), len(self.tokens))) - 1)

    def _locate(self, token: int, place: int) -> None:
        """Works out where tokens begin, no further than to a token and beyond a place: most matches stand early."""
        starts, tokens, text, at = self._starts, self.tokens, self._text, self._located
        for number in range(len(starts), len(tokens)):
            if number > token and starts and starts[-1] > place:
                break
            if tokens[number] in ENDS:  # it need not be the sign that ends the sentence
                starts.append(at)
                continue
            at = text.index(tokens[number], at)
            starts.append(at)
            at += len(tokens[number])
        else:
            if len(starts) == len(tokens):
                starts.append(len(text))
        self._located = at


class Scale:
    """One reading of a text with the words it was read from, to weigh any part of it."""

    __slots__ = ("_pieces", "_totals", "reading")

    def __init__(self, reading: Reading, pieces: Pieces) -> None:
        self.reading, self._pieces = reading, pieces
        self._totals: list[int] = []

    def around(self, start: int, end: int) -> int:
        """How heavy a match is, with as much of what stands around it as makes it heaviest: padding is no excuse.

        A sentence of few words has nothing that could speak for it, so there the rule is believed.
        """
        first, last = self._place_of(start), self._place_of(end - 1)
        if self._is_brief(first[0], last[0]):
            return LIGHT
        begin, stop = max(0, first[0] - REACH), min(len(self._pieces.tokens), last[0] + REACH + 1)
        sums, left, right = self._sums(first, last, begin, stop)
        return weights()[0] + max(sums[right:]) - min(sums[: left + 1])

    def of_sentence(self, start: int, end: int) -> int:
        """How heavy the sentence around a match is, all of it: in a long text there are heavy words about anything."""
        first, last = self._place_of(start), self._place_of(end - 1)
        sums, _, _ = self._sums(first, last, *self._sentence(first[0], last[0], REACH))
        return weights()[0] + sums[-1]

    def in_brief(self, start: int, end: int) -> bool:
        """Whether the sentence around a match has hardly more words than a rule needs."""
        return self._is_brief(self._place_of(start)[0], self._place_of(end - 1)[0])

    def _is_brief(self, first: int, last: int) -> bool:
        begin, stop = self._sentence(first, last, _FEW)
        few = stop - begin < _FEW
        return few and sum(len(pieces_of(token)) for token in self._pieces.tokens[begin:stop]) < _FEW

    def _sentence(self, first: int, last: int, reach: int) -> tuple[int, int]:
        """Where the sentence around these tokens begins and ends, or where it goes beyond as many others."""
        tokens = self._pieces.tokens
        begin = next((at + 1 for at in range(first, max(-1, first - reach), -1) if tokens[at] in ENDS), first - reach)
        end = next((at for at in range(last, min(len(tokens), last + reach)) if tokens[at] in ENDS), last + reach)
        return max(0, begin), min(len(tokens), end)

    def _sums(self, first: tuple[int, int], last: tuple[int, int], begin: int, stop: int) -> tuple[list[int], int, int]:
        """What the pieces of some tokens weigh one after the other, and where among them a match begins and ends."""
        often = self._pieces.weighed_often()
        before, part = (0, self._pieces) if often else self._pieces.between(begin, stop)
        firsts = part.firsts()
        left, right = firsts[first[0] - before] + first[1], firsts[last[0] - before] + last[1] + 1
        # A word may have any number of pieces, but no more than so many of them are looked at.
        bounds = max(firsts[begin - before], left - REACH), min(firsts[stop - before], right + REACH)
        first_pair = bounds[0] > firsts[begin - before]
        if often:
            sums = self._cut_out(*bounds, first_pair=first_pair)
        else:
            sums = list(accumulate(self._weigh(before, part, bounds, first_pair=first_pair), initial=0))
        return sums, left - bounds[0], right - bounds[0]

    def _cut_out(self, begin: int, stop: int, *, first_pair: bool) -> list[int]:
        """The same sums, from those of the whole text."""
        if not self._totals:
            self._totals = list(accumulate(self._weigh(0, self._pieces, (0, self._pieces.firsts()[-1])), initial=0))
        sums = self._totals[begin : stop + 1]
        # Without what the first one weighs for following another.
        taken = sums[0] + (
            0 if first_pair else self._pieces.weights()[begin] - weight_of_word(*self._pieces.some(begin, begin + 1))
        )
        return [0, *[total - taken for total in sums[1:]]]

    def heavy_stretch(self) -> tuple[int, int, int] | None:
        """The heaviest stretch if it is too heavy: where it begins and ends in the reading, and its concepts."""
        firsts = self._pieces.firsts()
        every = 0, firsts[-1]
        added = self._weigh(0, self._pieces, every)
        ends = {firsts[at] for at, token in enumerate(self._pieces.tokens) if token in ENDS}
        heaviest, first, last = _heaviest(added, sorted({0, *ends, len(added)}))
        if weights()[0] + heaviest <= HEAVY:
            return None
        inside = [position for position, piece in self._placed(0, self._pieces, every) if first <= piece < last]
        start, end = (inside[0], inside[-1] + 1) if inside else (0, len(self.reading.codes))
        mask = 0
        for code in set(self.reading.codes[start:end]):
            mask |= self.reading.lexicon.mask_behind(code)
        return start, end, mask

    def _weigh(self, before: int, part: Pieces, bounds: tuple[int, int], *, first_pair: bool = False) -> list[int]:
        """What each of some pieces weighs: itself, as a concept, and behind another, if need be even the first."""
        begin, stop = bounds
        if (begin, stop) == (0, part.firsts()[-1]):
            added = part.weights()[:]
        else:
            added = weights_of(part.some(begin - first_pair, stop))[first_pair:]
        codes, meaning = self.reading.codes, self.reading.lexicon.mask_behind
        for position, piece in self._placed(before, part, bounds):
            if begin <= piece < stop:
                added[piece - begin] += _by_mask[meaning(codes[position])]
        return added

    def _placed(self, before: int, part: Pieces, bounds: tuple[int, int]) -> Iterable[tuple[int, int]]:
        """Every code that stands for some of these pieces, perhaps one more on either side, and its piece.

        `part` are some of the tokens, behind `before` others.
        """
        reading, firsts = self.reading, part.firsts()
        # A token without pieces ends a sentence, and the one behind it has the same number.
        first, last = bisect_right(firsts, bounds[0]) - 1, bisect_left(firsts, bounds[1])
        if reading.places is None:
            words = reading.index.words()
            some = range(bisect_left(words, before + first), bisect_left(words, before + last))
            read = zip(some, words[some.start : some.stop], reading.codes[some.start : some.stop], strict=True)
            return [(position, firsts[word - before]) for position, word, code in read if code not in _MEANINGLESS]
        start = self._pieces.start_of(before + first) + bounds[0] - firsts[first]
        end = self._pieces.start_of(before + last) - (firsts[last] - bounds[1])
        return self._placed_in_text(before, firsts, reading.places.between(start, end))

    def _placed_in_text(
        self, before: int, firsts: Sequence[int], found: Iterable[tuple[int, int]]
    ) -> Iterator[tuple[int, int]]:
        for position, at in found:
            token, letter = self._token_at(at)
            yield position, firsts[token - before] + letter

    def _place_of(self, position: int) -> tuple[int, int]:
        """The token that a code stands for, and which letter of it if they count one by one."""
        if self.reading.places is None:
            return self.reading.index[position], 0
        return self._token_at(self.reading.places.span(position)[0])

    def _token_at(self, at: int) -> tuple[int, int]:
        """The token that stands at a place of the text, and which letter of it if they count one by one."""
        token = self._pieces.token_at(at)
        apart = len(pieces_of(self._pieces.tokens[token])) > 1
        return token, max(0, at - self._pieces.start_of(token)) if apart else 0


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
