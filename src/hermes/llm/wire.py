"""Bytes for the wire, computed once per message and joined per request, so that a request extends the one before."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Message = Mapping[str, Any]

_SPARE = 1_000  # entries kept beyond twice the history at hand, for conversations that take turns


def encode(content: object) -> bytes:
    """JSON as the official clients write it; half a character, which no provider accepts, becomes a question mark."""
    return _encoder(content).encode("utf-8", "replace")


class WireLog:
    """The wire bytes of every message, kept beside it. Messages are never changed in place; a changed one is new.

    Keyed by the object itself, so that a conversation that is forked or compacted keeps what it still shares.
    """

    def __init__(self, encode_message: Callable[[Message], bytes]) -> None:
        self._encode = encode_message
        self._kept: dict[int, tuple[Message, bytes]] = {}  # holding the message keeps its id from being reused

    def parts(self, messages: Sequence[Message], instead: Mapping[int, Message]) -> list[bytes]:
        """The bytes of each message; those at the positions of `instead` are encoded from what stands there."""
        kept = self._kept  # another thread may put a smaller one in its place meanwhile
        for message in reversed(messages):  # a conversation grows at its end
            if not self._keep(message, kept):
                break
        try:
            found = [kept[id(message)][1] for message in messages]
        except KeyError:
            for message in messages:
                self._keep(message, kept)
            found = [kept[id(message)][1] for message in messages]
        if len(kept) > 2 * len(messages) + _SPARE:
            self._kept = {id(message): kept[id(message)] for message in messages}
        for position, message in instead.items():
            found[position] = self._encode(message)
        return found

    def _keep(self, message: Message, kept: dict[int, tuple[Message, bytes]]) -> bool:
        """Encodes a message that is new; False for one that was kept before."""
        if id(message) in kept:
            return False
        kept[id(message)] = (message, self._encode(message))
        return True


def fields(pairs: Iterable[tuple[str, object]]) -> bytes:
    """`"name":value,` for each pair: the fixed beginning of a request, before its messages."""
    return b"".join(encode(name) + b":" + encode(content) + b"," for name, content in pairs)


_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
