"""A line on standard error that shows how far long work has come; silent when nobody watches."""

from __future__ import annotations

import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

_BETWEEN_UPDATES = 0.1
_WIDTH = 24


class Progress:
    """`total` is None when the end is not known; then only the count is shown."""

    def __init__(self, label: str, total: int | None = None, *, unit: str = "", stream: TextIO | None = None) -> None:
        self._label = label
        self._total = total
        self._unit = unit
        self._stream = stream or sys.stderr
        self._watched = self._stream.isatty()
        self._next = 0.0
        self._shown = False

    def update(self, done: int) -> None:
        if not self._watched or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _BETWEEN_UPDATES
        self._shown = True
        self._stream.write(f"\r\x1b[K{self._text(done)}")
        self._stream.flush()

    def close(self) -> None:
        """Clears the line, so that what follows starts on a clean one."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
        self._shown = False

    def _text(self, done: int) -> str:
        if not self._total:
            return f"{self._label} {done:,}{self._unit}"
        share = min(1.0, done / self._total)
        filled = round(share * _WIDTH)
        return f"{self._label} [{'#' * filled}{'.' * (_WIDTH - filled)}] {share:4.0%}"


class Stages:
    """The same for work in several stages, each with a name and a count of its own."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._watched = self._stream.isatty()

    def show(self, what: str, done: int, total: int) -> None:
        amount = f" {done:,} of {total:,}" if total else f" {done:,}" if done else ""
        self._write(f"{what}{amount}")

    def clear(self) -> None:
        self._write("")

    def _write(self, text: str) -> None:
        if self._watched:
            self._stream.write(f"\r\x1b[K{text}")
            self._stream.flush()
