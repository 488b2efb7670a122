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

# No regular expressions here: compiling the three it would take costs as much as all the rest.
_LETTERS, _DIGITS, _SIGNS = "abcdefghijklmnopqrstuvwxyz", "0123456789", " ,.;'()\n-"
CHARACTERS = frozenset(_LETTERS + _LETTERS.upper() + _DIGITS + _SIGNS)
_BETWEEN_WORDS = str.maketrans(_SIGNS.replace("'", ""), " " * (len(_SIGNS) - 1))
_LONGEST = 2200
_SPACERS = " .-,"
_FEWEST_SPACERS, _LONGEST_WORD, _SHORTEST_CODE, _MOST_DIGITS, _MOST_SIGNS = 8, 15, 8, 7, 11
_SHORTEST_TYPO, _LONGEST_SCRAP, _FEWEST_SCRAPS, _SHORTEST_STEM = 5, 4, 3, 2


def harmless_prose(text: str) -> bool:
    """True when the scanner is certain to find nothing; False says nothing at all."""
    if len(text) > _LONGEST or not CHARACTERS.issuperset(text) or _looks_encoded(text):
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
    unknown = {word for word in known if fingerprint("e", word) not in prints}
    if _cut_apart(words, unknown) or _may_be_foreign(unknown, starts, foreign):
        return False
    if any(fingerprint("c", word) in prints or _may_be_typo(word, prints) for word in known):
        return False
    present = 0
    for word in (*known, *map(" ".join, pairwise(words))):
        present |= meanings.get(fingerprint("", word), 0)
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
        or any("." in chunk.rstrip(".,;)'") for chunk in chunks)  # a file, a host, an address
    )


def _cut_apart(words: list[str], unknown: set[str]) -> bool:
    scraps = {word for word in unknown if len(word) <= _LONGEST_SCRAP and word.isalpha()}
    return len(scraps) >= _FEWEST_SCRAPS and sum(word in scraps for word in words) * 4 >= len(words)


def _may_be_foreign(words: set[str], starts: set[str], foreign: dict[int, int]) -> bool:
    """True when two words or stems of one language occur; each bit of a number stands for a language."""
    once = 0
    for word in words:
        lengths = range(_SHORTEST_STEM, len(word) + 1) if word[:_SHORTEST_STEM] in starts else ()
        stems = (fingerprint("s", word[:length]) for length in lengths)
        for languages in (foreign.get(each, 0) for each in (fingerprint("l", word), *stems)):
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
