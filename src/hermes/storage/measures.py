"""What a session row keeps about its messages: when, how many calls, how long, and how the first one begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.storage.text import scrub
from hermes.storage.transcripts import readable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PREVIEW = 60
_OF_ONE_WORD = 8
_LATEST = 1e12  # seconds; what is larger is no time


def moment(given: Any, now: float) -> float:
    if isinstance(given, int | float) and not isinstance(given, bool) and abs(given) < _LATEST:
        return float(given)
    return now


def calls(message: Mapping[str, Any]) -> int:
    calls = message.get("tool_calls")
    return len(calls) if isinstance(calls, list | tuple) else int(bool(calls))


def length(message: Mapping[str, Any]) -> int:
    return len(readable(message.get("content")))


def preview_of(messages: Sequence[Mapping[str, Any]]) -> str | None:
    for message in messages:
        if message.get("role") == "user":
            return beginning(scrub(readable(message.get("content"))))
    return None


def beginning(text: str) -> str:
    """How a text begins; no word is cut through, because nobody could tell that half a key was one."""
    shown = " ".join(text.split())
    if len(shown) <= _PREVIEW:
        return shown
    whole, _, begun = shown[: _PREVIEW + 1].rpartition(" ")
    if not begun.isascii():  # scripts without spaces, which no key is written in
        whole = shown[:_PREVIEW]
    return f"{whole or shown[:_OF_ONE_WORD]}..."
