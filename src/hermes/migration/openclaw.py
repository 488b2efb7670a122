"""`hermes claw migrate`: an OpenClaw home becomes part of a Hermes home; planned first, then done as a whole."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from hermes.curated.store import MemoryStore
from hermes.migration.carry_out import carry_out, merging
from hermes.migration.carrying import Carrying
from hermes.migration.markdown_entries import entries
from hermes.migration.merging import plan_merge
from hermes.migration.openclaw_settings import plan_settings
from hermes.migration.openclaw_source import dig, files_below, find_openclaw, is_running, links_below
from hermes.migration.report import ARCHIVED, CONFLICT, MIGRATED, SKIPPED, Item, Report
from hermes.settings.load import load_settings
from hermes.storage.files import Folder
from hermes.storage.locks import is_held
from hermes.storage.unfinished import settle

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hermes.migration.merging import Merge
    from hermes.migration.openclaw_source import OpenClaw, Options
    from hermes.settings.home import Home

NAME = "openclaw"
SKILLS = "openclaw-imports"
_WITHOUT_A_HOME = ("IDENTITY.md", "TOOLS.md", "HEARTBEAT.md", "BOOTSTRAP.md", "DREAMS.md", ".learnings", "memory")
_NEVER_READ = ("memory/main.sqlite", "credentials", "devices", "identity", "workspace.zip")


class Migration:
    """`plan` looks and changes nothing; `apply` carries the plan out, all of it or nothing."""

    def __init__(self, home: Home, options: Options) -> None:
        self._home = home
        self._options = options
        self._stamp = time.strftime("%Y%m%dT%H%M%S")
        self._merges: list[Merge] = []

    def plan(self) -> Report:
        settle(self._home.path)
        options = self._options
        source = find_openclaw(options.source, options.user_home)
        report = Report(
            timestamp=self._stamp,
            mode="dry_run",
            source_root=source.root,
            target_root=self._home.path,
            output_dir=self._home.join("migration", NAME, self._stamp),
            options={
                "workspace_target": options.workspace_target,
                "migrate_secrets": options.migrate_secrets,
                "preset": options.preset,
                "skill_conflict_mode": options.skill_conflict,
            },
        )
        carrying = Carrying(self._home, NAME, self._stamp, overwrite=options.overwrite)
        report.items += self._identity(source, carrying)
        report.items += self._memory(source)
        report.items += self._skills(source, carrying)
        report.items += plan_settings(source, self._home, options, carrying)
        report.items += self._without_a_home(source, carrying)
        report.items += self._never_read(source)
        report.warnings += [*source.warnings, *self._warnings(source)]
        report.next_steps = _next_steps(report)
        return report

    def apply(self, report: Report) -> Report:
        return carry_out(
            self._home, report, program=NAME, overwrite=self._options.overwrite, backup=self._options.backup
        )

    def _identity(self, source: OpenClaw, carrying: Carrying) -> list[Item]:
        found = []
        soul = source.read("SOUL.md")
        if soul is not None:
            found.append(carrying.text("soul", os.path.join(source.workspace, "SOUL.md"), soul, "SOUL.md"))
        agents = source.read("AGENTS.md")
        if agents is not None:
            path = os.path.join(source.workspace, "AGENTS.md")
            target = self._options.workspace_target
            if target is None:
                reason = "name a workspace with --workspace-target to copy it there"
                found.append(carrying.archived("workspace-agents", path, "AGENTS.md", reason))
            else:
                found.append(carrying.outside("workspace-agents", path, agents, os.path.join(target, "AGENTS.md")))
        return found

    def _memory(self, source: OpenClaw) -> list[Item]:
        store = MemoryStore.open(self._home, settings=load_settings(self._home))
        daily = self._daily(source)
        groups: list[tuple[str, str, str, list[str]]] = []
        for kind, target, name in (("memory", "memory", "MEMORY.md"), ("user-profile", "user", "USER.md")):
            text = source.read(name)
            if text is not None:
                groups.append((kind, target, os.path.join(source.workspace, name), entries(text)))
        if daily:
            notes = [entry for text in daily.values() for entry in entries(text)]
            groups.append(("daily-memory", "memory", os.path.join(source.workspace, "memory"), notes))
        items = []
        for kind, target, path, found in groups:
            if target not in store.targets:
                items.append(Item(kind=kind, source=path, reason=f"the {target} store is switched off here"))
                continue
            earlier = [entry for merge in self._merges if merge.target == target for entry in merge.added]
            merge = plan_merge(store, target, found, source=NAME, taken=earlier)
            self._merges.append(merge)
            items.append(merging(kind, path, store, merge))
            if kind == "daily-memory":
                items[-1].details["source_files"] = list(daily)
        return items

    def _daily(self, source: OpenClaw) -> dict[str, str]:
        """The daily notes, newest first: when not all fit, the newest are worth most."""
        folder = os.path.join(source.workspace, "memory") if source.workspace else ""
        if not os.path.isdir(folder):
            return {}
        names = sorted((name for name in os.listdir(folder) if name.endswith(".md")), reverse=True)
        texts = {name: source.read("memory", name) for name in names}
        return {name: text for name, text in texts.items() if text is not None}

    def _skills(self, source: OpenClaw, carrying: Carrying) -> list[Item]:
        base = self._options.user_home or os.path.expanduser("~")
        places = [("skills", os.path.join(source.workspace, "skills"))] if source.workspace else []
        places += [("shared-skills", os.path.join(source.root, "skills"))]
        places += [("shared-skills", os.path.join(base, ".agents", "skills"))]
        if source.workspace:
            places.append(("skills", os.path.join(source.workspace, ".agents", "skills")))
        found = []
        for kind, place in places:
            for name in sorted(os.listdir(place)) if os.path.isdir(place) and not os.path.islink(place) else ():
                folder = os.path.join(place, name)
                if os.path.isfile(os.path.join(folder, "SKILL.md")) and not os.path.islink(folder):
                    found.append(carrying.skill(kind, folder, SKILLS, name, self._options.skill_conflict))
        return found

    def _without_a_home(self, source: OpenClaw, carrying: Carrying) -> list[Item]:
        found = []
        reason = "nothing in Hermes reads it; kept for you to look at"
        for name in _WITHOUT_A_HOME if source.workspace else ():
            path = os.path.join(source.workspace, name)
            if os.path.isfile(path) and not os.path.islink(path):
                found.append(carrying.archived("archive", path, name, reason))
            elif os.path.isdir(path) and not os.path.islink(path):
                for inside, full in files_below(path):
                    found.append(carrying.archived("archive", full, f"{name}/{inside}", reason))
        tts = os.path.join(source.workspace, "tts") if source.workspace else ""
        if os.path.isdir(tts) and not os.path.islink(tts):
            found += [carrying.copied("tts-assets", full, f"tts/{inside}") for inside, full in files_below(tts)]
        for other in source.others:
            label = os.path.basename(other)
            for inside, full in files_below(other):
                if inside.endswith(".md") and inside.count("/") <= 1:
                    why = "it belongs to another agent; a profile of its own would be its place"
                    found.append(carrying.archived("archive", full, f"{label}/{inside}", why))
        return [item for item in found if item.status != SKIPPED or item.reason]

    def _never_read(self, source: OpenClaw) -> Iterable[Item]:
        for name in _NEVER_READ:
            path = os.path.join(source.root, name)
            if os.path.lexists(path):
                yield Item(kind="archive", source=path, reason="sensitive, never read", sensitive=True)
        for path in links_below(source.workspace) if source.workspace else ():
            yield Item(kind="archive", source=path, reason="a link, which is not followed")

    def _warnings(self, source: OpenClaw) -> list[str]:
        found = [
            f"OpenClaw still runs: {process}; stop it first, one bot token cannot serve two programs"
            for process in is_running()
        ]
        others = any(os.path.exists(self._home.join(name)) for name in ("gateway.pid", "gateway.lock"))
        if others or self._gateway_runs():
            found.append("a Hermes gateway seems to run in this home; restart it after the migration")
        if dig(source.config, "memory", "backend") or dig(source.config, "memory"):
            found.append("OpenClaw's memory backend is not taken over; `hermes memory setup` chooses one here")
        return found

    def _gateway_runs(self) -> bool:
        folder = Folder.open(self._home.join("gateway"))
        if folder is None:
            return False
        with folder:
            return is_held(folder, "run.lock")


def _next_steps(report: Report) -> list[str]:
    steps = []
    if any(item.last and item.status == MIGRATED for item in report.items):
        steps.append("memory takes effect in new sessions; `hermes memory list` shows it")
    if any(item.details.get("overflowed_entries") for item in report.items):
        steps.append("what did not fit is in the archive: `hermes memory list --archived`, `hermes memory restore`")
    if any(item.details.get("refused_entries") for item in report.items):
        steps.append(
            "some entries were refused by the scanner; the report says why, add them yourself if they are fine"
        )
    if any(item.status == ARCHIVED for item in report.items):
        steps.append(f"look through {os.path.join(report.output_dir, 'archive')}")
    if any(item.status == CONFLICT for item in report.items):
        steps.append("--overwrite replaces what is there and differs; a backup is made first")
    steps.append("when everything is right, `hermes claw cleanup` puts the old folders aside")
    return steps


def plan_cleanup(given: str | None, user_home: str | None = None) -> list[tuple[str, str]]:
    """Each old folder and the name it would get."""
    from hermes.migration.openclaw_source import ROOTS
    from hermes.vocabulary.errors import NotFound

    base = user_home or os.path.expanduser("~")
    places = [os.path.abspath(os.path.expanduser(given))] if given else [os.path.join(base, name) for name in ROOTS]
    found = [place for place in places if os.path.isdir(place) and not os.path.islink(place)]
    if given and not found:
        raise NotFound(f"there is no folder {given}")
    return [(place, _put_aside(place)) for place in found]


def left_in(folder: str) -> list[str]:
    """What somebody may still want from an old folder: to-do lists and transcripts."""
    found: list[str] = []
    for inside, full in files_below(folder):
        if os.path.basename(inside) == "todo.json" or "/sessions/" in f"/{inside}":
            found.append(full)
    return found[:20]


def _put_aside(place: str) -> str:
    name = f"{place}.pre-migration"
    if not os.path.lexists(name):
        return name
    name = f"{name}-{time.strftime('%Y%m%d')}"
    number, free = 1, name
    while os.path.lexists(free):
        number += 1
        free = f"{name}-{number}"
    return free
