"""What happens while a model answers, as events for the code that shows or stores it; and findings of a check."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes.base.errors import ModelError


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The tokens of one or more model calls; `input_tokens` includes those read from the cache."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    @classmethod
    def of(cls, given: Usage | Mapping[str, Any]) -> Usage:
        """Reads these field names, or the usage of an OpenAI or Anthropic API as a mapping or SDK object."""
        if isinstance(given, Usage):
            return given
        named: Mapping[str, Any] = dump() if (dump := getattr(given, "model_dump", None)) else given
        if "prompt_tokens" in named or "input_tokens_details" in named:
            return cls.of_openai(named)
        if "cache_read_input_tokens" in named or "cache_creation_input_tokens" in named:
            return cls.of_anthropic(named)
        known = cls.__dataclass_fields__
        if not set(named) <= set(known):
            raise ValueError(
                f"usage has {', '.join(map(str, named))}; expected is what the API of OpenAI or Anthropic returned, or "
                + ", ".join(known)
            )
        return cls(**{name: count or 0 for name, count in named.items()})

    @classmethod
    def of_openai(cls, told: Mapping[str, Any]) -> Usage:
        """Reads the usage of chat completions and responses, which name the same counts differently."""
        sent = told.get("prompt_tokens_details") or told.get("input_tokens_details") or {}
        written = told.get("completion_tokens_details") or told.get("output_tokens_details") or {}
        return cls(
            input_tokens=told.get("prompt_tokens") or told.get("input_tokens") or 0,
            output_tokens=told.get("completion_tokens") or told.get("output_tokens") or 0,
            cache_read_tokens=sent.get("cached_tokens") or told.get("prompt_cache_hit_tokens") or 0,
            cache_write_tokens=sent.get("cache_write_tokens") or 0,
            reasoning_tokens=written.get("reasoning_tokens") or 0,
        )

    @classmethod
    def of_anthropic(cls, told: Mapping[str, Any]) -> Usage:
        """Reads the usage of the Messages API."""
        read, written = told.get("cache_read_input_tokens") or 0, told.get("cache_creation_input_tokens") or 0
        return cls(
            input_tokens=(told.get("input_tokens") or 0) + read + written,  # Anthropic counts the cached ones apart
            output_tokens=told.get("output_tokens") or 0,
            cache_read_tokens=read,
            cache_write_tokens=written,
            reasoning_tokens=(told.get("output_tokens_details") or {}).get("thinking_tokens") or 0,
        )

    @property
    def cached_share(self) -> float:
        """The share of the prompt that was read from the cache, from 0 to 1."""
        return self.cache_read_tokens / self.input_tokens if self.input_tokens else 0.0

    def __add__(self, other: Usage) -> Usage:
        mine, theirs = self.as_dict(), other.as_dict()
        return Usage(**{field: mine[field] + theirs[field] for field in mine})

    def as_dict(self) -> dict[str, Any]:
        """The counts by field name, for receipts and JSON."""
        return {field: getattr(self, field) for field in self.__slots__}  # `asdict` copies, and costs ten times as much


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """A piece of the answer, to be shown at once."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningDelta:
    """A piece of the reasoning a model streams before its answer."""

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

    This is retry number `retry` of `retries`; 0 when the new request differs from the failed one.
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

    A later `Retrying` voids only what was streamed after this event.
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

    kind: str  # settings, model, memory, context, compaction, provider, review, curation, session, pending
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """One block has replaced messages in the context; all of them can still be read."""

    session_id: str  # the session in which the conversation continues
    parent_session_id: str  # the session that ended; the same one when it was compacted in place
    why: str  # threshold, hygiene, too long, asked, model
    how: str  # who summarised: helper, main, "helper in 3 pieces", extract, or the name of another engine
    messages: int  # that were taken out
    kept_exactly: int  # details that the block contains word for word
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


# The states of a check, from harmless to serious.

OK, WARNING, PROBLEM = "ok", "warning", "problem"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of `hermes doctor`: what was tested, what was found, what to do."""

    name: str
    state: str
    found: str
    remedy: str = ""
    fixed: bool = field(default=False, kw_only=True)

    def as_json(self) -> dict[str, Any]:
        """The check as JSON fields."""
        return asdict(self)
