"""Words become concepts: lexicons, where concepts stand in a text, and which spans around them matter.

A text is read as a string of such characters ("." for a word that means nothing here, "|" for the end of a sentence),
and a rule is a short pattern over concepts with bounded gaps. So vocabulary, languages and rules grow independently.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from heapq import merge
from itertools import accumulate, chain, compress, repeat

from hermes.base.errors import ScannerUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    Step = tuple[int, int, int]
    Endings = Mapping[str, list[tuple[list[str], int]]]
    from collections.abc import Set as AbstractSet
    from typing import Any

_DIGITS = "0123456789"
_LOWER = "abcdefghijklmnopqrstuvwxyz"
_SPACES = " \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f"
# What stands for something in ASCII; all else outside it becomes a question mark, which is part of no run.
_OTHER_SPACES = "\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_OTHER_SIGNS = "\u00b7\u2022\u2013\u2014\u2212"
# Where no character has their higher byte, none of them is there: that is told at once for all.
_BY_HIGHER_BYTE = {
    ord(sign) >> 8: [each for each in _OTHER_SPACES + _OTHER_SIGNS if ord(each) >> 8 == ord(sign) >> 8]
    for sign in _OTHER_SPACES + _OTHER_SIGNS
}
_SHORTEST_CODE = 8
_BEGINNING = 2_000  # characters


def _table(members: str) -> bytes:
    return bytes(ord("x") if chr(code) in members else ord(".") for code in range(256))


def _with_space(table: bytes) -> bytes:
    return bytes(ord(" ") if code == ord(" ") else table[code] for code in range(256))


_BITS = _table("01,;|_-" + _SPACES)
_NUMBERS_AND_SPACE = _with_space(_table(_DIGITS))
_HEX = _table(_DIGITS + "abcdefABCDEF")
_HEX_APART = _table(_DIGITS + "abcdefABCDEF" + _SPACES + ",:;-x\\")
_BETWEEN_BYTES = (_SPACES + ",:;-x\\").encode()
_NUMBERS_APART = _table(_DIGITS + _SPACES + ",;.-")
_SIGNS = _table(".-_ /|\n")
_CAPITALS = _table(_LOWER.upper() + "234567")
_SMALL = _table(_LOWER + "234567")
_BASE64 = _table(_LOWER + _LOWER.upper() + _DIGITS + "+/_-")
_CAPITALS_IN_BASE64 = bytes(ord("X") if chr(code) in _LOWER.upper() else _BASE64[code] for code in range(256))
_INNER_CAPITAL = re.compile(b"X(?<=[xX]X)")
_SIGNS_IN_BASE64 = bytes(ord("X") if chr(code) in _DIGITS + "+/_-" else _BASE64[code] for code in range(256))
_NO_LETTERS = re.compile(b"X" * (_SHORTEST_CODE - 1))
_SIX_APART = b"xsxsxsxsxsx"
_LETTER_OR_SIGN = bytes.maketrans(
    (_LOWER + _LOWER.upper() + _DIGITS + " .-*_|/,~+").encode(), b"x" * 62 + b"s" * 10
)  # any other byte stays what it is, and is neither
_BASE64_AND_SPACE = _with_space(_BASE64)
_BASE64_AND_LINES = _table(_LOWER + _LOWER.upper() + _DIGITS + "+/\r\n")
_FOURS = b" xxxx xxxx xxxx xx"
_MORE_FOURS = re.compile(rb"(?: xxxx)*(?: x{0,4})?")
_LETTERS_AND_DIGITS = _table(_LOWER + _DIGITS)
_NUMBERS_AND_DOTS = _table(_DIGITS + ".")


class Runs:
    """What runs a text may hold, and where: none is certain, any is worth a closer look."""

    __slots__ = ("_bytes", "_mixed", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._bytes = (text if text.isascii() else _with_plain_signs(text)).encode("ascii", "replace")
        self._mixed: bool | None = None

    def _has(self, table: bytes, length: int) -> bool:
        return b"x" * length in self._bytes.translate(table)

    def has_hex(self) -> bool:
        """Whether there are six bytes in hexadecimal digits, with little between them."""
        return b"x" * 12 in self._bytes.translate(_HEX, _BETWEEN_BYTES)

    def hex(self) -> Iterator[tuple[int, int]]:
        """Where they may stand."""
        return self._places(_HEX_APART, 12)

    def base64(self) -> Iterator[tuple[int, int]]:
        """Where base64 may stand, with its padding: behind its first letter it has capitals, or no letters at all."""
        runs = merge(self._around(_CAPITALS_IN_BASE64, _INNER_CAPITAL), self._around(_SIGNS_IN_BASE64, _NO_LETTERS))
        return ((start, end + 2) for start, end in runs)

    def mixed_case(self) -> bool:
        """Whether a long word holds a capital or a digit behind its first letter, as every encoding does."""
        if self._mixed is None:
            self._mixed = self._has(_BASE64, _SHORTEST_CODE) and self._has_mixed_word()
        return self._mixed

    def _has_mixed_word(self) -> bool:
        text = self._text
        # Most long texts show it soon; where the beginning ends, a word may be cut.
        return (len(text) > _BEGINNING and _mixed(text[:_BEGINNING].split()[:-1])) or _mixed(text.split())

    def groups_of_four(self) -> bool:
        """Five groups of four letters, the last of which may be shorter."""
        return _FOURS in self._bytes.translate(_BASE64_AND_SPACE)

    def base64_in_lines(self) -> Iterator[tuple[int, int]]:
        """Where base64 may go over several lines, with its padding."""
        return ((start, end + 2) for start, end in self._places(_BASE64_AND_LINES, 25))

    def base64_in_fours(self) -> Iterator[tuple[int, int]]:
        """Where such groups stand, with their padding."""
        shape = self._bytes.translate(_BASE64_AND_SPACE)
        place = shape.find(_FOURS)
        while place >= 0 and (found := _MORE_FOURS.match(shape, place)):
            yield max(0, place - 5), found.end() + 2  # the first may begin a line
            place = shape.find(_FOURS, found.end())

    def account_in_groups(self) -> bool:
        return b"xxxx xxxx" in self._bytes.translate(_NUMBERS_AND_SPACE)

    def binary(self) -> Iterator[tuple[int, int]]:
        """Where three times eight bits may stand."""
        return self._places(_BITS, 24)

    def numbers(self) -> Iterator[tuple[int, int]]:
        """Where six numbers may stand, with signs between them."""
        return self._places(_NUMBERS_APART, 11)

    def morse(self) -> Iterator[tuple[int, int]]:
        """Where six groups of dots and dashes may stand."""
        return self._places(_SIGNS, 11)

    def base32(self) -> Iterable[tuple[int, int]]:
        """Where base32 may stand, with its padding."""
        places = sorted({*self._places(_CAPITALS, 16), *self._places(_SMALL, 32)})
        return [(start, end + 6) for start, end in places]

    def letters_apart(self) -> Iterator[tuple[int, int]]:
        """Where at least six single letters stand with one sign between each two."""
        shape = self._bytes.translate(_LETTER_OR_SIGN)
        if _SIX_APART in shape:
            for found in re.finditer(rb"x(?<!xx)(?:sx(?!x)){5,}", shape):
                yield found.span()

    def accounts(self) -> Iterator[tuple[int, int]]:
        """Where letters and digits are as many as in the number of a bank account."""
        return self._places(_LETTERS_AND_DIGITS, 15)

    def addresses(self) -> Iterator[tuple[int, int]]:
        """Where digits and dots are as many as in four numbers with dots between them."""
        return self._places(_NUMBERS_AND_DOTS, 7)

    def _places(self, table: bytes, length: int) -> Iterator[tuple[int, int]]:
        shape, run = self._bytes.translate(table) + b".", b"x" * length
        place = shape.find(run)
        while place >= 0:
            end = shape.find(b".", place)
            yield place, end
            place = shape.find(run, end)

    def _around(self, table: bytes, sign: re.Pattern[bytes]) -> Iterator[tuple[int, int]]:
        """The runs that hold a certain sign; `table` turns what ends them into "."."""
        shape = self._bytes.translate(table) + b"."
        found = sign.search(shape)
        while found:
            end = shape.find(b".", found.start())
            yield shape.rfind(b".", 0, end) + 1, end
            found = sign.search(shape, end)


def _mixed(words: list[str]) -> bool:
    for word in words:  # noqa: SIM110 - a plain loop is twice as fast as any() over a generator
        if len(word) >= _SHORTEST_CODE and not word[1:].islower():
            return True
    return False


def _with_plain_signs(text: str) -> str:
    higher_bytes = text.encode("utf-16-le", "surrogatepass")[1::2]
    for higher, signs in _BY_HIGHER_BYTE.items():
        if higher in higher_bytes:
            for sign in signs:
                if sign in text:
                    text = text.replace(sign, "-" if sign in _OTHER_SIGNS else " ")
    return text


# What stands around some places of a long text: as many words each way as any rule spans, the rest left out.
#
# Decoding and disguises change a few words of a text that was read before; only those words and their neighbours can
# mean anything new.

LONG_TEXT = 4_000  # characters; a shorter text is read whole
WIDEST_RULE = 60  # words
_MANY = 12  # words, from which on it is quicker to look at every word of the text once
_REACH = 1_000  # characters in which so many words usually stand
_APART = " .\n\n"
# One word more, because the place may end inside one. Whatever a word is made of, nothing here is tried twice.
_WORDS = re.compile(rf"(?:[\W_]{{0,9999}}+[^\W_]{{1,9999}}+){{0,{WIDEST_RULE + 1}}}+[\W_]{{0,9999}}+")


def surroundings(text: str, places: Sequence[tuple[int, int]]) -> str:
    """`text` around `places`, which are in order; whole when it is short."""
    if len(text) < LONG_TEXT:
        return text
    pieces: list[str] = []
    for first, last in _widened(text, places):
        pieces += [_APART, text[first:last]]
    return "".join(pieces)


def spans_around(text: str, places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Where that stands which `surroundings` shows."""
    return [(0, len(text))] if len(text) < LONG_TEXT else list(_widened(text, places))


def in_parts(text: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    """All of `text`: every second part is one of `spans`, which are in order."""
    parts: list[str] = []
    done = 0
    for first, last in spans:
        parts += text[done:first], text[first:last]
        done = last
    return [*parts, text[done:]]


def places_of(text: str, words: Collection[str], word: re.Pattern[str]) -> list[tuple[int, int]]:
    """Where any of `words` stands in `text`, in order; each is what the expression `word` matches."""
    if len(words) > _MANY:
        return [found.span() for found in word.finditer(text) if found[0] in words]
    places = []
    for each in words:
        at = text.find(each)
        while at >= 0:
            places.append((at, at + len(each)))
            at = text.find(each, at + len(each))
    return sorted(places)


def _widened(text: str, places: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Each place with the words around it; places that share some of these as one."""
    starts = [start for start, _ in places]
    ends = list(accumulate([end for _, end in places], max))
    done = at = 0
    while at < len(places):
        first = _words_before(text, starts[at], done)
        last = _words_behind(text, ends[at])
        while (nearest := bisect_right(starts, last, at) - 1) > at:
            at = nearest
            last = max(last, _words_behind(text, ends[at]))
        yield first, last
        done = last
        at += 1


def _words_before(text: str, place: int, done: int) -> int:
    for reach in (_REACH, len(text)):
        before = text[max(done, place - reach) : place][::-1]
        found = _WORDS.match(before)
        size = found.end() if found else 0
        if size < len(before):
            break
    return place - size


def _words_behind(text: str, place: int) -> int:
    found = _WORDS.match(text, place)
    return found.end() if found else place


# From which words each code of a reading comes: `Index` counts them, `Places` says where they stand in the text.


class Index:
    """From which word each code of a reading comes; worked out when somebody asks, because hardly ever anybody does."""

    __slots__ = ("_build", "_every", "_left_out")

    def __init__(self, build: Callable[[], list[int]]) -> None:
        self._build = build
        self._left_out = ("", "")
        self._every: list[int] = []

    def leave_out(self, codes: str, code: str) -> None:
        """All places of `code` in `codes` are gone."""
        self._left_out = codes, code

    def __len__(self) -> int:
        return len(self.words())

    def __getitem__(self, place: int) -> int:
        return self.words()[place]

    def words(self) -> list[int]:
        if not self._every:
            codes, left_out = self._left_out
            every = self._build()
            self._every = list(compress(every, map(left_out.__ne__, codes))) if codes else every
        return self._every


class Places:
    """Which code of a reading stands for which part of the text; worked out when somebody asks."""

    __slots__ = ("_codes", "_ends", "_positions", "_starts")

    def __init__(self, codes: list[str], starts: list[int], ends: list[int]) -> None:
        """`codes` has the code of each word behind those of the unknown words before it, the others where it stands."""
        self._codes, self._starts, self._ends = codes, starts, ends
        self._positions: list[int] = []

    def span(self, position: int) -> tuple[int, int]:
        """Where the word stands whose code has this position."""
        word = bisect_left(self._all(), position)
        return self._starts[word], self._ends[word]

    def between(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """(position of its code, where it begins) for every word that begins in this part of the text."""
        positions = self._all()
        for at in range(bisect_left(self._starts, start), bisect_left(self._starts, end)):
            yield positions[at], self._starts[at]

    def _all(self) -> list[int]:
        if not self._positions:
            self._positions = [size - 1 for size in accumulate(map(len, self._codes))]
        return self._positions


# `Beginnings`: where one of many words may begin in a text, in time that does not depend on how many words there are.
#
# Each word belongs to one of eight groups, and a group is one bit. For each of the first letters there is a table
# that says which groups have a given character at that place. The text is translated with each table, and the
# results, moved so that the letters of a word lie above each other, are read as one long number each: where all of
# them have a bit in common, a word of that group may begin. Translating and combining run at the speed of memory; to
# look for sixty words one after the other takes six times as long.

_ANY_BYTE = range(256)
_WORD_BREAKS = [byte for byte in _ANY_BYTE if not bytes((byte,)).isalpha()]


class Beginnings:
    def __init__(self, *groups: str) -> None:
        """At most eight groups of words in lower case, of three to five characters each: `"cvc|cvv|key."`.

        A full stop at the end of a word says that no letter follows. Words that differ in one place only, or that are
        rare in every place, go well together.
        """
        tables = [bytearray(256) for _ in range(max(len(word) for group in groups for word in group.split("|")))]
        for bit, group in enumerate(groups):
            for word in group.split("|"):
                for place, table in enumerate(tables):
                    for byte in _accepted(word, place):
                        table[byte] |= 1 << bit
        self._tables = tuple(map(bytes, tables))

    def places(self, text: bytes) -> Iterator[int]:
        """Every place where one of the words may begin, in any case, and some where none does."""
        padded = text + b" " * len(self._tables)
        common = -1
        for place, table in enumerate(self._tables):
            common &= int.from_bytes(padded[place : place + len(text)].translate(table), "little")
        return _marked(common, len(text))


def _marked(common: int, length: int) -> Iterator[int]:
    """The places of all bytes of a long number that are not zero."""
    if common:
        marks = common.to_bytes(length, "little")
        at = -1
        for mark in marks.translate(None, b"\0"):
            at = marks.index(mark, at + 1)
            yield at


def _accepted(word: str, place: int) -> Iterable[int]:
    if place >= len(word):
        return _ANY_BYTE
    return _WORD_BREAKS if word[place] == "." else {ord(word[place]), ord(word[place].upper())}


# The words of a text as every language looks them up: which there are, and where those stand that somebody knows.

UNKNOWN = "."
BOUNDARY = "|"
BETWEEN = 31  # words each way; twice that is more than any rule spans
_MANY_WORDS = 1_000
ENDS = frozenset(".!?\n")  # the tokens that end a sentence


def most_apart(words: int) -> int:
    """How many words of so many can mean something, and yet most of a long text lies between them."""
    return words // (4 * BETWEEN) if words > _MANY_WORDS else 0


class Words:
    """The words of a text, looked up by every language: which there are, and where those stand that somebody knows."""

    __slots__ = ("_blank", "_text", "_where", "known", "tokens")

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.known = set(tokens)
        self._blank: list[str] = []
        self._text = ""
        self._where: dict[str, list[int]] = {}

    def locate(self, *vocabularies: Mapping[str, object]) -> None:
        """Notes where the words of all `vocabularies` stand, in one pass, so that a language looks at its own only."""
        where: dict[str, list[int]] = {}
        for vocabulary in vocabularies:
            for word in self.known & vocabulary.keys():
                where[word] = []
        for place, token in enumerate(self.tokens):
            if token in where:
                where[token].append(place)
        self._where = where

    def where(self, word: str) -> list[int]:
        return self._where[word]

    def places_of(self, words: Iterable[str]) -> list[int]:
        """Where any of these stands, in order."""
        return sorted([place for word in words for place in self._where[word]])

    def are_few(self, meant: Iterable[str]) -> bool:
        """Whether words stand so far from each other in a long text that most of it lies between them."""
        most = most_apart(len(self.tokens))
        for word in meant:
            most -= len(self._where[word])
            if most < 0:
                return False
        return True

    def unread_text(self) -> str:
        if not self._text:
            self._text = "".join(self.unread())
        return self._text

    def unread(self) -> list[str]:
        """One code per word, as if none meant anything; a list of its own for each caller."""
        if not self._blank:
            if self.known.isdisjoint(ENDS):
                self._blank = [UNKNOWN] * len(self.tokens)
            else:
                self._blank = [BOUNDARY if token in ENDS else UNKNOWN for token in self.tokens]
        return self._blank[:]


# Where concepts stand in a text of which each word has a code: numbers with a bit for each word or block of words.
#
# Each number is worked out when a rule first asks for it, and kept, because many rules name the same concepts.

BLOCK = 8  # words; rules that match nowhere are told by blocks of them
_LOOSE_GAP = 3  # gaps up to this size may cross a sentence end
_numbers: dict[int, tuple[int, ...]] = {}


class Standing:
    """Codes of words, and where the concepts stand that they mean."""

    __slots__ = (
        "_before", "_blocks", "_blocks_of", "_has_ends", "_lists", "_meaning", "_open", "_places", "_places_of",
        "codes",
    )  # fmt: skip

    def __init__(self, codes: str, meaning: Callable[[str], int]) -> None:
        self.codes = codes
        self._meaning = meaning
        self._lists: dict[int, list[list[int]]] = {}  # for each concept, where the codes stand that mean it
        self._blocks: dict[int, int] = {}  # of each concept
        self._places: dict[int, int] = {}
        self._blocks_of: dict[int, int] = {}  # of each set of concepts
        self._places_of: dict[int, int] = {}
        self._before: dict[Step, int] = {}
        self._has_ends = BOUNDARY in codes
        self._open: dict[tuple[int, int], int] = {}

    def places_of(self, concepts: int) -> int:
        """Where any of `concepts` stands, a bit for each place."""
        found = self._places_of.get(concepts)
        if found is None:
            if not self._lists:
                self._sort_by_concept()
            found = 0
            for each in numbers_of(concepts):
                if each in self._lists:
                    found |= self._places.get(each) or self._join(each)
            self._places_of[concepts] = found
        return found

    def _join(self, concept: int) -> int:
        places = chain.from_iterable(self._lists[concept])
        found = self._places[concept] = _as_number(places, len(self.codes))
        return found

    def blocks_of(self, concepts: int) -> int:
        """In which blocks of `BLOCK` words any of `concepts` stands, a bit for each block."""
        found = self._blocks_of.get(concepts)
        if found is None:
            if not self._lists:
                self._sort_by_concept()
            found, blocks = 0, self._blocks
            for each in numbers_of(concepts):
                found |= blocks.get(each, 0)
            self._blocks_of[concepts] = found
        return found

    def _sort_by_concept(self) -> None:
        lists, blocks, meaning = self._lists, self._blocks, self._meaning
        for code, places in _places_by_code(self.codes).items():
            inside = 0
            for place in places:
                inside |= 1 << place // BLOCK
            for each in numbers_of(meaning(code)):
                if each in lists:
                    lists[each].append(places)
                    blocks[each] |= inside
                else:
                    lists[each] = [places]
                    blocks[each] = inside

    def before_last(self, step: Step) -> int:
        """Where the last step of a rule can be reached from; many rules end alike."""
        found = self._before.get(step)
        if found is None:
            concepts, gap, without = step
            found = self._before[step] = self.before(self.places_of(concepts), gap, without)
        return found

    def before(self, places: int, gap: int, without: int) -> int:
        """The places that one of `places` follows behind at most `gap` words, none of them among `without`.

        Nor may the end of a sentence be between, unless the gap is small: one word per line is a disguise, no grammar.
        """
        strict = without or (gap > _LOOSE_GAP and self._has_ends)
        width = 1  # words that have been looked at
        while width <= gap:
            step = min(width, gap + 1 - width)
            nearer = places >> step
            places |= nearer & self._open_for(step, without) if strict else nearer
            width += step
        return places >> 1

    def _open_for(self, words: int, without: int) -> int:
        """The places from which on so many words are neither the end of a sentence nor among `without`."""
        key = words, without
        found = self._open.get(key)
        if found is None:
            if words == 1:
                closed = self.places_of(without) if without else 0
                found = ~(closed | _as_number(_places(BOUNDARY, self.codes), len(self.codes)))
            else:
                half = words // 2
                found = self._open_for(half, without) & (self._open_for(words - half, without) >> half)
            self._open[key] = found
        return found


def _places_by_code(codes: str) -> dict[str, list[int]]:
    """Where each code stands that means something."""
    if codes.count(UNKNOWN) * 6 > len(codes) * 5:  # then it is quicker to look for those that mean something
        return {code: list(_places(code, codes)) for code in set(codes) - {UNKNOWN, BOUNDARY}}
    found: dict[str, list[int]] = defaultdict(list)
    for place, code in enumerate(codes):
        found[code].append(place)
    found.pop(UNKNOWN, None)
    found.pop(BOUNDARY, None)
    return found


def _places(code: str, codes: str) -> Iterator[int]:
    place = codes.find(code)
    while place >= 0:
        yield place
        place = codes.find(code, place + 1)


def _as_number(places: Iterable[int], size: int) -> int:
    bits = bytearray(size // 8 + 1)
    for place in places:
        bits[place >> 3] |= 1 << (place & 7)
    return int.from_bytes(bits, "little")


def numbers_of(concepts: int) -> tuple[int, ...]:
    """The concepts of a set by their numbers, which are short; the tables have a few thousand sets in all."""
    found = _numbers.get(concepts)
    if found is None:
        found = _numbers[concepts] = tuple(each.bit_length() - 1 for each in bits_of(concepts))
    return found


def bits_of(mask: int) -> Iterator[int]:
    """Each concept of a set by itself."""
    while mask:
        lowest = mask & -mask
        yield lowest
        mask ^= lowest


# Words that mean something only together: finds the phrases of a lexicon among the words of a text.


def phrases_in(
    tokens: list[str], places: Iterable[int], phrases: Mapping[str, Endings]
) -> Iterator[tuple[int, int, int]]:
    """(start, end, meaning) of phrases, in order, none inside another; `places` are those of their first words."""
    done = 0
    for position in places:
        if position < done:
            continue
        seconds = phrases[tokens[position]]
        second = tokens[position + 1] if position + 1 < len(tokens) else ""
        if second not in seconds and "*" not in seconds:
            continue  # as most are
        length, mask = _phrase_at(tokens, position, seconds, second)
        if length:
            done = position + length
            yield position, done, mask


def _phrase_at(tokens: list[str], position: int, seconds: Endings, second: str) -> tuple[int, int]:
    """How many words the phrase that begins here has, and what it means; none is (0, 0)."""
    for rest, mask in seconds.get(second, ()):
        if not rest or _continues(tokens[position + 2 : position + 2 + len(rest)], rest):
            return 2 + len(rest), mask
    for rest, mask in seconds.get("*", ()):
        if _continues(tokens[position + 1 : position + 1 + len(rest)], rest):
            return 1 + len(rest), mask
    return 0, 0


def _continues(tokens: Sequence[str], rest: Sequence[str]) -> bool:
    if tokens == rest:
        return True
    stem = rest[-1]
    return (
        stem[-1] == "*" and len(tokens) == len(rest) and tokens[:-1] == rest[:-1] and tokens[-1].startswith(stem[:-1])
    )


_FIRST_CODE = 0xB0
_JOINERS = str.maketrans("-.&=", "____")  # text is cut into words at these signs, so the lexicon is too

_bits: dict[str, int] = {}


def bit(concept: str) -> int:
    """The bit that stands for a concept, the same in every language."""
    if concept not in _bits:
        _bits[concept] = 1 << len(_bits)
    return _bits[concept]


def known_bits() -> dict[str, int]:
    return _bits


class Lexicon:
    """The vocabulary of one language: words, stems ("instruc*") and phrases ("from_now_on"), each with its concepts."""

    def __init__(self, name: str, tables: Iterable[Mapping[str, str]]) -> None:
        self.name = name
        self.masks: dict[str, int] = {}
        self.stems: dict[str, int] = {}
        # first word -> second word -> (the words after it, meaning), longest first
        self.phrases: dict[str, dict[str, list[tuple[list[str], int]]]] = {}
        self._codes: dict[int, str] = {}
        self._meanings: dict[str, int] = {UNKNOWN: 0, BOUNDARY: 0}
        self._code_of: dict[str, str] = {}
        for table in tables:
            for concept, words in table.items():
                self._add(bit(concept), words)
        self._finish_phrases()
        for mask in self.masks.values():
            self.code(mask)

    def state(self) -> tuple[object, ...]:
        """Everything this lexicon knows, as plain values for the compiled tables."""
        return self.masks, self.stems, self.phrases, list(self._codes)

    @classmethod
    def restore(cls, name: str, state: tuple[Any, ...]) -> Lexicon:
        lexicon = cls(name, [])
        lexicon.masks, lexicon.stems, lexicon.phrases, codes = state
        lexicon._codes = {mask: chr(_FIRST_CODE + index) for index, mask in enumerate(codes)}
        lexicon._meanings |= {code: mask for mask, code in lexicon._codes.items()}
        return lexicon

    def _add(self, concept: int, words: str) -> None:
        for entry in words.translate(_JOINERS).split():
            parts = [part for part in entry.split("_") if part] if "_" in entry else [entry]
            if len(parts) > 1:
                self._add_phrase(parts, concept)
                continue
            word = parts[0]
            if word[-1] == "*":
                self.stems[word[:-1]] = self.stems.get(word[:-1], 0) | concept
            else:
                self.masks[word] = self.masks.get(word, 0) | concept

    def _add_phrase(self, words: list[str], concept: int) -> None:
        second = "*" if words[1][-1] == "*" else words[1]
        rest = words[1:] if second == "*" else words[2:]
        endings = self.phrases.setdefault(words[0], {}).setdefault(second, [])
        for index, (known, mask) in enumerate(endings):
            if known == rest:
                endings[index] = (known, mask | concept)
                return
        endings.append((rest, concept))

    def _finish_phrases(self) -> None:
        """A phrase still means what its words mean ("the user" is a user), except that "no longer" is no negation.

        Opaque phrases ("password reset") name a thing of their own and mean nothing else.
        """
        positive = ~bit("not")
        opaque = bit("opaque")
        masks = self.masks
        for first, seconds in self.phrases.items():
            for second, endings in seconds.items():
                meaning = masks.get(first, 0) | masks.get(second, 0)
                for index, (rest, mask) in enumerate(endings):
                    for word in rest:
                        meaning |= masks.get(word, 0)
                    endings[index] = (rest, mask if mask & opaque else mask | meaning & positive)
                    self.code(endings[index][1])
                endings.sort(key=_longest_first)

    def code(self, mask: int) -> str:
        if mask not in self._codes:
            code = self._codes[mask] = chr(_FIRST_CODE + len(self._codes))
            self._meanings[code] = mask
        return self._codes[mask]

    def meanings(self) -> list[int]:
        """Every set of concepts that a word or phrase can have."""
        return list(self._codes)

    def mask_behind(self, code: str) -> int:
        return self._meanings[code]

    def read(self, words: Words, stemmed: Mapping[str, int] | None = None) -> Reading | None:
        """The concepts of `words` in order; None when there are none. `stemmed` adds what stems say about words."""
        masks = self.masks
        meanings = {word: masks[word] for word in words.known & masks.keys()}
        for word, mask in (stemmed or {}).items():
            meanings[word] = mask | masks.get(word, 0)
        starts = words.known & self.phrases.keys()
        if not meanings and not starts:
            return None
        if words.are_few(meanings.keys() | starts):
            return self._read_few(words, meanings, starts)
        codes = words.unread()
        present = 0
        for word, mask in meanings.items():
            present |= mask
            code = self.code(mask)
            for place in words.where(word):
                codes[place] = code
        return self._with_phrases("".join(codes), present, words.tokens, words.places_of(starts))

    def read_alone(self, tokens: list[str]) -> Reading | None:
        """The same for words that no other language reads: each is looked up where it stands."""
        if not self._code_of:
            ends = dict.fromkeys(ENDS, BOUNDARY)
            self._code_of = ends | {word: self.code(mask) for word, mask in self.masks.items()}
        read = "".join(map(self._code_of.get, tokens, repeat(UNKNOWN)))
        if len(read) - read.count(UNKNOWN) - read.count(BOUNDARY) <= most_apart(len(tokens)):
            words = Words(tokens)
            words.locate(self.masks, self.phrases)
            return self.read(words)
        present = 0
        for code in set(read):
            present |= self._meanings[code]
        starts = compress(range(len(tokens)), map(self.phrases.__contains__, tokens))
        return self._with_phrases(read, present, tokens, starts)

    def _with_phrases(self, read: str, present: int, tokens: list[str], starts: Iterable[int]) -> Reading | None:
        """What the words of a text mean one by one, and as phrases, which begin at `starts`."""
        pieces: list[str] = []
        done = 0
        joined: list[tuple[int, int]] = []
        for position, end, mask in phrases_in(tokens, starts, self.phrases):
            pieces += read[done:position], self.code(mask)
            done = end
            joined.append((position, end))
            present |= mask
        codes = "".join([*pieces, read[done:]])
        return Reading(self, codes, Index(lambda: _unjoined(len(tokens), joined)), present) if present else None

    def _read_few(self, words: Words, meanings: Mapping[str, int], starts: AbstractSet[str]) -> Reading | None:
        """A reading of a long text in which few words mean something: of what is between, as much as a rule spans."""
        meant: dict[int, tuple[int, int]] = {}
        for word, mask in meanings.items():
            for place in words.where(word):
                meant[place] = place + 1, mask
        for position, end, mask in phrases_in(words.tokens, words.places_of(starts), self.phrases):
            meant[position] = end, mask
        unread = words.unread_text()
        codes: list[str] = []
        spans: list[tuple[int, int]] = []  # of the words that each piece of the codes stands for
        done = present = 0
        for place in sorted(meant):
            if place < done:
                continue
            end, mask = meant[place]
            if place - done > 2 * BETWEEN:
                left, right = done + BETWEEN, place - BETWEEN
                sign = BOUNDARY if unread.find(BOUNDARY, left, right) >= 0 else UNKNOWN
                codes += unread[done:left], sign, unread[right:place]
                spans += (done, left), (left, left + 1), (right, place)
            else:
                codes.append(unread[done:place])
                spans.append((done, place))
            codes.append(self.code(mask))
            spans.append((place, place + 1))
            done = end
            present |= mask
        codes.append(unread[done : done + BETWEEN])
        spans.append((done, done + BETWEEN))
        index = Index(lambda: [place for start, end in spans for place in range(start, min(end, len(words.tokens)))])
        return Reading(self, "".join(codes), index, present) if present else None


class Reading(Standing):
    """A text as concepts: `codes` (one character per word), where each came from, and which concepts may occur."""

    __slots__ = ("index", "lexicon", "places", "present")

    def __init__(
        self,
        lexicon: Lexicon,
        codes: str,
        index: Index,
        present: int,
        places: Places | None = None,
    ) -> None:
        # Where every third "word" is a sentence end, the ends are a disguise and say nothing.
        if codes.count(BOUNDARY) * 3 > len(codes):
            index.leave_out(codes, BOUNDARY)
            codes = codes.replace(BOUNDARY, "")
        super().__init__(codes, lexicon.mask_behind)
        self.lexicon = lexicon
        self.places = places
        self.index = index
        self.present = present

    def holds(self, start: int, end: int, concepts: int) -> bool:
        """Whether any word between two places means one of `concepts`."""
        meaning = self.lexicon.mask_behind
        return any(meaning(code) & concepts for code in set(self.codes[start:end]))


def _unjoined(words: int, joined: Iterable[tuple[int, int]]) -> list[int]:
    """The places of all `words` but those inside phrases, which have one code."""
    every: list[int] = []
    done = 0
    for start, end in joined:
        every += range(done, start + 1)
        done = end
    return [*every, *range(done, words)]


def concept_mask(alternatives: str) -> int:
    mask = 0
    for concept in alternatives.split("|"):
        if concept not in _bits:
            raise ScannerUnavailable(
                f"threat rules name the concept {concept!r}, which no lexicon defines; mend the rule"
            )
        mask |= _bits[concept]
    return mask


def _longest_first(ending: tuple[list[str], int]) -> int:
    return -len(ending[0])
