"""What a helper model is shown of messages: no credentials, and each message looked at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.compression.reading import calls_of, excerpt, text_of
from hermes.safety.secrets import mask_secrets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes.compression.reading import Message

    Shown = tuple[str, tuple[str, ...]]  # the text, and one line for each call

LONGEST = 6_000  # characters of one message that are ever shown
ARGUMENTS = 4  # tool arguments get a quarter of a message's room
_MOST_KEPT = 200_000


class Masks:
    """Masking costs more than everything else in a compaction, so what was masked is kept by the message's id."""

    def __init__(self) -> None:
        self._known: dict[int, Shown] = {}
        self._texts: dict[str, str] = {}

    def prepare(self, messages: Sequence[Message], ids: Sequence[int | None]) -> None:
        """Masks messages ahead of time, so that a compaction need not."""
        for message, number in zip(messages, ids, strict=True):
            self.of(message, number)

    def of(self, message: Message, number: int | None) -> Shown:
        found = self._known.get(number) if number is not None else None
        if found is None:
            text, calls = plain(message)
            found = (mask_secrets(text), tuple(map(mask_secrets, calls)))
            if number is not None and len(self._known) < _MOST_KEPT:
                self._known[number] = found
        return found

    def text(self, text: str) -> str:
        """Any other text that goes along: earlier notes, what providers said."""
        if text and text not in self._texts:
            self._texts = {text: mask_secrets(text)}
        return self._texts[text] if text else ""


def plain(message: Message) -> Shown:
    """The message as a model may see it that has seen it before."""
    content = message.get("content")
    text = content if isinstance(content, str) else text_of(message)
    if not message.get("tool_calls"):
        return excerpt(text, LONGEST), ()
    calls = (f"{tool}({excerpt(arguments, LONGEST // ARGUMENTS)})" for _, tool, arguments in calls_of(message))
    return excerpt(text, LONGEST), tuple(calls)
