"""Tokens of one model call, counted the same way for every provider, and the share that came from the cache."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

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
    def of(cls, given: Usage | Mapping[str, int] | None) -> Self | Usage | None:
        if given is None or isinstance(given, Usage):
            return given
        return cls(**given)

    @property
    def cached_share(self) -> float:
        return self.cache_read_tokens / self.input_tokens if self.input_tokens else 0.0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


_LIFETIMES = {"5m": 300, "1h": 3600}
_GOOD_SHARE = 0.5


def what_broke_the_cache(usage: Usage, *, first: bool, idle_seconds: float, ttl: str, same_model: bool) -> str:
    """Why so little of the prompt came from the cache; empty when enough did."""
    if usage.cached_share >= _GOOD_SHARE or not usage.input_tokens:
        return ""
    if first:
        return "the first turn of a session fills the cache"
    if not same_model:
        return "the model changed"
    if idle_seconds > _LIFETIMES[ttl]:
        return f"the pause was longer than the cache lives ({ttl})"
    return "the prefix did not move; the provider did not keep it"
