"""Where each entry comes from: worked out from the history, never from what the entry says about itself.

An entry keeps the least trusted origin of everything it was made from. Replacing a sentence that came from a web page,
or removing it and adding another in one batch, does not wash it clean; only a person who writes the text does.
"""

from __future__ import annotations

from hermes.curated.history import CURATE, ORIGINS, UNTRUSTED
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
        return is_trusted(self.origin)


def provenance(entries: Sequence[str], changes: Sequence[Change]) -> dict[str, Provenance]:
    """The provenance of each live entry, from the changes that took effect, oldest first."""
    known: dict[str, Provenance] = {}
    for change in changes:
        if change.undoes or change.action == "restore":
            continue  # taking a change back, or out of the archive, brings an entry back with the origin it always had
        lineage = _lineage(change)
        made_room = {leaving.entry for leaving in change.archived}  # they left; nothing was made from them
        removed = [entry for entry in change.removed() if entry not in made_room]
        for entry in dict.fromkeys([*change.added(), *lineage]):
            origin = _origin(change, lineage.get(entry, removed), known, entry)
            known[entry] = Provenance(origin=origin, change=_brought_in(change, lineage.get(entry, []), known))
    return {entry: known.get(entry, Provenance(origin="unknown")) for entry in entries}


def is_trusted(origin: str) -> bool:
    """Only what is known to be; a file may hold any word there."""
    return origin in ORIGINS and origin not in UNTRUSTED


def least_trusted(origins: Sequence[str]) -> str:
    return max(origins, key=lambda origin: ORIGINS.index(origin) if origin in ORIGINS else len(ORIGINS))


def _lineage(change: Change) -> dict[str, list[str]]:
    """For a change of the curator: what each entry that stands now was made from, itself included if it stood before.

    Everybody else's batch is one thought: what it adds may come from anything it removes.
    """
    made_from: dict[str, list[str]] = {}
    if change.action == CURATE:
        for edit in change.edits:
            if edit.before is not None and edit.after is not None:
                made_from.setdefault(edit.after, []).append(edit.before)
        replaced = {source for sources in made_from.values() for source in sources}
        for leaving in change.archived:
            stood = [] if leaving.into in made_from or leaving.into in replaced else [leaving.into]
            made_from.setdefault(leaving.into, stood).append(leaving.entry)
    return made_from


def _origin(change: Change, sources: Sequence[str], known: dict[str, Provenance], entry: str) -> str:
    if change.cause.origin in ("user", "external"):
        return change.cause.origin
    earlier = [known[source].origin for source in sources if source in known]
    if change.action == CURATE:
        return least_trusted(earlier or ["unknown"])
    # An entry that once came from outside does not become clean by leaving and being written again.
    again = [known[entry].origin] if entry in known else []
    return least_trusted([change.cause.origin, *(origin for origin in earlier + again if not is_trusted(origin))])


def _brought_in(change: Change, sources: Sequence[str], known: dict[str, Provenance]) -> Change:
    """The change an entry dates from: what the curator only tidied keeps the date of its oldest source."""
    if change.action != CURATE:
        return change
    dated = [found for source in sources if source in known and (found := known[source].change) is not None]
    return min(dated, key=lambda each: each.at, default=change)
