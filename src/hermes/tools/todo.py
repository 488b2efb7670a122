"""The `todo` tool: the list of steps the model works through, kept in the conversation itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hermes.tools.registry import failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

STATES = ("pending", "in_progress", "completed", "cancelled")
MOST_ITEMS, LONGEST_ITEM = 256, 4_000
HEADER = "[Your active task list was preserved across context compression]"
_MARKS = {"pending": "[ ]", "in_progress": "[>]"}


class Todo:
    brings = ""
    schema: dict[str, Any] = {  # noqa: RUF012 - a constant of the class
        "name": "todo",
        "description": (
            "Keep the steps of a larger task. todos replaces the list, with merge updates or adds items by id; no"
            " arguments shows it. Have one item in_progress; complete it as soon as it is done."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "todos": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "id": {"type": "string"},
                            "content": {"type": "string"},
                            "status": {"type": "string", "enum": list(STATES)},
                        },
                        "required": ["id", "content", "status"],
                    },
                },
                "merge": {"type": "boolean"},
            },
        },
    }

    def __init__(self, history: Callable[[], Iterable[Mapping[str, Any]]] = lambda: ()) -> None:
        """`history` are the messages of the conversation; the list of a resumed session is found in them."""
        self._history = history
        self._items: list[dict[str, str]] | None = None

    def call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        items = self._current()
        if "todos" in arguments:
            given = {each["id"]: {key: each[key] for key in ("id", "content", "status")} for each in arguments["todos"]}
            merged = {each["id"]: each for each in items} | given if arguments.get("merge") else given
            if len(merged) > MOST_ITEMS:
                return failure(f"a list may have {MOST_ITEMS} items, this one has {len(merged)}")
            if too_long := [each["id"] for each in merged.values() if len(each["content"]) > LONGEST_ITEM]:
                return failure(f"an item may have {LONGEST_ITEM:,} characters; too long: {', '.join(too_long)}")
            items = self._items = list(merged.values())
        counts = {state: sum(1 for each in items if each["status"] == state) for state in STATES}
        return {"todos": items, "summary": {"total": len(items), **counts}}

    def snapshot(self) -> str:
        """The open items in words, for a conversation whose messages were compacted; empty when nothing is open."""
        lines = [
            f"- {_MARKS[each['status']]} {each['id']}. {each['content']} ({each['status']})"
            for each in self._current()
            if each["status"] in _MARKS
        ]
        return "\n".join([HEADER, *lines]) if lines else ""

    def _current(self) -> list[dict[str, str]]:
        if self._items is None:
            self._items = _restored(self._history())
        return self._items


def _restored(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The newest list a result of this tool showed."""
    for message in reversed(list(messages)):
        if message["role"] == "tool" and message.get("name") == Todo.schema["name"]:
            try:
                items = json.loads(str(message.get("content"))).get("todos")
            except (ValueError, AttributeError):
                continue
            if isinstance(items, list):
                return [each for each in items if isinstance(each, dict) and each.keys() >= {"id", "content", "status"}]
    return []
