"""Items of OpenAI's Responses API as messages; Codex and the Agents SDK both keep their history as such items."""

from __future__ import annotations

import json
from typing import Any

from hermes.migration.transcripts.conversation import text_of, tool_call

_CALLS = {"function_call": "arguments", "custom_tool_call": "input", "local_shell_call": "action"}
_RESULTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output", "computer_call_output")
_HOSTED = ("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call")


def message_of(item: dict[str, Any], names: dict[str, str]) -> dict[str, Any] | None:
    """The item as a message, or None for one that says nothing; `names` remembers which call is whose."""
    kind = item.get("type")
    if isinstance(item.get("role"), str) and kind in (None, "message"):
        return _said(item)
    if kind in _CALLS:
        call, name = str(item.get("call_id") or item.get("id")), str(item.get("name") or kind)
        names[call] = name
        arguments = item.get(_CALLS[str(kind)])
        return {"role": "assistant", "content": None, "tool_calls": [tool_call(call, name, arguments)]}
    if kind in _RESULTS:
        call = str(item.get("call_id"))
        message = {"role": "tool", "tool_call_id": call, "content": _output(item.get("output"))}
        return {**message, "name": names[call]} if call in names else message
    if kind in _HOSTED:
        arguments = {key: value for key, value in item.items() if key not in ("type", "id", "status")}
        return {"role": "assistant", "content": None, "tool_calls": [tool_call(item.get("id"), kind, arguments)]}
    if kind == "reasoning":
        thoughts = "\n".join(filter(None, (text_of(item.get("summary")), text_of(item.get("content")))))
        return {"role": "assistant", "content": None, "reasoning": thoughts} if thoughts else None
    return None


def _said(item: dict[str, Any]) -> dict[str, Any] | None:
    role = "system" if item["role"] == "developer" else item["role"]
    content = item.get("content")
    kinds = {part.get("type") for part in content if isinstance(part, dict)} if isinstance(content, list) else set()
    if not kinds - {"input_text", "output_text", "text", "refusal"}:
        content = text_of(content) or "\n".join(
            str(part["refusal"]) for part in content or () if isinstance(part, dict) and part.get("refusal")
        )
    return {"role": role, "content": content} if content else None


def _output(given: Any) -> str:
    """What a tool answered; Codex wraps it in JSON with how long it took."""
    if isinstance(given, str) and given.startswith('{"output"'):
        try:
            inner = json.loads(given).get("output")
        except (ValueError, AttributeError, RecursionError):
            return given
        return inner if isinstance(inner, str) else given
    if isinstance(given, str):
        return given
    return text_of(given) or json.dumps(given, ensure_ascii=False)
