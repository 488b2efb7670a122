"""Writes that wait for a person, over HTTP: whoever has a key and no shell decides about theirs here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.curated.approval import Approvals

if TYPE_CHECKING:
    from hermes.server.workspace import Workspace

DECISIONS = ("approve", "reject")


def waiting(workspace: Workspace, _given: dict[str, Any]) -> Any:
    return {"pending": [each.as_dict() for each in Approvals(workspace.home).pending()[0]]}


def decide(workspace: Workspace, given: dict[str, Any]) -> Any:
    approvals, wanted = Approvals(workspace.home), str(given["pending_id"])
    if given["decision"] == "reject":
        rejected = approvals.reject(wanted)
        return {"message": f"Rejected: {rejected.summary}", "change": None, "target": rejected.target}
    written = approvals.approve(wanted, workspace.store)
    change = written.change.id if written.change else None
    return {"message": written.message, "change": change, "target": written.target}
