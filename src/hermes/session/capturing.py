"""Capture without a model: what a person says in plain statements enters memory, or waits for them to agree.

It reads the person's own clean words and nothing else, so neither recalled memory nor a tool's output can come back as
a new memory, and a fact that was said a hundred times is one entry.
"""

from __future__ import annotations

from hermes.curation.capture import KNOWN, capture, placed
from hermes.vocabulary.errors import HermesError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hermes.curated.approval import Approvals
    from hermes.curated.history import Cause
    from hermes.curated.store import MemoryStore
    from hermes.curation.capture import Captured
    from hermes.tools.memory import MemoryTool

STAGE = "stage"


def capture_turn(said: str, store: MemoryStore, tool: MemoryTool, approvals: Approvals | None) -> list[dict[str, Any]]:
    """Keeps the statements of one message through the memory tool; with `approvals` they wait there instead."""
    done = []
    for captured in capture(said):
        try:
            if captured.target in store.targets and (result := _keep(captured, store, tool, approvals)):
                done.append(result)
        except HermesError:
            continue  # what cannot be kept now stays in the conversation, where search finds it
    return done


def _keep(
    captured: Captured, store: MemoryStore, tool: MemoryTool, approvals: Approvals | None
) -> dict[str, Any] | None:
    target = captured.target
    archived = [each.entry for each in store.archived(target) if not each.into]
    write = placed(captured, [*archived, *store.entries(target)])
    if write.old_text in archived:  # somebody speaks of it again: it comes back before it is corrected
        store.restore(target, write.old_text, cause=tool.cause)
    if write.action == KNOWN:
        return None
    operation = {"action": write.action, "content": write.content}
    operation |= {"old_text": write.old_text} if write.old_text else {}
    if approvals is None:
        return tool.call({"target": target, **operation})
    _stage(target, operation, store, approvals, tool.cause)
    return None


def _stage(target: str, operation: dict[str, str], store: MemoryStore, approvals: Approvals, cause: Cause) -> None:
    waiting = [dict(each) for pending in approvals.pending()[0] for each in pending.operations]
    if operation not in waiting:
        store.rehearse(target, [operation], cause=cause)
        approvals.stage(target, [operation], cause, "memory.capture is stage: the user said so")
