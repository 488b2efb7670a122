"""What the chat writes: answers as they arrive, one line per tool call, quiet notices; escapes only where wanted."""

from __future__ import annotations

import os
import re
import shutil
import sys
from typing import TYPE_CHECKING

from hermes.cli.chat_wrap import WordWrap

if TYPE_CHECKING:
    from typing import TextIO

_STYLES = {"dim": "2", "bold": "1", "red": "31", "green": "32", "cyan": "36", "yellow": "33"}
# Everything but newline and tab: what a model or a tool writes must not act on the terminal.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_NARROWEST = 20


class Screen:
    """One stream. On a terminal lines are wrapped at words and styled, unless NO_COLOR or TERM=dumb forbid it."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self.is_terminal = self._stream.isatty()
        self.has_styles = self.is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._wrap: WordWrap | None = None
        self._waiting = ""
        self._last = "\n"

    @property
    def width(self) -> int:
        return max(_NARROWEST, shutil.get_terminal_size().columns)

    def styled(self, text: str, style: str) -> str:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self.has_styles and text else text

    def line(self, text: str = "", style: str = "") -> None:
        """One line, or several, after whatever was being streamed."""
        self.end_answer()
        shown = plain(text)
        if self.is_terminal:
            wrap = WordWrap(self.width)
            shown = wrap.feed(shown) + wrap.flush()
        self._write((self.styled(shown, style) if style else shown) + "\n")

    def fitted(self, text: str, style: str = "") -> None:
        """A line that is cut rather than wrapped."""
        shown = " ".join(text.split("\n"))
        if self.is_terminal and len(shown) > self.width:
            shown = shown[: self.width - 1] + "…"
        self.line(shown, style)

    def wait(self, text: str) -> None:
        """Says that something is awaited; gone as soon as anything else is written. Only where it can be erased."""
        self.end_answer()
        if self.has_styles and text != self._waiting:
            self._write(self.styled(text[: self.width - 1], "dim"))
            self._waiting = text

    def answer(self, piece: str) -> None:
        if self._wrap is None:
            self._wrap = WordWrap(self.width if self.is_terminal else sys.maxsize)
        self._write(self._wrap.feed(plain(piece)) if self.is_terminal else plain(piece))

    def end_answer(self) -> None:
        """Ends the line of an answer that is still open."""
        wrap, self._wrap = self._wrap, None
        if wrap is not None:
            self._write(wrap.flush())
            self._write("" if self._last == "\n" else "\n")

    def erase(self) -> None:
        """Takes away what `wait` said."""
        if self._waiting:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._waiting = ""

    def clear(self) -> None:
        if self.is_terminal and os.environ.get("TERM") != "dumb":
            self._write("\x1b[2J\x1b[H")

    def _write(self, text: str) -> None:
        if not text:
            return
        self.erase()
        self._last = text[-1]
        encoding = self._stream.encoding or "utf-8"
        self._stream.write(text.encode(encoding, "replace").decode(encoding))
        self._stream.flush()


def plain(text: str) -> str:
    """The text without characters that would act on the terminal."""
    return _CONTROL.sub("", text)
