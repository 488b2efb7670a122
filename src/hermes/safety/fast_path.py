"""Recognises plain English prose in which the scanner cannot find anything, without loading the scanner's tables.

Most notes are such prose, and most of what a first scan costs is loading tables. A rule can only match a text that
holds all of its concepts, so it is enough to know what each word means (here by a fingerprint of the word), that no
word belongs to another language, and that none looks like a disguise. A text in plain letters that passes is harmless
by construction; about any other text this module says nothing. A test compares it with the scanner.
"""

from __future__ import annotations

import zlib
from itertools import islice, pairwise
from operator import add

from hermes.safety.tables import compiled, load_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Collection, Iterable, Sequence
    from typing import Any

    _Piece = tuple[bool, int, bool, tuple[str, ...], dict[str, tuple[int, ...]], int, tuple[int, ...], bool, list[int]]

STRETCH = 60  # words that are weighed together: an entry, or a few sentences of a longer text
PLACES = 1 << 18
TABLE = "wordings.table"
ENDS = frozenset(".!?\n")  # tokens that are no words
_NUMBER = "#"  # which number it is says nothing
_LONGEST = 20  # letters of a word that are looked at
_SHORTEST = 3  # letters of a word whose parts say more than itself
_WIDTH = 4  # bytes of a character in UTF-32
_MOST_KEPT = 20_000
_table: list[bytes] = []
_compiled: list[re.Pattern[str]] = []  # for text outside ASCII alone


class _Words(dict[str, int]):
    """What words weigh; each is worked out when it is first asked for."""

    def __missing__(self, word: str) -> int:
        if len(self) >= _MOST_KEPT:
            self.clear()
        weight = self[word] = _sum(word_features(word))
        return weight


class _Pairs(dict[tuple[str, str], int]):
    """What a word weighs behind another, as well."""

    def __missing__(self, pair: tuple[str, str]) -> int:
        if len(self) >= _MOST_KEPT:
            self.clear()
        weight = self[pair] = _sum((pair_feature(*pair),))
        return weight


_words = _Words()
_pairs = _Pairs()


def pieces_of(token: str) -> Sequence[str]:
    """A word as itself; Chinese, Japanese, Korean and Thai letter by letter, for their words have no firm bounds."""
    if token.isascii():
        return (_NUMBER,) if token.isdigit() else (token,)
    return token if _unspaced().search(token) else (token,)


def _unspaced() -> re.Pattern[str]:
    if not _compiled:
        import re  # plain prose does without

        _compiled.append(re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\u0e00-\u0e7f]"))
    return _compiled[0]


def weights_of(pieces: Sequence[str]) -> list[int]:
    """What each piece adds, with what it adds for following the one before."""
    added = list(map(_words.__getitem__, pieces))
    pairs = map(_pairs.__getitem__, zip(pieces, islice(pieces, 1, None), strict=False))
    return [*added[:1], *map(add, islice(added, 1, None), pairs)]


def weight_of_word(word: str) -> int:
    return _words[word]


def weight_of_pair(first: str, second: str) -> int:
    return _pairs[first, second]


def word_features(word: str) -> list[int]:
    """The places of a word and of every three and four letters in it."""
    letters = f"<{word[:_LONGEST]}>".encode("utf-32-le", "surrogatepass")
    found = [zlib.crc32(letters) % PLACES]
    if len(word) >= _SHORTEST:
        for length in (3 * _WIDTH, 4 * _WIDTH):
            found += [
                zlib.crc32(letters[at : at + length], length) % PLACES
                for at in range(0, len(letters) - length + 1, _WIDTH)
            ]
    return found


def pair_feature(first: str, second: str) -> int:
    return zlib.crc32(f"{first} {second}".encode("utf-8", "surrogatepass"), 1) % PLACES


def _sum(places: Iterable[int]) -> int:
    if not _table:
        _table.append(load_bytes(TABLE, PLACES))
    table = _table[0]
    total = 0
    for place in places:
        weight = table[place]
        total += weight if weight < 128 else weight - 256  # noqa: PLR2004 - a signed byte
    return total


# No regular expressions here: compiling the three it would take costs as much as all the rest.
_LETTERS, _DIGITS, _SIGNS = "abcdefghijklmnopqrstuvwxyz", "0123456789", " ,.;'()\n-"
CHARACTERS = frozenset(_LETTERS + _LETTERS.upper() + _DIGITS + _SIGNS)
FRAMING_SIGNS = frozenset("(-")  # those of them with which most imitations of the frame around a text begin
AFTER_WORDS = ".,;)'"
_BETWEEN_WORDS = str.maketrans(_SIGNS.replace("'", ""), " " * (len(_SIGNS) - 1))
_LONGEST_PROSE = 2200
_SPACERS = " .-,"
_FEWEST_SPACERS, _LONGEST_WORD, _SHORTEST_CODE, _MOST_DIGITS, _MOST_SIGNS = 8, 15, 8, 7, 11
_SHORTEST_TYPO, _LONGEST_SCRAP, _FEWEST_SCRAPS, _SHORTEST_STEM = 5, 4, 3, 2
# A packed table is one string of records for each last byte of a key, which begin with the rest of it. It loads a
# hundred times faster than a dictionary, and a note asks for a few dozen of its twenty thousand keys.
_BUCKETS, _KEY, _NUMBER_OR_SIGN, _PLACE = 256, 3, 2, 3
_MOST_KEPT_PROSE = 10_000  # about two megabytes
_ANY_NUMBER = "#"  # in place of one that no table has, so that what stands beside it is looked up once
_DOUBTFUL: _Piece = (True, 0, False, (), {}, 0, (), False, [])
_seen: dict[str, _Piece] = {}
_word_pairs: dict[str, tuple[int, tuple[int, ...], int]] = {}
_rules: dict[int, list[list[int]]] = {}


def harmless_prose(text: str, *, weighed: bool = True) -> bool:
    """True when the scanner is certain to find nothing; False says nothing at all.

    Without `weighed`, what would only be asked about for the weight of its words may pass.
    """
    return look(text, weighed=weighed) is not None


def look(text: str, *, weighed: bool = True) -> bool | None:
    """None where `harmless_prose` says False; else whether there may be a secret in the text."""
    if len(text) > _LONGEST_PROSE or not CHARACTERS.issuperset(text) or _looks_spaced_out(text):
        return None
    tables = compiled("plain")
    if tables is None or _imitates_the_frame(text, *tables[1]):
        return None
    words: list[str] = []
    strange: dict[str, tuple[int, ...]] = {}
    concepts: set[int] = set()
    weights: list[int] = []
    digits, crowded, present, secretive = 0, False, 0, False
    for piece in text.split():
        seen = _seen.get(piece) or _look_at(piece, tables)
        doubtful, its_digits, its_crowded, its_words, its_strange, its_bits, its_concepts, its_secretive, added = seen
        if doubtful:
            return None
        digits += its_digits
        crowded = crowded or its_crowded
        words += its_words
        strange |= its_strange
        present |= its_bits
        concepts.update(its_concepts)
        secretive = secretive or its_secretive
        weights += added
    if digits > _MOST_DIGITS or (digits and crowded):
        return None
    if strange and (_cut_apart(words, strange) or _share_a_language(strange.values())):
        return None
    for at, pair in enumerate(map(" ".join, pairwise(words)), 1):
        bits, its_concepts, weight = _word_pairs.get(pair) or _look_at_pair(pair, tables)
        present |= bits
        concepts.update(its_concepts)
        weights[at] += weight
    rules, bearable, _, _, _ = tables[7:]
    too_heavy = weighed and _heaviest_part(weights) > bearable
    return None if too_heavy or _some_rule_applies(present, concepts, rules) else secretive


def _heaviest_part(weights: list[int]) -> int:
    """What no run of words weighs more than; the scanner weighs some of them."""
    heaviest = so_far = 0
    for weight in weights:
        so_far += weight
        if so_far < 0:
            so_far = 0
        elif so_far > heaviest:
            heaviest = so_far
    return heaviest


def _look_at(piece: str, tables: Any) -> _Piece:
    """What this piece is by itself; most pieces of a note were in one before, so it is kept."""
    if len(_seen) >= _MOST_KEPT_PROSE:
        _seen.clear()
    seen = _seen[piece] = _DOUBTFUL if _looks_encoded(piece) else _read(piece, tables)
    return seen


def _read(piece: str, tables: Any) -> _Piece:
    literals, _, prints, starts, foreign, *meanings, _, _, by_concept, telling_numbers, beside_secrets = tables
    lowered = piece.lower()
    words = [word for each in lowered.translate(_BETWEEN_WORDS).split() if (word := each.strip("'"))]
    strange: dict[str, tuple[int, ...]] = {}
    concepts: set[int] = set()
    weights: list[int] = []
    for at, word in enumerate(words):
        weights.append(weight_of_word(pieces_of(word)[0]))
        # 8000 is no stretched word, but 777 repeated is.
        if word.isdigit() and word not in telling_numbers and (len(set(word)) > 1 or not _is_odd(word)):
            words[at] = _ANY_NUMBER
            continue
        if _is_odd(word) or _has(prints, "c", word) or _may_be_typo(word, prints):
            return _DOUBTFUL
        if not _has(prints, "e", word):
            strange[word] = _languages(word, starts, foreign)
        meaning = _meaning(word, *meanings)
        concepts.update(meaning)
        weights[at] += sum([by_concept.get(concept, 0) for concept in meaning])
    for literal in literals:
        if literal in lowered:
            return _DOUBTFUL
    digits = sum(map(piece.count, _DIGITS))
    signs = piece.count(".") + piece.count(",") + piece.count("-")
    secretive = any(word in lowered for word in beside_secrets)
    return False, digits, signs > 1, tuple(words), strange, as_bits(concepts), tuple(concepts), secretive, weights


def _look_at_pair(pair: str, tables: Any) -> tuple[int, tuple[int, ...], int]:
    if len(_word_pairs) >= _MOST_KEPT_PROSE:
        _word_pairs.clear()
    concepts, by_concept = _meaning(pair, *tables[5:7]), tables[9]
    first, second = [pieces_of(word)[0] for word in pair.split(" ")]
    weight = weight_of_pair(first, second) + sum([by_concept.get(concept, 0) for concept in concepts])
    meaning = _word_pairs[pair] = as_bits(concepts), concepts, weight
    return meaning


def as_bits(concepts: Iterable[int]) -> int:
    return sum([1 << concept for concept in concepts])


def _some_rule_applies(present: int, concepts: Iterable[int], packed: dict[int, bytes]) -> bool:
    """Rules stand under the concept that the fewest words have: only those of concepts the text has are looked at."""
    for concept in (*concepts, -1):  # those that need no certain one
        if concept in packed:
            for need in _rules.get(concept) or _unpack_rules(concept, packed[concept]):
                for bits in need:  # a plain loop: asked for every text
                    if not present & bits:
                        break
                else:
                    return True
    return False


def _unpack_rules(concept: int, packed: bytes) -> list[list[int]]:
    import marshal

    unpacked: list[list[int]] = marshal.loads(packed)  # noqa: S302 - of a file of this package, made by it
    _rules[concept] = unpacked
    return unpacked


def _imitates_the_frame(text: str, with_a_sign: Iterable[str], without: Iterable[str]) -> bool:
    lowered = text.lower()
    for literal in without:
        if literal in lowered:
            return _is_forged(lowered, text)
    if "(" not in text and "-" not in text:
        return False
    return any(literal in lowered for literal in with_a_sign) and _is_forged(lowered, text)


def _is_forged(lowered: str, text: str) -> bool:
    from hermes.safety.structure import forgeries

    return any(True for _ in forgeries(lowered, text, "memory"))


def _is_odd(word: str) -> bool:
    """No plain word and no plain number: mixed, stretched, or with more than one apostrophe."""
    mixed = not word.isdigit() and not word.replace("'", "", 1).isalpha()
    letters = set(word)
    return mixed or (len(letters) < len(word) - 1 and any(letter * 3 in word for letter in letters))


def _looks_spaced_out(text: str) -> bool:
    for sign in _SPACERS:
        count = text.count(sign)
        if count >= _FEWEST_SPACERS and count * 4 >= len(text):
            return True
    return "-\n" in text or text.count(".") + text.count("-") > _MOST_SIGNS


def _looks_encoded(piece: str) -> bool:
    return (
        len(piece) > _LONGEST_WORD
        or (len(piece) >= _SHORTEST_CODE and not piece[1:].islower())
        or "." in piece.rstrip(AFTER_WORDS)  # a file, a host, an address
    )


def _cut_apart(words: list[str], unknown: Collection[str]) -> bool:
    scraps = {word for word in unknown if len(word) <= _LONGEST_SCRAP and word.isalpha()}
    return len(scraps) >= _FEWEST_SCRAPS and sum(word in scraps for word in words) * 4 >= len(words)


def _languages(word: str, starts: dict[str, list[int]], foreign: tuple[bytes, ...]) -> tuple[int, ...]:
    """The languages that this word, and each stem it begins with, belongs to; each bit stands for a language."""
    stems = [fingerprint("s", word[:length]) for length in starts.get(word[:_SHORTEST_STEM], ()) if length <= len(word)]
    found = [_find(foreign, each, _NUMBER_OR_SIGN) for each in (fingerprint("l", word), *stems)]
    return tuple(int.from_bytes(each, "big") for each in found if each)


def _share_a_language(words: Iterable[tuple[int, ...]]) -> bool:
    """True when two words or stems of one language occur."""
    once = 0
    for languages in (each for word in words for each in word):
        if once & languages:
            return True
        once |= languages
    return False


def _may_be_typo(word: str, prints: tuple[bytes, ...]) -> bool:
    if len(word) < _SHORTEST_TYPO or _has(prints, "r", word) or _has(prints, "m", word):
        return False
    shorter = (word[:at] + word[at + 1 :] for at in range(len(word)))
    return _has(prints, "n", word) or any(_has(prints, "d", each) for each in shorter)


def fingerprint(kind: str, word: str) -> int:
    return zlib.crc32(f"{kind}{word}".encode())


def _meaning(words: str, places: tuple[bytes, ...], concepts: bytes) -> tuple[int, ...]:
    """The concepts of a word or of two: how many, and their numbers, stand at a place of one long string."""
    place = _find(places, fingerprint("", words), _PLACE)
    if place is None:
        return ()
    start = int.from_bytes(place, "big") + 1
    end = start + _NUMBER_OR_SIGN * concepts[start - 1]
    return tuple(
        [int.from_bytes(concepts[at : at + _NUMBER_OR_SIGN], "big") for at in range(start, end, _NUMBER_OR_SIGN)]
    )


def packed(table: dict[int, bytes]) -> tuple[bytes, ...]:
    """A table from fingerprints to bytes of one length, as `_find` reads it."""
    buckets: list[list[bytes]] = [[] for _ in range(_BUCKETS)]
    for key in sorted(table):
        buckets[key % _BUCKETS].append((key // _BUCKETS).to_bytes(_KEY, "big") + table[key])
    return tuple(map(b"".join, buckets))


def packed_meanings(meanings: dict[int, tuple[int, ...]]) -> tuple[tuple[bytes, ...], bytes]:
    """A table from fingerprints to concepts, as `_meaning` reads it."""
    places: dict[tuple[int, ...], bytes] = {}
    concepts = b""
    for numbers in sorted(set(meanings.values())):
        places[numbers] = len(concepts).to_bytes(_PLACE, "big")
        concepts += bytes([len(numbers)]) + b"".join(each.to_bytes(_NUMBER_OR_SIGN, "big") for each in numbers)
    return packed({key: places[numbers] for key, numbers in meanings.items()}), concepts


def _find(table: tuple[bytes, ...], key: int, length: int) -> bytes | None:
    bucket, wanted = table[key % _BUCKETS], (key // _BUCKETS).to_bytes(_KEY, "big")
    at = bucket.find(wanted)
    while at % (_KEY + length) and at >= 0:  # the end of one record and the start of the next
        at = bucket.find(wanted, at + 1)
    return bucket[at + _KEY : at + _KEY + length] if at >= 0 else None


def _has(prints: tuple[bytes, ...], kind: str, word: str) -> bool:
    return _find(prints, fingerprint(kind, word), 0) is not None
