"""What happens while a model answers: the only channel from models and the loop to whoever shows or stores it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.vocabulary.errors import ModelError
    from hermes.vocabulary.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """A piece of the answer, to be shown at once."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningDelta:
    """A piece of what the model thinks before it answers."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallStarted:
    """The model has begun to write a call; its arguments are still coming."""

    id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A complete call; `arguments` is the JSON text the model wrote, not yet checked."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrying:
    """The call starts over after `seconds`, at `model`: what it has streamed so far is void.

    `retry` of `retries` says how often that happened; 0 when it is no repetition of the same request.
    """

    error: ModelError
    seconds: float
    model: str
    retry: int = 0
    retries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The whole answer of one model call as an OpenAI-format message, with the reasoning the model wants back.

    `reason` is stop, tool_calls, length or content_filter.
    """

    message: dict[str, Any]
    usage: Usage
    reason: str
    model: str


ModelEvent = TextDelta | ReasoningDelta | ToolCallStarted | ToolCall | Retrying | Finished


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReturned:
    """A call was carried out; `result` is what the model sees of it."""

    call: ToolCall
    result: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuing:
    """The answer reached the output limit, and the model is asked for the rest; what was streamed so far stays.

    A `Retrying` after it makes only that void which was streamed since.
    """

    number: int  # 1 for the first continuation of this answer
    limit: int  # how often an answer is continued at most
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFinished:
    """The last event of a turn. `reason` is that of the last model call, or limit, or interrupted."""

    reply: str
    usage: Usage
    reason: str
    model: str = ""
    model_calls: int = 0
    message: dict[str, Any] = field(default_factory=dict)  # the last model message as a whole, reasoning included


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One line for the person, never for the model: a provider degraded, a review saved something."""

    kind: str  # settings, model, memory, context, compaction, provider, review, curation, session
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """Messages left the context, and one block stands for them; all of them can be read again."""

    session_id: str  # where the conversation goes on
    parent_session_id: str  # the session that ended; the same one when it was compacted in place
    why: str  # threshold, hygiene, too long, asked, model
    how: str  # who summarised: helper, main, "helper in 3 pieces", extract, or the name of another engine
    messages: int  # that were taken out
    kept_exactly: int  # details that stand in the block word for word
    tokens_before: int
    tokens_after: int
    failures: tuple[str, ...] = ()  # what was tried before


TurnEvent = (
    TextDelta
    | ReasoningDelta
    | ToolCallStarted
    | ToolCall
    | Retrying
    | ToolReturned
    | Continuing
    | Notice
    | Compacted
    | TurnFinished
)
