"""The protocol between us and a provider in a process of its own: frames of a known kind, number and length.

Neither side believes the other. A reader says what it accepts and how much of it; anything else ends the conversation.
Text goes as text, so that a turn never parses what a provider made up.
"""

from __future__ import annotations

import socket
import struct
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# In order, nobody waits; everything else answers somebody who does.
DELIVERED = frozenset(
    {
        *("initialize", "sync_turn", "on_memory_write", "on_delegation", "on_session_end", "on_session_switch"),
        *("queue_prefetch", "shutdown"),
    }
)
TEXTS = frozenset(
    {
        *("system_prompt_block", "prefetch", "on_pre_compress", "handle_tool_call", "check_connection"),
        *("forget_person", "recall_mode"),
    }
)
DATA_CALLS = frozenset({"is_available", "get_tool_schemas", "get_config_schema", "get_status_config", "backup_paths"})
# Offered by the proxy only where the provider itself does something in them.
OPTIONAL = (DELIVERED | TEXTS | DATA_CALLS | {"on_turn_start"}) - {
    *("initialize", "is_available", "get_tool_schemas", "shutdown", "recall_mode"),
}

CALL, TEXT, DATA, FAULT = b"c", b"t", b"d", b"f"
LONGEST_TEXT = 1_000_000  # characters; more than any recall or result may have
LARGEST: Mapping[bytes, int] = {TEXT: 4 * LONGEST_TEXT, DATA: 2 << 20, FAULT: 1 << 16}  # bytes, of one answer
_HEADER = struct.Struct("!cII")
_LOOK_AGAIN = 0.25  # seconds after which a silent line is asked whether anybody is still there


class ChannelBroken(Exception):
    """Whoever is at the other end does not keep to the form; the words say what it did."""


class ChannelClosed(ChannelBroken):
    """Nobody is at the other end any more."""


class TooLate(Exception):
    """The time is up."""


class Channel:
    """One end. With `until` (of `time.monotonic`) it raises `TooLate`; `alive` is asked now and then while it waits."""

    def __init__(self, end: socket.socket, *, alive: Callable[[], bool] = lambda: True) -> None:
        self._end = end
        self._alive = alive

    def send(self, kind: bytes, number: int, payload: bytes, *, until: float | None = None) -> None:
        rest = memoryview(_HEADER.pack(kind, number, len(payload)) + payload)
        while rest:
            rest = rest[self._patiently(self._end.send, rest, until) :]

    def receive(self, accepted: Mapping[bytes, int], *, until: float | None = None) -> tuple[bytes, int, bytes]:
        """The next frame: its kind, its number and what it holds."""
        kind, number, length = _HEADER.unpack(self._read(_HEADER.size, until))
        if length > accepted.get(kind, -1):
            raise ChannelBroken(f"sent {length:,} bytes where an answer has at most {accepted.get(kind, 0):,}")
        return kind, number, self._read(length, until)

    def close(self) -> None:
        """Whoever waits at either end stops waiting."""
        with suppress(OSError):  # it is closed already
            self._end.shutdown(socket.SHUT_RDWR)

    def release(self) -> None:
        self._end.close()

    def _read(self, length: int, until: float | None) -> bytes:
        found = bytearray(length)
        rest = memoryview(found)
        while rest:
            received = self._patiently(self._end.recv_into, rest, until)
            if not received:
                raise ChannelClosed("closed its line")
            rest = rest[received:]
        return bytes(found)

    def _patiently(self, work: Callable[[memoryview], int], given: memoryview, until: float | None) -> int:
        while True:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise TooLate
            self._end.settimeout(None if left is None else min(left, _LOOK_AGAIN))
            try:
                return work(given)
            except TimeoutError:
                if not self._alive():
                    raise ChannelClosed("is gone") from None
            except OSError as error:
                raise ChannelClosed(f"lost its line ({error})") from None
