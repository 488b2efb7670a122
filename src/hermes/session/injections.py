"""What was in front of the model at each turn of a stored conversation, and why: read back from what was recorded.

Every session stores the sections of its prompt, every message what was added to it on the way to the model, and every
compaction what it wrote in the place of what. Sizes and sources are kept, texts stand in the transcript.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.session.requests import wire_message
from hermes.storage.compaction import COPY, ORDER, WRITTEN, Contexts
from hermes.vocabulary.tokens import estimate, estimate_message

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hermes.curated.history import Change
    from hermes.storage.conversations import Session
    from hermes.storage.sessions import SessionDB
    from hermes.storage.transcripts import StoredMessage


def turns(db: SessionDB, session_id: str) -> Iterator[dict[str, Any]]:
    """Each turn of the conversation up to this session, with everything that was in the context when it began."""
    number = 0
    for later, session in enumerate(Contexts(db).chain(db.get_session(session_id))):
        stored = [each for each in db.messages(session.id) if not each.damaged]
        details = db.session_details(session.id)
        for at, each in enumerate(stored):
            if each.role != "user" or WRITTEN in each.message or (later and COPY in each.message):
                continue
            number += 1
            yield _turn(number, session, details, stored[: at + 1], _rest_of_turn(stored, at))


def _turn(
    number: int, session: Session, details: dict[str, Any], before: list[StoredMessage], rest: list[StoredMessage]
) -> dict[str, Any]:
    asked, context = before[-1], _context(before[:-1])
    return {
        "turn": number,
        "session_id": session.id,
        "message_id": asked.id,
        "at": asked.timestamp,
        "said": asked.text,
        "prompt": _prompt(details, before),
        "tools": len(details.get("tools") or ()),
        "history": {
            "messages": len(context),
            "tokens": sum(estimate_message(wire_message(each.message)) for each in context),
        },
        "summaries": [
            {"message_id": each.id, **addition}
            for each in context
            for addition in each.message.get("additions", ())
            if addition["source"] == "summary"
        ],
        "added": _additions(asked),
        "announced": _change_ids(asked.message.get("announced", {})) if _told(asked) else {},
        "results": [
            {"tool": each.message.get("name") or "", "characters": len(each.text), "added": _additions(each)}
            for each in rest
            if each.role == "tool"
        ],
        "answer": _answer(rest),
    }


def _rest_of_turn(stored: Sequence[StoredMessage], at: int) -> list[StoredMessage]:
    rest = []
    for each in stored[at + 1 :]:
        if WRITTEN in each.message:
            continue
        if each.role == "user":
            break
        rest.append(each)
    return rest


def _context(before: list[StoredMessage]) -> list[StoredMessage]:
    """The messages the model had: those the last compaction had put in order, and what came after it."""
    last = next((at for at in range(len(before) - 1, -1, -1) if ORDER in before[at].message), None)
    if last is None:
        return before
    by_place = {each.place: each for each in before}
    places = [place for first, end in before[last].message[ORDER] for place in range(first, end + 1)]
    return [by_place[place] for place in places if place in by_place] + before[last + 1 :]


def _prompt(details: dict[str, Any], before: Sequence[StoredMessage]) -> dict[str, Any]:
    """The sections of the prompt then, and up to which changes of memory it held; a compaction may have rebuilt it."""
    sections, held, rebuilt = details.get("prompt_sections"), details.get("announced", {}), False
    for each in before:
        if WRITTEN in each.message:
            held = each.message.get("announced", held)
            if "prompt_sections" in each.message:
                sections, rebuilt = each.message["prompt_sections"], True
    if sections is None:  # a session of an earlier version, or one that was brought in
        text = details.get("system_prompt") or ""
        sections = [{"name": "prompt", "characters": len(text), "tokens": estimate(text)}] if text else []
    return {
        "characters": sum(each["characters"] for each in sections),
        "tokens": sum(each["tokens"] for each in sections),
        "sections": sections,
        "memory_up_to": _change_ids(held),
        "rebuilt": rebuilt,
    }


def _additions(each: StoredMessage) -> list[dict[str, Any]]:
    return [dict(addition) for addition in each.message.get("additions", ())]


def _told(each: StoredMessage) -> bool:
    return any(addition["source"] == "announcement" for addition in each.message.get("additions", ()))


def _change_ids(seen: dict[str, int]) -> dict[str, str]:
    return {target: f"{target[0]}{number}" for target, number in seen.items() if number}


def _answer(rest: Sequence[StoredMessage]) -> dict[str, Any]:
    answered = next((each.message for each in reversed(rest) if each.message.get("usage")), None)
    if answered is None:
        return {}
    cache = answered.get("cache") or {}
    return {
        "model": answered.get("model") or "",
        "input_tokens": answered["usage"].get("input_tokens", 0),
        "cached_share": cache.get("share"),
        "cache_broken_by": cache.get("broken_by") or "",
    }


def how_told(db: SessionDB, session_id: str, changes: Sequence[Change]) -> dict[str, str]:
    """How a conversation learnt of each change of memory: by change id, in words; what it never learnt is left out."""
    known: dict[str, str] = {}
    chain = Contexts(db).chain(db.get_session(session_id))
    ours = {session.id for session in chain}
    for each in turns(db, session_id):
        way = f"in the prompt {'rebuilt before' if each['prompt']['rebuilt'] else 'from'} turn {each['turn']}"
        _note(known, changes, each["prompt"]["memory_up_to"], way)
        _note(known, changes, each["announced"], f"announced in turn {each['turn']}")
    for change in changes:
        if change.cause.session in ours:
            known[change.id] = f"written in this conversation (session {change.cause.session})"
    return known


def _note(known: dict[str, str], changes: Sequence[Change], seen: dict[str, str], way: str) -> None:
    for change in changes:
        if _number(change.id) <= _number(seen.get(change.target, "m0")):
            known.setdefault(change.id, way)


def _number(change_id: str) -> int:
    return int(change_id[1:])
