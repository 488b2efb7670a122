"""The one loop: asks the model, runs the tools it calls, and again, until nothing is left to call.

The agent, the background review and delegated tasks share it with different conversations and toolboxes. It stores
nothing itself: the conversation saves each message before the next step begins, so a process may be killed anywhere.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any, Protocol

from hermes.safety.fence import StreamingContextScrubber
from hermes.vocabulary.errors import ContextTooLong, Interrupted, ModelBusy
from hermes.vocabulary.events import Finished, Retrying, TextDelta, ToolCall, ToolReturned, TurnFinished
from hermes.vocabulary.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterator, Mapping

    from hermes.llm.client import Model
    from hermes.vocabulary.events import ModelEvent, TurnEvent

    class Conversation(Protocol):
        """What the loop needs of a `MemorySession`; a request has `system`, `messages` and `tools`."""

        def request(self) -> Any: ...
        def record(self, message: Mapping[str, Any]) -> None: ...
        def call_tool(self, name: str, arguments: str, *, call_id: str) -> str: ...

    # Returns the request to send, compacted when it must be; the error says that the one before did not fit.
    Fit = Callable[[Any, ContextTooLong | None], Any]

_STOPPED = "[This call was not run: the turn was stopped.]"
_AT_LIMIT = "I stopped after {calls} model calls, the limit for one turn. Say “go on” to continue from here."


def run_turn(
    model: Model,
    conversation: Conversation,
    *,
    fit: Fit = lambda request, _too_long: request,
    counted: Callable[[Usage], None] = lambda _usage: None,
    limit: int = 90,
    cancelled: Callable[[], bool] = lambda: False,
    outside: Collection[str] = (),
) -> Iterator[TurnEvent]:
    """Runs one prepared turn. The last event is `TurnFinished`; its reply is for the caller to save.

    `counted` is told what the provider counted for each call, before the answer is recorded. A call of a function in
    `outside` is for somebody else to run: the turn ends with reason tool_calls and goes on when the results are there.
    Stopping, by `cancelled`, by Ctrl-C or by closing the iterator, leaves a history that every model accepts.
    """
    so_far = _SoFar(model.name)
    try:
        while so_far.calls < limit:
            answer = yield from _answer(model, _ask(model, conversation, fit, cancelled), so_far)
            counted(answer.usage)
            if not answer.message.get("tool_calls"):
                yield so_far.finished(answer.reason, answer=answer)
                return
            conversation.record(_with_text(answer.message, so_far.text))
            said, so_far.text = so_far.text, ""  # it is saved
            yield from _run_calls(conversation, _calls(answer, outside, run_here=True), cancelled)
            if theirs := _calls(answer, outside, run_here=False):
                so_far.text = said
                yield so_far.finished("tool_calls", answer=answer, calls=theirs)
                return
    except (Interrupted, KeyboardInterrupt):
        yield so_far.finished("interrupted")
        return
    so_far.text = _AT_LIMIT.format(calls=so_far.calls)
    yield so_far.finished("limit")


class _SoFar:
    """What a turn has come to: its model calls, what they took, and the text that nothing has saved yet."""

    def __init__(self, model: str) -> None:
        self._model = model
        self.usage, self.calls, self.text = Usage(), 0, ""

    def finished(
        self, reason: str, *, answer: Finished | None = None, calls: list[dict[str, Any]] | None = None
    ) -> TurnFinished:
        """The end of the turn, with the model's last message when it came to one; `calls` are for others to run."""
        message = answer.message if answer is not None else {}
        return TurnFinished(
            reply=self.text,
            usage=self.usage,
            model_calls=self.calls,
            model=answer.model if answer is not None else self._model,
            reason=reason,
            message={**message, "tool_calls": calls} if calls else message,
        )


def _answer(model: Model, events: Iterator[ModelEvent], so_far: _SoFar) -> Generator[TurnEvent, None, Finished]:
    """Passes on what comes of one model call, and returns its answer."""
    so_far.calls, so_far.text, answer = so_far.calls + 1, "", None
    for event in events:
        if isinstance(event, Finished):
            answer = event
            continue
        if isinstance(event, TextDelta):
            so_far.text += event.text
        elif isinstance(event, Retrying):
            so_far.text = ""
        yield event
    if answer is None:
        raise ModelBusy(f"{model.name} ended without finishing its answer (try again)")
    so_far.usage += answer.usage
    return answer


def _calls(answer: Finished, outside: Collection[str], *, run_here: bool) -> list[dict[str, Any]]:
    return [call for call in answer.message["tool_calls"] if (call["function"]["name"] not in outside) == run_here]


def _ask(model: Model, conversation: Conversation, fit: Fit, cancelled: Callable[[], bool]) -> Iterator[ModelEvent]:
    """One model call; when the conversation turns out to be too long, `fit` gets one chance to shorten it."""
    sent = fit(conversation.request(), None)
    try:
        yield from _visible(model.stream(sent.system, sent.messages, sent.tools, cancelled=cancelled))
    except ContextTooLong as error:
        shorter = fit(conversation.request(), error)
        if shorter.messages == sent.messages:
            raise
        yield Retrying(error=error, seconds=0, model=model.name)
        yield from _visible(model.stream(shorter.system, shorter.messages, shorter.tools, cancelled=cancelled))


def _visible(events: Iterator[ModelEvent]) -> Iterator[ModelEvent]:
    """Hides what a model repeats of recalled memory and its fence; one that does not stream says all at the end."""
    scrubber, streams = StreamingContextScrubber(), False
    for event in events:
        if isinstance(event, TextDelta):
            streams = True
            if shown := scrubber.feed(event.text):
                yield TextDelta(text=shown)
            continue
        if isinstance(event, Retrying):
            scrubber.reset()
            streams = False
        elif isinstance(event, Finished):
            said = "" if streams else scrubber.feed(_text_of(event.message))
            if rest := said + scrubber.flush():
                yield TextDelta(text=rest)
        yield event


def _with_text(message: dict[str, Any], text: str) -> dict[str, Any]:
    """The message as it may be kept: when something was hidden from the person, it is not stored either."""
    return message if _text_of(message) == text else {**message, "content": text or None}


def _text_of(message: Mapping[str, Any]) -> str:
    written = message.get("content") or ""
    return written if isinstance(written, str) else "".join(part["text"] for part in written)


def _run_calls(
    conversation: Conversation, calls: list[dict[str, Any]], cancelled: Callable[[], bool]
) -> Iterator[ToolReturned]:
    try:
        for each in calls:
            _stop_if(cancelled)
            call = ToolCall(id=each["id"], name=each["function"]["name"], arguments=each["function"]["arguments"])
            yield ToolReturned(call=call, result=conversation.call_tool(call.name, call.arguments, call_id=call.id))
    except BaseException:  # also when the iterator is closed: no call may stay without a result
        results = takewhile(lambda message: message["role"] == "tool", reversed(conversation.request().messages))
        answered = {message["tool_call_id"] for message in results}
        for call_id in (each["id"] for each in calls if each["id"] not in answered):
            conversation.record({"role": "tool", "tool_call_id": call_id, "content": _STOPPED})
        raise


def _stop_if(cancelled: Callable[[], bool]) -> None:
    if cancelled():
        raise Interrupted("stopped between two tool calls")
