"""Numbers in sentences."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "") -> str:
    """`1 entry`, `2 entries`; without `many`, an s is added."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
