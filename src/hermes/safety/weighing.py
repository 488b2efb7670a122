"""Works out how much each concept weighs from examples: run by `bin/weigh-concepts`, never by a scan.

A logistic regression over the concepts of a stretch, on the development corpora and on the descriptions of the
installed packages, which stand for everything harmless that nobody wrote for this purpose.
"""

from __future__ import annotations

import json
import math
import random
from typing import TYPE_CHECKING

from hermes.safety import atoms, languages
from hermes.safety.lexicon import known_bits
from hermes.safety.threats import words_of
from hermes.safety.unicode import fold
from hermes.safety.weights import START, meaning, stretches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Example = tuple[float, float, list[int]]  # is it an attack, how much does it count, its concepts

_EPOCHS = 40
_RATE = 0.1
_SHRINKING = 3
_HARMLESS_COUNTS = 1.0
_EVERYDAY_COUNTS = 3.0  # a plain fact or a preference must pass; a note that looks like an attack may be asked about
_DOCUMENTATION_COUNTS = 0.4
_MOST_PARAGRAPHS = 3_000
_SHORTEST, _LONGEST = 40, 400  # characters of a paragraph worth learning from
_MEANINGLESS = 5  # hundredths


def lines_of_weights(attacks: str, harmless: str) -> list[str]:
    """The table `weights.txt`, worked out from two corpora of JSON lines with a `text` each."""
    examples = [
        *((1.0, 1.0, max(found, key=len)) for row in _rows(attacks) if (found := _concepts(row["text"]))),
        *((0.0, _importance(row), each) for row in _rows(harmless) for each in _concepts(row["text"])),
        *((0.0, _DOCUMENTATION_COUNTS, each) for masks in map(_concepts, _documentation()) for each in masks),
    ]
    start, weights = _fit(examples)
    names = list(known_bits())
    rounded = {names[index]: round(100 * weight) for index, weight in sorted(weights.items())}
    return [
        "# How much each concept speaks for an attack, in hundredths; made by bin/weigh-concepts, not by hand.",
        f"{START}: {round(100 * start)}",
        *(f"{name}: {weight}" for name, weight in rounded.items() if abs(weight) >= _MEANINGLESS),
    ]


def _fit(examples: list[Example]) -> tuple[float, dict[int, float]]:
    """Stochastic descent with one pass per epoch, averaged over the second half, so that it does not depend on luck."""
    chance = random.Random(0)  # noqa: S311 - the same order every time
    weights: dict[int, float] = {}
    total: dict[int, float] = {}
    start = start_total = 0.0
    for epoch in range(_EPOCHS):
        chance.shuffle(examples)
        rate = _RATE / (1 + epoch / 10)
        scale = 1.0  # all weights shrink a little with every example; kept apart, because most are not touched
        for truth, counts, concepts in examples:
            guess = 1 / (1 + math.exp(-start - scale * sum(weights.get(each, 0.0) for each in concepts)))
            step = rate * counts * (truth - guess)
            start += step
            scale *= 1 - rate * _SHRINKING / len(examples)
            for each in concepts:
                weights[each] = weights.get(each, 0.0) + step / scale
        weights = {each: weight * scale for each, weight in weights.items()}
        if epoch >= _EPOCHS // 2:
            start_total += start
            for each, weight in weights.items():
                total[each] = total.get(each, 0.0) + weight
    rounds = _EPOCHS - _EPOCHS // 2
    return start_total / rounds, {each: weight / rounds for each, weight in total.items()}


def _concepts(text: str) -> list[list[int]]:
    """The concepts of every stretch in every reading of a text, by number."""
    marked = atoms.mark(fold(text))
    return [
        [number for number in range(len(known_bits())) if mask >> number & 1]
        for reading, _ in languages.readings(text, marked, words_of(marked))
        for start, end in stretches(reading.codes)
        if (mask := meaning(reading, start, end))
    ]


def _importance(row: dict[str, str]) -> float:
    return _HARMLESS_COUNTS if row["kind"] == "look_alike" else _EVERYDAY_COUNTS


def _rows(path: str) -> Iterator[dict[str, str]]:
    with open(path, encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _documentation() -> Iterable[str]:
    from importlib.metadata import distributions

    found = []
    for package in sorted(distributions(), key=lambda each: each.name):
        description = (package.read_text("METADATA") or "").partition("\n\n")[2]
        for paragraph in description.split("\n\n"):
            joined = " ".join(paragraph.split())
            if _SHORTEST <= len(joined) <= _LONGEST:
                found.append(joined)
    random.Random(1).shuffle(found)  # noqa: S311 - the same choice every time
    return found[:_MOST_PARAGRAPHS]
