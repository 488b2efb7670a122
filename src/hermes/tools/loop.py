"""The tool loop: asks the model, runs the tools it calls, and repeats until it calls none.

The agent, the background review and delegated tasks share it with different conversations and toolboxes. It stores
nothing itself: the conversation saves each message before the next step begins, so a process may be killed anywhere.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Protocol

from hermes.base.errors import ContextTooLong, Interrupted, ModelBusy, ModelError
from hermes.base.events import (
    Continuing,
    Finished,
    Notice,
    ReasoningDelta,
    Retrying,
    TextDelta,
    ToolCall,
    ToolReturned,
    TurnFinished,
    Usage,
)
from hermes.base.text import read_arguments, valid_arguments
from hermes.llm.client import NO_OPTIONS, with_options
from hermes.safety.fence import StreamingContextScrubber

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterator, Mapping

    from hermes.base.events import ModelEvent, TurnEvent
    from hermes.llm.client import Model

    class Conversation(Protocol):
        """The part of a `MemorySession` the loop uses; a request has `system`, `messages` and `tools`."""

        def request(self) -> Any: ...

        def record(self, message: Mapping[str, Any]) -> None: ...

        def call_tool(self, name: str, arguments: str, *, call_id: str, cut_off: bool = False) -> str: ...

    Fit = Callable[[Any, ContextTooLong | None], Any]
    from collections.abc import Sequence

_STOPPED = "[This call was not run: the turn was stopped.]"
_AT_LIMIT = "I stopped after {calls} model calls, the limit for one turn. Say “go on” to continue from here."
_CONTINUATIONS = 3  # of one answer; and so many answers in a row may be cut off inside a tool call
_GO_ON = (
    "[Your answer reached the output limit and was cut off. Continue it exactly where it stops: repeat nothing, begin "
    "with the next character, and do not mention this message.]"
)
_ONLY_THOUGHT = "{model} used up its output limit before it wrote any of its answer; allow it more, or less reasoning"
_NO_REST = "the answer reached the output limit, and asking for the rest failed: {error}"
_CUT_CALL = "{model} reached its output limit while it wrote a call of {name}; it was not run, and the model was told"
_CUT_CALLS = (
    "I stopped: {calls} times in a row a tool call of mine was longer than the output limit allows, so it was not run. "
    "Allow longer answers, or ask for it in smaller pieces."
)


def run_turn(
    model: Model,
    conversation: Conversation,
    *,
    fit: Fit = lambda request, _too_long: request,
    counted: Callable[[Usage], None] = lambda _usage: None,
    limit: int = 90,
    cancelled: Callable[[], bool] = lambda: False,
    outside: Collection[str] = (),
    options: Mapping[str, Any] = NO_OPTIONS,
) -> Iterator[TurnEvent]:
    """Runs one prepared turn and yields its events. The last is `TurnFinished`; the caller saves its reply.

    `counted` receives the usage of each model call before the answer is recorded. Functions in `outside` are run by
    somebody else: a call of one ends the turn with reason tool_calls, and a new turn continues with the results.
    `options` are passed to every model call; with `max_tokens` an answer that is cut off there is not continued.
    Stopping, by `cancelled`, by Ctrl-C or by closing the iterator, leaves a history that every model accepts.
    """
    turn = _Turn(model, conversation, fit=fit, counted=counted, limit=limit, cancelled=cancelled, options=options)
    try:
        while turn.calls < limit:
            answer = yield from turn.answer()
            if not answer.message.get("tool_calls"):
                yield turn.finished(answer.reason, answer=answer)
                return
            # Stored before its calls run, so that a crash leaves calls without results, which resuming completes.
            conversation.record(_with_text(answer.message, turn.text))
            said, turn.text = turn.text, ""  # the message with the text is stored now
            cut = _cut_call(answer)
            theirs = [call for call in answer.message["tool_calls"] if _name(call) in outside and call is not cut]
            ours = [call for call in answer.message["tool_calls"] if call not in theirs]
            yield from _run_calls(conversation, ours, cut, cancelled)
            if cut is not None:
                yield Notice(kind="model", text=_CUT_CALL.format(model=model.name, name=_name(cut)))
            if theirs:
                turn.text = said
                yield turn.finished("tool_calls", answer=answer, calls=[_readable(call) for call in theirs])
                return
            turn.cut_calls = turn.cut_calls + 1 if cut is not None else 0
            if turn.cut_calls > turn.continued:  # only with `max_tokens`, where nothing is continued
                turn.text = said
                yield turn.finished("length")
                return
            if turn.cut_calls == _CONTINUATIONS:
                turn.text = _CUT_CALLS.format(calls=turn.cut_calls)
                yield turn.finished("length")
                return
    except (Interrupted, KeyboardInterrupt):
        yield turn.finished("interrupted")
        return
    turn.text = _AT_LIMIT.format(calls=turn.calls)
    yield turn.finished("limit")


class _Turn:
    """A running turn: how the model is asked, the number of its calls, their usage, and text not stored yet."""

    def __init__(
        self,
        model: Model,
        conversation: Conversation,
        *,
        fit: Fit,
        counted: Callable[[Usage], None],
        limit: int,
        cancelled: Callable[[], bool],
        options: Mapping[str, Any],
    ) -> None:
        self._model, self._conversation, self._fit = model, conversation, fit
        self._counted, self._limit, self._cancelled, self._options = counted, limit, cancelled, options
        self.continued = 0 if "max_tokens" in options else _CONTINUATIONS
        self.usage, self.calls, self.text = Usage(), 0, ""
        self.cut_calls = 0  # answers in a row that the output limit ended inside a tool call

    def finished(
        self, reason: str, *, answer: Finished | None = None, calls: list[dict[str, Any]] | None = None
    ) -> TurnFinished:
        """The event that ends the turn, with the model's last message if there is one; others run `calls`."""
        message = answer.message if answer is not None else {}
        return TurnFinished(
            reply=self.text,
            usage=self.usage,
            model_calls=self.calls,
            model=answer.model if answer is not None else self._model.name,
            reason=reason,
            message={**message, "tool_calls": calls} if calls else message,
        )

    def answer(self) -> Generator[TurnEvent, None, Finished]:
        """Gets one whole answer: if the output limit cut it off, asks for the rest, a few times at most."""
        scrubber, number = StreamingContextScrubber(), 0
        written = self.text = ""
        answer = yield from self._call("", scrubber)
        while _is_cut_text(answer) and number < self.continued and self.calls < self._limit:
            number += 1
            written += _text_of(answer.message)
            yield Continuing(number=number, limit=_CONTINUATIONS, model=self._model.name)
            try:
                answer = yield from self._call(written, scrubber)
            except ModelError as error:  # keep the part that was written: it is an answer that ends early
                yield Notice(kind="model", text=_NO_REST.format(error=error))
                break
        if rest := scrubber.flush():
            self.text += rest
            yield TextDelta(text=rest)
        if answer.reason == "length" and not self.text and not answer.message.get("tool_calls"):
            yield Notice(kind="model", text=_ONLY_THOUGHT.format(model=self._model.name))
        return replace(answer, message=_with_text(answer.message, self.text)) if number else answer

    def _call(self, written: str, scrubber: StreamingContextScrubber) -> Generator[TurnEvent, None, Finished]:
        """Makes one model call: passes its visible events on and returns its last one, with the whole message."""
        self.calls, before, answer = self.calls + 1, self.text, None
        for event in _visible(self._ask(written), scrubber):
            if isinstance(event, Finished):
                answer = event
                continue
            if isinstance(event, TextDelta):
                self.text += event.text
            elif isinstance(event, Retrying):
                self.text = before
            elif isinstance(event, ReasoningDelta) and written:
                continue  # the person is reading the answer; thoughts in the middle of it would confuse
            yield event
        if answer is None:
            raise ModelBusy(f"{self._model.name} ended without finishing its answer (try again)")
        self.usage += answer.usage
        self._counted(answer.usage)
        return answer

    def _ask(self, written: str) -> Iterator[ModelEvent]:
        """Asks once, or for the rest of an answer; a request that is too long gets one chance to be shortened."""
        sent = self._fit(self._conversation.request(), None)
        try:
            yield from self._stream(sent, written)
        except ContextTooLong as error:
            shorter = self._fit(self._conversation.request(), error)
            if shorter.messages == sent.messages:
                raise
            yield Retrying(error=error, seconds=0, model=self._model.name)
            yield from self._stream(shorter, written)

    def _stream(self, sent: Any, written: str) -> Iterator[ModelEvent]:
        # These two messages are in this request only: the conversation stores the joined answer as one message.
        rest = [{"role": "assistant", "content": written}, {"role": "user", "content": _GO_ON}] if written else []
        announced = getattr(sent, "announcements", None) if getattr(self._model, "takes_announcements", False) else None
        options = {**self._options, "announcements": announced} if announced else self._options
        return self._model.stream(
            sent.system, [*sent.messages, *rest], sent.tools, cancelled=self._cancelled, **with_options(options)
        )


def _is_cut_text(answer: Finished) -> bool:
    """Whether the output limit cut off an answer of text, so that its rest can be asked for."""
    message = answer.message
    return answer.reason == "length" and not message.get("tool_calls") and bool(_text_of(message).strip())


def _cut_call(answer: Finished) -> dict[str, Any] | None:
    """The call that the output limit cut off: the last one, unless its arguments are complete."""
    if answer.reason != "length":
        return None
    last: dict[str, Any] = answer.message["tool_calls"][-1]
    arguments, wrong = read_arguments(last["function"]["arguments"])
    return last if wrong or not arguments else None  # no arguments at all: cut off right after the name


def _name(call: Mapping[str, Any]) -> str:
    return str(call["function"]["name"])


def _readable(call: Mapping[str, Any]) -> dict[str, Any]:
    """The call with arguments that are valid JSON, as clients expect them."""
    function = call["function"]
    return {**call, "function": {**function, "arguments": valid_arguments(function["arguments"])}}


def _visible(events: Iterator[ModelEvent], scrubber: StreamingContextScrubber) -> Iterator[ModelEvent]:
    """Hides fences and recalled memory that a model repeats; shows the text of one that does not stream at the end."""
    streams = False
    for event in events:
        if isinstance(event, TextDelta):
            streams = True
            if shown := scrubber.feed(event.text):
                yield TextDelta(text=shown)
            continue
        if isinstance(event, Retrying):
            scrubber.reset()
            streams = False
        elif isinstance(event, Finished) and not streams and (said := scrubber.feed(_text_of(event.message))):
            yield TextDelta(text=said)
        yield event


def _with_text(message: dict[str, Any], text: str) -> dict[str, Any]:
    """The message as it may be stored: without what was hidden from the person."""
    return message if _text_of(message) == text else {**message, "content": text or None}


def _text_of(message: Mapping[str, Any]) -> str:
    written = message.get("content") or ""
    return written if isinstance(written, str) else "".join(part["text"] for part in written)


def _run_calls(
    conversation: Conversation,
    calls: list[dict[str, Any]],
    cut: dict[str, Any] | None,
    cancelled: Callable[[], bool],
) -> Iterator[ToolReturned]:
    """Runs the calls one after the other; when stopped, gives those without a result one that says so."""
    try:
        for each in calls:
            _stop_if(cancelled)
            name, written = _name(each), each["function"]["arguments"]
            result = conversation.call_tool(name, written, call_id=each["id"], cut_off=each is cut)
            yield ToolReturned(
                call=ToolCall(id=each["id"], name=name, arguments=valid_arguments(written)), result=result
            )
    except BaseException:  # also when the iterator is closed: model APIs refuse a call without a result
        results = takewhile(lambda message: message["role"] == "tool", reversed(conversation.request().messages))
        answered = {message["tool_call_id"] for message in results}
        for call_id in (each["id"] for each in calls if each["id"] not in answered):
            conversation.record({"role": "tool", "tool_call_id": call_id, "content": _STOPPED})
        raise


def _stop_if(cancelled: Callable[[], bool]) -> None:
    if cancelled():
        raise Interrupted("stopped between two tool calls")


# Functions that somebody else runs: a client of the server offers them with its request and gets the model's calls.
#
# The session's own tools come first and unchanged; a function with the name of one of them replaces it.


class OutsideFunctions:
    """A conversation whose requests also offer functions of a client, in OpenAI's format; for `run_turn`."""

    def __init__(self, conversation: Conversation, functions: Sequence[Mapping[str, Any]], fit: Fit) -> None:
        self._conversation = conversation
        self._functions = [dict(each) for each in functions]
        self._fit = fit
        self.names = frozenset(each["function"]["name"] for each in self._functions)

    def request(self) -> Any:
        """As the conversation's own request, with the functions behind the tools."""
        return self._extended(self._conversation.request())

    def fit(self, _request: Any, too_long: ContextTooLong | None) -> Any:
        """As the session's own `fit`, with the functions added to what it returns."""
        return self._extended(self._fit(self._conversation.request(), too_long))

    def record(self, message: Mapping[str, Any]) -> None:
        """Passes a message on to the conversation."""
        self._conversation.record(message)

    def call_tool(self, name: str, arguments: str, *, call_id: str, cut_off: bool = False) -> str:
        """Passes a call of one of our own tools on; the loop never calls a function of the client."""
        return self._conversation.call_tool(name, arguments, call_id=call_id, cut_off=cut_off)

    def _extended(self, request: Any) -> Any:
        own = [tool for tool in request.tools if tool["function"]["name"] not in self.names]
        return replace(request, tools=[*own, *self._functions])
