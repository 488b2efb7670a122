"""Breaks lines at words: of whole texts, and of answers while they arrive."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from prompt_toolkit.utils import get_cwidth

if TYPE_CHECKING:
    from collections.abc import Iterator

_FENCE = "```"
_WIDE = 2  # columns of a Chinese, Japanese or Korean character; a line may break beside one


def breaks(text: str, width: int) -> Iterator[int]:
    """Yields where lines begin: at words, beside characters of scripts without spaces, and after a newline."""
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
    """Wraps text that arrives in pieces; holds the last word back, because it may continue.

    Code between fences is left as it is, so that it can be copied.
    """

    def __init__(self, width: int) -> None:
        self._width = max(width, 10)
        self._line = ""  # the model's line that is being written
        self._shown = 0  # how much of it, wrapped
        self._in_code = False

    def feed(self, text: str) -> str:
        """Adds a piece of text and returns what can be shown now."""
        *ended, last = (self._line + text).split("\n")
        shown = ""
        for line in ended:
            shown += f"{self._more_of(line)}\n"
            self._in_code ^= line.lstrip().startswith(_FENCE)
            self._shown = 0
        self._line, end = last, len(last)
        while end and last[end - 1] != " " and get_cwidth(last[end - 1]) < _WIDE:
            end -= 1
        return shown + self._more_of(last[:end])

    def flush(self) -> str:
        """Returns what is still held back, at the end of the text."""
        return self._more_of(self._line)

    def _more_of(self, line: str) -> str:
        if not self._in_code and not line.lstrip().startswith(_FENCE):
            rows = [line[start:stop] for start, stop in pairwise([0, *breaks(line, self._width), len(line)])]
            # A space at the end of a full row is left out, because the line break replaces it.
            line = "\n".join(row[: len(row) - max(0, get_cwidth(row) - self._width)] for row in rows)
        shown, self._shown = line[self._shown :], len(line)
        return shown
