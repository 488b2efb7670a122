"""The compacted block: one message that stands for many, as text that a later compaction can read back.

[CONTEXT COMPACTION — REFERENCE ONLY] …how to read it…
…summary…
## Kept exactly
## Where the originals are
--- END OF CONTEXT SUMMARY …
"""

from __future__ import annotations

import os
import re
from functools import cache
from typing import TYPE_CHECKING

from hermes.compression.pointers import parse_chapters
from hermes.compression.reading import text_of
from hermes.vocabulary.values import value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hermes.compression.pointers import Chapter
    from hermes.compression.reading import Message

MARK = "[CONTEXT COMPACTION"
PREFIX = f"{MARK} — REFERENCE ONLY]"
LEGACY_PREFIX = "[CONTEXT SUMMARY]:"
_BEGINNING = "[CONTEXT "  # of both
END = "--- END OF CONTEXT SUMMARY"
KEPT_HEADING = "## Kept exactly"
POINTERS_HEADING = "## Where the originals are"
BRIDGE = "[Part of this conversation was compacted; I go on from what is known.]"
SYSTEM_NOTE = "[Note: Some earlier turns of this conversation have been compacted into one block marked as such.]"
_FLAG = "_compressed_summary"  # how hermes-agent marks its own
_TEXTS = os.path.join(os.path.dirname(__file__), "text")
_SIGNS = "[#- "
_PREAMBLE_END = re.compile(r"\n\s*\n")


@value
class Block:
    """What a block says: the summary, the facts kept word for word, the chapters it points to."""

    summary: str
    kept: str = ""
    chapters: tuple[Chapter, ...] = ()


def prose(name: str) -> str:
    """One of the texts beside this module."""
    return _prose(name)


def is_block(message: Message) -> bool:
    content = message.get("content")  # a block is always one text
    marked = type(content) is str and content.startswith(_BEGINNING) and content.startswith((MARK, LEGACY_PREFIX))
    return (marked or _FLAG in message) and message.get("role") in ("user", "assistant")


def blocks_in(messages: Iterable[Message]) -> list[Message]:
    """The blocks among messages; of a long history none but a few is looked at closely."""
    begun = [
        message
        for message in messages
        if _FLAG in message or (type(text := message.get("content")) is str and text.startswith(_BEGINNING))
    ]
    return list(filter(is_block, begun)) if begun else begun


def render_block(summary: str, kept: str, pointers: str) -> str:
    parts = [f"{PREFIX} {prose('preamble')}", _without_marks(summary.strip())]
    if kept:
        parts.append(f"{KEPT_HEADING}\n{_without_marks(kept)}")
    if pointers:
        parts.append(f"{POINTERS_HEADING}\n{prose('pointers')}\n{pointers}")
    parts.append(f"{END} — {prose('ending')} ---")
    return "\n\n".join(part for part in parts if part)


def parse_block(message: Message) -> Block:
    """Reads a block back; one that another program wrote is all summary."""
    text = text_of(message).strip()
    if text.startswith(MARK):
        found = _PREAMBLE_END.search(text)
        text = text[found.end() :] if found else text.partition("]")[2]
    elif text.startswith(LEGACY_PREFIX):
        text = text[len(LEGACY_PREFIX) :]
    # Whatever stands behind the last end line is no part of the block.
    text = text.rpartition(f"\n{END}")[0] if f"\n{END}" in text else text
    text, _, pointers = text.partition(f"\n{POINTERS_HEADING}\n")
    summary, _, kept = text.partition(f"{KEPT_HEADING}\n")
    return Block(summary=summary.strip(), kept=kept.strip(), chapters=tuple(parse_chapters(pointers)))


def _without_marks(text: str) -> str:
    """The text without our own headings: a model or a person who writes them must not end a section early."""
    for mark in (MARK, END, KEPT_HEADING, POINTERS_HEADING):
        if mark in text:
            bare = mark.strip(_SIGNS)
            before = text.split(bare)
            # All signs before it go: of "## ##" one would be left.
            before[:-1] = [each.rstrip(_SIGNS) if f"{each}{bare}".endswith(mark) else each for each in before[:-1]]
            text = bare.join(before)
    return text


def join_blocks(blocks: Sequence[Block]) -> Block:
    """Several blocks of one history as one, oldest first."""
    return Block(
        summary="\n\n".join(block.summary for block in blocks),
        kept="\n".join(block.kept for block in blocks if block.kept),
        chapters=tuple(chapter for block in blocks for chapter in block.chapters),
    )


@cache
def _prose(name: str) -> str:
    with open(os.path.join(_TEXTS, f"{name}.md"), encoding="utf-8") as file:
        return file.read().strip()
