"""The line editor of the chat: history, completion, several lines, and a status line below."""

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
# Keys that are not text: Alt-Enter becomes a newline, arrows and the like are left out.
_ALT_ENTER = re.compile("\x1b[\r\n]")
_KEY = re.compile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|O.|.)?", re.DOTALL)
_BACKSPACES, _CTRL_U, _CTRL_W = "\x08\x7f", "\x15", "\x17"
_ESCAPE, _CTRL_D = "\x1b", "\x04"
_BETWEEN_KEYS = 0.15  # seconds; people type faster
_LOOK = Style.from_dict({"bottom-toolbar": "noreverse", "bottom-toolbar.text": "noreverse"})


class Editor:
    """The chat's input line: history, completion, several lines."""

    def __init__(
        self,
        home: Home,
        commands: Mapping[str, str],
        *,
        words_for: Callable[[str], Iterable[str]],
        status: Callable[[], str],
        expand: Callable[[], None],
    ) -> None:
        """`commands` are names with one line of help; `words_for` completes what follows one of them."""
        Folder.create(home.path).close()
        path = home.join(HISTORY)
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
        """What the person types, beginning with `typed`.

        Ctrl-C on an empty line raises KeyboardInterrupt, Ctrl-D raises EOFError.
        """
        return self._session.prompt("> ", default=typed).strip()

    def change(self, text: str) -> str | None:
        """The text as the person leaves it; None when they press Ctrl-C or Ctrl-D. It is no line of the history."""
        keys = _keys(lambda: None)

        @keys.add("c-c")  # here it leaves at once, where in a line of the chat it first clears it
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
        self._modes: list[Any] = []  # of the terminal, as they were
        self._wake = -1
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._thread is not None or sys.stdin is None or not sys.stdin.isatty():
            return
        terminal = sys.stdin.fileno()
        self._modes = _hush(terminal)
        woken, self._wake = os.pipe()
        self._thread = threading.Thread(target=self._listen, args=(terminal, woken), name="typeahead", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        thread, self._thread = self._thread, None  # first, because Ctrl-C may come in between
        if thread is None:
            return
        os.close(self._wake)
        thread.join()
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, self._modes)

    def take(self) -> str:
        """Stops, and gives what was typed."""
        self.stop()
        text, self._text = self._text, ""
        self._show("")
        return text.strip("\n")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """While a question is asked: what was typed before is no answer to it."""
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
        """The one of these keys that the person presses; "" when they leave with Escape, Ctrl-C or Ctrl-D.

        `show` prints the question; a key that is pressed as soon as it stands there is not echoed behind it.
        Keys in quick succession are typing and no answer: whoever writes on while the question appears must not agree
        to anything by a letter of a word. They are kept for the next input line. To be asked while `paused`.
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
    """Has keys arrive one by one and unseen, with Ctrl-C still a signal; returns the modes as they were."""
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
    """The text of an input line after these keys, which are typed at its end."""
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
    """Lines typed before; private parts can be called back in this process and are not written down."""

    def store_string(self, string: str) -> None:
        super().store_string(without_private(string))


class _Commands(Completer):
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
