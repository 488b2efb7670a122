"""Watches what the process itself uses: resident memory, garbage collection and threads, in one line of the log."""

from __future__ import annotations

import gc
import logging
import os
import threading
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_LOG = logging.getLogger("hermes.gateway.memory")
_MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    rss_mb: float
    peak_mb: float
    gc: tuple[int, ...]
    threads: int
    uptime: int

    def line(self) -> str:
        return (
            f"[MEMORY] rss={self.rss_mb:.1f}MB peak={self.peak_mb:.1f}MB gc={self.gc} "
            f"threads={self.threads} uptime={self.uptime}s"
        )


class Monitor:
    def __init__(self, *, seconds: float, warn_mb: int = 0, resident: Callable[[], int] | None = None) -> None:
        self._seconds = seconds
        self._warn_mb = warn_mb
        self._resident = resident or resident_bytes
        self._started = time.monotonic()
        self._over = threading.Event()
        self._peak = 0.0
        self.last: Reading | None = None

    def start(self) -> None:
        if self._seconds:
            threading.Thread(target=self._run, name="gateway-memory", daemon=True).start()

    def stop(self) -> None:
        """One last line, so that the log tells how it ended."""
        if self._seconds and not self._over.is_set():
            self.look()
        self._over.set()

    def look(self) -> Reading:
        """Reads, logs and keeps the figures."""
        used = self._resident() / _MEGABYTE
        self._peak = max(self._peak, used)
        reading = Reading(
            rss_mb=round(used, 1),
            peak_mb=round(self._peak, 1),
            gc=gc.get_count(),
            threads=threading.active_count(),
            uptime=int(time.monotonic() - self._started),
        )
        self.last = reading
        too_much = bool(self._warn_mb) and used > self._warn_mb
        _LOG.log(logging.WARNING if too_much else logging.INFO, "%s", reading.line())
        if too_much:
            _LOG.warning("the gateway uses more than gateway.monitor_warn_mb (%s MB)", self._warn_mb)
        return reading

    def as_dict(self) -> dict[str, Any]:
        return asdict(self.last) if self.last else {}

    def _run(self) -> None:
        self.look()
        while not self._over.wait(self._seconds):
            self.look()


def resident_bytes() -> int:
    """Memory of this process that is in RAM; where the system does not tell, the most there ever was."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        import resource
        import sys

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most << 10
