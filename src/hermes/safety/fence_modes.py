"""The two ways to read: `Cleaning` takes fences out of a whole text, `Scrubbing` hides them in a stream."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hermes.safety.fence_letters import LINE_BREAKS, is_blank_line
from hermes.safety.fence_reader import OPENERS, START_OF_TAG, START_OF_TAG_OR_NOTE, Reader

if TYPE_CHECKING:
    from hermes.safety.fence_reader import Beginning

_USUAL_BEGINNING = 'memory-context nonce="'
_USUAL_NONCE = re.compile(r"[\w-]{0,64}\"?\Z", re.ASCII)
_DEEPEST = 256  # a tag that is indented further is inside its line: looking back further would take quadratic time
_find_suspect = re.compile(f"[&{OPENERS}]").search


def may_begin(text: str) -> bool:
    """Whether a stream in which nothing is held must be read from somewhere in `text` on."""
    suspect = _find_suspect(text)
    return suspect is not None and START_OF_TAG.search(text, suspect.start()) is not None


class Cleaning(Reader):
    """Reads one whole text. What an opening tag precedes stays on the stack, because the tag may never be closed."""

    _start_pattern = START_OF_TAG_OR_NOTE
    _starters = "<&["
    _reads_notes = True

    def read(self, text: str) -> None:
        self._read(text)

    def finish(self) -> str:
        return "".join(self._pieces)

    def _open(self, tag: Beginning, nonce: str) -> None:
        if nonce or self._is_block(tag):
            super()._open(tag, nonce)
        else:
            self._remove(tag)

    def _is_block(self, tag: Beginning) -> bool:
        """Whether a tag without a nonce begins a block: one inside a line, with more of it behind, is a mention."""
        text, at = self._ahead
        follows = text[at : at + 2].removeprefix(";")[:1]  # ";" may end the "&gt" that ended the tag
        if not follows or follows in LINE_BREAKS:
            return True
        start = tag.start - self._base
        return is_blank_line(reversed(self._pieces[max(start - _DEEPEST, 0) : start]))

    def _remove(self, finished: Beginning) -> None:
        super()._remove(finished)
        # A fence that was opened in the middle of this tag went away with it.
        while self._opened and self._opened[-1][1] > finished.start:
            self._forget_opened(len(self._opened) - 1)


class Scrubbing(Reader):
    """Reads a stream. Nothing behind an opening tag is kept: it is shown when the fence has ended, or never."""

    def __init__(self) -> None:
        super().__init__()
        self._visible: list[str] = []
        self.blank = True  # nothing visible stands on the line of what was given out last
        self._tail = ""  # the usual beginning of a tag at the end of a chunk: read when more has come
        self._interrupted: tuple[list[str], int] = ([], 0)  # outer text that may be a tag once the fence is gone

    @property
    def is_quiet(self) -> bool:
        return not self._tail and self._is_idle()

    @property
    def is_inside(self) -> bool:
        return bool(self._opened)

    def read(self, text: str, *, blank: bool) -> str:
        """Return what may be shown now; `blank` says that nothing visible was shown on the current line yet."""
        self.blank = blank
        text = self._tail + text
        split = _usual_tail(text)
        if split == 0 and self._is_idle():
            self._tail = text
            return ""
        self._tail = ""
        self._read(text[:split])
        if self._is_idle():
            self._tail = text[split:]
        else:
            self._read(text[split:])
        return self._give_out()

    def finish(self) -> str:
        self._read(self._tail)
        if self._opened:
            return "".join(self._interrupted[0])
        return "".join(self._pieces)

    def _give_out(self) -> str:
        held_from = self._position() if self._live is None else self._live.root
        count = held_from - self._base
        if not self._opened:
            self._show(self._pieces[:count])
        del self._pieces[:count]
        self._base = held_from
        shown = "".join(self._visible)
        self._visible.clear()
        return shown

    def _plain(self, piece: str) -> None:
        if not self._opened:
            self._pieces.append(piece)

    def _usual(self, text: str, at: int) -> int:
        if self._live is None and not self._opened and (text.startswith("</", at) or not self._starts_line()):
            return 0
        return super()._usual(text, at)

    def _finish_tag(self, tag: Beginning) -> None:
        if self._opened or (not tag.is_closing and self._starts_line(tag.start)):
            super()._finish_tag(tag)
        else:  # somebody talks about the tag
            self._give_up()

    def _starts_line(self, start: int | None = None) -> bool:
        end = len(self._pieces) if start is None else start - self._base
        return is_blank_line((self._pieces[index] for index in range(end - 1, -1, -1)), before=self.blank)

    def _show(self, pieces: list[str]) -> None:
        self.blank = is_blank_line(reversed(pieces), before=self.blank)
        self._visible += pieces

    def _open(self, tag: Beginning, nonce: str) -> None:
        if not self._opened:
            count = tag.root - self._base
            self._show(self._pieces[:count])
            self._interrupted = (self._pieces[count : tag.start - self._base], tag.root)
        super()._open(tag, nonce)
        self._live = None

    def _back_to(self, start: int, below: Beginning | None) -> None:  # noqa: ARG002 - nothing is kept to go back to
        if self._opened:
            # Still inside another fence, where nothing is kept that a beginning could go on with.
            self._live = None
            return
        self._pieces, self._base = self._interrupted
        self._live = below


def _usual_tail(text: str) -> int:
    """Where a tag written in the usual way may begin and not yet end; the length of the text if nowhere."""
    end = len(text)
    if text.endswith("&"):
        return end - 1
    start = text.rfind("<")
    rest = text[start + 1 : start + 100]
    if start < 0 or start + 1 + len(rest) < end:
        return end
    rest = rest.removeprefix("/") if rest and not rest.isspace() else ""
    if len(rest) <= len(_USUAL_BEGINNING):
        return start if _USUAL_BEGINNING.startswith(rest) else end
    is_usual = rest.startswith(_USUAL_BEGINNING) and _USUAL_NONCE.match(rest, len(_USUAL_BEGINNING))
    return start if is_usual else end
