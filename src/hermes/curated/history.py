"""The history of curated memory: every change with who, when, from which session, before and after.

Each memory file has a journal beside it. A normal record lists the entries it touched; a change made by somebody else
(an editor, a shell, another program) is noticed at the next write and recorded with the whole state before and after.
Each record knows the file's fingerprint on both sides, so a record whose write never reached the file is recognised.
"""

from __future__ import annotations

from hermes.storage.shared_file import Fingerprint
from hermes.vocabulary.errors import WriteRefused
from hermes.vocabulary.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hermes.storage.journal import Record

# From the most to the least trusted. "external" is whoever edited the file without us: usually the person.
ORIGINS = (
    "user",
    "agent",
    "background_review",
    "curator",
    "import",
    "external",
    "recall",
    "provider",
    "file",
    "tool",
    "web",
)
# What came from outside may only become memory when a person agrees.
UNTRUSTED = frozenset({"recall", "provider", "file", "tool", "web"})
EXTERNAL = "external"  # the origin of what somebody wrote into the file without us
CURATE = "curate"  # the action of a change the curator made


@value
class Cause:
    """Who caused a write. Stamped by the program that calls the store, never by the model."""

    origin: str = "agent"
    session: str = ""
    note: str = ""
    approved: bool = False  # a person has seen this very text and agreed


@value
class Edit:
    """One entry before and after; None where there is none. `index` is its place at that moment."""

    index: int
    before: str | None
    after: str | None


@value
class Leaving:
    """An entry that moved to the archive, why, and the entry that stands for it from now on, if one does."""

    entry: str
    reason: str
    into: str = ""


@value
class Change:
    """One record of the history. `state` is set for what others did to the file, `was` also for ours on top of it.

    `archived` are the removed entries that live on in the archive; `preimage` is the file before, where rendering its
    entries would not give the same bytes again.
    """

    id: str
    target: str
    at: float
    action: str
    cause: Cause
    before: Fingerprint
    after: Fingerprint
    edits: tuple[Edit, ...] = ()
    was: tuple[str, ...] | None = None
    state: tuple[str, ...] | None = None
    undoes: str = ""
    archived: tuple[Leaving, ...] = ()
    preimage: str | None = None

    def removed(self) -> list[str]:
        if self.state is not None:
            return [entry for entry in self.was or () if entry not in self.state]
        return [edit.before for edit in self.edits if edit.before is not None]

    def added(self) -> list[str]:
        if self.state is not None:
            return [entry for entry in self.state if entry not in (self.was or ())]
        return [edit.after for edit in self.edits if edit.after is not None]


def to_record(change: Change) -> Record:
    record: Record = {
        "id": change.id,
        "target": change.target,
        "at": change.at,
        "action": change.action,
        "origin": change.cause.origin,
        "session": change.cause.session,
        "note": change.cause.note,
        "approved": change.cause.approved,
        "from": [change.before.size, change.before.check, change.before.inode],
        "to": [change.after.size, change.after.check, change.after.inode],
    }
    if change.state is None:
        record["edits"] = [[edit.index, edit.before, edit.after] for edit in change.edits]
    else:
        record["state"] = list(change.state)
    if change.was is not None:
        record["was"] = list(change.was)
    if change.undoes:
        record["undoes"] = change.undoes
    if change.archived:
        record["archived"] = [[leaving.entry, leaving.reason, leaving.into] for leaving in change.archived]
    if change.preimage is not None:
        record["preimage"] = change.preimage
    return record


def from_record(record: Record) -> Change:
    return Change(
        id=record["id"],
        target=record["target"],
        at=record["at"],
        action=record["action"],
        cause=Cause(
            origin=record["origin"],
            session=record["session"],
            note=record["note"],
            approved=record.get("approved", False),
        ),
        before=_fingerprint(record["from"]),
        after=_fingerprint(record["to"]),
        edits=tuple(Edit(index=i, before=before, after=after) for i, before, after in record.get("edits", ())),
        was=tuple(record["was"]) if "was" in record else None,
        state=tuple(record["state"]) if "state" in record else None,
        undoes=record.get("undoes", ""),
        archived=tuple(Leaving(entry=e, reason=reason, into=into) for e, reason, into in record.get("archived", ())),
        preimage=record.get("preimage"),
    )


def _fingerprint(fields: list[int]) -> Fingerprint:
    size, check, inode = fields
    return Fingerprint(size=size, check=check, inode=inode)


def in_effect(changes: Sequence[Change], now: Fingerprint | None) -> list[Change]:
    """The changes whose writes reached the file; `now` is the file as it is, None when unknown.

    A record is written just before its file. When the program is killed between the two, the next record (or the file)
    still starts from the state before it.
    """
    following = [*(later.before for later in changes), now][1:]
    return [change for change, then in zip(changes, following, strict=False) if not _never_happened(change, then)]


def _never_happened(change: Change, then: Fingerprint | None) -> bool:
    # The same bytes in another file were brought back by somebody, after the change; only the very same file means
    # that it was never replaced.
    return then == change.before and not change.before.same_bytes(change.after)


def replay(changes: Iterable[Change]) -> tuple[str, ...]:
    """The entries after these changes, oldest first."""
    entries: list[str] = []
    for change in changes:
        if change.state is not None:
            entries = list(change.state)
            continue
        entries = list(apply_edits(entries, change.edits))
    return tuple(entries)


def apply_edits(entries: Sequence[str], edits: Iterable[Edit]) -> tuple[str, ...]:
    live = list(entries)
    for edit in edits:
        _apply(live, edit)
    return tuple(live)


def _apply(entries: list[str], edit: Edit) -> None:
    if edit.before is None and edit.after is not None:
        entries.insert(min(edit.index, len(entries)), edit.after)
    elif edit.before in entries:
        # The recorded place is where it stood; look there first, because twins may exist.
        at = entries.index(edit.before, edit.index if entries[edit.index : edit.index + 1] == [edit.before] else 0)
        entries[at : at + 1] = [] if edit.after is None else [edit.after]


def reverse(change: Change, entries: Sequence[str]) -> tuple[Edit, ...]:
    """The edits that take one change back, or a refusal when a later change stands in the way."""
    live = list(entries)
    undone: list[Edit] = []
    for edit in _inverse_edits(change, live):
        if edit.before is not None and edit.before not in live:
            raise WriteRefused(
                f"change {change.id} cannot be undone alone: its entry was changed again later; "
                "undo the later change first (`hermes memory log` lists them)",
                kind="undo",
            )
        index = min(edit.index, len(live)) if edit.before is None else live.index(edit.before)
        placed = Edit(index=index, before=edit.before, after=edit.after)
        _apply(live, placed)
        undone.append(placed)
    return tuple(undone)


def _inverse_edits(change: Change, live: Sequence[str]) -> list[Edit]:
    if change.state is None:
        return [Edit(index=edit.index, before=edit.after, after=edit.before) for edit in reversed(change.edits)]
    was = change.was or ()
    gone = [Edit(index=0, before=entry, after=None) for entry in change.state if entry not in was]
    back = [
        Edit(index=index, before=None, after=entry)
        for index, entry in enumerate(was)
        if entry not in change.state and entry not in live
    ]
    return gone + back


def newest_to_undo(changes: Sequence[Change]) -> Change | None:
    """Of changes in order, the newest that is neither an undo nor undone: undoing twice goes two steps back."""
    undone: set[str] = set()
    for change in reversed(changes):
        if change.undoes:
            undone ^= {change.undoes} if change.id not in undone else set()
        elif change.id not in undone and (change.edits or change.state is not None):
            return change
    return None
