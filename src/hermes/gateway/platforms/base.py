"""What a chat platform is to the gateway: it delivers messages, takes answers, and says who somebody is."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, Self

from hermes.base.errors import HermesError, Interrupted, SettingsError, command
from hermes.llm.transport import CANCELLED, shared_client
from hermes.settings.environment import secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from websockets.sync.connection import Connection

    from hermes.settings.config import Settings
    from hermes.settings.home import Home

_LOG = logging.getLogger("hermes.gateway")
_CUTS = ("\n\n", "\n", " ")  # the best place first
_LAST_CODE_OF_ONE_UNIT = 0xFFFF
_SMALLEST = 256  # units; so little Markdown fits in any case
_FENCES = 16  # units that the fences around a piece may take
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$")


def units(text: str) -> int:
    """UTF-16 code units, which is how Telegram counts: a character beyond the first plane is two."""
    return len(text) + sum(ord(letter) > _LAST_CODE_OF_ONE_UNIT for letter in text)


def split(text: str, limit: int) -> list[str]:
    """Pieces of at most `limit` units; a cut is behind a paragraph, a line or a word where there is one."""
    pieces: list[str] = []
    while text:
        piece = _first(text, limit)
        text = text[len(piece) :]
        if piece.strip():
            pieces.append(piece)
    return pieces


def split_markdown(text: str, fits: Callable[[str], bool], limit: int) -> list[str]:
    """Pieces of Markdown for which `fits` holds, each of them whole: code that is cut is closed and opened again."""
    pieces: list[str] = []
    opened = ""  # the line that opened the code at the beginning of the rest
    while text.strip():
        room = limit
        piece, taken, fence = _piece(text, room, opened)
        while not fits(piece) and room > _SMALLEST:  # formatting may need more room than the text: a table is aligned
            room = room * 3 // 4
            piece, taken, fence = _piece(text, room, opened)
        pieces.append(piece)
        text, opened = text[taken:], fence
    return pieces


def _piece(text: str, room: int, opened: str) -> tuple[str, int, str]:
    """The next piece, how much of the text is in it, and the line that opened the code it ends in."""
    raw = _first(text, max(room - units(opened) - _FENCES, _SMALLEST // 2))
    fence = opened
    for line in raw.split("\n"):
        found = _FENCE.match(line)
        if found and not fence:
            fence = line.strip()
        elif found and found[1].startswith(_mark(fence)) and not found[2].strip():
            fence = ""
    if len(raw) == len(text):
        fence = ""
    head, tail = f"{opened}\n" if opened else "", f"\n{_mark(fence)}" if fence else ""
    return head + (raw.rstrip("\n") if fence else raw.rstrip()) + tail, len(raw), fence


def _mark(fence: str) -> str:
    found = _FENCE.match(fence)
    return found[1] if found else "```"


def _first(text: str, limit: int) -> str:
    head = text[:limit]
    if units(head) > limit:
        head = _within(head, limit)
    if len(head) == len(text):
        return head
    for cut in _CUTS:
        place = head.rfind(cut)
        if place >= len(head) // 2:  # a cut further ahead would make many small pieces
            return head[: place + len(cut)]
    return head


def _within(text: str, limit: int) -> str:
    used = 0
    for place, letter in enumerate(text):
        used += 1 + (ord(letter) > _LAST_CODE_OF_ONE_UNIT)
        if used > limit:
            return text[:place]
    return text


Buttons = Sequence[tuple[str, str]]
DRAFT = "…"  # shown in a chat until the answer is ready
BUTTON = re.compile(r"(?:approve|reject|show) [0-9a-f]{1,32}")  # what one of ours gives back when it is pressed
TIMEOUT = 15.0  # seconds for one call of a platform's API
_PAUSES = (1.0, 2.0, 5.0, 10.0, 30.0)  # seconds before the next attempt, when the platform does not say


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """One message of a person. `update` is the platform's own number for it: the same message has the same one."""

    platform: str
    update: str
    chat: str
    user: str
    text: str
    kind: str = "dm"  # dm, or group
    thread: str = ""
    message: str = ""  # what an answer in a group refers to
    user_name: str = ""
    chat_name: str = ""
    addressed: bool = True  # meant for us, and not only said where we can hear it
    pressed: str = ""  # the platform's number of a press on a button; `message` is the one with the button
    heard: bool = False  # kept, and not answered
    speaker: str = ""  # in a group: the person who said it, by their name here
    to: str = ""  # in a group: the account it was said to, when that is not us


def in_group(message: Incoming, groups: str) -> Incoming | None:
    """A message in a group as `gateway.groups` wants it: to be answered, only heard, or left alone (None)."""
    if groups == "off" or (groups == "mention" and not message.addressed):
        return None
    return replace(message, heard=groups == "listen" and not message.addressed)


def understood(read: Callable[[Mapping[str, Any]], Incoming | None], update: Mapping[str, Any]) -> Incoming | None:
    """A message out of what a platform sent; None when it is not for us, or makes no sense: it must not stop others."""
    try:
        return read(update)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        _LOG.warning("an update from a platform could not be understood: %r", error)
        return None


class Later(HermesError):
    """The platform cannot take this now; it may in `seconds`."""

    def __init__(self, message: str, *, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class Never(HermesError):
    """The platform will not take this, however often it is tried. `gone`: the message to edit is not there."""

    def __init__(self, message: str, *, gone: bool = False) -> None:
        super().__init__(message)
        self.gone = gone


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a platform's API answered: a JSON object, or nothing."""

    status: int
    document: Mapping[str, Any]
    headers: Mapping[str, str]

    @property
    def passing(self) -> bool:
        """Whether the same call may work later: too many calls, or trouble on their side."""
        return self.status == 429 or self.status >= 500  # noqa: PLR2004 - HTTP statuses

    @property
    def seconds(self) -> float:
        """How long the platform asks to wait; 0 if it does not say."""
        given = self.headers.get("retry-after", "")
        return float(given) if given.isdecimal() else 0


def call_api(
    name: str,
    method: str,
    address: str,
    *,
    body: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    seconds: float = TIMEOUT,
    cancelled: Callable[[], bool] | None = None,
) -> Answer:
    """One HTTP call with JSON; a platform that cannot be reached, or answers without JSON, may do so `Later`."""
    import httpx

    extensions = {CANCELLED: cancelled} if cancelled else {}
    try:
        answer = shared_client().request(
            method, address, json=body, headers=headers, timeout=seconds, extensions=extensions
        )
        document = answer.json() if answer.content else {}
    except httpx.HTTPError as error:  # without the address: Telegram's holds the token
        raise Later(f"{name} cannot be reached ({type(error).__name__})", seconds=0) from None
    except ValueError:
        raise Later(f"{name} answered {answer.status_code} without JSON", seconds=0) from None
    found = document if isinstance(document, dict) else {"list": document}
    return Answer(status=answer.status_code, document=found, headers=answer.headers)


def keep_receiving(
    step: Callable[[Callable[[], None]], bool], stop: Callable[[], bool], report: Callable[[str], None]
) -> None:
    """Repeats `step` until it says that it is over; waits longer after each failure in a row.

    `step` calls what it is given when it is connected.
    """
    failures, never = 0, threading.Event()

    def connected() -> None:
        nonlocal failures
        failures = 0
        report("")

    while not stop():
        try:
            if not step(connected):
                return
        except Interrupted:
            return
        except HermesError as error:  # theirs, or our own disk: what is not stored is not acknowledged
            report(str(error))
            left = (error.seconds if isinstance(error, Later) else 0) or _PAUSES[min(failures, len(_PAUSES) - 1)]
            failures += 1
            while left > 0 and not stop():
                never.wait(min(left, 0.2))
                left -= 0.2


class Inbox(Protocol):
    """Where a platform puts what it received. When `take` returns, everything is stored and may be acknowledged.

    `cursor` is how far it was read. `chats` is for platforms without one: where people wrote, what kind of chat that
    is, and when they last did.
    """

    def take(self, platform: str, messages: Sequence[Incoming], *, cursor: str = "") -> None: ...
    def cursor(self, platform: str) -> str: ...
    def chats(self, platform: str) -> Sequence[tuple[str, str, float]]: ...


class Platform:
    """One platform. `edits` says whether a message that was sent can be changed, `buttons` whether it can have some.

    A button is a label, and what comes back as a command when it is pressed. `is_called` means that the platform calls
    us over HTTP. Errors are `Later` and `Never`.
    """

    name = ""
    edits = False
    buttons = False
    is_called = False
    limit = 0  # characters of one message

    @classmethod
    def of(cls, home: Home, settings: Settings) -> Self:
        """The platform as the settings describe it; SettingsError says what is missing."""
        raise NotImplementedError

    def receive(self, inbox: Inbox, stop: Callable[[], bool], report: Callable[[str], None]) -> None:
        """Receives until `stop`; a platform that calls us prepares that and returns."""
        raise NotImplementedError

    def accept(self, inbox: Inbox, headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
        """Takes a request of a platform that calls us; returns the status, and what is wrong ("" for nothing)."""
        raise NotImplementedError

    def identity(self) -> str:
        """Who we are on this platform."""
        raise NotImplementedError

    def send(self, to: Incoming, text: str, *, delivery: str) -> str:
        """Sends a message and returns the platform's name for it.

        `delivery` is the same for each attempt at one piece of an answer, so that a platform that cannot edit can
        recognise a repetition.
        """
        raise NotImplementedError

    def edit(self, to: Incoming, sent: str, text: str, *, buttons: Buttons = ()) -> None:  # noqa: ARG002 - for others
        raise Never(f"{self.name} cannot change a message once it is sent")

    def acknowledge(self, pressed: Incoming) -> None:
        """Ends the sign of waiting on a button, where there is one."""

    def typing(self, to: Incoming) -> None:
        """Shows that an answer is being written, where that is possible."""

    def fits(self, text: str) -> bool:
        """Whether a text with its formatting is one message."""
        return units(text) <= self.limit

    def split(self, text: str) -> list[str]:
        return [text] if self.fits(text) else split_markdown(text, self.fits, self.limit)


def needed(home: Home, platform: str, **secrets: str) -> list[str]:
    """The secrets of a platform by their names in `.env`; SettingsError says where to get one that is missing."""
    found = {name: secret(home, name) for name in secrets}
    if missing := [f"{name}=… ({where})" for name, where in secrets.items() if not found[name]]:
        raise SettingsError(f"gateway.{platform}.enabled is true, but .env lacks {' and '.join(missing)}")
    return [str(each) for each in found.values()]


# --- platforms that keep a WebSocket open to us, with JSON in every frame (the extra `gateway`) -----------------------

LOOK = 0.5  # seconds between two looks at whether it is over
_LARGEST = 16 << 20


class Socket:
    """A WebSocket whose frames are JSON objects."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def receive(self, seconds: float = LOOK) -> dict[str, Any] | None:
        """The next frame; None when none came in that time, or when it is not an object."""
        try:
            frame = json.loads(self._connection.recv(timeout=seconds))
        except (TimeoutError, ValueError):
            return None
        return frame if isinstance(frame, dict) else None

    def send(self, frame: Mapping[str, Any]) -> None:
        self._connection.send(json.dumps(frame))


class Connected(Platform):
    """A platform that sends what people say through a WebSocket that stays open."""

    edits = True
    buttons = True
    replayed = 50  # messages of one chat that are looked at after an interruption

    def receive(self, inbox: Inbox, stop: Callable[[], bool], report: Callable[[str], None]) -> None:
        keep_receiving(lambda connected: self.listen(inbox, stop, connected), stop, report)

    def listen(self, inbox: Inbox, stop: Callable[[], bool], connected: Callable[[], None]) -> bool:
        """One connection, from its beginning to its end; False when there is to be no other."""
        raise NotImplementedError

    def incoming(self, event: Mapping[str, Any]) -> Incoming | None:
        """A message of a person; None for anything else."""
        raise NotImplementedError

    def missed(self, chat: str, kind: str, active: float) -> Sequence[Mapping[str, Any]]:
        """What was said in a chat after this moment, the oldest first."""
        raise NotImplementedError

    def store(self, inbox: Inbox, message: Incoming | None) -> None:
        if message is not None:
            inbox.take(self.name, [message])

    def catch_up(self, inbox: Inbox) -> None:
        """Takes what came while nobody was connected; the ledger knows which of it is new."""
        for chat, kind, active in inbox.chats(self.name):
            try:
                found = self.missed(chat, kind, active)
            except Never:
                continue  # we are not there any more
            for each in found:
                self.store(inbox, understood(self.incoming, each))


class Closed(Later):
    """The connection has ended; `code` says why."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message, seconds=0)
        self.code = code


@contextmanager
def open_socket(name: str, address: str) -> Iterator[Socket]:
    """A connection; what goes wrong with it becomes `Later`, and its end `Closed`."""
    try:
        from websockets.exceptions import ConnectionClosed, WebSocketException
        from websockets.sync.client import connect
    except ImportError:
        raise SettingsError(f"{name} needs one more package: {command('gateway')}") from None
    try:
        with connect(address, open_timeout=TIMEOUT, close_timeout=1, max_size=_LARGEST) as connection:
            yield Socket(connection)
    except ConnectionClosed as error:
        code = error.rcvd.code if error.rcvd else 1006  # 1006: it ended without a word
        raise Closed(f"{name} has closed the connection ({code})", code) from None
    except (WebSocketException, OSError, TimeoutError) as error:  # without the address: Slack's holds a ticket
        raise Later(f"{name} cannot be reached ({type(error).__name__})", seconds=0) from None
