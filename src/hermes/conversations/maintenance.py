"""Looks after a `state.db`: what it holds, what nobody has used for long, and keeping its index and file in shape."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes.conversations.database import SessionDB
    from hermes.storage.conversations import Conversations
    from hermes.storage.ports import Use
    from hermes.storage.records import Session

_UNKNOWN = float("inf")
_STEPS_PER_CHECKPOINT = 16


class Maintenance:
    """Sizes, counts and old conversations of one store."""

    def __init__(self, store: Conversations) -> None:
        self._store = store
        self._engine = store.maintenance

    @classmethod
    def of_db(cls, db: SessionDB) -> Maintenance:
        return cls(db.store)

    def unused(
        self, days: float, *, source: str | None = None, archived: bool = False, now: float | None = None
    ) -> list[Session]:
        """The newest session of each ended conversation that was not used for so long, least recently used first."""
        clock = time.time() if now is None else now
        uses = self._engine.uses()
        last = self._engine.last_moment(clock)
        limit = (clock if last is None else last) - days * 86400
        moments = _moments_of_use(uses, clock)
        old = [
            use.key
            for use, moment in zip(uses, moments, strict=True)
            if moment < limit and use.ended and source in (None, use.source) and (archived or not use.archived)
        ]
        found = self._store.by_keys(old)
        return [found[key] for key in old if key in found]

    def totals(self) -> dict[str, Any]:
        return self._engine.totals()

    def by_source(self) -> list[dict[str, Any]]:
        return self._engine.by_source()

    def by_month(self, months: int = 12) -> list[dict[str, Any]]:
        return self._engine.by_month(months)

    def sizes(self) -> dict[str, int]:
        """Bytes: of the data, of the log before it, and how much is free for what comes next."""
        return self._engine.sizes()

    def is_in_pieces(self) -> bool:
        """Whether an import has left the index in so many segments that merging them is worth the time."""
        return self._engine.is_in_pieces()

    def merge_steps(self) -> Iterator[str]:
        """Merges the segments of each index, a little at a time so that writers get their turn; yields after each."""
        return self._engine.merge_steps()

    def settle(self) -> Iterator[int]:
        """What a store wants after much was written at once, and for a search in a large one to be quick."""
        steps = 0
        for steps, _ in enumerate(self.merge_steps(), start=1):
            if steps % _STEPS_PER_CHECKPOINT == 0:
                self.checkpoint()
            yield steps
        self.checkpoint()

    def checkpoint(self) -> None:
        """Brings the log into the file as far as nobody still reads from it."""
        self._engine.checkpoint()

    def rewrite(self) -> None:
        """Gives free space back to the disk; others wait meanwhile."""
        self._engine.rewrite()


def _moments_of_use(uses: list[Use], clock: float) -> list[float]:
    """When each conversation was last used at the latest, told from the times recorded in order of use.

    A time before that of an earlier use came from a clock that was behind; one later than now from a clock that was
    ahead, and then the next sound one bounds it. What was imported happened elsewhere: its order here says nothing.
    """
    moments: list[float] = []
    newest = float("-inf")
    for use in uses:
        if use.recorded > clock:
            moments.append(_UNKNOWN)
            continue
        newest = max(newest, use.recorded)
        moments.append(use.recorded if use.imported else newest)
    following = clock
    for at in reversed(range(len(uses))):
        if moments[at] == _UNKNOWN:
            moments[at] = following
        elif not uses[at].imported:
            following = moments[at]
    return moments
