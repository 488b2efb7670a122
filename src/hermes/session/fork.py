"""A conversation that is looked at again without being touched: the same prompt and tools, answers that go nowhere."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hermes.session.requests import Request, wire_message
from hermes.tools.registry import CUT_OFF, failure, to_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hermes.tools.registry import Toolbox

VERBATIM = 24  # newest messages another model sees whole
_OLDER = {"user": 300, "assistant": 200}
_LONGEST = 4_000


class Fork:
    """What `tools/loop` talks to during a review; nothing of it is stored, observed, searched or told to anybody.

    The model sees the parent's tools byte for byte, so that its cache is hit; only those of `toolbox` run.
    """

    def __init__(self, parent: Request, instruction: str, toolbox: Toolbox) -> None:
        self._parent = parent
        self._messages = [*parent.messages, {"role": "user", "content": instruction}]
        self._toolbox = toolbox

    def request(self) -> Request:
        return Request(system=self._parent.system, messages=list(self._messages), tools=self._parent.tools)

    def record(self, message: Mapping[str, Any]) -> None:
        self._messages.append(wire_message(dict(message)))

    def call_tool(self, name: str, arguments: str, *, call_id: str, cut_off: bool = False) -> str:
        if cut_off:
            result = to_json(failure(CUT_OFF))
        elif name in self._toolbox.names():
            result = self._toolbox.call(name, arguments)
        else:
            allowed = ", ".join(self._toolbox.names())
            result = to_json(failure(f"{name} is not available in a review; nobody is there to agree. Use {allowed}"))
        self._messages.append({"role": "tool", "tool_call_id": call_id, "name": name, "content": result})
        return result


def transcript(messages: Sequence[Mapping[str, Any]]) -> str:
    """A conversation as text for a model that did not have it: the newest messages whole, older ones in short."""
    split = max(0, len(messages) - VERBATIM)
    lines = []
    for place, message in enumerate(messages):
        role = str(message.get("role"))
        longest = _LONGEST if place >= split else _OLDER.get(role, 0)
        text = _text(message)[:longest]
        if text:
            lines.append(f"[{role}] {text}")
    return "\n\n".join(lines)


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    if not isinstance(content, str):
        content = " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    shown = [f"(calls {call['name']} with {json.dumps(call['arguments'], ensure_ascii=False)[:200]})" for call in calls]
    return " ".join([content, *shown]).strip()
