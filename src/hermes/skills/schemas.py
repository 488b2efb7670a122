"""What the model is told about the skill tools, in OpenAI's function format."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ACTIONS = ("create", "patch", "edit", "delete", "write_file", "remove_file")
NEEDED = {
    "create": ("content",),
    "patch": ("old_string", "new_string"),
    "edit": ("content",),
    "delete": (),
    "write_file": ("file_path", "file_content"),
    "remove_file": ("file_path",),
}
_TEXTS = ("action", "name", "content", "old_string", "new_string", "category", "file_path", "file_content")
FIELDS: dict[str, dict[str, type]] = {
    "skills_list": {"category": str},
    "skill_view": {"name": str, "file_path": str},
    "skill_manage": {**dict.fromkeys((*_TEXTS, "absorbed_into"), str), "replace_all": bool},
}


def _function(name: str, description: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties} | ({"required": required} if required else {})
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def _text(description: str = "") -> dict[str, Any]:
    return {"type": "string"} | ({"description": description} if description else {})


SCHEMAS = [
    _function("skills_list", "List skills (written procedures) with their descriptions.", {"category": _text()}, []),
    _function(
        "skill_view",
        "Open a skill to follow it, or with file_path a file it links to.",
        {"name": _text(), "file_path": _text()},
        ["name"],
    ),
    _function(
        "skill_manage",
        "Create, improve or retire a skill; delete archives it. Prefer patch over edit.",
        {
            "action": {"type": "string", "enum": list(ACTIONS)},
            "name": _text(),
            "content": _text("create, edit: whole SKILL.md; YAML frontmatter with name, description"),
            "old_string": _text("patch: exact, unique text"),
            "new_string": _text(),
            "replace_all": {"type": "boolean"},
            "category": _text(),
            "file_path": _text("in references/, templates/, scripts/ or assets/"),
            "file_content": _text(),
            "absorbed_into": _text("delete: skill that covers it"),
        },
        ["action", "name"],
    ),
]
