"""The three skill tools in the toolbox's form; what they do lives in `hermes.skills`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from hermes.skills.pending import PendingSkill, PendingSkills
    from hermes.skills.tool import SkillTools

MANAGE = "skill_manage"


class Gate:
    """Decides which skill changes wait for a person: `why` says the reason, "" to let one through."""

    def __init__(
        self,
        pending: PendingSkills,
        why: Callable[[], str],
        cause: Callable[[], tuple[str, str]] = lambda: ("agent", ""),
    ) -> None:
        self.why = why
        self._pending = pending
        self._cause = cause

    def stage(self, arguments: dict[str, Any], reason: str) -> PendingSkill:
        origin, session = self._cause()
        return self._pending.stage(arguments, origin=origin, session=session, reason=reason)


class SkillTool:
    def __init__(self, name: str, tools: SkillTools, gate: Gate | None = None) -> None:
        self._name = name
        self._tools = tools
        self._gate = gate if name == MANAGE else None
        described = next(each["function"] for each in tools.schemas() if each["function"]["name"] == name)
        self.schema: dict[str, Any] = described

    def call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        reason = self._gate.why() if self._gate else ""
        if not reason or self._gate is None:
            return self._tools.handle(self._name, arguments)
        refused = self._tools.refusal(arguments)
        return refused or _staged(self._gate.stage(arguments, reason))


def _staged(pending: PendingSkill) -> dict[str, Any]:
    return {
        "success": True,
        "staged": True,
        "pending_id": pending.id,
        "message": (
            f"Staged, not done yet, because {pending.reason}. The user decides with "
            f"`hermes skills approve {pending.id}` or `hermes skills reject {pending.id}`; tell them."
        ),
    }
