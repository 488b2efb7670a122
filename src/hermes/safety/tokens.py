"""Cuts a text that has been folded and marked into its words, atoms and sentence ends."""

from __future__ import annotations

import re

from hermes.safety import atoms
from hermes.safety.surroundings import LONG_TEXT
from hermes.safety.unicode import beyond_ascii

TOKEN = re.compile(r"[^\W_]+(?:'[^\W_]+)?|[\ue800-\ue8ff]|[.!?](?=\s|$)|\n(?=\n)")
PLAIN_TOKEN = re.compile(r"[a-z0-9]+(?:'[a-z0-9]+)?|[\ue800-\ue8ff]|[.!?](?=\s|$)|\n(?=\n)")
# The same piece by piece, because an expression that begins with a certain sign is searched for ten times as fast.
_ENDS = tuple(map(re.compile, (r"\.(?=\s|$)", r"!(?=\s|$)", r"\?(?=\s|$)", r"\n(?=\n)")))
_JOINED = re.compile(r"'(?<=[^\W_]')([^\W_]+)'?")
_END, _APOSTROPHE = "\x01", "\x02"  # for the time being
_KEPT = {sign: sign for sign in "abcdefghijklmnopqrstuvwxyz0123456789"} | {_END: ".", _APOSTROPHE: "'"}
_WORDS_AND_ENDS = bytes(ord(_KEPT.get(chr(code), " ")) for code in range(256))
_SINGLE_BYTES = [chr(code) for code in range(0x80, 0x100) if not chr(code).isspace()]
_MOST_KINDS = 200  # of characters at the beginning; where there are more, no others are looked at
_MOST_REPLACED = 40  # characters beyond ASCII; where there are more kinds, the expression is quicker


def words_of(marked: str, *, in_ascii: bool = False) -> list[str]:
    """The words, atoms and sentence ends of a text."""
    if len(marked) >= LONG_TEXT and len(set(marked[:LONG_TEXT])) <= _MOST_KINDS:
        others = set(beyond_ascii(marked))
        kept = sorted(sign for sign in others if sign.isalnum() or sign in atoms.SIGNS)
        if len(kept) <= _MOST_REPLACED:
            return _split(marked, dict(zip(kept, [sign for sign in _SINGLE_BYTES if sign not in others], strict=False)))
    return (PLAIN_TOKEN if in_ascii else TOKEN).findall(marked)


def _split(text: str, single_bytes: dict[str, str]) -> list[str]:
    """A long text is cut in a third of the time where all but words is spaces. Every end of a sentence is alike."""
    for end in _ENDS:
        text = end.sub(_END, text)
    if "'" in text:
        text = _JOINED.sub(rf"{_APOSTROPHE}\1 ", text)
    table = bytearray(_WORDS_AND_ENDS)
    for sign, byte in single_bytes.items():
        text = text.replace(sign, f" {byte} " if sign in atoms.SIGNS else byte)
        table[ord(byte)] = ord(byte)
    text = text.replace(_END, f" {_END} ").encode("latin-1", "replace").translate(table).decode("latin-1")
    for sign, byte in single_bytes.items():
        text = text.replace(byte, sign)
    return text.split()
