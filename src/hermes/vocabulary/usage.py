"""Tokens of one model call, counted the same way for every provider, and the share that came from the cache."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """`input_tokens` are all tokens of the prompt, those read from the cache included."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    @classmethod
    def of(cls, given: Usage | Mapping[str, Any]) -> Usage:
        """From these names, or what an API of OpenAI or Anthropic returned, as a mapping or an object of its SDK."""
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
        """Chat completions and responses, which have other names for the same."""
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
        return self.cache_read_tokens / self.input_tokens if self.input_tokens else 0.0

    def __add__(self, other: Usage) -> Usage:
        mine, theirs = asdict(self), asdict(other)
        return Usage(**{field: mine[field] + theirs[field] for field in mine})

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
