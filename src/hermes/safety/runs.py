"""Tells in a moment whether a text holds a run of certain characters, so that few expressions have to be tried at all.

An expression looks at each character with some care; here a table turns all bytes of a text into "x" or "." at once,
and a row of "x" is found as fast as memory is read.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_DIGITS = "0123456789"
_LOWER = "abcdefghijklmnopqrstuvwxyz"
_SPACES = " \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f?"  # any space outside ASCII has become a question mark


def _table(members: str) -> bytes:
    return bytes(ord("x") if chr(code) in members else ord(".") for code in range(256))


_BITS = _table("01")
_NUMBERS = _table(_DIGITS)
_HEX = _table(_DIGITS + "abcdefABCDEF")
_BETWEEN_BYTES = (_SPACES + ",:;-x\\").encode()
_NUMBERS_APART = _table(_DIGITS + _SPACES + ",;.-")
_SIGNS = _table(".-_ /|\n?")  # and so have the dots and dashes
_CAPITALS = _table(_LOWER.upper() + "234567")
_SMALL = _table(_LOWER + "234567")
_BASE64 = _table(_LOWER + _LOWER.upper() + _DIGITS + "+/_-")
_LETTERS_AND_DIGITS = _table(_LOWER + _DIGITS)
_NUMBERS_AND_DOTS = _table(_DIGITS + ".")


class Runs:
    """What runs a text may hold: False is certain, True is worth a closer look."""

    __slots__ = ("_bytes",)

    def __init__(self, text: str) -> None:
        self._bytes = text.encode("ascii", "replace")

    def _has(self, table: bytes, length: int) -> bool:
        return b"x" * length in self._bytes.translate(table)

    def binary(self) -> bool:
        """Eight bits."""
        return self._has(_BITS, 8)

    def hex(self) -> bool:
        """Six bytes in hexadecimal digits, with little between them."""
        return b"x" * 12 in self._bytes.translate(_HEX, _BETWEEN_BYTES)

    def numbers(self) -> bool:
        """Six numbers with signs between them."""
        return self._has(_NUMBERS_APART, 11)

    def morse(self) -> bool:
        """Six groups of dots and dashes."""
        return self._has(_SIGNS, 11)

    def base32(self) -> bool:
        return self._has(_CAPITALS, 16) or self._has(_SMALL, 32)

    def base64(self) -> bool:
        return self._has(_BASE64, 8)

    def accounts(self) -> Iterator[tuple[int, int]]:
        """Where letters and digits are as many as in the number of a bank account."""
        return self._places(_LETTERS_AND_DIGITS, 15)

    def account_in_groups(self) -> bool:
        return b"xxxx xxxx" in self._bytes.translate(_NUMBERS_AND_SPACE)

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


_NUMBERS_AND_SPACE = bytes(ord(" ") if code == ord(" ") else _NUMBERS[code] for code in range(256))
