"""What every soak has in common: options, a progress line, and an outcome that counts what went wrong."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

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


class Trial(Protocol):
    """Something in a folder that is killed and looked at again and again; gives what was wrong after a kill."""

    def kill_once(self, chance: random.Random, number: int, outcome: Outcome) -> list[str]: ...


def kill_again_and_again(
    kills: int, options: Options, outcome: Outcome, begin: Callable[[str], Trial], *, per_folder: int
) -> Outcome:
    """`kills` times, in a new folder after every `per_folder` of them, or after one that went wrong."""
    outcome.figures = {"kills": 0, **outcome.figures}
    progress = Progress("kills", kills, options)
    while outcome.figures["kills"] < kills and progress.goes_on(outcome.figures["kills"], outcome):
        with tempfile.TemporaryDirectory(dir=options.folder, prefix="soak-") as place:
            trial = begin(place)
            for _ in range(min(per_folder, kills - outcome.figures["kills"])):
                number = outcome.figures["kills"]
                problems = trial.kill_once(random.Random(f"{options.seed}/{number}"), number, outcome)
                outcome.count("kills")
                outcome.fail(*(f"kill {number} (--seed {options.seed}): {each}" for each in problems))
                if problems:
                    break  # what follows there would only repeat it
    progress.goes_on(kills, outcome)
    outcome.figures["kills per second"] = outcome.figures["kills"] / max(progress.elapsed, 0.001)
    return outcome


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
