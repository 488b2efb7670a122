"""Maintains a store of conversations: counts, conversations unused for long, and the state of index and file."""

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
_STEPS_PER_CHECKPOINT = 16  # steps of a merge; without checkpoints, the log would grow to the size of the index


class Maintenance:
    """Sizes, counts and old conversations of one store."""

    def __init__(self, store: Conversations) -> None:
        self._store = store
        self._engine = store.maintenance

    @classmethod
    def of_db(cls, db: SessionDB) -> Maintenance:
        """The maintenance of the store behind a handle."""
        return cls(db.store)

    def unused(
        self, days: float, *, source: str | None = None, archived: bool = False, now: float | None = None
    ) -> list[Session]:
        """The newest session of each ended conversation unused for `days`, the least recently used first."""
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
        """Counts of the owner's sessions, conversations, messages and tool calls, with the first and last use."""
        return self._engine.totals()

    def by_source(self) -> list[dict[str, Any]]:
        """Sessions, messages and tool calls of each source, such as cli or a chat platform."""
        return self._engine.by_source()

    def by_month(self, months: int = 12) -> list[dict[str, Any]]:
        """Sessions and messages of each of the last months, in the time zone of this machine."""
        return self._engine.by_month(months)

    def sizes(self) -> dict[str, int]:
        """Bytes of the data, of its write-ahead log, and of free space inside the file."""
        return self._engine.sizes()

    def is_in_pieces(self) -> bool:
        """Whether an import has left the index in so many segments that merging them is worth the time."""
        return self._engine.is_in_pieces()

    def merge_steps(self) -> Iterator[str]:
        """Merges the segments of each index in small steps, so that others can write in between; yields after each."""
        return self._engine.merge_steps()

    def settle(self) -> Iterator[int]:
        """Merges the index and shortens the log after a large import, for fast searches; yields the steps done."""
        steps = 0
        for steps, _ in enumerate(self.merge_steps(), start=1):
            if steps % _STEPS_PER_CHECKPOINT == 0:
                self.checkpoint()
            yield steps
        self.checkpoint()

    def checkpoint(self) -> None:
        """Copies the write-ahead log into the file, except for what others are still reading."""
        self._engine.checkpoint()

    def rewrite(self) -> None:
        """Rewrites the file without free space; other programs wait meanwhile."""
        self._engine.rewrite()


def _moments_of_use(uses: list[Use], clock: float) -> list[float]:
    """The latest time at which each conversation can have been used, from the times recorded in the order of use.

    A time before that of an earlier use came from a clock that was slow. A time after now came from a clock that was
    fast, so the next valid time is the limit. Imported conversations took place elsewhere: their order means nothing.
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
