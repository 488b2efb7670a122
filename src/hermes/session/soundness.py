"""Puts tool results behind their calls again: a history that is out of order is refused by every model.

Two programs that go on with one conversation at the same time store their messages as they come, between each other,
a damaged row can take a call or its result away, and an import brings what other programs wrote, such as roles that no
model knows. What is stored stays as it is; what is sent is put in order.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Numbered = tuple[int, Mapping[str, Any]]

ROLES = ("system", "developer", "user", "assistant", "tool")
_LOST = "[A call of a tool that has no result stood here.]"


def sound(stored: Iterable[Numbered]) -> list[Numbered]:
    """The messages with each group of results directly behind its calls; the same list when that is so already."""
    given = [(number, _sendable(message)) for number, message in stored if message["role"] in ROLES]
    if _is_sound([message for _, message in given]):
        return given
    last = max((at for at, (_, message) in enumerate(given) if message["role"] != "tool"), default=-1)
    placed: set[int] = set()
    arranged: list[Numbered] = []
    for at, (number, message) in enumerate(given):
        if message["role"] == "tool":
            continue  # it stands behind its call, or its call is lost
        results = _results(given, at, placed)
        placed.update(results.values())
        arranged.append((number, message if at == last else _answered(message, results)))
        arranged += [given[place] for place in results.values()]
    return arranged


def _is_sound(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether only the newest group of calls, which may still run, has no results."""
    waiting: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in waiting:
                return False
            waiting.remove(message["tool_call_id"])
        elif waiting:
            return False
        else:
            waiting = {call["id"] for call in message.get("tool_calls") or ()}
    return True


def _results(given: Sequence[Numbered], at: int, placed: set[int]) -> dict[str, int]:
    """Where the results of the calls of one message stand, by the ids of the calls and in their order."""
    wanted = [call["id"] for call in given[at][1].get("tool_calls") or ()]
    open_calls = set(wanted)
    found: dict[str, int] = {}
    for place in range(at + 1, len(given)):
        if not open_calls:
            break
        message = given[place][1]
        # Some models count their calls anew in each answer: a later call of the same id takes the results after it.
        open_calls -= {call["id"] for call in message.get("tool_calls") or ()}
        name = str(message.get("tool_call_id")) if message["role"] == "tool" else ""
        if name in open_calls and place not in placed:
            found[name] = place
            open_calls.remove(name)
    return {name: found[name] for name in wanted if name in found}


def _answered(message: Mapping[str, Any], results: Mapping[str, int]) -> Mapping[str, Any]:
    """The message without the calls that never got a result."""
    calls = message.get("tool_calls") or ()
    return _with_calls(message, [call for call in calls if call["id"] in results])


def _sendable(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message in words or parts, and without calls that lack what every model wants to see of one."""
    content, calls = message.get("content"), message.get("tool_calls") or ()
    in_parts = isinstance(content, list) and all(isinstance(part, dict) for part in content)
    if not (content is None or isinstance(content, str) or in_parts):
        message = {**message, "content": json.dumps(content, ensure_ascii=False)}
    return _with_calls(message, [call for call in calls if _is_call(call)])


def _is_call(given: Any) -> bool:
    function = given.get("function") if isinstance(given, dict) else None
    named = isinstance(function, dict) and isinstance(function.get("name"), str)
    return named and isinstance(given.get("id"), str)


def _with_calls(message: Mapping[str, Any], kept: list[Any]) -> Mapping[str, Any]:
    if len(kept) == len(message.get("tool_calls") or ()):
        return message
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**rest, "tool_calls": kept} if kept else {**rest, "content": message.get("content") or _LOST}
