"""Undoes encodings in place, so that a text reads as a model understands it after decoding."""

from __future__ import annotations

import binascii
import re
from bisect import bisect_left, bisect_right
from itertools import accumulate, islice

from hermes.safety import languages
from hermes.safety import rules as atoms
from hermes.safety.disguises import LONGEST_WORD, STRONG_LENGTH, telling_places, vocabulary
from hermes.safety.lexicon import LONG_TEXT, Runs, in_parts, places_of, spans_around

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

_MORSE_LETTERS = (
    ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --.."
    " ----- .---- ..--- ...-- ....- ..... -.... --... ---.. ----."
)
_MORSE = dict(zip(_MORSE_LETTERS.split(), "abcdefghijklmnopqrstuvwxyz0123456789", strict=True))
DOTS = ".\u00b7\u2022"
DASHES = "\u2013\u2014\u2212_-"
_MORSE_SIGNS = str.maketrans(DOTS + DASHES, "..." + "-----")
_BETWEEN_BYTES = dict.fromkeys(map(ord, ",:;-"))
_NO_TEXT = bytes({*range(32), 127, 0xC0, 0xC1, *range(0xF5, 0x100)} - {9, 10, 13})
_FEWEST_LETTERS = 3
_LETTERS_APART = re.compile(r"\b\w \w \w\b")
# a to z are 0 to 25, 0 to 9 are 26 to 35
_PUNYCODE_DIGITS = bytes(code - 97 if code >= 97 else max(0, code - 22) for code in range(128)).ljust(256)  # noqa: PLR2004
_named: dict[str, str] = {}
# Base64 whose first five bytes may begin a text in UTF-8 (or in PowerShell's UTF-16), as far as single letters tell;
# from 20 bytes on some may be odd. Of random letters one piece in eight passes, and the rest costs nothing.
_ANY = "[A-Za-z0-9+/_-]"
_ASCII_TWICE = "[CDI-Za-f](?:[AC-HQS-Xgi-nwyz0-3][ABD-FH-JL-NP-RT-VX-Zb-df-hj-ln-pr-tv-xz013-57-9/_]"
_ASCII_AND_MORE = "|[M-Pc-fs-v89+/_-][CGKOSWaeimquy26+-])"
_MORE = f"[w-z0-9][I-LYZabo-r4-7]{_ANY}"
_NEXT = f"(?:[ACDI-Za-f][AC-HM-QS-Xc-gi-ns-wyz0-389+/_-]|[w-z0-9][I-LYZabo-r4-7]|[g-v]{_ANY})"
BASE64 = f"(?<!{_ANY})(?:(?:{_ASCII_TWICE}{_ASCII_AND_MORE}|{_MORE}){_ANY}{_NEXT}|{_ANY}{{25}}){_ANY}{{2,}}={{0,2}}"


def _readable(raw: bytes) -> str:
    """The text in `raw`, or an empty string when it is no text."""
    if len(raw) > 7 and raw.count(0) * 2 >= len(raw) - 1 and not any(raw[1:16:2]):  # noqa: PLR2004 - PowerShell's UTF-16
        raw = raw[::2]
    # Most of what only looks encoded shows by its bytes; an exception would take as long as all the rest.
    if (len(raw) - len(raw.translate(None, _NO_TEXT))) * 20 > len(raw):
        return ""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return ""
    if not text.isprintable():
        shown = sum(map(str.isprintable, text)) + text.count("\n") + text.count("\t") + text.count("\r")
        if shown < 0.95 * len(text):
            return ""
    return text


def from_base64(piece: str) -> str:
    if piece[1:].islower() or piece.isdigit() or piece.isupper():
        return piece
    body = piece.rstrip("=")
    if len(body) % 4 == 1:
        body = body[:-1]
    if "-" in body or "_" in body:
        body = body.replace("-", "+").replace("_", "/")
    text = _readable(binascii.a2b_base64(body + "=="))
    return f" {text} " if _has_letters(text) else piece


def from_spaced_letters(piece: str) -> str:
    """Letters with a sign between them as words; a sign that is seldom among them stands between words."""
    letters, signs = piece[::2], piece[1::2]
    usual = max(set(signs), key=signs.count)
    if sum(map(str.isalpha, letters)) * 5 < len(letters) * 4:
        return piece  # a number, or a date
    gaps = ["" if sign == usual else " " for sign in signs]
    text = "".join([each for pair in zip(letters, [*gaps, ""], strict=True) for each in pair])
    return letters if _LETTERS_APART.search(text) else text  # where the words end is not to be seen then


def joined(piece: str) -> str:
    """Base64 in several pieces as one, if it says anything."""
    whole = "".join(piece.split())
    return whole if from_base64(whole) != whole else piece


def from_base32(piece: str) -> str:
    import base64

    body = piece.rstrip("=").upper()
    body = body[: len(body) - {1: 1, 3: 1, 6: 1}.get(len(body) % 8, 0)]
    text = _readable(base64.b32decode(body + "=" * (-len(body) % 8)))
    return f" {text} " if _has_letters(text) else piece


def from_ascii85(piece: str) -> str:
    import struct

    digits = "".join(piece[2:-2].split()).replace("z", "!!!!!")
    missing = -len(digits) % 5
    values = [code - 33 for code in (digits + "u" * missing).encode()]
    groups = [a * 85**4 + b * 85**3 + c * 85**2 + d * 85 + e for a, b, c, d, e in zip(*[iter(values)] * 5, strict=True)]
    try:
        raw = struct.pack(f">{len(groups)}I", *groups)
    except struct.error:
        return piece
    text = _readable(raw[: len(raw) - missing])
    return f" {text} " if text else piece


def from_hex(piece: str) -> str:
    digits = piece.replace("0x", "").replace("\\x", "") if "x" in piece else piece
    text = _readable(bytes.fromhex("".join(digits.translate(_BETWEEN_BYTES).split())))
    return f" {text} " if _has_letters(text) else piece


def from_percent(piece: str) -> str:
    text = bytes.fromhex(piece.replace("%", "").replace("=", "")).decode("utf-8", "replace")
    # Bytes that are no text say nothing; among others a sign stands for them that means nothing either.
    return text.replace("\ufffd", "~") if text.strip("\ufffd") else piece


def from_escape(piece: str) -> str:
    if piece[0] == "&" and piece[2] not in "xX":
        code = int(piece[2:].rstrip(";"))
    else:
        code = int(piece.strip("\\uUxX{}&#;"), 16)
    return chr(code) if code < 0x110000 else piece  # noqa: PLR2004 - the end of Unicode


def from_escaped_ampersand(_: str) -> str:
    return "&"


def from_escaped_percent(_: str) -> str:
    return "%"


def from_octal(piece: str) -> str:
    return "".join(chr(int(part, 8) & 0xFF) for part in piece.split("\\") if part)


def from_named(piece: str) -> str:
    if not _named:
        from html.entities import html5

        from hermes.safety.languages import english, latin_languages

        # A name that is a word is read as that, too: "do &not; tell" is an order.
        words = english().lexicon.masks.keys() | latin_languages().exact.keys()
        _named.update(
            (name, f" {sign} {name[:-1]} " if name[:-1].lower() in words else sign) for name, sign in html5.items()
        )
    return _named.get(piece[1:], piece)


def from_binary(piece: str) -> str:
    bits = re.sub("[^01]", "", piece)
    text = _readable(bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits) - 7, 8)))
    return f" {text} " if _has_letters(text) else piece


def from_decimal(piece: str) -> str:
    codes = [int(part) for part in re.findall("[0-9]+", piece)]
    if all(31 < code < 127 or code in (9, 10) for code in codes):  # noqa: PLR2004 - printable ASCII
        return " " + "".join(map(chr, codes)) + " "
    if all(code <= 27 for code in codes) and len(codes) > 7:  # noqa: PLR2004 - a is 1, z is 26, 0 or 27 a space
        return " " + "".join(chr(96 + code) if 0 < code < 27 else " " for code in codes) + " "  # noqa: PLR2004
    return piece


def from_morse(piece: str) -> str:
    signs = piece.translate(_MORSE_SIGNS).strip()
    if not _MORSE.keys() >= set(re.split(r"[\s/|]+", signs)):
        return piece
    words = re.split(r"\s*[/|]\s*|\s{2,}", signs)
    text = " ".join(["".join([_MORSE[letter] for letter in word.split()]) for word in words])
    return f" {text} " if _has_letters(text) else piece


def from_punycode(piece: str) -> str:
    """RFC 3492, because Python's own takes five times as long and a text may be full of it."""
    if piece[-1].isdigit():
        return piece  # no number ends with one
    plain, _, digits = piece[4:].rpartition("-")
    chars = list(plain)
    size = len(chars) + 1
    code, place, bias = 128, 0, 72
    before, weight, k = 0, 1, 36
    for digit in digits.encode().translate(_PUNYCODE_DIGITS):
        place += digit * weight
        least = 1 if k <= bias else 26 if k >= bias + 26 else k - bias
        if digit >= least:
            weight *= 36 - least
            k += 36
            continue
        delta = (place - before) // (2 if before else 700)
        delta += delta // size
        steps = 0
        while delta > 455:  # noqa: PLR2004 - (36 - 1) * 26 // 2
            delta //= 35
            steps += 36
        bias = steps + 36 * delta // (delta + 38)
        code += place // size
        place %= size
        if code > 0x10FFFF:  # noqa: PLR2004 - the end of Unicode
            return piece
        chars.insert(place, chr(code))
        place += 1
        size += 1
        before, weight, k = place, 1, 36
    label = "".join(chars)
    # The last number may have no end, and no name has spaces in it.
    return piece if k > 36 or len(label.split()) != 1 else label  # noqa: PLR2004


def _has_letters(text: str) -> bool:
    return text.isalpha() or (bool(text) and sum(map(str.isalpha, text[:64])) >= min(_FEWEST_LETTERS, len(text)))


# Tells which encoded pieces of a text say something as they stand, too.
#
# Base64 is letters, and with small and capital letters chosen for it a sentence without spaces can be made to decode
# to something else. A model reads the sentence, so it is read here as well.

_LETTERS = re.compile(f"[a-z]{{{STRONG_LENGTH},}}")  # so many are hardly ever a word by chance
_ODD = re.compile(r"[^a-z\s]")
_FEW = 7  # one in so many
_IN_A_ROW = re.compile(f"[a-z]{{{LONGEST_WORD + 1},}}")
_SET_APART = re.compile("(?<![a-z0-9])(?:([a-z]{3,4})(?![a-z0-9])|([a-z]{2})[^a-z0-9]+(?=([a-z]{2,4})(?![a-z0-9])))")
_ENCODED = re.compile(r"[A-Za-z0-9+/=_\s-]+")
_NOT_BY_CHANCE = 16
_ATOM = re.compile("[\ue800-\ue8ff]")
_LEET = (("0134578", str.maketrans("0134578", "oieastb")), ("1", str.maketrans("0134578", "oleastb")))
_known: list[_Known] = []


def with_words(pieces: Mapping[str, str]) -> set[str]:
    """Those of `pieces` that hold a word as they stand: a long one, a short one set apart, or several in a row.

    Each comes with what it decodes to. Who chooses capitals so that it can be decoded at all gets signs, hardly ever
    words; what decodes to words was meant to, so it is no word in disguise.
    """
    odd = [piece for piece, text in pieces.items() if piece.startswith("xn--") or not _is_prose(text)]
    lines = _Lines(odd)
    found = lines.at(_telling(lines.text)) | with_names(odd)
    found |= lines.at(map(re.Match.start, _IN_A_ROW.finditer(lines.text)))
    for digits, letters in _LEET:
        lines = _Lines([piece for piece in odd if not piece.startswith("xn--") and not set(digits).isdisjoint(piece)])
        found |= lines.at(_telling(lines.text.translate(letters)))
    return found


def with_names(pieces: Iterable[str]) -> set[str]:
    """Those of `pieces` in which a short word is set apart from the rest, or an address stands, or a secret's name."""
    lines = _Lines(pieces)
    return lines.at(_set_apart(lines.text)) | lines.at(map(re.Match.start, _ATOM.finditer(atoms.mark(lines.text))))


def is_known(word: str) -> bool:
    return word.lower() in _known_words().words


class _Lines:
    """Many pieces as one text, in small letters, so that they are looked through at once."""

    __slots__ = ("_lines", "_starts", "text")

    def __init__(self, pieces: Iterable[str]) -> None:
        self._lines = list(pieces)
        self._starts = list(accumulate([len(line) + 3 for line in self._lines], initial=0))
        self.text = "\n1\n".join(self._lines).lower()

    def at(self, places: Iterable[int]) -> set[str]:
        """The pieces that stand there."""
        return {self._lines[bisect_right(self._starts, place) - 1] for place in places}


def _is_prose(text: str) -> bool:
    """Whether a text is small letters and spaces, but for some signs and the very first letter, or encoded again."""
    shown = text.strip()
    letters = shown.replace(" ", "")[1:]
    if letters.isalpha() and letters == letters.lower():
        return True
    if len(shown) > _NOT_BY_CHANCE and _ENCODED.fullmatch(shown):
        return True
    odd = _ODD.findall(shown[1:])
    if not shown.isascii():
        odd = [sign for sign in odd if sign.isupper() or not sign.isalpha()]
    return len(odd) * _FEW < len(shown)


def _set_apart(text: str) -> Iterator[int]:
    """Where a known word of three or four letters, or one of two before another, stands by itself."""
    words = _known_words().words
    for found in _SET_APART.finditer(text):
        alone, first, second = found.groups()
        if alone in words or (first in words and second in words):
            yield found.start()


def _telling(text: str) -> Iterator[int]:
    """Where words stand that somebody knows."""
    letters = set(_LETTERS.findall(text))
    stems = _known_words().stems
    long = (letters & _known_words().words) | {word for word in letters if word[:STRONG_LENGTH] in stems}
    yield from (start for start, _ in places_of(text, long, _LETTERS))
    words = vocabulary(languages.english().lexicon)
    for place in telling_places(text, words):
        for at in (place - 1, place):
            if any(text.startswith(word, at) for word in words.telling.get(text[at : at + STRONG_LENGTH], ())):
                yield at


def _known_words() -> _Known:
    if not _known:
        _known.append(_Known())
    return _known[0]


class _Known:
    """The words of all languages in Latin letters, ciphered ones too, and the first letters of their longer stems."""

    __slots__ = ("stems", "words")

    def __init__(self) -> None:
        english, others = languages.english().lexicon, languages.latin_languages()
        self.words = frozenset({*english.masks, *english.phrases, *others.exact, *vocabulary(english).ciphered})
        self.stems = frozenset(stem[:STRONG_LENGTH] for stem in others.stems if len(stem) >= STRONG_LENGTH)


# A text whose encodings were undone, and the way back from what it says to what stands there.

LETTER_SPACING = "letter spacing"
SEAM = "\0\1\0!\n\n"  # between parts that are read as one text: what no encoding is made of, and the end of a sentence
_OF_WORDS = frozenset({"hyphenation", "ascii85"})  # what is undone are words, or may be any
_OF_LETTERS = frozenset({"base64", "base32", "punycode"})  # it may be
_OF_SIGNS = frozenset({"hex", "character codes", "unicode escapes"})  # hardly, but an address or a short word may be
_OF_HEX_DIGITS = frozenset({"hex", "url escapes", "quoted printable"})  # which words begin or end with, too
_FEWEST_APART = 100  # characters from one place to the next; where they are nearer, all of the text is around them
_NEAR = 100  # characters, and on to the next space
_PARTING = 4  # words; fewer part a sentence no more than as many plain ones would
_SPACE_OR_SIGN = re.compile(r"[\s.]")
_ADDRESS_BEFORE = re.compile(r"(?:@|\w\.|//)\Z")
_ADDRESS_BEHIND = re.compile(r"@|\.\w")
_CHANGED = re.compile("xx*")  # which is searched for ten times as fast as "x+"
_LETTER_CLASS = re.compile(r"[^\W\d_]+")
_LONGEST_WORD = 20


class Decoded:
    """A text with its encodings undone layer by layer: their names, and where each part of it stood in the text itself.

    `other_readings` are what else it may mean: what was undone but says something as it stands, too, and the words
    around something encoded as if that were not there. `letter_by_letter` is a text that was written so.
    """

    __slots__ = ("_changes", "_steps", "letter_by_letter", "other_readings", "text", "used")

    def __init__(self, text: str) -> None:
        self.text = text
        self.used: list[str] = []
        self.other_readings: list[Decoded] = []
        self.letter_by_letter: list[Decoded] = []
        self._steps: list[_Step] = []
        self._changes: tuple[int, int, list[tuple[int, int]]] = (0, 0, [])  # from and up to which step, and where

    def replace(self, name: str, before: list[str], after: list[str]) -> None:
        """`before` are all parts of the text in order, and `after` is what each has become."""
        step = _Step(before, after)
        self._keep_what_has_two_meanings(name, step)
        self._take(step, [name])

    def replace_near_changes(self, before: list[str], inner: Decoded, after: list[str]) -> None:
        """A deeper layer was undone, in every second part of the text by itself."""
        self.other_readings += inner.other_readings
        self.letter_by_letter += inner.letter_by_letter
        self._take(_Step(before, after), inner.used)

    def every_second(self, parts: list[str]) -> Decoded:
        """A text of every second one of these parts of it."""
        after = [SEAM] * len(parts)
        after[1::2] = parts[1::2]
        after[0] = after[-1] = ""
        return self._read_as(parts, after)

    def _read_as(self, before: list[str], after: list[str], *, sets_aside: bool = False) -> Decoded:
        other = Decoded(self.text)
        other.used, other._steps = self.used[:], self._steps[:]
        other._take(_Step(before, after, sets_aside=sets_aside), [])
        return other

    def _take(self, step: _Step, names: list[str]) -> None:
        self.used += [name for name in names if name not in self.used]
        self._steps.append(step)
        self.text = "".join(step.after)

    def _keep_what_has_two_meanings(self, name: str, step: _Step) -> None:
        if name == LETTER_SPACING:
            self.letter_by_letter.append(self._read_as([self.text], [self.text]))
            return
        meant: set[str] = set()
        if name in _OF_WORDS:
            meant |= step.changed().keys()
        elif name in _OF_LETTERS:
            meant |= with_words(step.changed())
        elif name in _OF_SIGNS:
            meant |= with_names(step.changed())
        if name in _OF_HEX_DIGITS:
            meant |= {piece for piece, word in step.words_cut() if is_known(word)}
        if meant:
            self.other_readings.append(self.around(step.places_before(meant)))

    def around(self, places: list[tuple[int, int]]) -> Decoded:
        """The text as it is now around some places."""
        return self.every_second(in_parts(self.text, spans_around(self.text, places)))

    def keep_what_reads_on(self, layer: int) -> None:
        """Keeps what the text says if nothing stood where several words were decoded from this step on.

        Else a sentence could be hidden by something encoded in its midst, and an address by what is a part of it.
        """
        if not any(step.may_part_others() for step in self._steps[layer:]):
            return
        text = self.text
        self._changes = layer, self.steps(), self.changed_since(layer)
        places = [
            (start, end)
            for start, end in self._changes[2]
            if len(text[start:end].split(None, _PARTING)) >= _PARTING or _splits_an_address(text, start, end)
        ]
        if places:
            parts = in_parts(text, places)
            after = parts[:]
            after[1::2] = [_instead(text, *place) for place in places]
            bare = self._read_as(parts, after, sets_aside=True)
            if any(map(str.isalnum, bare.text)):
                self.other_readings.append(bare.around(bare.changed_since(self.steps())))

    def changed_since(self, layer: int) -> list[tuple[int, int]]:
        """Where that stands which was undone from this step on."""
        first, last, known = self._changes
        if (first, last) == (layer, self.steps()):
            return known
        changes = ""
        for step in self._steps[layer:]:
            changes = step.carry(changes)
        return [found.span() for found in _CHANGED.finditer(changes)]

    def origin(self, start: int, end: int) -> tuple[int, int, bool]:
        """Where a part of the decoded text stands in the text itself, and whether any word of it was encoded."""
        return self._traced(start, end, self.steps())

    def _traced(self, start: int, end: int, after: int) -> tuple[int, int, bool]:
        """The same for the text as it was after so many steps."""
        was_encoded = False
        for at in reversed(range(after)):
            step = self._steps[at]
            if step.sets_aside and (kept := list(step.kept(start, end))):
                traced = [self._traced(*part, at) for part in kept]
                return traced[0][0], traced[-1][1], was_encoded or any(encoded for *_, encoded in traced)
            was_encoded = was_encoded or step.changes_words(start, end)
            start, end = step.origin(start, end)
        return start, end, was_encoded

    def near_changes(self, layer: int) -> list[str] | None:
        """The text in parts, every second one near to what was undone from this step on; None when they are many."""
        text = self.text
        if len(text) < LONG_TEXT:
            return None
        places = self.changed_since(layer)
        if len(places) * _FEWEST_APART > len(text):
            return None
        parts: list[str] = []
        done = 0
        for start, end in places:
            if end + _NEAR <= done:
                continue
            first = text.rfind(" ", done, max(done, start - _NEAR)) + 1 or done
            last = text.find(" ", end + _NEAR)
            last = last if last >= 0 else len(text)
            if parts and first <= done:
                parts[-1] += text[done:last]
            else:
                parts += text[done:first], text[first:last]
            done = last
        return [*parts, text[done:]]

    def steps(self) -> int:
        return len(self._steps)


def _splits_an_address(text: str, start: int, end: int) -> bool:
    if text[end : end + 1] not in "@." and text[start - 1 : start] not in "@./":
        return False
    return bool(_ADDRESS_BEHIND.match(text, end) or _ADDRESS_BEFORE.search(text, max(0, start - 2), start))


class _Step:
    """The parts of a text before and after one encoding was undone, or what it said was set aside."""

    __slots__ = ("_before", "_ends_after", "_ends_before", "after", "sets_aside")

    def __init__(self, before: list[str], after: list[str], *, sets_aside: bool = False) -> None:
        self._before, self.after, self.sets_aside = before, after, sets_aside
        self._ends_before: list[int] = []
        self._ends_after: list[int] = []

    def changed(self) -> dict[str, str]:
        """What each part has become that is not what it was."""
        return {part: became for part, became in zip(self._before, self.after, strict=True) if part != became}

    def places_before(self, meant: Collection[str]) -> list[tuple[int, int]]:
        """Where the parts stood that are among those `meant`."""
        ends = accumulate(map(len, self._before))
        return [(end - len(part), end) for end, part in zip(ends, self._before, strict=True) if part in meant]

    def words_cut(self) -> Iterator[tuple[str, str]]:
        """The parts that have changed of which two letters belonged to a word beside them, with that word."""
        pieces, became, beside = self._before[1::2], self.after[1::2], self._before[::2]
        for piece, new, left, right in zip(pieces, became, beside, beside[1:], strict=False):
            if right[:1].isalpha() and piece[-2:].isalpha() and not piece[-3].isalnum() and piece != new:
                yield piece, piece[-2:] + "".join(_LETTER_CLASS.findall(right[:_LONGEST_WORD])[:1])
            if left[-1:].isalpha() and piece[:2].isalpha() and not piece[2].isalnum() and piece != new:
                yield piece, "".join(_LETTER_CLASS.findall(left[-_LONGEST_WORD:])[-1:]) + piece[:2]

    def may_part_others(self) -> bool:
        """Whether anything that was decoded can be several words, or stand in an address."""
        became = set(self.after).difference(self._before)
        return _SPACE_OR_SIGN.search("".join(became)) is not None

    def carry(self, changes: str) -> str:
        """An "x" for each sign after the step that was changed by it or is one in `changes`, a "." for each other."""
        pairs = zip(self._before, self.after, strict=True)
        if not changes:
            return "".join(["." * len(part) if part == became else "x" * len(became) for part, became in pairs])
        ends = accumulate(map(len, self._before))
        return "".join(
            [
                changes[end - len(part) : end] if part == became else "x" * len(became)
                for (part, became), end in zip(pairs, ends, strict=True)
            ]
        )

    def changes_words(self, start: int, end: int) -> bool:
        """Whether there is a letter or digit in this part of the text after the step that was not there before."""
        ends = self._ends()[1]
        first, last = _parts_at(start, end, ends)
        for at in range(first, last + 1):
            became = self.after[at]
            if became != self._before[at]:
                begin = ends[at] - len(became)
                if any(map(str.isalnum, became[max(0, start - begin) : max(0, end - begin)])):
                    return True
        return False

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """Where a part of the text after the step stood before it."""
        before, after = self._ends()
        first, last = _parts_at(start, end, after)
        begins, stops = before[first - 1] if first else 0, before[last]
        if self._before[first] == self.after[first]:
            begins += start - (after[first - 1] if first else 0)
        if self._before[last] == self.after[last]:
            stops -= after[last] - end
        return begins, stops

    def kept(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Where those parts of a part of the text after the step stood before it that it left as they were."""
        before, after = self._ends()
        first, last = _parts_at(start, end, after)
        for at in range(first, last + 1):
            if self._before[at] == self.after[at] != "":
                moved = before[at] - after[at]
                yield max(start, after[at] - len(self.after[at])) + moved, min(end, after[at]) + moved

    def _ends(self) -> tuple[list[int], list[int]]:
        if not self._ends_after:  # hardly ever asked for, and then often
            self._ends_before = list(accumulate(map(len, self._before)))
            self._ends_after = list(accumulate(map(len, self.after)))
        return self._ends_before, self._ends_after


def _parts_at(start: int, end: int, ends: list[int]) -> tuple[int, int]:
    """The first and the last part that a stretch of text touches, by where each part ends."""
    first = min(bisect_right(ends, start), len(ends) - 1)
    return first, max(first, min(bisect_left(ends, end), len(ends) - 1))


def _instead(text: str, start: int, end: int) -> str:
    """What stands for something set aside: no word, but it may be part of an address."""
    return (" " if text[start - 1 : start].isalnum() else "") + "-" + (" " if text[end : end + 1].isalnum() else "")


_LETTER_SIGNS = " .-*_|/,~+"
_FEWEST_LETTER_SIGNS = 8
_DEEPEST_NESTING = 3
_MANY_PLACES = 1_000
_FEWEST_DIGITS = 12  # fewer spell nothing
# What an expression can only match beside, and is found sooner.
_NEXT_LINE = re.compile("\n[A-Za-z0-9+/]{4}")
_HYPHENS = re.compile(r"[-\n]*+")
_compiled: dict[str, re.Pattern[str]] = {}


def decode(text: str, layers: int = _DEEPEST_NESTING) -> Decoded:
    """`text` with its encodings undone, so many layers of them."""
    decoded = Decoded(text)
    worked_out: dict[str, dict[str, str]] = {}  # what each piece says, for the next layer
    undone = 0
    for layer in range(layers):
        before = decoded.steps()
        near = decoded.near_changes(undone) if layer else None
        if near is None or not _undo_near_changes(decoded, near, worked_out):
            _undo_a_layer(decoded, worked_out)
        undone = before
        if decoded.steps() == before:
            break
    return decoded


def _undo_near_changes(decoded: Decoded, parts: list[str], worked_out: dict[str, dict[str, str]]) -> bool:
    """Undoes another layer where there was one; False when it cannot be done apart from the rest."""
    if len(parts) == 1:
        return True  # something was only left out, before all else was looked for
    inner = decoded.every_second(parts)
    _undo_a_layer(inner, worked_out)
    undone = inner.text.split(SEAM)
    if len(undone) != len(parts) // 2:
        return False
    after = parts[:]
    after[1::2] = undone
    if after != parts:
        decoded.replace_near_changes(parts, inner, after)
    return True


def _undo_a_layer(decoded: Decoded, worked_out: dict[str, dict[str, str]]) -> None:
    first = decoded.steps()
    if "-\n" in decoded.text:
        before = _parted_at_hyphens(decoded.text)
        after = before[:]
        after[1::2] = map(_without_hyphens, before[1::2])
        decoded.replace("hyphenation", before, after)
    joined = _join_letters(decoded.text)
    if joined != decoded.text:
        decoded.replace(LETTER_SPACING, [decoded.text], [joined])
    runs = Runs(decoded.text)
    for name, applies, source, replace in _STEPS:
        if not applies(decoded.text, runs):
            continue
        pattern = _compiled.get(source)
        if pattern is None:
            pattern = _compiled[source] = re.compile(f"({source})")
        where = _PLACES.get(name) or _PLACES.get(source)
        before = _parted(decoded.text, pattern, where(runs)) if where else pattern.split(decoded.text)
        # Each piece is worked out once: what makes a text long is often repetition.
        known = worked_out.setdefault(source, {})
        known |= {piece: replace(piece) for piece in set(before[1::2]) - known.keys()}
        after = before[:]
        after[1::2] = map(known.__getitem__, before[1::2])
        if after != before:
            decoded.replace(name, before, after)
            runs = Runs(decoded.text)
    decoded.keep_what_reads_on(first)


def _parted(text: str, pattern: re.Pattern[str], places: Iterable[tuple[int, int]]) -> list[str]:
    """What `pattern.split` gives, when all it can match lies inside of `places`; of many it is quicker itself."""
    few = list(islice(places, _MANY_PLACES))
    if len(few) == _MANY_PLACES:
        return pattern.split(text)
    parts: list[str] = []
    done = 0
    for start, end in few:
        for found in pattern.finditer(text, max(start, done), end):
            parts += text[done : found.start()], found[0]
            done = found.end()
    return [*parts, text[done:]]


def _parted_at_hyphens(text: str) -> list[str]:
    """All of a text: every second part is hyphens and line breaks, of which some hyphen ends a line."""
    parts: list[str] = []
    done, at = 0, text.find("-\n")
    while at >= 0 and (row := _HYPHENS.match(text, at)):
        start = done + len(text[done:at].rstrip("-\n"))
        parts += text[done:start], text[start : row.end()]
        done = row.end()
        at = text.find("-\n", done)
    return [*parts, text[done:]]


def _without_hyphens(signs: str) -> str:
    """Hyphens and line breaks without the hyphens that end a line, and without those that end one then."""
    open_, left = 0, 0
    for sign in signs:
        if sign == "-":
            open_ += 1
        elif open_:
            open_ -= 1
        else:
            left += 1
    return "\n" * left + "-" * open_


def _join_letters(text: str) -> str:
    """Words written letter by letter, put together again; wider gaps stay as the gaps between words."""
    if _ALL_APART.fullmatch(text):
        return from_spaced_letters(text)  # whatever signs are between them
    for sign in _LETTER_SIGNS:
        pieces = text.count(sign)
        if pieces < _FEWEST_LETTER_SIGNS or pieces * 4 < len(text):
            continue
        single = list(map(len, text.split(sign))).count(1)
        if single * 10 > pieces * 6:
            escaped = re.escape(sign)
            return re.sub(rf"(?<=[^\s{escaped}]){escaped}(?=[^\s{escaped}])", "", text)
    return text


def _holds(*signs: str) -> Callable[[str, Runs], bool]:
    return lambda text, _: any(sign in text for sign in signs)


def _mixed_case(_: str, runs: Runs) -> bool:
    return runs.mixed_case()


def _mixed_lines(text: str, runs: Runs) -> bool:
    return _NEXT_LINE.search(text) is not None and runs.mixed_case()


def _fours(_: str, runs: Runs) -> bool:
    return runs.groups_of_four()


def _always(_text: str, _runs: Runs) -> bool:
    return True


def _many_digits(text: str) -> bool:
    left = _FEWEST_DIGITS
    for digit in "0123456789":
        left -= text.count(digit)
        if left <= 0:
            return True
    return False


def _hex(text: str, runs: Runs) -> bool:
    return runs.has_hex() and _many_digits(text)


_BASE64_IN_LINES = r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{20,}(?:\r?\n[A-Za-z0-9+/]{4,}){1,2000}={0,2}"
_BASE64_IN_FOURS = r"(?<![A-Za-z0-9+/])(?:[A-Za-z0-9+/]{4} ){4,}[A-Za-z0-9+/]{2,4}={0,2}"
# Where some encodings can stand at all.
_PLACES: dict[str, Callable[[Runs], Iterable[tuple[int, int]]]] = {
    "spaced letters": Runs.letters_apart,
    "binary": Runs.binary,
    "character codes": Runs.numbers,
    "hex": Runs.hex,
    "morse": Runs.morse,
    "base32": Runs.base32,
    BASE64: Runs.base64,
    _BASE64_IN_LINES: Runs.base64_in_lines,
    _BASE64_IN_FOURS: Runs.base64_in_fours,
}
_LETTER_SIGN = f"[{re.escape(_LETTER_SIGNS)}]"
_ALL_APART = re.compile(rf"[^\W_](?:{_LETTER_SIGN}[^\W_]){{5,}}")
_SIGN = f"[{DOTS}{DASHES}]"
_HEX_BYTE = r"(?:0x|\\x)?[0-9a-fA-F]{2}"
_STEPS: tuple[tuple[str, Callable[[str, Runs], bool], str, Callable[[str], str]], ...] = (
    (
        "spaced letters",
        _always,
        rf"(?<![^\W_])[^\W_](?:{_LETTER_SIGN}[^\W_](?![^\W_])){{5,}}",
        from_spaced_letters,
    ),
    (
        "unicode escapes",
        _holds("\\u", "\\U"),
        r"\\[uU]\{[0-9a-fA-F]{1,6}\}|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}",
        from_escape,
    ),
    # What was escaped twice and more, as pages and logs are full of it, is no deeper than what was escaped once.
    ("html entities", _holds("&amp;"), r"&amp;(?:amp;)*(?=#?[a-zA-Z0-9]{2,8};)", from_escaped_ampersand),
    ("html entities", _holds("&#"), r"&#(?:[0-9]{1,7}|[xX][0-9a-fA-F]{1,6});?", from_escape),
    ("html entities", _holds("&"), r"&[a-zA-Z]{2,8};", from_named),
    ("url escapes", _holds("%25"), r"%25(?:25)*(?=[0-9a-fA-F]{2})", from_escaped_percent),
    ("url escapes", _holds("%"), r"%[0-9a-fA-F]{2}(?:%[0-9a-fA-F]{2})*", from_percent),
    ("quoted printable", _holds("="), r"=[0-9A-F]{2}(?:=[0-9A-F]{2}){3,}", from_percent),
    ("octal escapes", _holds("\\1", "\\0"), r"\\[01][0-7]{2}(?:\\[01][0-7]{2})+", from_octal),
    ("ascii85", _holds("<~"), r"<~[!-u\sz]{5,20000}~>", from_ascii85),
    ("binary", _always, r"[01]{8}[\s,;|_-]{0,2}(?:[01]{8}[\s,;|_-]{0,2}){2,}", from_binary),
    (
        "hex",
        _hex,
        rf"[0-9a-fA-F]{{2}}[\s,:;-]{{0,2}}(?:{_HEX_BYTE}[\s,:;-]{{0,2}}){{5,}}+",
        from_hex,
    ),
    (
        "character codes",
        _always,
        r"(?<![0-9])[0-9]{1,3}(?:[\s,;.-]{1,2}[0-9]{1,3}){5,}(?![0-9])",
        from_decimal,
    ),
    ("morse", _always, rf"(?:{_SIGN}{{1,6}}[ /|\n]{{1,3}}){{5,}}{_SIGN}{{1,6}}", from_morse),
    ("base64", _mixed_lines, _BASE64_IN_LINES, joined),
    ("base64", _fours, _BASE64_IN_FOURS, joined),
    ("base32", _mixed_case, r"(?<![A-Za-z0-9])(?:[A-Z2-7]{16,}|[a-z2-7]{32,})={0,6}", from_base32),
    ("base64", _mixed_case, BASE64, from_base64),
    ("punycode", _holds("xn--"), r"xn--[a-z0-9-]{2,60}", from_punycode),
)
