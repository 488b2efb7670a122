"""Shows a turn in the chat while it happens: the answer as it arrives, a line for each tool call, notices."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import threading
import time
from contextlib import closing, contextmanager, nullcontext
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from prompt_toolkit.utils import get_cwidth

from hermes.base.events import (
    Compacted,
    Notice,
    ReasoningDelta,
    Retrying,
    TextDelta,
    ToolCallStarted,
    ToolReturned,
    TurnFinished,
)
from hermes.base.text import counted
from hermes.cli import ui
from hermes.cli.chat.wrap import WordWrap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from typing import TextIO

    from hermes.agent import Agent
    from hermes.base.events import TurnEvent
    from hermes.cli.chat.markdown import MarkdownStream
    from hermes.storage.images import Content

# On a terminal with styles the last lines are live: the unfinished block of the answer, or a note on what we wait for,
# and what the person types meanwhile. Only these are redrawn. Everything above them is printed once and scrolls away.

_STYLES = {"dim": "2", "bold": "1", "red": "31", "green": "32", "cyan": "36", "yellow": "33"}
# Control characters other than newline and tab: the text of a model or a tool must not control the terminal.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ESCAPE = re.compile("\x1b\\[[0-9;]*m")  # styles, which take no columns
_NARROWEST = 20  # columns, and below it rows, that are assumed at least
_LEAST_ROWS = 4
_REST = 4  # after drawing, wait this many times as long as it took: a fast model must not keep a core busy
_PROMPT = "> "


class Screen:
    """Writes to one stream. A terminal gets wrapped lines and rendered Markdown, unless `plain` or NO_COLOR is set."""

    def __init__(self, stream: TextIO | None = None, *, plain: bool = False) -> None:
        self._stream = stream or sys.stdout
        self.is_terminal = self._stream.isatty()
        self.has_styles = not plain and ui.has_styles(self._stream)
        self._lock = threading.RLock()  # another thread draws what a person types
        self._wrap: WordWrap | None = None
        self._markdown: MarkdownStream | None = None
        self._body: list[str] = []  # live lines of the answer, or a note on what we wait for
        self._typed = ""
        self._live: list[str] = []  # the lines that are on the screen and may be drawn again
        self._columns = 0
        self._next = 0.0
        self._last = "\n"

    @property
    def width(self) -> int:
        """The columns of the terminal now; people resize it."""
        return max(_NARROWEST, shutil.get_terminal_size().columns)

    def styled(self, text: str, style: str) -> str:
        """Puts a style around a text, where styles are allowed."""
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self.has_styles and text else text

    def line(self, text: str = "", style: str = "") -> None:
        """Prints a line, or several, after ending the answer that was being streamed."""
        self.end_answer()
        shown = plain(text)
        if self.is_terminal:
            wrap = WordWrap(self.width)
            shown = wrap.feed(shown) + wrap.flush()
        self._write((self.styled(shown, style) if style else shown) + "\n")

    def fitted(self, text: str, style: str = "") -> None:
        """Prints one line, cut to the width instead of wrapped."""
        shown = " ".join(text.split("\n"))
        if self.is_terminal and len(shown) > self.width:
            shown = shown[: self.width - 1] + "…"
        self.line(shown, style)

    def wait(self, text: str) -> None:
        """Shows what is awaited until anything else is written; only on terminals where it can be erased."""
        self.end_answer()
        if self.has_styles:
            shown = plain(text.partition("\n")[0])
            shown = shown if len(shown) < self.width else shown[: self.width - 2] + "…"
            self._draw(body=[self.styled(shown, "dim")])

    def answer(self, piece: str) -> None:
        """Shows the next piece of an answer, rendered as Markdown where lines can be redrawn."""
        if self.has_styles:
            self._answer_in_markdown(plain(piece))
            return
        if self._wrap is None:
            self._wrap = WordWrap(self.width if self.is_terminal else sys.maxsize)
        self._write(self._wrap.feed(plain(piece)) if self.is_terminal else plain(piece))

    @property
    def is_answering(self) -> bool:
        """Whether an answer was begun and not ended with `end_answer`."""
        return self._wrap is not None or self._markdown is not None

    def end_answer(self) -> None:
        """Prints the rest of an answer."""
        wrap, self._wrap = self._wrap, None
        if wrap is not None:
            self._write(wrap.flush())
            self._write("" if self._last == "\n" else "\n")
        markdown, self._markdown = self._markdown, None
        if markdown is not None:
            self._draw(markdown.rest(self.width), body=[])

    def erase(self) -> None:
        """Erases the text of `wait`."""
        if self._live:
            self._draw(body=[])

    def show_typed(self, text: str) -> None:
        """Shows below the answer what the person types while it is being written."""
        with self._lock:
            self._typed = plain(text).replace("\n", "⏎").replace("\t", " ")
            self._draw(body=self._body)

    def clear(self) -> None:
        """Clears a terminal that can be cleared."""
        if self.is_terminal and os.environ.get("TERM") != "dumb":
            self._send("\x1b[2J\x1b[H")  # erase the screen, and move to its first row

    def _answer_in_markdown(self, piece: str) -> None:
        """Adds a piece to the answer, and draws it, unless it was drawn a moment ago."""
        if self._markdown is None:
            from hermes.cli.chat.markdown import MarkdownStream

            self._markdown = MarkdownStream()
        self._markdown.feed(piece)
        began = time.monotonic()
        if began < self._next:
            return
        width, rows = self.width, shutil.get_terminal_size().lines
        done = self._markdown.finished(width)
        # The last row shows what the person types.
        self._draw(done, body=self._markdown.unfinished(width, max(rows, _LEAST_ROWS) - 2))
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
        """Prints lines once, above the live ones, and redraws those live lines that have changed."""
        if not self.has_styles:
            return
        with self._lock:
            self._body = body
            live = [*body, *([self._input_line()] if self._typed else [])]
            if not printed and live == self._live:
                return
            agreeing = takewhile(lambda pair: pair[0] == pair[1], zip(self._live, live, strict=False))
            same = 0 if printed else max(0, min(sum(1 for _ in agreeing), len(self._live) - 1, len(live) - 1))
            text = self._to_live_line(same)
            text += "".join(f"{line}\n" for line in printed or ())
            if live[same:]:  # without wrapping, so that a line is one row and `_to_live_line` can count them
                text += "\x1b[?7l" + "\n".join(live[same:]) + "\x1b[?7h"
            self._live, self._columns = live, self.width
            self._send(text)

    def _to_live_line(self, number: int) -> str:
        """Moves from the end of the live lines to the beginning of one of them, and erases from there."""
        if not self._live:
            return ""
        width = self.width
        rows = len(self._live) - 1 - number
        if width < self._columns:  # the terminal was made narrower and has wrapped the lines: count rows, rounded up
            rows = sum(-(-max(_cells(line), 1) // width) for line in self._live[number:]) - 1
        return "\r" + (f"\x1b[{rows}A" if rows > 0 else "") + "\x1b[J"

    def _input_line(self) -> str:
        """The end of what the person has typed so far, as much as fits into the line."""
        room, shown = self.width - len(_PROMPT) - 1, self._typed
        while _cells(shown) > room:
            shown = shown[1:]
        return _PROMPT + shown

    def _send(self, text: str) -> None:
        encoding = self._stream.encoding or "utf-8"
        self._stream.write(text.encode(encoding, "replace").decode(encoding))
        self._stream.flush()


def plain(text: str) -> str:
    """Removes characters that would control the terminal."""
    return _CONTROL.sub("", text)


def _cells(text: str) -> int:
    return get_cwidth(_ESCAPE.sub("", text))


_LONGEST_VALUE = 40  # characters of one argument in the line of a tool call
_LONGEST_OUTCOME = 100  # characters of its result there


def summary(returned: ToolReturned) -> str:
    """A tool call in a few words: `memory add user “Prefers short answers.”`."""
    given = _parsed(returned.call.arguments)
    if not isinstance(given, dict):
        return returned.call.name
    return " ".join([returned.call.name, *(_short(each) for each in given.values() if each not in (None, "", [], {}))])


def outcome(returned: ToolReturned) -> tuple[bool, str]:
    """Whether a call worked, and its result: in a few words, or the whole reason for a failure."""
    result = _parsed(returned.result)
    if not isinstance(result, dict):
        return True, ui.cut(returned.result, _LONGEST_OUTCOME)
    worked = result.get("success", True) is not False and not result.get("error")
    if worked and result.get("staged"):
        return True, "waits for you"
    if "exit_code" in result and not result.get("error"):
        printed = str(result.get("output") or "").strip().splitlines()
        return worked, ui.cut(
            f"exit code {result['exit_code']}{f', {printed[-1]}' if printed else ''}", _LONGEST_OUTCOME
        )
    for name in ("error", "message", "summary", "note"):
        if isinstance(result.get(name), str) and result[name]:
            return worked, ui.cut(result[name], _LONGEST_OUTCOME) if worked else result[name].strip()
    for name, found in result.items():
        if isinstance(found, list):
            return worked, f"{len(found):,} {name}"
    return worked, "done" if worked else "failed"


def whole(returned: ToolReturned) -> str:
    """A whole tool call: its arguments and its result, indented where they are JSON."""
    return f"{returned.call.name} {_pretty(returned.call.arguments)}\n→ {_pretty(returned.result)}"


def _short(given: Any) -> str:
    if isinstance(given, bool | int | float):
        return str(given)
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return text if text.isidentifier() else f"“{ui.cut(text, _LONGEST_VALUE)}”"


def _pretty(text: str) -> str:
    parsed = _parsed(text)
    return text if parsed is None else json.dumps(parsed, ensure_ascii=False, indent=2)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


_ASK = "[y]es, [n]o, [a]lways for this: "


class TurnView:
    """Shows turns; numbers the tool calls it shows, so that a person can expand one."""

    def __init__(
        self, screen: Screen, *, pause_typing: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        """`pause_typing` frees the keyboard for a question in the middle of a turn."""
        self.screen = screen
        self.calls: list[ToolReturned] = []
        self._asking = threading.Lock()
        self._allowed: set[str] = set()
        self._agent: Agent | None = None
        self._pause_typing = pause_typing

    def run(self, agent: Agent, text: Content, *, attached: str = "") -> TurnFinished | None:
        """Runs and shows a turn; returns its end, or None if a second Ctrl-C stopped it before its end."""
        self._agent = agent
        self.screen.wait(f"waiting for {agent.model.name} … (Ctrl-C stops)")
        try:
            turn = agent.turn(text, attached=attached)
            with _on_ctrl_c(_interrupting(agent)), closing(turn) as events:  # type: ignore[type-var]
                for event in events:
                    self.show(event)
                    if isinstance(event, TurnFinished):
                        return event
        except KeyboardInterrupt:
            self.screen.line("(stopped)", "dim")
        finally:
            self.screen.end_answer()
        return None

    def show(self, event: TurnEvent) -> None:
        """Shows one event of the turn: text, a tool call, a retry, a notice or the end."""
        match event:
            case TextDelta(text=text):
                self.screen.answer(text)
            case ReasoningDelta():
                self.screen.wait("thinking …")
            case ToolCallStarted(name=name):
                self.screen.wait(f"{name} …")
            case ToolReturned():
                self._show_call(event)
            case Retrying():
                self._show_retry(event)
            case Compacted():
                pass  # the notice that comes with it says what was kept
            case Notice(text=text):
                self.screen.line(f"({text})", "dim")
            case TurnFinished(reason="interrupted"):
                self.screen.line("(stopped; the conversation continues from here)", "dim")
            case TurnFinished(reason="length"):
                self.screen.line("(the answer was cut off: it reached its longest length)", "dim")
            case _:
                pass

    def _show_call(self, returned: ToolReturned) -> None:
        self.calls.append(returned)
        worked, end = outcome(returned)
        mark = "ok" if worked else "failed"
        line = f"  [{len(self.calls)}] {summary(returned)} · {mark}: {end}"
        if worked:
            self.screen.fitted(line, "dim")
        else:
            self.screen.line(line, "yellow")

    def _show_retry(self, event: Retrying) -> None:
        """Shows retries in one line with a counter; where lines cannot be redrawn, only the first retry."""
        if self.screen.is_answering:
            self.screen.line("(the answer was interrupted and starts again)", "dim")
        if event.retry and self.screen.has_styles:
            self.screen.wait(f"({retrying_in_words(event)})")
        elif event.retry <= 1:
            self.screen.line(f"({retrying_in_words(event, once=True)})", "dim")

    def expand(self, number: int = 0) -> None:
        """Prints a whole tool call; 0 means the newest."""
        if not self.calls:
            self.screen.line("no tool has been called yet", "dim")
        elif not 0 <= number <= len(self.calls):
            self.screen.line(f"there are tool calls 1 to {len(self.calls)}", "dim")
        else:
            self.screen.line(f"[{number or len(self.calls)}] {whole(self.calls[number - 1])}")

    def ask(self, question: str) -> bool:
        """Asks the person whether a tool may do something; Ctrl-C means no, and ends the turn."""
        with self._asking:  # delegated tasks may ask at the same time
            if question in self._allowed:
                return True
            try:
                with self._pause_typing(), _on_ctrl_c(signal.default_int_handler):
                    self.screen.line(ui.visible(question), "bold")  # no character may hide a part of the command
                    said = ui.read_line(_ASK).strip().lower()
            except (KeyboardInterrupt, EOFError):
                self.screen.line()
                if self._agent is not None:
                    self._agent.interrupt()
                return False
            if said in ("a", "always"):
                self._allowed.add(question)
            return said in ("y", "yes", "a", "always")


def retrying_in_words(event: Retrying, *, once: bool = False) -> str:
    """Says what is retried, counter first because a long reason is cut; `once` if later retries are not shown."""
    if not event.retry:
        return f"{event.error}; asking {event.model}"
    if once:
        return f"{event.error}; trying again, up to {event.retries} times"
    when = f" in {event.seconds:.0f} s" if event.seconds else ""
    return f"retry {event.retry} of {event.retries}{when}: {event.error}"


_SUMMARIES = {
    "extract": "a summary made of quotes, without a model",
    "helper": "a summary by the helper model",
    "main": "a summary by the model of this chat",
}


def compacted_in_words(done: Compacted) -> str:
    """Says what a compaction replaced and how many tokens it freed."""
    who, _, pieces = done.how.partition(" in ")
    summary = _SUMMARIES.get(who, f"a summary by {who}") + (f", in {pieces}" if pieces else "")
    return (
        f"compacted: {counted(done.messages, 'message')} became {summary}; {done.tokens_before:,} tokens"
        f" became {done.tokens_after:,}; nothing is lost, the originals can be searched"
    )


def _interrupting(agent: Agent) -> Callable[..., None]:
    """Makes a handler: the first Ctrl-C lets the turn end in a consistent state, a second one does not wait."""
    pressed: list[int] = []

    def handler(*_: object) -> None:
        pressed.append(1)
        if len(pressed) > 1:
            raise KeyboardInterrupt
        agent.interrupt()

    return handler


@contextmanager
def _on_ctrl_c(handler: Callable[..., Any]) -> Iterator[None]:
    """Sets what Ctrl-C does inside the block; in other threads, where Python forbids that, nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
