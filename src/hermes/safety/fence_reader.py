"""One reader for fence tags and notes, in whatever disguise; `fence_modes` cleans texts and scrubs streams with it.

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
NAMED = len(_NAME)
_ATTRIBUTES = NAMED + 1
# Whoever writes "<memory-context" in prose gets the rest of the answer back after this many characters.
_LONGEST_TAG = _ATTRIBUTES + 256
# Both wordings of hermes-agent and our own begin so; what follows up to the bracket is the wording.
_NOTE_TEXT = "[system note: the following is recalled memory context, not new user input."
_WORDING = len(_NOTE_TEXT)
_LONGEST_NOTE = _WORDING + 400
_LONGEST_ENTITY = 12

_NONCE = re.compile(r"nonce\s*=\s*[\"']?([^\"'\s/<>]+)", re.IGNORECASE)
_ENTITY_SO_FAR = re.compile(r"&(?:[a-z]+|#[0-9]*|#x[0-9a-f]*)", re.IGNORECASE)
_SELF_CLOSED = re.compile(r"/\s*(?:>|&#?\w+;?)\Z")

# Where reading must start. The look-ahead skips what cannot go on, which is nearly every "<" and "&" in source code.
OPENERS = f"<{OPENING_LOOKALIKES}"
_TAG_START = (
    rf"[{OPENERS}](?![\s;{OPENERS}]{{0,8}}[!-%'-.0-:=-LN-Z\\-ln-~])"  # neither "/" nor "m" nor another beginning
    rf"|&(?!&{{0,3}}[^#lLaA\[&{OPENERS}])"
)
START_OF_TAG = re.compile(_TAG_START)
START_OF_TAG_OR_NOTE = re.compile(_TAG_START + r"|\[(?![!-%'-;=-RT-Z\\-rt-~])")

# What programs really write can be taken in long steps; the result is the one that single characters would have.
_USUAL_TAG = re.compile(r"<(/?)memory-context(?: nonce=\"([\w-]{1,64})\")?>", re.ASCII)
_USUAL_ATTRIBUTES = re.compile(r"[\w\"= -]+", re.ASCII)


class Beginning:
    """Text that may become a tag, an entity or a note: how far it is, where it starts, what it interrupted."""

    __slots__ = ("absorbed_from", "absorber", "below", "is_closing", "kind", "progress", "root", "start", "written")

    def __init__(
        self,
        kind: int,
        start: int,
        below: Beginning | None,
        progress: int,
        *,
        is_closing: bool = False,
        written: str = "",
    ) -> None:
        self.kind = kind
        self.start = start
        self.below = below
        self.progress = progress
        self.is_closing = is_closing
        self.written = written
        self.root: int = start if below is None else below.root
        # Who takes this text as its own if it comes to nothing. Known at once, so that giving up is one step.
        self.absorber: Beginning | None = None
        self.absorbed_from = start
        if below is not None and kind != _TAG:
            if below.takes_anything:
                self.absorber = below
            elif below.kind != _TAG:
                self.absorber, self.absorbed_from = below.absorber, below.absorbed_from

    def after(self, progress: int, *, is_closing: bool | None = None, written: str = "") -> Beginning:
        closing = self.is_closing if is_closing is None else is_closing
        return Beginning(self.kind, self.start, self.below, progress, is_closing=closing, written=written)

    @property
    def takes_anything(self) -> bool:
        """Inside attributes or behind the fixed part of a note, where a failed beginning is only more text."""
        return self.progress >= (_WORDING if self.kind == _NOTE else _ATTRIBUTES) and self.kind != _ENTITY


class Reader:
    _start_pattern = START_OF_TAG
    _starters = "<&"
    _reads_notes = False

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._base = 0  # position of the first piece; pieces before it have been given out
        self._live: Beginning | None = None
        self._opened: list[tuple[str, int, Beginning | None]] = []
        self._opened_by: dict[str, list[int]] = {}
        self._with_nonce: list[int] = []
        self._ahead = ("", 0)  # the text that is read, and the place behind what was read last
        self._drops_semicolon = False  # a tag ended in "&gt", and a ";" that comes next is part of it

    def _is_idle(self) -> bool:
        return self._live is None and not self._drops_semicolon

    def _read(self, text: str) -> None:
        at, end = 0, len(text)
        nearest = [-1] * len(self._starters) if text.isascii() else None
        while at < end:
            if self._is_idle():
                start = self._next_start(text, at, nearest)
                if start > at:
                    self._plain(text[at:start])
                    at = start
                if at == end:
                    return
            step = 0 if self._drops_semicolon else self._usual(text, at)
            if not step:
                self._ahead = (text, at + 1)
                self._character(text[at])
            at += step or 1

    def _next_start(self, text: str, at: int, nearest: list[int] | None) -> int:
        """Where reading must go on; `nearest` remembers the next place of each starter, for str.find is fastest."""
        if nearest is None:
            found = self._start_pattern.search(text, at)
            return len(text) if found is None else found.start()
        while True:
            for index, starter in enumerate(self._starters):
                if nearest[index] < at:
                    place = text.find(starter, at)
                    nearest[index] = len(text) if place < 0 else place
            start = min(nearest)
            if start == len(text) or self._start_pattern.match(text, start):
                return start
            at = start + 1

    def _plain(self, piece: str) -> None:
        self._pieces.append(piece)

    def _usual(self, text: str, at: int) -> int:
        """Take as much as is written in the usual way in one step, and return its length."""
        live = self._live
        if live is None:
            whole = _USUAL_TAG.match(text, at) if self._is_idle() else None
            if whole is None:
                return 0
            self._ahead = (text, whole.end())
            slash, nonce = whole.groups()
            tag = Beginning(_TAG, self._position(), None, NAMED, is_closing=bool(slash))
            if nonce is None:
                self._pieces += (text[at : whole.end() - 1], CLOSING)
                self._finish_tag(tag)
            elif slash:
                self._close(tag, nonce)
            else:
                self._open(tag, nonce)
            return whole.end() - at
        if live.kind != _TAG:
            return 0
        if live.progress < NAMED:
            name = _NAME[live.progress : live.progress + len(text) - at]
            length = len(name) if text.startswith(name, at) else 0
        else:
            run = _USUAL_ATTRIBUTES.match(text, at) if live.progress >= _ATTRIBUTES else None
            length = 0 if run is None or live.progress + run.end() - at > _LONGEST_TAG else run.end() - at
        if length:
            self._pieces.append(text[at : at + length])
            self._live = live.after(live.progress + length)
        return length

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
            self._live = Beginning(_ENTITY, start, self._live, 0, written="&")
        elif read == OPENING:
            self._live = Beginning(_TAG, start, self._live, 0)
        else:
            self._live = Beginning(_NOTE, start, self._live, 1)

    def _in_entity(self, entity: Beginning, character: str) -> None:
        written = entity.written + character
        if character == ";":
            self._pieces.append(character)
            self._end_entity(entity, decoded(entity.written))
        elif not _ENTITY_SO_FAR.fullmatch(written) or len(written) > _LONGEST_ENTITY:
            self._give_up()
            self._character(character)
        else:
            self._pieces.append(character)
            self._live = entity.after(0, written=written)
            meant = decoded(written)
            if meant in (OPENING, CLOSING):  # readers accept these without the semicolon
                self._end_entity(entity, meant)

    def _end_entity(self, entity: Beginning, meant: str | None) -> None:
        if meant is None:
            self._give_up()
            return
        self._live = entity.below
        if meant in (OPENING, "&") or (meant == "[" and self._reads_notes):
            self._begin(meant, entity.start)
            return
        if self._live is not None and self._live.kind == _ENTITY:
            self._give_up()
        self._take(meant)

    def _take(self, read: str) -> None:
        """Offer what was just put on the stack to the newest beginning, and to those below if it fails."""
        while self._live is not None:
            live = self._live
            goes_on = self._on_tag(live, read) if live.kind == _TAG else self._on_note(live, read)
            if goes_on:
                return
            self._give_up(unread=1)

    def _on_tag(self, tag: Beginning, read: str) -> bool:
        progress = tag.progress
        if read == CLOSING and progress >= NAMED:
            self._finish_tag(tag)
        elif progress >= _ATTRIBUTES:
            if progress >= _LONGEST_TAG:
                return False
            self._live = tag.after(progress + 1)
        elif read == IGNORED or (progress == 0 and (read.isspace() or read == ";")):
            pass  # ";" may end the "&lt" that began the tag
        elif progress == NAMED:
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

    def _on_note(self, note: Beginning, read: str) -> bool:
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

    def _finish_tag(self, tag: Beginning) -> None:
        written = "".join(self._pieces[tag.start - self._base :])
        self._drops_semicolon = self._pieces[-1].isalnum()  # "&gt" and its kind; every other end is complete
        found = _NONCE.search(written)
        nonce = "" if found is None else found.group(1)
        if tag.is_closing:
            self._close(tag, nonce)
        elif _SELF_CLOSED.search(written if written.isascii() else "".join(map(read_as, written))):
            self._remove(tag)
        else:
            self._open(tag, nonce)

    def _remove(self, finished: Beginning) -> None:
        del self._pieces[finished.start - self._base :]
        self._live = finished.below

    def _open(self, tag: Beginning, nonce: str) -> None:
        self._remove(tag)
        self._opened_by.setdefault(nonce, []).append(len(self._opened))
        if nonce:
            self._with_nonce.append(len(self._opened))
        self._opened.append((nonce, tag.start, tag.below))

    def _close(self, tag: Beginning, nonce: str) -> None:
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

    def _back_to(self, start: int, below: Beginning | None) -> None:
        del self._pieces[start - self._base :]
        self._live = below
