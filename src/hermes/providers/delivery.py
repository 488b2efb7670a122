"""Delivers calls to a provider: in threads that never block the caller, with a breaker, and from a queue on disk.

A call stays on disk until the provider has accepted it, so that no outage, kill or restart loses it.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hermes.base.errors import ProviderError, StorageError
from hermes.base.values import value
from hermes.safety.secrets import mask_secrets
from hermes.storage.jobs import Jobs, encoded

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes.storage.ports import Documents


Answer = TypeVar("Answer")
_IDLE_SECONDS = 20.0  # after which a worker's thread ends


class TimedOut(Exception):
    """The deadline has passed, and the call may still be running: a thread cannot be killed."""


class Job(Generic[Answer]):
    """One call in a worker, for which another thread can `wait`."""

    __slots__ = ("_answer", "_done", "_error", "_work", "abandoned")

    def __init__(self, work: Callable[[], Answer]) -> None:
        self._work = work
        self._done = threading.Event()
        self._answer: Answer | None = None
        self._error: BaseException | None = None
        self.abandoned = False

    def run(self) -> None:
        """Makes the call and keeps what it returned or raised, unless nobody waits any more."""
        try:
            if not self.abandoned:
                self._answer = self._work()
        except BaseException as error:  # noqa: BLE001 - a provider may raise anything, SystemExit included
            self._error = error
        self._done.set()

    def wait(self, timeout: float) -> Answer:
        """Returns what the call returned, or raises what it raised; raises `TimedOut` after the timeout."""
        if self.abandoned:
            raise TimedOut
        if not self._done.wait(max(timeout, 0)):
            self.abandoned = True
            raise TimedOut
        if self._error is not None:
            raise self._error
        return self._answer  # type: ignore[return-value]  # the work has returned, so this is what it returned


class Worker:
    """Runs calls one after the other in its own thread, which ends when idle."""

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
        """Adds a call to the end of the queue."""
        job = Job(work)
        with self._changed:
            if not self._closed:
                self._jobs.append(job)
                self._wake()
                return job
        job.abandoned = True
        return job

    def post(self, work: Callable[[], object]) -> None:
        """Queues a call that nobody waits for."""
        self.begin(work)

    def wake_at(self, moment: float, work: Callable[[], None]) -> None:
        """Runs something at a time of `time.monotonic`; only the last one scheduled counts."""
        with self._changed:
            if not self._closed:
                self._alarm = (moment, work)
                self._wake()

    def close(self) -> None:
        """Accepts no more calls and drops those that wait; a running call is not interrupted."""
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
            del job  # else the last answer would be kept as long as the worker lives
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


RECALL, DELIVERY, START = "recall", "delivery", "start"  # kinds of call, whose failures are counted apart
_LONGEST_REASON = 300  # characters of an error that are shown
_LONGEST_READ = 5_000  # characters of an error that are searched for secrets


@value
class Backoff:
    """After how many failures to pause a provider, and for how long."""

    failures: int = 3  # in a row, after which it is paused
    first_pause: float = 1.0  # seconds, doubled after each further failure
    longest_pause: float = 120.0


class Health:
    """Counts a provider's failures and says when to pause it. Thread-safe."""

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
        self._failing: dict[str, str] = {}  # what fails at the moment, and why
        # Failures in a row, by kind of call, so that a start that works does not hide a recall that never does.
        self._rows: dict[str, int] = {}
        self._until: dict[str, float] = {}  # the end of the pause, by kind of call
        self._told = False  # whether the person knows that something fails
        self.failures = 0
        self.successes = 0
        self.last_error = ""
        self.slowest = 0.0

    @property
    def rests(self) -> bool:
        """Whether the breaker is open: no call is made until the pause is over."""
        return any(self._rests(what) for what in (RECALL, START))

    @property
    def next_attempt(self) -> float:
        """When to start the provider or to deliver again, as a time of the clock."""
        return max(self._until.get(what, 0.0) for what in (DELIVERY, START))

    def _rests(self, what: str) -> bool:
        return self._rows.get(what, 0) >= self._patience.failures and self._clock() < self._until[what]

    def failing(self, *whats: str) -> bool:
        """Whether any of these kinds of call fails at the moment."""
        return any(what in self._failing for what in whats)

    def worked(self, what: str, seconds: float = 0.0) -> None:
        """Counts a success and ends the pause; says so once everything works again."""
        with self._lock:
            self.successes += 1
            self.slowest = max(self.slowest, seconds)
            self._rows.pop(what, None)
            self._failing.pop(what, None)
            recovered, self._told = self._told and not self._failing, self._told and bool(self._failing)
        if recovered:
            self._tell(f"{self._name} works again.")

    def failed(self, what: str, error: BaseException) -> None:
        """Counts a failure and lengthens the pause; the first one is reported to the person."""
        is_slow = what == RECALL and isinstance(error, ProviderError) and error.kind == "slow"
        self._failed(what, in_words(error), getattr(error, "seconds", None), is_slow=is_slow)

    def missed(self, what: str, seconds: float) -> None:
        """Counts a call that missed the manager's deadline."""
        self._failed(what, f"it did not answer within {seconds:g} s", None, is_slow=True)

    def _failed(self, what: str, reason: str, wait: float | None, *, is_slow: bool = False) -> None:
        with self._lock:
            self.failures += 1
            row = self._rows[what] = self._rows.get(what, 0) + 1
            self.last_error = reason
            pause = min(self._patience.first_pause * 2 ** min(row - 1, 30), self._patience.longest_pause)
            self._until[what] = self._clock() + max(pause, wait or 0.0)
            quiet = is_slow and row < self._patience.failures  # the person hears only about several in a row
            tell = not quiet and not self._told
            if not quiet:
                self._failing[what], self._told = reason, True
        if tell:
            self._tell(
                f"{self._name} does not work at the moment: {reason}. The conversation continues without it; what it "
                "should store is kept and sent later."
            )

    def report(self) -> dict[str, Any]:
        """The state and the counters, as status commands show them."""
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
    """What went wrong, in one line without secrets, even if the error itself cannot be printed."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - an error of other people's code may break in its own __str__
        said = "(its message cannot be read)"
    text = said if isinstance(error, ProviderError) else f"{type(error).__name__}: {said}"
    text = mask_secrets(" ".join(text[:_LONGEST_READ].split()))
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}…"


FOLDER = "outbox"
_STATE = "state"
# After how many failures a call is set aside, so that it does not hold up those behind it.
_REFUSALS = 3  # by a service that refuses the call
_ACCIDENTS = 10  # of other kinds, which may be a hidden outage


@value
class DeliveryResult:
    """The result of one attempt to deliver everything; `error` is what stopped it, if anything did."""

    delivered: int = 0
    set_aside: int = 0
    waiting: int = 0
    error: BaseException | None = None


class Outbox:
    """The queued calls of one provider for one person."""

    def __init__(self, documents: Documents, provider: str, *, user: str = "") -> None:
        # One person's provider must never deliver another person's calls.
        mark = f".{hashlib.sha256(user.encode()).hexdigest()[:16]}" if user else ""
        self._documents = documents.below(FOLDER, f"{provider}{mark}")
        self._jobs = Jobs(self._documents)
        self.path = self._documents.path

    def put(self, hook: str, arguments: dict[str, Any]) -> None:
        """Queues a call on disk; it survives the end of the process as soon as this returns."""
        self._jobs.put({"hook": hook, "arguments": arguments})

    def remember_state(self, text: str) -> None:
        """Saves a line about the state of the provider for status commands in other processes."""
        with self._documents.create() as folder:
            folder.replace(_STATE, encoded({"at": time.time(), "text": text}))

    def last_state(self) -> dict[str, Any]:
        """The last saved line and its time; empty if there is none."""
        folder = self._documents.open()
        if folder is None:
            return {}
        with folder:
            try:
                found = json.loads(folder.read(_STATE, at_most=1 << 16) or b"{}")
            except (ValueError, StorageError):
                return {}
        return found if isinstance(found, dict) else {}

    def names(self) -> list[str]:
        """The calls that wait, oldest first."""
        return self._jobs.waiting()

    def set_aside(self) -> int:
        """How many calls were set aside because the provider would not accept them."""
        return self._jobs.refused()

    def take_back(self) -> int:
        """Puts refused calls back into the queue, in their old place, once a person has fixed the cause."""
        return self._jobs.take_back()

    def deliver(self, hand_over: Callable[[str, dict[str, Any], str], object]) -> DeliveryResult:
        """Delivers queued calls (hook, arguments and key), oldest first, until none is left or one fails."""
        names = self.names()
        if not names:
            return DeliveryResult()
        delivered = aside = 0
        with self._jobs.working() as work:
            if work is None:
                return DeliveryResult(waiting=len(names))  # another process is delivering
            for position, name in enumerate(names):
                job = work.take(name)
                if job is None:
                    continue
                try:
                    hand_over(job.work["hook"], job.work["arguments"], job.key)
                except BaseException as error:  # noqa: BLE001 - a provider is other people's code and may raise anything
                    if _may_pass(error):
                        work.put_off(job)
                    elif work.failed(job, most=_most_attempts(error)):
                        aside += 1
                        continue
                    # Stop here: later calls must not overtake one that may still succeed.
                    left = len(names) - position
                    return DeliveryResult(delivered=delivered, set_aside=aside, waiting=left, error=error)
                work.finish(job)
                delivered += 1
        return DeliveryResult(delivered=delivered, set_aside=aside)


def _most_attempts(error: BaseException) -> int:
    told = isinstance(error, ProviderError) and error.kind not in ("ended", "malformed")
    return _REFUSALS if told else _ACCIDENTS


def _may_pass(error: BaseException) -> bool:
    """Whether the same call may work later: after an outage, or once a person corrects a key or an address."""
    if isinstance(error, ProviderError):
        return error.passing or error.kind in ("key", "missing", "absent", "astray")
    return isinstance(error, OSError)
