"""Tells from the bytes of a message, at a glance, whether a phrase stands there as typed, or may in other forms.

Stemming a message to be sure takes ten times as long as reading it, so only what may hold the phrase is stemmed.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LETTER = rb"[a-z0-9\x80-\xff]"
_NO_LETTERS = rb"[^a-z0-9\x80-\xff]+"
_ONLY_WORDS = re.compile(r"[a-z0-9 ]+")
_LETTER_OR_DIGIT = re.compile(r"[a-z0-9]")
# All forms of a word begin like its stem without the last letter ("happi": happy, happiness) and go on for 15 letters
# at most. The words in a name such as "userName" have nothing between them.
_GOES_ON = rb"[a-z0-9]{0,24}[^a-z0-9]*"
_SHORTEST_STEM = 3  # the stemmer leaves shorter words alone
_ESCAPED = re.compile(rb"\\+(?:u([0-9a-fA-F]{4})|[nrt])")


def as_typed(typed: str, *, goes_on: bool) -> re.Pattern[bytes]:
    """Finds in bytes of small letters what was typed; between bare words anything may stand that is no letter."""
    words = typed.split()
    space = _NO_LETTERS if _ONLY_WORDS.fullmatch(" ".join(words)) else rb"\s+"
    first, *others = (re.escape(word.encode("utf-8", "replace")) for word in words)
    if goes_on:  # the beginning of a word, which may be part of a name such as "myDecision"
        return re.compile(space.join([first, *others]))
    # Looking back from behind the first word, because what begins with letters is looked for by them, and fast.
    border = b"(?<!" + _LETTER + first + b")" if _LETTER_OR_DIGIT.match(words[0][0]) else b""
    end = b"(?!" + _LETTER + b")" if _LETTER_OR_DIGIT.match(words[-1][-1]) else b""
    return re.compile(space.join([first + border, *others]) + end)


def side_by_side(stems: Sequence[str]) -> Callable[[bytes], bool]:
    """A test that text passes where words of these stems stand in this order; a little else may pass it too."""
    beginnings = [stem[:-1] if len(stem) >= _SHORTEST_STEM else stem for stem in stems]
    if not all(beginning.isascii() for beginning in beginnings):
        return lambda _: True
    found = re.compile(_GOES_ON.join(re.escape(beginning.encode()) for beginning in beginnings)).search

    def may_hold(text: bytes) -> bool:
        if b"\x00" in text:  # packed parts, and a phrase may begin in one and end in the next
            return True
        # In the arguments of a call, signs stand for others; elsewhere the same signs mean themselves.
        return bool(found(_folded(text)) or (b"\\" in text and found(_folded(_ESCAPED.sub(_meant, text)))))

    return may_hold


def _folded(text: bytes) -> bytes:
    """Small letters without accents; what has no such letter is left out."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKD", text.decode("utf-8", "replace")).encode("ascii", "ignore").lower()


def _meant(escaped: re.Match[bytes]) -> bytes:
    return chr(int(escaped[1], 16)).encode("utf-8", "replace") if escaped[1] else b" "
