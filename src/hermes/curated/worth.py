"""Which entry a full store can best do without: by age, last use, importance and trust; pinned ones never leave."""

from __future__ import annotations

import time

from hermes.curated import entries as text
from hermes.curated.history import Leaving
from hermes.curated.marks import NONE
from hermes.vocabulary.times import day
from hermes.vocabulary.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from hermes.curated.marks import Marks
    from hermes.curated.provenance import Provenance

DAY = 86_400.0
_HALF_LIFE = 30 * DAY
_IMPORTANCE = {"identity": 4.0, "lesson": 3.0, "project": 2.0, "environment": 2.0}
_UNKNOWN_IMPORTANCE = 2.0
_RULES = frozenset(["always", "never", "must", "important", "don't", "not", "cannot", "only", "required"])
_UNTRUSTED_LOSES = 2.0
_MOST_USES = 5


@value
class Known:
    """What speaks for and against one entry."""

    marks: Marks = NONE
    provenance: Provenance | None = None

    @property
    def added_at(self) -> float:
        change = self.provenance.change if self.provenance else None
        return change.at if change else 0.0

    @property
    def last_touched(self) -> float:
        return max(self.added_at, self.marks.last_used)


def worth(entry: str, known: Known, now: float) -> float:
    """Importance first; half of the rest is gone a month after the entry was last of use."""
    importance = _IMPORTANCE.get(known.marks.category, _UNKNOWN_IMPORTANCE)
    importance += not _RULES.isdisjoint(entry.lower().split())
    freshness: float = 0.5 ** (max(0.0, now - known.last_touched) / _HALF_LIFE)
    use = min(known.marks.uses, _MOST_USES) / _MOST_USES
    untrusted = known.provenance is not None and not known.provenance.trusted and known.provenance.origin != "unknown"
    return importance * (0.5 + freshness + use) - (_UNTRUSTED_LOSES if untrusted else 0.0)


def least_valuable(
    live: Sequence[str], kept: Collection[str], limit: int, known: Mapping[str, Known], now: float | None = None
) -> list[Leaving]:
    """The entries that must leave so that the rest fits; none when not even that would be enough."""
    moment = time.time() if now is None else now
    ranked = sorted(
        (worth(entry, known.get(entry, Known()), moment), place, entry)
        for place, entry in enumerate(live)
        if entry not in kept and not known.get(entry, Known()).marks.pinned
    )
    rest, leaving = list(live), []
    for _, _, entry in ranked:
        if text.size(rest) <= limit:
            break
        rest.remove(entry)
        leaving.append(entry)
    if text.size(rest) > limit:
        return []
    for entry in reversed(leaving):  # a large one that left later may have made room for a small one again
        if text.size([*rest, entry]) <= limit:
            rest.append(entry)
            leaving.remove(entry)
    return [Leaving(entry=entry, reason=_reason(known.get(entry, Known()))) for entry in leaving]


def _reason(known: Known) -> str:
    """In words, for the tool's result and the log."""
    added = f"added {day(known.added_at)}" if known.added_at else "of unknown age"
    used = f"last of use {day(known.marks.last_used)}" if known.marks.last_used else "not used since"
    kind = f", category {known.marks.category}" if known.marks.category else ""
    origin = known.provenance.origin if known.provenance else "unknown"
    return f"the store was full and this was the least valuable entry: {added} by {origin}, {used}{kind}, not pinned"
