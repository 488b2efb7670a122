"""Archived memory in a session: found by asking, and brought back when it turns out to be of use again."""

from __future__ import annotations

from hermes.curated.archive import search
from hermes.curated.history import Cause
from hermes.curated.marks import NONE, USE
from hermes.vocabulary.errors import HermesError
from hermes.vocabulary.times import day

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hermes.curated.archive import Archived
    from hermes.curated.store import MemoryStore

# One search that happens to touch an entry proves nothing; the second says that it is missed.
USES_THAT_BRING_BACK = 2


def find_archived(store: MemoryStore, query: str, session_id: str) -> list[dict[str, Any]]:
    """The archived entries that answer a question; each counts as used, and one that was used before comes back."""
    try:
        archived = [each for target in store.targets for each in store.archived(target)]
        return [_used(store, each, session_id) for each in search(archived, query)]
    except HermesError:
        return []  # what a search is asked for are conversations; `hermes memory status` says what is wrong here


def _used(store: MemoryStore, found: Archived, session_id: str) -> dict[str, Any]:
    store.marks_file(found.target).add(USE, [found.entry])
    uses = store.marks(found.target).get(found.entry, NONE).uses
    shown: dict[str, Any] = {
        "target": found.target,
        "entry": found.entry,
        "archived": day(found.at),
        "reason": found.reason,
    }
    if found.into:
        return {**shown, "now": found.into}  # it was merged or superseded: the other entry is the one in use
    if uses >= USES_THAT_BRING_BACK and store.archives:
        cause = Cause(origin="agent", session=session_id, note="brought back by use")
        store.restore(found.target, found.entry, cause=cause)
        shown["restored"] = True
    return shown
