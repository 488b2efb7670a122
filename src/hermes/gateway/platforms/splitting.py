"""Cuts a long answer into pieces a platform takes; nothing but blank pieces is left out."""

from __future__ import annotations

_CUTS = ("\n\n", "\n", " ")  # the best place first
_LAST_CODE_OF_ONE_UNIT = 0xFFFF


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
