"""Finds what a word of a query may have meant when nobody wrote it that way: a beginning, or a slip of the pen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.storage.syntax import Unit

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes.storage.database import Database
    from hermes.storage.text import Words

_SHORTEST = 5
_MOST_TERMS = 600


class Spelling:
    def __init__(self, database: Database, words: Words) -> None:
        self._database = database
        self._words = words
        self._ready = False

    def instead(self, unit: Unit, exists: Callable[[Unit], bool]) -> Unit | None:
        """A unit that occurs in the owner's messages and may be what was meant, or None."""
        start = unit.written.lower()
        for beginning in dict.fromkeys((start, unit.stem)):
            longer = Unit(beginning, beginning, prefix=True, weight=unit.weight)
            if exists(longer):
                return longer
        if len(start) < _SHORTEST or not start.isalpha() or not start.isascii():
            return None
        limit = 1 if len(unit.stem) < 8 else 2  # noqa: PLR2004 - one slip in a short word, two in a long one
        for term in self._terms(unit.stem):
            if _distance(term, unit.stem, limit) <= limit:
                near = Unit(term, term, weight=unit.weight * 0.8)
                if exists(near):
                    return near
        return None

    def _terms(self, stem: str) -> list[str]:
        if not self._ready:
            with self._database.lock, self._database.translated():
                self._database.connection.execute(
                    "CREATE VIRTUAL TABLE IF NOT EXISTS temp.terms USING fts5vocab('main', 'messages_fts', 'row')"
                )
            self._ready = True
        start = stem[: max(3, len(stem) // 2)]
        rows = self._database.rows(
            "SELECT term FROM temp.terms WHERE term >= ? AND term < ? LIMIT ?", (start, start + "\uffff", _MOST_TERMS)
        )
        near = [term for (term,) in rows if abs(len(term) - len(stem)) <= 2]  # noqa: PLR2004 - further is another word
        return sorted(near, key=lambda term: _distance(term, stem, 2))


def _distance(one: str, other: str, limit: int) -> int:
    """Insertions, deletions, replacements and swaps of neighbours between two words; stops counting above the limit."""
    if abs(len(one) - len(other)) > limit:
        return limit + 1
    before: list[int] = []
    above: list[int] = []
    row = list(range(len(other) + 1))
    for at, left in enumerate(one, start=1):
        before, above, row = above, row, [at]
        for to, right in enumerate(other, start=1):
            cost = min(above[to] + 1, row[to - 1] + 1, above[to - 1] + (left != right))
            if at > 1 and to > 1 and left == other[to - 2] and one[at - 2] == right:
                cost = min(cost, before[to - 2] + 1)
            row.append(cost)
        if min(row) > limit:
            return limit + 1
    return row[-1]
