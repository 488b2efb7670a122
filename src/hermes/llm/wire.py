"""Bytes for the wire, computed once per message and joined per request, so that a request extends the one before."""

from __future__ import annotations

import json
from operator import is_
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Message = Mapping[str, Any]

_END = b"]}"
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
        # The messages of the request before, and what they became.
        self._last: tuple[list[Message], list[bytes]] = ([], [])
        self._sent: tuple[bytes, list[Message], bytes] = (b"", [], b"")

    def body(self, beginning: bytes, messages: Sequence[Message]) -> bytes:
        """A whole request; all that the one before had is taken over in one piece, because copying is what costs."""
        same, before, sent = self._sent
        if before and beginning == same and _extends(messages, before):
            new = [self._bytes(message) for message in messages[len(before) :]]
            text = b"".join((memoryview(sent)[: -len(_END)], b"," if new else b"", b",".join(new), _END))
        else:
            text = b"".join((beginning, b",".join(self._found(messages)), _END))
        self._sent = (beginning, list(messages), text)
        return text

    def parts(self, messages: Sequence[Message], instead: Mapping[int, Message]) -> list[bytes]:
        """The bytes of each message; those at the positions of `instead` are encoded from what is given there."""
        before, known = self._last
        if _extends(messages, before):
            found = known + [self._bytes(message) for message in messages[len(before) :]]
        else:
            found = self._found(messages)
        self._last = (list(messages), list(found))
        for position, message in instead.items():
            found[position] = self._encode(message)
        return found

    def _found(self, messages: Sequence[Message]) -> list[bytes]:
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
        return found

    def _bytes(self, message: Message) -> bytes:
        kept = self._kept
        self._keep(message, kept)
        return kept[id(message)][1]

    def _keep(self, message: Message, kept: dict[int, tuple[Message, bytes]]) -> bool:
        """Encodes a message that is new; False for one that was kept before."""
        if id(message) in kept:
            return False
        kept[id(message)] = (message, self._encode(message))
        return True


def _extends(messages: Sequence[Message], before: Sequence[Message]) -> bool:
    """Whether a conversation begins with the very messages of another."""
    return len(messages) >= len(before) and all(map(is_, before, messages))


def fields(pairs: Iterable[tuple[str, object]]) -> bytes:
    """`"name":value,` for each pair: the fixed beginning of a request, before its messages."""
    return b"".join(encode(name) + b":" + encode(content) + b"," for name, content in pairs)


_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
