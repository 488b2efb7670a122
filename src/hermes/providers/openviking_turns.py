"""A finished turn as OpenViking takes it: who said what, with the tools that were used on the way."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hermes.providers.messages import RECALLED
from hermes.providers.service import clean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hermes.providers.service import Turn

_LONGEST_OUTPUT = 4_000
_ERRORS = ('{"error"', '{"success": false')


def as_messages(turn: Turn, *, agent: str, own: Sequence[str]) -> list[dict[str, Any]]:
    """Calls of tools that recall (`own`) are left out, lest what they found is stored again."""
    name = {"turn_id": turn.key} if turn.key else {}
    said = {"role": "user", "parts": [_text(turn.user)], **name}
    parts = [*_tools(turn.steps, own), _text(turn.assistant)]
    return [said, {"role": "assistant", "parts": parts, "peer_id": agent, **name}]


def _tools(steps: Sequence[Mapping[str, Any]], own: Sequence[str]) -> list[dict[str, Any]]:
    results = {str(each.get("tool_call_id")): each for each in steps if each.get("role") == "tool"}
    parts = []
    for step in steps:
        for call in step.get("tool_calls") or ():
            function = call.get("function") or {}
            result = results.get(str(call.get("id")))
            name = str(function.get("name") or "")
            if name in own or (result is not None and result.get("content") == RECALLED):
                continue
            parts.append(_tool(str(call.get("id") or ""), name, function.get("arguments"), result))
    return parts


def _tool(call_id: str, name: str, arguments: Any, result: Mapping[str, Any] | None) -> dict[str, Any]:
    part = {"type": "tool", "tool_id": call_id, "tool_name": name, "tool_input": _object(arguments)}
    if result is None:
        return {**part, "tool_status": "pending"}
    output = clean(_plain(result.get("content")))
    status = "error" if output.startswith(_ERRORS) else "completed"
    return {**part, "tool_output": output[:_LONGEST_OUTPUT], "tool_status": status}


def _object(arguments: Any) -> dict[str, Any]:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return {"arguments": arguments}
    return arguments if isinstance(arguments, dict) else {}


def _plain(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return str(content or "")


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}
