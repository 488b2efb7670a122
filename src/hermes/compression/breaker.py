"""Keeps compaction from thrashing: a small value that can be stored with a session and survives restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.vocabulary.values import value

if TYPE_CHECKING:
    from collections.abc import Mapping

TRIPS_AFTER = 2  # compactions in a row after which the prompt was still too large
TRANSIENT = (60.0, 300.0, 900.0)  # seconds without the model after the first, second and further failure
OTHER = 60.0
REGROWTH = 0.10  # of the window: when the prompt grew by that much, another try may pay


@value
class Breaker:
    """How compaction has fared. Nothing but a prompt below the threshold clears it: no end of a session, no restart."""

    ineffective: int = 0
    waiting: bool = False  # a compaction happened and no real prompt size has been seen since
    tokens: int = 0  # the prompt size at which the last ineffective compaction was noticed
    helper_failures: int = 0
    helper_until: float = 0.0  # seconds since the epoch
    main_failures: int = 0
    main_until: float = 0.0
    error: str = ""

    def blocks(self, prompt_tokens: int, context_length: int) -> bool:
        """Whether compaction by itself would only thrash now; a person may still ask for it."""
        return self.ineffective >= TRIPS_AFTER and prompt_tokens < self.tokens + context_length * REGROWTH

    def may_ask(self, who: str, now: float) -> bool:
        until = self.helper_until if who == "helper" else self.main_until
        return not now < until <= now + TRANSIENT[-1]  # further ahead: the clock was wrong when it was stored

    def compacted(self) -> Breaker:
        return self._with(waiting=True)

    def could_not_compact(self, prompt_tokens: int) -> Breaker:
        """A pass found nothing worth taking out."""
        return self._with(ineffective=self.ineffective + 1, tokens=prompt_tokens, waiting=False)

    def read(self, prompt_tokens: int, threshold: int) -> Breaker:
        """What the provider counted: the first figure after a compaction tells whether it helped."""
        if prompt_tokens < threshold:
            return self._with(ineffective=0, waiting=False, tokens=0) if self.ineffective or self.waiting else self
        if self.waiting:
            return self._with(ineffective=self.ineffective + 1, waiting=False, tokens=prompt_tokens)
        return self

    def failed(self, who: str, error: str, now: float, *, transient: bool) -> Breaker:
        failures = (self.helper_failures if who == "helper" else self.main_failures) + 1
        pause = TRANSIENT[min(failures, len(TRANSIENT)) - 1] if transient else OTHER
        return self._with(**{f"{who}_failures": failures, f"{who}_until": now + pause, "error": error})

    def answered(self, who: str) -> Breaker:
        return self._with(**{f"{who}_failures": 0, f"{who}_until": 0.0, "error": ""})

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _FIELDS}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any] | None) -> Breaker:
        """The stored value; fields that are missing or of another kind start fresh."""
        fresh = cls().as_dict()
        known: dict[str, Any] = {}
        for name, default in fresh.items():
            given = (stored or {}).get(name)
            whole = isinstance(default, float) and type(given) is int
            known[name] = given if type(given) is type(default) or whole else default
        return cls(**known)

    def _with(self, **changes: Any) -> Breaker:
        return Breaker(**(self.as_dict() | changes))


_FIELDS = (
    "ineffective", "waiting", "tokens", "helper_failures", "helper_until", "main_failures", "main_until", "error",
)  # fmt: skip
