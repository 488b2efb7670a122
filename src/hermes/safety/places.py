"""From which words each code of a reading comes: `Index` counts them, `Places` says where they stand in the text."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate, compress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Index:
    """From which word each code of a reading comes; worked out when somebody asks, because hardly ever anybody does."""

    __slots__ = ("_build", "_every", "_left_out")

    def __init__(self, build: Callable[[], list[int]]) -> None:
        self._build = build
        self._left_out = ("", "")
        self._every: list[int] = []

    def leave_out(self, codes: str, code: str) -> None:
        """All places of `code` in `codes` are gone."""
        self._left_out = codes, code

    def __len__(self) -> int:
        return len(self.words())

    def __getitem__(self, place: int) -> int:
        return self.words()[place]

    def words(self) -> list[int]:
        if not self._every:
            codes, left_out = self._left_out
            every = self._build()
            self._every = list(compress(every, map(left_out.__ne__, codes))) if codes else every
        return self._every


class Places:
    """Which code of a reading stands for which part of the text; worked out when somebody asks."""

    __slots__ = ("_codes", "_ends", "_positions", "_starts")

    def __init__(self, codes: list[str], starts: list[int], ends: list[int]) -> None:
        """`codes` has the code of each word behind those of the unknown words before it, the others where it stands."""
        self._codes, self._starts, self._ends = codes, starts, ends
        self._positions: list[int] = []

    def span(self, position: int) -> tuple[int, int]:
        """Where the word stands whose code has this position."""
        word = bisect_left(self._all(), position)
        return self._starts[word], self._ends[word]

    def between(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """(position of its code, where it begins) for every word that begins in this part of the text."""
        positions = self._all()
        for at in range(bisect_left(self._starts, start), bisect_left(self._starts, end)):
            yield positions[at], self._starts[at]

    def _all(self) -> list[int]:
        if not self._positions:
            self._positions = [size - 1 for size in accumulate(map(len, self._codes))]
        return self._positions
