"""The error output of a program that runs beside us: read to its end, so that the program never waits, and not kept."""

from __future__ import annotations

import os
import threading

_KEPT = 4096  # bytes of its last words
_PIECE = 1 << 16
_LAST_WAIT = 1.0  # seconds; a grandchild may hold the pipe open for as long as it likes


class ErrorOutput:
    """`file` is handed to the program; `last_words` are asked for when it has ended."""

    def __init__(self) -> None:
        reading, writing = os.pipe()
        self.file = open(writing, "w", encoding="utf-8")  # noqa: SIM115 - closed by `close`
        self._kept = b""
        self._reader = threading.Thread(target=self._read, args=(reading,), daemon=True, name="error output")
        self._reader.start()

    def last_words(self) -> str:
        self.close()  # the pipe ends with the program only when our own end is closed
        self._reader.join(_LAST_WAIT)
        return self._kept.decode("utf-8", "replace").strip()

    def close(self) -> None:
        self.file.close()

    def _read(self, reading: int) -> None:
        with open(reading, "rb", buffering=0) as pipe:
            while piece := pipe.read(_PIECE):
                self._kept = (self._kept + piece)[-_KEPT:]
