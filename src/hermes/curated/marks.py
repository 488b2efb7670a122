"""What is known about an entry beside its text: pinned or not, its category, how often and when it was last of use.

Kept in `MEMORY.md.marks.jsonl`, one record per mark, so that the memory file itself stays plain text. An ordinary write
never opens it.
"""

from __future__ import annotations

import hashlib
import os
import time

from hermes.storage.files import Folder
from hermes.storage.journal import Journal
from hermes.storage.locks import FileLock
from hermes.vocabulary.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hermes.curated.history import Change
    from hermes.storage.journal import Record

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
