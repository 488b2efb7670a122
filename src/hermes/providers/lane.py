"""A thread that runs other people's code one call after another, and never holds up whoever asked.

A call that does not return in time is given up: whoever asked goes on, and the lane is busy until it returns, which may
be never. The thread is a daemon, so that a call that hangs cannot keep the program from ending, and it ends by itself
when nothing was asked for a while.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Answer = TypeVar("Answer")
_IDLE_SECONDS = 20.0


class NotInTime(Exception):
    """The call has not returned; it may still be running."""


class Occupied(NotInTime):
    """An earlier call has not returned yet, so this one was not even begun."""


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
        """What the call returned, or raises what it raised; `NotInTime` after the time-out."""
        if self.abandoned:
            raise Occupied
        if not self._done.wait(max(timeout, 0)):
            self.abandoned = True
            raise NotInTime
        if self._error is not None:
            raise self._error
        return self._answer  # type: ignore[return-value]  # the work has returned, so this is what it returned


class Lane:
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

    @property
    def is_current(self) -> bool:
        """Whether the code that asks runs in this lane: then waiting for it would wait for ever."""
        return threading.current_thread() is self._thread

    def begin(self, work: Callable[[], Answer]) -> Job[Answer]:
        """Puts a call at the end of the lane."""
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
            del job  # or the last answer would live as long as the lane
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
