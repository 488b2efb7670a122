"""Plans a migration as a list of items, shown first and then carried out as a whole, with a backup and a report."""

from __future__ import annotations

import json
import os
import tempfile
import time
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from hermes.base.errors import HermesError, StorageError, WriteRefused
from hermes.memory import entries as text
from hermes.memory.entries import UNTRUSTED, Cause, Edit, Leaving
from hermes.memory.file import Plan
from hermes.memory.store import MemoryStore, screen_write
from hermes.portability.archive import files_below, merged, read_bytes
from hermes.portability.exchange import DISABLED, HomeCopy, disable, disabled_setting, is_empty
from hermes.portability.home import BACKUPS, create_backup, new_name, prune_backups
from hermes.safety.scanner import scan, without_attacks
from hermes.safety.secrets import mask_secrets
from hermes.settings.config import FILE as CONFIG
from hermes.settings.environment import FILE as SECRETS
from hermes.settings.environment import read_secrets, save_secret
from hermes.settings.yaml_file import place_value
from hermes.skills.files import MAIN_FILE, check_name
from hermes.storage.files import Folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hermes.memory.store import Written
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
    """One thing at the source. `act` migrates it; an item without `act` changes nothing."""

    kind: str
    source: str
    destination: str = ""
    status: str = SKIPPED
    reason: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    sensitive: bool = False
    last: bool = False  # others may write these files too; doing them last makes a clash less likely
    act: Callable[[HomeCopy], object] | None = None

    def as_json(self) -> dict[str, Any]:
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
        counts = Counter(item.status for item in self.items)
        return {status: counts[status] for status in STATUSES}

    def conflicts(self) -> list[Item]:
        return [item for item in self.items if item.status == CONFLICT]

    def has_work(self) -> bool:
        return any(item.act is not None for item in self.items)

    def as_json(self) -> dict[str, Any]:
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
    """An empty preview; files that the migration only archives go to a folder of its own below `migration/`."""
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


_LARGEST = 64 << 20


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
        """A merge of entries into a target of curated memory; `origins` says which of them came from outside."""
        opened = partial(MemoryStore.open, settings=self._settings, project=project)
        store = opened(self._home)
        if target not in store.targets:
            return Item(kind=kind, source=source, reason=f"the {target} store is switched off here")
        coming = self._coming.setdefault(target, [])
        merge = _plan_merge(store, target, found, source=self._report.program, coming=coming, origins=origins or {})
        coming += merge.added
        item = Item(kind=kind, source=source, destination=store.path(target), details=merge.details(), last=True)
        if merge.changes:
            item.status = MIGRATED
            item.act = lambda copy: change_memory(
                copy, opened(copy.home_of(self._home)), target, lambda store: _apply_merge(store, merge)
            )
        else:
            item.reason = "every entry is there already" if not merge.refused else "nothing new may be stored"
        return item

    def setting(self, kind: str, source: str, name: str, value: Any, *, same: Any = None) -> Item:
        """A setting; `same` is the value that an earlier run may have written for it."""
        home, here = self._home, self._settings
        item = Item(kind=kind, source=source, destination=f"{home.join(CONFIG)}: {name}")
        is_set = here.origin(name) != "default"
        if os.path.islink(home.join(CONFIG)):
            item.reason = f"{CONFIG} is a link; change the setting in the file it points to"
        elif disabled_setting(home, name) == value:
            item.reason = "it came along before and is disabled; `hermes config enable` enables it"
        elif is_set and here.get(name) == value:
            item.reason = "it has this value already"
        elif is_set and not self._overwrite and (same is None or here.get(name) != same):
            item.status, item.reason = CONFLICT, "it has another value here"
        else:
            item.status, item.act = MIGRATED, lambda copy: place_value(copy.home_of(home), CONFIG, name, value)
        return item

    def secrets(
        self, source: str, found: Mapping[str, str], kind: Callable[[str], str], refused: str = ""
    ) -> Iterator[Item]:
        """Secrets by name; copied only if the person asked for it, and not when `refused` gives a reason."""
        if not refused and not self._report.choices.migrate_secrets:
            refused = "secrets are copied only with --migrate-secrets"
        try:
            there = read_secrets(self._home)
        except HermesError as error:
            yield Item(kind="secrets", source=source, status=ERROR, reason=str(error))
            return
        for name, given in found.items():
            destination = f"{self._home.join(SECRETS)}: {name}"
            item = Item(kind=kind(name), source=source, destination=destination, reason=refused, sensitive=True)
            if there.get(name) == given and not refused:
                item.reason = "it is there already"
            elif name in there and not self._overwrite and not refused:
                item.status, item.reason = CONFLICT, "another value is there"
            elif not refused:
                item.status, item.act = MIGRATED, partial(self._save_secret, name, given)
            yield item

    def _save_secret(self, name: str, given: str, copy: HomeCopy) -> None:
        save_secret(copy.home_of(self._home), name, given)

    def text(self, kind: str, source: str, text: str, destination: str) -> Item:
        """A text that will be part of prompts: if the scanner refuses it, it is archived instead."""
        if found := _attacks(text):
            reason = f"it looks like {found}; it is archived and not used"
            return self.archived(kind, source, os.path.basename(source), reason)
        return self._placed(kind, source, text.encode(), destination)

    def copied(self, kind: str, source: str, destination: str) -> Item:
        """A file unchanged; a database with the contents of its log."""
        try:
            with tempfile.TemporaryDirectory(prefix="hermes-import-") as place:
                return self._placed(kind, source, read_bytes(merged(source, place), _LARGEST), destination)
        except (StorageError, FileNotFoundError) as error:
            return Item(kind=kind, source=source, status=ERROR, reason=str(error))

    def outside(self, kind: str, source: str, text: str, destination: str) -> Item:
        """A file for a folder outside the home that the person named."""
        path = os.path.abspath(os.path.expanduser(destination))
        item = Item(kind=kind, source=source, destination=path)
        there = _read(path)
        if there == text.encode():
            item.reason = "it is there already"
        elif there is not None and not self._overwrite:
            item.status, item.reason = CONFLICT, "another file is there"
        elif not os.path.isdir(os.path.dirname(path)):
            item.status, item.reason = ERROR, f"there is no folder {os.path.dirname(path)}; create it first"
        else:
            replace = partial(_replace_outside, path, text.encode(), there, self._report.program)
            item.status, item.act = MIGRATED, lambda copy: copy.after.append(replace)
        return item

    def archived(self, kind: str, source: str, name: str, reason: str) -> Item:
        try:
            data = read_bytes(source, _LARGEST)
        except (StorageError, FileNotFoundError) as error:
            return Item(kind=kind, source=source, status=ERROR, reason=str(error))
        return self.archived_data(kind, source, data, name, reason)

    def archived_data(self, kind: str, source: str, data: bytes, name: str, reason: str) -> Item:
        """A file that is kept under `migration/`, unless an earlier run kept the same content there."""
        item = Item(kind=kind, source=source, reason=reason)
        earlier = self._kept_before(name, data)
        if earlier:
            item.destination, item.reason = earlier, "archived before"
            return item
        item.status, item.destination = ARCHIVED, os.path.join(self._report.output_dir, "archive", *name.split("/"))
        item.act = lambda copy: copy.write(data, item.destination)
        return item

    def skill(self, kind: str, folder: str, category: str, name: str) -> Item:
        """A skill; `choices.skill_conflict` says what happens when another one has its name."""
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
        place = self._home.join("skills", category, plain)
        if os.path.lexists(place):
            if _same_folder(place, files):
                item.destination, item.reason = place, "it is there already"
                return item
            if conflict == "skip" and not self._overwrite:
                item.destination, item.reason = place, "another skill of this name is there (--skill-conflict)"
                return item
            if conflict == "rename":
                plain = self._free_skill(category, plain, files)
                if not plain:
                    item.reason = "it is there already, under another name"
                    return item
        item.status, item.destination = MIGRATED, self._home.join("skills", category, plain)
        executable = {inside for inside, path in files_below(folder) if os.access(path, os.X_OK)}
        item.act = lambda copy: _write_skill(copy, item.destination, files, executable)
        return item

    def _placed(self, kind: str, source: str, data: bytes, destination: str) -> Item:
        item = Item(kind=kind, source=source, destination=self._home.join(*destination.split("/")))
        there = _read(item.destination)
        if there == data:
            item.reason = "it is there already"
        elif _read(self._home.join(DISABLED, *destination.split("/"))) == data:
            item.reason = "it came along before and is disabled; `hermes config enable` enables it"
        elif there is not None and not self._overwrite:
            item.status, item.reason = CONFLICT, "another file is there"
        else:
            item.status = MIGRATED
            item.act = lambda copy: copy.write(data, item.destination)
        return item

    def _kept_before(self, name: str, data: bytes) -> str:
        runs = os.path.dirname(self._report.output_dir)
        for run in sorted(os.listdir(runs)) if os.path.isdir(runs) else ():
            path = os.path.join(runs, run, "archive", *name.split("/"))
            if _read(path) == data:
                return path
        return ""

    def _free_skill(self, category: str, name: str, files: dict[str, bytes]) -> str:
        """An unused name; empty if one of the candidates is this same skill."""
        number = 1
        while True:
            free = f"{name}-imported" if number == 1 else f"{name}-imported-{number}"
            place = self._home.join("skills", category, free)
            if not os.path.lexists(place):
                return free
            if _same_folder(place, files):
                return ""
            number += 1


def _replace_outside(path: str, data: bytes, there: bytes | None, program: str) -> None:
    """Writes a file where the person asked for it and keeps the previous one beside it."""
    parent, name = os.path.split(path)
    with Folder.create(parent) as folder:
        if there is not None:
            folder.replace(f"{name}.before-{program}", there)
        folder.replace(name, data)


def _write_skill(copy: HomeCopy, place: str, files: dict[str, bytes], executable: set[str]) -> None:
    copy.clear(place)
    for inside, data in files.items():
        copy.write(data, place, inside, mode=0o700 if inside in executable else 0o600)


def _same_folder(place: str, files: dict[str, bytes]) -> bool:
    there = {inside: _read(path) for inside, path in files_below(place)}
    return there == files


def _read(path: str) -> bytes | None:
    try:
        return read_bytes(path, _LARGEST)
    except FileNotFoundError:
        return None
    except StorageError:
        return b"\0"  # something else is there


def _attacks(text: str) -> str:
    """The kinds of attack in a text of which a prompt would show nothing; empty if it would show some of it."""
    verdict = scan(text, "context")
    shown = verdict.level != "refuse" or without_attacks(text, "", lambda part: scan(part, "context"))
    return "" if shown else ", ".join(verdict.classes)


IMPORT = "import"
_HINT = 60
_LONGEST_ARCHIVED = 100_000


@dataclass(slots=True, kw_only=True)
class Merge:
    """What a merge of entries into one target of curated memory will do.

    Existing entries stay. New ones are added while there is room; the others go to the archive in the same change.
    Entries that the scanner refuses appear only in the report.
    """

    target: str
    source: str
    limit: int
    existing: int
    added: list[str] = field(default_factory=list)
    archived: list[str] = field(default_factory=list)
    duplicates: int = 0
    refused: list[str] = field(default_factory=list)  # the beginning of each entry, and why
    origins: dict[str, str] = field(default_factory=dict)  # for entries that came from outside: their origin

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
            "refused_reasons": self.refused,
        }


def _plan_merge(
    store: MemoryStore,
    target: str,
    given: Iterable[str],
    *,
    source: str,
    coming: Iterable[str],
    origins: Mapping[str, str],
) -> Merge:
    """Sorts the entries into new, known, too many and refused; changes nothing. `coming` are added before them."""
    live = [*store.entries(target), *coming]
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
            if (origin := origins.get(raw)) in UNTRUSTED:
                merge.origins[entry[:_LONGEST_ARCHIVED]] = str(origin)
        except WriteRefused as refusal:
            # Mask it: a secret may be the reason for the refusal.
            merge.refused.append(f"{text.preview(mask_secrets(entry), _HINT)}: {refusal}")
            continue
        if text.size([*live, entry]) <= merge.limit:
            live.append(entry)
            merge.added.append(entry)
        else:
            merge.archived.append(entry[:_LONGEST_ARCHIVED])
    return merge


def _apply_merge(store: MemoryStore, merge: Merge) -> Written | None:
    """Makes one change per origin; the origin is "import" unless the entry came from outside before.

    Returns None if there was nothing to do.
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
                continue  # added by somebody else meanwhile
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


def _key(entry: str) -> str:
    """The same for entries that differ only in spacing, case or Unicode forms."""
    return " ".join(unicodedata.normalize("NFKC", entry).casefold().split())


_KEPT_BACKUPS = 5


def carry_out(home: Home, report: Report) -> Report:
    """Applies every item to a copy of the home, which then takes its place.

    Settings and plug-ins that can run or connect are disabled, unless the person agreed (`enable`).
    """
    choices = report.choices
    if report.conflicts() and not choices.overwrite:
        names = ", ".join(sorted({item.kind for item in report.conflicts()}))
        raise StorageError(
            f"this home already has other versions of {names}; nothing was changed. --overwrite replaces them; "
            "the preview lists each"
        )
    if not report.has_work():
        return report
    report.mode = "execute"
    with HomeCopy(home.path) as copy:
        if choices.backup and not is_empty(home.path):
            report.options["backup"] = home.join(BACKUPS, new_name())
            create_backup(home.path, copy.inside(report.options["backup"]), why=f"before {report.program} migration")
            prune_backups(copy.path, _KEPT_BACKUPS)
        for item in sorted(report.items, key=lambda item: item.last):
            if item.act is not None:
                item.act(copy)
        report.disabled = [] if choices.enable else disable(copy.path, home.path)
        copy.write((json.dumps(report.as_json(), indent=2) + "\n").encode(), report.output_dir, "report.json")
        copy.write(report.markdown().encode("utf-8", "replace"), report.output_dir, "summary.md")
        copy.swap()
    return report


def change_memory(copy: HomeCopy, store: MemoryStore, target: str, change: Callable[[MemoryStore], object]) -> None:
    """Changes memory in the copy or, if a link leads out of the home, once the copy is in place."""
    if copy.holds(store.path(target)):
        change(store)
    else:
        copy.after.append(partial(change, store))
