"""Asks an engine that others wrote to compact, and believes the answer only as far as it can be checked."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from hermes.compression.assembly import Compaction, unchanged
from hermes.compression.audit import count_kept
from hermes.compression.block import is_block, parse_block
from hermes.compression.boundaries import last_request, repair_pairs
from hermes.compression.reading import Counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes.compression.engine import ContextEngine

_ROLES = ("user", "assistant", "tool", "system", "developer")


def compressed_by(
    engine: ContextEngine,
    messages: Sequence[dict[str, Any]],
    ids: Sequence[int],
    *,
    tokens: int,
    focus: str = "",
    **more: Any,
) -> Compaction | None:
    """What the engine made of the history; None when it failed or what it returned is no history.

    `more` is what newer engines take beside what the documents name: each gets what its signature has.
    """
    numbered = [{**message, "_id": number} for message, number in zip(messages, ids, strict=True)]
    try:
        taken = inspect.signature(engine.compress).parameters
        more = {name: given for name, given in more.items() if name in taken}
        made: Any = engine.compress(numbered, current_tokens=tokens, focus_topic=focus or None, **more)
    except Exception:  # noqa: BLE001 - an engine is other people's code and may raise anything
        return None
    if not isinstance(made, list) or not all(isinstance(each, dict) and each.get("role") in _ROLES for each in made):
        return None
    known = dict(zip(ids, messages, strict=True))
    placed: list[tuple[dict[str, Any], int | None]] = []
    for message in made:
        bare = {key: part for key, part in message.items() if not key.startswith("_")}
        number = message.get("_id")
        placed.append((bare, number if number in known and known[number] == bare else None))
    repaired, origin = repair_pairs([message for message, _ in placed])
    kept = [None if at is None else placed[at][1] for at in origin]
    if kept == list(ids):
        return unchanged(messages, list(ids), tokens, "the engine found nothing to take out")
    last = last_request(messages)
    if not kept or None not in kept or (last is not None and ids[last] not in kept):
        return None  # the person's last request must stay, and something must stand for what is gone
    still = set(kept)
    return Compaction(
        messages=repaired,
        ids=kept,
        replaced=[number for number in ids if number not in still],
        how=engine.name,
        kept_exactly=sum(count_kept(parse_block(message).kept) for message in repaired if is_block(message)),
        tokens_before=tokens,
        tokens_after=Counts(repaired).total(0, len(repaired)),
    )
