"""Platforms that keep a WebSocket open to us, with JSON in every frame; they need the extra `gateway`."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hermes.base.errors import SettingsError, command
from hermes.gateway.platforms.base import TIMEOUT, Later, Never, Platform, keep_receiving, understood

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from websockets.sync.connection import Connection

    from hermes.gateway.platforms.base import Inbox, Incoming

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
