"""Plans memory writes: what one operation or a batch makes of the live entries, before anything is touched."""

from __future__ import annotations

from hermes.curated import entries as text
from hermes.curated.history import Edit
from hermes.curated.memory_file import Plan
from hermes.vocabulary.errors import WriteRefused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hermes.curated.history import Cause
    from hermes.curated.screening import Screen

    Operation = Mapping[str, str]

ACTIONS = ("add", "replace", "remove")
_DONE = {"add": "Entry added.", "replace": "Entry replaced.", "remove": "Entry removed."}
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


def planner(operations: Sequence[Operation], limit: int) -> Callable[[tuple[str, ...]], Plan]:
    """A function that applies the operations in order to whatever the live entries are; all of them or none."""

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
        refuse_if_full(entries, live, limit)
        action = operations[0]["action"] if len(operations) == 1 else "batch"
        return Plan(action=action, edits=tuple(edits), entries=tuple(live))

    return plan


def message(plan: Plan, operations: Sequence[Operation]) -> str:
    if len(operations) > 1:
        return f"Applied {len(operations)} operations."
    return _DONE[plan.action] if plan.edits else _ALREADY_THERE


def refuse_if_full(before: Sequence[str], after: Sequence[str], limit: int) -> None:
    needed = text.size(after)
    if needed <= limit or needed < text.size(before):
        return
    raise WriteRefused(
        f"memory is full: {text.size(before):,} of {limit:,} characters are used and this needs {needed:,}; "
        "shorten, merge or remove some of the current entries first, in one batch with this write if you like",
        kind="full",
        details={"current_entries": list(before), "usage": f"{text.size(before):,}/{limit:,}"},
    )


def _prepared(operation: Operation, screen: Screen, cause: Cause) -> Operation:
    if operation["action"] != "add" and not operation.get("old_text"):
        raise WriteRefused("old_text is missing; give a piece of the entry to change", kind="missing_old_text")
    if operation["action"] == "remove":
        return {**operation, "content": ""}
    content = operation.get("content", "")
    if operation["action"] == "replace" and not text.trim(content):
        raise WriteRefused("content is empty; to delete an entry use the action remove", kind="empty")
    content = text.clean(content)
    screen(content, cause)
    return {**operation, "content": content}


def _apply(live: list[str], operation: Operation) -> list[Edit]:
    content = operation["content"]
    if operation["action"] == "add":
        if content in live:
            return []
        live.append(content)
        return [Edit(index=len(live) - 1, before=None, after=content)]
    index = text.index_of(live, operation["old_text"])
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
    told = f"Operation {number} ({operation['action']}): {refusal}. Nothing was written: a batch is all or nothing."
    return WriteRefused(told, kind=refusal.kind, details=refusal.details)
