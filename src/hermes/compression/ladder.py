"""Who summarises: the helper model, the helper in smaller pieces, the main model, and at last no model at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.compression.extract import extract
from hermes.compression.summary import SummaryFailed, summarise
from hermes.vocabulary.values import value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hermes.compression.breaker import Breaker
    from hermes.compression.facts import Fact
    from hermes.compression.summary import Summariser, Task

EXTRACT = "extract"


@value
class Rung:
    """A model that may be asked: "helper" or "main", the function that asks it, its window in tokens."""

    who: str
    ask: Summariser
    window: int
    is_stranger: bool = False  # has not seen the conversation, and may be somebody else's service


@value
class Attempt:
    """The text that stands for the middle, who made it, and what failed before."""

    text: str
    how: str
    breaker: Breaker
    failures: tuple[str, ...] = ()


class Ladder:
    def __init__(
        self, rungs: Sequence[Rung], breaker: Breaker, *, clock: Callable[[], float], timer: Callable[[], float]
    ) -> None:
        self._rungs = rungs
        self._breaker = breaker
        self._clock = clock
        self._timer = timer
        self._failures: list[str] = []

    def climb_down(
        self, task: Task, facts: Callable[[], Sequence[Fact]], *, deadline: float | None, force: bool
    ) -> Attempt:
        """The first usable text. With `force` models that rest after a failure are asked too.

        `facts` finds what an extract is made of; it is asked when it comes to that.
        """
        for rung in self._rungs:
            if not force and not self._breaker.may_ask(rung.who, self._clock()):
                self._failures.append(f"{rung.who}: rests after {self._breaker.error or 'a failure'}")
                continue
            found = self._ask(task, rung, deadline)
            if found is not None:
                return found
        text = extract(task.messages, task.ids, facts(), task.budget, task.previous)
        return Attempt(text=text, how=EXTRACT, breaker=self._breaker, failures=tuple(self._failures))

    def _ask(self, task: Task, rung: Rung, deadline: float | None) -> Attempt | None:
        # A model that failed on the whole may be smaller than it says: half its window is tried once.
        transient = False
        shown = task.masked() if rung.is_stranger else task
        for window in (rung.window, rung.window // 2):
            try:
                text, calls = summarise(shown, rung.ask, window, deadline, self._timer)
            except SummaryFailed as failure:
                self._failures.append(f"{rung.who}: {failure}")
                transient = failure.transient
                if transient:
                    break
                continue
            self._breaker = self._breaker.answered(rung.who)
            how = rung.who if calls == 1 else f"{rung.who} in {calls} pieces"
            return Attempt(text=text, how=how, breaker=self._breaker, failures=tuple(self._failures))
        self._breaker = self._breaker.failed(rung.who, self._failures[-1], self._clock(), transient=transient)
        return None
