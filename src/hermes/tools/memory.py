"""The `memory` tool: how the model keeps facts for later sessions."""

from __future__ import annotations

from hermes.base.errors import WriteRefused
from hermes.memory.entries import Cause, preview
from hermes.memory.store import ACTIONS, ASK
from hermes.safety.trust import NO_TURN, decide
from hermes.tools.registry import SCHEMAS, failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from hermes.memory.approval import Approvals, Pending
    from hermes.memory.store import MemoryStore, Operation, Written
    from hermes.safety.trust import TurnContext

_IN_PROJECT = {
    "type": "string",
    "enum": ["memory", "user", "project"],
    "description": "memory: your notes; user: facts about the person; project: what matters only in this project",
}
_NOTE = "Saved for good. The prompt of this session stays as it is; the next session starts with these entries."
_MANY_REFUSALS = 3  # in a turn; after that the model is told to stop trying
# Refusals that count, because a model can answer each of them with one more attempt.
_FULL_OR_UNMATCHED = frozenset({"full", "too_long", "no_match", "ambiguous", "missing_old_text"})


class MemoryTool:
    """The tool `memory`; `store` is None when memory is switched off.

    A write is staged instead of made when a person must agree to every write (`approve_all`), when the scanner cannot
    tell a threat from a harmless note, or when text from outside may have caused it and `untrusted` says so.
    """

    schema = SCHEMAS["memory"]
    brings = ""
    sink = "memory"
    gates_itself = True  # each target is a sink of its own, and pending writes have a form that other programs read
    in_turn = True
    defaults = {"target": "memory"}  # noqa: RUF012 - a constant of the class

    def __init__(
        self,
        store: MemoryStore | None,
        *,
        approvals: Approvals,
        approve_all: bool = False,
        untrusted: str = "stage",
    ) -> None:
        if store is not None and "project" in store.targets:
            whole = self.schema["parameters"]
            fields = {**whole["properties"], "target": _IN_PROJECT}  # elsewhere a model need not know of projects
            self.schema = {**self.schema, "parameters": {**whole, "properties": fields}}
        self._store = store
        self._approvals = approvals
        self._approve_all = approve_all
        self._untrusted = untrusted
        self._refusals = 0

    def start_turn(self) -> None:
        """Starts counting refusals anew."""
        self._refusals = 0

    def call(self, arguments: dict[str, Any], turn: TurnContext = NO_TURN) -> dict[str, Any]:
        """Makes or stages the changes, and shows the entries that result; a refusal shows what there is."""
        if self._store is None:
            return failure(
                "memory is switched off in the settings (memory.memory_enabled, memory.user_profile_enabled)"
            )
        target = arguments["target"]
        try:
            result = self._write(self._store, target, arguments.get("operations") or [_single(arguments)], turn)
        except WriteRefused as refusal:
            return _shown(self._refused(refusal), self._store, target)
        self._refusals = 0
        return _shown(result, self._store, target)

    def _write(self, store: MemoryStore, target: str, operations: list[Operation], turn: TurnContext) -> dict[str, Any]:
        """Applies the operations, or stages them if there is a reason to.

        They are rehearsed before they are staged, so that the model learns of a mistake now, not after an approval.
        """
        cause = cause_of(turn)
        reasons = ["memory.write_approval is on"] if self._approve_all else []
        new = [each.get("content", "") for each in operations if each["action"] != "remove"]
        decision = decide(target, turn, writes=new, removes=_replaced(store.entries(target), operations))
        if not decision.allowed:
            cause = Cause(origin=decision.origin or "unknown", session=cause.session, note=cause.note)
            if self._untrusted == "refuse":
                raise WriteRefused(f"{decision.reason}, and memory.untrusted_writes is refuse", kind="untrusted")
            reasons += [decision.reason] if self._untrusted == "stage" else []
        try:
            if not reasons:
                return _success(store.apply(target, operations, cause=cause))
            store.rehearse(target, operations, cause=cause)
        except WriteRefused as refusal:
            if refusal.kind != ASK:
                raise
            reasons.append(str(refusal))
        why, project = "; ".join(reasons), store.project if target == "project" else ""
        return _staged(self._approvals.stage(target, operations, cause, why, project, sources=decision.evidence()))

    def _refused(self, refusal: WriteRefused) -> dict[str, Any]:
        """The refusal as a result; after several in a turn, it tells the model to stop trying."""
        self._refusals += refusal.kind in _FULL_OR_UNMATCHED
        if self._refusals <= _MANY_REFUSALS:
            return failure(str(refusal), refusal.details)
        stop = f"{refusal}. That was refusal number {self._refusals} in this turn: leave memory as it is and continue."
        return failure(stop, {"done": True})


def cause_of(turn: TurnContext) -> Cause:
    """The cause that the history records for memory changes of this turn."""
    return Cause(origin=turn.origin, session=turn.session, note=turn.note, approved=turn.approved)


def _shown(result: dict[str, Any], store: MemoryStore, target: str) -> dict[str, Any]:
    """The result without the text of entries that a prompt would hide, blocked or kept from recall."""
    hidden: list[str] = []
    for name in ("entries", "current_entries", "conflicts"):
        live = result.get(name, ())
        result |= {name: store.shown(target, live)} if live else {}
        hidden += [was for was, now in zip(live, result.get(name, ()), strict=True) if was != now]
    for each in result.get("archived", ()):
        left = each["entry"]
        each["entry"] = store.shown(target, [left])[0]
        hidden += [left] if each["entry"] != left else []
    previews = [preview(entry) for entry in hidden]
    if "matches" in result:
        result["matches"] = [each for each in result["matches"] if each not in previews]
    for each in previews if "message" in result else ():
        result["message"] = result["message"].replace(repr(each), "an entry that is not shown")
    return result


def _replaced(entries: Sequence[str], operations: Sequence[Operation]) -> list[str]:
    """The entries that the operations would replace or remove, for the trust gate."""
    pieces = [each["old_text"] for each in operations if each["action"] != "add" and each.get("old_text")]
    return [entry for entry in entries if any(piece.strip() in entry for piece in pieces)]


def _single(arguments: dict[str, Any]) -> Operation:
    """The operation of a call that does not use the list `operations`."""
    if "action" not in arguments:
        raise WriteRefused(
            f"action is missing; give one of {', '.join(ACTIONS)}, or a list of operations", kind="missing_action"
        )
    return {field: arguments[field] for field in ("action", "content", "old_text") if field in arguments}


def _success(written: Written) -> dict[str, Any]:
    moved = [{"entry": each.entry, "reason": each.reason} for each in written.archived]
    return {
        "success": True,
        "done": True,
        **({"archived": moved} if moved else {}),
        **({"conflicts": list(written.conflicts)} if written.conflicts else {}),
        "target": written.target,
        "message": written.message,
        "usage": written.usage,
        "entry_count": len(written.entries),
        "entries": list(written.entries),
        "note": _NOTE,
    }


def _staged(pending: Pending) -> dict[str, Any]:
    return {
        "success": True,
        "staged": True,
        "pending_id": pending.id,
        "target": pending.target,
        "message": (
            f"Staged, not saved yet, because {pending.reason}. The user decides with `/memory approve {pending.id}` "
            f"or `/memory reject {pending.id}` in a chat with Hermes, in a shell `hermes memory …` likewise; tell them."
        ),
    }
