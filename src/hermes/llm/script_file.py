"""A scripted model from a file, so that a whole process can run without a key or a network.

The file holds a JSON list of steps. A text is an answer; an object may have `text`, `reasoning`, `calls` (each with
`name` and `arguments`), `error` (the call fails with it), `pause` (seconds between two pieces) and `when`. Steps
without `when` are taken once each, in order. A step with `when` answers every time the newest message holds that text.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from hermes.llm.scripted import Reply, Scripted
from hermes.vocabulary.errors import ModelRefused, SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hermes.llm.client import Message
    from hermes.llm.scripted import Step

_FIELDS = {"text", "reasoning", "calls", "error", "pause", "when"}


class ScriptFile(Scripted):
    """Takes a step with `when` that fits, else the next one of the others."""

    def __init__(self, path: str, *, context_length: int | None = None) -> None:
        super().__init__([], name=f"scripted ({os.path.basename(path)})")
        if context_length:
            self.context_length = context_length
        read = _read(path)
        self._rules = [(step["when"], _step(step)) for step in read if "when" in step]
        self._row = iter([_step(step) for step in read if "when" not in step])

    def step(self, number: int, messages: Sequence[Message]) -> Step:
        newest = _text_of(messages[-1]) if messages else ""
        for text, step in self._rules:
            if text in newest:
                return step
        following = next(self._row, None)
        if following is None:
            raise ModelRefused(f"the script has no step for call {number + 1} ({newest[:60]!r}): add one")
        return following


def _read(path: str) -> list[dict[str, Any]]:
    try:
        with open(path, encoding="utf-8") as file:
            steps = json.load(file)
    except FileNotFoundError as error:
        raise SettingsError(f"there is no script {path!r}; name a JSON file with a list of steps") from error
    except (OSError, ValueError) as error:
        raise SettingsError(f"the script {path!r} cannot be read: {error}") from error
    if not isinstance(steps, list):
        raise SettingsError(f"{path}: expected a JSON list of steps, found {type(steps).__name__}")
    return [_checked(path, number, step) for number, step in enumerate(steps, start=1)]


def _checked(path: str, number: int, step: Any) -> dict[str, Any]:
    if isinstance(step, str):
        return {"text": step}
    if not isinstance(step, dict) or not step.keys() <= _FIELDS:
        raise SettingsError(f"{path}: step {number} must be a text or an object with {', '.join(sorted(_FIELDS))}")
    return step


def _step(step: Mapping[str, Any]) -> Step:
    if "error" in step:
        return ModelRefused(str(step["error"]))
    calls = [(str(call["name"]), call.get("arguments", {})) for call in step.get("calls", ())]
    return Reply(
        text=str(step.get("text", "")),
        reasoning=str(step.get("reasoning", "")),
        calls=calls,
        pause=float(step.get("pause", 0)),
    )


def _text_of(message: Message) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else " ".join(str(part.get("text", "")) for part in content)
