"""What the model has in front of it: messages as they are sent, with their ids and sizes in tokens beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.session.requests import wire_message
from hermes.session.soundness import sound
from hermes.vocabulary.tokens import estimate_message

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class Context:
    def __init__(self, stored: Iterable[tuple[int, Mapping[str, Any]]] = ()) -> None:
        self.messages: list[dict[str, Any]] = []
        self.ids: list[int] = []
        self._sizes: list[int | None] = []
        # Where something was added at request time: what was really said. Only that is worth a place in a summary.
        self._said: dict[int, dict[str, Any]] = {}
        for number, message in sound(stored):
            self.append(number, message)

    def append(self, number: int, stored: Mapping[str, Any]) -> None:
        message = wire_message(dict(stored))
        self.messages.append(message)
        self.ids.append(number)
        self._sizes.append(None)
        if "api_content" in stored:
            self._said[number] = {**message, "content": stored.get("content")}

    def said(self) -> list[dict[str, Any]]:
        """The messages without what was only added to them on the way to the model."""
        if not self._said:
            return self.messages
        return [self._said.get(number, message) for number, message in zip(self.ids, self.messages, strict=True)]

    def sizes(self) -> list[int]:
        """Tokens of each message, by estimate; each is looked at once."""
        return [self._size(at) for at in range(len(self.messages))]

    def tokens(self, start: int = 0) -> int:
        return sum(self._size(at) for at in range(start, len(self.messages)))

    def replaced(self, ids: Sequence[int], written: Mapping[int, Mapping[str, Any]]) -> Context:
        """The context of these ids: messages that stay are the very same objects, the others are written just now."""
        at = {number: position for position, number in enumerate(self.ids)}
        new = Context()
        for number in ids:
            if number in written:
                new.append(number, written[number])
                continue
            position = at[number]
            new.messages.append(self.messages[position])
            new.ids.append(number)
            new._sizes.append(self._sizes[position])
            if number in self._said:
                new._said[number] = self._said[number]
        return new

    def renumbered(self, ids: Sequence[int]) -> None:
        """The same messages under the ids of another session."""
        known = dict(zip(self.ids, ids, strict=True))
        self._said = {known[number]: message for number, message in self._said.items()}
        self.ids = list(ids)

    def _size(self, at: int) -> int:
        size = self._sizes[at]
        if size is None:
            size = self._sizes[at] = estimate_message(self.messages[at])
        return size
