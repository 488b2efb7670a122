"""The line editor of the chat: history, completion, several lines, and a status line below."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.completion import Completer, Completion
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.styles import Style

from hermes.safety.private import without_private
from hermes.storage.files import Folder
from hermes.storage.privacy import keep_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document
    from prompt_toolkit.key_binding import KeyPressEvent

    from hermes.settings.home import Home

HISTORY = "chat_history"
_LOOK = Style.from_dict({"bottom-toolbar": "noreverse", "bottom-toolbar.text": "noreverse"})


class Editor:
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

    def read(self) -> str:
        """What the person typed. Ctrl-C on an empty line raises KeyboardInterrupt, Ctrl-D raises EOFError."""
        return self._session.prompt("> ").strip()


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
