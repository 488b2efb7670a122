"""What a summariser is shown of messages: each as one entry, without credentials where they are not its business."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.compression.reading import calls_of, excerpt, text_of
from hermes.safety.secrets import mask_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes.compression.reading import Message

    Parts = tuple[str, Sequence[str]]  # the text of a message, and one line for each call

LONGEST = 6_000  # characters of one message that are ever shown
_NAMES = {role: role.upper() for role in ("system", "user", "assistant", "tool")}
ARGUMENTS = 4  # tool arguments get a quarter of a message's room


class Record:
    """Messages with their ids. Each is read when it is first shown, all that are shown together at once."""

    def __init__(self, messages: Sequence[Message], ids: Sequence[int | None], *, masked: bool = False) -> None:
        """`masked` is for a model that has not seen the conversation."""
        self._messages, self._ids = messages, ids
        self._masked = masked
        self._parts: dict[int, Parts] = {}

    def entries(self, places: Sequence[int], cap: int = LONGEST) -> list[str]:
        """The messages at these places, in about `cap` characters each."""
        self._read([at for at in places if at not in self._parts] if self._parts else places)
        messages, ids, parts = self._messages, self._ids, self._parts
        return [_entry(messages[at], ids[at], parts[at], cap) for at in places]

    def _read(self, places: Sequence[int]) -> None:
        parts = [_parts(self._messages[at]) for at in places]
        if self._masked:
            texts = mask_all([*(text for text, _ in parts), *(call for _, calls in parts for call in calls)])
            called = iter(texts[len(parts) :])
            pairs = zip(texts, parts, strict=False)  # the calls stand behind the texts
            parts = [(text, [next(called) for _ in calls] if calls else ()) for text, (_, calls) in pairs]
        self._parts.update(zip(places, parts, strict=True))


def _entry(message: Message, number: int | None, parts: Parts, cap: int) -> str:
    role = message.get("role") or "?"
    who = _NAMES.get(role) or str(role).upper()
    if role == "tool" and message.get("name"):
        who = f"{who} {message['name']}" if number is None else f"{who} {number} {message['name']}"
    elif number is not None:
        who = f"{who} {number}"
    text, calls = parts
    shown = f"[{who}] {text if len(text) <= cap else excerpt(text, cap)}".rstrip()
    if calls:
        shown = "\n  calls ".join((shown, *[excerpt(call, cap // ARGUMENTS) for call in calls]))
    return shown


def _parts(message: Message) -> Parts:
    content = message.get("content")
    text = content if type(content) is str else text_of(message)
    if len(text) > LONGEST:
        text = excerpt(text, LONGEST)
    if "tool_calls" not in message:
        return text, ()
    return text, [f"{tool}({excerpt(arguments, LONGEST // ARGUMENTS)})" for _, tool, arguments in calls_of(message)]
