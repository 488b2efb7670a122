"""`<private>…</private>` in what a person says: the model reads it, and nothing that is stored holds it.

Tags nest, and one that is never closed makes the rest private: better too much is forgotten than too little.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

PLACEHOLDER = "[private]"
UNCLOSED = (
    "`<private>` was not closed, so everything behind it counts as private: the model reads it and nothing of it is"
    " kept. `</private>` ends a private part."
)
_TAG = re.compile(r"<\s*(/?)\s*private(?:\s[^<>]*)?>", re.IGNORECASE)


def without_private(text: str) -> str:
    """The text with a placeholder in the place of each private part; the text itself when there is none."""
    return _split(text, 0)[0]


def is_unclosed(text: str) -> bool:
    """Whether a private part of the text never ends."""
    return _split(text, 0)[1] > 0


def public_words(text: str) -> str:
    """What somebody may be asked about or told; empty when everything was private."""
    kept = without_private(text)
    return kept if kept == text or kept.replace(PLACEHOLDER, "").strip() else ""


def storable(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message as it may be stored; the message itself unless a person's words in it are private."""
    if message.get("role") != "user":
        return message
    content = message.get("content")
    kept = without_private(content) if isinstance(content, str) else _parts(content) if content else content
    if kept is content or kept == content:
        return message
    sent = message.get("api_content")
    return {**message, "content": kept, **({"api_content": without_private(sent)} if isinstance(sent, str) else {})}


def _parts(content: Any) -> Any:
    """The parts of a message; behind a tag that is not closed those that are no text are private, too."""
    if not isinstance(content, list):
        return content
    kept: list[Any] = []
    depth = 0
    for part in content:
        text = part.get("text") if isinstance(part, dict) else None
        if isinstance(text, str):
            words, depth = _split(text, depth)
            kept.append({**part, "text": words})
        else:
            kept.append({"type": "text", "text": PLACEHOLDER} if depth else part)
    return kept


def _split(text: str, depth: int) -> tuple[str, int]:
    """The text without its private parts, and how many of them are still open at its end."""
    if not depth and "<" not in text:
        return text, 0
    kept, at = [PLACEHOLDER] if depth else [], 0
    for tag in _TAG.finditer(text):
        if not tag.group(1):
            if not depth:
                kept += [text[at : tag.start()], PLACEHOLDER]
            depth += 1
        elif depth:
            depth -= 1
            at = tag.end()
    if not kept:
        return text, 0
    if not depth:
        kept.append(text[at:])
    return "".join(kept), depth
