"""What a summariser is shown of messages: each as one entry, without credentials where they are not its business."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from hermes.compression.reading import calls_of, excerpt, text_of
from hermes.safety.secrets import mask_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes.compression.reading import Message

LONGEST = 6_000  # characters of one message that are ever shown
_NAMES = {role: role.upper() for role in ("system", "user", "assistant", "tool")}
ARGUMENTS = 4  # tool arguments get a quarter of a message's room


class Record:
    """Messages with their ids. Each is read when it is first shown, all that are shown together at once."""

    def __init__(self, messages: Sequence[Message], ids: Sequence[int | None], *, masked: bool = False) -> None:
        """`masked` is for a model that has not seen the conversation."""
        self._messages, self._ids = messages, ids
        self._masked = masked
        self._texts: dict[int, str] = {}
        self._calls: dict[int, list[str]] = {}  # one line for each call, of the messages that have some

    def entries(self, places: Sequence[int], cap: int = LONGEST) -> list[str]:
        """The messages at these places, in about `cap` characters each."""
        self._read([at for at in places if at not in self._texts] if self._texts else places)
        messages, ids, texts, calls = self._messages, self._ids, self._texts, self._calls
        shown = [_entry(messages[at], ids[at], texts[at], cap) for at in places]
        for number, at in enumerate(places):
            if at in calls:
                lines = [excerpt(call, cap // ARGUMENTS) for call in calls[at]]
                shown[number] = "\n  calls ".join((shown[number], *lines))
        return shown

    def _read(self, places: Sequence[int]) -> None:
        messages = self._messages
        texts = [_text(messages[at]) for at in places]
        calls = {at: lines for at in places if "tool_calls" in messages[at] and (lines := _lines(messages[at]))}
        if self._masked:
            called = iter(mask_all([*texts, *(line for lines in calls.values() for line in lines)]))
            texts = list(islice(called, len(texts)))
            calls = {at: [next(called) for _ in lines] for at, lines in calls.items()}
        self._texts.update(zip(places, texts, strict=True))
        self._calls.update(calls)


def _entry(message: Message, number: int | None, text: str, cap: int) -> str:
    role = message.get("role") or "?"
    who = _NAMES.get(role) or str(role).upper()
    shown = text if len(text) <= cap else excerpt(text, cap)
    if role == "tool" and message.get("name"):
        who = f"{who} {message['name']}" if number is None else f"{who} {number} {message['name']}"
    elif number is not None:
        return f"[{who} {number}] {shown}".rstrip()
    return f"[{who}] {shown}".rstrip()


def _text(message: Message) -> str:
    content = message.get("content")
    text = content if type(content) is str else text_of(message)
    return text if len(text) <= LONGEST else excerpt(text, LONGEST)


def _lines(message: Message) -> list[str]:
    return [f"{tool}({excerpt(arguments, LONGEST // ARGUMENTS)})" for _, tool, arguments in calls_of(message)]
