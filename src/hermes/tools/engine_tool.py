"""A tool that a context engine offers, as one of the toolbox's own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.compression.engine import ContextEngine


class EngineTool:
    # What an engine brings back is older text of the conversation, and must not be trusted more than it was then.
    brings = "recall"

    def __init__(self, schema: dict[str, Any], engine: ContextEngine) -> None:
        self.schema = schema
        self._engine = engine

    def call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        answer = self._engine.handle_tool_call(self.schema["name"], arguments)
        try:
            result = json.loads(answer)
        except (TypeError, ValueError):
            return {"success": True, "result": str(answer)}
        if not isinstance(result, dict):
            return {"success": True, "result": result}
        return {"success": "error" not in result, **result}


def usable_schemas(engine: ContextEngine) -> list[dict[str, Any]]:
    """The schemas of an engine's tools, in the form `{"name", "description", "parameters"}`; others are left out."""
    offered: list[Any] = list(engine.get_tool_schemas())
    schemas = [each.get("function", each) for each in offered if isinstance(each, dict)]
    whole: dict[str, Any] = {"type": "object", "properties": {}}
    return [
        {"description": "", "parameters": whole, **schema} for schema in schemas if isinstance(schema.get("name"), str)
    ]
