"""Undoes encodings where they stand, so that the text reads as a model would understand it after decoding."""

from __future__ import annotations

import binascii
import re
from itertools import accumulate

from hermes.safety.surroundings import LONG_TEXT, surroundings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MORSE_LETTERS = (
    ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --.."
    " ----- .---- ..--- ...-- ....- ..... -.... --... ---.. ----."
)
_MORSE = dict(zip(_MORSE_LETTERS.split(), "abcdefghijklmnopqrstuvwxyz0123456789", strict=True))
_DOTS = ".\u00b7\u2022"
_DASHES = "\u2013\u2014\u2212_-"
_MORSE_SIGNS = str.maketrans(_DOTS + _DASHES, "..." + "-----")
_BETWEEN_BYTES = dict.fromkeys(map(ord, ",:;-"))
_SHORTEST_CODE = 8
_NO_TEXT = bytes({*range(32), 127, 0xC0, 0xC1, *range(0xF5, 0x100)} - {9, 10, 13})
_LETTER_SIGNS = " .-*_|/,~+"
_FEWEST_LETTER_SIGNS = 8
_FEWEST_LETTERS = 3
# Encodings that are undone where they stand; letter spacing puts words together all over the text.
_IN_PLACE = frozenset(
    {
        "unicode escapes", "html entities", "url escapes", "quoted printable", "octal escapes", "binary", "hex",
        "character codes", "punycode", "base64", "base32", "ascii85", "morse",
        "hyphenation",
    }
)  # fmt: skip
_SCRAP = re.compile("[0-9]{0,2}")  # what is left of a number cut in two, and means nothing
_ENCODED = re.compile("[A-Za-z0-9+/_-]{8}|[A-Za-z0-9+/]{4}[ \r\n][A-Za-z0-9+/]{4}")
LETTER_SPACING = "letter spacing"
_compiled: dict[str, re.Pattern[str]] = {}


def decode_once(text: str) -> tuple[str, list[str]]:
    """`text` with one layer of every encoding undone, and the names of the encodings met."""
    used: list[str] = []
    if "-\n" in text:
        text = text.replace("-\n", "")
        used.append("hyphenation")
    joined = _join_letters(text)
    if joined != text:
        text = joined
        used.append(LETTER_SPACING)
    answers: dict[Callable[[str], bool], bool] = {}
    for name, applies, source, replace in _STEPS:
        if applies not in answers:
            answers[applies] = applies(text)
        if not answers[applies]:
            continue
        pattern = _compiled.get(source)
        if pattern is None:
            pattern = _compiled[source] = re.compile(source)
        decoded = pattern.sub(_remembering(replace) if len(text) > LONG_TEXT else replace, text)
        if decoded != text:
            text = decoded
            used.append(name)
            answers.clear()
    return text, used


def _remembering(replace: Callable[[re.Match[str]], str]) -> Callable[[re.Match[str]], str]:
    """The same replacement, worked out once for each piece: what makes a text long is often repetition."""
    known: dict[str, str] = {}

    def replacement(found: re.Match[str]) -> str:
        piece = found[0]
        if piece not in known:
            known[piece] = replace(found)
        return known[piece]

    return replacement


def changed_part(before: str, after: str, used: Sequence[str]) -> str:
    """What decoding changed in a long text, with as many words around it as any rule spans; the rest was read before.

    Words are counted, so one that stood in the text already does not hide where decoding put it once more.
    """
    if len(after) < LONG_TEXT or not _IN_PLACE.issuperset(used):
        return after
    from collections import Counter

    chunks = after.split(" ")
    counts = Counter(chunks)
    counts.subtract(Counter(before.split(" ")))
    new = {chunk for chunk, count in counts.items() if count > 0 and not _SCRAP.fullmatch(chunk)}
    if sum(len(chunk) * counts[chunk] for chunk in new) * 2 > len(after):
        return after  # most of it is new
    ends = accumulate(len(chunk) + 1 for chunk in chunks)
    return surroundings(
        after, [(end - 1 - len(chunk), end - 1) for chunk, end in zip(chunks, ends, strict=True) if chunk in new]
    )


def _join_letters(text: str) -> str:
    """Words written letter by letter, put together again; wider gaps stay as the gaps between words."""
    for sign in _LETTER_SIGNS:
        pieces = text.count(sign)
        if pieces < _FEWEST_LETTER_SIGNS or pieces * 4 < len(text):
            continue
        single = list(map(len, text.split(sign))).count(1)
        if single * 10 > pieces * 6:
            escaped = re.escape(sign)
            return re.sub(rf"(?<=[^\s{escaped}]){escaped}(?=[^\s{escaped}])", "", text)
    return text


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


def _base64(found: re.Match[str]) -> str:
    token = found[0]
    if token[1:].islower() or token.isdigit() or token.isupper():
        return token
    body = token.rstrip("=")
    if len(body) % 4 == 1:
        body = body[:-1]
    if "-" in body or "_" in body:
        body = body.replace("-", "+").replace("_", "/")
    text = _readable(binascii.a2b_base64(body + "=="))
    return f" {text} " if _has_letters(text) else token


def _joined(found: re.Match[str]) -> str:
    return "".join(found[0].split())


def _base32(found: re.Match[str]) -> str:
    import base64

    body = found[0].rstrip("=").upper()
    body = body[: len(body) - {1: 1, 3: 1, 6: 1}.get(len(body) % 8, 0)]
    text = _readable(base64.b32decode(body + "=" * (-len(body) % 8)))
    return f" {text} " if _has_letters(text) else found[0]


def _ascii85(found: re.Match[str]) -> str:
    import struct

    digits = "".join(found[0][2:-2].split()).replace("z", "!!!!!")
    missing = -len(digits) % 5
    values = [code - 33 for code in (digits + "u" * missing).encode()]
    groups = [a * 85**4 + b * 85**3 + c * 85**2 + d * 85 + e for a, b, c, d, e in zip(*[iter(values)] * 5, strict=True)]
    try:
        raw = struct.pack(f">{len(groups)}I", *groups)
    except struct.error:
        return found[0]
    text = _readable(raw[: len(raw) - missing])
    return f" {text} " if text else found[0]


def _hex(found: re.Match[str]) -> str:
    digits = "".join(found[0].replace("0x", "").replace("\\x", "").translate(_BETWEEN_BYTES).split())
    text = _readable(bytes.fromhex(digits[: len(digits) // 2 * 2]))
    return f" {text} " if _has_letters(text) else found[0]


def _percent(found: re.Match[str]) -> str:
    return bytes.fromhex(found[0].replace("%", "").replace("=", "")).decode("utf-8", "replace")


def _escape(found: re.Match[str]) -> str:
    digits = found[0].strip("\\uUx{}&#;+")
    code = int(digits, 10) if found[0].startswith("&#") and "x" not in found[0].lower() else int(digits, 16)
    return chr(code) if code < 0x110000 else found[0]  # noqa: PLR2004 - the end of Unicode


def _octal(found: re.Match[str]) -> str:
    return "".join(chr(int(part, 8) & 0xFF) for part in found[0].split("\\") if part)


def _named(found: re.Match[str]) -> str:
    from html.entities import html5

    return html5.get(found[0][1:], found[0])


def _binary(found: re.Match[str]) -> str:
    bits = re.sub("[^01]", "", found[0])
    text = _readable(bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits) - 7, 8)))
    return f" {text} " if _has_letters(text) else found[0]


def _decimal(found: re.Match[str]) -> str:
    codes = [int(part) for part in re.findall("[0-9]+", found[0])]
    if all(31 < code < 127 or code in (9, 10) for code in codes):  # noqa: PLR2004 - printable ASCII
        return " " + "".join(map(chr, codes)) + " "
    if all(code <= 27 for code in codes) and len(codes) > 7:  # noqa: PLR2004 - a is 1, z is 26, 0 or 27 a space
        return " " + "".join(chr(96 + code) if 0 < code < 27 else " " for code in codes) + " "  # noqa: PLR2004
    return found[0]


def _morse(found: re.Match[str]) -> str:
    signs = found[0].translate(_MORSE_SIGNS).strip()
    if not _MORSE.keys() >= set(re.split(r"[\s/|]+", signs)):
        return found[0]
    words = re.split(r"\s*[/|]\s*|\s{2,}", signs)
    text = " ".join(["".join([_MORSE[letter] for letter in word.split()]) for word in words])
    return f" {text} " if _has_letters(text) else found[0]


def _punycode(found: re.Match[str]) -> str:
    """RFC 3492, because Python's own takes five times as long and a text may be full of it."""
    plain, _, digits = found[1].rpartition("-")
    chars = list(plain)
    code, place, bias, at = 128, 0, 72, 0
    while at < len(digits):
        before, weight, k = place, 1, 36
        while True:
            if at == len(digits):
                return found[0]
            sign = ord(digits[at])
            digit = sign - 97 if sign > 57 else sign - 22  # noqa: PLR2004 - a to z are 0 to 25, 0 to 9 are 26 to 35
            at += 1
            place += digit * weight
            least = min(max(k - bias, 1), 26)
            if digit < least:
                break
            weight *= 36 - least
            k += 36
        size = len(chars) + 1
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
            return found[0]
        chars.insert(place, chr(code))
        place += 1
    return "".join(chars)


def _has_letters(text: str) -> bool:
    return text.isalpha() or (bool(text) and sum(map(str.isalpha, text[:64])) >= min(_FEWEST_LETTERS, len(text)))


def _holds(*signs: str) -> Callable[[str], bool]:
    return lambda text: any(sign in text for sign in signs)


def _mixed_case(text: str) -> bool:
    """True when a long word holds a capital or a digit behind its first letter, as every encoding does."""
    if not text.isascii() and _ENCODED.search(text) is None:
        return False  # letters of other scripts are not lower case either
    for chunk in text.split():  # noqa: SIM110 - a plain loop is twice as fast as any() over a generator
        if len(chunk) >= _SHORTEST_CODE and not chunk[1:].islower():
            return True
    return False


def _mixed_lines(text: str) -> bool:
    return "\n" in text and _mixed_case(text)


def _many_digits(text: str) -> bool:
    return sum(map(text.count, "0123456789")) >= 12  # noqa: PLR2004 - fewer spell nothing


def _dots_and_dashes(text: str) -> bool:
    return sum(map(text.count, _DOTS + _DASHES)) > 11  # noqa: PLR2004 - fewer spell nothing


_HEX_BYTE = r"(?:0x|\\x)?[0-9a-fA-F]{2}"
_STEPS: tuple[tuple[str, Callable[[str], bool], str, Callable[[re.Match[str]], str]], ...] = (
    (
        "unicode escapes",
        _holds("\\u", "\\U"),
        r"\\[uU]\{[0-9a-fA-F]{1,6}\}|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}",
        _escape,
    ),
    ("html entities", _holds("&#"), r"&#(?:[0-9]{1,7}|[xX][0-9a-fA-F]{1,6});?", _escape),
    ("html entities", _holds("&"), r"&[a-zA-Z]{2,8};", _named),
    ("url escapes", _holds("%"), r"%[0-9a-fA-F]{2}(?:%[0-9a-fA-F]{2})*", _percent),
    ("quoted printable", _holds("="), r"=[0-9A-F]{2}(?:=[0-9A-F]{2}){3,}", _percent),
    ("octal escapes", _holds("\\1", "\\0"), r"\\[01][0-7]{2}(?:\\[01][0-7]{2})+", _octal),
    ("ascii85", _holds("<~"), r"<~[!-u\sz]{5,20000}~>", _ascii85),
    ("binary", _holds("0"), r"[01]{8}[\s,;|_-]{0,2}(?:[01]{8}[\s,;|_-]{0,2}){2,}", _binary),
    ("hex", _many_digits, rf"[0-9a-fA-F]{{2}}[\s,:;-]{{0,2}}(?:{_HEX_BYTE}[\s,:;-]{{0,2}}){{5,}}+", _hex),
    ("character codes", _many_digits, r"(?<![0-9])[0-9]{1,3}(?:[\s,;.-]{1,2}[0-9]{1,3}){5,}(?![0-9])", _decimal),
    ("morse", _dots_and_dashes, rf"(?:[{_DOTS}{_DASHES}]{{1,6}}[ /|\n]{{1,3}}){{5,}}[{_DOTS}{_DASHES}]{{1,6}}", _morse),
    ("base64", _mixed_lines, r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{20,}(?:\r?\n[A-Za-z0-9+/]{4,}){1,2000}={0,2}", _joined),
    ("base64", _mixed_case, r"(?<![A-Za-z0-9+/])(?:[A-Za-z0-9+/]{4} ){4,}[A-Za-z0-9+/]{2,4}={0,2}", _joined),
    ("base32", _mixed_case, r"(?<![A-Za-z0-9])(?:[A-Z2-7]{16,}|[a-z2-7]{32,})={0,6}", _base32),
    ("base64", _mixed_case, r"[A-Za-z0-9+/_-]{8,}={0,2}", _base64),
    ("punycode", _holds("xn--"), r"xn--([a-z0-9-]{2,60})", _punycode),
)
