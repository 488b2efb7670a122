"""Runs a provider's code in threads that never hold up the caller, and tracks its failures."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hermes.base.errors import ProviderError
from hermes.base.values import value
from hermes.safety.secrets import mask_secrets

if TYPE_CHECKING:
    from collections.abc import Callable

Answer = TypeVar("Answer")
_IDLE_SECONDS = 20.0


class TimedOut(Exception):
    """The call has not returned; it may still be running."""


class Job(Generic[Answer]):
    """One call; `wait` for it from another thread."""

    __slots__ = ("_answer", "_done", "_error", "_work", "abandoned")

    def __init__(self, work: Callable[[], Answer]) -> None:
        self._work = work
        self._done = threading.Event()
        self._answer: Answer | None = None
        self._error: BaseException | None = None
        self.abandoned = False

    def run(self) -> None:
        try:
            if not self.abandoned:
                self._answer = self._work()
        except BaseException as error:  # noqa: BLE001 - a provider may raise anything, SystemExit included
            self._error = error
        self._done.set()

    def wait(self, timeout: float) -> Answer:
        """What the call returned, or raises what it raised; `TimedOut` after the time-out."""
        if self.abandoned:
            raise TimedOut
        if not self._done.wait(max(timeout, 0)):
            self.abandoned = True
            raise TimedOut
        if self._error is not None:
            raise self._error
        return self._answer  # type: ignore[return-value]  # the work has returned, so this is what it returned


class Worker:
    """Runs calls one after the other in a thread of its own, which ends when there is nothing to do."""

    def __init__(self, name: str, *, idle_seconds: float = _IDLE_SECONDS) -> None:
        self._name = name
        self._idle_seconds = idle_seconds
        self._jobs: deque[Job[Any]] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._alarm: tuple[float, Callable[[], None]] | None = None
        self._running = False
        self._closed = False

    @property
    def busy(self) -> bool:
        """Whether a call is running or waits to run."""
        return self._running or bool(self._jobs)

    def begin(self, work: Callable[[], Answer]) -> Job[Answer]:
        """Puts a call at the end of the worker."""
        job = Job(work)
        with self._changed:
            if not self._closed:
                self._jobs.append(job)
                self._wake()
                return job
        job.abandoned = True
        return job

    def post(self, work: Callable[[], object]) -> None:
        """Runs something that nobody waits for."""
        self.begin(work)

    def wake_at(self, moment: float, work: Callable[[], None]) -> None:
        """Runs something at a moment (of `time.monotonic`), instead of what was to run at another one."""
        with self._changed:
            if not self._closed:
                self._alarm = (moment, work)
                self._wake()

    def close(self) -> None:
        """Takes no more calls; those that wait are dropped, one that runs is left alone."""
        with self._changed:
            self._closed = True
            self._jobs.clear()
            self._alarm = None
            self._changed.notify_all()

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work_off, name=self._name, daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _work_off(self) -> None:
        while (job := self._next()) is not None:
            job.run()
            del job  # or the last answer would live as long as the worker
            with self._changed:
                self._running = False

    def _next(self) -> Job[Any] | None:
        with self._changed:
            idle_end = time.monotonic() + self._idle_seconds
            while True:
                now = time.monotonic()
                if self._jobs:
                    self._running = True
                    return self._jobs.popleft()
                if self._alarm is not None and self._alarm[0] <= now:
                    (_, work), self._alarm, self._running = self._alarm, None, True
                    return Job(work)
                if self._closed or (self._alarm is None and now >= idle_end):
                    self._thread = None
                    return None
                end = self._alarm[0] if self._alarm is not None else idle_end
                self._changed.wait(end - now)


RECALL, DELIVERY, START = "recall", "delivery", "start"
_LONGEST_REASON = 300
_LONGEST_READ = 5_000


@value
class Backoff:
    """When to give up on a provider for a while, and when to try again."""

    failures: int = 3  # in a row, after which it is left alone
    first_pause: float = 1.0  # seconds, doubled after each further failure
    longest_pause: float = 120.0


class Health:
    """One provider's. Thread-safe; the clock is handed in by tests."""

    def __init__(
        self,
        name: str,
        *,
        backoff: Backoff | None = None,
        tell: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._patience = backoff or Backoff()
        self._tell = tell
        self._clock = clock
        self._lock = threading.Lock()
        self._failing: dict[str, str] = {}  # what does not work at the moment, and why
        self._misses = 0  # deadlines in a row
        self._rows: dict[str, int] = {}  # failures in a row, of what
        self._until: dict[str, float] = {}
        self._told = False
        self.failures = 0
        self.successes = 0
        self.last_error = ""
        self.slowest = 0.0

    @property
    def rests(self) -> bool:
        """Whether the breaker is open: nothing is asked until the pause is over."""
        return any(self._rests(what) for what in (RECALL, START))

    @property
    def next_attempt(self) -> float:
        """When to start it or to deliver again."""
        return max(self._until.get(what, 0.0) for what in (DELIVERY, START))

    def _rests(self, what: str) -> bool:
        return self._rows.get(what, 0) >= self._patience.failures and self._clock() < self._until[what]

    def failing(self, *whats: str) -> bool:
        return any(what in self._failing for what in whats)

    def worked(self, what: str, seconds: float = 0.0) -> None:
        with self._lock:
            self.successes += 1
            self.slowest = max(self.slowest, seconds)
            self._rows.pop(what, None)
            self._misses = 0 if what == RECALL else self._misses
            self._failing.pop(what, None)
            recovered, self._told = self._told and not self._failing, self._told and bool(self._failing)
        if recovered:
            self._tell(f"{self._name} works again.")

    def failed(self, what: str, error: BaseException) -> None:
        if what == RECALL and isinstance(error, ProviderError) and error.kind == "slow":
            self._was_slow(what, in_words(error))
        else:
            self._failed(what, in_words(error), getattr(error, "seconds", None))

    def missed(self, what: str, seconds: float) -> None:
        """The manager's deadline passed."""
        self._was_slow(what, f"it did not answer within {seconds:g} s")

    def _was_slow(self, what: str, reason: str) -> None:
        """One slow answer is no reason to worry anybody, whoever looked at the clock."""
        with self._lock:
            self._misses += 1
            quiet = self._misses < self._patience.failures
        self._failed(what, reason, None, quiet=quiet)

    def _failed(self, what: str, reason: str, wait: float | None, *, quiet: bool = False) -> None:
        with self._lock:
            self.failures += 1
            row = self._rows[what] = self._rows.get(what, 0) + 1
            self.last_error = reason
            pause = min(self._patience.first_pause * 2 ** min(row - 1, 30), self._patience.longest_pause)
            self._until[what] = self._clock() + max(pause, wait or 0.0)
            if not quiet:
                self._failing[what] = reason
            tell, self._told = not quiet and not self._told, self._told or not quiet
        if tell:
            self._tell(
                f"{self._name} does not work at the moment: {reason}. The conversation goes on without it; what it "
                "should store is kept and handed over later."
            )

    def report(self) -> dict[str, Any]:
        """For status commands."""
        state = "resting" if self.rests else "degraded" if self._failing else "ok"
        return {
            "state": state,
            "failing": dict(self._failing),
            "failures": self.failures,
            "successes": self.successes,
            "last_error": self.last_error,
            "slowest_recall_ms": round(self.slowest * 1000, 1),
        }


def in_words(error: BaseException) -> str:
    """What went wrong, in one line without secrets; also for errors that cannot even be printed."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - an error of other people's code may break in its own __str__
        said = "(it says nothing about itself)"
    text = said if isinstance(error, ProviderError) else f"{type(error).__name__}: {said}"
    text = mask_secrets(" ".join(text[:_LONGEST_READ].split()))
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}…"
