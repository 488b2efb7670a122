"""The `context_compact` tool: the model puts away messages it no longer needs, and can have them back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.tools.registry import failure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    # Gets first, last, ids and focus; returns the result that the model sees.
    CompactRange = Callable[[Mapping[str, str]], dict[str, Any]]


class ContextCompact:
    brings = ""
    schema: dict[str, Any] = {  # noqa: RUF012 - shared on purpose: what the model sees never changes
        "name": "context_compact",
        "description": (
            "Replace earlier messages you no longer need in full (finished work, long outputs) by a summary; "
            "context_expand brings them back. Name the range by words of its first and last message (default: all "
            "before this turn) or by ids."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "first": {"type": "string"},
                "last": {"type": "string"},
                "ids": {"type": "string"},
                "focus": {"type": "string"},
            },
        },
    }

    def __init__(self, running: Callable[[], CompactRange | None]) -> None:
        """`running` says how the conversation that runs now is compacted; None outside of one."""
        self._running = running

    def call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        compact = self._running()
        if compact is None:
            return failure("there is no running conversation here; context_compact works inside a session")
        return compact(arguments)
