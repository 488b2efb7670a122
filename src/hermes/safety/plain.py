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
    from collections.abc import Collection, Iterable, Iterator
    from typing import Any

    # Whether it may be a disguise; the languages it may belong to, None for English; its concepts.
    _Seen = tuple[bool, tuple[int, ...] | None, int]

# No regular expressions here: compiling the three it would take costs as much as all the rest.
_LETTERS, _DIGITS, _SIGNS = "abcdefghijklmnopqrstuvwxyz", "0123456789", " ,.;'()\n-"
CHARACTERS = frozenset(_LETTERS + _LETTERS.upper() + _DIGITS + _SIGNS)
_BETWEEN_WORDS = str.maketrans(_SIGNS.replace("'", ""), " " * (len(_SIGNS) - 1))
_LONGEST = 2200
_SPACERS = " .-,"
_FEWEST_SPACERS, _LONGEST_WORD, _SHORTEST_CODE, _MOST_DIGITS, _MOST_SIGNS = 8, 15, 8, 7, 11
_MOST_KEPT = 10_000  # words, about a megabyte
_seen: dict[str, _Seen] = {}
_pairs: dict[str, int] = {}
_SHORTEST_TYPO, _LONGEST_SCRAP, _FEWEST_SCRAPS, _SHORTEST_STEM = 5, 4, 3, 2


def harmless_prose(text: str, *, weighed: bool = True) -> bool:
    """True when the scanner is certain to find nothing; False says nothing at all.

    Without `weighed`, what would only be asked about for the weight of its words may pass.
    """
    if len(text) > _LONGEST or not CHARACTERS.issuperset(text) or _looks_encoded(text):
        return False
    tables = compiled("plain")
    if tables is None:
        return False
    literals, framing, _, _, _, _, rules, bearable = tables
    lowered = text.lower()
    words = [word.strip("'") for word in lowered.translate(_BETWEEN_WORDS).split()]
    known = {word: _seen.get(word) or _look_at(word, tables) for word in words if word}
    if any(each[0] for each in known.values()) or any(literal in lowered for literal in literals):
        return False
    if any(literal in lowered for literal in framing) and _imitates_the_frame(lowered, text):
        return False
    unknown = {word: languages for word, (_, languages, _) in known.items() if languages is not None}
    if unknown and (_cut_apart(words, unknown) or _share_a_language(unknown.values())):
        return False
    present = 0
    for _, _, meaning in known.values():
        present |= meaning
    for pair in map(" ".join, pairwise(words)):
        present |= _pairs[pair] if pair in _pairs else _look_at_pair(pair, tables)
    concepts = list(_bits(present))
    return not (weighed and _too_heavy(concepts, *bearable)) and not _some_rule_applies(present, concepts, *rules)


def _look_at(word: str, tables: Any) -> _Seen:
    """What this word is by itself; most words of a note were in one before, so it is kept."""
    _, _, prints, starts, foreign, meanings, _, _ = tables
    doubtful = _is_odd(word) or fingerprint("c", word) in prints or _may_be_typo(word, prints)
    languages = None if fingerprint("e", word) in prints else _languages(word, starts, foreign)
    seen = (doubtful, languages, _as_mask(meanings.get(fingerprint("", word), b"")))
    if len(_seen) >= _MOST_KEPT:
        _seen.clear()
    _seen[word] = seen
    return seen


def _look_at_pair(pair: str, tables: Any) -> int:
    if len(_pairs) >= _MOST_KEPT:
        _pairs.clear()
    meaning = _pairs[pair] = _as_mask(tables[5].get(fingerprint("", pair), b""))
    return meaning


def as_numbers(mask: int) -> bytes:
    """A set of concepts as their numbers, two bytes each: most sets have three, and a mask has room for a thousand."""
    return b"".join((each.bit_length() - 1).to_bytes(2, "big") for each in _bits(mask))


def _as_mask(numbers: bytes) -> int:
    mask = 0
    for at in range(0, len(numbers), 2):
        mask |= 1 << int.from_bytes(numbers[at : at + 2], "big")
    return mask


def _bits(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest
        mask ^= lowest


def _some_rule_applies(
    present: int, concepts: list[int], by_concept: dict[int, list[list[int]]], others: list[list[int]]
) -> bool:
    """Rules stand under the concept that the fewest words have: only those of concepts the text has are looked at."""
    for group in (*map(by_concept.get, concepts), others):
        for need in group or ():
            for mask in need:  # a plain loop: asked for every text
                if not present & mask:
                    break
            else:
                return True
    return False


def _too_heavy(concepts: list[int], bearable: int, weights: dict[int, int]) -> bool:
    """Whether the words could weigh too much if nothing in the text spoke for it."""
    return sum([weights.get(concept, 0) for concept in concepts]) > bearable


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
        or any("." in chunk.rstrip(".,;)'") for chunk in chunks)  # a file, a host, an address
    )


def _cut_apart(words: list[str], unknown: Collection[str]) -> bool:
    scraps = {word for word in unknown if len(word) <= _LONGEST_SCRAP and word.isalpha()}
    return len(scraps) >= _FEWEST_SCRAPS and sum(word in scraps for word in words) * 4 >= len(words)


def _languages(word: str, starts: dict[str, list[int]], foreign: dict[int, int]) -> tuple[int, ...]:
    """The languages that this word, and each stem it begins with, belongs to; each bit stands for a language."""
    stems = [fingerprint("s", word[:length]) for length in starts.get(word[:_SHORTEST_STEM], ()) if length <= len(word)]
    return tuple(found for each in (fingerprint("l", word), *stems) if (found := foreign.get(each, 0)))


def _share_a_language(words: Iterable[tuple[int, ...]]) -> bool:
    """True when two words or stems of one language occur."""
    once = 0
    for languages in (each for word in words for each in word):
        if once & languages:
            return True
        once |= languages
    return False


def _may_be_typo(word: str, prints: frozenset[int]) -> bool:
    if len(word) < _SHORTEST_TYPO or fingerprint("r", word) in prints or fingerprint("m", word) in prints:
        return False
    shorter = (word[:at] + word[at + 1 :] for at in range(len(word)))
    return fingerprint("n", word) in prints or any(fingerprint("d", each) in prints for each in shorter)


def fingerprint(kind: str, word: str) -> int:
    # 31 bits: marshal keeps such numbers in four bytes.
    return zlib.crc32(f"{kind}{word}".encode()) & 0x7FFFFFFF
