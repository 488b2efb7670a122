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
    def of(cls, given: Usage | Mapping[str, int]) -> Usage:
        return given if isinstance(given, Usage) else cls(**given)

    @property
    def cached_share(self) -> float:
        return self.cache_read_tokens / self.input_tokens if self.input_tokens else 0.0

    def __add__(self, other: Usage) -> Usage:
        mine, theirs = asdict(self), asdict(other)
        return Usage(**{field: mine[field] + theirs[field] for field in mine})

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
