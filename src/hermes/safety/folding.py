"""Folds text to what a model reads: one case, no look-alikes, nothing invisible. The stored text stays untouched."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from itertools import accumulate, islice

from hermes.safety.tables import load_table

_SIGNS = {"apostrophe": "'", "space": " ", "bar": "|", "slash": "/", "hyphen": "-", "colon": ":"}
_BRAILLE = "⠁⠃⠉⠙⠑⠋⠛⠓⠊⠚⠅⠇⠍⠝⠕⠏⠟⠗⠎⠞⠥⠧⠺⠭⠽⠵"
_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_SYMBOL_ALPHABETS = (0x1F1E6, 0x1F130, 0x1F150, 0x1F170)  # regional indicators, squared, negative circled and squared

# Default_Ignorable_Code_Point, plus format controls that carry no glyph
IGNORABLE_RANGES = (
    (0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F),
    (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)  # fmt: skip
# Ideographs and Korean syllables that read as what they are; blocks of them are worked out at once.
_UNCHANGED_RANGES = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x20000, 0x2A6DF))
_BLOCK = 256
_PLAIN = frozenset({"Lo", "Ll", "Cs", "So", "Nd", "Mc"})
_DROPPED = frozenset({"Mn", "Me", "Cc", "Cf", "Cn", "Co"})  # marks, controls, and what nobody has given a meaning
_LONGEST_EXPANSION = 4  # one ligature stands for 18 letters of a blessing; a text full of them must not grow


class FoldTable(dict[int, str]):
    """Maps a code point to what it reads as; each answer is worked out once."""

    def __init__(self) -> None:
        super().__init__()
        for name, alikes in load_table("confusables.txt").items():
            for alike in alikes.replace(" ", ""):
                self._add(alike, _SIGNS.get(name, name))
        for first, last in IGNORABLE_RANGES:
            self.update(dict.fromkeys(range(first, last + 1), ""))
        for index, letter in enumerate(_ALPHABET):
            self[ord(_BRAILLE[index])] = letter
            for start in _SYMBOL_ALPHABETS:
                self[start + index] = letter
        for code in range(0x80):  # last, so that nothing above can change what ASCII reads as
            char = chr(code)
            self[code] = char.lower() if char.isprintable() or char in "\t\n\r" else ""

    def __missing__(self, code: int) -> str:
        for first, last in _UNCHANGED_RANGES:
            if first <= code <= last:  # a text may be full of them, each another one
                start = code // _BLOCK * _BLOCK
                block = range(max(first, start), min(last + 1, start + _BLOCK))
                self.update({each: chr(each) for each in block if each not in self})
                return self[code]
        folded = self[code] = self._work_out(code)
        return folded

    def _work_out(self, code: int) -> str:
        char = chr(code)
        category = unicodedata.category(char)
        if category in _PLAIN and not unicodedata.decomposition(char):
            return char
        if category in _DROPPED:
            return ""
        if category[0] == "Z":
            return "\n" if category in {"Zl", "Zp"} else " "
        parts = unicodedata.normalize("NFKD", char).lower()
        parts = unicodedata.normalize("NFKD", parts) if len(parts) == 1 else parts
        if len(parts) > _LONGEST_EXPANSION:
            return char
        letters = [part for part in parts if part.isalpha()]  # of a letter in brackets, the letter
        return "".join(self[ord(part)] if part != char else part for part in letters or parts)

    def _add(self, alike: str, letter: str) -> None:
        self[ord(alike)] = letter
        for form in (alike.lower(), alike.upper()):
            if len(form) == 1 and not form.isascii():
                self[ord(form)] = letter


_ASCII_CONTROLS = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127))
_ASCII = bytes(range(0x80))
_FEW = 64  # one in so many
_ANSI = r"\x1b\[[0-9;?]{0,16}[A-Za-z]"
_JAMO = re.compile("[\u1100-\u11ff]")
_JAMO_RUN = re.compile("[\uac00-\ud7a3]?[\u1100-\u11ff]+")
_tables: list[FoldTable] = []


def fold(text: str) -> str:
    """`text` with case, look-alikes, accents, marks and invisible characters folded away, for matching only."""
    if text.isascii():
        return _without_controls(text).lower()
    text = _without_ansi(text)
    is_nearly_ascii = _is_nearly_ascii(text)
    folded = _fold_each(text) if is_nearly_ascii else text.translate(fold_table())
    has_jamo = _JAMO.search(beyond_ascii(folded) if is_nearly_ascii else folded)
    # Marks are gone by now, so composing cannot run into the quadratic sorting of long mark sequences.
    return _JAMO_RUN.sub(_composed, folded) if has_jamo else folded


def _is_nearly_ascii(text: str) -> bool:
    return (len(text) - len(text.encode("ascii", "ignore"))) * _FEW < len(text)


def beyond_ascii(text: str) -> str:
    """The characters of a text that are not ASCII, in their order."""
    return text.encode("utf-8", "surrogatepass").translate(None, _ASCII).decode("utf-8", "surrogatepass")


def _fold_each(text: str) -> str:
    """Folds a text in which few characters are not ASCII: what stands between these is quickly done."""
    table = fold_table()
    pieces: list[str] = []
    done = 0
    for other in beyond_ascii(text):
        at = text.index(other, done)
        pieces += fold(text[done:at]), table[ord(other)]
        done = at + 1
    return "".join([*pieces, fold(text[done:])])


def folded_places(text: str, wanted: str) -> list[tuple[int, int]] | None:
    """Where the characters that an expression matches stand once a text is folded; None unless they are few.

    Nor when folding does more than replace characters.
    """
    if not _is_nearly_ascii(text) or "\x1b" in text:
        return None
    others = beyond_ascii(text)
    if _JAMO.search(others):
        return None
    found = set(re.findall(wanted, others))
    places: list[tuple[int, int]] = []
    done = place = 0
    for other in others:
        at = text.index(other, done)
        place += len(fold(text[done:at]))
        size = len(fold_table()[ord(other)])
        if other in found:
            places.append((place, place + size))
        place += size
        done = at + 1
    return places


def _composed(found: re.Match[str]) -> str:
    import unicodedata

    return unicodedata.normalize("NFC", found[0])


def fold_table() -> FoldTable:
    if not _tables:
        _tables.append(FoldTable())
    return _tables[0]


class Origin:
    """Where folded characters come from; worked out when somebody asks, and once for all who do."""

    __slots__ = ("_ends", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends = [0]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where the folded span [start, end) stands; (-1, -1) when folding did more than replace characters."""
        text = self._text
        if text.isascii() and len(_without_controls(text)) == len(text):
            return start, end
        if "\x1b" in text or _JAMO.search(beyond_ascii(text)):
            return -1, -1
        first, last = self._index_behind(start), self._index_behind(end - 1) + 1
        return (first, last) if first < last <= len(text) else (-1, -1)

    def _index_behind(self, folded_place: int) -> int:
        """Which character of the text became the one at `folded_place`."""
        text, table, ends = self._text, fold_table(), self._ends
        while ends[-1] <= folded_place and len(ends) * _BLOCK < len(text) + _BLOCK:  # whole blocks, in C
            start = (len(ends) - 1) * _BLOCK
            ends.append(ends[-1] + len(fold(text[start : start + _BLOCK])))
        block = bisect_right(ends, folded_place) - 1  # then one of them sign by sign
        start = block * _BLOCK
        each = accumulate((len(table[ord(char)]) for char in text[start : start + _BLOCK]), initial=ends[block])
        return start + sum(end <= folded_place for end in islice(each, 1, None))


def _without_controls(text: str) -> str:
    # isprintable is one pass in C; line breaks are the usual reason to look closer.
    if text.isprintable():
        return text
    return _without_ansi(text).translate(_ASCII_CONTROLS)


def _without_ansi(text: str) -> str:
    return re.sub(_ANSI, "", text) if "\x1b" in text else text
