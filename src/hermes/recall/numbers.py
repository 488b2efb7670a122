"""Messages that move to another file get other numbers there: ids of the database, and places in their session."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class NewIds:
    """Which id each message of a file got, in as many runs as there are gaps."""

    def __init__(self) -> None:
        self._runs: list[tuple[int, int, int]] = []  # first old id, first new id, how many
        self._sorted = True

    def add(self, old: int, new: int) -> None:
        if self._runs:
            first, became, count = self._runs[-1]
            if (old, new) == (first + count, became + count):
                self._runs[-1] = (first, became, count + 1)
                return
            self._sorted = False
        self._runs.append((old, new, 1))

    def between(self, first: int, last: int) -> list[tuple[int, int]]:
        """The new ids, as runs, of the messages that had these ids, ends included."""
        if not self._sorted:
            self._runs.sort(key=itemgetter(0))
            self._sorted = True
        found: list[tuple[int, int]] = []
        at = max(bisect_right(self._runs, first, key=itemgetter(0)) - 1, 0)
        while at < len(self._runs) and self._runs[at][0] <= last:
            old, new, count = self._runs[at]
            low, high = max(first, old), min(last, old + count - 1)
            if low <= high:
                found.append((new + low - old, new + high - old))
            at += 1
        return found


class Places:
    """Places of a session's messages when those that were taken back or are damaged stay behind."""

    def __init__(self) -> None:
        self._left_out: list[int] = []
        self._following = 0

    def take(self, place: int) -> None:
        """The message at this place goes along; whatever lies before it and was not taken stays behind."""
        self._left_out += range(self._following, place)
        self._following = place + 1

    def order(self, runs: Iterable[tuple[int, int]]) -> list[list[int]]:
        """The order of a context in the new places."""
        moved = [
            [first - bisect_left(self._left_out, first), last - bisect_right(self._left_out, last)]
            for first, last in runs
        ]
        return [[first, last] for first, last in moved if first <= last]
