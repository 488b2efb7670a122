"""The graph of summaries in a damaged `state.db`: what of it can be believed, and how it gets into the new file.

A summary carries no checksum. One is taken when its row has the shape of one and its session is there; an edge when it
leads from a summary to a less condensed one over some of the same messages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes.storage.migrations import add_summaries

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from hermes.storage.database import Database

NODES, EDGES = "summaries", "summary_children"
NODE_COLUMNS = ["node", "session", "depth", "ids", "messages", "text", "made_by", "made_at"]
EDGE_COLUMNS = ["parent", "child"]
_TYPES = (int, int, int, str, int, str, str, float)
_RANGES = re.compile(r"\d{1,19}(?:-\d{1,19})?(?:, \d{1,19}(?:-\d{1,19})?)*")
_SESSION, _DEPTH, _IDS = 1, 2, 3


@dataclass(slots=True)
class Graph:
    nodes: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    _pairs: set[tuple[int, int]] = field(default_factory=set)

    def take_node(self, row: tuple[Any, ...]) -> None:
        moment = float(row[-1]) if type(row[-1]) is int else row[-1]  # whole numbers are stored as such
        row = (*row[:-1], moment)
        if tuple(map(type, row)) == _TYPES and row[0] > 0 and row[_DEPTH] >= 0 and _RANGES.fullmatch(row[_IDS]):
            self.nodes.setdefault(row[0], row)

    def take_pairs(self, pairs: Iterable[tuple[Any, ...]]) -> None:
        """What may be edges; whether they are shows when all summaries are known."""
        self._pairs.update((parent, child) for parent, child in pairs if type(parent) is type(child) is int)

    def write(self, database: Database, sessions: Collection[int]) -> int:
        """Stores the summaries of these sessions and what connects them; returns how many there are."""
        kept = {number: row for number, row in self.nodes.items() if row[_SESSION] in sessions}
        if not kept:
            return 0
        add_summaries(database)
        edges = sorted(pair for pair in self._pairs if _connects(kept, *pair))
        with database.writing() as connection:
            connection.executemany("INSERT INTO summaries VALUES (?, ?, ?, ?, ?, ?, ?, ?)", kept.values())
            connection.executemany("INSERT INTO summary_children VALUES (?, ?)", edges)
        return len(kept)


def _connects(nodes: dict[int, tuple[Any, ...]], parent: int, child: int) -> bool:
    above, below = nodes.get(parent), nodes.get(child)
    if above is None or below is None or above[_DEPTH] <= below[_DEPTH]:
        return False
    inside = _numbers(above[_IDS])
    return all(any(low <= first and last <= high for low, high in inside) for first, last in _numbers(below[_IDS]))


def _numbers(ranges: str) -> list[tuple[int, int]]:
    ends = (part.partition("-") for part in ranges.split(", "))
    return [(int(first), int(last or first)) for first, _, last in ends]
