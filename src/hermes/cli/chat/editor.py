"""Reads what a person types in the chat: a line editor, and keys typed while an answer is being written."""

from __future__ import annotations

import codecs
import os
import re
import select
import sys
import termios
import threading
import tty
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.completion import Completer, Completion
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.styles import Style

from hermes.safety.fence import without_private
from hermes.storage.files import Folder, keep_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document
    from prompt_toolkit.key_binding import KeyPressEvent

    from hermes.settings.home import Home

HISTORY = "chat_history"
# Escape sequences of keys: Alt-Enter becomes a newline, arrows and other keys that are not text are left out.
_ALT_ENTER = re.compile("\x1b[\r\n]")
# Sequences such as those of arrows (Escape [) and F1 (Escape O), Alt with a key, or a lone Escape.
_KEY = re.compile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|O.|.)?", re.DOTALL)
_BACKSPACES, _CTRL_U, _CTRL_W = "\x08\x7f", "\x15", "\x17"  # terminals send either character for Backspace
_ESCAPE, _CTRL_D = "\x1b", "\x04"
_BETWEEN_KEYS = 0.15  # seconds; keys that follow each other faster are typing, not an answer
# prompt_toolkit shows a status line in reverse video unless told otherwise.
_LOOK = Style.from_dict({"bottom-toolbar": "noreverse", "bottom-toolbar.text": "noreverse"})


class Editor:
    """The chat's input line, with history, completion, several lines and a status line below."""

    def __init__(
        self,
        home: Home,
        commands: Mapping[str, str],
        *,
        words_for: Callable[[str], Iterable[str]],
        status: Callable[[], str],
        expand: Callable[[], None],
    ) -> None:
        """`commands` maps names to a line of help; `words_for` offers words after a command; `expand` is for Ctrl-O."""
        Folder.create(home.path).close()
        path = home.join(HISTORY)
        # Made here, because prompt_toolkit would make a file that others may read.
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        keep_private(path)
        self._session: PromptSession[str] = PromptSession(
            history=_History(path),
            completer=_Commands(commands, words_for),
            complete_while_typing=Condition(lambda: self._session.default_buffer.text.startswith("/")),
            key_bindings=_keys(expand),
            multiline=True,
            prompt_continuation="… ",
            bottom_toolbar=status,
            style=_LOOK,
            reserve_space_for_menu=4,
            enable_open_in_editor=True,
        )

    def read(self, typed: str = "") -> str:
        """Reads what the person types; the line begins with `typed`, which they can edit.

        Ctrl-C on an empty line raises KeyboardInterrupt, Ctrl-D raises EOFError.
        """
        return self._session.prompt("> ", default=typed).strip()

    def change(self, text: str) -> str | None:
        """Lets the person edit a text; None when they press Ctrl-C or Ctrl-D. The text does not enter the history."""
        keys = _keys(lambda: None)

        @keys.add("c-c")  # leaves at once; in a line of the chat it first clears the line
        def _(event: KeyPressEvent) -> None:
            event.app.exit(exception=KeyboardInterrupt)

        session: PromptSession[str] = PromptSession(
            key_bindings=keys, multiline=True, prompt_continuation="… ", enable_open_in_editor=True
        )
        try:
            return session.prompt("edit: ", default=text).strip()
        except (EOFError, KeyboardInterrupt):
            return None


class Typeahead:
    """Keeps what a person types while an answer is being written, for the next input line.

    Enter does not send it: the answer may end with something the person has not read yet. `show` is called with the
    text whenever it changes, from another thread. Without a terminal nothing happens.
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._text = ""
        self._modes: list[Any] = []  # the terminal's modes before `start`
        self._wake = -1
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begins to collect keys in a thread; Ctrl-C still interrupts. Without a terminal, does nothing."""
        if self._thread is not None or sys.stdin is None or not sys.stdin.isatty():
            return
        terminal = sys.stdin.fileno()
        self._modes = _hush(terminal)
        woken, self._wake = os.pipe()
        self._thread = threading.Thread(target=self._listen, args=(terminal, woken), name="typeahead", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops collecting and restores the terminal; what was typed is kept for `take`."""
        thread, self._thread = self._thread, None  # first, so that Ctrl-C in the next lines cannot stop it twice
        if thread is None:
            return
        os.close(self._wake)
        thread.join()
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, self._modes)

    def take(self) -> str:
        """Stops collecting, and returns and forgets what was typed."""
        self.stop()
        text, self._text = self._text, ""
        self._show("")
        return text.strip("\n")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Frees the keyboard for a question: keys typed before it appeared must not answer it."""
        running = self._thread is not None
        self.stop()
        try:
            self._show("")
            yield
        finally:
            if running:
                self._show(self._text)
                self.start()

    def key(self, choices: str, show: Callable[[], None]) -> str:
        """Waits for one of the keys in `choices`; "" when the person leaves with Escape, Ctrl-C or Ctrl-D.

        `show` prints the question; echo is off by then, so that a key pressed at once does not appear after it. Keys in
        quick succession are typing, not an answer: a person who is still writing when the question appears must not
        agree to anything with a letter of a word. They are kept for the next input line. Call it while `paused`.
        """
        with _quiet(sys.stdin.fileno()) as terminal:
            show()
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            try:
                while True:
                    data = os.read(terminal, 4096)
                    while (
                        data
                        and select.select([terminal], [], [], _BETWEEN_KEYS)[0]
                        and (more := os.read(terminal, 4096))
                    ):
                        data += more
                    typed = decoder.decode(data)
                    if not data or typed in (_ESCAPE, _CTRL_D):
                        return ""
                    if (pressed := typed.rstrip("\r\n").lower()) and len(pressed) == 1 and pressed in choices:
                        return pressed
                    if len(typed) > 1:
                        self._text = edited(self._text, typed)
                        self._show(self._text)
            except KeyboardInterrupt:
                return ""

    def _listen(self, terminal: int, woken: int) -> None:
        """Collects keys until `stop` closes its end of the pipe, which wakes this thread."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        try:
            while True:
                ready, _, _ = select.select([terminal, woken], [], [])
                if terminal in ready:
                    data = os.read(terminal, 4096)
                    if not data:  # the terminal is gone
                        return
                    self._text = edited(self._text, decoder.decode(data))
                    self._show(self._text)
                elif woken in ready:
                    return
        except OSError:
            return
        finally:
            os.close(woken)


def _hush(terminal: int) -> list[Any]:
    """Makes keys arrive one by one and without echo, with Ctrl-C still a signal; returns the modes before."""
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal, termios.TCSANOW)
    return before


@contextmanager
def _quiet(terminal: int) -> Iterator[int]:
    before = _hush(terminal)
    try:
        yield terminal
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)


def edited(text: str, keys: str) -> str:
    """Applies keys typed at the end of an input line to its text."""
    for key in _KEY.sub("", _ALT_ENTER.sub("\n", keys)):
        if key in _BACKSPACES:
            text = text[:-1]
        elif key == _CTRL_U:
            text = text[: text.rfind("\n") + 1]
        elif key == _CTRL_W:
            text = re.sub(r"\S*\s*$", "", text)
        elif key in "\r\n\t" or key.isprintable():
            text += "\n" if key == "\r" else key
    return text


class _History(FileHistory):
    """The history of typed lines; private parts can be recalled in this process but are not written to disk."""

    def store_string(self, string: str) -> None:
        super().store_string(without_private(string))


class _Commands(Completer):
    """Completes slash commands, and what may follow one of them."""

    def __init__(self, commands: Mapping[str, str], words_for: Callable[[str], Iterable[str]]) -> None:
        self._commands = commands
        self._words_for = words_for

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        del complete_event
        text = document.text_before_cursor
        if not text.startswith("/") or "\n" in text:
            return
        command, space, rest = text.partition(" ")
        if space:
            for word in self._words_for(command):
                if word.lower().startswith(rest.lower()):
                    yield Completion(word, start_position=-len(rest))
            return
        for name, told in self._commands.items():
            if name.startswith(text):
                yield Completion(name, start_position=-len(text), display_meta=told)


def _keys(expand: Callable[[], None]) -> KeyBindings:
    """The keys of an input line: Enter sends, unless it picks a completion or the line ends in a backslash."""
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state and buffer.complete_state.current_completion:
            buffer.complete_state = None
        elif buffer.document.current_line_before_cursor.endswith("\\") and buffer.document.is_cursor_at_the_end:
            buffer.delete_before_cursor()
            buffer.newline()
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.newline()

    @keys.add("c-c")
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt)

    @keys.add("c-o")
    def _(event: KeyPressEvent) -> None:
        del event
        run_in_terminal(expand)

    return keys
