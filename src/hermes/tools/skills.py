"""The three skill tools in the toolbox's form; what they do lives in `hermes.skills`."""

from __future__ import annotations

from hermes.vocabulary.errors import WriteRefused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from hermes.curated.history import Cause
    from hermes.skills.pending import PendingSkill, PendingSkills
    from hermes.skills.tool import SkillTools
    from hermes.tools.taint import Taint

MANAGE, VIEW = "skill_manage", "skill_view"
_TEXTS = ("content", "new_string", "file_content")


class Gate:
    """Decides which skill changes wait for a person. What a skill is about stands in every prompt, as memory does.

    `must_ask` has all of them wait; `untrusted` (stage, refuse or allow) is about those that text from outside may
    stand behind.
    """

    def __init__(
        self, pending: PendingSkills, taint: Taint, cause: Callable[[], Cause], *, must_ask: bool, untrusted: str
    ) -> None:
        self._pending = pending
        self._taint = taint
        self._cause = cause
        self._must_ask = must_ask
        self._untrusted = untrusted

    def held_back(self, arguments: dict[str, Any]) -> Callable[[], PendingSkill] | None:
        """How to stage a change that must wait; None when it may be made now."""
        cause = self._cause()
        reasons = ["skills.write_approval is on"] if self._must_ask else []
        new = [arguments[name] for name in _TEXTS if isinstance(arguments.get(name), str)]
        source = self._taint.behind(new, lambda: _lost(arguments))
        if source is not None and self._untrusted != "allow":
            reasons.append(self._taint.in_words(source))
            if self._untrusted == "refuse":
                raise WriteRefused(f"{reasons[-1]}, and memory.untrusted_writes is refuse", kind="untrusted")
        if not reasons:
            return None
        origin = cause.origin if source is None else source.origin
        reason = "; ".join(reasons)
        return lambda: self._pending.stage(arguments, origin=origin, session=cause.session, reason=reason)


class SkillTool:
    def __init__(self, name: str, tools: SkillTools, gate: Gate | None = None) -> None:
        self._name = name
        self._tools = tools
        self._gate = gate if name == MANAGE else None
        self.brings = ""
        described = next(each["function"] for each in tools.schemas() if each["function"]["name"] == name)
        self.schema: dict[str, Any] = described

    def call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        stage = self._gate.held_back(arguments) if self._gate else None
        if stage is None:
            result = self._tools.handle(self._name, arguments)
            is_view = self._name == VIEW and isinstance(arguments.get("name"), str)
            self.brings = "file" if is_view and self._tools.is_elsewhere(arguments["name"]) else ""
            return result
        return self._tools.refusal(arguments) or _staged(stage())


def _lost(arguments: dict[str, Any]) -> list[str]:
    """What names the thing that a change takes away; a skill that is only added to loses nothing."""
    taken = {"patch": ("old_string",), "delete": ("name",), "remove_file": ("name", "file_path")}
    named = [arguments.get(each) for each in taken.get(str(arguments.get("action")), ())]
    return [" ".join(each for each in named if isinstance(each, str))] if named else []


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
