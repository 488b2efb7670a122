"""Weighs the concepts of a stretch of text together, because a new wording has the old ingredients in another order.

Rules name a few concepts and their order; a weight says how much more often a concept stands in attacks than in
harmless notes and documentation. Where no rule matches, a heavy stretch is worth a question, never a refusal; where a
rule would refuse, a light one makes it a question. The weights come from `bin/weigh-concepts`.
"""

from __future__ import annotations

from hermes.safety.lexicon import BOUNDARY, UNKNOWN, bits_of, known_bits
from hermes.safety.tables import compiled, load_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes.safety.lexicon import Reading

STRETCH = 40  # words that are weighed together: an entry, or a few sentences of a longer text
HEAVY = 90  # in hundredths of the logarithm of the odds, as all weights
HEAVY_ELSEWHERE = 120  # in languages of which there are few harmless examples to learn from
LIGHT = 40  # below, a rule that would refuse only asks
FEATHERY = -100  # below, a rule about concepts in any order is silent
LEAST_TO_ASK = -250  # below, any rule that would only ask is silent
LEAST_TO_REFUSE = -400  # below, every rule is
_FEWEST = 2  # words with a meaning that a heavy stretch has at least
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


def weigh(mask: int) -> int:
    """How heavy the concepts in `mask` are together."""
    total, by_bit = weights()
    return total + sum([by_bit.get(each, 0) for each in bits_of(mask)])


def _at_most(mask: int) -> int:
    """What no stretch with concepts of `mask` can be heavier than."""
    total, by_bit = weights()
    return total + sum(max(0, by_bit.get(each, 0)) for each in bits_of(mask))


def meaning(reading: Reading, start: int, end: int) -> int:
    """Every concept between two places of a reading."""
    mask = 0
    for code in set(reading.codes[start:end]):
        mask |= reading.lexicon.mask_behind(code)
    return mask


def weight_around(reading: Reading, start: int, end: int) -> int:
    """How heavy a match is with what stands around it, half a stretch each way."""
    return weigh(meaning(reading, max(0, start - STRETCH // 2), end + STRETCH // 2))


def heavy_stretch(reading: Reading) -> tuple[int, int, int] | None:
    """The first stretch that is heavier than harmless notes are: where it begins, where it ends, its concepts."""
    most = HEAVY if reading.lexicon.name == "english" else HEAVY_ELSEWHERE
    if _at_most(reading.present) <= most:
        return None
    codes = reading.codes
    for start, end in stretches(codes):
        if (
            min(end, len(codes)) - start - codes.count(UNKNOWN, start, end) - codes.count(BOUNDARY, start, end)
            < _FEWEST
        ):
            continue
        mask = meaning(reading, start, end)
        if weigh(mask) > most:
            return start, end, mask
    return None


def stretches(codes: str) -> Iterator[tuple[int, int]]:
    """Whole sentences as long as they fit together, longer ones in pieces."""
    start = 0
    while start < len(codes):
        end = start + STRETCH
        if end < len(codes):
            last = codes.rfind(BOUNDARY, start, end)
            end = last + 1 if last > start else end
        yield start, end
        start = end
