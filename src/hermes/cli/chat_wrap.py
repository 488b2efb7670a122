"""Breaks an answer into lines at words while it is still arriving, for terminals of any width."""

from __future__ import annotations

from prompt_toolkit.utils import get_cwidth

_FENCE = "```"
_WIDE = 2


class WordWrap:
    """Feed pieces, write what comes back. Code between fences is left as it is, so that it can be copied."""

    def __init__(self, width: int) -> None:
        self._width = max(width, 10)
        self._column = 0
        self._word = ""
        self._line = ""  # the line as the model writes it, to see a fence
        self._in_code = False

    @property
    def at_start(self) -> bool:
        return self._column == 0 and not self._word

    def feed(self, text: str) -> str:
        return "".join(self._one(character) for character in text)

    def flush(self) -> str:
        """What is still held back, because its word might have gone on."""
        size = get_cwidth(self._word)
        broken = "\n" if self._column and self._column + size > self._width else ""
        shown, self._word = broken + self._word, ""
        self._column = size if broken else self._column + size
        return shown

    def _one(self, character: str) -> str:
        if character == "\n":
            shown = self.flush() + "\n"
            if self._line.lstrip().startswith(_FENCE):
                self._in_code = not self._in_code
            self._line, self._column = "", 0
            return shown
        self._line += character
        if self._in_code or self._line.lstrip().startswith(_FENCE):
            return self.flush() + character
        if character == " ":
            return self._space()
        if get_cwidth(character) >= _WIDE:  # scripts without spaces break between any two characters
            before = self.flush()
            self._word = character
            return before + self.flush()
        self._word += character
        return self._whole_line() if get_cwidth(self._word) >= self._width else ""

    def _space(self) -> str:
        shown = self.flush()
        if self._column >= self._width:  # the break stands for the space
            return shown
        self._column += 1
        return shown + " "

    def _whole_line(self) -> str:
        """A word as long as a line, such as an address, is not held back any longer."""
        return self.flush()
