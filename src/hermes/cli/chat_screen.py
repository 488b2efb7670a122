"""What the chat writes: answers as they arrive, one line per tool call, quiet notices; escapes only where wanted.

On a terminal with styles the last lines are live: the block of the answer that is not finished, or what is awaited,
and what the person types meanwhile. Only these are drawn again. Everything above them is printed once and scrolls away.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import threading
import time
from itertools import takewhile
from typing import TYPE_CHECKING

from hermes.cli.chat_wrap import WordWrap
from hermes.cli.render import has_styles

if TYPE_CHECKING:
    from typing import TextIO

    from hermes.cli.chat_markdown import MarkdownStream

_STYLES = {"dim": "2", "bold": "1", "red": "31", "green": "32", "cyan": "36", "yellow": "33"}
# Everything but newline and tab: what a model or a tool writes must not act on the terminal.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ESCAPE = re.compile("\x1b\\[[0-9;]*m")
_NARROWEST = 20
_LEAST_ROWS = 4
_REST = 4  # times as long as drawing took, it waits before it draws again: a fast model must not keep a core busy
_PROMPT = "> "


class Screen:
    """One stream. On a terminal lines are wrapped and Markdown is rendered, unless `plain` or NO_COLOR forbid it."""

    def __init__(self, stream: TextIO | None = None, *, plain: bool = False) -> None:
        self._stream = stream or sys.stdout
        self.is_terminal = self._stream.isatty()
        self.has_styles = not plain and has_styles(self._stream)
        self._lock = threading.RLock()  # what a person types is drawn by another thread
        self._wrap: WordWrap | None = None
        self._markdown: MarkdownStream | None = None
        self._body: list[str] = []  # live lines of the answer, or what is awaited
        self._typed = ""
        self._live: list[str] = []  # the lines that are on the screen and may be drawn again
        self._columns = 0
        self._next = 0.0
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
        if self.has_styles:
            shown = plain(text.partition("\n")[0])
            shown = shown if len(shown) < self.width else shown[: self.width - 2] + "…"
            self._draw(body=[self.styled(shown, "dim")])

    def answer(self, piece: str) -> None:
        if self.has_styles:
            self._answer_in_markdown(plain(piece))
            return
        if self._wrap is None:
            self._wrap = WordWrap(self.width if self.is_terminal else sys.maxsize)
        self._write(self._wrap.feed(plain(piece)) if self.is_terminal else plain(piece))

    @property
    def is_answering(self) -> bool:
        return self._wrap is not None or self._markdown is not None

    def end_answer(self) -> None:
        """Prints what is still open of an answer."""
        wrap, self._wrap = self._wrap, None
        if wrap is not None:
            self._write(wrap.flush())
            self._write("" if self._last == "\n" else "\n")
        markdown, self._markdown = self._markdown, None
        if markdown is not None:
            self._draw(markdown.rest(self.width), body=[])

    def erase(self) -> None:
        """Takes away what `wait` said."""
        if self._live:
            self._draw(body=[])

    def show_typed(self, text: str) -> None:
        """Shows what a person types while an answer is being written, below it."""
        with self._lock:
            self._typed = plain(text).replace("\n", "⏎").replace("\t", " ")
            self._draw(body=self._body)

    def clear(self) -> None:
        if self.is_terminal and os.environ.get("TERM") != "dumb":
            self._send("\x1b[2J\x1b[H")

    def _answer_in_markdown(self, piece: str) -> None:
        if self._markdown is None:
            from hermes.cli.chat_markdown import MarkdownStream

            self._markdown = MarkdownStream()
        self._markdown.feed(piece)
        began = time.monotonic()
        if began < self._next:
            return
        width, rows = self.width, shutil.get_terminal_size().lines
        done = self._markdown.finished(width)
        overflow, body = self._markdown.unfinished(width, max(rows, _LEAST_ROWS) - 2)  # the last row is for typing
        self._draw([*done, *overflow], body=body)
        now = time.monotonic()
        self._next = now + _REST * (now - began)

    def _write(self, text: str) -> None:
        """Prints text; where lines are live, it ends with a newline."""
        if not text:
            return
        with self._lock:
            self._last = text[-1]
            if self.has_styles:
                self._draw(text.split("\n")[:-1] if text.endswith("\n") else [text], body=[])
            else:
                self._send(text)

    def _draw(self, printed: list[str] | None = None, *, body: list[str]) -> None:
        """Prints lines once, above the live ones, and draws what has changed of these."""
        if not self.has_styles:
            return
        with self._lock:
            self._body = body
            live = [*body, *([self._input_line()] if self._typed else [])]
            if not printed and live == self._live:
                return
            same = (
                0
                if printed
                else sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self._live, live, strict=False)))
            )
            same = max(0, min(same, len(self._live) - 1, len(live) - 1))
            text = self._to_live_line(same)
            text += "".join(f"{line}\n" for line in printed or ())
            if live[same:]:  # a line that turns out too wide is cut, not wrapped, so that rows can be counted
                text += "\x1b[?7l" + "\n".join(live[same:]) + "\x1b[?7h"
            self._live, self._columns = live, self.width
            self._send(text)

    def _to_live_line(self, number: int) -> str:
        """Moves from the end of the live lines to the beginning of one of them, and erases from there."""
        if not self._live:
            return ""
        width = self.width
        rows = len(self._live) - 1 - number
        if width < self._columns:  # the terminal was made narrower and has wrapped the lines
            rows = sum(-(-max(_cells(line), 1) // width) for line in self._live[number:]) - 1
        return "\r" + (f"\x1b[{rows}A" if rows > 0 else "") + "\x1b[J"

    def _input_line(self) -> str:
        room, shown = self.width - len(_PROMPT) - 1, self._typed
        while _cells(shown) > room:
            shown = shown[1:]
        return _PROMPT + shown

    def _send(self, text: str) -> None:
        encoding = self._stream.encoding or "utf-8"
        self._stream.write(text.encode(encoding, "replace").decode(encoding))
        self._stream.flush()


def plain(text: str) -> str:
    """The text without characters that would act on the terminal."""
    return _CONTROL.sub("", text)


def _cells(text: str) -> int:
    from prompt_toolkit.utils import get_cwidth

    return get_cwidth(_ESCAPE.sub("", text))
