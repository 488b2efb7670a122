"""Workers for many conversations: in each, one message after the other; all together, so many at once and no more."""

from __future__ import annotations

import heapq
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Lanes:
    """`work` handles a number; it returns None when that is finished, or the seconds until it should be tried again.

    The threads are daemons: everything is stored, so a program that has to end need not wait for the slowest answer.
    """

    def __init__(self, work: Callable[[int], float | None], *, workers: int) -> None:
        self._work = work
        self._most = workers
        self._queues: dict[str, deque[int]] = {}
        self._ready: deque[str] = deque()
        self._later: list[tuple[float, str]] = []
        self._running: dict[str, int] = {}
        self._changed = threading.Condition()
        self._threads = 0
        self._idle = 0
        self._closing = False

    def add(self, lane: str, number: int) -> None:
        with self._changed:
            if lane in self._queues:
                self._queues[lane].append(number)
                return
            self._queues[lane] = deque([number])
            self._ready.append(lane)
            if not self._idle and self._threads < self._most:
                self._threads += 1
                threading.Thread(target=self._serve, name=f"gateway-{self._threads}", daemon=True).start()
            self._changed.notify()

    def waiting(self, lane: str = "") -> int:
        """How many numbers wait, without those that are being handled."""
        with self._changed:
            queues = [self._queues.get(lane, deque())] if lane else list(self._queues.values())
            handled = [each for each in self._running if not lane or each == lane]
            return sum(map(len, queues)) - len(handled)

    def running(self) -> int:
        with self._changed:
            return len(self._running)

    def settle(self, seconds: float) -> bool:
        """Waits until nothing is left to do."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._queues, seconds)

    def close(self, seconds: float) -> bool:
        """Begins nothing new and waits for what is being handled; False when that takes longer than `seconds`."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._running, seconds)

    def _serve(self) -> None:
        while (lane := self._next()) is not None:
            pause = self._work(self._running[lane])
            with self._changed:
                del self._running[lane]
                queue = self._queues[lane]
                if pause is None:
                    queue.popleft()
                if pause is not None:
                    heapq.heappush(self._later, (time.monotonic() + pause, lane))
                elif queue:
                    self._ready.append(lane)
                else:
                    del self._queues[lane]
                self._changed.notify_all()

    def _next(self) -> str | None:
        """The next lane with something to do; None when it is over."""
        with self._changed:
            self._idle += 1
            try:
                while not self._closing:
                    while self._later and self._later[0][0] <= time.monotonic():
                        self._ready.append(heapq.heappop(self._later)[1])
                    if self._ready:
                        lane = self._ready.popleft()
                        self._running[lane] = self._queues[lane][0]
                        return lane
                    wait = self._later[0][0] - time.monotonic() if self._later else None
                    self._changed.wait(wait)
                return None
            finally:
                self._idle -= 1
