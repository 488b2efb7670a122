"""What is known about an entry besides its text (pinned, category, last use), and which entry to archive first."""

from __future__ import annotations

import hashlib
import os
import time

from hermes.base.text import day
from hermes.base.values import value
from hermes.memory import entries as text
from hermes.memory.history import Leaving
from hermes.storage.documents import Journal
from hermes.storage.files import Folder
from hermes.storage.locks import FileLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from hermes.memory.history import Change, Provenance
    from hermes.storage.documents import Record

PIN, UNPIN, USE, CATEGORY = "pin", "unpin", "use", "category"


@value
class Marks:
    pinned: bool = False
    category: str = ""
    uses: int = 0
    last_used: float = 0.0
    settled: tuple[str, ...] = ()  # other entries a person said this one does not contradict, as keys


NONE = Marks()


def key_of(entry: str) -> str:
    return hashlib.sha256(entry.encode("utf-8", "surrogatepass")).hexdigest()[:20]


class MarksFile:
    """The marks of one memory file."""

    def __init__(self, path: str, *, lock_timeout: float) -> None:
        self._folder, self._name = os.path.split(path)
        self._lock_timeout = lock_timeout

    def read(self) -> dict[str, Marks]:
        """The marks by `key_of` the entry."""
        folder = Folder.open(self._folder)
        if folder is None:
            return {}
        with folder:
            records, _ = self._journal(folder).read()
        found: dict[str, Marks] = {}
        for record in records:
            found[record["of"]] = _marked(found.get(record["of"], NONE), record)
        return found

    def add(self, kind: str, entries: Iterable[str], *, what: str = "") -> None:
        """Marks the entries; durable when it returns."""
        records: list[Record] = [
            {"at": time.time(), "kind": kind, "of": key_of(entry), "what": what} for entry in entries
        ]
        if not records:
            return
        lock = f"{self._name}.lock"
        with Folder.create(self._folder) as folder, FileLock(folder, lock, timeout=self._lock_timeout):
            self._journal(folder).append(records, sync=True)

    def _journal(self, folder: Folder) -> Journal:
        return Journal(folder, f"{self._name}.marks.jsonl")


def _marked(marks: Marks, record: Record) -> Marks:
    kind = record["kind"]
    used = kind == USE
    return Marks(
        pinned=kind == PIN or (marks.pinned and kind != UNPIN),
        category=record["what"] if kind == CATEGORY else marks.category,
        uses=marks.uses + used,
        last_used=max(marks.last_used, record["at"]) if used else marks.last_used,
        settled=(*marks.settled, record["what"]) if kind == "settled" else marks.settled,
    )


def of_entries(marks: Mapping[str, Marks], entries: Iterable[str], changes: Sequence[Change]) -> dict[str, Marks]:
    """The marks of each entry; one that was reworded keeps those of its earlier wording."""
    known = dict(marks)
    for change in changes if known else ():
        for edit in change.edits:
            if edit.before is not None and edit.after is not None and (old := known.get(key_of(edit.before))):
                known.setdefault(key_of(edit.after), old)
    return {entry: known.get(key_of(entry), NONE) for entry in entries}


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
