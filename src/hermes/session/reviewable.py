"""What a review or the curator may see of a session: parts to read from and to write through, nothing to speak with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.session.requests import Request

if TYPE_CHECKING:
    from hermes.curated.store import MemoryStore
    from hermes.session.wiring import Parts
    from hermes.settings.home import Home
    from hermes.settings.load import Settings
    from hermes.storage.sessions import SessionDB
    from hermes.tools.registry import Tool
    from hermes.tools.taint import Taint


class Reviewable:
    """A part of `MemorySession`."""

    id: str
    system_prompt: str
    context: Any
    _parts: Parts
    _tools: list[dict[str, Any]]
    _prefill: list[dict[str, Any]]

    @property
    def home(self) -> Home:
        return self._parts.home

    @property
    def settings(self) -> Settings:
        return self._parts.settings

    @property
    def store(self) -> MemoryStore | None:
        return self._parts.store

    @property
    def database(self) -> SessionDB:
        return self._parts.database

    @property
    def tool_names(self) -> list[str]:
        """The tools the model of this session was offered."""
        return [str(tool["function"]["name"]) for tool in self._tools]

    def snapshot_request(self) -> Request:
        """The request as it stands now, for somebody who will not send it as this session."""
        return Request(
            system=self.system_prompt, messages=[*self._prefill, *self.context.messages], tools=list(self._tools)
        )

    def review_skill_tool(self, name: str, taint: Taint) -> Tool:
        """A skill tool whose changes are stamped as a review's, and wait when text from outside may be behind them."""
        from hermes.skills.pending import PendingSkills
        from hermes.tools.skills import Gate, SkillTool

        def why() -> str:
            if self.settings.flag("skills.write_approval"):
                return "skills.write_approval is on"
            if taint.origin and self.settings.text("memory.untrusted_writes") != "allow":
                return taint.in_words()
            return ""

        pending = PendingSkills(self.home.join("pending", "skills"))
        gate = Gate(pending, why, lambda: (taint.origin or "background_review", self.id))
        return SkillTool(name, self._parts.skills, gate)
