"""The curator of a home: tidies memory and skills by schedule, and undoes any run.

`hermes.memory` works out what to do; this module carries it out through the same stores, locks and checks as any other
write, records it, and undoes it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import tarfile
import time
from functools import partial
from typing import TYPE_CHECKING

from hermes.base.errors import HermesError, LockTimeout, ModelError, NotFound, WriteRefused
from hermes.base.text import in_days
from hermes.memory.approval import Approvals
from hermes.memory.capture import Fact
from hermes.memory.curation import Proposals, category_of, checked, consolidate, question
from hermes.memory.entries import CATEGORY, CURATE, NONE, UNTRUSTED, Cause, Edit, Leaving
from hermes.memory.file import Plan
from hermes.safety.trust import Source, TurnContext, decide
from hermes.settings.config import documents_of
from hermes.settings.trust import DecisionLog
from hermes.storage.documents import LocalDocuments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from hermes.settings.home import Home

    Run = dict[str, Any]
    from hermes.memory.curation import Contradiction, Operation
    from hermes.memory.store import MemoryStore
    from hermes.session.models import Background
    from hermes.settings.config import Settings
    from hermes.storage.ports import Documents

    Ask = Callable[[str, str], str]

FOLDER = "curator"
_RUNS, _STATE, _LOCK = "runs.jsonl", "state.json", "run.lock"
_LARGEST = 1 << 20  # bytes of the state that are read
_LONGEST_RUN = 1800.0  # seconds after which the lease of a run in PostgreSQL expires


class CurationLog:
    """The log of all curation runs, newest last, with the state of the schedule."""

    def __init__(self, home: Home) -> None:
        self._documents = documents_of(home).below(FOLDER)

    def runs(self) -> list[Run]:
        """Every run, oldest first; one that was taken back has `undone_by`."""
        folder = self._documents.open()
        if folder is None:
            return []
        with folder:
            records, _ = folder.journal(_RUNS).read()
        undone = {record["undoes"]: record["id"] for record in records if record.get("undoes")}
        return [{**record, "undone_by": undone.get(record["id"], "")} for record in records]

    def last(self) -> Run | None:
        """The newest run that is not an undo; None before the first."""
        return next((run for run in reversed(self.runs()) if not run.get("undoes")), None)

    def find(self, run_id: str) -> Run:
        """Returns the run with this id, or without one the newest that can be undone; NotFound when there is none."""
        for run in reversed(self.runs()):
            changed = run.get("changes") or run.get("skills")
            if run["id"] == run_id if run_id else changed and not run["undone_by"] and not run.get("undoes"):
                return run
        raise NotFound(f"there is no run {run_id!r}; `hermes curator log` lists them" if run_id else "nothing to undo")

    def add(self, run: Run) -> Run:
        """Records a run under the next free id; durable when it returns."""
        with self._documents.create() as folder:
            number = len(folder.journal(_RUNS).read()[0]) + 1
            record = {"id": f"c{number}", **run}
            folder.journal(_RUNS).append([record], sync=True)
        return record

    def state(self) -> dict[str, Any]:
        """The state of the schedule: whether it is paused, and when the curator first saw this home."""
        folder = self._documents.open()
        if folder is None:
            return {}
        with folder:
            data = folder.read(_STATE, at_most=_LARGEST)
        try:
            found = json.loads(data or b"{}")
        except ValueError:
            return {}  # an unreadable state counts as empty; the next change writes a new one
        return found if isinstance(found, dict) else {}

    def set(self, **values: Any) -> None:
        """Changes values of the state."""
        with self._documents.create() as folder:
            folder.replace(_STATE, json.dumps(self.state() | values).encode())

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Holds the lease of a run; LockTimeout when another run is in progress."""
        with self._documents.create() as folder:
            lease = folder.lease(_LOCK, seconds=_LONGEST_RUN)
            if not lease.take():
                raise LockTimeout(
                    f"{folder.join(_LOCK)}: another run of the curator is in progress; try again when it has finished"
                )
            try:
                yield
            finally:
                lease.give_back()


# Backups before a run changes anything: each is an archive of memory and skills, and only the newest are kept.

BACKUP_FOLDER = ("backups", "curator")
_LARGEST_DOCUMENT = 64 << 20
_PARTS = ("memories", "skills")


def make(home: Home, *, keep: int) -> str:
    """Writes a private, durable backup and returns its path; deletes all but the newest `keep`."""
    documents = documents_of(home)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for part in _PARTS:
            if not isinstance(documents, LocalDocuments):
                _add_documents(archive, documents, part)
            elif os.path.isdir(home.join(part)):
                archive.add(home.join(part), arcname=part, filter=_plain)
    with documents.below(*BACKUP_FOLDER).create() as folder:
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        taken = set(folder.names())
        number = next(n for n in range(1, 10_000) if f"{stamp}-{n:04}.tar.gz" not in taken)
        name = f"{stamp}-{number:04}.tar.gz"
        folder.replace(name, packed.getvalue())
        kept = sorted(each for each in folder.names() if each.endswith(".tar.gz"))
        for old in kept[:-keep]:
            folder.discard(old)
        return folder.join(name)


def _add_documents(archive: tarfile.TarFile, documents: Documents, part: str) -> None:
    for name in documents.below(part).every():
        above, _, last = f"{part}/{name}".rpartition("/")
        with documents.below(above).create() as folder:
            data = folder.read(last, at_most=_LARGEST_DOCUMENT) or b""
        member = tarfile.TarInfo(f"{part}/{name}")
        member.size, member.mode, member.mtime = len(data), 0o600, int(time.time())
        archive.addfile(member, io.BytesIO(data))


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Keeps only files and folders, because a link could lead out of the home."""
    return member if member.isfile() or member.isdir() else None


HOUR = 3600.0


class Curator:
    """Plans, carries out and undoes curation runs; `ask` calls a helper model, unless `curator.consolidate` is off."""

    def __init__(
        self,
        home: Home,
        settings: Settings,
        store: MemoryStore | None,
        *,
        ask: Ask | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.log = CurationLog(home)
        self._home = home
        self._settings = settings
        self._store = store
        self._ask = ask if settings.flag("curator.consolidate") else None
        self._now = now

    def why_not_now(self, last_active: float) -> str:
        """Why a scheduled run must not start now; "" when it is due. The first run waits for one interval."""
        now, state = self._now(), self.log.state()
        if not self._settings.flag("curator.enabled"):
            return "switched off (curator.enabled is false)"
        if state.get("paused"):
            return "paused (`hermes curator resume`)"
        if not state.get("first_seen"):
            self.log.set(first_seen=now)
            return "first seen just now; the first run comes after one interval"
        last = self.log.last()
        since = max(float(state["first_seen"]), float(last["at"]) if last else 0.0)
        wait = self._settings.integer("curator.interval_hours") * HOUR - (now - since)
        if wait > 0:
            return f"the next run is due in {in_days(wait)}"
        if now - last_active < self._settings.integer("curator.min_idle_hours") * HOUR:
            return "not idle for long enough"
        return ""

    def run(self, *, trigger: str = "by hand", dry_run: bool = False) -> Run:
        """Tidies memory and skills once; the run is recorded before it is reported."""
        with self.log.alone():
            report: Run = {"at": self._now(), "trigger": trigger, "changes": [], "operations": [], "contradictions": []}
            report |= {"refused": [], "categories": {}, "skills": [], "put_off": 0, "backup": ""}
            planned = {target: self._plan(target, report) for target in (self._store.targets if self._store else ())}
            retiring = self._retiring()
            report["skills"] = [{"name": name, "to": "archive"} for name in retiring]
            if dry_run:
                return {**report, "dry_run": True}
            if (any(planned.values()) or retiring) and self._settings.flag("curator.backup.enabled"):
                report["backup"] = make(self._home, keep=self._settings.integer("curator.backup.keep"))
            for target, operations in planned.items():
                self._carry_out(target, operations, report)
            report["skills"] = self._retire(retiring, report)
            return self.log.add(report)

    def undo(self, run_id: str = "") -> Run:
        """Undoes a run: restores the memory files byte for byte and takes skills out of the archive."""
        from hermes.skills.files import restore, skills_folder

        with self.log.alone():
            run = self.log.find(run_id)
            if run["undone_by"] or run.get("undoes"):
                raise WriteRefused(f"run {run['id']} was already undone, or is itself an undo", kind="undo")
            cause = Cause(origin="user", note=f"undo of run {run['id']}")
            written = [self._memory.undo(change_id, cause=cause) for change_id in reversed(run["changes"])]
            undone = [each.change.id for each in written if each.change]
            folder = skills_folder(self._home, self._settings)
            for skill in run["skills"]:
                with folder.changing():
                    restore(folder.path, skill["name"])
            return self.log.add({"at": self._now(), "trigger": "undo", "undoes": run["id"], "changes": undone})

    def contradictions(self) -> list[dict[str, str]]:
        """Lists the entries that contradict each other now."""
        found = []
        for target in self._store.targets if self._store else ():
            found += [_shown(target, each) for each in consolidate(self._facts(target)).contradictions]
        return found

    @property
    def _memory(self) -> MemoryStore:
        if self._store is None:
            raise WriteRefused(
                "memory is switched off (memory.memory_enabled, memory.user_profile_enabled); switch it on to take back"
                " what was changed in it",
                kind="disabled",
            )
        return self._store

    def _plan(self, target: str, report: Run) -> list[Operation]:
        facts = self._facts(target)
        tidied = consolidate(facts)
        dropped = {operation.drop for operation in tidied.operations}
        rest = [fact for fact in facts if fact.entry not in dropped]
        proposals = self._proposals(rest, allowed=len(facts) // 4 - len(tidied.operations))
        proposed = [each for each in proposals.operations if self._passes_gate(target, each, report)]
        operations = [*tidied.operations, *proposed]
        report["put_off"] += tidied.put_off
        report["refused"] += proposals.refused
        report["contradictions"] += [
            _shown(target, each) for each in (*tidied.contradictions, *proposals.contradictions)
        ]
        report["operations"] += [
            {"target": target, "kind": o.kind, "keep": o.text or o.keep, "drop": o.drop, "reason": o.reason}
            | ({"was": o.keep} if o.text else {})
            for o in operations
        ]
        report["categories"][target] = self._categories(target, rest, dict(proposals.categories))
        return operations

    def _passes_gate(self, target: str, proposed: Operation, report: Run) -> bool:
        """Whether the gate allows a proposal of the helper; one that outside entries may have caused is staged."""
        outside = [
            Source(origin=each.origin, name=f"an entry of {target}", text=entry)
            for entry, each in self._memory.provenance(target).items()
            if each.origin in (*UNTRUSTED, "import") and not (each.change is not None and each.change.cause.approved)
        ]
        record = partial(DecisionLog(self._home).add, session="curator")
        turn = TurnContext(origin="curator", sources=lambda: outside, record=record)
        writes, removes = ([each] if each else [] for each in (proposed.text, proposed.drop))
        decision = decide("curation", turn, writes=writes, removes=removes)
        if not decision.allowed:
            changes = [{"action": "replace", "old_text": proposed.keep, "content": proposed.text}] if writes else []
            changes += [{"action": "remove", "old_text": each} for each in removes]
            cause = Cause(origin=decision.origin or "unknown", note="proposed by the curator")
            waiting = Approvals(self._home).stage(target, changes, cause, decision.reason, sources=decision.evidence())
            report["refused"].append(f"{waiting.summary} waits for you (`hermes memory pending`): {decision.reason}")
        return decision.allowed

    def _facts(self, target: str) -> list[Fact]:
        store, marks = self._memory, self._memory.marks(target)
        found = []
        for entry, origin in store.provenance(target).items():
            known = origin.change is not None and origin.origin not in ("external", "unknown")
            at = origin.change.at if known and origin.change is not None else 0.0
            # Another process may have written between the two reads; new entries have no marks yet.
            pinned = marks.get(entry, NONE).pinned
            found.append(Fact(entry=entry, at=at, trusted=origin.trusted, pinned=pinned))
        return found

    def _proposals(self, facts: Sequence[Fact], *, allowed: int) -> Proposals:
        if self._ask is None or allowed <= 0:
            return Proposals()
        try:
            answer = self._ask(*question(facts))
        except ModelError as error:
            return Proposals(refused=(f"the helper model gave no answer: {error}",))
        return checked(answer, facts, allowed)

    def _categories(self, target: str, facts: Sequence[Fact], proposed: dict[str, str]) -> dict[str, str]:
        """Categories of the entries that have none yet, or for which the helper proposed another."""
        marks = self._memory.marks(target)
        wanted = {fact.entry: proposed.get(fact.entry, "") for fact in facts}
        found = {}
        for entry, category in wanted.items():
            now = marks.get(entry, NONE).category
            if (category and category != now) or not now:
                found[entry] = category or category_of(entry, target)
        return found

    def _carry_out(self, target: str, operations: Sequence[Operation], report: Run) -> None:
        if operations:
            cause = Cause(origin="curator", note="tidied by the curator")
            try:
                written = self._memory.curate(target, lambda entries: _plan_of(entries, operations), cause=cause)
            except HermesError as error:
                report["refused"].append(f"{target} was left as it is: {error}")
            else:
                report["changes"] += [written.change.id] if written.change else []
        live = set(self._memory.entries(target))
        by_category: dict[str, list[str]] = {}
        for entry, category in report["categories"][target].items():
            if entry in live:
                by_category.setdefault(category, []).append(entry)
        for category, entries in by_category.items():
            self._memory.marks_file(target).add(CATEGORY, entries, what=category)
        report["categories"][target] = {category: len(entries) for category, entries in by_category.items()}

    def _retiring(self) -> list[str]:
        from hermes.skills.files import DUE, skill_states, skills_folder

        folder = skills_folder(self._home, self._settings)
        folder.sync()
        ages = (self._settings.integer(f"curator.{name}_after_days") for name in ("stale", "archive"))
        found = skill_states(folder.path, self._now(), *ages)
        return [each.name for each in found if each.state == DUE and not each.pinned]

    def _retire(self, names: Sequence[str], report: Run) -> list[dict[str, str]]:
        from hermes.skills.files import archive, skills_folder

        folder = skills_folder(self._home, self._settings)
        moved = []
        for name in names:
            try:
                with folder.changing():
                    full, path = archive(folder.path, name, self._now())
                moved.append({"name": full, "to": path})
            except (HermesError, OSError) as error:
                report["refused"].append(f"the skill {name} stays where it is: {error}")
        return moved


def _plan_of(entries: tuple[str, ...], operations: Sequence[Operation]) -> Plan:
    """Applies the operations to the current entries; one whose entries have changed meanwhile is skipped."""
    live, edits, archived = list(entries), [], []
    worded: dict[str, str] = {}
    for operation in operations:
        keep = worded.get(operation.keep, operation.keep)
        if keep not in live or (operation.drop and operation.drop not in live):
            continue
        if operation.text and operation.text != keep and operation.text not in live:
            index = live.index(keep)
            edits.append(Edit(index=index, before=keep, after=operation.text))
            live[index] = worded[operation.keep] = operation.text
            keep = operation.text
        if operation.drop:
            index = live.index(operation.drop)
            edits.append(Edit(index=index, before=live.pop(index), after=None))
            archived.append(Leaving(entry=operation.drop, reason=operation.reason, into=keep))
    final = tuple(Leaving(entry=a.entry, reason=a.reason, into=worded.get(a.into, a.into)) for a in archived)
    return Plan(action=CURATE, edits=tuple(edits), entries=tuple(live), archived=final)


def _shown(target: str, found: Contradiction) -> dict[str, str]:
    return {"target": target, "one": found.one, "other": found.other, "why": found.why}


def helper_for(settings: Settings, budget: Background | None = None) -> Ask | None:
    """The helper model for curation, counted in the budget; None when `curator.consolidate` is off."""
    if not settings.flag("curator.consolidate"):
        return None
    from hermes.session.models import helper

    return helper(settings, "curator", budget=budget)
