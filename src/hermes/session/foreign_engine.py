"""Asks an engine that others wrote to compact, and believes the answer only as far as it can be checked."""

from __future__ import annotations

import copy
import inspect
import json
from typing import TYPE_CHECKING, Any

from hermes.compression.assembly import Compaction, unchanged
from hermes.compression.audit import count_kept
from hermes.compression.block import is_block, parse_block
from hermes.compression.boundaries import last_request, repair_pairs
from hermes.compression.reading import Counts, text_of
from hermes.session.requests import WIRE_KEYS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hermes.compression.engine import ContextEngine

_ROLES = ("user", "assistant", "tool", "system", "developer")


class NotBelieved(Exception):
    """What an engine made of a history cannot take its place; the words say why."""


def compressed_by(
    engine: ContextEngine,
    messages: Sequence[dict[str, Any]],
    ids: Sequence[int],
    *,
    tokens: int,
    focus: str = "",
    **more: Any,
) -> Compaction:
    """What the engine made of the history; NotBelieved when it failed or what it returned cannot stand for it.

    `tokens` is the whole request, as `should_compress` was told; the figures of the result are of messages only.
    `more` is what newer engines take beside what the documents name: each gets what its signature has.
    """
    # Copies to the bottom: an engine that shortens arguments where they stand must not change what we compare with.
    numbered = [{**message, "_id": number} for message, number in zip(copy.deepcopy(list(messages)), ids, strict=True)]
    try:
        taken = inspect.signature(engine.compress).parameters
        more = {name: given for name, given in more.items() if name in taken}
        made: Any = engine.compress(numbered, current_tokens=tokens, focus_topic=focus or None, **more)
    except (Exception, SystemExit) as error:  # an engine is other people's code and may raise anything
        raise NotBelieved(f"it raised {type(error).__name__}: {error}") from error
    if not isinstance(made, list) or not all(isinstance(each, dict) and each.get("role") in _ROLES for each in made):
        raise NotBelieved("what it returned is no list of messages with a role")
    if why := _cannot_be_stored(made):
        raise NotBelieved(f"what it returned cannot be stored: {why}")
    placed = _placed(made, dict(zip(ids, messages, strict=True)))
    repaired, origin = repair_pairs([message for message, _ in placed])
    kept = [None if at is None else placed[at][1] for at in origin]
    still, before = set(kept), Counts(messages).total(0, len(messages))
    replaced = [number for number in ids if number not in still]
    if not replaced:  # also when it added something: that would only make the context longer
        return unchanged(messages, list(ids), before, "the engine found nothing to take out")
    last = last_request(messages)
    if last is not None and ids[last] not in still:
        raise NotBelieved("it dropped the person's last request")
    if all(placed[at][1] is not None for at in origin if at is not None):  # a result we made up stands for nothing
        raise NotBelieved("it put nothing in the place of what it took out")
    after = Counts(repaired).total(0, len(repaired))
    if after >= before:
        raise NotBelieved(f"about {before:,} tokens of messages would become {after:,}")
    return Compaction(
        messages=repaired,
        ids=kept,
        replaced=replaced,
        how=engine.name,
        kept_exactly=sum(count_kept(parse_block(message).kept) for message in repaired if is_block(message)),
        tokens_before=before,
        tokens_after=after,
    )


def _placed(made: list[dict[str, Any]], known: Mapping[int, dict[str, Any]]) -> list[tuple[dict[str, Any], int | None]]:
    """Each message with its id where it is one of ours; of what is new, only what a model can be sent."""
    placed: list[tuple[dict[str, Any], int | None]] = []
    seen: set[int] = set()
    for message in made:
        bare = {key: part for key, part in message.items() if not key.startswith("_")}
        number = message.get("_id")
        if isinstance(number, int) and known.get(number) == bare:
            if number in seen:
                raise NotBelieved("it returned a message twice")
            seen.add(number)
            placed.append((known[number], number))
        elif text_of(bare).strip() or bare.get("tool_calls"):
            placed.append(({key: part for key, part in bare.items() if key in WIRE_KEYS}, None))
    return placed


def _cannot_be_stored(made: list[dict[str, Any]]) -> str:
    """Why JSON cannot hold these messages, or nobody could read them; empty when all is well."""
    try:
        json.dumps(made)
    except (TypeError, ValueError, RecursionError) as error:
        return str(error)
    if not all(isinstance(key, str) for message in made for key in message):
        return "the name of a field is no text"
    odd = [message["content"] for message in made if not isinstance(message.get("content"), str | list | None)]
    return f"content is {type(odd[0]).__name__}" if odd else ""
