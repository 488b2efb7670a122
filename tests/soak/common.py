"""What every soak has in common: options, a progress line, and an outcome that counts what went wrong."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import Any

_FAILURES_SHOWN = 20
_PROGRESS_EVERY = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`folder` is where homes are made; `seconds` ends a soak early, 0 for never."""

    folder: str
    seed: int = 1
    seconds: float = 0
    quiet: bool = False


@dataclass(slots=True, kw_only=True)
class Outcome:
    """Figures to print, and everything that must not have happened."""

    name: str
    figures: dict[str, Any] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def count(self, figure: str, by: int = 1) -> None:
        self.figures[figure] = self.figures.get(figure, 0) + by

    def fail(self, *problems: str) -> None:
        self.failures += problems

    def lines(self) -> list[str]:
        figures = ", ".join(f"{name} {_shown(value)}" for name, value in self.figures.items())
        verdict = f"{len(self.failures):,} FAILED" if self.failures else "all held"
        hidden = len(self.failures) - _FAILURES_SHOWN
        more = [f"  … and {hidden:,} more"] if hidden > 0 else []
        return [
            f"{self.name}: {verdict} ({figures})",
            *(f"  {each}" for each in self.failures[:_FAILURES_SHOWN]),
            *more,
        ]


class Progress:
    """One line on stderr that says how far a soak has come; also knows when its time is over."""

    def __init__(self, name: str, total: int, options: Options) -> None:
        self._name, self._total, self._options = name, total, options
        self._started = self._shown_at = time.monotonic()

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._started

    def goes_on(self, done: int, outcome: Outcome) -> bool:
        """Shows the state; False when the given seconds have passed."""
        now = time.monotonic()
        if not self._options.quiet and (now - self._shown_at > _PROGRESS_EVERY or done == self._total):
            self._shown_at = now
            end = "\n" if done == self._total else ""
            text = f"\r{self._name}: {done:,} of {self._total:,}, {len(outcome.failures):,} failed"
            print(f"{text}, {done / max(self.elapsed, 0.001):,.0f}/s ", end=end, file=sys.stderr, flush=True)
        return not self._options.seconds or self.elapsed < self._options.seconds


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
