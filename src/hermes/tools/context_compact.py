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
            "Put away a stretch of earlier messages that you no longer need word for word, such as a finished "
            "investigation or long tool outputs. A summary stands in their place; names, rules and decisions are kept "
            "exactly, and context_expand brings the originals back. The current turn always stays."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "first": {
                    "type": "string",
                    "description": "Words from the first message to put away; left out: from the beginning.",
                },
                "last": {
                    "type": "string",
                    "description": "Words from the last message to put away; left out: up to the current turn.",
                },
                "ids": {
                    "type": "string",
                    "description": "Instead of first and last: a range of message ids, such as '4096-4131'.",
                },
                "focus": {"type": "string", "description": "A subject the summary should tell in detail."},
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
