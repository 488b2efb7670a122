"""Shows one turn while it happens; Ctrl-C ends it and leaves a conversation that goes on."""

from __future__ import annotations

import signal
import threading
from contextlib import closing, contextmanager, nullcontext
from typing import TYPE_CHECKING

from hermes.cli import chat_tools
from hermes.cli.questions import read_line
from hermes.cli.render import visible
from hermes.vocabulary.events import (
    Compacted,
    Notice,
    ReasoningDelta,
    Retrying,
    TextDelta,
    ToolCallStarted,
    ToolReturned,
    TurnFinished,
)
from hermes.vocabulary.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from hermes.agent import Agent
    from hermes.cli.chat_screen import Screen
    from hermes.storage.images import Content
    from hermes.vocabulary.events import TurnEvent

_ASK = "[y]es, [n]o, [a]lways for this: "


class TurnView:
    """Remembers the tool calls it has shown, by number, so that one can be looked at as a whole."""

    def __init__(
        self, screen: Screen, *, pause_typing: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        """`pause_typing` lends the keyboard to a question that is asked in the middle of a turn."""
        self.screen = screen
        self.calls: list[ToolReturned] = []
        self._asking = threading.Lock()
        self._allowed: set[str] = set()
        self._agent: Agent | None = None
        self._pause_typing = pause_typing

    def run(self, agent: Agent, text: Content) -> TurnFinished | None:
        """The end of the turn, or None when Ctrl-C, pressed twice, did not leave it time for one."""
        self._agent = agent
        self.screen.wait(f"waiting for {agent.model.name} … (Ctrl-C stops)")
        try:
            with _interrupting(agent), closing(agent.turn(text)) as events:  # type: ignore[type-var]
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
                self.screen.line("(stopped; the conversation goes on from here)", "dim")
            case TurnFinished(reason="length"):
                self.screen.line("(the answer was cut off: it reached its longest length)", "dim")
            case _:
                pass

    def _show_call(self, returned: ToolReturned) -> None:
        self.calls.append(returned)
        worked, end = chat_tools.outcome(returned)
        mark = "ok" if worked else "failed"
        line = f"  [{len(self.calls)}] {chat_tools.summary(returned)} · {mark}: {end}"
        if worked:
            self.screen.fitted(line, "dim")
        else:
            self.screen.line(line, "yellow")

    def _show_retry(self, event: Retrying) -> None:
        """One line that counts, where a line can be drawn again; elsewhere one line, the first time."""
        if self.screen.is_answering:
            self.screen.line("(the answer broke off and begins again)", "dim")
        if event.retry and self.screen.has_styles:
            self.screen.wait(f"({retrying_in_words(event)})")
        elif event.retry <= 1:
            self.screen.line(f"({retrying_in_words(event, once=True)})", "dim")

    def expand(self, number: int = 0) -> None:
        """The whole of a tool call; the newest without a number."""
        if not self.calls:
            self.screen.line("no tool has been called yet", "dim")
        elif not 0 <= number <= len(self.calls):
            self.screen.line(f"there are calls 1 to {len(self.calls)}", "dim")
        else:
            self.screen.line(f"[{number or len(self.calls)}] {chat_tools.whole(self.calls[number - 1])}")

    def ask(self, question: str) -> bool:
        """Asks the person whether a tool may do something; Ctrl-C means no, and ends the turn."""
        with self._asking:  # delegated tasks may ask at the same time
            if question in self._allowed:
                return True
            try:
                with self._pause_typing(), _plain_ctrl_c():
                    self.screen.line(visible(question), "bold")  # also what would hide a part of the command
                    said = read_line(_ASK).strip().lower()
            except (KeyboardInterrupt, EOFError):
                self.screen.line()
                if self._agent is not None:
                    self._agent.interrupt()
                return False
            if said in ("a", "always"):
                self._allowed.add(question)
            return said in ("y", "yes", "a", "always")


def retrying_in_words(event: Retrying, *, once: bool = False) -> str:
    """The counter first, because a long reason is cut; `once`: for a line that the next retry does not replace."""
    if not event.retry:
        return f"{event.error}; asking {event.model}"
    if once:
        return f"{event.error}; trying again, up to {event.retries} times"
    when = f" in {event.seconds:.0f} s" if event.seconds else ""
    return f"retry {event.retry} of {event.retries}{when}: {event.error}"


def compacted_in_words(done: Compacted) -> str:
    return (
        f"compacted: {counted(done.messages, 'message')} became a summary by {done.how}, {done.tokens_before:,} tokens"
        f" became {done.tokens_after:,}; nothing is lost, the originals can be searched"
    )


@contextmanager
def _interrupting(agent: Agent) -> Iterator[None]:
    """The first Ctrl-C asks the turn to end at a sound place; a second one does not wait for that."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []

    def on_press(*_: object) -> None:
        pressed.append(1)
        if len(pressed) > 1:
            raise KeyboardInterrupt
        agent.interrupt()

    before = signal.signal(signal.SIGINT, on_press)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _plain_ctrl_c() -> Iterator[None]:
    """Ctrl-C ends the question at once, as it does in any program; only the main thread can say so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
