"""What a model would read a character as, where a fence tag or our note could stand."""

from __future__ import annotations

import unicodedata

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

IGNORED = ""
OPENING = "<"
CLOSING = ">"
LINE_BREAKS = "\n\r"

# Characters that look like the brackets of a tag (UTS #39 confusables and the CJK and mathematical brackets).
OPENING_LOOKALIKES = "\uff1c\ufe64\u2039\u02c2\u276e\u3008\u27e8\u2329\u1438\u16b2\u276c\u2770\u2991\u29fc\u227a"
_CLOSING_LOOKALIKES = "\uff1e\ufe65\u203a\u02c3\u276f\u3009\u27e9\u232a\u1433\u276d\u2771\u2992\u29fd\u227b"
_SLASHES = "\u2044\u2215\u29f8\u2571"
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u30fc\u2500"

# Letters of other scripts that pass for the letters of "memory-context" and of the note.
_LETTERS = {
    "a": "\u0430\u03b1\u0251",
    "c": "\u0441\u03f2\u1d04",
    "d": "\u0501\u1d05",
    "e": "\u0435\u0454\u212e\u1d07\u04bd\u03b5",
    "f": "\u0493\ua730",
    "g": "\u0261\u0581\u0262",
    "h": "\u04bb\u029c\u043d",
    "i": "\u0456\u03b9\u0131\u026a",
    "l": "\u04cf\u029f",
    "m": "\u043c\u1d0d\u03bc",
    "n": "\u0578\u0274\u03b7\u043f",
    "o": "\u043e\u03bf\u1d0f\u0585",
    "p": "\u0440\u03c1\u1d18",
    "r": "\u0433\u0280",
    "s": "\u0455\ua731",
    "t": "\u0442\u03c4\u1d1b",
    "u": "\u03c5\u0446\u1d1c",
    "w": "\u051d\u0461\u1d21",
    "x": "\u0445\u03c7\u04b3",
    "y": "\u0443\u03b3\u04af\u028f",
}
_KNOWN = {
    **dict.fromkeys(OPENING_LOOKALIKES, OPENING),
    **dict.fromkeys(_CLOSING_LOOKALIKES, CLOSING),
    **dict.fromkeys(_SLASHES, "/"),
    **dict.fromkeys(_DASHES, "-"),
    **{lookalike: letter for letter, many in _LETTERS.items() for lookalike in many},
}
# Letters that Unicode calls ignorable or blank although they are not format characters.
_BLANK = "\u115f\u1160\u17b4\u17b5\u3164\uffa0\u2800"

_NAMED = {
    "lt": "<",
    "gt": ">",
    "sol": "/",
    "hyphen": "-",
    "dash": "-",
    "nbsp": " ",
    "tab": " ",
    "newline": " ",
    "quot": '"',
    "apos": "'",
    "lsqb": "[",
    "lbrack": "[",
    "rsqb": "]",
    "rbrack": "]",
    "zwj": IGNORED,
    "zwnj": IGNORED,
    "shy": IGNORED,
    "amp": "&",
}


def read_as(character: str) -> str:
    """One lower-case ASCII character, or "" for one that is not seen, or the character itself; any blank for one."""
    if character.isascii():
        return character.lower() if character.isprintable() or character.isspace() else IGNORED
    known = _KNOWN.get(character)
    if known is not None:
        return known
    if character in _BLANK or unicodedata.category(character) in ("Cf", "Mn", "Me", "Cc", "Cn"):
        return " " if character.isspace() else IGNORED
    plain = unicodedata.normalize("NFKD", character)[0].lower()
    # One character stays one character: 'İ'.lower() is two, and the second would shift everything behind it.
    plain = _KNOWN.get(plain[0], plain[0])
    # What begins a tag, an entity or a note is a closed list: the reader must find it without folding every character.
    return character if plain in "<&[" else plain


def decoded(entity: str) -> str | None:
    """What `&name` or `&#number`, without its semicolon, stands for; None when it is not an entity we read."""
    body = entity[1:].lower()
    if not body.startswith("#"):
        return _NAMED.get(body)
    digits, base = (body[2:], 16) if body.startswith("#x") else (body[1:], 10)
    try:
        return read_as(chr(int(digits, base)))
    except (ValueError, OverflowError):
        return None


def is_blank_line(backwards: Iterable[str], *, before: bool = True) -> bool:
    """Whether nothing visible stands on the last line of a text; `before` answers for what precedes its pieces."""
    for piece in backwards:
        for character in reversed(piece):
            if character in LINE_BREAKS:
                return True
            if character.isprintable() and character != " ":
                return False
    return before
