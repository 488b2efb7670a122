"""`hermes import hermes-agent`: a hermes-agent home becomes ours, in its place or copied into another.

Memory files, skills and most settings have the same form in both programs. In place, only what differs is changed: the
database is adopted and settings we do not know are taken out, after a full backup. Copied, everything is added to the
home as from any other program.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hermes.curated.entries import parse
from hermes.curated.history import Cause
from hermes.curated.places import FILES, FOLDER
from hermes.curated.store import TARGETS, MemoryStore
from hermes.migration.carry_out import carry_out, merging
from hermes.migration.carrying import Carrying
from hermes.migration.hermes_agent_sessions import (
    adopt_hermes_agent,
    has_news,
    import_hermes_agent,
    open_for_import,
)
from hermes.migration.merging import plan_merge
from hermes.migration.openclaw_source import files_below, read_bytes, read_text
from hermes.migration.report import ARCHIVED, CONFLICT, ERROR, MIGRATED, SKIPPED, Item, Report
from hermes.settings.home import DATABASE, PROFILES, Home, profile_path
from hermes.settings.load import Settings, check_text
from hermes.settings.secrets_file import FILE as SECRETS
from hermes.settings.secrets_file import read_secrets, save_secret
from hermes.settings.yaml_file import keep_known, place_value
from hermes.storage.foreign import HERMES_AGENT as PROGRAM
from hermes.storage.foreign import foreign_program
from hermes.storage.privacy import keep_private, readable_by_others
from hermes.storage.sessions import SessionDB
from hermes.storage.unfinished import settle
from hermes.vocabulary.errors import HermesError, NotFound, SettingsError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hermes.migration.undo_log import UndoLog

NAME = "hermes-agent"
_CONFIG = "config.yaml"
_PROVIDERS = (
    *("honcho.json", "mem0.json", "supermemory.json", "hindsight", "byterover", "openviking"),
    *("retaindb.json", "retaindb_queue.db", "memory_store.db", "plugins", os.path.join("pending", "memory")),
)
_OURS = frozenset(
    (
        *(*_PROVIDERS, _CONFIG, SECRETS, DATABASE, FOLDER, "skills", "SOUL.md", PROFILES, "pending", "backups"),
        *("cache", "migration", "gateway", "outbox", "shared", "users", "weights", "chat_history"),
    )
)
_PASSING = (".lock", ".queue", "-wal", "-shm", ".pid", "active_profile")


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopting:
    source: str
    overwrite: bool = False
    migrate_secrets: bool = False
    backup: bool = True
    skill_conflict: str = "skip"


class Adoption:
    def __init__(self, home: Home, options: Adopting, progress: Callable[[str, int, int], None] | None = None) -> None:
        self._home = home
        self._options = options
        self._progress = progress
        self._stamp = time.strftime("%Y%m%dT%H%M%S")

    def plan(self) -> Report:
        settle(self._home.path)
        source = os.path.realpath(os.path.expanduser(self._options.source))
        if not os.path.isdir(source):
            raise NotFound(f"there is no home at {source}; name that of hermes-agent: `hermes import hermes-agent DIR`")
        in_place = source == os.path.realpath(self._home.path)
        report = Report(
            timestamp=self._stamp,
            mode="dry_run",
            source_root=source,
            target_root=self._home.path,
            output_dir=self._home.join("migration", NAME, self._stamp),
            options={"in_place": in_place, "migrate_secrets": self._options.migrate_secrets},
        )
        for place, home in self._homes(source):
            report.items += self._in_place(home) if in_place else self._copied(place, home)
        if in_place and report.has_work():
            report.items += self._private()
        if not in_place and not report.items:
            raise NotFound(f"{source} holds nothing of hermes-agent")
        report.next_steps = ["`hermes memory list`, `hermes sessions list` and `hermes config check` show the result"]
        return report

    def apply(self, report: Report) -> Report:
        options = self._options
        in_place = report.options["in_place"]
        return carry_out(
            self._home, report, program=NAME, overwrite=options.overwrite, backup=options.backup or in_place
        )

    def _homes(self, source: str) -> Iterator[tuple[str, Home]]:
        """The home itself and each of its profiles, with the home that it becomes here."""
        yield source, self._home
        folder = os.path.join(source, PROFILES)
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            place = os.path.join(folder, name)
            if os.path.isdir(place) and not os.path.islink(place):
                try:
                    path = profile_path(self._home.path, name)
                except SettingsError:
                    continue  # no profile of either program is called so
                yield place, Home(path=path, root=self._home.path, profile=name)

    def _inside(self, home: Home, *names: str) -> tuple[str, ...]:
        """A path of one of the homes as the undo log names it: below the home that is migrated."""
        return (os.path.relpath(home.join(*names), self._home.path),)

    def _in_place(self, home: Home) -> list[Item]:
        items = []
        settings, unknown = _settings(home)
        if unknown:
            items.append(self._cleaned(home, unknown))
        if os.path.exists(home.join(DATABASE)) and foreign_program(home.join(DATABASE)) == PROGRAM:
            items.append(self._adopted(home))
        store = MemoryStore.open(home, settings=settings)
        items += [_accepted(store, target) for target in store.targets if store.read(target).drift]
        return items + list(_left(home.path)) if items else []

    def _private(self) -> Iterator[Item]:
        """hermes-agent leaves some files for others to read; here nothing is."""
        home = self._home.path
        count = len(readable_by_others(home))
        if not count:
            return

        def act(_: UndoLog) -> None:
            for path in readable_by_others(home):
                keep_private(path)

        item = Item(kind="privacy", source=home, destination=home, status=MIGRATED, last=True, act=act)
        item.reason = f"others may read {count:,} files and folders; they become yours alone"
        yield item

    def _cleaned(self, home: Home, unknown: list[str]) -> Item:
        original = read_bytes(home.join(_CONFIG))

        def act(log: UndoLog) -> None:
            log.protect(*self._inside(home, _CONFIG))
            log.write(original, "migration", NAME, self._stamp, "archive", home.profile or "home", _CONFIG)
            keep_known(home, _CONFIG)

        item = Item(kind="settings", source=home.join(_CONFIG), destination=home.join(_CONFIG), status=MIGRATED)
        item.reason = "settings Hermes does not have were taken out; the original is in the archive"
        item.details, item.act = {"taken_out": unknown}, act
        return item

    def _adopted(self, home: Home) -> Item:
        path = home.join(DATABASE)
        item = Item(kind="sessions", source=path, destination=path, status=MIGRATED, last=True)

        def act(log: UndoLog) -> None:
            counts, kept = adopt_hermes_agent(path, log, self._progress)
            item.details |= {"sessions": counts.sessions, "messages": counts.messages, "original": kept}

        item.act = act
        return item

    def _copied(self, place: str, home: Home) -> list[Item]:
        carrying = Carrying(home, NAME, self._stamp, overwrite=self._options.overwrite)
        carrying.root = self._home.path
        items = [*self._memory(place, home), *self._skills(place, carrying), *self._config(place, home, carrying)]
        items += self._secrets(place, home)
        soul = os.path.join(place, "SOUL.md")
        if os.path.isfile(soul):
            items.append(carrying.text("soul", soul, read_text(soul), "SOUL.md"))
        for name in _PROVIDERS:
            items += _provider_files(place, name, carrying)
        if os.path.exists(os.path.join(place, DATABASE)):
            items.append(self._sessions(os.path.join(place, DATABASE), home))
        return items + list(_left(place))

    def _memory(self, place: str, home: Home) -> Iterator[Item]:
        settings, _ = _settings(home)
        store = MemoryStore.open(home, settings=settings)
        for target in TARGETS:
            path = os.path.join(place, FOLDER, FILES[target])
            if os.path.isfile(path) and target in store.targets:
                try:
                    found = parse(read_text(path))
                except StorageError as error:
                    yield Item(kind=target, source=path, status=ERROR, reason=str(error))
                    continue
                merge = plan_merge(store, target, found, source=NAME)
                yield merging(target, path, store, merge)

    def _skills(self, place: str, carrying: Carrying) -> Iterator[Item]:
        root = os.path.join(place, "skills")
        for inside, path in files_below(root) if os.path.isdir(root) else ():
            parts = inside.split(os.sep)
            if parts[-1] == "SKILL.md" and 1 < len(parts) <= 3 and not parts[0].startswith("."):  # noqa: PLR2004
                category = parts[0] if len(parts) == 3 else ""  # noqa: PLR2004 - category, name, file
                conflict = self._options.skill_conflict
                yield carrying.skill("skills", os.path.dirname(path), category, parts[-2], conflict)

    def _config(self, place: str, home: Home, carrying: Carrying) -> Iterator[Item]:
        path = os.path.join(place, _CONFIG)
        if not os.path.isfile(path):
            return
        data = read_bytes(path)
        found, problems = check_text(path, data)
        here, _ = _settings(home)
        for name, each in found.items():
            if name != "_config_version":
                yield self._setting(path, home, here, (name, each.value))
        if problems:
            reason = f"{len(problems)} settings that Hermes does not have; the file is kept for you to look at"
            label = f"{home.profile}/{_CONFIG}" if home.profile else _CONFIG
            yield carrying.archived_data("settings", path, data, label, reason)

    def _setting(self, path: str, home: Home, here: Settings, wanted: tuple[str, Any]) -> Item:
        name, value = wanted
        item = Item(kind="settings", source=path, destination=f"{home.join(_CONFIG)}: {name}")
        if here.origin(name) != "default" or os.path.islink(home.join(_CONFIG)):
            if here.get(name) == value:
                item.reason = "it is set like this already"
                return item
            if not self._options.overwrite:
                item.status, item.reason = CONFLICT, "it is set to something else here"
                return item

        def act(log: UndoLog) -> None:
            log.protect(*self._inside(home, _CONFIG))
            place_value(home, _CONFIG, name, value)

        item.status, item.act = MIGRATED, act
        return item

    def _secrets(self, place: str, home: Home) -> Iterator[Item]:
        try:
            given = read_secrets(Home(path=place, root=place)) if os.path.isfile(os.path.join(place, SECRETS)) else {}
            there = read_secrets(home)
        except HermesError as error:
            yield Item(kind="secrets", source=os.path.join(place, SECRETS), status=ERROR, reason=str(error))
            return
        for name, text in given.items():
            item = Item(kind="secrets", source=os.path.join(place, SECRETS), sensitive=True)
            item.destination = f"{home.join(SECRETS)}: {name}"
            if not self._options.migrate_secrets:
                item.reason = "secrets come over only with --migrate-secrets"
            elif there.get(name) == text:
                item.reason = "it is there already"
            elif name in there and not self._options.overwrite:
                item.status, item.reason = CONFLICT, "another value is there"
            else:
                item.status, item.act = MIGRATED, self._saving(home, name, text)
            yield item

    def _saving(self, home: Home, name: str, text: str) -> Callable[[UndoLog], None]:
        def act(log: UndoLog) -> None:
            log.protect(*self._inside(home, SECRETS))
            save_secret(home, name, text)

        return act

    def _sessions(self, path: str, home: Home) -> Item:
        target = home.join(DATABASE)
        item = Item(kind="sessions", source=path, destination=target, status=MIGRATED, last=True)
        if foreign_program(path) != PROGRAM:
            item.status, item.reason = ARCHIVED, "it is no database of hermes-agent"
            return item
        if os.path.exists(target) and foreign_program(target) is not None:
            item.status, item.reason = ERROR, "a foreign database stands in its place; adopt that one first"
            return item
        if os.path.exists(target):
            with SessionDB.open(target) as there:
                if not has_news(path, there):
                    item.status, item.reason = SKIPPED, "every conversation is there already"
                    return item

        def act(log: UndoLog) -> None:
            db = open_for_import(target, log)
            counts = import_hermes_agent(path, db, self._progress)
            db.sync()
            item.details |= {"sessions": counts.sessions, "messages": counts.messages, "known": counts.known}

        item.act = act
        return item


def _settings(home: Home) -> tuple[Settings, list[str]]:
    """What of config.yaml is ours, and the names of what is not, however wrong the rest is."""
    try:
        data = read_bytes(os.path.realpath(home.join(_CONFIG)))
    except FileNotFoundError:
        return Settings(home.join(_CONFIG), {}), []
    found, problems = check_text(home.join(_CONFIG), data)
    return Settings(home.join(_CONFIG), found), [problem.split(": ", 1)[-1] for problem in problems]


def _left(place: str) -> Iterator[Item]:
    """What hermes-agent has and Hermes does not read: it stays where it is."""
    for name in sorted(set(os.listdir(place)) - _OURS):
        if not name.startswith(".") and not name.endswith(_PASSING):
            yield Item(kind="other", source=os.path.join(place, name), reason="nothing in Hermes reads it")


def _accepted(store: MemoryStore, target: str) -> Item:
    path = store.path(target)

    def act(log: UndoLog) -> None:
        log.protect_memory(path)
        store.adopt(target, cause=Cause(origin="import", note=f"from {NAME}"))

    item = Item(kind=target, source=path, destination=path, status=MIGRATED, last=True, act=act)
    item.reason = "it was written in another form; its bytes are kept beside it"
    return item


def _provider_files(place: str, name: str, carrying: Carrying) -> Iterator[Item]:
    path = os.path.join(place, name)
    if os.path.islink(path):
        yield Item(kind="provider", source=path, reason="a link, which is not followed")
    elif os.path.isfile(path):
        yield carrying.copied("provider", path, name)
    elif os.path.isdir(path):
        for inside, full in files_below(path):
            if "__pycache__" not in inside:
                yield carrying.copied("provider", full, f"{name}/{inside}")
