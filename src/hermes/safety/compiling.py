"""Works out from the text tables what loads in a moment: run by `bin/compile-lexicons`, never by a scan."""

from __future__ import annotations

from collections import Counter

from hermes.safety import atoms, markup
from hermes.safety.disguises import vocabulary
from hermes.safety.languages import english, foreign_rules, latin_languages
from hermes.safety.lexicon import known_bits
from hermes.safety.plain import CHARACTERS, as_numbers, fingerprint
from hermes.safety.weights import HEAVY, read_weights

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from hermes.safety.disguises import Vocabulary
    from hermes.safety.languages import LatinFamily
    from hermes.safety.lexicon import Lexicon
    from hermes.safety.rules import Rule


def compile_tables() -> dict[str, object]:
    """Everything English and Latin, built from the text tables, as plain values that load in a moment."""
    language = english()
    family = latin_languages()
    words = vocabulary(language.lexicon)
    tables = {
        "english": (dict(known_bits()), language.lexicon.state()),
        "rules": [rule.state() for rule in language.rules],
        "disguises": words.state(),
        "plain": _plain(language.lexicon, language.rules, words, family, (atoms.literals(), markup.literals())),
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
    literals: tuple[Iterable[str], Iterable[str]],
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
    prints = frozenset(fingerprint(kind, word) for kind, listed in kinds.items() for word in listed)
    foreign = {
        fingerprint("l", word): _bits(found) for word, found in family.exact.items() if word not in family.english
    }
    foreign |= {fingerprint("s", stem): _bits([number for number, _ in found]) for stem, found in family.stems.items()}
    meanings: dict[int, int] = {}
    for word, mask in _meanings(lexicon):
        meanings[fingerprint("", word)] = meanings.get(fingerprint("", word), 0) | mask
    telling, framing = (
        tuple(sorted({each for each in listed if each and CHARACTERS.issuperset(each)})) for listed in literals
    )
    by_need = _by_narrowest(rules, meanings.values())
    short = {word: as_numbers(mask) for word, mask in meanings.items() if mask}
    return telling, framing, prints, family.starts, foreign, short, by_need, _bearable()


def _by_narrowest(rules: Iterable[Rule], meanings: Iterable[int]) -> tuple[dict[int, list[list[int]]], list[list[int]]]:
    """What each rule needs, under the one concept of its needs that the fewest words have; the rest beside them."""
    words_with = Counter(mask for mask in meanings if mask)

    def meeting(need: int) -> int:
        return sum(words for mask, words in words_with.items() if mask & need)

    groups: dict[int, list[list[int]]] = {}
    others: list[list[int]] = []
    for rule in rules:
        needs = sorted(rule.need, key=lambda need: (meeting(need), need))
        narrowest = next((need for need in needs if need.bit_count() == 1), None)
        if narrowest is None:
            others.append(needs)
        else:
            groups.setdefault(narrowest, []).append([need for need in needs if need != narrowest])
    return groups, others


def _bearable() -> tuple[int, dict[int, int]]:
    """How much the concepts that speak against a text may weigh, and what each weighs; others cannot make it worse."""
    start, by_bit = read_weights()
    return HEAVY - start, {bit: weight for bit, weight in by_bit.items() if weight > 0}


def _bits(numbers: Iterable[int]) -> int:
    return sum(1 << number for number in set(numbers))


def _meanings(lexicon: Lexicon) -> Iterator[tuple[str, int]]:
    """Words, and the first two words of phrases, with everything they can mean."""
    yield from lexicon.masks.items()
    for first, seconds in lexicon.phrases.items():
        for second, endings in seconds.items():
            for _, mask in endings:
                yield (first if second == "*" else f"{first} {second}"), mask
