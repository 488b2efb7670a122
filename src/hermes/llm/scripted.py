"""A model that follows a script: for tests, for the demo, and for trying things out without a key or a network.

    model = Scripted([Reply(calls=[("memory", {"action": "add", …})]), "Noted."])

Each call of `stream` takes the next step: a text, a `Reply`, an error to raise, or a function that looks at the
messages and returns one of these. What was sent is kept in `requests`.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from hermes.llm.answer import Answer
from hermes.llm.client import never
from hermes.storage.images import words_of
from hermes.vocabulary.errors import Interrupted, ModelError, ModelRefused
from hermes.vocabulary.tokens import estimate
from hermes.vocabulary.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hermes.llm.client import Message
    from hermes.vocabulary.events import ModelEvent

    Step: TypeAlias = "str | Reply | ModelError"
    Choice: TypeAlias = Callable[[Sequence[Message]], Step]

_PIECE = 12  # characters of one delta


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer. A call is a name with its arguments, as an object or as the text a model would write."""

    text: str = ""
    reasoning: str = ""
    calls: Sequence[tuple[str, dict[str, Any] | str]] = ()
    usage: Usage | None = None  # otherwise estimated from the texts
    reason: str = "stop"
    pause: float = 0  # seconds between two pieces, for those who want to stop it in the middle
    fails: ModelError | None = None  # raised after everything was streamed, as when a connection breaks


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    system: str
    messages: list[Message]
    tools: list[Message]


@dataclass(slots=True)
class Scripted:
    steps: Sequence[Step | Choice]
    name: str = "scripted"
    context_length: int = 32_768
    requests: list[Sent] = field(default_factory=list)

    def stream(
        self,
        system: str,
        messages: Sequence[Message],
        tools: Sequence[Message] = (),
        *,
        cancelled: Callable[[], bool] = never,
    ) -> Iterator[ModelEvent]:
        if cancelled():
            raise Interrupted("stopped before the model was asked")
        number = len(self.requests)
        self.requests.append(Sent(system=system, messages=list(messages), tools=list(tools)))
        step = self.step(number, messages)
        if isinstance(step, ModelError):
            raise step
        reply = Reply(text=step) if isinstance(step, str) else step
        for event in self._events(number, reply, system, messages):
            if cancelled():
                raise Interrupted("stopped while the model was answering")
            yield event
            time.sleep(reply.pause)

    def step(self, number: int, messages: Sequence[Message]) -> Step:
        """What call number `number`, counted from 0, is answered with."""
        if number >= len(self.steps):
            raise ModelRefused(f"the script has {len(self.steps)} steps and this is call {number + 1}: add a step")
        step = self.steps[number]
        return step if isinstance(step, str | Reply | ModelError) else step(messages)

    def _events(self, number: int, reply: Reply, system: str, messages: Sequence[Message]) -> Iterator[ModelEvent]:
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
        answer.usage = reply.usage or _estimated(reply, system, messages)
        yield from answer.finish()


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))


def _estimated(reply: Reply, system: str, messages: Sequence[Message]) -> Usage:
    sent = estimate(system) + sum(estimate(words_of(message.get("content"))) for message in messages)
    return Usage(input_tokens=sent, output_tokens=estimate(reply.text) + estimate(reply.reasoning))
