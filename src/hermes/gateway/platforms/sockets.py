"""A WebSocket that a platform keeps open to us, with JSON in every frame; needs the extra `gateway`."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hermes.base.errors import SettingsError, command
from hermes.gateway.platforms.base import TIMEOUT, Later

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from websockets.sync.connection import Connection

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
