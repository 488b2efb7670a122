"""Messages as a model reads them in a result: whole when short, cut around what was found when long, secrets masked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.recall.truncation import truncate_around
from hermes.storage.transcripts import readable
from hermes.vocabulary.json_texts import change_texts
from hermes.vocabulary.times import in_words

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes.storage.conversations import Session
    from hermes.storage.transcripts import StoredMessage

    Mask = Callable[[str], str]

IN_RESULT, IN_SCROLL, ANCHOR = 2_000, 8_000, 24_000
_ARGUMENTS = 1_000


def unmasked(text: str) -> str:
    return text


def message_excerpt(
    message: StoredMessage, *, mask: Mask, longest: int, anchor: bool = False, focus: str = ""
) -> dict[str, Any]:
    """`{id, role, content, timestamp, …}`; `cut` counts the characters that were left out, `focus` says around what."""
    if message.damaged:
        shown: dict[str, Any] = {"id": message.id, "role": message.role, "content": "", "damaged": True}
        return {**shown, "timestamp": message.timestamp, **({"anchor": True} if anchor else {})}
    content = mask(readable(message.message.get("content")))
    result: dict[str, Any] = {
        "id": message.id,
        "role": message.role,
        "content": truncate_around(content, focus, longest) if focus else _cut(content, longest),
        "timestamp": message.timestamp,
    }
    name = message.message.get("tool_name") or message.message.get("name")
    if isinstance(name, str) and name:
        result["tool_name" if message.role == "tool" else "name"] = name
    if message.message.get("tool_calls"):
        result["tool_calls"] = change_texts(message.message["tool_calls"], lambda text: _cut(mask(text), _ARGUMENTS))
    if isinstance(message.message.get("tool_call_id"), str):
        result["tool_call_id"] = message.message["tool_call_id"]
    if len(content) > longest:
        result["cut"] = len(content) - longest
    if anchor:
        result["anchor"] = True
    return result


def session_meta(session: Session, *, mask: Mask) -> dict[str, Any]:
    return {
        "when": when(session.started_at),
        "source": session.source,
        "model": session.model,
        "title": mask(session.title) if session.title else None,
        "project": session.project,
    }


def when(moment: float) -> str:
    """`May 03, 2024 at 02:10 PM`, where the machine stands."""
    return in_words(moment, "%B %d, %Y at %I:%M %p")


def _cut(text: str, longest: int) -> str:
    """Three quarters from the beginning and one from the end: openings say what it is, endings what came of it."""
    if len(text) <= longest:
        return text
    head = longest * 3 // 4
    return f"{text[:head]}\n… {len(text) - longest:,} characters left out …\n{text[len(text) - (longest - head) :]}"
