"""What the model has in front of it: messages as they are sent, with their ids and sizes in tokens beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.safety.private import storable
from hermes.session.outside import origin_of, words_of_person
from hermes.session.requests import wire_message
from hermes.session.soundness import sound
from hermes.storage.images import IMAGES, as_parts, bare, own_parts, public, public_images, tokens, without_data
from hermes.storage.originals import WRITTEN
from hermes.vocabulary.tokens import estimate_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hermes.storage.images import Content, Entry

    Private = tuple[Any, ...]


class Context:
    def __init__(
        self, stored: Iterable[tuple[int, Mapping[str, Any]]] = (), *, private: Mapping[int, Private] | None = None
    ) -> None:
        """`private` is what this process still knows of messages whose private parts were not stored."""
        self.messages: list[dict[str, Any]] = []
        self.ids: list[int] = []
        self._sizes: list[int | None] = []
        self._stored: dict[int, Mapping[str, Any]] = {}  # with what is kept beside a message
        # Where something was added at request time: what was really said. Only that is worth a place in a summary.
        self._said: dict[int, dict[str, Any]] = {}
        self._outside: dict[int, str] = {}  # where the text of a message comes from that nobody here wrote
        self._of_person: dict[int, str] = {}  # a person's own words
        # Messages with private parts, which only this process has: what was typed, what was sent, what a resume sends.
        self.private: dict[int, Private] = {}
        # The images of messages behind the newest summary; in all others only their placeholders are left.
        self._images: dict[int, list[Entry]] = {}
        self._pictured: dict[int, dict[str, Any]] = {}  # those messages as they are sent
        self.compacted = False  # some of it stands for messages that were put away
        for number, message in sound(stored):
            self.append(number, message, (private or {}).get(number))

    def append(
        self, number: int, stored: Mapping[str, Any], private: Private | None = None, images: Sequence[Entry] = ()
    ) -> None:
        """Takes a message in; `private` and `images` are what was typed and sent where that may not be stored."""
        if IMAGES in stored:
            images, stored = images or stored[IMAGES], bare(public(stored))
        if (kept := storable(stored)) is not stored:
            private = private or (stored.get("content"), wire_message(dict(stored))["content"])
            stored = kept
        message = wire_message(dict(stored))
        if private is not None:
            self.private[number] = (*private[:2], message["content"])
            message["content"] = private[1]
        self.messages.append(message)
        self.ids.append(number)
        self._sizes.append(None)
        self._stored[number] = stored
        if "api_content" in stored or private is not None:
            self._said[number] = {**message, "content": stored.get("content")}
        if WRITTEN in stored and message["role"] != "tool":  # a summary; shortened results are no reason
            self._images.clear()
        elif images and message["role"] == "user":
            self._images[number] = list(images)
        self.compacted = self.compacted or WRITTEN in stored
        if origin := origin_of(stored):
            self._outside[number] = origin
        if words := words_of_person(stored):
            self._of_person[number] = words

    def to_send(self, read: Callable[[Entry], bytes | None], *, to_others: bool = False) -> list[dict[str, Any]]:
        """The messages with their images, which `read` finds; `to_others` as `public` has them."""
        messages = self.public() if to_others else self.messages
        if not self._images:
            return list(messages)
        return [
            message if number not in self._images else self._with_images(number, message, read, to_others=to_others)
            for number, message in zip(self.ids, messages, strict=True)
        ]

    def _with_images(
        self, number: int, message: dict[str, Any], read: Callable[[Entry], bytes | None], *, to_others: bool
    ) -> dict[str, Any]:
        """Put together once, so that the object, which the wire knows again, and its bytes stay the same."""
        if to_others and number in self.private:
            shown = public_images(self.private[number][0], self._images[number])
            return {**message, "content": as_parts(message["content"], shown, read)}
        if number not in self._pictured:
            self._pictured[number] = {**message, "content": as_parts(message["content"], self._images[number], read)}
            if number not in self.private:  # their files are nowhere else
                self._images[number] = [without_data(entry) for entry in self._images[number]]
        return self._pictured[number]

    def asked(self) -> Content:
        """What the person said last, with its images, to be said again."""
        number = next((number for number in reversed(self.ids) if number in self._of_person), None)
        if number is None:
            return ""
        text = str(self.private[number][0]) if number in self.private else self._of_person[number]
        return own_parts(text, self._images[number]) if number in self._images else text

    def said(self) -> list[dict[str, Any]]:
        """The messages without what was only added to them on the way to the model, and without private parts."""
        if not self._said:
            return self.messages
        return [self._said.get(number, message) for number, message in zip(self.ids, self.messages, strict=True)]

    def stored(self) -> list[tuple[int, Mapping[str, Any]]]:
        """The ids and the messages as they are stored."""
        return [(number, self._stored[number]) for number in self.ids]

    def outside(self) -> list[tuple[int, str, dict[str, Any]]]:
        """The place of each message that holds text from outside, the origin of that, and the message."""
        if not self._outside:
            return []
        return [
            (at, self._outside[number], self._without_private(at))
            for at, number in enumerate(self.ids)
            if number in self._outside
        ]

    def public(self) -> list[dict[str, Any]]:
        """The messages as they were sent, without private parts: for whoever is not the model they were said to."""
        return [self._without_private(at) for at in range(len(self.messages))] if self.private else self.messages

    def of_person(self) -> list[str]:
        """What the person said, as far as it is still here."""
        return list(self._of_person.values())

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
                new.append(number, {**written[number], WRITTEN: True})
                continue
            position = at[number]
            new.messages.append(self.messages[position])
            new.ids.append(number)
            new._sizes.append(self._sizes[position])
            new._know(number, self)
        new.compacted = new.compacted or self.compacted
        return new

    def renumbered(self, ids: Sequence[int]) -> None:
        """The same messages under the ids of another session."""
        known = dict(zip(self.ids, ids, strict=True))
        self._stored = {known[number]: message for number, message in self._stored.items() if number in known}
        self._said = {known[number]: message for number, message in self._said.items()}
        self._outside = {known[number]: origin for number, origin in self._outside.items()}
        self._of_person = {known[number]: words for number, words in self._of_person.items()}
        self.private = {known[number]: texts for number, texts in self.private.items()}
        self._images = {known[number]: images for number, images in self._images.items()}
        self._pictured = {known[number]: message for number, message in self._pictured.items() if number in known}
        self.ids = list(ids)

    def _know(self, number: int, other: Context) -> None:
        """What another context knows about a message beside its text."""
        self._stored[number] = other._stored[number]
        if number in other._said:
            self._said[number] = other._said[number]
        if number in other._outside:
            self._outside[number] = other._outside[number]
        if number in other._of_person:
            self._of_person[number] = other._of_person[number]
        if number in other._images:
            self._images[number] = other._images[number]
        if number in other._pictured:
            self._pictured[number] = other._pictured[number]
        if number in other.private:
            self.private[number] = other.private[number]

    def _without_private(self, at: int) -> dict[str, Any]:
        message = self.messages[at]
        known = self.private.get(self.ids[at])
        return message if known is None else {**message, "content": known[2]}

    def _size(self, at: int) -> int:
        size = self._sizes[at]
        if size is None:
            size = self._sizes[at] = estimate_message(self.messages[at])
        return size + sum(map(tokens, self._images.get(self.ids[at], ())))
