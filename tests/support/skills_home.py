"""A skills directory for tests."""

from __future__ import annotations

import json
import os
from functools import partial
from typing import TYPE_CHECKING, Any

from scans import scan

from hermes.skills.tool import SCHEMAS, SkillTools
from hermes.tools.memory import SkillTool
from hermes.tools.registry import Toolbox

if TYPE_CHECKING:
    from pathlib import Path

NOON = 1_763_208_000.0


def skill_text(name: str, description: str = "Does it.", body: str = "# Steps\n1. Do it.\n", extra: str = "") -> str:
    return f"---\nname: {name}\ndescription: {description}\n{extra}---\n{body}"


class Skills:
    """The tools over a temporary directory, called as a model would."""

    def __init__(self, tmp_path: Path, **options: Any) -> None:
        self.root = tmp_path / "skills"
        self.tools = SkillTools(str(self.root), scan, **{"now": lambda: NOON, "environment": {}, **options})
        self.box = Toolbox({name: partial(SkillTool, name, self.tools) for name in SCHEMAS})

    def put(self, path: str, text: str | bytes) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode() if isinstance(text, str) else text)

    def call(self, tool: str, **args: Any) -> dict[str, Any]:
        return dict(json.loads(self.box.call(tool, args)))

    def manage(self, action: str, name: str = "deploy", **args: Any) -> dict[str, Any]:
        return self.call("skill_manage", action=action, name=name, **args)

    def create(self, name: str = "deploy", category: str | None = "ops", **text: str) -> dict[str, Any]:
        return self.manage("create", name, content=skill_text(name, **text), category=category)

    def files(self) -> dict[str, bytes]:
        return {
            os.path.relpath(os.path.join(folder, file), self.root): (self.root / folder / file).read_bytes()
            for folder, _, files in os.walk(self.root)
            for file in files
            if not file.startswith((".usage", ".lock"))
        }
