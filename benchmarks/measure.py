"""What benchmarks share: samples taken in turns, so that a noisy machine disturbs both sides alike, and medians."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# As bin/hermes starts: without site, with the paths it would have found.
LAUNCH = """import sys
sys.dont_write_bytecode = False
sys.path[:0] = {paths!r}
from hermes.__main__ import start
start()"""


def median(samples: Sequence[float]) -> float:
    return statistics.median(samples)


def timed(action: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU milliseconds of one call."""
    cpu, wall = time.thread_time(), time.perf_counter()
    action()
    return (time.perf_counter() - wall) * 1000, (time.thread_time() - cpu) * 1000


def best_cpu(action: Callable[[], object], times: int) -> float:
    """The smallest CPU seconds of several calls: what it costs when nothing disturbs it."""
    best = float("inf")
    for _ in range(times):
        start = time.process_time()
        action()
        best = min(best, time.process_time() - start)
    return best


def cpu_of_process(command: Sequence[str], environment: Mapping[str, str]) -> float:
    """CPU milliseconds of a program from start to end."""
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return (used.ru_utime + used.ru_stime) * 1000


def hermes_command(*arguments: str) -> list[str]:
    """How the `hermes` command starts, without the shell around it."""
    paths = [path for path in sys.path if path and os.path.isdir(path)]
    return [sys.executable, "-P", "-S", "-c", LAUNCH.format(paths=paths), *arguments]
