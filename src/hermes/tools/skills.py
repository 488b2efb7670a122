"""The three skill tools in the toolbox's form; what they do lives in `hermes.skills`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hermes.skills.tool import SkillTools


class SkillTool:
    def __init__(self, name: str, tools: SkillTools) -> None:
        self._name = name
        self._tools = tools
        described = next(each["function"] for each in tools.schemas() if each["function"]["name"] == name)
        self.schema: dict[str, Any] = described

    def call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return self._tools.handle(self._name, arguments)
