"""Why a provider's cache served so little of a prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes.vocabulary.usage import Usage

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
