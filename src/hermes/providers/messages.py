"""Messages as providers may see them: what was recalled is taken out, so that it is never stored a second time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.safety.fence import sanitize_context

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

RECALLED = "[recalled from memory]"
_KEYS = ("role", "content", "name", "tool_calls", "tool_call_id")


def for_providers(messages: Sequence[Mapping[str, Any]], recalling: Collection[str]) -> list[dict[str, Any]]:
    """Copies without fences; results of tools that recall (`recalling`) are only mentioned."""
    callers = {
        str(each.get("id")): each.get("function", {}).get("name", "")
        for message in messages
        for each in message.get("tool_calls") or ()
    }
    return [_copied(message, callers, recalling) for message in messages]


def _copied(message: Mapping[str, Any], callers: Mapping[str, str], recalling: Collection[str]) -> dict[str, Any]:
    copy = {key: message[key] for key in _KEYS if message.get(key) is not None}
    if message.get("role") == "tool":
        name = str(message.get("name") or callers.get(str(message.get("tool_call_id")), ""))
        if name in recalling:
            return copy | {"content": RECALLED}
    return copy | {"content": _clean(message.get("content"))}


def _clean(content: Any) -> Any:
    if isinstance(content, str):
        return sanitize_context(content)
    if isinstance(content, list):
        return [
            part | {"text": sanitize_context(part["text"])}
            if isinstance(part, dict) and isinstance(part.get("text"), str)
            else part
            for part in content
        ]
    return "" if content is None else content
