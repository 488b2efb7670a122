"""Entries from elsewhere into curated memory: judged like any write, each once, what does not fit into the archive.

What is there stays. New entries are added while they fit; the others enter the archive in the same change, found by
search and brought back by `hermes memory restore`. What the scanner refuses is reported and kept in the report only.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes.curated import entries as text
from hermes.curated.history import UNTRUSTED, Cause, Edit, Leaving
from hermes.curated.memory_file import Plan
from hermes.curated.screening import screen_write
from hermes.safety.secrets import mask_secrets
from hermes.vocabulary.errors import WriteRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hermes.curated.store import MemoryStore, Written

IMPORT = "import"
_HINT = 60
_LONGEST_ARCHIVED = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    entry: str
    reason: str
    kind: str


@dataclass(slots=True, kw_only=True)
class Merge:
    """What a merge into one target would do."""

    target: str
    source: str
    limit: int
    existing: int
    added: list[str] = field(default_factory=list)
    archived: list[str] = field(default_factory=list)
    duplicates: int = 0
    refused: list[Refused] = field(default_factory=list)
    origins: dict[str, str] = field(default_factory=dict)  # of entries that came from outside to where they come from

    @property
    def changes(self) -> bool:
        return bool(self.added or self.archived)

    def details(self) -> dict[str, Any]:
        return {
            "existing_entries": self.existing,
            "added_entries": len(self.added),
            "duplicate_entries": self.duplicates,
            "overflowed_entries": len(self.archived),
            "refused_entries": len(self.refused),
            "char_limit": self.limit,
            "overflow_preview": [text.preview(entry) for entry in self.archived[:5]],
            "refused_reasons": [f"{_hint(each.entry)}: {each.reason}" for each in self.refused],
        }


def plan_merge(
    store: MemoryStore,
    target: str,
    given: Iterable[str],
    *,
    source: str,
    taken: Iterable[str] = (),
    origins: Mapping[str, str] | None = None,
) -> Merge:
    """Sorts the entries into new, known, too much and refused; changes nothing. `taken` come in before them.

    `origins` is what the place they come from knows about them: text from outside stays that.
    """
    live = [*store.entries(target), *taken]
    known = {_key(entry) for entry in (*live, *(each.entry for each in store.archived(target)))}
    merge = Merge(target=target, source=source, limit=store.limit(target), existing=len(store.entries(target)))
    cause = _cause(source)
    for raw in given:
        entry = text.trim(raw)
        if not entry:
            continue
        key = _key(entry)
        if key in known:
            merge.duplicates += 1
            continue
        known.add(key)
        try:
            entry = text.clean(entry)
            screen_write(entry, cause)
            if (origin := (origins or {}).get(raw)) in UNTRUSTED:
                merge.origins[entry[:_LONGEST_ARCHIVED]] = str(origin)
        except WriteRefused as refusal:
            merge.refused.append(Refused(entry=entry, reason=str(refusal), kind=refusal.kind))
            continue
        if text.size([*live, entry]) <= merge.limit:
            live.append(entry)
            merge.added.append(entry)
        else:
            merge.archived.append(entry[:_LONGEST_ARCHIVED])
    return merge


def apply_merge(store: MemoryStore, merge: Merge) -> Written | None:
    """One change of the file for all that has one origin, which is "import" unless it came from outside before.

    None when nothing was to do.
    """
    written = None
    coming = (*merge.added, *merge.archived)
    for origin in dict.fromkeys(merge.origins.get(entry, IMPORT) for entry in coming):
        chosen = [entry for entry in coming if merge.origins.get(entry, IMPORT) == origin]
        written = store.curate(merge.target, _planner(merge, chosen), cause=_cause(merge.source, origin))
    return written


def _planner(merge: Merge, coming: Sequence[str]) -> Callable[[tuple[str, ...]], Plan]:
    def plan(entries: tuple[str, ...]) -> Plan:
        live, edits, leaving = list(entries), [], []
        known = {_key(entry) for entry in entries}
        for entry in coming:
            if _key(entry) in known:
                continue  # somebody else wrote it meanwhile
            edits.append(Edit(index=len(live), before=None, after=entry))
            if entry in merge.archived or text.size([*live, entry]) > merge.limit:
                edits.append(Edit(index=len(live), before=entry, after=None))
                leaving.append(Leaving(entry=entry, reason=f"imported from {merge.source} when the file was full"))
            else:
                live.append(entry)
        return Plan(action="import", edits=tuple(edits), entries=tuple(live), archived=tuple(leaving))

    return plan


def _cause(source: str, origin: str = IMPORT) -> Cause:
    return Cause(origin=origin, note=f"from {source}")


def _hint(entry: str) -> str:
    """The beginning of an entry that was refused, perhaps for the secret in it."""
    return text.preview(mask_secrets(entry), _HINT)


def _key(entry: str) -> str:
    """Entries that differ only in spacing, capitals or forms of letters are one."""
    return " ".join(unicodedata.normalize("NFKC", entry).casefold().split())
