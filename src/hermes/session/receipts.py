"""What was in front of the model at each turn of a stored conversation.

Every session stores the sections of its prompt, every message what was added to it on the way to the model, and every
compaction what it wrote in the place of what. Sizes and sources are recorded; the texts are cut out of what is stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.base.tokens import estimate, estimate_message
from hermes.conversations.context import COPY, ORDER, REPLACED_PROMPT, WRITTEN, Transcript
from hermes.memory.entries import replay
from hermes.session.context import wire_message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hermes.conversations.database import SessionDB
    from hermes.memory.entries import Change
    from hermes.storage.records import StoredMessage


# Helper models for searching past conversations: used when the settings name one, so that searching is free without.
#
# `auxiliary.session_search` writes a digest of each conversation that was found, `auxiliary.memory_query_rewrite`
# puts a question in other words.


# The texts behind the recorded sizes: what was added on the way to the model, cut out of what is stored.
#
# A text that is not stored is None. Nothing is built again from its sources: they may have changed since.

_BETWEEN = "\n\n"


def prompts(stored: Sequence[StoredMessage], newest: str | None) -> list[str | None]:
    """The prompts of a session, in order: the one it began with, then one for each compaction that rebuilt it."""
    rebuilt = (each.message for each in stored if WRITTEN in each.message and "prompt_sections" in each.message)
    return [*(message.get(REPLACED_PROMPT) for message in rebuilt), newest]


def section_texts(sections: Sequence[dict[str, Any]], prompt: str | None) -> list[str | None]:
    """The text of each section, when the prompt is the one that was measured."""
    ends, at = [], 0
    for each in sections:
        ends.append(at + each["characters"])
        at = ends[-1] + len(_BETWEEN)
    if prompt is None or not ends or ends[-1] != len(prompt):
        return [None] * len(sections)
    return [prompt[end - each["characters"] : end] for each, end in zip(sections, ends, strict=True)]


def addition_texts(stored: StoredMessage) -> list[str | None]:
    """What was added to a message, in the order of its record. Recall is as the model saw it, within its fence."""
    additions, sent = stored.message.get("additions", ()), stored.message.get("api_content")
    if sent is None:  # notes that came with a folder are the end of the result
        return [stored.text[-each["characters"] :] for each in additions]
    rest = sent[len(stored.text) + len(_BETWEEN) :]
    texts: list[str | None] = []
    for each in reversed(additions):
        text = rest if each["source"] == "recalled" else rest[-each["characters"] :]
        rest = rest[: -len(text) - len(_BETWEEN)]
        texts.insert(0, text)
    return texts


def summary_texts(context: Sequence[StoredMessage]) -> dict[int, str]:
    """What each compaction wrote that still stands in the context, by the id of the message that carries its record."""
    texts: dict[int, list[str]] = {}
    for each in sorted((each for each in context if WRITTEN in each.message), key=lambda each: each.place):
        if "additions" in each.message or not texts:
            texts[each.id] = []
        texts[next(reversed(texts))].append(each.text)
    return {number: _BETWEEN.join(written) for number, written in texts.items()}


def turns(db: SessionDB, session_id: str) -> Iterator[dict[str, Any]]:
    """Each turn of the conversation up to this session, with everything that was in the context when it began.

    What `parts_of` a turn returns carries its `text` as the model saw it, or None when that is not stored.
    """
    number, turn = 0, None
    for later, session in enumerate(Transcript(db).chain(db.get_session(session_id))):
        stored = [each for each in db.messages(session.id) if not each.damaged]
        seen = _Seen(db.session_details(session.id), stored)
        for at, each in enumerate(stored):
            if each.role == "user" and WRITTEN not in each.message and not (later and COPY in each.message):
                if turn is not None:
                    yield turn
                number += 1
                turn = {"turn": number, "session_id": session.id, **_turn(seen, each, _rest_of_turn(stored, at))}
            elif turn is not None and WRITTEN in each.message:
                turn["compacted"] += [{"message_id": each.id, **one} for one in each.message.get("additions", ())]
            seen.take(each)
    if turn is not None:
        yield turn


def parts_of(turn: dict[str, Any]) -> list[dict[str, Any]]:
    """Everything in a turn that was put there rather than said: sections, summaries, additions."""
    results = (one for each in turn["results"] for one in each["added"])
    return [*turn["prompt"]["sections"], *turn["summaries"], *turn["added"], *results]


class _Seen:
    """What the model had in front of it, followed message by message."""

    def __init__(self, details: dict[str, Any], stored: Sequence[StoredMessage]) -> None:
        self.tools = len(details.get("tools") or ())
        self.context: list[StoredMessage] = []
        self.tokens = 0
        self._by_place: dict[int, StoredMessage] = {}
        self._held: dict[str, int] = details.get("announced", {})
        self._sections: list[dict[str, Any]] = details.get("prompt_sections") or _whole(details)
        self._prompts = prompts(stored, details.get("system_prompt"))
        self._rebuilt = False
        self._summaries: list[dict[str, Any]] = []

    def take(self, each: StoredMessage) -> None:
        self._by_place[each.place] = each
        if WRITTEN in each.message:  # a compaction, which may have rebuilt the prompt
            self._held = each.message.get("announced", self._held)
            if "prompt_sections" in each.message:
                self._sections, self._rebuilt = each.message["prompt_sections"], True
                del self._prompts[0]
        if ORDER in each.message:
            places = [place for first, last in each.message[ORDER] for place in range(first, last + 1)]
            self.context = [self._by_place[place] for place in places if place in self._by_place]
            self.tokens = sum(map(_tokens, self.context))
        else:
            self.context.append(each)
            self.tokens += _tokens(each)
        if WRITTEN in each.message:
            self._summaries = _summaries(self.context)

    def summaries(self) -> list[dict[str, Any]]:
        """What compactions wrote in the place of what they took out."""
        return [dict(each) for each in self._summaries]

    def prompt(self) -> dict[str, Any]:
        """The sections of the prompt, and up to which changes of memory it holds."""
        return {
            "characters": sum(each["characters"] for each in self._sections),
            "tokens": sum(each["tokens"] for each in self._sections),
            "sections": _with_texts(self._sections, section_texts(self._sections, self._prompts[0])),
            "memory_up_to": _change_ids(self._held),
            "rebuilt": self._rebuilt,
        }


def _turn(seen: _Seen, asked: StoredMessage, rest: list[StoredMessage]) -> dict[str, Any]:
    return {
        "message_id": asked.id,
        "at": asked.timestamp,
        "said": asked.text,
        "prompt": seen.prompt(),
        "tools": seen.tools,
        "history": {"messages": len(seen.context), "tokens": seen.tokens},
        "summaries": seen.summaries(),
        "added": _additions(asked),
        "announced": _change_ids(asked.message.get("announced", {})) if _told(asked) else {},
        "results": [
            {"tool": each.message.get("name") or "", "characters": len(each.text), "added": _additions(each)}
            for each in rest
            if each.role == "tool"
        ],
        "answer": _answer(rest),
        "compacted": [],  # what was written in the place of messages from here to the next turn
    }


def _whole(details: dict[str, Any]) -> list[dict[str, Any]]:
    """The prompt as one section: of a session of an earlier version, or one that was brought in."""
    text = details.get("system_prompt") or ""
    return [{"name": "prompt", "characters": len(text), "tokens": estimate(text)}] if text else []


def _summaries(context: Sequence[StoredMessage]) -> list[dict[str, Any]]:
    texts = summary_texts(context)
    carriers = [each for each in context if WRITTEN in each.message and "additions" in each.message]
    return [{"message_id": each.id, **each.message["additions"][0], "text": texts[each.id]} for each in carriers]


def _tokens(each: StoredMessage) -> int:
    return estimate_message(wire_message(each.message))


def _rest_of_turn(stored: Sequence[StoredMessage], at: int) -> list[StoredMessage]:
    rest = []
    for each in stored[at + 1 :]:
        if WRITTEN in each.message:
            continue
        if each.role == "user":
            break
        rest.append(each)
    return rest


def _additions(each: StoredMessage) -> list[dict[str, Any]]:
    return _with_texts(each.message.get("additions", ()), addition_texts(each))


def _with_texts(parts: Iterable[dict[str, Any]], texts: Sequence[str | None]) -> list[dict[str, Any]]:
    return [{**part, "text": text} for part, text in zip(parts, texts, strict=True)]


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
    """How a conversation learnt of each change of memory: by change id, in words; what it never learnt is left out.

    `changes` are all there were, oldest first: what was taken back before the conversation looked is not told to it.
    """
    known: dict[str, str] = {}
    up_to: dict[str, int] = {}
    chain = Transcript(db).chain(db.get_session(session_id))
    ours = {session.id for session in chain}
    for each in turns(db, session_id):
        prompt = f"in the prompt {'rebuilt before' if each['prompt']['rebuilt'] else 'from'} turn {each['turn']}"
        ways = {prompt: each["prompt"]["memory_up_to"], f"announced in turn {each['turn']}": each["announced"]}
        for way, newest in ways.items():
            for target in newest:
                until = _number(newest[target])
                known = {**dict.fromkeys(_seen(changes, target, up_to.get(target), until), way), **known}
                up_to[target] = max(until, up_to.get(target, 0))
    for change in changes:
        if change.cause.session in ours:
            known[change.id] = f"written in this conversation (session {change.cause.session})"
    return known


def _seen(changes: Sequence[Change], target: str, since: int | None, until: int) -> Iterator[str]:
    """The changes after one and up to another that somebody who looks then can see.

    Who looks for the first time (`since` is None) sees what is there, and misses nothing of what is not.
    """
    past = [change for change in changes if change.target == target and _number(change.id) <= until]
    fresh = [change for change in past if _number(change.id) > (since or 0)]
    live = set(replay(past)) if fresh else set()
    for change in fresh:
        if live.intersection(change.added()) or (since is not None and not live.issuperset(change.removed())):
            yield change.id


def _number(change_id: str) -> int:
    return int(change_id[1:])
