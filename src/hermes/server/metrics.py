"""What the operator wants to know, in the text format Prometheus reads. Only numbers: no name, no word of anybody."""

from __future__ import annotations

import bisect
import threading
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Metrics:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[tuple[str, str, int], int] = defaultdict(int)
        self._refused: dict[str, int] = defaultdict(int)
        self._turns: dict[str, int] = defaultdict(int)
        self._buckets = [0] * (len(_SECONDS) + 1)
        self._seconds = 0.0
        self.in_flight = 0
        self.gauges: dict[str, tuple[str, Callable[[], float]]] = {}

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        with self._lock:
            self._requests[method, route, status] += 1
            self._buckets[bisect.bisect_left(_SECONDS, seconds)] += 1
            self._seconds += seconds

    def refused(self, reason: str) -> None:
        with self._lock:
            self._refused[reason] += 1

    def turn(self, outcome: str) -> None:
        with self._lock:
            self._turns[outcome] += 1

    def text(self) -> str:
        with self._lock:
            lines = _head("hermes_http_requests_total", "counter", "Requests by route and status.")
            for (method, route, status), count in sorted(self._requests.items()):
                labels = f'method="{method}",route="{route}",status="{status}"'
                lines.append(f"hermes_http_requests_total{{{labels}}} {count}")
            lines += _head("hermes_http_refused_total", "counter", "Requests that were refused at the door, by reason.")
            lines += [f'hermes_http_refused_total{{reason="{why}"}} {n}' for why, n in sorted(self._refused.items())]
            lines += _head("hermes_turns_total", "counter", "Turns of conversations, by outcome.")
            lines += [f'hermes_turns_total{{outcome="{how}"}} {n}' for how, n in sorted(self._turns.items())]
            lines += self._histogram()
        lines += _head("hermes_http_in_flight", "gauge", "Requests being answered now.")
        lines.append(f"hermes_http_in_flight {self.in_flight}")
        for name, (about, read) in self.gauges.items():
            lines += [*_head(name, "gauge", about), f"{name} {read():g}"]
        return "\n".join(lines) + "\n"

    def _histogram(self) -> list[str]:
        name = "hermes_http_request_seconds"
        lines = _head(name, "histogram", "How long requests took.")
        total = 0
        for bound, count in zip((*map(str, _SECONDS), "+Inf"), self._buckets, strict=True):
            total += count
            lines.append(f'{name}_bucket{{le="{bound}"}} {total}')
        return [*lines, f"{name}_sum {self._seconds:.6f}", f"{name}_count {total}"]


def _head(name: str, kind: str, about: str) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
