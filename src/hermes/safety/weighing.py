"""Works out what wordings and concepts weigh from examples: run by `bin/weigh-wordings`, never by a scan.

A logistic regression over words, their letters, pairs of words and concepts, on the development corpora and on the
descriptions of the installed packages, which stand for everything harmless that nobody wrote for this purpose. What
tells attacks from the rest by itself may weigh more than what does not (each feature is scaled by the logarithm of its
odds), which is worth two points of detection.
"""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from hermes.safety import atoms, languages
from hermes.safety.lexicon import known_bits
from hermes.safety.standing import bits_of
from hermes.safety.tokens import words_of
from hermes.safety.unicode import fold
from hermes.safety.weights import START
from hermes.safety.wording import ENDS, PLACES, pair_feature, pieces_of, word_features

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Example = tuple[float, float, dict[int, float]]  # is it an attack, how much does it count, its features

_EPOCHS = 30
_RATE = 0.3
_SHRINKING = 3.0
_HARMLESS_COUNTS = 1.0
_EVERYDAY_COUNTS = 2.0  # a plain fact or a preference must pass; a note that looks like an attack may be asked about
_DOCUMENTATION_COUNTS = 1.0
_MOST_PARAGRAPHS = 2_500
_SHORTEST, _LONGEST = 40, 400  # characters of a paragraph worth learning from
_FEWEST_TEXTS = 2  # that a feature is in, to be worth anything
_MEANINGLESS = 3  # hundredths
_MOST = 127  # hundredths that a byte has room for


def weigh(attacks: Iterable[str], harmless: Iterable[tuple[str, str]]) -> tuple[list[str], bytes]:
    """The lines of `weights.txt` and the table of wordings, from attacks and from harmless texts with their kinds."""
    examples = [
        *((1.0, 1.0, features(text)) for text in attacks),
        *((0.0, _importance(kind), features(text)) for text, kind in harmless),
        *((0.0, _DOCUMENTATION_COUNTS, features(text)) for text in _documentation()),
    ]
    start, weights = _fit(examples)
    names = list(known_bits())
    concepts = {names[place - PLACES]: round(100 * weight) for place, weight in weights.items() if place >= PLACES}
    lines = [
        "# How much each concept speaks for an attack, in hundredths; made by bin/weigh-wordings, not by hand.",
        f"{START}: {round(100 * start)}",
        *(f"{name}: {concepts[name]}" for name in names if abs(concepts.get(name, 0)) >= _MEANINGLESS),
    ]
    table = bytearray(PLACES)
    for place, weight in weights.items():
        if place < PLACES:
            table[place] = max(-_MOST, min(_MOST, round(100 * weight))) & 0xFF
    return lines, bytes(table)


def read_examples(paths: Iterable[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Attacks, and harmless texts with their kinds, from files of JSON lines."""
    attacks, harmless = [], []
    for path in sorted(paths):
        with open(path, encoding="utf-8") as file:
            for row in map(json.loads, file):
                if "kind" in row:
                    harmless.append((row["text"], row["kind"]))
                else:
                    attacks.append(row["text"])
    return attacks, harmless


def features(text: str) -> dict[int, float]:
    """How often each feature is in a text: places in the table of wordings, and concepts behind them.

    A text that can be read in several languages has the concepts of the one that finds most.
    """
    folded = fold(text)
    marked = atoms.mark(folded)
    tokens = words_of(marked, in_ascii=folded.isascii())
    pieces = [piece for token in tokens if token not in ENDS for piece in pieces_of(token)]
    found = Counter(place for piece in pieces for place in word_features(piece))
    found.update(pair_feature(first, second) for first, second in pairwise(pieces))
    readings = [
        Counter(
            PLACES + each.bit_length() - 1
            for code in reading.codes
            for each in bits_of(reading.lexicon.mask_behind(code))
        )
        for reading, _ in languages.readings(text, marked, tokens)
    ]
    if readings:
        found.update(max(readings, key=lambda concepts: sum(concepts.values())))
    return dict(found)


def _fit(examples: list[Example]) -> tuple[float, dict[int, float]]:
    """Stochastic descent with a rate per feature, averaged over the second half, so that it depends on no luck."""
    scales = _scales(examples)
    rows = [
        (truth, counts, [(place, count * scales[place]) for place, count in found.items() if place in scales])
        for truth, counts, found in examples
    ]
    chance = random.Random(0)  # noqa: S311 - the same order every time
    weights = dict.fromkeys(scales, 0.0)
    squares = dict.fromkeys(scales, 1.0)
    total = dict.fromkeys(scales, 0.0)
    start = start_total = 0.0
    shrinking = _SHRINKING / len(rows)
    for epoch in range(_EPOCHS):
        chance.shuffle(rows)
        for truth, counts, row in rows:
            margin = start + sum([weights[place] * value for place, value in row])
            guess = 1 / (1 + math.exp(-max(-30.0, min(30.0, margin))))
            slope = counts * (guess - truth)
            start -= 0.01 * slope
            for place, value in row:
                step = slope * value + shrinking * weights[place]
                squares[place] += step * step
                weights[place] -= _RATE * step / math.sqrt(squares[place])
        if epoch >= _EPOCHS // 2:
            start_total += start
            for place, weight in weights.items():
                total[place] += weight
    rounds = _EPOCHS - _EPOCHS // 2
    return start_total / rounds, {place: scales[place] * weight / rounds for place, weight in total.items()}


def _scales(examples: list[Example]) -> dict[int, float]:
    """For every feature of several texts, how much it tells by itself."""
    inside: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
    for truth, _, found in examples:
        inside[int(truth)].update(found.keys())
    known = [place for place in inside[0] | inside[1] if inside[0][place] + inside[1][place] >= _FEWEST_TEXTS]
    sizes = [sum(each.values()) + len(known) for each in inside]
    return {
        place: abs(math.log((inside[1][place] + 1) / sizes[1] * sizes[0] / (inside[0][place] + 1)))
        for place in sorted(known)
    }


def _importance(kind: str) -> float:
    return _HARMLESS_COUNTS if kind == "look_alike" else _EVERYDAY_COUNTS


def _documentation() -> Iterator[str]:
    from importlib.metadata import distributions

    found = []
    for package in sorted(distributions(), key=lambda each: each.name):
        description = (package.read_text("METADATA") or "").partition("\n\n")[2]
        for paragraph in description.split("\n\n"):
            joined = " ".join(paragraph.split())
            if _SHORTEST <= len(joined) <= _LONGEST:
                found.append(joined)
    random.Random(1).shuffle(found)  # noqa: S311 - the same choice every time
    yield from found[:_MOST_PARAGRAPHS]
