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
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


SCHEMAS = [
    _function(
        "skills_list",
        "List the skills: procedures that were written down for later. Shows names and descriptions only.",
        {"category": _text("Only this category.")},
        [],
    ),
    _function(
        "skill_view",
        "Open a skill and follow it, or open one of the files it links to.",
        {
            "name": _text("The skill's name, or category/name when two share a name."),
            "file_path": _text("A linked file, such as references/api.md. Leave out for the skill itself."),
        },
        ["name"],
    ),
    _function(
        "skill_manage",
        "Create, improve or retire a skill. Prefer patch over edit, and improving an existing skill over a new one. "
        "A deleted skill is archived, not lost.",
        {
            "action": {"type": "string", "enum": list(ACTIONS), "description": "What to do."},
            "name": _text("The skill's name: a-z, 0-9, dot, underscore, hyphen; at most 64 characters."),
            "content": _text(
                "create, edit: the whole SKILL.md. It begins with YAML frontmatter that has name and description, "
                "followed by the steps."
            ),
            "old_string": _text("patch: the text to replace, exactly as it stands and long enough to be unique."),
            "new_string": _text("patch: what to put there; may be empty."),
            "replace_all": {"type": "boolean", "description": "patch: replace every occurrence."},
            "category": _text("create: a category such as software-development."),
            "file_path": _text(
                "write_file, remove_file, patch: a file under references/, templates/, scripts/ or assets/."
            ),
            "file_content": _text("write_file: the file's whole text."),
            "absorbed_into": _text("delete: the skill that covers this one from now on."),
        },
        ["action", "name"],
    ),
]
