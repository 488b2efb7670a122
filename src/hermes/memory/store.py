"""Curated memory: plans writes, renders entries for a prompt, and offers both as `MemoryStore`.

Two files: MEMORY.md for the agent's notes, USER.md for what it knows about the person; in a project a third, for notes
that matter only there. `snapshot` is what a session's system prompt holds: taken when the store is opened and never
changed by later writes, so that the prompt stays the same byte for byte. `entries` is the live state on disk.
"""

from __future__ import annotations

import re
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from hermes.base.errors import NotFound, StorageError, WriteRefused
from hermes.base.text import counted, day
from hermes.base.values import lazy_pattern, value
from hermes.memory import entries as text
from hermes.memory.entries import ACCEPT, Cause, Edit, Leaving, apply_edits, preview, reverse
from hermes.memory.file import FILES, MemoryFile, Plan, memory_place
from hermes.settings.config import documents_of, load_settings
from hermes.settings.home import find_home

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from hermes.base.values import Verdict
    from hermes.memory.entries import Change, Marks, MarksFile, Provenance
    from hermes.memory.file import Reading
    from hermes.settings.config import Settings
    from hermes.settings.home import Home

    Screen = Callable[[str, Cause], None]
    Operation = Mapping[str, str]
    Room = Callable[[Sequence[str], frozenset[str]], Sequence[Leaving]]
    Judge = Callable[[Sequence[str], str], tuple[Sequence[Leaving], Sequence[str]]]
    Origins = Callable[[], Mapping[str, Provenance]]

ASK = "ask"
_UNREVIEWED = frozenset({"unknown", "external"})  # written from outside Hermes, so the scanner never saw it


def screen_write(content: str, cause: Cause, *, guard: bool = False) -> None:
    """Refuses threats and secrets; a doubtful text passes only when a person wrote or approved it."""
    if found := _load("secrets").find_secrets(content):
        kinds = ", ".join(dict.fromkeys(secret.kind for secret in found))
        raise WriteRefused(
            f"content holds a secret ({kinds}), which must not be in a prompt; keep it in .env and save where it is",
            kind="secret",
        )
    verdict = _load("scanner").scan(content, "memory", guard=guard)
    if verdict.level == "clean" or (verdict.level == ASK and (cause.origin == "user" or cause.approved)):
        return
    raise WriteRefused(
        f"content looks like {', '.join(verdict.classes)}: {verdict.excerpt!r}. {verdict.advice}",
        kind=ASK if verdict.level == ASK else "threat",
        details={"classes": list(verdict.classes), "excerpt": verdict.excerpt},
    )


def blocked_in_prompt(entries: Sequence[str], file: str, origins: Origins | None = None) -> tuple[str, ...]:
    """Returns the entries as a prompt may show them: a dangerous one is replaced by a line that says so.

    A doubtful entry is shown only when `origins` has a reviewed origin for it.
    """
    if not entries:
        return ()
    verdicts = _load("scanner").scan_entries(entries, "memory")
    known = origins() if origins and any(verdict.level == ASK for verdict in verdicts) else {}
    return tuple(
        _note(number, file, verdict) if _is_hidden(verdict, known.get(entry)) else entry
        for number, (entry, verdict) in enumerate(zip(entries, verdicts, strict=True), start=1)
    )


def _is_hidden(verdict: Verdict, origin: Provenance | None) -> bool:
    unreviewed = origin is None or origin.origin in _UNREVIEWED
    return verdict.level == "refuse" or (verdict.level == ASK and unreviewed)


def _note(number: int, file: str, verdict: Verdict) -> str:
    until = " until a person has looked at it (`hermes memory scan`)" if verdict.level == ASK else ""
    found = ", ".join(verdict.classes)
    return f"[BLOCKED: entry {number} of {file} looks like {found}. It stays in the file and is not shown{until}.]"


def _load(module: str) -> Any:
    """Loads a module of `hermes.safety` when a text must be scanned; refuses the write when it cannot load."""
    name = f"hermes.safety.{module}"
    try:
        __import__(name)  # importlib would cost a cold write more than the module
    except ImportError as error:
        raise WriteRefused(
            f"the safety scanner could not be loaded ({error}); nothing is saved without it, reinstall Hermes",
            kind="closed",
        ) from error
    return sys.modules[name]


ACTIONS = ("add", "replace", "remove")
_DONE = {"add": "Entry added.", "replace": "Entry replaced.", "remove": "Entry removed."}
_SHOWN = 40
_LONGEST = 100_000  # characters; longer content is refused before anything reads all of it
_ALREADY_THERE = "Entry already exists (no duplicate added)."


def usage(entries: Sequence[str], limit: int) -> str:
    """Says how full a memory file is, as prompts and tool results show it."""
    used = text.size(entries)
    return f"{min(100, used * 100 // limit)}% — {used:,}/{limit:,} chars"


def prepared(operations: Sequence[Operation], screen: Screen, cause: Cause) -> list[Operation]:
    """The operations with their content cleaned and judged; a refusal names the operation it is about."""
    ready: list[Operation] = []
    for number, operation in enumerate(operations, start=1):
        try:
            ready.append(_prepared(operation, screen, cause))
        except WriteRefused as refusal:
            raise _in_batch(refusal, number, operation, len(operations)) from refusal
    return ready


def planner(
    target: str,
    operations: Sequence[Operation],
    limit: int,
    room: Room | None = None,
    judge: Judge | None = None,
) -> Callable[[tuple[str, ...]], Plan]:
    """Returns a function that applies the operations to the live entries in order, all of them or none.

    With `room`, a store that would be too full archives other entries instead of refusing. `judge` finds the entries
    that a new one supersedes, and those it may contradict.
    """

    def plan(entries: tuple[str, ...]) -> Plan:
        live = list(entries)
        edits: list[Edit] = []
        superseded: list[Leaving] = []
        conflicts: list[str] = []
        for number, operation in enumerate(operations, start=1):
            try:
                made = _apply(live, operation)
                edits += made
                if judge and made and operation["action"] == "add":
                    stood = [entry for entry in live if entry in entries]
                    leaving, disputed = judge(stood, operation["content"])
                    conflicts += disputed
                    for each in leaving:
                        index = live.index(each.entry)
                        edits.append(Edit(index=index, before=live.pop(index), after=None))
                        superseded.append(each)
            except WriteRefused as refusal:
                refused = _in_batch(refusal, number, operation, len(operations))
                refused.details |= {"current_entries": list(entries), "usage": usage(entries, limit)}
                raise refused from refusal
        action = operations[0]["action"] if len(operations) == 1 else "batch"
        planned = Plan(
            action=action,
            edits=tuple(edits),
            entries=tuple(live),
            archived=tuple(superseded),
            conflicts=tuple(each for each in dict.fromkeys(conflicts) if each in live),
        )
        return fitting(target, planned, entries, limit, room)

    return plan


def fitting(target: str, plan: Plan, before: Sequence[str], limit: int, room: Room | None) -> Plan:
    """Returns the plan if its result fits, else a plan that also makes room; refuses when neither works."""
    if not _too_full(before, plan.entries, limit):
        return plan
    longest = max((edit.after for edit in plan.edits if edit.after is not None), key=len, default="")
    if len(longest) > limit:
        raise _too_long(target, longest, before, limit)
    if room is None:
        raise _full(before, plan.entries, limit)
    live, edits = list(plan.entries), list(plan.edits)
    leaving = room(live, frozenset(edit.after for edit in plan.edits if edit.after is not None))
    for each in leaving:
        index = live.index(each.entry)
        edits.append(Edit(index=index, before=live.pop(index), after=None))
    if _too_full(before, live, limit):
        raise _full(before, live, limit, pinned=True)
    changed = {"edits": tuple(edits), "entries": tuple(live), "archived": (*plan.archived, *leaving), "data": None}
    return Plan(**(vars(plan) | changed))


def message(plan: Plan, operations: Sequence[Operation]) -> str:
    """Says what a write did, for the tool result."""
    if len(operations) > 1:
        return f"Applied {len(operations)} operations.{made_room(plan)}"
    return f"{_DONE[plan.action]}{made_room(plan)}" if plan.edits else _ALREADY_THERE


def made_room(plan: Plan) -> str:
    """Says which entries a write archived and which it may contradict; empty when there are none."""
    said = ""
    if plan.archived:
        what = "; ".join(f"{text.preview(each.entry)!r} ({each.reason})" for each in plan.archived)
        said = f" Moved to the archive, from where search and `hermes memory restore` bring it back: {what}."
    if plan.conflicts:
        what = "; ".join(repr(text.preview(each)) for each in plan.conflicts)
        said += f" It may contradict {what}. Both stay; ask which one holds (`hermes memory conflicts` settles it)."
    return said


def _full(before: Sequence[str], after: Sequence[str], limit: int, *, pinned: bool = False) -> WriteRefused:
    needed = text.size(after)
    why = ", and the entries that could make room are pinned or too short" if pinned and len(after) > 1 else ""
    return WriteRefused(
        f"memory is full: {text.size(before):,} of {limit:,} characters are used and this needs {needed:,}{why}; "
        "shorten, merge or remove some of the current entries first, in one batch with this write if you like",
        kind="full",
        details={"current_entries": list(before), "usage": f"{text.size(before):,}/{limit:,}"},
    )


def _too_long(target: str, entry: str, before: Sequence[str], limit: int) -> WriteRefused:
    where = "memory" if target == "memory" else f"{target} memory"
    return WriteRefused(
        f"the entry {text.preview(entry, _SHOWN)!r} has {len(entry):,} characters; the limit for {where} is "
        f"{limit:,}. Shorten it to what matters, or raise memory.{target}_char_limit in the settings",
        kind="too_long",
        details={"characters": len(entry), "limit": limit, "usage": f"{text.size(before):,}/{limit:,}"},
    )


def _too_full(before: Sequence[str], after: Sequence[str], limit: int) -> bool:
    needed = text.size(after)
    return needed > limit and needed >= text.size(before)


def _prepared(operation: Operation, screen: Screen, cause: Cause) -> Operation:
    if operation["action"] == "remove" or _lacks_old_text(operation):  # the latter is refused with the live entries
        return {**operation, "content": ""}
    content = operation.get("content", "")
    if len(content) > _LONGEST:  # before anything reads all of it
        raise WriteRefused(
            f"the entry has {len(content):,} characters; no entry may have more than {_LONGEST:,}", kind="too_long"
        )
    if operation["action"] == "replace" and not text.trim(content):
        raise WriteRefused("content is empty; to delete an entry use the action remove", kind="empty")
    content = text.clean(content)
    screen(content, cause)
    return {**operation, "content": content}


def _lacks_old_text(operation: Operation) -> bool:
    return operation["action"] != "add" and not operation.get("old_text")


def _apply(live: list[str], operation: Operation) -> list[Edit]:
    content = operation["content"]
    if operation["action"] == "add":
        if content in live:
            return []
        live.append(content)
        return [Edit(index=len(live) - 1, before=None, after=content)]
    if _lacks_old_text(operation):
        raise WriteRefused("old_text is missing; give a piece of the entry to change", kind="missing_old_text")
    index = text.index_of(live, operation["old_text"], whole=bool(operation.get("whole")))
    before, after = live[index], content if operation["action"] == "replace" else None
    if after is not None and after != before and after in live:
        after = None  # another entry already has the new wording; keeping both would be a duplicate
    if after == before:
        return []
    live[index : index + 1] = [] if after is None else [after]
    return [Edit(index=index, before=before, after=after)]


def _in_batch(refusal: WriteRefused, number: int, operation: Operation, count: int) -> WriteRefused:
    if count == 1:
        return refusal
    why = f"Operation {number} ({operation['action']}): {refusal}. Nothing was written: a batch is all or nothing."
    return WriteRefused(why, kind=refusal.kind, details=refusal.details)


_WORD = re.compile(r"[^\W_]+")
_UNSPACED = lazy_pattern(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]{2,}")
_SMALL_WORDS = (
    "a an and are as at be by did do does for from has have how i in is it me my of on or our that the this to us was "
    "we were what when where which who why will with you your"
)
_COMMON = frozenset(_SMALL_WORDS.split())
_ENOUGH = 0.5  # the least share of a question's words that an archived entry must have


@value
class Archived:
    """One archived entry: when, by which change and why it was archived, and the entry that replaces it, if any."""

    target: str
    entry: str
    at: float
    change: str
    reason: str
    into: str = ""


def archive_of(changes: Iterable[Change]) -> dict[str, Archived]:
    """What is in the archive after these changes, oldest first."""
    found: dict[str, Archived] = {}
    for change in changes:
        for entry in change.added():
            found.pop(entry, None)
        for leaving in change.archived:
            found[leaving.entry] = Archived(
                target=change.target,
                entry=leaving.entry,
                at=change.at,
                change=change.id,
                reason=leaving.reason,
                into=leaving.into,
            )
    return found


def find(archived: Sequence[Archived], words: str) -> Archived:
    """The one archived entry that contains the words."""
    found = [each for each in archived if words == each.entry] or [each for each in archived if words in each.entry]
    if not found:
        raise NotFound(f"no archived entry contains {preview(words)!r}; `hermes memory list --archived` shows them")
    if len(found) > 1:
        raise WriteRefused(
            f"{len(found)} archived entries contain {preview(words)!r}; use a longer piece that only one has",
            kind="ambiguous",
            details={"matches": [preview(each.entry) for each in found]},
        )
    return found[0]


def search(archived: Iterable[Archived], query: str, limit: int = 3) -> list[Archived]:
    """The archived entries that share most words with a question, newest first among equals."""
    asked = _words(query)
    if not asked:
        return []
    scored = [(len(asked & _words(each.entry)) / len(asked), each.at, each) for each in archived]
    fitting = sorted((row for row in scored if row[0] >= _ENOUGH), key=lambda row: row[:2], reverse=True)
    return [each for _, _, each in fitting[:limit]]


def _words(text: str) -> set[str]:
    folded = text.casefold()
    if folded.isascii():
        return {_stem(word) for word in _WORD.findall(folded)} - _COMMON
    words = {_stem(word) for word in _WORD.findall(_UNSPACED.sub(" ", folded))} - _COMMON
    pairs = {run[at : at + 2] for run in _UNSPACED.findall(folded) for at in range(len(run) - 1)}
    return words | pairs


def _stem(word: str) -> str:
    for ending in ("ing", "es", "ed", "s"):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            return word[: -len(ending)]
    return word


# A sentence about a change ("we moved to Oslo") may share no word with the entry it corrects.
_CHANGING = "mov moved switch chang replac instead longer anymore quit sold left cancell"
_CHANGE = frozenset(_CHANGING.split())


def contradicted(content: str, entries: Iterable[str]) -> list[tuple[str, int, bool]]:
    """Returns the entries a later statement may replace, how sure that is, and whether the entry says nothing else.

    2 when it is sure and the statement mentions the change, 1 when only the value differs, 0 when it is likely.
    """
    words = _words(content)
    alike = [entry for entry in entries if words & _CHANGE or words & _words(entry)]
    if not alike:
        return []  # most writes; what follows costs a cold start more than the write itself
    from hermes.base.claims import SURE, replaced, says_changed, sentences

    found = [(entry, how) for entry in alike if (how := replaced(entry, content))]
    return [(entry, (how >= SURE) * (1 + says_changed(content)), len(sentences(entry)) == 1) for entry, how in found]


TARGETS = ("memory", "user")
ALL_TARGETS = (*TARGETS, "project")  # the last where there is a project
SWITCHES = {"memory": "memory.memory_enabled", "user": "memory.user_profile_enabled"}
_LIMITS = {target: f"memory.{target}_char_limit" for target in ALL_TARGETS}
_TITLES = {
    "memory": "MEMORY (your personal notes)",
    "user": "USER PROFILE (who the user is)",
    "project": "PROJECT (notes for this project)",
}
_RULE = "═" * 46
_KEPT = "[not shown: the person keeps this entry from recall]"
_WHOLE: tuple[dict[str, str], dict[str, str]] = ({}, {"whole": "yes"})


@value
class Written:
    """The outcome of a write: what happened, and the live state after it; no `change` when nothing had to change."""

    target: str
    message: str
    entries: tuple[str, ...]
    limit: int
    change: Change | None
    archived: tuple[Leaving, ...] = ()
    conflicts: tuple[str, ...] = ()  # entries that stay and may contradict what was written

    @property
    def usage(self) -> str:
        """How full the file is after the write; empty for an approved tool call."""
        return usage(self.entries, self.limit) if self.limit else ""  # of an approved call, which changes no entry

    def saying(self, message: str) -> Written:
        """The same outcome in other words."""
        return Written(**(vars(self) | {"message": message}))


@value
class Earlier:
    """An earlier form of an entry, when it was valid (0 if unknown), and the change that replaced it."""

    entry: str
    since: float
    until: float
    change: str


@value
class Conflict:
    """Two live entries that may contradict each other, and when each was written."""

    target: str
    old: str
    new: str
    old_at: float
    new_at: float


class MemoryStore:
    """Open it once per session; every write reads the file again under its lock."""

    def __init__(
        self,
        files: Mapping[str, MemoryFile],
        limits: Mapping[str, int],
        screen: Screen,
        *,
        archives: bool = True,
        lock_timeout: float = 5,
        project: str = "",
        supersedes: bool = True,
    ) -> None:
        self.project = project
        self._supersedes = supersedes  # a new entry replaces what it corrects
        self._files = files
        self._limits = limits
        self._screen = screen
        self.archives = archives  # a full store moves entries to the archive instead of refusing
        self._lock_timeout = lock_timeout
        self._watcher: Callable[[Written], None] | None = None
        # What each file held when the store was opened; scanned and rendered when the snapshot is first asked for.
        self._frozen = {target: _reading_or_reason(file) for target, file in files.items()}
        self._snapshots: dict[str, str] = {}

    @classmethod
    def open(
        cls,
        home: str | os.PathLike[str] | Home | None = None,
        *,
        settings: Settings | None = None,
        screen: Screen = screen_write,
        project: str = "",
    ) -> MemoryStore:
        """The store of a home (default: $HERMES_HOME, else ~/.hermes) with the limits of its settings.

        With `project`, as `settings.projects` names it, the notes of that project are there too.
        """
        place = find_home(home)
        chosen = settings or load_settings(place)
        limits = {target: chosen.integer(_LIMITS[target]) for target in ALL_TARGETS}
        patience = chosen.number("memory.lock_timeout")
        documents = documents_of(place, chosen)
        files = {
            target: MemoryFile(
                *memory_place(place, documents, target, chosen.texts("memory.linked_folders"), project),
                target=target,
                limit=limits[target],
                lock_timeout=patience,
            )
            for target in ALL_TARGETS
            if (project if target == "project" else chosen.flag(SWITCHES[target]))
        }
        archives = chosen.text("memory.when_full") == "archive"
        if screen is screen_write and chosen.flag("memory.guard"):
            screen = partial(screen_write, guard=True)
        return cls(
            files,
            limits,
            screen,
            archives=archives,
            lock_timeout=patience,
            project=project,
            supersedes=chosen.flag("memory.supersede"),
        )

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets that are switched on."""
        return tuple(self._files)

    def watch(self, watcher: Callable[[Written], None]) -> None:
        """Calls `watcher` with every change that takes effect through this object."""
        self._watcher = watcher

    def freeze(self) -> None:
        """Takes a new snapshot, for a prompt that is built again."""
        self._frozen = {target: _reading_or_reason(file) for target, file in self._files.items()}
        self._snapshots.clear()

    def snapshot(self, target: str) -> str:
        """The block for the system prompt as it was when the store was opened; empty when there is nothing to say."""
        if target in self._frozen and target not in self._snapshots:
            self._snapshots[target] = self._render_snapshot(target, self._frozen[target])
        return self._snapshots.get(target, "")

    def entries(self, target: str) -> tuple[str, ...]:
        """What the file holds now; `target` is memory, user or project."""
        return self.read(target).entries

    def shown(self, target: str, entries: Sequence[str]) -> list[str]:
        """Returns live entries for a tool result; one that a prompt would hide is hidden here too."""
        try:  # Hermes scans what it writes, so only a file that was changed from outside is scanned again
            foreign = self._file(target).has_texts_of_others()
            judged = self._judged(target, entries) if foreign else tuple(entries)
        except (StorageError, WriteRefused) as error:
            judged = (f"[not shown: {error}]",) * len(entries)
        allowed = set(self.recalled(target, entries))
        return [seen if entry in allowed else _KEPT for entry, seen in zip(entries, judged, strict=True)]

    def recalled(self, target: str, entries: Sequence[str]) -> tuple[str, ...]:
        """Returns the entries that the person has not hidden from models."""
        marks = self.marks_file(target).read()
        if not any(each.never for each in marks.values()):
            return tuple(entries)
        known = text.of_entries(marks, entries, self.history(target)[0])
        return tuple(entry for entry in entries if not known.get(entry, text.NONE).never)

    def _judged(self, target: str, entries: Sequence[str]) -> tuple[str, ...]:
        return blocked_in_prompt(entries, FILES[target], lambda: self.provenance(target))

    def read(self, target: str) -> Reading:
        """Reads the file as it is now, with what the entries alone do not show: drift, notes, foreign changes."""
        return self._file(target).read()

    def limit(self, target: str) -> int:
        """The number of characters the target may hold."""
        return self._limits[target]

    def path(self, target: str) -> str:
        """Where the target is stored, for messages to a person."""
        return self._file(target).path

    def add(self, target: str, content: str, *, cause: Cause | None = None) -> Written:
        """Adds an entry; WriteRefused says what is wrong with it."""
        return self.apply(target, [{"action": "add", "content": content}], cause=cause)

    def replace(
        self, target: str, old_text: str, content: str, *, cause: Cause | None = None, whole: bool = False
    ) -> Written:
        """Puts `content` in the place of the one entry that contains `old_text`, or with `whole` is it."""
        operation = {"action": "replace", "old_text": old_text, "content": content, **_WHOLE[whole]}
        return self.apply(target, [operation], cause=cause)

    def remove(self, target: str, old_text: str, *, cause: Cause | None = None, whole: bool = False) -> Written:
        """Removes the one entry that contains `old_text`, or with `whole` is it."""
        operation = {"action": "remove", "old_text": old_text, **_WHOLE[whole]}
        return self.apply(target, [operation], cause=cause)

    def apply(self, target: str, operations: Sequence[Operation], *, cause: Cause | None = None) -> Written:
        """Carries out all operations or none; the budget is checked on the state they lead to."""
        self._file(target)  # a target that is switched off is refused first
        cause = cause or Cause()
        ready = prepared(operations, self._screen, cause)
        planned = planner(target, ready, self._limits[target], self._room(target), self._judge(target, cause))
        return self._change(target, planned, cause, lambda plan: message(plan, ready))

    def rehearse(self, target: str, operations: Sequence[Operation], *, cause: Cause) -> None:
        """Raises what `apply` would raise now, and changes nothing."""
        file = self._file(target)
        ready = prepared(operations, self._screen, cause)
        planner(target, ready, self._limits[target], self._room(target))(file.read().entries)

    def earlier(self, target: str, entry: str, changes: Sequence[Change] | None = None) -> list[Earlier]:
        """Returns the entries that were superseded by, reworded into or merged into this one, newest first.

        `changes` is the history, for a caller that has read it.
        """
        found: list[Earlier] = []
        changes, wanted = self.history(target)[0] if changes is None else changes, {entry}
        for place in range(len(changes) - 1, -1, -1):
            change = changes[place]
            left = [each.entry for each in change.archived if each.into in wanted]
            left += [
                e.before for e in change.edits if e.before is not None and e.after in wanted and e.before != e.after
            ]
            for old in dict.fromkeys(left):
                since = next((each.at for each in reversed(changes[:place]) if old in each.added()), 0.0)
                found.append(Earlier(entry=old, since=since, until=change.at, change=change.id))
            wanted.update(left)
        return found

    def conflicts(self, target: str) -> list[Conflict]:
        """Returns pairs of entries that may contradict each other and are not settled, the older entry first."""
        origins, marks = self.provenance(target), self.marks(target)
        at = {entry: each.change.at if each.change else 0.0 for entry, each in origins.items()}
        ordered = sorted(self.entries(target), key=at.__getitem__)
        found = []
        for place, new in enumerate(ordered):
            for old, *_ in contradicted(new, ordered[:place]):
                if text.key_of(new) not in marks[old].settled:
                    found.append(Conflict(target=target, old=old, new=new, old_at=at[old], new_at=at[new]))
        return found

    def settle(self, found: Conflict, keep: str, *, cause: Cause | None = None) -> Written | None:
        """Keeps the new, the old or both entries of a conflict; the other one moves to the archive."""
        if keep == "both":
            self.marks_file(found.target).add(text.SETTLED, [found.old], what=text.key_of(found.new))
            return None
        drop, into = (found.old, found.new) if keep == "new" else (found.new, found.old)

        def plan(entries: tuple[str, ...]) -> Plan:
            edit = Edit(index=text.index_of(entries, drop, whole=True), before=drop, after=None)
            leaving = Leaving(entry=drop, reason="superseded: a person decided", into=into)
            left = apply_edits(entries, (edit,))
            return Plan(action="settle", edits=(edit,), entries=left, archived=(leaving,))

        return self._change(found.target, plan, cause, lambda planned: f"Settled.{made_room(planned)}")

    def provenance(self, target: str) -> dict[str, Provenance]:
        """Where each live entry comes from."""
        return text.provenance(self.entries(target), self.history(target)[0])

    def history(self, target: str) -> tuple[list[Change], int]:
        """Every change that took effect, oldest first, and how many records are unreadable."""
        return self._file(target).history()

    def undo(self, change_id: str, *, cause: Cause | None = None) -> Written:
        """Takes one change back; the undoing is a change of its own and can be undone too."""
        target, undone = self._find_change(change_id)
        # What was in the archive before the change; undoing it moves these entries back there.
        from_archive = archive_of(each for each in self.history(target)[0] if each.number < undone.number)

        def plan(entries: tuple[str, ...]) -> Plan:
            edits = reverse(undone, entries)
            gone = {edit.before for edit in edits} - {edit.after for edit in edits}
            again = [Leaving(entry=each, reason=f"{undone.id} was undone") for each in from_archive if each in gone]
            # The exact bytes it replaced, if its entries do not determine them and nothing changed since.
            data = None
            if undone.preimage is not None and self.read(target).fingerprint.same_bytes(undone.after):
                data = undone.preimage.encode("utf-8", "surrogateescape")
            restored = Plan(
                action="undo",
                edits=edits,
                entries=apply_edits(entries, edits),
                undoes=undone.id,
                archived=tuple(again),
                data=data,
            )
            return fitting(target, restored, entries, self._limits[target], self._room(target))

        done = f"Change {undone.id} ({undone.action}) undone."
        return self._change(target, plan, cause, lambda planned: f"{done}{made_room(planned)}")

    def archived(self, target: str) -> list[Archived]:
        """What left the store for the archive and has not come back, oldest first."""
        live = self.entries(target)
        return [each for each in archive_of(self.history(target)[0]).values() if each.entry not in live]

    def archive(self, target: str, entry: str, *, cause: Cause | None = None) -> Written:
        """Moves this entry to the archive: out of the prompt, where search still finds it."""

        def plan(entries: tuple[str, ...]) -> Plan:
            edits = (Edit(index=text.index_of(entries, entry, whole=True), before=entry, after=None),)
            leaving = (Leaving(entry=entry, reason="archived by hand"),)
            return Plan(action="archive", edits=edits, entries=apply_edits(entries, edits), archived=leaving)

        return self._change(target, plan, cause, lambda _: "Entry archived; search still finds it.")

    def restore(self, target: str, words: str, *, cause: Cause | None = None) -> Written:
        """Brings the archived entry that contains `words` back, with the origin it always had."""
        entry = find(self.archived(target), words).entry

        def plan(entries: tuple[str, ...]) -> Plan:
            edits = () if entry in entries else (Edit(index=len(entries), before=None, after=entry),)
            back = Plan(action="restore", edits=edits, entries=apply_edits(entries, edits))
            return fitting(target, back, entries, self._limits[target], self._room(target))

        return self._change(target, plan, cause, lambda planned: f"Entry restored.{made_room(planned)}")

    def curate(self, target: str, plan: Callable[[tuple[str, ...]], Plan], *, cause: Cause) -> Written:
        """Carries out what the curator planned as one change; the new wording is judged like any other write."""

        def judged(entries: tuple[str, ...]) -> Plan:
            planned = plan(entries)
            for edit in planned.edits:
                if edit.after is not None:
                    self._screen(text.clean(edit.after), cause)
            return fitting(target, planned, entries, self._limits[target], None)

        return self._change(target, judged, cause, lambda made: f"{_counted(made.edits)} tidied.")

    def marks(self, target: str) -> dict[str, Marks]:
        """Returns the pins, categories and uses of each live and archived entry."""
        entries = [*self.entries(target), *(each.entry for each in self.archived(target))]
        return text.of_entries(self.marks_file(target).read(), entries, self.history(target)[0])

    def marks_file(self, target: str) -> MarksFile:
        """The file with the pins, uses and categories of the target's entries."""
        file = self._file(target)
        return text.MarksFile(file.documents, file.name, lock_timeout=self._lock_timeout)

    def reset(self, target: str, *, cause: Cause | None = None) -> Written:
        """Empties one file; what was in it stays in the history."""

        def plan(entries: tuple[str, ...]) -> Plan:
            return Plan(action="reset", edits=tuple(Edit(index=0, before=e, after=None) for e in entries), entries=())

        return self._change(target, plan, cause, lambda made: f"{_counted(made.edits)} removed.", accept_drift=True)

    def accept(self, target: str, entry: str, *, cause: Cause | None = None) -> Written:
        """Notes that a person has looked at an entry of unknown origin and wants it; its words stay as they are."""

        def plan(entries: tuple[str, ...]) -> Plan:
            at = text.index_of(list(entries), entry, whole=True)
            return Plan(action=ACCEPT, edits=(Edit(index=at, before=entry, after=entry),), entries=entries)

        return self._change(target, plan, cause, lambda _: "Entry accepted.")

    def adopt(self, target: str, *, cause: Cause | None = None) -> Written:
        """Accepts a file that was edited in another form: keeps its bytes in a backup, writes its entries in ours."""

        def plan(entries: tuple[str, ...]) -> Plan:
            return Plan(action="adopt", edits=(), entries=tuple(map(text.clean, entries)))

        return self._change(target, plan, cause, lambda made: f"{_counted(made.entries)} adopted.", accept_drift=True)

    def _change(
        self,
        target: str,
        plan: Callable[[tuple[str, ...]], Plan],
        cause: Cause | None,
        say: Callable[[Plan], str],
        *,
        accept_drift: bool = False,
    ) -> Written:
        """Carries out a plan, by default for the person; `say` words what was done."""
        others = [file for name, file in self._files.items() if name != target]
        after = max([file.last_order() for file in others], default=0)
        made, change = self._file(target).change(
            plan, cause or Cause(origin="user"), after=after, accept_drift=accept_drift
        )
        written = Written(
            target=target,
            message=say(made),
            entries=made.entries,
            limit=self._limits[target],
            change=change,
            archived=made.archived if change is not None else (),
            conflicts=made.conflicts if change is not None else (),
        )
        if self._watcher is not None and change is not None:
            self._watcher(written)
        return written

    def _file(self, target: str) -> MemoryFile:
        if target not in ALL_TARGETS:
            raise WriteRefused(f"target must be one of {', '.join(ALL_TARGETS)}, not {target!r}", kind="target")
        if target == "project" and target not in self._files:
            raise WriteRefused("there is no project here; name one (--project), or use memory or user", kind="target")
        if target not in self._files:
            raise WriteRefused(f"the {target} store is switched off ({SWITCHES[target]} is false)", kind="disabled")
        return self._files[target]

    def _room(self, target: str) -> Room | None:
        """Returns how a full store makes room, or None when it refuses; the history is read only when it is full."""
        if not self.archives:
            return None

        def room(live: Sequence[str], kept: frozenset[str]) -> Sequence[Leaving]:
            changes = self.history(target)[0]
            marks = text.of_entries(self.marks_file(target).read(), live, changes)
            return text.least_valuable(live, kept, self._limits[target], marks, text.provenance(live, changes))

        return room

    def _judge(self, target: str, cause: Cause) -> Judge:
        """What a new entry supersedes: what it surely replaces, and what it likely does when the person wrote it.

        A pinned entry stays, as does one that says more than what changed; text from outside supersedes nothing that
        is trusted.
        """

        def judge(live: Sequence[str], content: str) -> tuple[list[Leaving], list[str]]:
            found = contradicted(content, live)
            if not found:
                return [], []
            origins, marks = self.provenance(target), self.marks(target)
            leaving, disputed = [], []
            for entry, sure, whole in found:
                pinned = entry in marks and marks[entry].pinned
                allowed = text.is_trusted(cause.origin) or (entry in origins and not origins[entry].trusted)
                if self._supersedes and allowed and whole and not pinned and (sure > 1 or cause.origin == "user"):
                    leaving.append(Leaving(entry=entry, reason=f"superseded {day(time.time())}", into=content))
                else:
                    disputed.append(entry)
            return leaving, disputed

        return judge

    def _within_budget(self, target: str, entries: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Returns the entries of an overfull file that a prompt may show, and a line about the others."""
        room = self._room(target)
        if room is None or text.size(entries) <= self._limits[target]:
            return entries, ()
        leaving = {each.entry for each in room(entries, frozenset())}
        kept = [entry for entry in entries if entry not in leaving]
        while kept and text.size(kept) > self._limits[target]:
            kept.pop()
        count = len(entries) - len(kept)
        return tuple(kept), (f"[{count} more of {FILES[target]} do not fit and are not shown.]",)

    def _find_change(self, change_id: str) -> tuple[str, Change]:
        for target in self._files:
            for change in self.history(target)[0]:
                if change.id == change_id:
                    return target, change
        raise NotFound(f"there is no change {change_id!r}; `hermes memory log` lists them")

    def _render_snapshot(self, target: str, frozen: Reading | str) -> str:
        if isinstance(frozen, str):
            return _unreadable(target, frozen)
        try:
            entries = tuple(dict.fromkeys(frozen.entries))
            fitting_ones, left_out = self._within_budget(target, self.recalled(target, entries))
            shown = self._judged(target, fitting_ones)
        except (StorageError, WriteRefused) as error:
            return _unreadable(target, str(error))
        if frozen.drift and not entries:
            return _unreadable(target, f"{self.path(target)} holds no text: {frozen.drift}; look at what is in it")
        return block(target, (*shown, *left_out), usage(entries, self._limits[target]))


def _reading_or_reason(file: MemoryFile) -> Reading | str:
    """Reads the file, or says why it cannot be read, as text: an exception would keep its whole traceback alive."""
    file.tidy()
    try:
        return file.read()
    except StorageError as error:
        return str(error)


def _counted(entries: Sequence[object]) -> str:
    return counted(len(entries), "entry", "entries")


def block(target: str, entries: Sequence[str], used: str) -> str:
    """How a memory file looks in the system prompt."""
    return f"{_RULE}\n{_TITLES[target]} [{used}]\n{_RULE}\n{text.render(entries)}" if entries else ""


def entries_in(shown: str) -> tuple[str, ...]:
    """The entries of a `block`, as they were shown."""
    return text.parse(shown.split(f"{_RULE}\n", 2)[2]) if shown.count(f"{_RULE}\n") > 1 else ()


def _unreadable(target: str, why: str) -> str:
    """Renders an unreadable file as such; the model would act on an empty memory as if it were true."""
    return f"{_RULE}\n{_TITLES[target]} [could not be read]\n{_RULE}\n{why}"
