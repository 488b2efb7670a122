"""What one person may have of the server at the same time, so that the next one finds something left."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Turns:
    """Turns that are being answered: at most `workers` in all and `each` of one person."""

    def __init__(self, workers: int, each: int) -> None:
        self._workers = workers
        self._each = each
        self._held: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._held.total()

    @property
    def full(self) -> bool:
        return len(self) >= self._workers

    def enough_for(self, person: str) -> bool:
        return self._held[person] >= self._each

    def begin(self, person: str) -> None:
        self._held[person] += 1

    def end(self, person: str) -> None:
        self._held[person] -= 1
        if not self._held[person]:
            del self._held[person]


class Lines:
    """Short calls: `places` of one person at a time; what is more waits behind the same person's own calls."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._lines: dict[str, _Line] = {}

    @asynccontextmanager
    async def place(self, person: str) -> AsyncIterator[None]:
        line = self._lines.setdefault(person, _Line(asyncio.Semaphore(self._places)))
        line.calls += 1
        try:
            async with line.places:
                yield
        finally:
            line.calls -= 1
            if not line.calls:
                self._lines.pop(person, None)


@dataclass(slots=True)
class _Line:
    places: asyncio.Semaphore
    calls: int = 0
