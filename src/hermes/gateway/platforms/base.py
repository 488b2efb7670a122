"""`Platform`: the interface of a chat platform, and what the platforms share."""

from __future__ import annotations

import json
import logging
import re
import threading
import unicodedata
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, Self

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from hermes.base.errors import HermesError, Interrupted, SettingsError, command
from hermes.llm.transport import CANCELLED, shared_client
from hermes.settings.config import secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from websockets.sync.connection import Connection

    from hermes.settings.config import Settings
    from hermes.settings.home import Home

_LOG = logging.getLogger("hermes.gateway")
_CUTS = ("\n\n", "\n", " ")  # the best place first
_LAST_CODE_OF_ONE_UNIT = 0xFFFF
_SMALLEST = 256  # units of Markdown, which fit on every platform
_FENCES = 16  # units that the fences around a piece may take
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$")  # opens or closes code; CommonMark allows three spaces before it


def units(text: str) -> int:
    """The length in UTF-16 code units, as Telegram counts: an emoji, for example, is two."""
    return len(text) + sum(ord(letter) > _LAST_CODE_OF_ONE_UNIT for letter in text)


def split(text: str, limit: int) -> list[str]:
    """Splits a text into pieces of at most `limit` units, after a paragraph, a line or a word if possible."""
    pieces: list[str] = []
    while text:
        piece = _first(text, limit)
        text = text[len(piece) :]
        if piece.strip():
            pieces.append(piece)
    return pieces


def split_markdown(text: str, fits: Callable[[str], bool], limit: int) -> list[str]:
    """Splits Markdown into pieces that fit, each valid by itself: code that is cut is closed and opened again."""
    pieces: list[str] = []
    opened = ""  # the line that opened the code at the beginning of the rest
    while text.strip():
        room = limit
        piece, taken, fence = _piece(text, room, opened)
        while not fits(piece) and room > _SMALLEST:  # formatting can make a text longer, such as an aligned table
            room = room * 3 // 4
            piece, taken, fence = _piece(text, room, opened)
        pieces.append(piece)
        text, opened = text[taken:], fence
    return pieces


def _piece(text: str, room: int, opened: str) -> tuple[str, int, str]:
    """The next piece, how much of the text it covers, and the line that opened the code it ends in."""
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
        if place >= len(head) // 2:  # an earlier cut would make many small pieces
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
# What a platform returns when one of our buttons is pressed.
BUTTON = re.compile(r"(?:approve|reject|show) [0-9a-f]{1,32}")
TIMEOUT = 15.0  # seconds for one call of a platform's API
_PAUSES = (1.0, 2.0, 5.0, 10.0, 30.0)  # seconds before the next attempt, when the platform does not say


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """One message of a person; `update` is the platform's number for it, the same each time it is delivered."""

    platform: str
    update: str
    chat: str
    user: str
    text: str
    kind: str = "dm"  # dm, or group
    thread: str = ""
    message: str = ""  # its id on the platform, to which an answer in a group refers
    user_name: str = ""
    chat_name: str = ""
    addressed: bool = True  # meant for us, not just said in a group that we are in
    pressed: str = ""  # the platform's number of a press on a button; `message` is the one with the button
    heard: bool = False  # stored, but not answered
    speaker: str = ""  # in a group: the person who said it, by their name here
    to: str = ""  # in a group: the account it was said to, when that is not us


def in_group(message: Incoming, groups: str) -> Incoming | None:
    """Applies `gateway.groups` to a group's message: it is answered, only heard, or ignored (None)."""
    if groups == "off" or (groups == "mention" and not message.addressed):
        return None
    return replace(message, heard=groups == "listen" and not message.addressed)


def understood(read: Callable[[Mapping[str, Any]], Incoming | None], update: Mapping[str, Any]) -> Incoming | None:
    """Reads a platform's update; None if it is not for us, or malformed, which must not stop the others."""
    try:
        return read(update)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        _LOG.warning("an update from a platform could not be understood: %r", error)
        return None


class Later(HermesError):
    """The platform cannot do this now; try again after `seconds`."""

    def __init__(self, message: str, *, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class Never(HermesError):
    """The platform will never do this; `gone` means that the message to edit no longer exists."""

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
        """Whether the same call may work later, after too many calls or an error of the platform."""
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
    """Makes one HTTP call with JSON; raises `Later` if the platform cannot be reached or answers without JSON."""
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
    """Repeats `step` until it returns False; waits longer after each failure in a row.

    `step` receives a function to call once it is connected.
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
        except HermesError as error:  # what could not be stored is not acknowledged, so it comes again
            report(str(error))
            left = (error.seconds if isinstance(error, Later) else 0) or _PAUSES[min(failures, len(_PAUSES) - 1)]
            failures += 1
            while left > 0 and not stop():
                never.wait(min(left, 0.2))
                left -= 0.2


class Inbox(Protocol):
    """Where a platform puts what it received. When `take` returns, everything is stored and may be acknowledged.

    `cursor` is how far a platform was read. `chats` is for platforms without a cursor: it lists the chats in which
    people wrote, with their kind and the time of the last message.
    """

    def take(self, platform: str, messages: Sequence[Incoming], *, cursor: str = "") -> None: ...
    def cursor(self, platform: str) -> str: ...
    def chats(self, platform: str) -> Sequence[tuple[str, str, float]]: ...


class Platform:
    """One platform. `edits` says whether a sent message can be changed, `buttons` whether it can have buttons.

    A button is a label and the text that the platform returns when it is pressed. `is_called` means that the platform
    calls us over HTTP. Errors are `Later` and `Never`.
    """

    name = ""
    edits = False
    buttons = False
    is_called = False
    limit = 0  # characters of one message

    @classmethod
    def of(cls, home: Home, settings: Settings) -> Self:
        """Makes the platform from the settings; a SettingsError says what is missing."""
        raise NotImplementedError

    def receive(self, inbox: Inbox, stop: Callable[[], bool], report: Callable[[str], None]) -> None:
        """Receives until `stop`; a platform that calls us prepares that and returns."""
        raise NotImplementedError

    def accept(self, inbox: Inbox, headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
        """Handles a platform's request; returns the HTTP status, and what is wrong ("" if nothing)."""
        raise NotImplementedError

    def identity(self) -> str:
        """Our own name or address on this platform; empty until it is known."""
        raise NotImplementedError

    def send(self, to: Incoming, text: str, *, delivery: str) -> str:
        """Sends a message and returns the platform's name for it.

        `delivery` is the same for each attempt at one piece of an answer, so that a platform that cannot edit can
        recognise a repetition.
        """
        raise NotImplementedError

    def edit(self, to: Incoming, sent: str, text: str, *, buttons: Buttons = ()) -> None:  # noqa: ARG002 - for others
        """Replaces the text and the buttons of a message; `Never` where the platform cannot."""
        raise Never(f"{self.name} cannot change a message once it is sent")

    def acknowledge(self, pressed: Incoming) -> None:
        """Ends the sign of waiting on a pressed button, where the platform has one."""

    def typing(self, to: Incoming) -> None:
        """Shows that an answer is being written, where the platform can."""

    def fits(self, text: str) -> bool:
        """Whether a text with its formatting fits into one message."""
        return units(text) <= self.limit

    def split(self, text: str) -> list[str]:
        """Splits an answer into pieces that each fit into one message."""
        return [text] if self.fits(text) else split_markdown(text, self.fits, self.limit)


def needed(home: Home, platform: str, **secrets: str) -> list[str]:
    """Reads a platform's secrets from `.env`; a SettingsError says where to get those that are missing."""
    found = {name: secret(home, name) for name in secrets}
    if missing := [f"{name}=… ({where})" for name, where in secrets.items() if not found[name]]:
        raise SettingsError(f"gateway.{platform}.enabled is true, but .env lacks {' and '.join(missing)}")
    return [str(each) for each in found.values()]


# --- platforms that keep a WebSocket open to us, with JSON in every frame (the extra `gateway`) -----------------------

LOOK = 0.5  # seconds between two checks whether to stop
_LARGEST = 16 << 20  # bytes of one frame


class Socket:
    """A WebSocket whose frames are JSON objects."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def receive(self, seconds: float = LOOK) -> dict[str, Any] | None:
        """The next frame; None if none came in time, or if it is not an object."""
        try:
            frame = json.loads(self._connection.recv(timeout=seconds))
        except (TimeoutError, ValueError):
            return None
        return frame if isinstance(frame, dict) else None

    def send(self, frame: Mapping[str, Any]) -> None:
        """Sends an object as one frame."""
        self._connection.send(json.dumps(frame))


class Connected(Platform):
    """A platform that sends what people say through a WebSocket that stays open."""

    edits = True
    buttons = True
    replayed = 50  # messages of one chat that are read after an interruption

    def receive(self, inbox: Inbox, stop: Callable[[], bool], report: Callable[[str], None]) -> None:
        keep_receiving(lambda connected: self.listen(inbox, stop, connected), stop, report)

    def listen(self, inbox: Inbox, stop: Callable[[], bool], connected: Callable[[], None]) -> bool:
        """Serves one connection until it ends; False if there should be no other."""
        raise NotImplementedError

    def incoming(self, event: Mapping[str, Any]) -> Incoming | None:
        """Reads a person's message from an event; None for anything else."""
        raise NotImplementedError

    def missed(self, chat: str, kind: str, active: float) -> Sequence[Mapping[str, Any]]:
        """Fetches what was said in a chat after this time, oldest first."""
        raise NotImplementedError

    def store(self, inbox: Inbox, message: Incoming | None) -> None:
        """Puts a message into the inbox, if there is one to put."""
        if message is not None:
            inbox.take(self.name, [message])

    def catch_up(self, inbox: Inbox) -> None:
        """Stores what came while we were not connected; the ledger ignores what it already has."""
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
    """Opens a connection; its errors become `Later`, and its end `Closed`."""
    try:
        from websockets.exceptions import ConnectionClosed, WebSocketException
        from websockets.sync.client import connect
    except ImportError:
        raise SettingsError(f"{name} needs one more package: {command('gateway')}") from None
    try:
        with connect(address, open_timeout=TIMEOUT, close_timeout=1, max_size=_LARGEST) as connection:
            yield Socket(connection)
    except ConnectionClosed as error:
        code = error.rcvd.code if error.rcvd else 1006  # 1006: it ended without a close frame
        raise Closed(f"{name} has closed the connection ({code})", code) from None
    except (WebSocketException, OSError, TimeoutError) as error:  # without the address: Slack's holds a ticket
        raise Later(f"{name} cannot be reached ({type(error).__name__})", seconds=0) from None


# --- Markdown in the formatting of a platform, which describes its marks in a `Markup` --------------------------------

_WIDEST_TABLE = 60  # columns; a wider one is written row by row
# HTML, references and pictures stay text, because they would vanish otherwise. A line of hyphens is a rule, not the
# underline of a heading.
MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
MARKDOWN.disable(["reference", "image", "lheading"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Markup:
    """How a platform writes the elements of Markdown; the functions receive text that is already escaped."""

    marks: Mapping[str, tuple[str, str]]  # strong, em, s, code_inline
    escape: Callable[[str], str]
    block: Callable[[str, str], str]  # code and its language
    quote: Callable[[str], str]
    link: Callable[[str, str], str]  # address, and what it is called

    def render(self, markdown: str) -> str:
        """Formats Markdown; headings become bold, and tables become aligned blocks of code."""
        return self._blocks(SyntaxTreeNode(MARKDOWN.parse(markdown)).children)

    def _blocks(self, nodes: Sequence[SyntaxTreeNode], between: str = "\n\n", *, quoted: bool = False) -> str:
        return between.join(self._block(node, quoted=quoted) for node in nodes)

    def _block(self, node: SyntaxTreeNode, *, quoted: bool) -> str:
        match node.type:
            case "heading":
                return self._marked("strong", self._inline(node))
            case "fence" | "code_block":
                language = (node.info or "").split()[:1]
                return self.block(self.escape(node.content.rstrip("\n")), self.escape("".join(language)))
            case "bullet_list" | "ordered_list":
                return self._list(node, quoted=quoted)
            case "blockquote":
                inside = self._blocks(node.children, quoted=True)
                return inside if quoted else self.quote(inside)  # no platform has a quote in a quote
            case "hr":
                return "———"
            case "table":
                return self._table(node)
            case _:
                return self._inline(node)

    def _list(self, node: SyntaxTreeNode, *, quoted: bool) -> str:
        first, items, loose = int(str(node.attrs.get("start", 1))), [], False
        for number, item in enumerate(node.children, start=first):
            mark = "• " if node.type == "bullet_list" else f"{number}. "
            loose = loose or any(child.type == "paragraph" and not child.hidden for child in item.children)
            text = self._blocks(item.children, "\n", quoted=quoted)
            code = any(child.type in ("fence", "code_block", "table") for child in item.walk())
            items.append(mark + (text if code else text.replace("\n", "\n" + " " * len(mark))))
        return ("\n\n" if loose else "\n").join(items)

    def _table(self, node: SyntaxTreeNode) -> str:
        aligned = aligned_table(node)
        if aligned:
            return self.block(self.escape(aligned), "")
        rows = [[self._inline(cell) for cell in row.children] for part in node.children for row in part.children]
        return "\n\n".join(
            "\n".join(f"{self._marked('strong', name)}: {cell}" for name, cell in zip(rows[0], row, strict=False))
            for row in rows[1:]
        )

    def _inline(self, node: SyntaxTreeNode) -> str:
        return "".join(map(self._one, node.children))

    def _one(self, node: SyntaxTreeNode) -> str:
        match node.type:
            case "text" | "text_special":
                return self.escape(node.content)
            case "softbreak" | "hardbreak":
                return "\n"
            case "code_inline":
                return self._marked(node.type, self.escape(node.content))
            case "link":
                return self.link(str(node.attrs.get("href", "")), self._inline(node))
            case "strong" | "em" | "s":
                return self._marked(node.type, self._inline(node))
            case _:
                return self._inline(node)

    def _marked(self, kind: str, text: str) -> str:
        before, after = self.marks[kind]
        return f"{before}{text}{after}"


def aligned_table(node: SyntaxTreeNode) -> str:
    """Formats a table as plain lines with aligned columns; "" if it is too wide for a phone."""
    rows = [[_plain(cell) for cell in row.children] for part in node.children for row in part.children]
    widths = [max(map(_columns, column)) for column in zip(*rows, strict=False)]
    if sum(widths) + 2 * len(widths) > _WIDEST_TABLE:
        return ""
    lines = [
        "  ".join(cell + " " * (width - _columns(cell)) for cell, width in zip(row, widths, strict=False)).rstrip()
        for row in rows
    ]
    lines.insert(1, "  ".join("─" * width for width in widths))
    return "\n".join(lines)


def with_tables_aligned(markdown: str) -> str:
    """Turns the tables of Markdown into blocks of code, for platforms that know the rest of it."""
    lines = markdown.split("\n")
    for node in reversed(SyntaxTreeNode(MARKDOWN.parse(markdown)).children):
        if node.type == "table" and node.map is not None:
            aligned = aligned_table(node)
            if aligned:
                lines[node.map[0] : node.map[1]] = ["```", *aligned.split("\n"), "```"]
    return "\n".join(lines)


def _plain(node: SyntaxTreeNode) -> str:
    return "".join(each.content for each in node.walk() if each.type in ("text", "text_special", "code_inline"))


def _columns(text: str) -> int:
    """The width on a screen: accents take no column, Chinese characters and emoji take two."""
    return sum(0 if unicodedata.combining(each) else 1 + (unicodedata.east_asian_width(each) in "WF") for each in text)
