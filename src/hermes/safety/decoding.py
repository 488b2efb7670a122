"""Undoes encodings where they stand, so that the text reads as a model would understand it after decoding."""

from __future__ import annotations

import re
from itertools import islice

from hermes.safety import encoded
from hermes.safety.decoded import LETTER_SPACING, SEAM, Decoded
from hermes.safety.runs import Runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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
        return encoded.from_spaced_letters(text)  # whatever signs are between them
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
    encoded.BASE64: Runs.base64,
    _BASE64_IN_LINES: Runs.base64_in_lines,
    _BASE64_IN_FOURS: Runs.base64_in_fours,
}
_LETTER_SIGN = f"[{re.escape(_LETTER_SIGNS)}]"
_ALL_APART = re.compile(rf"[^\W_](?:{_LETTER_SIGN}[^\W_]){{5,}}")
_SIGN = f"[{encoded.DOTS}{encoded.DASHES}]"
_HEX_BYTE = r"(?:0x|\\x)?[0-9a-fA-F]{2}"
_STEPS: tuple[tuple[str, Callable[[str, Runs], bool], str, Callable[[str], str]], ...] = (
    (
        "spaced letters",
        _always,
        rf"(?<![^\W_])[^\W_](?:{_LETTER_SIGN}[^\W_](?![^\W_])){{5,}}",
        encoded.from_spaced_letters,
    ),
    (
        "unicode escapes",
        _holds("\\u", "\\U"),
        r"\\[uU]\{[0-9a-fA-F]{1,6}\}|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}",
        encoded.from_escape,
    ),
    # What was escaped twice and more, as pages and logs are full of it, is no deeper than what was escaped once.
    ("html entities", _holds("&amp;"), r"&amp;(?:amp;)*(?=#?[a-zA-Z0-9]{2,8};)", encoded.from_escaped_ampersand),
    ("html entities", _holds("&#"), r"&#(?:[0-9]{1,7}|[xX][0-9a-fA-F]{1,6});?", encoded.from_escape),
    ("html entities", _holds("&"), r"&[a-zA-Z]{2,8};", encoded.from_named),
    ("url escapes", _holds("%25"), r"%25(?:25)*(?=[0-9a-fA-F]{2})", encoded.from_escaped_percent),
    ("url escapes", _holds("%"), r"%[0-9a-fA-F]{2}(?:%[0-9a-fA-F]{2})*", encoded.from_percent),
    ("quoted printable", _holds("="), r"=[0-9A-F]{2}(?:=[0-9A-F]{2}){3,}", encoded.from_percent),
    ("octal escapes", _holds("\\1", "\\0"), r"\\[01][0-7]{2}(?:\\[01][0-7]{2})+", encoded.from_octal),
    ("ascii85", _holds("<~"), r"<~[!-u\sz]{5,20000}~>", encoded.from_ascii85),
    ("binary", _always, r"[01]{8}[\s,;|_-]{0,2}(?:[01]{8}[\s,;|_-]{0,2}){2,}", encoded.from_binary),
    (
        "hex",
        _hex,
        rf"[0-9a-fA-F]{{2}}[\s,:;-]{{0,2}}(?:{_HEX_BYTE}[\s,:;-]{{0,2}}){{5,}}+",
        encoded.from_hex,
    ),
    (
        "character codes",
        _always,
        r"(?<![0-9])[0-9]{1,3}(?:[\s,;.-]{1,2}[0-9]{1,3}){5,}(?![0-9])",
        encoded.from_decimal,
    ),
    ("morse", _always, rf"(?:{_SIGN}{{1,6}}[ /|\n]{{1,3}}){{5,}}{_SIGN}{{1,6}}", encoded.from_morse),
    ("base64", _mixed_lines, _BASE64_IN_LINES, encoded.joined),
    ("base64", _fours, _BASE64_IN_FOURS, encoded.joined),
    ("base32", _mixed_case, r"(?<![A-Za-z0-9])(?:[A-Z2-7]{16,}|[a-z2-7]{32,})={0,6}", encoded.from_base32),
    ("base64", _mixed_case, encoded.BASE64, encoded.from_base64),
    ("punycode", _holds("xn--"), r"xn--[a-z0-9-]{2,60}", encoded.from_punycode),
)
