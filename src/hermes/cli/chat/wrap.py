"""Breaks lines at words: of whole texts, and of answers while they arrive."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from prompt_toolkit.utils import get_cwidth

if TYPE_CHECKING:
    from collections.abc import Iterator

_FENCE = "```"
_WIDE = 2


def breaks(text: str, width: int) -> Iterator[int]:
    """Where lines begin: at words, between any two characters of scripts that have no spaces, and at a newline."""
    start = fits = column = 0  # `fits`: the last place in the line where it may end
    for place, character in enumerate(text):
        if character == "\n":
            start, fits, column = place + 1, place + 1, 0
            yield start
            continue
        size = get_cwidth(character)
        if size >= _WIDE:
            fits = place
        if column + size > width and character != " ":
            start = fits = fits if fits > start else place
            column = get_cwidth(text[start:place])
            yield start
        column += size
        if character == " " or size >= _WIDE:
            fits = place + 1


class WordWrap:
    """Feed pieces, write what comes back: all but the last word, which may go on.

    Code between fences is left as it is, so that it can be copied.
    """

    def __init__(self, width: int) -> None:
        self._width = max(width, 10)
        self._line = ""  # the row that is being written
        self._written = 0  # how much of it
        self._begins = True  # whether the model's line begins with it
        self._in_code = False

    def feed(self, text: str) -> str:
        first, *others = text.split("\n")
        self._line += first
        shown = ""
        for line in others:
            shown += f"{self.flush()}\n"
            self._in_code ^= self._is_fence()
            self._line, self._written, self._begins = line, 0, True
        end = len(self._line)
        while end and self._line[end - 1] != " " and get_cwidth(self._line[end - 1]) < _WIDE:
            end -= 1
        return shown + self._write(max(end, *breaks(self._line, self._width), 0))

    def flush(self) -> str:
        """What is still held back."""
        return self._write(len(self._line))

    def _is_fence(self) -> bool:
        return self._begins and self._line.lstrip().startswith(_FENCE)

    def _write(self, end: int) -> str:
        """The row up to `end`, and the rows before it if it has become several."""
        if self._in_code or self._is_fence():
            shown, self._written = self._line[self._written :], len(self._line)
            return shown
        starts = [start for start in breaks(self._line, self._width) if start < end]
        rows = [self._line[start:stop] for start, stop in pairwise([0, *starts, end])]
        # A space that has no room is left out: the break stands for it.
        rows = [row[: len(row) - max(0, get_cwidth(row) - self._width)] for row in rows]
        shown = "\n".join([rows[0][self._written :], *rows[1:]])
        if starts:
            self._line, self._begins = self._line[starts[-1] :], False
        self._written = end - (starts[-1] if starts else 0)
        return shown
