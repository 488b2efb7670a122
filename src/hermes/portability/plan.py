"""Plans a migration as a list of items, shown first and then carried out as a whole, with a backup and a report."""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
import time
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from hermes.base.errors import HermesError, StorageError, WriteRefused
from hermes.conversations.database import SessionDB
from hermes.conversations.maintenance import Maintenance
from hermes.memory import entries as text
from hermes.memory.entries import UNTRUSTED, Cause, Edit, Leaving
from hermes.memory.file import Plan
from hermes.memory.store import MemoryStore, screen_write
from hermes.portability.archive import files_below, merged, read_bytes
from hermes.portability.exchange import DISABLED, disabled_setting
from hermes.safety.scanner import scan, without_attacks
from hermes.safety.secrets import mask_secrets
from hermes.settings.config import FILE as CONFIG
from hermes.settings.config import SECRETS, read_secrets, save_secret
from hermes.settings.yaml_file import place_value
from hermes.skills.files import MAIN_FILE, check_name
from hermes.storage.files import Folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hermes.portability.exchange import HomeCopy
    from hermes.settings.config import Settings
    from hermes.settings.home import Home


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the person chose for a migration; `preset` and `workspace_target` concern only OpenClaw."""

    source: str | None = None
    overwrite: bool = False
    migrate_secrets: bool = False
    backup: bool = True
    skill_conflict: str = "skip"
    enable: bool = False
    preset: str = "full"
    workspace_target: str | None = None


MIGRATED, ARCHIVED, SKIPPED, CONFLICT, ERROR = "migrated", "archived", "skipped", "conflict", "error"
_MODES = {"dry_run": "preview, nothing has been changed", "execute": "carried out"}
STATUSES = (MIGRATED, ARCHIVED, SKIPPED, CONFLICT, ERROR)


@dataclass(slots=True, kw_only=True)
class Item:
    """One thing at the source, such as a file or a setting. `act` migrates it; without `act` nothing changes."""

    kind: str
    source: str
    destination: str = ""
    status: str = SKIPPED
    reason: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    sensitive: bool = False
    last: bool = False  # others may write these files too; doing them last makes a clash less likely
    act: Callable[[HomeCopy], object] | None = None

    def decide(self, act: Callable[[HomeCopy], object], *, known: str = "", other: str = "") -> Self:
        """Sets status and reason: skipped if `known` says why, in conflict if `other` does, else migrated by `act`.

        `known` means that the home has this already, `other` that it has something else in that place.
        """
        if known:
            self.reason = known
        elif other:
            self.status, self.reason = CONFLICT, other
        else:
            self.status, self.act = MIGRATED, act
        return self

    def as_json(self) -> dict[str, Any]:
        """The item as a record of report.json."""
        shown = ("kind", "source", "destination", "status", "reason", "details", "sensitive")
        return {name: getattr(self, name) for name in shown}


@dataclass(slots=True, kw_only=True)
class Report:
    """What a migration will do or has done, item by item."""

    program: str
    choices: Options
    timestamp: str
    mode: str
    source_root: str
    target_root: str
    output_dir: str
    options: dict[str, Any] = field(default_factory=dict)
    items: list[Item] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    next_steps: list[str] = field(default_factory=list)
    disabled: list[str] = field(default_factory=list)  # settings and plug-ins that stay off until the person agrees

    def summary(self) -> dict[str, int]:
        """Number of items by status, with a zero for each status that no item has."""
        counts = Counter(item.status for item in self.items)
        return {status: counts[status] for status in STATUSES}

    def conflicts(self) -> list[Item]:
        """Items that need --overwrite, because the home has another version of them."""
        return [item for item in self.items if item.status == CONFLICT]

    def has_work(self) -> bool:
        """Whether carrying out the plan would change anything."""
        return any(item.act is not None for item in self.items)

    def as_json(self) -> dict[str, Any]:
        """The content of report.json, and of a preview with --json."""
        return {
            **{name: getattr(self, name) for name in ("timestamp", "mode", "source_root", "target_root", "output_dir")},
            **self.options,
            "summary": self.summary(),
            "items": [item.as_json() for item in self.items],
            "warnings": self.warnings,
            "next_steps": self.next_steps,
            "disabled": self.disabled,
        }

    def markdown(self) -> str:
        """The report for people: items grouped by status, warnings, disabled settings and next steps."""
        counts = ", ".join(f"{count} {status}" for status, count in self.summary().items() if count) or "nothing to do"
        lines = [
            f"# Migration from {_shown(self.source_root)}",
            "",
            f"{self.timestamp}, {_MODES[self.mode]}: {counts}.",
            "",
        ]
        for status in STATUSES:
            chosen = [item for item in self.items if item.status == status]
            if chosen:
                lines += [f"## {status.capitalize()}", "", *(line for item in chosen for line in _lines(item)), ""]
        texts_below = {
            "Warnings": self.warnings,
            "Disabled until you agree (`hermes config enable`)": self.disabled,
            "Next steps": self.next_steps,
        }
        for title, texts in texts_below.items():
            if texts:
                lines += [f"## {title}", "", *(f"- {_shown(text)}" for text in texts), ""]
        return "\n".join(lines)


def new_report(home: Home, program: str, source: str, choices: Options, **shown: Any) -> Report:
    """Creates an empty preview; files that are only archived go to a new folder below `migration/`, named by time."""
    stamp = time.strftime("%Y%m%dT%H%M%S")
    return Report(
        program=program,
        choices=choices,
        timestamp=stamp,
        mode="dry_run",
        source_root=source,
        target_root=home.path,
        output_dir=home.join("migration", program, stamp),
        options=shown,
    )


def _lines(item: Item) -> list[str]:
    to = f" → `{_shown(item.destination)}`" if item.destination else ""
    why = f" ({_shown(item.reason)})" if item.reason else ""
    counts = ", ".join(
        f"{value} {name.removesuffix('_entries')}"
        for name, value in item.details.items()
        if name.endswith("_entries") and value
    )
    refused = [f"  - refused: {_shown(each)}" for each in item.details.get("refused_reasons", ())]
    return [f"- {item.kind}: `{_shown(item.source)}`{to}{why}{f': {counts}' if counts else ''}", *refused]


def _shown(text: str) -> str:
    """One line without control characters, whatever the name of a file contains."""
    return "".join(letter if letter.isprintable() else "�" for letter in text.replace("\n", " "))


_LARGEST = 64 << 20  # bytes of a file; its whole content is compared and written from memory


class Planner:
    """Makes the items of a plan: existing files stay, texts are scanned, and the rest is archived.

    `home` is the destination: the home that the report is about, or a profile of it. `settings` are those of `home`.
    """

    def __init__(self, home: Home, report: Report, settings: Settings) -> None:
        self._home = home
        self._report = report
        self._settings = settings
        self._overwrite = report.choices.overwrite
        self._coming: dict[str, list[str]] = {}  # entries that earlier items of the plan add, by target

    def memory(
        self,
        kind: str,
        target: str,
        source: str,
        found: Iterable[str],
        *,
        origins: Mapping[str, str] | None = None,
        project: str = "",
    ) -> Item:
        """Plans a merge of entries into a target of curated memory; `origins` says which of them came from outside.

        The preview shows what fits now; when the merge runs, it checks each entry again against the file as it is then.
        """
        opened = partial(MemoryStore.open, settings=self._settings, project=project)
        store = opened(self._home)
        if target not in store.targets:
            return Item(kind=kind, source=source, reason=f"the {target} store is switched off here")
        coming = self._coming.setdefault(target, [])
        merge = Merge(store, target, self._report.program)
        merge.sort(found, coming, origins or {})
        coming += merge.added
        item = Item(kind=kind, source=source, destination=store.path(target), details=merge.details(), last=True)
        nothing = "nothing new may be stored" if merge.refused else "every entry is there already"
        return item.decide(
            lambda copy: change_memory(copy, opened(copy.home_of(self._home)), target, merge.apply),
            known="" if merge.origins else nothing,
        )

    def setting(self, kind: str, source: str, name: str, value: Any, *, same: Any = None) -> Item:
        """Plans a setting; `same` is the value that an earlier run may have written for it."""
        home, here, path = self._home, self._settings, self._home.join(CONFIG)
        item = Item(kind=kind, source=source, destination=f"{path}: {name}")
        is_set = here.origin(name) != "default"
        known = f"{CONFIG} is a link; change the setting in the file it points to" if os.path.islink(path) else ""
        if disabled_setting(home, name) == value:
            known = known or "an earlier import brought it and it is disabled; `hermes config enable` enables it"
        elif is_set and here.get(name) == value:
            known = known or "it has this value already"
        earlier = not is_set or (same is not None and here.get(name) == same)
        other = "" if earlier or self._overwrite else "it has another value here"
        return item.decide(lambda copy: place_value(copy.home_of(home), CONFIG, name, value), known=known, other=other)

    def secrets(
        self, source: str, found: Mapping[str, str], kind: Callable[[str], str], refused: str = ""
    ) -> Iterator[Item]:
        """Plans secrets by name; they are copied only if the person asked for it and `refused` gives no reason."""
        if not refused and not self._report.choices.migrate_secrets:
            refused = "secrets are copied only with --migrate-secrets"
        try:
            there = read_secrets(self._home)
        except HermesError as error:
            yield Item(kind="secrets", source=source, status=ERROR, reason=str(error))
            return
        for name, given in found.items():
            destination = f"{self._home.join(SECRETS)}: {name}"
            item = Item(kind=kind(name), source=source, destination=destination, sensitive=True)
            known = refused or ("it is there already" if there.get(name) == given else "")
            other = "another value is there" if name in there and not self._overwrite else ""
            yield item.decide(partial(self._save_secret, name, given), known=known, other=other)

    def _save_secret(self, name: str, given: str, copy: HomeCopy) -> None:
        save_secret(copy.home_of(self._home), name, given)

    def text(self, kind: str, source: str, text: str, destination: str) -> Item:
        """Plans a text that will be part of prompts; one that the scanner refuses is archived instead."""
        if found := _attacks(text):
            reason = f"it looks like {found}; it is archived and not used"
            return self.archived(kind, source, os.path.basename(source), reason)
        return self._placed(kind, source, text.encode(), destination)

    def copied(self, kind: str, source: str, destination: str) -> Item:
        """Plans an unchanged copy of a file; a database includes what is still in its log."""
        try:
            with tempfile.TemporaryDirectory(prefix="hermes-import-") as place:
                return self._placed(kind, source, read_bytes(merged(source, place), _LARGEST), destination)
        except (StorageError, FileNotFoundError) as error:
            return Item(kind=kind, source=source, status=ERROR, reason=str(error))

    def outside(self, kind: str, source: str, text: str, destination: str) -> Item:
        """Plans a file for a folder outside the home that the person named; it is written after the swap."""
        path = os.path.abspath(os.path.expanduser(destination))
        item = Item(kind=kind, source=source, destination=path)
        there = content_of(path)
        if there is None and not os.path.isdir(os.path.dirname(path)):
            item.status, item.reason = ERROR, f"there is no folder {os.path.dirname(path)}; create it first"
            return item
        replace = partial(_replace_outside, path, text.encode(), there, self._report.program)
        known = "it is there already" if there == text.encode() else ""
        return item.decide(lambda copy: copy.after.append(replace), known=known, other=self._other(there))

    def archived(self, kind: str, source: str, name: str, reason: str) -> Item:
        """Plans a copy of a file under `migration/`, where Hermes does not use it but the person can look at it."""
        try:
            data = read_bytes(source, _LARGEST)
        except (StorageError, FileNotFoundError) as error:
            return Item(kind=kind, source=source, status=ERROR, reason=str(error))
        return self.archived_data(kind, source, data, name, reason)

    def archived_data(self, kind: str, source: str, data: bytes, name: str, reason: str) -> Item:
        """Plans a file under `migration/` with this content, unless an earlier run has put the same content there."""
        item = Item(kind=kind, source=source, reason="archived before")
        runs = os.path.dirname(self._report.output_dir)
        for run in sorted(os.listdir(runs)) if os.path.isdir(runs) else ():
            item.destination = os.path.join(runs, run, "archive", *name.split("/"))
            if content_of(item.destination) == data:
                return item
        item.destination = os.path.join(self._report.output_dir, "archive", *name.split("/"))
        item.status, item.reason, item.act = ARCHIVED, reason, lambda copy: copy.write(data, item.destination)
        return item

    def skill(self, kind: str, folder: str, category: str, name: str) -> Item:
        """Plans a skill; `choices.skill_conflict` says what happens when another one has its name."""
        item, conflict = Item(kind=kind, source=folder), self._report.choices.skill_conflict
        try:
            files = {inside: read_bytes(path, _LARGEST) for inside, path in files_below(folder)}
            plain = check_name(name.lower().replace(" ", "-"))
        except (StorageError, WriteRefused, FileNotFoundError) as error:
            item.status, item.reason = ERROR, str(error)
            return item
        if found := _attacks(files[MAIN_FILE].decode("utf-8", "replace")):
            item.reason = f"its text looks like {found}; it is not migrated"
            return item
        # Also compare with renamed copies of earlier runs, so that a second run does not add another one.
        for number in itertools.count():
            numbered = f"{plain}-imported-{number}" if number > 1 else f"{plain}-imported"
            item.destination = self._home.join("skills", category, numbered if number else plain)
            if not os.path.lexists(item.destination):
                break
            if {inside: content_of(path) for inside, path in files_below(item.destination)} == files:
                item.reason = "it is there already"
                return item
            if conflict == "skip" and not self._overwrite:
                item.reason = "another skill of this name is there (--skill-conflict)"
                return item
            if conflict != "rename":
                break
        executable = {inside for inside, path in files_below(folder) if os.access(path, os.X_OK)}

        def act(copy: HomeCopy) -> None:
            copy.clear(item.destination)
            for inside, data in files.items():
                copy.write(data, item.destination, inside, mode=0o700 if inside in executable else 0o600)

        return item.decide(act)

    def _placed(self, kind: str, source: str, data: bytes, destination: str) -> Item:
        item = Item(kind=kind, source=source, destination=self._home.join(*destination.split("/")))
        there = content_of(item.destination)
        known = "it is there already" if there == data else ""
        if content_of(self._home.join(DISABLED, *destination.split("/"))) == data:
            known = known or "an earlier import brought it and it is disabled; `hermes config enable` enables it"
        return item.decide(lambda copy: copy.write(data, item.destination), known=known, other=self._other(there))

    def _other(self, there: bytes | None) -> str:
        return "another file is there" if there is not None and not self._overwrite else ""


def _replace_outside(path: str, data: bytes, there: bytes | None, program: str) -> None:
    """Writes a file where the person asked for it, and keeps the previous one next to it."""
    parent, name = os.path.split(path)
    with Folder.create(parent) as folder:
        if there is not None:
            folder.replace(f"{name}.before-{program}", there)
        folder.replace(name, data)


def content_of(path: str) -> bytes | None:
    """The content of a file, for comparison; None if nothing is there, one NUL byte if it cannot be read as a file."""
    try:
        return read_bytes(path, _LARGEST)
    except FileNotFoundError:
        return None
    except StorageError:
        return b"\0"


def _attacks(text: str) -> str:
    """The kinds of attack in a text, if a prompt would leave out all of it; empty if it would show a part."""
    verdict = scan(text, "context")
    shown = verdict.level != "refuse" or without_attacks(text, "", lambda part: scan(part, "context"))
    return "" if shown else ", ".join(verdict.classes)


IMPORT = "import"
_HINT = 60  # characters of a refused entry in the report
_LONGEST_ARCHIVED = 100_000  # characters; longer entries are cut


class Merge:
    """A merge of entries into one target of curated memory.

    Existing entries stay. New ones are added while there is room; the others go to the archive in the same change.
    Entries that the scanner refuses appear only in the report.
    """

    def __init__(self, store: MemoryStore, target: str, source: str) -> None:
        self._store = store
        self._target = target
        self._source = source
        self._limit = store.limit(target)
        self.added: list[str] = []
        self.archived: list[str] = []
        self.duplicates = 0
        self.refused: list[str] = []  # the beginning of each entry, and why
        self.origins: dict[str, str] = {}  # of the entries in `added` and `archived`

    def sort(self, given: Iterable[str], coming: Iterable[str], origins: Mapping[str, str]) -> None:
        """Sorts the entries into new, known, archived and refused; changes nothing.

        `coming` are entries that earlier items of the plan add: they take up room and count as known.
        """
        live = [*self._store.entries(self._target), *coming]
        known = {_key(entry) for entry in (*live, *(each.entry for each in self._store.archived(self._target)))}
        for raw in given:
            entry = text.trim(raw)
            if not entry:
                continue
            if _key(entry) in known:
                self.duplicates += 1
                continue
            known.add(_key(entry))
            try:
                entry = text.clean(entry)
                screen_write(entry, _cause(self._source))
            except WriteRefused as refusal:
                # Mask it: a secret may be the reason for the refusal.
                self.refused.append(f"{text.preview(mask_secrets(entry), _HINT)}: {refusal}")
                continue
            if text.size([*live, entry]) <= self._limit:
                live.append(entry)
                self.added.append(entry)
            else:
                entry = entry[:_LONGEST_ARCHIVED]
                self.archived.append(entry)
            origin = str(origins.get(raw))
            # Any other origin, such as the person, is only a claim of the archive.
            self.origins[entry] = origin if origin in UNTRUSTED else IMPORT

    def details(self) -> dict[str, Any]:
        """Counts for the report, with the beginnings of entries that were archived or refused."""
        return {
            "existing_entries": len(self._store.entries(self._target)),
            "added_entries": len(self.added),
            "duplicate_entries": self.duplicates,
            "overflowed_entries": len(self.archived),
            "refused_entries": len(self.refused),
            "char_limit": self._limit,
            "overflow_preview": [text.preview(entry) for entry in self.archived[:5]],
            "refused_reasons": self.refused,
        }

    def apply(self, store: MemoryStore) -> None:
        """Makes one change per origin; the origin is "import" unless the entry came from outside before."""
        coming = (*self.added, *self.archived)
        for origin in dict.fromkeys(self.origins[entry] for entry in coming):
            chosen = [entry for entry in coming if self.origins[entry] == origin]
            store.curate(self._target, partial(self._planned, chosen), cause=_cause(self._source, origin))

    def _planned(self, coming: Sequence[str], entries: tuple[str, ...]) -> Plan:
        live, edits, leaving = list(entries), [], []
        known = {_key(entry) for entry in entries}
        for entry in coming:
            if _key(entry) in known:
                continue  # another program has added it since the plan was made
            # An entry without room is added and removed in one change, so that the history and the archive have it.
            edits.append(Edit(index=len(live), before=None, after=entry))
            if entry in self.archived or text.size([*live, entry]) > self._limit:
                edits.append(Edit(index=len(live), before=entry, after=None))
                leaving.append(Leaving(entry=entry, reason=f"imported from {self._source} when the file was full"))
            else:
                live.append(entry)
        return Plan(action="import", edits=tuple(edits), entries=tuple(live), archived=tuple(leaving))


def _cause(source: str, origin: str = IMPORT) -> Cause:
    return Cause(origin=origin, note=f"from {source}")


def _key(entry: str) -> str:
    """A key that is equal for entries that differ only in spacing, case or Unicode forms."""
    return " ".join(unicodedata.normalize("NFKC", entry).casefold().split())


def change_memory(copy: HomeCopy, store: MemoryStore, target: str, change: Callable[[MemoryStore], object]) -> None:
    """Changes memory in the copy or, if a link leads out of the home, once the copy is in place."""
    if copy.holds(store.path(target)):
        change(store)
    else:
        copy.after.append(partial(change, store))


@contextlib.contextmanager
def open_for_import(path: str, copy: HomeCopy) -> Iterator[SessionDB]:
    """Opens the copy of a database of the home for one step of a migration, and rebuilds its index afterwards."""
    with SessionDB.open(copy.own_database(path), durability="turn") as db:
        yield db
        db.sync()
        upkeep = Maintenance.of_db(db)
        with contextlib.suppress(StorageError):  # nothing is lost; searches only take longer
            db.index()
            if upkeep.is_in_pieces():
                for _ in upkeep.settle():
                    pass
