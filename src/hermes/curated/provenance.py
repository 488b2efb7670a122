"""Where each entry comes from: worked out from the history, never from what the entry says about itself.

An entry keeps the least trusted origin of everything it was made from. Replacing a sentence that came from a web page,
or removing it and adding another in one batch, does not wash it clean; only a person who writes the text does.
"""

from __future__ import annotations

from hermes.curated.history import ORIGINS, UNTRUSTED
from hermes.vocabulary.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes.curated.history import Change


@value
class Provenance:
    """The origin of one entry and the change that brought it in; origin "unknown" when no record tells."""

    origin: str
    change: Change | None = None

    @property
    def trusted(self) -> bool:
        return self.origin not in UNTRUSTED and self.origin != "unknown"


def provenance(entries: Sequence[str], changes: Sequence[Change]) -> dict[str, Provenance]:
    """The provenance of each live entry, from the changes that took effect, oldest first."""
    known: dict[str, Provenance] = {}
    for change in changes:
        if change.undoes:
            continue  # taking a change back brings an entry back with the origin it always had
        origin = _origin(change, known)
        for entry in change.added():
            known[entry] = Provenance(origin=origin, change=change)
    return {entry: known.get(entry, Provenance(origin="unknown")) for entry in entries}


def least_trusted(origins: Sequence[str]) -> str:
    return max(origins, key=lambda origin: ORIGINS.index(origin) if origin in ORIGINS else len(ORIGINS))


def _origin(change: Change, known: dict[str, Provenance]) -> str:
    if change.cause.origin in ("user", "external"):
        return change.cause.origin
    made_from = [known[entry].origin for entry in change.removed() if entry in known]
    return least_trusted([change.cause.origin, *(origin for origin in made_from if origin in UNTRUSTED)])
