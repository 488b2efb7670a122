"""`hermes memory import`: notes of other programs into curated memory, previewed and carried out as a whole."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hermes.curated.store import MemoryStore
from hermes.migration.carry_out import carry_out, merging
from hermes.migration.foreign_memory import read_memory
from hermes.migration.merging import plan_merge
from hermes.migration.report import Report
from hermes.settings.load import load_settings
from hermes.storage.unfinished import settle

if TYPE_CHECKING:
    from hermes.settings.home import Home


class MemoryImport:
    def __init__(self, home: Home, given: str, form: str | None, target: str | None, project: str = "") -> None:
        self._home = home
        self._given = given
        self._form = form
        self._target = "project" if project else target
        self._project = project

    def plan(self) -> Report:
        settle(self._home.path)
        found = read_memory(self._given, self._form, "memory" if self._project else self._target)
        stamp = time.strftime("%Y%m%dT%H%M%S")
        report = Report(
            timestamp=stamp,
            mode="dry_run",
            source_root=found.origin,
            target_root=self._home.path,
            output_dir=self._home.join("migration", "memory", stamp),
            options={"format": found.format, "files": found.files},
            warnings=found.warnings,
        )
        store = MemoryStore.open(self._home, settings=load_settings(self._home), project=self._project)
        for target, entries in found.entries.items():
            chosen = "project" if self._project else target
            if entries and chosen in store.targets:
                merge = plan_merge(store, chosen, entries, source=found.format)
                report.items.append(merging(chosen, found.origin, store, merge))
        return report

    def apply(self, report: Report) -> Report:
        return carry_out(self._home, report, program="memory", overwrite=False, backup=False)
