"""What one encoded piece of a text says: each function takes the piece and gives back what it decodes to.

A piece that decodes to nothing readable comes back as it was.
"""

from __future__ import annotations

import binascii
import re

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
