"""Tells plain English prose, in which the scanner cannot find anything, without loading the scanner's tables.

Most notes are such prose, and most of what a first scan costs is loading tables. A rule can only match a text that
holds all of its concepts, so it is enough to know what each word means (here by a fingerprint of the word), that no
word belongs to another language, and that none looks like a disguise. A text in plain letters that passes is harmless
by construction; about any other text this module says nothing. A test compares it with the scanner.
"""

from __future__ import annotations

import zlib
from itertools import pairwise

from hermes.safety.tables import compiled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hermes.safety.disguises import Vocabulary
    from hermes.safety.languages import LatinFamily
    from hermes.safety.lexicon import Lexicon
    from hermes.safety.rules import Rule

# No regular expressions here: compiling the three it would take costs as much as all the rest.
_LETTERS, _DIGITS, _SIGNS = "abcdefghijklmnopqrstuvwxyz", "0123456789", " ,.;'()\n-"
_CHARACTERS = frozenset(_LETTERS + _LETTERS.upper() + _DIGITS + _SIGNS)
_BETWEEN_WORDS = str.maketrans(_SIGNS.replace("'", ""), " " * (len(_SIGNS) - 1))
_LONGEST = 2200
_SPACERS = " .-,"
_FEWEST_SPACERS, _LONGEST_WORD, _SHORTEST_CODE, _MOST_DIGITS, _MOST_SIGNS = 8, 15, 8, 7, 11
_SHORTEST_TYPO, _LONGEST_SCRAP, _FEWEST_SCRAPS, _SHORTEST_STEM = 5, 4, 3, 2


def harmless_prose(text: str) -> bool:
    """True when the scanner is certain to find nothing; False says nothing at all."""
    if len(text) > _LONGEST or not _CHARACTERS.issuperset(text) or _looks_encoded(text):
        return False
    tables = compiled("plain")
    if tables is None:
        return False
    literals, framing, prints, starts, foreign, meanings, needs = tables
    lowered = text.lower()
    words = [word.strip("'") for word in lowered.translate(_BETWEEN_WORDS).split()]
    known = set(words) - {""}
    if any(map(_is_odd, known)) or any(literal in lowered for literal in literals):
        return False
    if any(literal in lowered for literal in framing) and _imitates_the_frame(lowered, text):
        return False
    unknown = {word for word in known if _print("e", word) not in prints}
    if _cut_apart(words, unknown) or _may_be_foreign(unknown, starts, foreign):
        return False
    if any(_print("c", word) in prints or _may_be_typo(word, prints) for word in known):
        return False
    present = 0
    for word in (*known, *map(" ".join, pairwise(words))):
        present |= meanings.get(_print("", word), 0)
    return not _some_rule_applies(present, needs)


def _some_rule_applies(present: int, needs: list[list[int]]) -> bool:
    for need in needs:  # plain loops: several hundred rules, asked for every text
        for mask in need:
            if not present & mask:
                break
        else:
            return True
    return False


def _imitates_the_frame(lowered: str, text: str) -> bool:
    from hermes.safety.markup import forgeries

    return any(True for _ in forgeries(lowered, text, "memory"))


def _is_odd(word: str) -> bool:
    """No plain word and no plain number: mixed, stretched, or with more than one apostrophe."""
    mixed = not word.isdigit() and not word.replace("'", "", 1).isalpha()
    letters = set(word)
    return mixed or (len(letters) < len(word) - 1 and any(letter * 3 in word for letter in letters))


def _looks_encoded(text: str) -> bool:
    if any((count := text.count(sign)) >= _FEWEST_SPACERS and count * 4 >= len(text) for sign in _SPACERS):
        return True
    digits = sum(map(text.count, _DIGITS))
    signs = text.count(".") + text.count("-")
    chunks = text.split()
    return (
        digits > _MOST_DIGITS
        or "-\n" in text
        or (digits and any(chunk.count(".") + chunk.count(",") + chunk.count("-") > 1 for chunk in chunks))
        or signs > _MOST_SIGNS
        or any(len(chunk) >= _SHORTEST_CODE and not chunk[1:].islower() for chunk in chunks)
        or any(len(word) > _LONGEST_WORD for word in chunks)
    )


def _cut_apart(words: list[str], unknown: set[str]) -> bool:
    scraps = {word for word in unknown if len(word) <= _LONGEST_SCRAP and word.isalpha()}
    return len(scraps) >= _FEWEST_SCRAPS and sum(word in scraps for word in words) * 4 >= len(words)


def _may_be_foreign(words: set[str], starts: set[str], foreign: dict[int, int]) -> bool:
    """True when two words or stems of one language occur; each bit of a number stands for a language."""
    once = 0
    for word in words:
        lengths = range(_SHORTEST_STEM, len(word) + 1) if word[:_SHORTEST_STEM] in starts else ()
        stems = (_print("s", word[:length]) for length in lengths)
        for languages in (foreign.get(each, 0) for each in (_print("l", word), *stems)):
            if once & languages:
                return True
            once |= languages
    return False


def _may_be_typo(word: str, prints: frozenset[int]) -> bool:
    if len(word) < _SHORTEST_TYPO or _print("r", word) in prints or _print("m", word) in prints:
        return False
    shorter = (word[:at] + word[at + 1 :] for at in range(len(word)))
    return _print("n", word) in prints or any(_print("d", each) in prints for each in shorter)


def _print(kind: str, word: str) -> int:
    # 31 bits: marshal keeps such numbers in four bytes.
    return zlib.crc32(f"{kind}{word}".encode()) & 0x7FFFFFFF


def compile_plain(
    lexicon: Lexicon,
    rules: Iterable[Rule],
    words: Vocabulary,
    family: LatinFamily,
    literals: tuple[Iterable[str], Iterable[str]],
) -> tuple[object, ...]:
    """What `harmless_prose` needs, worked out from the scanner's own tables."""
    near = words.strong_errors().near
    kinds: dict[str, Iterable[str]] = {
        "c": words.ciphered,
        "n": near,
        "d": {*words.long, *near},
        "r": words.strong_errors().real,
        "m": lexicon.masks,
        "e": family.english,
    }
    prints = frozenset(_print(kind, word) for kind, listed in kinds.items() for word in listed)
    foreign = {_print("l", word): _bits(found) for word, found in family.exact.items() if word not in family.english}
    foreign |= {_print("s", stem): _bits([number for number, _ in found]) for stem, found in family.stems.items()}
    meanings: dict[int, int] = {}
    for word, mask in _meanings(lexicon):
        meanings[_print("", word)] = meanings.get(_print("", word), 0) | mask
    telling, framing = (
        tuple(sorted({each for each in listed if each and _CHARACTERS.issuperset(each)})) for listed in literals
    )
    return telling, framing, prints, family.starts, foreign, meanings, [list(rule.need) for rule in rules]


def _bits(numbers: Iterable[int]) -> int:
    return sum(1 << number for number in set(numbers))


def _meanings(lexicon: Lexicon) -> Iterator[tuple[str, int]]:
    """Words, and the first two words of phrases, with everything they can mean."""
    yield from lexicon.masks.items()
    for first, seconds in lexicon.phrases.items():
        for second, endings in seconds.items():
            for _, mask in endings:
                yield (first if second == "*" else f"{first} {second}"), mask
