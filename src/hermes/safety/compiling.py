"""Works out from the text tables what loads in a moment: run by `bin/compile-lexicons`, never by a scan."""

from __future__ import annotations

import itertools
import marshal
import re
from collections import Counter
from importlib import import_module

from hermes.safety import atoms, markup
from hermes.safety.known_words import vocabulary
from hermes.safety.languages import english, foreign_rules, latin_languages
from hermes.safety.lexicon import known_bits
from hermes.safety.plain import AFTER_WORDS, CHARACTERS, FRAMING_SIGNS, fingerprint, packed, packed_meanings
from hermes.safety.secrets import BESIDE_SECRETS
from hermes.safety.weights import HEAVY, read_weights

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from hermes.safety.known_words import Vocabulary
    from hermes.safety.languages import LatinFamily
    from hermes.safety.lexicon import Lexicon
    from hermes.safety.rules import Rule

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
