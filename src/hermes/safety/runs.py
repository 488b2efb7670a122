"""Tells in a moment whether a text holds a run of certain characters, so that few expressions have to be tried at all.

An expression looks at each character with some care; here a table turns all bytes of a text into "x" or "." at once,
and a row of "x" is found as fast as memory is read.
"""

from __future__ import annotations

import re
from heapq import merge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
