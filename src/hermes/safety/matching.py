"""Finds where the concepts of a rule stand in order, each near enough to the one before it.

A rule is `ignore 5 prior|all 3 instr` (at most five words, then at most three words between) or `any 6: a b c` for
every order. Each step keeps the places from which the rest of the rule can be reached, looking only at the nearest
place of the next step: whatever separates that one separates those further on. So a rule takes time in proportion to
the places of its concepts, whatever the text, and nothing has to be compiled before it can be tried.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from hermes.safety.lexicon import BOUNDARY, concept_mask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hermes.safety.lexicon import Reading

    Step = tuple[int, int, int]  # the concepts, the most words before them, the concepts that none of those may have

_BLOCK = 1_000  # words
_MANY_BLOCKS = 3
_LOOSE_GAP = 3  # gaps up to this size may cross a sentence end: one word per line is a disguise, not grammar


def orders_of(source: str) -> list[list[Step]]:
    """Every order of steps that a rule allows, as written in `lexicons/*.rules`."""
    if source.startswith("any "):
        from itertools import permutations

        head, _, body = source.partition(": ")
        masks = [concept_mask(part) for part in body.split()]
        return [[(mask, int(head[4:]), 0) for mask in order] for order in permutations(masks)]
    steps: list[Step] = []
    gap, without = "0", ""
    for part in source.split():
        if part[0].isdigit():
            gap, _, without = part.partition("!")
        else:
            steps.append((concept_mask(part), int(gap), concept_mask(without) if without else 0))
            gap, without = "0", ""
    return [steps]


def reach_of(orders: Sequence[Sequence[Step]]) -> int:
    """How many words a match spans at most."""
    return max(sum(gap + 1 for _, gap, _ in steps) for steps in orders)


def spans(reading: Reading, orders: Sequence[Sequence[Step]], reach: int, most: int) -> Iterator[tuple[int, int]]:
    """Where the first `most` matches begin and end, by their beginnings; a long text is looked at block by block."""
    left = most
    for first in _blocks(reading, [mask for mask, _, _ in orders[0]], reach):
        found = [span for steps in orders for span in _spans_in_order(reading, steps, (first, first + _BLOCK), reach)]
        yield from sorted(found)[:left] if len(orders) > 1 else found[:left]
        left -= len(found)
        if left <= 0:
            return


def _blocks(reading: Reading, masks: Sequence[int], reach: int) -> Iterable[int]:
    """Where the blocks begin in which a match may begin: near the concept that has the fewest places."""
    every = range(0, len(reading.codes), _BLOCK)
    if len(every) < _MANY_BLOCKS:
        return every
    fewest = min(map(reading.positions, masks), key=len)
    if len(fewest) > len(every):
        return every
    near = ((max(0, place - reach) // _BLOCK, place // _BLOCK) for place in fewest)
    return sorted({block * _BLOCK for first, last in near for block in range(first, last + 1)})


def _spans_in_order(
    reading: Reading, steps: Sequence[Step], block: tuple[int, int], reach: int
) -> list[tuple[int, int]]:
    """The matches that begin in `block`."""
    chains: list[list[int]] = []
    for mask, _, _ in steps:
        places = reading.positions(mask)
        if len(reading.codes) > _BLOCK:
            end = block[1] + (reach if chains else 0)
            places = places[bisect_left(places, block[0]) : bisect_left(places, end)]
        if not places:
            return []
        chains.append(places)
    for number in range(len(steps) - 2, -1, -1):
        _, gap, without = steps[number + 1]
        chains[number] = _reaching(reading, chains[number], chains[number + 1], gap, without)
        if not chains[number]:
            return []
    found = []
    for start in chains[0]:
        end = start
        for places in chains[1:]:
            end = places[bisect_right(places, end)]
        found.append((start, end + 1))
    return found


def _reaching(reading: Reading, places: list[int], behind: list[int], gap: int, without: int) -> list[int]:
    """Those of `places` from which the nearest of `behind` is not too far, and not behind the end of the sentence."""
    codes = reading.codes
    strict = bool(without) or (gap > _LOOSE_GAP and BOUNDARY in codes)
    found = []
    at, size = 0, len(behind)
    for place in places:
        while at < size and behind[at] <= place:
            at += 1
        if at == size:
            break
        following = behind[at]
        if following - place > gap + 1:
            continue
        if strict and codes.find(BOUNDARY, place + 1, following) >= 0:
            continue
        if without and reading.holds(place + 1, following, without):
            continue
        found.append(place)
    return found
