"""Finds tool calls in what a small model writes: bare JSON, in a code fence or between tags, and nothing else.

The server could look for calls itself, but it answers with an error when a small model writes half of one; here such an
answer stays what it is, a text.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from hermes.llm.answer import Answer
from hermes.vocabulary.events import Finished, TextDelta

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from hermes.vocabulary.events import ModelEvent

_OPENINGS = ("{", "```json", "```\n{", "<tool_call>")
_WRAPPING = re.compile(r"^(?:```(?:json)?|<tool_call>)\s*|\s*(?:```|</tool_call>)$")


def with_calls(events: Iterator[ModelEvent], known: Collection[str]) -> Iterator[ModelEvent]:
    """The events of an answer, with calls of known tools as calls; text is held back only while it may be one."""
    held: str | None = ""
    for event in events:
        if isinstance(event, TextDelta) and held is not None:
            held += event.text
            if not _may_be_a_call(held.lstrip()):
                yield TextDelta(text=held)
                held = None
        elif isinstance(event, Finished) and held:
            yield from _ended(held, event, known)
        else:
            yield event


def _ended(text: str, end: Finished, known: Collection[str]) -> Iterator[ModelEvent]:
    calls = find_calls(text, known)
    if not calls:
        yield TextDelta(text=text)
        yield end
        return
    answer = Answer(end.model)
    answer.usage, answer.reason = end.usage, "tool_calls"
    for place, (name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
        yield from answer.call({"index": place, "function": function})
    yield from answer.finish()


def find_calls(text: str, known: Collection[str]) -> list[tuple[str, dict[str, Any]]]:
    """The calls a text consists of; none when anything else stands in it, or a tool nobody has."""
    rest = _WRAPPING.sub("", text.strip())
    found: list[tuple[str, dict[str, Any]]] = []
    while rest:
        try:
            call, end = json.JSONDecoder().raw_decode(rest)
        except (ValueError, RecursionError):
            return []
        if not isinstance(call, dict) or call.get("name") not in known:
            return []
        arguments = call.get("arguments", call.get("parameters", {}))
        if not isinstance(arguments, dict):
            return []
        found.append((call["name"], arguments))
        rest = _WRAPPING.sub("", rest[end:].strip(" \n,;"))
    return found


def _may_be_a_call(text: str) -> bool:
    return any(text.startswith(opening) or opening.startswith(text) for opening in _OPENINGS)
