"""One memory file with its lock, its history and its backups: reading it as it is, and changing it safely."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from hermes.base.errors import StorageError, UnsafePath, WriteRefused
from hermes.base.values import value
from hermes.memory import entries as text
from hermes.memory.entries import (
    ACCEPT,
    CURATE,
    EXTERNAL,
    Cause,
    Change,
    Edit,
    difference,
    from_record,
    in_effect,
    label_of,
    labelled_number,
    recovered,
    replay,
    to_record,
)
from hermes.settings.config import documents_of
from hermes.storage.documents import ChangedMeanwhile, LocalDocuments, LockedFile
from hermes.storage.files import NOTHING_READ, Fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hermes.memory.entries import Leaving
    from hermes.settings.home import Home
    from hermes.storage.files import Identity, OldVersion, ReadSoFar, Seen
    from hermes.storage.ports import DocumentFolder, Documents, Log

FOLDER = "memories"
FILES = {"memory": "MEMORY.md", "user": "USER.md", "project": "MEMORY.md"}
PROJECTS = "projects"


def memory_place(
    home: Home, documents: Documents, target: str, linked_folders: Sequence[str] = (), project: str = ""
) -> tuple[Documents, str]:
    """Returns the documents that hold a memory file, and its name in them."""
    if isinstance(documents, LocalDocuments):
        path, name = os.path.split(_memory_path(home, target, linked_folders, project))
        return LocalDocuments(path), name
    return documents.below(*([PROJECTS, project] if target == "project" else [FOLDER])), FILES[target]


def _memory_path(home: Home, target: str, linked_folders: Sequence[str], project: str) -> str:
    """The real path of a memory file, so that all homes that share it take the same lock.

    A link is followed inside the home (and, for a profile, inside the home above it), to the same file of another
    home's `memories` folder, and into the folders a person named in the settings. Anywhere else it could bring a
    private key into the prompt, or write memory into an unrelated file.
    """
    path = home.join(PROJECTS, project, FILES[target]) if target == "project" else home.join(FOLDER, FILES[target])
    outside = () if home.above else linked_folders
    real = _real_path_within(path, [home.path, home.root, *map(_absolute, outside)])
    if real is not None:
        return real
    real = os.path.realpath(path)
    if home.above:  # on a server, a person's memory must stay in their own home
        raise UnsafePath(f"{path} leads out of the home of {home.person}, to {real}; put a real file there")
    if os.path.basename(real) == FILES[target] and os.path.basename(os.path.dirname(real)) == FOLDER:
        return real
    raise UnsafePath(
        f"{path} leads out of the home, to {real}; put a real file there, or allow the link with "
        f"`hermes config set memory.linked_folders {os.path.dirname(real)}`"
    )


def pending_writes(home: Home, folder: str = "memory") -> Documents:
    """Returns the documents that hold the pending writes; raises UnsafePath when they lie outside the home."""
    documents = documents_of(home)
    if not isinstance(documents, LocalDocuments):
        return documents.below("pending", folder)
    path = home.join("pending", folder)
    real = _real_path_within(path, [home.path, home.root])
    if real is None:
        raise UnsafePath(f"{path} leads out of the home, to {os.path.realpath(path)}; put a real folder there")
    return LocalDocuments(real)


def _real_path_within(path: str, roots: Iterable[str]) -> str | None:
    """Resolves the links of `path`; None when it ends outside all of `roots`."""
    real = os.path.realpath(path)
    inside = any(real == root or real.startswith(root.rstrip(os.sep) + os.sep) for root in roots)
    return real if inside else None


def _absolute(folder: str) -> str:
    return os.path.realpath(os.path.expanduser(folder))


# A thousand times the documents' limit: any hand-written file fits, and a runaway one is not read to its end.
LARGEST_FILE = 1 << 22
_ATTEMPTS = 50
# Replaced versions prove the newest records of the history until the journal itself is synced, which costs as much as
# half a write; so it is done once for this many writes.
_VERSIONS_KEPT = 16


@value
class Reading:
    """A memory file as it is now."""

    entries: tuple[str, ...]
    fingerprint: Fingerprint
    drift: str = ""  # why it cannot be written back without losing something
    note: str = ""  # what was tolerated while reading
    last: Change | None = None  # the newest record of its history
    kept: tuple[str, ...] | None = None  # the entries of that record, when others only appended to them
    foreign: bool = False  # something other than Hermes changed it since that record


@value
class Plan:
    """What a write is about to do: its edits in order, the resulting entries, and the action to record."""

    action: str
    edits: tuple[Edit, ...]
    entries: tuple[str, ...]
    undoes: str = ""
    archived: tuple[Leaving, ...] = ()  # which of the removed entries live on in the archive
    data: bytes | None = None  # the bytes to write, when they are not simply the rendered entries
    conflicts: tuple[str, ...] = ()  # entries that stay and may contradict what is written


class MemoryFile:
    """One memory file with its entries, history and lock; safe to share with other processes."""

    def __init__(self, documents: Documents, name: str, *, target: str, limit: int, lock_timeout: float) -> None:
        self.documents = documents
        self.name = name
        self.path = f"{documents.path}/{name}"
        self.target = target
        self._limit = limit
        self._lock_timeout = lock_timeout
        # Caches, so that nothing is read and parsed twice: the newest record with the identity of its journal, the
        # entries of the bytes this object wrote last, the replaced versions that no program can have written to since,
        # and the part of the journal that was read.
        self._last: tuple[Identity, Change | None] | None = None
        self._written: tuple[bytes | None, tuple[str, ...]] = (None, ())
        self._untouched: set[str] = set()
        self._known: tuple[ReadSoFar, list[Change]] = (NOTHING_READ, [])

    def read(self) -> Reading:
        """Reads the live entries; raises when the file exists but cannot be read, instead of returning nothing."""
        place = self._look()
        if place is None:
            return Reading(entries=(), fingerprint=Fingerprint.of(b"", 0))
        with place, place.shared.see() as seen:
            return self._interpret(place, seen)

    def has_texts_of_others(self) -> bool:
        """Whether the file was ever changed from outside Hermes; the scanner has not seen such text."""
        place = self._look()
        if place is None:
            return False
        with place, place.shared.see() as seen:
            return self._interpret(place, seen).foreign or place.journal.mentions(EXTERNAL)

    def history(self) -> tuple[list[Change], int]:
        """The changes that took effect, oldest first, and how many records are unreadable."""
        place = self._look()
        if place is None:
            return [], 0
        with place, place.shared.see() as seen:
            changes = self._recorded(place.journal)
            return in_effect(changes, seen.fingerprint), self._known[0].damaged

    def last_order(self) -> int:
        """The place of the newest change in the order of all changes of the home."""
        place = self._look()
        if place is None:
            return 0
        with place:
            last = self._last_change(place)
        return last.order if last else 0

    def change(
        self, plan: Callable[[tuple[str, ...]], Plan], cause: Cause, *, after: int = 0, accept_drift: bool = False
    ) -> tuple[Plan, Change | None]:
        """Applies what `plan` makes of the live entries; the change is None when there was nothing to do.

        `after` is the largest `last_order` of the home's other files.
        """
        with self._opened(self.documents.create()) as place, place.lock:
            self._settle(place, every_version=False)
            return self._change(place, plan, cause, after=after, accept_drift=accept_drift)

    def tidy(self) -> None:
        """Clears away what a killed writer left behind, unless somebody is writing right now."""
        try:
            place = self._look()
            if place is not None:
                with place:
                    if any(place.shared.leftovers()) and place.lock.try_to_take():
                        self._settle(place, every_version=True)
                        self._settle(place, every_version=True)  # what was merged has replaced a version in its turn
        except StorageError:
            return  # leave it for the next time; a read-only home must stay readable

    def _look(self) -> LockedFile | None:
        """Opens the file and its journal without taking the lock; None when the folder does not exist."""
        folder = self.documents.open()
        return self._opened(folder) if folder is not None else None

    def _opened(self, folder: DocumentFolder) -> LockedFile:
        return LockedFile(folder, self.name, at_most=LARGEST_FILE, lock_timeout=self._lock_timeout)

    def _change(
        self,
        place: LockedFile,
        plan: Callable[[tuple[str, ...]], Plan],
        cause: Cause,
        *,
        after: int = 0,
        accept_drift: bool = False,
    ) -> tuple[Plan, Change | None]:
        for _ in range(_ATTEMPTS):
            with place.shared.see() as seen:
                if not seen.exists:
                    self._make_empty(place.folder)
                    continue
                reading = self._interpret(place, seen)
                if reading.drift and not accept_drift:
                    self._refuse_drift(place.folder, seen, reading)
                planned = plan(reading.entries)
                same = planned.entries == reading.entries and not reading.drift and not planned.archived
                if same and planned.action != ACCEPT:  # that changes who stands for an entry
                    return planned, None
                if reading.drift or reading.note:
                    self._back_up(place.folder, seen.data)
                try:
                    return planned, self._write(place, seen, reading, planned, cause, after=after)
                except ChangedMeanwhile:
                    continue
        raise StorageError(f"{self.path} is being changed all the time by another program; stop it and try again")

    def _make_empty(self, folder: DocumentFolder) -> None:
        """Makes the file, so that what was before the first write can be told from nothing."""
        try:
            folder.write_new(self.name, b"")
        except StorageError:
            if folder.size(self.name) is None:  # else somebody else made it in this moment
                raise

    def _write(
        self, place: LockedFile, seen: Seen, reading: Reading, planned: Plan, cause: Cause, *, after: int
    ) -> Change:
        """Journal first, file second: a record whose file never came is recognised, the reverse could not be."""
        journal = place.journal
        earlier = self._foreign_change(journal, reading)
        number = _after(earlier or reading.last)
        order = max(after, reading.last.order if reading.last else 0) + 1
        told = not (planned.undoes or planned.archived)  # a file name has no room for more than action and cause
        label = label_of(number, planned.action, cause) if told else ""
        preimage = None  # the file's text, when its entries alone would not give the same bytes back
        if planned.action == CURATE and seen.data != text.render(reading.entries).encode():
            preimage = seen.data.decode("utf-8", "surrogateescape")
        written: list[Change] = []
        identity: list[Identity | None] = []

        def commit(after: Fingerprint) -> None:
            change = Change(
                id=f"{self.target[0]}{number}",
                target=self.target,
                at=time.time(),
                action=planned.action,
                cause=cause,
                before=reading.fingerprint,
                after=after,
                edits=planned.edits,
                undoes=planned.undoes,
                archived=planned.archived,
                order=order,
                preimage=preimage,
            )
            written.append(change)
            records = [to_record(each) for each in (earlier, change) if each is not None]
            identity.append(journal.append(records, sync=not label or earlier is not None))

        data = planned.data if planned.data is not None else text.render(planned.entries).encode("utf-8")
        try:
            replaced = place.shared.replace(seen, data, label, commit, journal.sync)
        except (StorageError, ChangedMeanwhile):
            if written and not place.shared.holds(written[-1].after):
                _withdraw(journal, [each.id for each in (earlier, written[-1]) if each is not None])
            raise
        self._written = (data, planned.entries)
        self._last = (identity[-1], written[-1]) if identity[-1] is not None else None
        if replaced:
            self._untouched.add(replaced)
        return written[-1]

    def _interpret(self, place: LockedFile, seen: Seen) -> Reading:
        now, last = seen.fingerprint, self._last_change(place)
        if last is not None and seen.data == self._written[0]:
            return Reading(entries=self._written[1], fingerprint=now, last=last)
        decoded = text.decode(seen.data)
        if last is not None and now.same_bytes(last.after):
            return Reading(entries=last.entries_in(seen.data), fingerprint=now, last=last)
        if last is not None and now == last.before:  # a write that was recorded and never came
            behind = self._recorded(place.journal)[-2:-1]
            entries = behind[0].entries_in(seen.data) if behind else text.parse(decoded.text)
            return Reading(entries=entries, fingerprint=now, last=last)
        kept = None
        if last is not None and now.inode == last.after.inode and last.after.begins(seen.data):
            # Appended in place, as a shell does: what stands before is ours, what follows is an entry of its own.
            kept = last.entries_in(seen.data[: last.after.size])
            entries = kept + text.parse(text.decode(seen.data[last.after.size :]).text)
            drift = decoded.damage or self._oversized(entries)
        else:
            entries = text.parse(decoded.text)
            drift = decoded.damage or _rot(seen, last) or self._oversized(entries) or _not_round(decoded.text, entries)
        foreign = bool(seen.data or (last is not None and last.after.size))
        return Reading(
            entries=entries, fingerprint=now, drift=drift, note=decoded.note, last=last, kept=kept, foreign=foreign
        )

    def _oversized(self, entries: tuple[str, ...]) -> str:
        longest = max(map(len, entries), default=0)
        if longest <= self._limit:
            return ""
        return f"one entry has {longest:,} characters, more than the whole file may have ({self._limit:,})"

    def _refuse_drift(self, folder: DocumentFolder, seen: Seen, reading: Reading) -> None:
        backup = self._back_up(folder, seen.data)
        remediation = (
            f"Nothing was changed; the file as it is was copied to {backup}. Tell the user. They can edit {self.path} "
            f"so that entries are separated by a line with only {text.MARK}, or accept it as Hermes reads it with "
            f"`hermes memory adopt --target {self.target}`."
        )
        raise WriteRefused(
            f"{self.name} was changed outside the memory tool and cannot be written back as it is: {reading.drift}",
            kind="drift",
            details={"drift_backup": backup, "remediation": remediation},
        )

    def _back_up(self, folder: DocumentFolder, data: bytes) -> str:
        """Keeps the bytes beside the file and returns where; the same bytes are kept once."""
        prefix = f"{self.name}.bak."
        for name in folder.names():
            if (
                name.startswith(prefix)
                and folder.size(name) == len(data)
                and folder.read(name, at_most=LARGEST_FILE) == data
            ):
                return folder.join(name)
        second, extra = int(time.time()), 0
        while folder.size(name := f"{prefix}{second}{f'.{extra}' if extra else ''}") is not None:
            extra += 1
        folder.write_new(name, data)
        folder.sync()
        return folder.join(name)

    def _settle(self, place: LockedFile, *, every_version: bool) -> None:
        """Merges what others appended to versions we had replaced, and lets go of versions nobody needs any more."""
        shared, folder = place.shared, place.folder
        old, late, unfinished = shared.leftovers()
        self._untouched.intersection_update(old)
        # A writer that was killed after its record and before its file leaves the file under a hidden name.
        last = self._last_change(place) if unfinished or old else None
        if last is not None and shared.is_waiting(last.after, unfinished + old):
            place.journal.withdraw(last.id)
        for name in unfinished:
            folder.discard(name)
        if len(old) >= _VERSIONS_KEPT or (old and every_version):
            doubtful = [name for name in old if name not in self._untouched]
            versions = [version for name in doubtful if (version := shared.old_version(name)) is not None]
            self._recover_history(place, versions)
            place.journal.sync()
            for version in versions:
                self._merge_late(place, version)
            for name in old:
                folder.discard(name)
            self._untouched.clear()
        for name in late:
            if not shared.still_written(name) and (version := shared.old_version(name)) is not None:
                self._merge_late(place, version)
                folder.discard(name)

    def _merge_late(self, place: LockedFile, version: OldVersion) -> None:
        added = version.added()
        decoded = text.decode(added or b"")
        entries = text.parse(decoded.text)
        recorded, now = self._recorded(place.journal), Fingerprint.of(version.data, 0)
        # Nothing new, or bytes that the history says were once the file, whoever wrote them.
        if not entries if added is not None else any(change.after.same_bytes(now) for change in recorded):
            return
        try:
            # If we did not write this version, somebody was perhaps in the middle of a line when we replaced it.
            ours = any(not change.foreign and change.after.same_bytes(version.then) for change in recorded)
            if decoded.damage or self._oversized(entries) or added is None or not ours:
                self._back_up(place.folder, version.data)
            if added is not None and not decoded.damage and not self._oversized(entries):
                self._change(place, _appending(entries), Cause(origin=EXTERNAL))
        except WriteRefused:
            self._back_up(place.folder, version.data)

    def _recover_history(self, place: LockedFile, versions: list[OldVersion]) -> None:
        """Writes records again that a power cut took from the end of the journal; the replaced versions prove them."""
        last = self._last_change(place)
        numbered = sorted((number, version) for version in versions if (number := labelled_number(version)))
        missing = [(number, version) for number, version in numbered if number >= _after(last)]
        if not missing:
            return
        with place.shared.see() as seen:
            states = [(version.data[: version.then.size], version.then) for _, version in missing]
            states.append((seen.data, seen.fingerprint))
        records = [
            to_record(recovered(self.target, version, number, states[at], states[at + 1]))
            for at, (number, version) in enumerate(missing)
        ]
        place.journal.append(records, sync=True)

    def _foreign_change(self, journal: Log, reading: Reading) -> Change | None:
        """The record of what somebody else did to the file since our last write."""
        if not reading.foreign:
            return None
        last, was = reading.last, reading.kept
        if was is None:
            was = replay(in_effect(self._recorded(journal), now=None))
        return Change(
            id=f"{self.target[0]}{_after(last)}",
            target=self.target,
            at=time.time(),
            action="external",
            cause=Cause(origin=EXTERNAL),
            before=last.after if last else Fingerprint.of(b"", 0),
            after=reading.fingerprint,
            edits=difference(was, reading.entries),
            foreign=True,
            order=last.order if last else 0,
        )

    def _recorded(self, journal: Log) -> list[Change]:
        """Every record of the history; only what is new since the last time is read."""
        before, earlier = self._known
        read = journal.read_on(before)
        changes = [*(earlier if read.goes_on else ()), *map(from_record, read.records)]
        self._known = (read, changes)
        return changes

    def _last_change(self, place: LockedFile) -> Change | None:
        identity = place.journal.identity()
        if self._last is None or self._last[0] != identity:
            record = place.journal.last()
            self._last = (identity, from_record(record) if record is not None else None)
        return self._last[1]


def _after(last: Change | None) -> int:
    return last.number + 1 if last is not None else 1


def _withdraw(journal: Log, ids: list[str]) -> None:
    try:
        journal.withdraw(*ids)
    except StorageError:
        return  # the history still sees that it did not happen, as long as nobody else changes the file


def _rot(seen: Seen, last: Change | None) -> str:
    """Whoever edits a file, or puts another in its place, leaves a newer time or another inode; a failing disk none."""
    same = last is not None and (seen.fingerprint.inode, len(seen.data)) == (last.after.inode, last.after.size)
    if last is None or not same or not seen.exists or seen.modified_at > last.at:
        return ""
    return (
        "its bytes are not those that Hermes wrote, although nobody has written to it since, as on a failing disk; "
        "`hermes memory log` shows what it held"
    )


def _not_round(content: str, entries: tuple[str, ...]) -> str:
    if text.trim(content) == text.render(entries):
        return ""
    return "its entries have spaces or blank lines around them that writing would lose"


def _appending(added: tuple[str, ...]) -> Callable[[tuple[str, ...]], Plan]:
    def plan(entries: tuple[str, ...]) -> Plan:
        new = tuple(entry for entry in added if entry not in entries)
        edits = tuple(Edit(index=len(entries) + at, before=None, after=entry) for at, entry in enumerate(new))
        return Plan(action="external", edits=edits, entries=entries + new)

    return plan
