"""Compiles the lexicons and learns the weights of the threat scanner, for bin/compile-lexicons and bin/weigh-wordings.

A logistic regression over words, their letters, pairs of words and concepts, on the development corpora and on the
descriptions of the installed packages, which stand for everything harmless that nobody wrote for this purpose. What
tells attacks from the rest by itself may weigh more than what does not (each feature is scaled by the logarithm of its
odds), which is worth two points of detection.
"""

from __future__ import annotations

import itertools
import json
import marshal
import math
import random
import re
from collections import Counter
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING

from hermes.safety import languages
from hermes.safety import rules as atoms
from hermes.safety import structure as markup
from hermes.safety.classifier import HEAVY, START, read_weights
from hermes.safety.disguises import vocabulary
from hermes.safety.fast_path import (
    AFTER_WORDS,
    CHARACTERS,
    ENDS,
    FRAMING_SIGNS,
    PLACES,
    fingerprint,
    packed,
    packed_meanings,
    pair_feature,
    pieces_of,
    word_features,
)
from hermes.safety.folding import fold
from hermes.safety.languages import english, foreign_rules, latin_languages, words_of
from hermes.safety.lexicon import bits_of, known_bits
from hermes.safety.secrets import BESIDE_SECRETS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from hermes.safety.disguises import Vocabulary
    from hermes.safety.languages import LatinFamily
    from hermes.safety.lexicon import Lexicon
    from hermes.safety.rules import Rule

    Example = tuple[float, float, dict[int, float]]

# How the standard library takes an expression apart; it has no public name for that.
_parser: Any = import_module("re._parser")
_constants: Any = import_module("re._constants")


def compile_tables() -> dict[str, object]:
    """Everything English and Latin, built from the text tables, as plain values that load in a moment."""
    language = english()
    family = latin_languages()
    words = vocabulary(language.lexicon)
    tables = {
        "english": (dict(known_bits()), language.lexicon.state()),
        "rules": [rule.state() for rule in language.rules],
        "disguises": words.state(),
        "plain": _plain(language.lexicon, language.rules, words, family, atoms.literals()),
        "latin": family.state(),
        "foreign": (
            {latin.lexicon.name: latin.lexicon.state() for latin in family.languages},
            [rule.state() for rule in foreign_rules()],
        ),
        "weights": read_weights(),
    }
    return {part: _shared(table, {}) for part, table in tables.items()}


def _shared(value: Any, seen: dict[Any, Any]) -> Any:
    """The same values, with equal ones kept once: most of a table is the same few hundred large numbers."""
    if isinstance(value, dict):
        return {_shared(key, seen): _shared(each, seen) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_shared(each, seen) for each in value)
    return seen.setdefault((type(value), value), value) if isinstance(value, int | str | bytes) else value


def _plain(
    lexicon: Lexicon,
    rules: Iterable[Rule],
    words: Vocabulary,
    family: LatinFamily,
    literals: Iterable[str],
) -> tuple[object, ...]:
    """What `harmless_prose` needs, worked out from the scanner's own tables."""
    near = {word[:at] + word[at + 1 :] for word in words.long for at in range(len(word))}
    kinds: dict[str, Iterable[str]] = {
        "c": words.ciphered,
        "n": near,
        "d": {*words.long, *near},
        "r": words.strong_errors().real,
        "m": lexicon.masks,
        "e": family.english,
    }
    prints = {fingerprint(kind, word): b"" for kind, listed in kinds.items() for word in listed}
    foreign = {
        fingerprint("l", word): _languages(found) for word, found in family.exact.items() if word not in family.english
    }
    foreign |= {fingerprint("s", stem): _languages(number for number, _ in each) for stem, each in family.stems.items()}
    meanings: dict[int, int] = {}
    for word, mask in _meanings(lexicon):
        meanings[fingerprint("", word)] = meanings.get(fingerprint("", word), 0) | mask
    concepts = packed_meanings({word: _numbers(mask) for word, mask in meanings.items() if mask})
    by_need = {
        concept: marshal.dumps(needs, 2) for concept, needs in _by_narrowest(rules, meanings.values()).items()
    }  # version 2: later ones depend on what else holds the same numbers
    tables = _within_words(filter(None, literals)), _framing(), packed(prints), family.starts, packed(foreign)
    known = [*kinds.values(), family.exact, family.stems, [word for word, _ in _meanings(lexicon)]]
    numbers = _telling_numbers(itertools.chain(*known))
    return *tables, *concepts, by_need, *_bearable(), numbers, _within_words(BESIDE_SECRETS)


def _telling_numbers(words: Iterable[str]) -> frozenset[str]:
    """The numbers that stand in any table, alone or in a phrase: all others are like each other."""
    return frozenset(part for word in words for part in word.split() if part.isdigit())


def _within_words(literals: Iterable[str]) -> tuple[str, ...]:
    """A piece of each literal that has no space in it; one with a dot inside is no plain word in any case."""
    pieces = {max(literal.split(), key=len) for literal in literals if CHARACTERS.issuperset(literal)}
    return tuple(sorted(piece for piece in pieces if "." not in piece.rstrip(AFTER_WORDS)))


def _framing() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What imitations of the frame hold, as far as plain prose may: where they need one of two signs, and elsewhere."""
    signs: dict[bool, set[str]] = {True: set(), False: set()}
    for literal, source in markup.expressions():
        if CHARACTERS.issuperset(literal):
            signs[any(_lacks(letters) for letters in _needed(_parser.parse(source)))].add(literal)
    return tuple(sorted(signs[True] - signs[False])), tuple(sorted(signs[False]))


def _lacks(letters: re.Pattern[str]) -> bool:
    """Whether plain prose without the two signs has none of these letters."""
    return not any(map(letters.match, CHARACTERS - FRAMING_SIGNS))


def _needed(expression: Any) -> Iterator[re.Pattern[str]]:
    """The letters, or kinds of letters, that every match of an expression has; those of alternatives are left out."""
    for kind, given in expression:
        if kind is _constants.LITERAL:
            yield re.compile(re.escape(chr(given)))
        elif kind is _constants.IN:
            yield re.compile(f"[{''.join(itertools.starmap(_part_of_class, given))}]")
        elif kind is _constants.SUBPATTERN:
            yield from _needed(given[3])
        elif kind is _constants.MAX_REPEAT and given[0] > 0:
            yield from _needed(given[2])


def _part_of_class(kind: object, given: Any) -> str:
    if kind is _constants.RANGE:
        return "-".join(map(re.escape, map(chr, given)))
    if kind is _constants.CATEGORY:
        return {"CATEGORY_SPACE": r"\s", "CATEGORY_WORD": r"\w", "CATEGORY_DIGIT": r"\d"}[str(given)]
    return "^" if kind is _constants.NEGATE else re.escape(chr(given))


def _by_narrowest(rules: Iterable[Rule], meanings: Iterable[int]) -> dict[int, list[list[int]]]:
    """What each rule needs, under the one concept of its needs that the fewest words have; the rest under -1."""
    words_with = Counter(mask for mask in meanings if mask)

    def meeting(need: int) -> int:
        return sum(words for mask, words in words_with.items() if mask & need)

    groups: dict[int, list[list[int]]] = {}
    for rule in rules:
        needs = sorted(rule.need, key=lambda need: (meeting(need), need))
        narrowest = next((need for need in needs if need.bit_count() == 1), 0)
        groups.setdefault(narrowest.bit_length() - 1, []).append([need for need in needs if need != narrowest])
    return groups


def _bearable() -> tuple[int, dict[int, int]]:
    """How much the concepts that speak against a text may weigh, and what each weighs; others cannot make it worse."""
    start, by_bit = read_weights()
    return HEAVY - start, {bit.bit_length() - 1: weight for bit, weight in by_bit.items() if weight > 0}


def _numbers(mask: int) -> tuple[int, ...]:
    return tuple(number for number in range(mask.bit_length()) if mask >> number & 1)


def _languages(numbers: Iterable[int]) -> bytes:
    return sum(1 << number for number in set(numbers)).to_bytes(2, "big")


def _meanings(lexicon: Lexicon) -> Iterator[tuple[str, int]]:
    """Words, and the first two words of phrases, with everything they can mean."""
    yield from lexicon.masks.items()
    for first, seconds in lexicon.phrases.items():
        for second, endings in seconds.items():
            for _, mask in endings:
                yield (first if second == "*" else f"{first} {second}"), mask


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
