"""One reader for fence tags and notes, in whatever disguise; `fence` uses it to clean texts and to scrub streams.

It reads character by character wherever a tag may be under way and skips the rest, so its answer cannot depend on how
a stream was cut. Text that was read lies on a stack of pieces. Beside it stands what may still become a tag: a chain
of *beginnings*, each resting on the one it interrupted. A finished tag is taken off the stack and the beginning below
goes on where it was, so what a removal joins is read too: `</memory-</memory-context>context>` leaves nothing. Every
character is put on and taken off once, which makes the whole linear.
"""

from __future__ import annotations

import re

from hermes.safety.fence_letters import CLOSING, IGNORED, OPENING, OPENING_LOOKALIKES, decoded, read_as

_TAG, _ENTITY, _NOTE = range(3)

_NAME = "memory-context"
_NAMED = len(_NAME)
_ATTRIBUTES = _NAMED + 1
# Whoever writes "<memory-context" in prose gets the rest of the answer back after this many characters.
_LONGEST_TAG = _ATTRIBUTES + 256
# Both wordings of hermes-agent and our own begin so; what follows up to the bracket is the wording.
_NOTE_TEXT = "[system note: the following is recalled memory context, not new user input."
_WORDING = len(_NOTE_TEXT)
_LONGEST_NOTE = _WORDING + 400
_LONGEST_ENTITY = 12
_ENTITY_AT_ONCE = ("&lt", "&gt")  # readers accept these two without a semicolon

_NONCE = re.compile(r"nonce\s*=\s*[\"']?([^\"'\s/<>]+)", re.IGNORECASE)
_ENTITY_SO_FAR = re.compile(r"&(?:[a-z]+|#[0-9]*|#x[0-9a-f]*)", re.IGNORECASE)
_SELF_CLOSED = re.compile(r"/\s*(?:>|&#?\w+;?)\Z")

# Where reading must start. The look-ahead skips what cannot go on as a tag, which is nearly every "<" in source code.
_GOES_ON = rf"[\s\x00-\x1f\x7f-\U0010ffff<&{OPENING_LOOKALIKES}]|\Z"
_TAG_START = rf"[<{OPENING_LOOKALIKES}](?=[/mM\[;]|{_GOES_ON})|&(?=[#lLaA\[]|{_GOES_ON})"
_START_OF_TAG = re.compile(_TAG_START)
_START_OF_TAG_OR_NOTE = re.compile(rf"{_TAG_START}|\[(?=[sS\[]|{_GOES_ON})")


class _Beginning:
    """Text that may become a tag, an entity or a note: how far it is, where it starts, what it interrupted."""

    __slots__ = ("absorbed_from", "absorber", "below", "is_closing", "kind", "progress", "root", "start", "written")

    def __init__(
        self, kind: int, start: int, below: _Beginning | None, progress: int, *, is_closing: bool = False, written: str = ""
    ) -> None:
        self.kind = kind
        self.start = start
        self.below = below
        self.progress = progress
        self.is_closing = is_closing
        self.written = written
        self.root: int = start if below is None else below.root
        # Who takes this text as its own if it comes to nothing. Known at once, so that giving up is one step.
        self.absorber: _Beginning | None = None
        self.absorbed_from = start
        if below is not None and kind != _TAG:
            if below.takes_anything:
                self.absorber = below
            elif below.kind != _TAG:
                self.absorber, self.absorbed_from = below.absorber, below.absorbed_from

    def after(self, progress: int, *, is_closing: bool | None = None, written: str = "") -> _Beginning:
        closing = self.is_closing if is_closing is None else is_closing
        return _Beginning(self.kind, self.start, self.below, progress, is_closing=closing, written=written)

    @property
    def takes_anything(self) -> bool:
        """Inside attributes or behind the fixed part of a note, where a failed beginning is only more text."""
        return self.progress >= (_WORDING if self.kind == _NOTE else _ATTRIBUTES) and self.kind != _ENTITY


class _Reader:
    _start_pattern = _START_OF_TAG
    _reads_notes = False

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._base = 0  # position of the first piece; pieces before it have been given out
        self._live: _Beginning | None = None
        self._opened: list[tuple[str, int, _Beginning | None]] = []
        self._opened_by: dict[str, list[int]] = {}
        self._with_nonce: list[int] = []
        self._drops_semicolon = False  # a tag ended in "&gt", and a ";" that comes next is part of it

    def _is_idle(self) -> bool:
        return self._live is None and not self._drops_semicolon

    def _read(self, text: str) -> None:
        at, end = 0, len(text)
        while at < end:
            if self._is_idle():
                found = self._start_pattern.search(text, at)
                start = end if found is None else found.start()
                if start > at:
                    self._plain(text[at:start])
                    at = start
                if at == end:
                    return
            self._character(text[at])
            at += 1

    def _plain(self, piece: str) -> None:
        self._pieces.append(piece)

    def _position(self) -> int:
        return self._base + len(self._pieces)

    def _character(self, character: str) -> None:
        if self._drops_semicolon:
            self._drops_semicolon = False
            if character == ";":
                return
        read = read_as(character)
        if read in (OPENING, "&") or (read == "[" and self._reads_notes):
            self._begin(read, self._position())
            self._pieces.append(character)
        elif self._live is not None and self._live.kind == _ENTITY:
            self._in_entity(self._live, character)
        else:
            self._pieces.append(character)
            self._take(read)

    def _begin(self, read: str, start: int) -> None:
        if read == "&":
            self._live = _Beginning(_ENTITY, start, self._live, 0, written="&")
        elif read == OPENING:
            self._live = _Beginning(_TAG, start, self._live, 0)
        else:
            self._live = _Beginning(_NOTE, start, self._live, 1)

    def _in_entity(self, entity: _Beginning, character: str) -> None:
        written = entity.written + character
        if written.lower() in _ENTITY_AT_ONCE:
            self._pieces.append(character)
            self._end_entity(entity, decoded(written))
        elif character == ";":
            self._pieces.append(character)
            self._end_entity(entity, decoded(entity.written))
        elif _ENTITY_SO_FAR.fullmatch(written) and len(written) <= _LONGEST_ENTITY:
            self._pieces.append(character)
            self._live = entity.after(0, written=written)
        else:
            # A number needs no semicolon; anything else that stops here was no entity.
            self._end_entity(entity, decoded(entity.written) if entity.written[1:2] == "#" else None)
            self._character(character)

    def _end_entity(self, entity: _Beginning, meant: str | None) -> None:
        if meant is None:
            self._give_up()
            return
        self._live = entity.below
        if meant in (OPENING, "&") or (meant == "[" and self._reads_notes):
            self._begin(meant, entity.start)
        else:
            self._take(meant)

    def _take(self, read: str) -> None:
        """Offer what was just put on the stack to the newest beginning, and to those below if it fails."""
        while self._live is not None:
            live = self._live
            goes_on = self._on_tag(live, read) if live.kind == _TAG else self._on_note(live, read)
            if goes_on:
                return
            self._give_up(unread=1)

    def _on_tag(self, tag: _Beginning, read: str) -> bool:
        progress = tag.progress
        if read == CLOSING and progress >= _NAMED:
            self._finish_tag(tag)
        elif progress >= _ATTRIBUTES:
            if progress >= _LONGEST_TAG:
                return False
            self._live = tag.after(progress + 1)
        elif read == IGNORED or (progress == 0 and (read.isspace() or read == ";")):
            pass  # ";" may end the "&lt" that began the tag
        elif progress == _NAMED:
            if not (read.isspace() or read == "/"):
                return False
            self._live = tag.after(_ATTRIBUTES)
        elif read == _NAME[progress]:
            self._live = tag.after(progress + 1)
        elif read == "/" and progress == 0 and not tag.is_closing:
            self._live = tag.after(0, is_closing=True)
        else:
            return False
        return True

    def _on_note(self, note: _Beginning, read: str) -> bool:
        progress = note.progress
        if progress >= _WORDING:
            if read == "]":
                self._remove(note)
            elif progress >= _LONGEST_NOTE or read == CLOSING:
                return False
            else:
                self._live = note.after(progress + 1)
            return True
        if read == IGNORED or (read.isspace() and (progress == 1 or _NOTE_TEXT[progress - 1] == " ")):
            return True
        if read.isspace():
            read = " "
        elif _NOTE_TEXT[progress] == " ":
            progress += 1
        if read != _NOTE_TEXT[progress]:
            return False
        self._live = note.after(progress + 1)
        return True

    def _give_up(self, unread: int = 0) -> None:
        """The newest beginning has failed, and with it what it interrupted, unless that takes any text."""
        failed = self._live
        self._live = None
        if failed is not None and failed.absorber is not None:
            absorber = failed.absorber
            progress = absorber.progress + self._position() - unread - failed.absorbed_from
            if progress <= (_LONGEST_NOTE if absorber.kind == _NOTE else _LONGEST_TAG):
                self._live = absorber.after(progress)

    def _finish_tag(self, tag: _Beginning) -> None:
        written = "".join(self._pieces[tag.start - self._base :])
        self._drops_semicolon = self._pieces[-1] in ("t", "T")  # of "&gt"; every other end is itself
        found = _NONCE.search(written)
        nonce = "" if found is None else found.group(1)
        if tag.is_closing:
            self._close(tag, nonce)
        elif _SELF_CLOSED.search("".join(map(read_as, written))):
            self._remove(tag)
        else:
            self._open(tag, nonce)

    def _remove(self, finished: _Beginning) -> None:
        del self._pieces[finished.start - self._base :]
        self._live = finished.below

    def _open(self, tag: _Beginning, nonce: str) -> None:
        self._remove(tag)
        self._opened_by.setdefault(nonce, []).append(len(self._opened))
        if nonce:
            self._with_nonce.append(len(self._opened))
        self._opened.append((nonce, tag.start, tag.below))

    def _close(self, tag: _Beginning, nonce: str) -> None:
        """Take everything back to the newest opening tag with this nonce; without one the tag is only a stray."""
        self._remove(tag)
        same = self._opened_by.get(nonce)
        if not same:
            return
        index = same[-1]
        if not nonce and self._with_nonce and self._with_nonce[-1] > index:
            return  # anybody can write a tag without a nonce: inside a fence that has one it closes nothing
        _, start, below = self._opened[index]
        self._forget_opened(index)
        self._back_to(start, below)

    def _forget_opened(self, index: int) -> None:
        while len(self._opened) > index:
            nonce = self._opened.pop()[0]
            self._opened_by[nonce].pop()
            if nonce:
                self._with_nonce.pop()

    def _back_to(self, start: int, below: _Beginning | None) -> None:
        del self._pieces[start - self._base :]
        self._live = below


class Cleaning(_Reader):
    """Reads one whole text. What an opening tag precedes stays on the stack, because the tag may never be closed."""

    _start_pattern = _START_OF_TAG_OR_NOTE
    _reads_notes = True

    def read(self, text: str) -> None:
        self._read(text)

    def finish(self) -> str:
        return "".join(self._pieces)

    def _remove(self, finished: _Beginning) -> None:
        super()._remove(finished)
        # A fence that was opened in the middle of this tag went away with it.
        while self._opened and self._opened[-1][1] > finished.start:
            self._forget_opened(len(self._opened) - 1)


class Scrubbing(_Reader):
    """Reads a stream. Nothing behind an opening tag is kept: it is shown when the fence has ended, or never."""

    def __init__(self) -> None:
        super().__init__()
        self._visible: list[str] = []
        self._before = ""
        self._mention: _Beginning | None = None
        self._interrupted: tuple[list[str], int] = ([], 0)  # outer text that may be a tag once the fence is gone

    @property
    def is_quiet(self) -> bool:
        return self._is_idle()

    @property
    def is_inside(self) -> bool:
        return bool(self._opened)

    def read(self, text: str, before: str) -> str:
        """Return what may be shown now; `before` is the last character that was shown."""
        self._before = before
        self._read(text)
        return self._give_out()

    def finish(self) -> str:
        if self._mention is not None:
            self._end_mention()
        if self._opened:
            return "".join(self._interrupted[0])
        return "".join(self._pieces)

    def _is_idle(self) -> bool:
        return self._live is None and not self._drops_semicolon and self._mention is None

    def _give_out(self) -> str:
        held_from = self._position()
        if self._mention is not None:
            held_from = self._mention.start
        elif self._live is not None:
            held_from = self._live.root
        count = held_from - self._base
        if not self._opened:
            self._visible += self._pieces[:count]
        del self._pieces[:count]
        self._base = held_from
        shown = "".join(self._visible)
        self._visible.clear()
        return shown

    def _plain(self, piece: str) -> None:
        if not self._opened:
            self._pieces.append(piece)

    def _character(self, character: str) -> None:
        if self._mention is not None:
            if character == "`":
                self._mention = None
            else:
                self._end_mention()
        super()._character(character)

    def _finish_tag(self, tag: _Beginning) -> None:
        # `<memory-context>` in backticks is somebody talking about the tag: a fence goes on with its text.
        is_bare = tag.progress == _NAMED and self._pieces[-1] == CLOSING
        if is_bare and tag.below is None and not self._opened and self._shown_before(tag.start) == "`":
            self._mention = tag
            self._live = None
        else:
            super()._finish_tag(tag)

    def _shown_before(self, start: int) -> str:
        index = start - self._base - 1
        if index >= 0:
            return self._pieces[index][-1]
        return self._visible[-1][-1] if self._visible else self._before

    def _end_mention(self) -> None:
        if self._mention is not None:
            tag, self._mention = self._mention, None
            super()._finish_tag(tag)

    def _open(self, tag: _Beginning, nonce: str) -> None:
        if not self._opened:
            count = tag.root - self._base
            self._visible += self._pieces[:count]
            self._interrupted = (self._pieces[count : tag.start - self._base], tag.root)
        super()._open(tag, nonce)
        self._live = None

    def _back_to(self, start: int, below: _Beginning | None) -> None:
        if self._opened:
            # Still inside another fence, where nothing is kept that a beginning could go on with.
            self._live = None
            return
        self._pieces, self._base = self._interrupted
        self._live = below
