"""A model that follows a script: for tests, for the demo, and for trying things without a key or a network.

    model = Scripted([Reply(calls=[("memory", {"action": "add", …})]), "Noted."])

Each call of `stream` takes the next step: a text, a `Reply`, an error to raise, or a function that looks at the
messages and returns one of these. What was sent is kept in `requests`.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from hermes.base.errors import Interrupted, ModelError, ModelRefused, SettingsError
from hermes.base.events import Usage
from hermes.base.tokens import estimate
from hermes.llm.client import Answer, OwnModel
from hermes.storage.images import words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hermes.base.events import ModelEvent
    from hermes.llm.client import Message, Request

    Step: TypeAlias = "str | Reply | ModelError"
    Choice: TypeAlias = Callable[[Sequence[Message]], Step]
    from collections.abc import Mapping

_PIECE = 12  # characters of one delta


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer of a script. A call is a name with its arguments, as an object or as the text a model would write."""

    text: str = ""
    reasoning: str = ""
    calls: Sequence[tuple[str, dict[str, Any] | str]] = ()
    usage: Usage | None = None  # otherwise estimated from the texts
    reason: str = "stop"
    pause: float = 0  # seconds between two pieces, so that a test can stop the answer in the middle
    fails: ModelError | None = None  # raised after everything was streamed, as when a connection breaks


@dataclass(slots=True)
class Scripted(OwnModel):
    """A model that answers from a script, for demos and tests."""

    steps: Sequence[Step | Choice]
    name: str = "scripted"
    context_length: int = 32_768
    requests: list[Request] = field(default_factory=list)

    def answer(self, request: Request) -> Iterator[ModelEvent]:
        """Takes the next step and streams it in small pieces, as a model over the network does."""
        if request.cancelled():
            raise Interrupted("stopped before the model was asked")
        number = len(self.requests)
        self.requests.append(replace(request, messages=list(request.messages), tools=list(request.tools)))
        step = self.step(number, request.messages)
        if isinstance(step, ModelError):
            raise step
        reply = Reply(text=step) if isinstance(step, str) else step
        for event in self._events(number, reply, request):
            if request.cancelled():
                raise Interrupted("stopped while the model was answering")
            yield event
            time.sleep(reply.pause)

    def step(self, number: int, messages: Sequence[Message]) -> Step:
        """The step that answers call number `number`, counted from 0; ModelRefused once the script has ended."""
        if number >= len(self.steps):
            raise ModelRefused(f"the script has {len(self.steps)} steps and this is call {number + 1}: add a step")
        step = self.steps[number]
        return step if isinstance(step, str | Reply | ModelError) else step(messages)

    def _events(self, number: int, reply: Reply, request: Request) -> Iterator[ModelEvent]:
        answer = Answer(self.name)
        for piece in _pieces(reply.reasoning):
            yield answer.think(piece)
        for piece in _pieces(reply.text):
            yield answer.write(piece)
        for place, (name, arguments) in enumerate(reply.calls):
            text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            call_id = f"call_{number + 1}_{place + 1}"
            yield from answer.call({"index": place, "id": call_id, "function": {"name": name, "arguments": text}})
        if reply.fails is not None:
            raise reply.fails
        answer.reason = reply.reason
        sent = [request.system, *(words_of(each.get("content")) for each in request.messages)]
        answer.usage = reply.usage or Usage(
            input_tokens=sum(map(estimate, sent)), output_tokens=estimate(reply.text) + estimate(reply.reasoning)
        )
        yield from answer.finish()


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))


# A scripted model from a file, so that a whole process can run without a key or a network.
#
# The file holds a JSON list of steps. A text is an answer; an object may have `text`, `reasoning`, `calls` (each with
# `name` and `arguments`), `error` (the call fails with it), `pause` (seconds between two pieces) and `when`. Steps
# without `when` are taken once each, in order. A step with `when` answers every time the newest message holds that
# text.

_FIELDS = {"text", "reasoning", "calls", "error", "pause", "when"}


class ScriptFile(Scripted):
    """A scripted model whose steps come from a JSON file; one whose `when` fits goes before the next in order."""

    def __init__(self, path: str, *, context_length: int | None = None) -> None:
        super().__init__([], name=f"scripted ({os.path.basename(path)})")
        if context_length:
            self.context_length = context_length
        read = _read(path)
        self._rules = [(step["when"], _step(step)) for step in read if "when" in step]
        self._row = iter([_step(step) for step in read if "when" not in step])

    def step(self, number: int, messages: Sequence[Message]) -> Step:
        """The first step whose `when` is in the newest message, else the next one without `when`."""
        newest = words_of(messages[-1].get("content")) if messages else ""
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
    calls = step.get("calls", [])
    if not isinstance(calls, list) or not all(isinstance(call, dict) and "name" in call for call in calls):
        raise SettingsError(f'{path}: step {number}: expected calls as a list of {{"name": …, "arguments": {{…}}}}')
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
