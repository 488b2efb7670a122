"""Cuts a long answer into pieces a platform takes; nothing but blank pieces is left out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_CUTS = ("\n\n", "\n", " ")  # the best place first
_LAST_CODE_OF_ONE_UNIT = 0xFFFF
_SMALLEST = 256  # units; so little Markdown fits in any case
_FENCES = 16  # units that the fences around a piece may take
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$")


def units(text: str) -> int:
    """UTF-16 code units, which is how Telegram counts: a character beyond the first plane is two."""
    return len(text) + sum(ord(letter) > _LAST_CODE_OF_ONE_UNIT for letter in text)


def split(text: str, limit: int) -> list[str]:
    """Pieces of at most `limit` units; a cut is behind a paragraph, a line or a word where there is one."""
    pieces: list[str] = []
    while text:
        piece = _first(text, limit)
        text = text[len(piece) :]
        if piece.strip():
            pieces.append(piece)
    return pieces


def split_markdown(text: str, fits: Callable[[str], bool], limit: int) -> list[str]:
    """Pieces of Markdown for which `fits` holds, each of them whole: code that is cut is closed and opened again."""
    pieces: list[str] = []
    opened = ""  # the line that opened the code at the beginning of the rest
    while text.strip():
        room = limit
        piece, taken, fence = _piece(text, room, opened)
        while not fits(piece) and room > _SMALLEST:  # formatting may need more room than the text: a table is aligned
            room = room * 3 // 4
            piece, taken, fence = _piece(text, room, opened)
        pieces.append(piece)
        text, opened = text[taken:], fence
    return pieces


def _piece(text: str, room: int, opened: str) -> tuple[str, int, str]:
    """The next piece, how much of the text is in it, and the line that opened the code it ends in."""
    raw = _first(text, max(room - units(opened) - _FENCES, _SMALLEST // 2))
    fence = opened
    for line in raw.split("\n"):
        found = _FENCE.match(line)
        if found and not fence:
            fence = line.strip()
        elif found and found[1].startswith(_mark(fence)) and not found[2].strip():
            fence = ""
    if len(raw) == len(text):
        fence = ""
    head, tail = f"{opened}\n" if opened else "", f"\n{_mark(fence)}" if fence else ""
    return head + (raw.rstrip("\n") if fence else raw.rstrip()) + tail, len(raw), fence


def _mark(fence: str) -> str:
    found = _FENCE.match(fence)
    return found[1] if found else "```"


def _first(text: str, limit: int) -> str:
    head = text[:limit]
    if units(head) > limit:
        head = _within(head, limit)
    if len(head) == len(text):
        return head
    for cut in _CUTS:
        place = head.rfind(cut)
        if place >= len(head) // 2:  # a cut further ahead would make many small pieces
            return head[: place + len(cut)]
    return head


def _within(text: str, limit: int) -> str:
    used = 0
    for place, letter in enumerate(text):
        used += 1 + (ord(letter) > _LAST_CODE_OF_ONE_UNIT)
        if used > limit:
            return text[:place]
    return text
