"""Adds nearness in meaning to a search by words: more candidates, and one more signal that follows the words' lead.

The extra signal counts fully among long turns, whose average says what they are about, and hardly in a chat of short
ones, where static vectors mostly tell greetings from greetings.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes.storage.database import OPTIONAL_WAIT
from hermes.storage.vectors import Vectors
from hermes.vocabulary.errors import ExtraMissing, StorageError

if TYPE_CHECKING:
    from hermes.storage.database import Database
    from hermes.storage.ranking import Candidate
    from hermes.storage.semantic import Find

NEAREST = 64
NEAREST_FILTERED = 4_000
_WEIGHT = 1.8
_SHARE_AMONG_SHORT = 0.05
_SHORT_TURN = 60.0  # words
ONLY_NEAR = "no message holds these words; shown are the nearest in meaning"


@dataclass(frozen=True, slots=True)
class Nearness:
    """How near the messages of an owner are to one question."""

    nearest: dict[int, float] = field(repr=False)  # the best of them, best first, with their cosines
    _ids: Any
    _shares: Any

    def share(self, message_id: int) -> float:
        """From 0 for what is no nearer than the average message to 1 for the nearest of all."""
        at = int(self._ids.searchsorted(message_id))
        return float(self._shares[at]) if at < len(self._ids) and self._ids[at] == message_id else 0.0


class Meaning:
    """The vectors of one owner, opened at the first question; without the extra there is only a note that says so."""

    def __init__(self, database: Database, owner: int, find: Find | None) -> None:
        self._database = database
        self._owner = owner
        self._find = find
        self._vectors: Vectors | None = None
        self._related = 0.0
        self.note: str | None = None

    def embed_waiting(self, most: int | None = None) -> int:
        """Makes vectors that are missing; 0 when meaning is not searched."""
        try:
            vectors = self._opened()
            return vectors.embed_waiting(most) if vectors else 0
        except ExtraMissing as error:
            self._give_up(error)
            return 0

    def near(self, question: str, *, filtered: bool) -> Nearness | None:
        """None when words must do alone: without the extra, or when the vectors cannot be written or read now."""
        if self._database.damage is not None:
            return None
        try:
            with self._database.waiting_at_most(OPTIONAL_WAIT):
                vectors = self._opened()
                if vectors is None:
                    return None
                vectors.embed_before_search()
            found = vectors.similarities(question)
        except ExtraMissing as error:
            self._give_up(error)
            return None
        except StorageError as error:  # a full disk or a busy file: no reason to refuse what can be found by words
            self.note = f"searched by words alone: {error}"
            return None
        self.note = None
        return None if found is None else self._nearness(*found, NEAREST_FILTERED if filtered else NEAREST)

    def _opened(self) -> Vectors | None:
        if self._find is not None:
            embedding = self._find()
            if embedding is not None:
                self._related = embedding.related
                self._vectors = Vectors(self._database, self._owner, embedding)
            self._find = None
        return self._vectors

    def _give_up(self, error: ExtraMissing) -> None:
        self._find, self._vectors, self.note = None, None, str(error)

    def _nearness(self, ids: Any, cosines: Any, most: int) -> Nearness:
        low = float(cosines.mean())
        # Where nothing is really near, the least far must not count as much as an answer would.
        span = max(float(cosines.max()) - low, self._related)
        best = cosines.argsort()[::-1][:most]
        nearest = {int(ids[at]): float(cosines[at]) for at in best if cosines[at] >= self._related}
        return Nearness(nearest, ids, ((cosines - low) / span).clip(0.0, 1.0))


def fuse(candidates: list[Candidate], nearness: Nearness) -> list[Candidate]:
    """Adds the nearness of each to the score that its words gave it; best first."""
    lengths: dict[int, list[int]] = defaultdict(list)
    for candidate in candidates:
        lengths[candidate.session].append(candidate.length)
    for candidate in candidates:
        turns = lengths[candidate.session]
        long = 1 - min(1.0, _SHORT_TURN * len(turns) / max(1, sum(turns)))
        weight = _WEIGHT * (_SHARE_AMONG_SHORT + (1 - _SHARE_AMONG_SHORT) * long)
        added = weight * nearness.share(candidate.id)
        candidate.parts["meaning"] = added
        candidate.score += added * candidate.factor
    return sorted(candidates, key=lambda candidate: (-candidate.score, -candidate.id))
