"""What a compaction writes: the messages of the new context, and where they stand in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes.compression.assembly import Compaction
    from hermes.prompt.assembly import Prompt
    from hermes.storage.compaction import NewContext


def written_messages(
    done: Compaction, announced: dict[str, int], number: int, why: str, prompt: Prompt | None
) -> list[dict[str, Any]]:
    """The messages of the new context.

    The first that is written remembers how many compactions there were, what it stands for and why, and what the
    rebuilt prompt has told.
    """
    messages = [dict(message) for message in done.messages]
    first = messages[done.ids.index(None)]
    first["compactions"] = number
    size = sum(len(str(each.get("content"))) for each, at in zip(messages, done.ids, strict=True) if at is None)
    about = {"by": done.how, "why": why, "messages": len(done.replaced)}
    first["additions"] = [{"source": "summary", "characters": size, **about}]
    if prompt is not None:
        first["prompt_sections"] = prompt.sizes()
    first["announced"] = announced
    return messages


def with_gaps(ids: list[int | None]) -> list[int]:
    """Numbers below zero for what has no id yet."""
    return [-1 - at if number is None else number for at, number in enumerate(ids)]


def by_gap(new: NewContext) -> dict[int, Mapping[str, Any]]:
    return {-1 - at: new.messages[at] for at, number in enumerate(new.ids) if number is None}


def by_id(ids: list[int], new: NewContext) -> dict[int, Mapping[str, Any]]:
    return {number: new.messages[at] for at, number in enumerate(ids) if new.ids[at] is None}
