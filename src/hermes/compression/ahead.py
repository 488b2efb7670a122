"""What is read of messages ahead of a compaction, after each turn: the facts in them, and what a helper is shown.

Each message is read once. Finding facts and masking credentials cost more than everything else in a compaction, and a
person who waits for an answer should not wait for that too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.compression.facts import findings
from hermes.compression.reading import calls_of, excerpt, text_of
from hermes.safety.secrets import mask_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hermes.compression.facts import Finding
    from hermes.compression.reading import Message

    Shown = tuple[str, str, tuple[str, ...]]  # all of it as one entry of a record; its text; one line for each call

LONGEST = 6_000  # characters of one message that are ever shown
ARGUMENTS = 4  # tool arguments get a quarter of a message's room


class ReadAhead:
    def __init__(self) -> None:
        self.findings: dict[int | None, Sequence[Finding]] = {}
        self._shown: dict[int | None, Shown] = {}

    def prepare(self, messages: Sequence[Message], ids: Sequence[int], *, for_a_helper: bool) -> None:
        """Reads the newest messages, back to the first that was read before."""
        for at in range(len(messages) - 1, -1, -1):
            message, number = messages[at], ids[at]
            if number in self.findings and (number in self._shown or not for_a_helper):
                break
            self.findings[number] = tuple(findings(message))
            if for_a_helper:
                self.masked(message, number)

    def keep_only(self, ids: Iterable[int | None]) -> None:
        """Forgets messages that left the context."""
        still = list(ids)
        self.findings = {number: self.findings[number] for number in still if number in self.findings}
        self._shown = {number: self._shown[number] for number in still if number in self._shown}

    def masked(self, message: Message, number: int | None) -> Shown:
        """The message for a model that has not seen it: without credentials."""
        found = self._shown.get(number)
        if found is None:
            text, calls = _parts(message)
            text, calls = mask_secrets(text), tuple(map(mask_secrets, calls))
            found = (entry(message, number, text, calls), text, calls)
            if number is not None:
                self._shown[number] = found
        return found


def plain(message: Message, number: int | None) -> Shown:
    """The message for a model that has seen it before."""
    text, calls = _parts(message)
    return entry(message, number, text, calls), text, calls


def entry(message: Message, number: int | None, text: str, calls: Sequence[str], cap: int = LONGEST) -> str:
    """How a record of the conversation shows a message, in about `cap` characters."""
    role = str(message.get("role") or "?").upper()
    if number is not None:
        role = f"{role} {number}"
    if role.startswith("TOOL") and message.get("name"):
        role = f"{role} {message['name']}"
    shown = f"[{role}] {text if len(text) <= cap else excerpt(text, cap)}".rstrip()
    if calls:
        shown = "\n  calls ".join((shown, *(excerpt(call, cap // ARGUMENTS) for call in calls)))
    return shown


def _parts(message: Message) -> tuple[str, tuple[str, ...]]:
    content = message.get("content")
    text = excerpt(content if isinstance(content, str) else text_of(message), LONGEST)
    if not message.get("tool_calls"):
        return text, ()
    calls = (f"{tool}({excerpt(arguments, LONGEST // ARGUMENTS)})" for _, tool, arguments in calls_of(message))
    return text, tuple(calls)
