"""Reveals what a text says to a model: folds look-alikes, undoes encodings, and reads disguised words.

The stored text stays untouched. Each function is linear in the length of the text.
"""

from __future__ import annotations

import binascii
import os.path
import re
import unicodedata

from hermes.base.errors import ScannerUnavailable
from hermes.base.values import lazy_pattern
from hermes.safety.wording import share_known, weights

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Folding: one case, no look-alikes, nothing invisible.

CONFUSABLES = os.path.join(os.path.dirname(__file__), "data", "confusables.txt")
_SIGNS = {"apostrophe": "'", "space": " ", "bar": "|", "slash": "/", "hyphen": "-", "colon": ":"}
_BRAILLE = "⠁⠃⠉⠙⠑⠋⠛⠓⠊⠚⠅⠇⠍⠝⠕⠏⠟⠗⠎⠞⠥⠧⠺⠭⠽⠵"
_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_SYMBOL_ALPHABETS = (0x1F1E6, 0x1F130, 0x1F150, 0x1F170)  # regional indicators, squared, negative circled and squared
# Default_Ignorable_Code_Point, format controls without a glyph, and the replacement characters
IGNORABLE_RANGES = (
    (0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F),
    (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFD), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)  # fmt: skip
# Accents are dropped; the marks of other scripts are vowels and stay.
_ACCENT_RANGES = (
    (0x300, 0x36F),
    (0x483, 0x489),
    (0x1AB0, 0x1AFF),
    (0x1DC0, 0x1DFF),
    (0x20D0, 0x20FF),
    (0xFE20, 0xFE2F),
)
# Scripts in real use: their letters are read as Latin ones only in words that otherwise make no sense.
_LIVING = "\u0370-\u05ff\u0900-\u0fff\u10a0-\u10ff\u1200-\u137f"
_LIVING_LETTER = lazy_pattern(f"[{_LIVING}]")
_LIVING_WORD = lazy_pattern(f"(?<![a-z{_LIVING}])[a-z]*[{_LIVING}][a-z{_LIVING}]*")
_PLAIN = frozenset({"Lo", "Ll", "Cs", "So", "Nd", "Mc"})
_DROPPED = frozenset({"Me", "Cc", "Cf", "Cn", "Co"})
_LONGEST_EXPANSION = 4  # one Arabic ligature expands to 18 letters; a text full of them must not grow
_ASCII_CONTROLS = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127))
_ANSI = lazy_pattern(r"\x1b\[[0-9;?]{0,16}[A-Za-z]")
_JAMO = lazy_pattern("[\uac00-\ud7a3]?[\u1100-\u11ff]+")
_CAMEL = lazy_pattern("[a-z][A-Z]")
_CAMEL_WORD = lazy_pattern("(?<![A-Za-z])[A-Za-z]*?[a-z][A-Z][A-Za-z]*")
_CAMEL_PART = lazy_pattern("[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_SHORTEST_CAMEL = 2.5  # letters of each part on average; less is tHiS
_FEWEST_SKELETON = 3


class _FoldTable(dict[int, str]):
    """Maps a code point to the letters it is read as, and caches each answer."""

    def __init__(self) -> None:
        super().__init__()
        self.skeleton: dict[int, str] = {}
        for name, alikes in _confusables():
            for alike in alikes:
                for form in {alike, alike.lower(), alike.upper()}:
                    if len(form) == 1 and not form.isascii():
                        living = _LIVING_LETTER.match(form)
                        (self.skeleton if living else self)[ord(form)] = _SIGNS.get(name, name)
        for first, last in IGNORABLE_RANGES:
            self.update(dict.fromkeys(range(first, last + 1), ""))
        for index, letter in enumerate(_ALPHABET):
            self[ord(_BRAILLE[index])] = letter
            for start in _SYMBOL_ALPHABETS:
                self[start + index] = letter
        for code in range(0x80):  # last, so that nothing above can change how ASCII is read
            char = chr(code)
            self[code] = char.lower() if char.isprintable() or char in "\t\n\r" else ""

    def __missing__(self, code: int) -> str:
        folded = self[code] = self._work_out(code)
        return folded

    def _work_out(self, code: int) -> str:
        char = chr(code)
        category = unicodedata.category(char)
        if category in _PLAIN and not unicodedata.decomposition(char):
            return char
        if category in _DROPPED or any(first <= code <= last for first, last in _ACCENT_RANGES):
            return ""
        if category == "Mn":
            return char
        if category[0] == "Z":
            return "\n" if category in {"Zl", "Zp"} else " "
        parts = unicodedata.normalize("NFKD", char).lower()
        parts = unicodedata.normalize("NFKD", parts) if len(parts) == 1 else parts
        if len(parts) > _LONGEST_EXPANSION:
            return char
        letters = [part for part in parts if part.isalpha()]  # of a letter in brackets, the letter
        return "".join(self[ord(part)] if part != char else part for part in letters or parts)


_tables: list[_FoldTable] = []


def fold(text: str) -> str:
    """Lower-cases `text`, replaces look-alikes, drops accents, controls and invisible characters, splits camelCase."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if _CAMEL.search(text):
        text = _CAMEL_WORD.sub(_camel_apart, text)
    if text.isascii():
        return (text if text.isprintable() else text.translate(_ASCII_CONTROLS)).lower()
    if not _tables:
        _tables.append(_FoldTable())
    table = _tables[0]
    folded = text.translate(table)
    if _JAMO.search(folded):
        folded = _JAMO.sub(lambda found: unicodedata.normalize("NFC", found[0]), folded)
    return _latinised(folded, table.skeleton) if _LIVING_LETTER.search(folded) else folded


def _latinised(folded: str, skeleton: dict[int, str]) -> str:
    """Rewrites words that mix Latin letters with look-alikes; all words, if most become English."""
    known = weights().knows
    words = {word: word.translate(skeleton) for word in set(_LIVING_WORD.findall(folded))}
    whole = {word: latin for word, latin in words.items() if not (word[0].isascii() or any(map(str.isascii, word)))}
    english = [latin for latin in whole.values() if len(latin) >= _FEWEST_SKELETON and latin.isascii() and known(latin)]
    read = words if len(english) * 2 > len(whole) else {word: words[word] for word in words if word not in whole}
    return _LIVING_WORD.sub(lambda found: read.get(found[0], found[0]), folded) if read else folded


def _camel_apart(found: re.Match[str]) -> str:
    parts: list[str] = _CAMEL_PART.findall(found[0])
    return " ".join(parts) if len(found[0]) >= _SHORTEST_CAMEL * len(parts) else found[0]


def _confusables() -> Iterator[tuple[str, str]]:
    for line in read_lines(CONFUSABLES):
        name, _, alikes = line.partition(": ")
        yield name, alikes.replace(" ", "")


def read_lines(path: str) -> list[str]:
    """Reads the lines of a table in `data/`, without its comments; raises ScannerUnavailable if that fails."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ScannerUnavailable(
            f"the threat scanner cannot read {path} ({error}); nothing can be judged harmless without it:"
            " reinstall Hermes"
        ) from error
    return [line for line in lines if line and not line.startswith("# ")]


# Encodings, undone in place.

DEPTH = 3  # layers of encodings inside each other
# Encodings that nobody uses by accident: an attack in one of them is refused.
DELIBERATE = frozenset({"base64", "base32", "ascii85", "hex", "binary", "character codes", "morse"})
_MORSE_LETTERS = (
    ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --.."
    " ----- .---- ..--- ...-- ....- ..... -.... --... ---.. ----."
)
_MORSE = dict(zip(_MORSE_LETTERS.split(), "abcdefghijklmnopqrstuvwxyz0123456789", strict=True))
_DOTS, _DASHES = ".\u00b7\u2022", "\u2013\u2014\u2212_-"
_MORSE_SIGNS = str.maketrans(_DOTS + _DASHES, "..." + "-----")
# Bytes that no text in UTF-8 has: controls, and those that UTF-8 never uses.
_NO_TEXT = bytes({*range(32), 127, 0xC0, 0xC1, *range(0xF5, 0x100)} - {9, 10, 13})


class Decoded:
    """A decoded text, the encodings it had, and the parts whose encoding nobody uses by accident."""

    __slots__ = ("payload", "text", "used")

    def __init__(self, text: str) -> None:
        self.text = text
        self.used: dict[str, None] = {}
        self.payload: list[str] = []


def decode(text: str) -> Decoded:
    """Undoes every encoding found in a text, in place, so that each part is read with the words around it."""
    decoded = Decoded(text)
    for _ in range(DEPTH):
        before = decoded.text
        for name, hints, pattern, replace in _steps():
            if not hints or any(hint in decoded.text for hint in hints):
                _undo(decoded, name, pattern, replace)
        if decoded.text == before:
            break
    return decoded


def _undo(decoded: Decoded, name: str, pattern: re.Pattern[str], replace: Callable[[str], str]) -> None:
    known: dict[str, str] = {}  # what makes a text long is often repetition

    def undone(found: re.Match[str]) -> str:
        piece = found[0]
        if piece not in known:
            known[piece] = replace(piece)
            if name in DELIBERATE and known[piece] != piece:
                decoded.payload.append(known[piece])
        return known[piece]

    after = pattern.sub(undone, decoded.text)
    if after != decoded.text:
        decoded.text = after
        decoded.used[name] = None


_compiled_steps: list[tuple[str, tuple[str, ...], re.Pattern[str], Callable[[str], str]]] = []


def _steps() -> list[tuple[str, tuple[str, ...], re.Pattern[str], Callable[[str], str]]]:
    """Each encoding: its name, literals (a text must contain one), the pattern that finds it, and its decoder."""
    if not _compiled_steps:
        sign = f"[{_DOTS}{_DASHES}]"
        byte = r"(?:0x|\\x)?[0-9a-fA-F]{2}"
        escape = r"\\[uU]\{[0-9a-fA-F]{1,6}\}|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}"
        listed: tuple[tuple[str, tuple[str, ...], str, Callable[[str], str]], ...] = (
            ("hyphenation", ("-\n",), r"(?<=[^\W\d_])-\n[ \t]*(?=[^\W\d_])", lambda _: ""),
            ("unicode escapes", ("\\u", "\\U"), escape, _from_escape),
            ("html entities", ("&amp;",), r"&amp;(?:amp;)*(?=#?[a-zA-Z0-9]{2,8};)", lambda _: "&"),
            ("html entities", ("&#",), r"&#(?:[0-9]{1,7}|[xX][0-9a-fA-F]{1,6});?", _from_escape),
            ("html entities", ("&",), r"&[a-zA-Z]{2,8};", _from_named),
            ("url escapes", ("%25",), r"%25(?:25)*(?=[0-9a-fA-F]{2})", lambda _: "%"),
            ("url escapes", ("%",), r"%[0-9a-fA-F]{2}(?:%[0-9a-fA-F]{2})*+", _from_percent),
            ("quoted printable", ("=",), r"=[0-9A-F]{2}(?:=[0-9A-F]{2}){3,}+", _from_percent),
            ("octal escapes", ("\\1", "\\0"), r"\\[01][0-7]{2}(?:\\[01][0-7]{2})++", _from_octal),
            ("ascii85", ("<~",), r"<~[!-u\sz]{5,20000}?~>", _from_ascii85),
            ("binary", ("0", "1"), r"(?<![01])[01]{8}(?:[\s,;|_-]{0,2}[01]{8}){2,}+", _from_binary),
            ("hex", (), rf"(?<![0-9a-zA-Z]){byte}(?:[\s,:;-]{{0,2}}{byte}){{5,}}+", _from_hex),
            ("character codes", (), r"(?<![0-9])[0-9]{1,3}(?:[\s,;.-]{1,2}[0-9]{1,3}){5,}+", _from_numbers),
            ("morse", tuple(_DOTS + _DASHES), rf"{sign}{{1,6}}+(?:[ /|\n]{{1,3}}{sign}{{1,6}}+){{5,}}+", _from_morse),
            ("base32", (), r"(?<![A-Za-z0-9])(?:[A-Z2-7]{16,}+|[a-z2-7]{32,}+)={0,6}", _from_base32),
            ("base64", (), r"(?<![\w+/-])[A-Za-z0-9+/_-]{40,}+(?:\r?\n[A-Za-z0-9+/_-]{4,}+)+={0,2}", _from_base64),
            (
                "base64",
                (),
                r"(?<![\w+/-])[A-Za-z0-9+/]{4}(?: [A-Za-z0-9+/]{4}){4,}+(?: [\w+/]{2,3})?={0,2}",
                _from_base64,
            ),
            ("base64", (), r"(?<![\w+/-])[A-Za-z0-9+/_-]{8,}+={0,2}", _from_base64),
            ("punycode", ("xn--",), r"xn--[a-z0-9-]{2,60}", _from_punycode),
        )
        _compiled_steps.extend((name, hints, re.compile(source), undo) for name, hints, source, undo in listed)
    return _compiled_steps


def _readable(raw: bytes) -> str:
    """The text in `raw`, or an empty string if it is not text."""
    if len(raw) > 7 and raw.count(0) * 2 >= len(raw) - 1 and not any(raw[1:16:2]):  # noqa: PLR2004 - PowerShell's UTF-16
        raw = raw[::2]
    if (len(raw) - len(raw.translate(None, _NO_TEXT))) * 20 > len(raw):
        return ""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return ""
    shown = sum(map(str.isprintable, text)) + text.count("\n") + text.count("\t") + text.count("\r")
    letters = sum(map(str.isalpha, text[:64]))
    return f" {text} " if shown >= 0.95 * len(text) and letters * 2 >= min(64, len(text)) else ""


def _from_base64(piece: str) -> str:
    body = "".join(piece.split()).rstrip("=")
    if body[1:].islower() or body.isdigit() or body.isupper():
        return piece  # a word or a number; encoded text mixes cases
    if len(body) % 4 == 1:
        body = body[:-1]
    return _readable(binascii.a2b_base64(body.replace("-", "+").replace("_", "/") + "==")) or piece


def _from_base32(piece: str) -> str:
    import base64

    body = piece.rstrip("=").upper()
    body = body[: len(body) - {1: 1, 3: 1, 6: 1}.get(len(body) % 8, 0)]
    return _readable(base64.b32decode(body + "=" * (-len(body) % 8))) or piece


def _from_ascii85(piece: str) -> str:
    import base64

    try:
        return _readable(base64.a85decode(piece, adobe=True)) or piece
    except ValueError:
        return piece


def _from_hex(piece: str) -> str:
    digits = re.sub(r"0x|\\x|[^0-9a-fA-F]", "", piece)
    return _readable(bytes.fromhex(digits[: len(digits) // 2 * 2])) or piece


def _from_percent(piece: str) -> str:
    text = bytes.fromhex(piece.replace("%", "").replace("=", "")).decode("utf-8", "replace")
    return text.replace("\ufffd", "~") if text.strip("\ufffd") else piece


def _from_escape(piece: str) -> str:
    decimal = piece[0] == "&" and piece[2] not in "xX"
    code = int(piece[2:].rstrip(";")) if decimal else int(piece.strip("\\uUxX{}&#;"), 16)
    return chr(code) if code < 0x110000 else piece  # noqa: PLR2004 - the end of Unicode


def _from_named(piece: str) -> str:
    from html.entities import html5

    return html5.get(piece[1:], piece)


def _from_octal(piece: str) -> str:
    return "".join(chr(int(part, 8) & 0xFF) for part in piece.split("\\") if part)


def _from_binary(piece: str) -> str:
    bits = re.sub("[^01]", "", piece)
    return _readable(bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits) - 7, 8))) or piece


def _from_numbers(piece: str) -> str:
    codes = [int(part) for part in re.findall("[0-9]+", piece)]
    if all(31 < code < 127 or code in (9, 10) for code in codes):  # noqa: PLR2004 - printable ASCII
        return _readable(bytes(codes)) or piece
    if all(code <= 27 for code in codes) and len(codes) > 7:  # noqa: PLR2004 - a is 1, z is 26, 0 or 27 a space
        return " " + "".join(chr(96 + code) if 0 < code < 27 else " " for code in codes) + " "  # noqa: PLR2004
    return piece


def _from_morse(piece: str) -> str:
    signs = piece.translate(_MORSE_SIGNS).strip()
    words = [word.split() for word in re.split(r"\s*[/|]\s*|\s{2,}", signs)]
    if not all(letter in _MORSE for word in words for letter in word):
        return piece
    return f" {' '.join(''.join(_MORSE[letter] for letter in word) for word in words)} "


def _from_punycode(piece: str) -> str:
    try:
        return piece[4:].encode().decode("punycode")
    except (UnicodeError, ValueError, OverflowError):
        return piece


# Disguised words. A reading counts only if it turns nonsense into English.

_ROT13 = str.maketrans(_ALPHABET, "nopqrstuvwxyzabcdefghijklm")
_ATBASH = str.maketrans(_ALPHABET, _ALPHABET[::-1])
_LEET = str.maketrans("0134578@$!+|€", "oieastbasitle")
_LEET_SIGN = lazy_pattern(r"[a-z][0134578@$!+|€]|[0134578@$+|€][a-z]")
_LEET_WORD = lazy_pattern(r"(?<![a-z0134578@$!+|€])[0134578@$!+|€]*[a-z][a-z0134578@$!+|€]*")
_LIST_MARK = lazy_pattern(r"(?:\s*(?:[-*+•>|#]{1,6}|\(?[0-9]{1,3}[.):\]]|\(?[a-z][.)])){0,3}\s*")
_LETTERS = lazy_pattern(r"[a-z]{2,}")
_GLUED = lazy_pattern(r"[a-z]{12,}")
_LETTER_GAPS = lazy_pattern(r"\s{2,}|\s?[/|]\s?|\s*\n\s*")
_BETWEEN_LETTERS = lazy_pattern(r"[^\w\n]|_")
_FEWEST_LINES = 4  # words in a column that are read as a sentence
_LONGEST_LINE = 60
_FEWEST_WORDS = 3  # on a line that is read as it is
_FEWEST_LETTERS = 8  # single letters on a line that is read as spaced out
_SAMPLE = 12  # words of a line from which one can tell whether it makes sense
_SENSE = 0.65  # share of words that are common English
_NONSENSE = 0.5  # share below which a line may be a cipher
_LONGEST_GLUED = 400  # letters that are segmented together, so that the work stays linear
_LONGEST_KNOWN = 14  # letters of a word that segmenting tries


def disguises(folded: str) -> Iterator[tuple[str, str]]:
    """Other readings of a folded text: how it was disguised and what it says, for the affected lines only."""
    lines = [line for line in folded.split("\n") if line.strip()]
    if joined := _joined_lines(lines):
        yield "one word per line", joined
    if spaced := _joined_letters(lines):
        yield "letter spacing", spaced
    if _LEET_SIGN.search(folded) and (letters := _from_leet(folded)):
        yield "leetspeak", letters
    yield from _ciphers(lines)
    if glued := _apart("\n".join(line for line in lines if _GLUED.search(line))):
        yield "missing spaces", glued


def _joined_lines(lines: list[str]) -> str:
    """Joins neighbouring lines of one or two words, up to the end of a sentence."""
    parts: list[str] = []
    group: list[str] = []
    for line in [*lines, "x x x x"]:
        mark = _LIST_MARK.match(line)
        words = line[mark.end() :].split() if mark and len(line) < _LONGEST_LINE else []
        if 0 < len(words) < _FEWEST_WORDS:
            group += words
        if not 0 < len(words) < _FEWEST_WORDS or line.endswith((".", "!", "?")):
            if len(group) >= _FEWEST_LINES:
                parts.append(" ".join(group))
            group = []
    return "\n".join(parts)


def _joined_letters(lines: list[str]) -> str:
    """Joins single letters in lines that mostly consist of them; wider gaps separate words."""
    found: list[str] = []
    for line in lines:
        pieces = _BETWEEN_LETTERS.split(line)
        alone = sum(len(piece) == 1 for piece in pieces)
        if alone >= _FEWEST_LETTERS and alone * 10 > sum(map(bool, pieces)) * 6:
            words = [_BETWEEN_LETTERS.sub("", word) for word in _LETTER_GAPS.split(line)]
            text = " ".join(words)
            found.append(_apart(text) or text)
    return "\n".join(found)


def _from_leet(folded: str) -> str:
    """The lines with digits and signs read as letters; a 1 may be an i or an l, so the known word wins."""
    known = weights().knows
    changed: dict[str, str] = {}
    for word in set(_LEET_WORD.findall(folded)):
        if not word.isalpha() and any(map(str.isalpha, word)):
            read = word.translate(_LEET)
            other = word.replace("1", "l").replace("!", "l").translate(_LEET)
            mixed = word.replace("1", "i", 1).replace("1", "l").translate(_LEET)
            changed[word] = next((form for form in (read, other, mixed) if known(form)), read)
    sense = [word for word, read in changed.items() if len(read) > 1 and known(read)]
    if len(sense) * 2 < len(changed) or len(sense) < 2:  # noqa: PLR2004 - one may be a name
        changed = {word: changed[word] for word in sense} if len(sense) > 1 else {}
    if not changed:
        return ""
    lines = (line for line in folded.split("\n") if any(word in changed for word in _LEET_WORD.findall(line)))
    return "\n".join(_LEET_WORD.sub(lambda found: changed.get(found[0], found[0]), line) for line in lines)


def _ciphers(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Lines that make no sense as they are, but do when a cipher is undone."""
    found: dict[str, list[str]] = {}
    for line in lines:
        sample = _LETTERS.findall(line[:400])[:_SAMPLE]
        if len(sample) < _FEWEST_WORDS or share_known(sample) >= _NONSENSE:
            continue
        for name, read in _CIPHERS:
            if share_known(read(" ".join(sample)).split()) >= _SENSE:
                found.setdefault(name, []).append(read(line))
                if name == "reversed":
                    found.setdefault("reversed words", []).append(" ".join(word[::-1] for word in line.split()))
                break
    yield from ((name, "\n".join(texts)) for name, texts in found.items())


_CIPHERS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("rot13", lambda text: text.translate(_ROT13)),
    ("reversed", lambda text: text[::-1]),
    ("atbash", lambda text: text.translate(_ATBASH)),
)


def _apart(text: str) -> str:
    """Splits words that were written without spaces; empty if there are none."""
    known = weights().knows
    after = _GLUED.sub(lambda found: found[0] if known(found[0]) else _segmented(found[0]) or found[0], text)
    return after if after != text else ""


def _segmented(letters: str) -> str:
    """The fewest known words that spell these letters; empty if none do.

    Finds the cheapest way to each letter in turn. A word costs 1 (1.4 with two letters, because those fit by chance), a
    letter outside any word 3.
    """
    if len(letters) > _LONGEST_GLUED:
        parts = [letters[at : at + _LONGEST_GLUED] for at in range(0, len(letters), _LONGEST_GLUED)]
        return " ".join(_segmented(part) or part for part in parts)
    known = weights().is_common
    best: list[tuple[float, int]] = [(0.0, 0)]  # cost up to each letter, and where its last word begins
    for end in range(1, len(letters) + 1):
        choices = [(best[end - 1][0] + 3.0, end - 1)]  # a letter that belongs to no word
        starts = (start for start in range(max(0, end - _LONGEST_KNOWN), end - 1) if known(letters[start:end]))
        choices += [(best[start][0] + 1.0 + (end - start == 2) * 0.4, start) for start in starts]  # noqa: PLR2004
        best.append(min(choices))
    words: list[str] = []
    end = len(letters)
    while end:
        start = best[end][1]
        words.append(letters[start:end])
        end = start
    strange = sum(len(word) == 1 for word in words)
    return " ".join(reversed(words)) if len(words) > 1 and strange * 6 <= len(letters) else ""
