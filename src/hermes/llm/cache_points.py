"""Where a request tells Anthropic to keep its prefix: the system prompt and the last three messages (`system_and_3`).

A conversation that has fewer messages leaves a point over, which `anthropic.py` puts on the tools.

Only the marked messages are copied, so the cost does not depend on the length of the history, and nothing that was
handed in is changed: the stored messages stay free of markers.
"""

from __future__ import annotations

from hermes.vocabulary.errors import SettingsError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Message = Mapping[str, Any]

ROLLING = 3  # Anthropic allows four points per request; one is the system prompt's


def cache_points(messages: Sequence[Message], *, ttl: str = "5m", native: bool = True) -> dict[int, dict[str, Any]]:
    """The messages that carry a point, as marked copies by their position; looks only at the two ends of the list.

    `native` is Anthropic's own API, whose adapter moves a point on a message into its block. Elsewhere (OpenRouter)
    only a content part can carry one, so messages without text are passed over instead of wasting a point.
    """
    marker = marker_for(ttl)
    marked: dict[int, dict[str, Any]] = {}
    system_at = 0 if messages and messages[0].get("role") == "system" else None
    if system_at is not None and (system := _marked(messages[0], marker, native=native)) is not None:
        marked[system_at] = system
    left = ROLLING
    for position in range(len(messages) - 1, -1 if system_at is None else 0, -1):
        if messages[position].get("role") == "system":
            continue
        copy = _marked(messages[position], marker, native=native)
        if copy is not None:
            marked[position] = copy
            left -= 1
        if left == 0:
            break
    return marked


def with_cache_points(messages: Sequence[Message], *, ttl: str = "5m", native: bool = True) -> list[Message]:
    """`messages` with the marked copies in place; for callers that send a whole list."""
    result = list(messages)
    for position, message in cache_points(messages, ttl=ttl, native=native).items():
        result[position] = message
    return result


def system_blocks(system: str, *, ttl: str = "5m") -> list[dict[str, Any]]:
    """A system prompt that is sent beside the messages, as Anthropic's block list with its point."""
    return [{"type": "text", "text": system, "cache_control": marker_for(ttl)}] if system else []


def marker_for(ttl: str) -> dict[str, str]:
    match ttl:
        case "5m":
            return {"type": "ephemeral"}
        case "1h":
            return {"type": "ephemeral", "ttl": "1h"}
    raise SettingsError(
        f'prompt_caching.cache_ttl is {ttl!r}; Anthropic keeps a prefix for "5m" or "1h": use one of them'
    )


def _marked(message: Message, marker: dict[str, str], *, native: bool) -> dict[str, Any] | None:
    content = message.get("content")
    if native and message.get("role") == "tool":
        return {**message, "cache_control": dict(marker)}
    if isinstance(content, str) and content:
        return {**message, "content": [{"type": "text", "text": content, "cache_control": dict(marker)}]}
    if isinstance(content, list):
        for position in range(len(content) - 1, -1, -1):
            if _can_carry(content[position]):
                parts = list(content)
                parts[position] = {**content[position], "cache_control": dict(marker)}
                return {**message, "content": parts}
    return {**message, "cache_control": dict(marker)} if native else None


def _can_carry(part: object) -> bool:
    # The API refuses a point on a thinking block and on an empty text block.
    if not isinstance(part, dict) or part.get("type") in ("thinking", "redacted_thinking"):
        return False
    return part.get("type") != "text" or bool(part.get("text"))
