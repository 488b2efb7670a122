"""Finds where the concepts of a rule stand in order, each near enough to the one before it.

A rule is `ignore 5 prior|all 3 instr` (at most five words, then at most three words between) or `any 6: a b c` for
every order. The places of a concept are one long number, a bit for each word of the text, so a step of a rule is a few
operations on such numbers, whatever the text: from the last step to the first, each keeps the places from which the
rest of the rule can be reached. Before that it is tried with a bit for each block of words, which is quicker and enough
to tell that most rules match nowhere. Nothing has to be compiled before it can be tried.
"""

from __future__ import annotations

from hermes.safety.lexicon import concept_mask
from hermes.safety.standing import BLOCK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hermes.safety.standing import Standing, Step


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


def spans(
    reading: Standing, orders: Sequence[Sequence[Step]], most: int, stretch: int | None = None
) -> Iterator[tuple[int, int]]:
    """Where the first `most` matches begin and end, by their beginnings; with `stretch`, in each so many words.

    Each is looked for when somebody asks for it.
    """
    if not _may_match(reading, orders):
        return
    stretch = stretch or len(reading.codes)
    if len(orders) == 1:
        yield from _spans_in_order(reading, orders[0], most, stretch)
        return
    tried: dict[int, int] = {}
    for start, end in sorted(span for steps in orders for span in _spans_in_order(reading, steps, most, stretch)):
        part = start // stretch
        tried[part] = tried.get(part, 0) + 1
        if tried[part] <= most:
            yield start, end


def _may_match(reading: Standing, orders: Sequence[Sequence[Step]]) -> bool:
    """Whether the blocks that the steps stand in are near enough to each other; those of most rules are not."""
    if len(orders) > 1:
        return _may_match_in_any_order(reading, orders[0])
    blocks_of, chain = reading.blocks_of, -1
    for concepts, gap, _ in reversed(orders[0]):
        chain &= blocks_of(concepts)
        if not chain:
            return False
        for _ in range(0, gap + 1, BLOCK):
            chain |= chain >> 1
    return True


def _may_match_in_any_order(reading: Standing, steps: Sequence[Step]) -> bool:
    chain = -1
    for concepts, gap, _ in steps:
        near = reading.blocks_of(concepts)
        for _ in range(0, (gap + 1) * (len(steps) - 1), BLOCK):
            near |= near >> 1
        chain &= near
    return chain != 0


def _spans_in_order(reading: Standing, steps: Sequence[Step], most: int, stretch: int) -> Iterator[tuple[int, int]]:
    chain = reading.places_of(steps[-1][0])
    chains = [chain]
    for number in range(len(steps) - 2, -1, -1):
        if not chain:
            return
        step = steps[number + 1]
        before = reading.before(chain, step[1], step[2]) if len(chains) > 1 else reading.before_last(step)
        chain = reading.places_of(steps[number][0]) & before
        chains.append(chain)
    chains.reverse()
    tried = behind = 0
    while chain:
        start = end = _first(chain)
        if start >= behind:  # of the stretch of words that the matches so far begin in
            tried, behind = 0, (start // stretch + 1) * stretch
        if tried == most:
            chain = chain >> behind << behind
            continue
        tried += 1
        for places in chains[1:]:
            end += 1 + _first(places >> (end + 1))
        yield start, end + 1
        chain ^= 1 << start


def _first(places: int) -> int:
    return (places & -places).bit_length() - 1
