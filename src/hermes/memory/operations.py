"""Plans memory writes: screens the text and works out what a batch makes of the live entries."""

from __future__ import annotations

import sys

from hermes.base.errors import StorageError, WriteRefused
from hermes.memory import entries as text
from hermes.memory.file import Plan
from hermes.memory.history import Edit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from hermes.memory.file import MemoryFile
    from hermes.memory.history import Cause, Leaving

    Screen = Callable[[str, Cause], None]
    Operation = Mapping[str, str]
    Room = Callable[[Sequence[str], frozenset[str]], Sequence[Leaving]]

ASK = "ask"


def screen_write(content: str, cause: Cause) -> None:
    """Refuses threats and secrets; what could be either is for a person to decide, who may also write it themselves."""
    may_hold_secrets = _load("fast_path").look(content)
    if may_hold_secrets is False:
        return
    if found := _load("secrets").find_secrets(content):
        kinds = ", ".join(dict.fromkeys(secret.kind for secret in found))
        raise WriteRefused(
            f"content holds a secret ({kinds}), which must not stand in a prompt; keep it in .env and save where it is",
            kind="secret",
        )
    if may_hold_secrets is not None:
        return
    verdict = _load("scanner").scan(content, "memory")
    if verdict.level == "clean" or (verdict.level == ASK and (cause.origin == "user" or cause.approved)):
        return
    raise WriteRefused(
        f"content looks like {', '.join(verdict.classes)}: {verdict.excerpt!r}. {verdict.advice}",
        kind=ASK if verdict.level == ASK else "threat",
        details={"classes": list(verdict.classes), "excerpt": verdict.excerpt},
    )


def blocked_in_prompt(entries: Sequence[str], file: str) -> tuple[str, ...]:
    """The entries as they may enter a prompt: one that must not is replaced by a line that says so."""
    if not entries or _load("fast_path").harmless_prose("\n".join(entries), weighed=False):
        return tuple(entries)
    verdicts = _load("scanner").scan_entries(entries, "memory")
    blocked = "[BLOCKED: entry {} of {} looks like {}. It stays in the file and is not shown.]"
    return tuple(
        entry if verdict.level != "refuse" else blocked.format(number, file, ", ".join(verdict.classes))
        for number, (entry, verdict) in enumerate(zip(entries, verdicts, strict=True), start=1)
    )


def _load(module: str) -> Any:
    """A module of `hermes.safety`, loaded only when a text has to be judged by it."""
    name = f"hermes.safety.{module}"
    try:
        __import__(name)  # importlib would cost a cold write more than the module
    except ImportError as error:
        raise WriteRefused(
            f"the safety scanner could not be loaded ({error}); nothing is saved without it, reinstall Hermes",
            kind="closed",
        ) from error
    return sys.modules[name]


def shown(entries: Sequence[str], file: MemoryFile, name: str, known: dict[str, str]) -> list[str]:
    """The entries as a model may see them; `known` says it of those that were judged, and learns the others.

    What was written through us was judged then, so only a file that others wrote into is judged again.
    """
    if any(entry not in known for entry in entries):
        try:
            seen = blocked_in_prompt(entries, name) if file.has_texts_of_others() else entries
        except (StorageError, WriteRefused) as error:
            return [known.get(entry, f"[not shown: {error}]") for entry in entries]
        known.update(zip(entries, seen, strict=True))
    return [known[entry] for entry in entries]


ACTIONS = ("add", "replace", "remove")
_DONE = {"add": "Entry added.", "replace": "Entry replaced.", "remove": "Entry removed."}
_SHOWN = 40
_ALREADY_THERE = "Entry already exists (no duplicate added)."


def usage(entries: Sequence[str], limit: int) -> str:
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
    target: str, operations: Sequence[Operation], limit: int, room: Room | None = None
) -> Callable[[tuple[str, ...]], Plan]:
    """A function that applies the operations in order to whatever the live entries are; all of them or none.

    With `room` a store that would be too full gives up other entries to the archive instead of refusing.
    """

    def plan(entries: tuple[str, ...]) -> Plan:
        live = list(entries)
        edits: list[Edit] = []
        for number, operation in enumerate(operations, start=1):
            try:
                edits += _apply(live, operation)
            except WriteRefused as refusal:
                refused = _in_batch(refusal, number, operation, len(operations))
                refused.details |= {"current_entries": list(entries), "usage": usage(entries, limit)}
                raise refused from refusal
        action = operations[0]["action"] if len(operations) == 1 else "batch"
        return fitting(target, Plan(action=action, edits=tuple(edits), entries=tuple(live)), entries, limit, room)

    return plan


def fitting(target: str, plan: Plan, before: Sequence[str], limit: int, room: Room | None) -> Plan:
    """The plan itself when what it leads to fits; else one that also makes room, or a refusal."""
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
    if len(operations) > 1:
        return f"Applied {len(operations)} operations.{made_room(plan)}"
    return f"{_DONE[plan.action]}{made_room(plan)}" if plan.edits else _ALREADY_THERE


def made_room(plan: Plan) -> str:
    """What left for the archive, and why; "" when nothing did."""
    if not plan.archived:
        return ""
    what = "; ".join(f"{text.preview(each.entry)!r} ({each.reason})" for each in plan.archived)
    return f" Moved to the archive, from where search and `hermes memory restore` bring it back: {what}."


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
        after = None  # the new wording stands there already; keeping both would be a duplicate
    if after == before:
        return []
    live[index : index + 1] = [] if after is None else [after]
    return [Edit(index=index, before=before, after=after)]


def _in_batch(refusal: WriteRefused, number: int, operation: Operation, count: int) -> WriteRefused:
    if count == 1:
        return refusal
    why = f"Operation {number} ({operation['action']}): {refusal}. Nothing was written: a batch is all or nothing."
    return WriteRefused(why, kind=refusal.kind, details=refusal.details)
