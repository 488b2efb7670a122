"""Which context engine a session uses, who summarises for it, and whether what it made of a history can be used."""

from __future__ import annotations

import copy
import inspect
import json
import os
import time
from typing import TYPE_CHECKING, Any

from hermes.base.errors import HermesError, ModelError
from hermes.compaction.compressor import TRIPS_AFTER, Breaker, Compaction, ContextCompressor, unchanged
from hermes.compaction.engine import (
    BUILT_IN,
    FOLDER,
    EngineInfo,
    EngineRegistry,
    available_engines,
    choose_engine,
    load_engine,
    register_plugins,
)
from hermes.compaction.facts import count_kept
from hermes.compaction.lcm import register as register_lcm
from hermes.compaction.messages import Counts, is_block, last_request, parse_block, prose, repair_pairs, text_of
from hermes.conversations.context import Contexts
from hermes.llm.catalogue import UNKNOWN_CONTEXT
from hermes.session.background import COMPACTION
from hermes.session.context import WIRE_KEYS
from hermes.session.models import answer, helper_model

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hermes.compaction.engine import Choice, ContextEngine
    from hermes.compaction.summary import Summariser
    from hermes.conversations.database import SessionDB
    from hermes.llm.client import Model
    from hermes.session.background import Background
    from hermes.settings.config import Settings
    from hermes.settings.home import Home
    from hermes.storage.records import Session

BREAKER = "breaker"  # the name under which a session's breaker is kept


def engine_state(settings: Settings, database: SessionDB | None, recent: Sequence[Session]) -> dict[str, Any]:
    """Which engine is chosen, and for each recent session in which it is held back, why."""
    held: list[dict[str, str]] = []
    compacted = 0
    for session in recent:
        if database is None or (stored := database.get_meta(f"{BREAKER}:{session.id}")) is None:
            continue
        compacted += Contexts(database).was_compacted(session.id)  # a breaker is also kept when nothing was taken out
        if why := _held_back(Breaker.from_dict(json.loads(stored)), time.time()):
            held.append({"session_id": session.id, "why": why})
    return {
        "name": settings.text("context.engine") or "compressor",
        "enabled": settings.flag("compression.enabled"),
        "threshold": settings.number("compression.threshold"),
        "recent_sessions_compacted": compacted,
        "breaker": "open" if held else "closed",
        "held_back": held,
    }


def _held_back(breaker: Breaker, now: float) -> str:
    if breaker.ineffective >= TRIPS_AFTER:
        return f"{breaker.ineffective} compactions in a row did not help; `/compress` still tries"
    for who in ("helper", "main"):
        if not breaker.may_ask(who, now):
            seconds = round(getattr(breaker, f"{who}_until") - now)
            return f"the {who} model is not asked for {seconds} s after it failed: {breaker.error}"
    return ""


ENGINES = {
    BUILT_IN: "Summarises the middle of a conversation, and keeps word for word what a summary may not lose",
    "lcm": "A graph of summaries that leads to every message; tools to go down it",
}


def built_in(settings: Settings, window: int = UNKNOWN_CONTEXT, **more: Any) -> ContextCompressor:
    return ContextCompressor(
        window,
        protect_last_n=settings.integer("compression.protect_last_n"),
        abort_on_summary_failure=settings.flag("compression.abort_on_summary_failure"),
        **_shared(settings),
        **more,
    )


def _shared(settings: Settings) -> dict[str, Any]:
    """When and how much is compacted, for every engine of ours."""
    return {
        "enabled": settings.flag("compression.enabled"),
        "threshold": settings.number("compression.threshold"),
        "target_ratio": settings.number("compression.target_ratio"),
        "protect_first_n": settings.integer("compression.protect_first_n"),
    }


def known_engines(home: Home) -> list[EngineInfo]:
    """What `context.engine` may name, the bundled ones first; those of general plug-ins show when they are loaded."""
    bundled = [EngineInfo(name=name, folder="", description=text) for name, text in ENGINES.items()]
    return [*bundled, *available_engines(engine_folders(home))]


def engine_folders(home: Home) -> list[str]:
    return [os.path.join(place, FOLDER) for place in _homes(home)]


def chosen_engine(home: Home, settings: Settings) -> Choice:
    """The engine of the settings; `problem` says why it is another one."""
    name = settings.text("context.engine")
    return choose_engine(name, lambda: built_in(settings), engine_folders(home), _registered(home, name, settings))


def named_engine(home: Home, settings: Settings, name: str) -> ContextEngine:
    """The engine of that name, chosen or not; NotFound or SettingsError with the reason when there is none."""
    if name == BUILT_IN:
        return built_in(settings)
    return load_engine(name, engine_folders(home), _registered(home, name, settings))


def _homes(home: Home) -> list[str]:
    """Where plug-ins are: those of a profile before everybody's, those of a person are the operator's."""
    return list(dict.fromkeys([home.operator, *([] if home.above else [home.root])]))


def _registered(home: Home, name: str, settings: Settings) -> EngineRegistry:
    registry = EngineRegistry()
    if name not in ("", BUILT_IN):
        register_plugins(registry, [os.path.join(place, "plugins") for place in _homes(home)])
        register_lcm(registry, **_shared(settings))
    return registry


def summarisers(
    settings: Settings, main: Model | None, renew: Callable[[], None] = lambda: None, budget: Background | None = None
) -> dict[str, Any]:
    """Who may be asked for a summary: the helper of `auxiliary.compression`, then the model of the conversation.

    What they take is counted in the budget and never limited by it: a conversation could not go on.
    """
    given: dict[str, Any] = {}
    seconds = settings.number("auxiliary.compression.timeout")
    try:
        own = helper_model(settings, "compression", own_only=True)
    except HermesError:  # it cannot be reached now; the main model or an extract is used instead
        own = None
    if own is not None:
        given |= {"summarise": _asking(own, seconds, renew, budget), "summary_context_length": own.context_length}
    if main is not None and settings.flag("auxiliary.compression.enabled"):
        given["main_summarise"] = _asking(main, seconds, renew, budget)
    return given


def _asking(model: Model, seconds: float, renew: Callable[[], None], budget: Background | None) -> Summariser:
    def ask(prompt: str, max_tokens: int) -> str:
        del max_tokens  # the prompt says how long it may be; what is longer is cut off and would be rejected
        renew()
        try:
            return answer(model, prose("system"), prompt, seconds, task=COMPACTION, budget=budget, limited=False)
        except ModelError as error:
            if error.passing:
                raise ConnectionError(str(error)) from error
            raise

    return ask


# What an engine of others made of a history, checked before it takes its place.

_ROLES = ("user", "assistant", "tool", "system", "developer")


class UnusableResult(Exception):
    """What an engine of others made of a history cannot take its place; the message says why."""


def compress_with(
    engine: ContextEngine,
    messages: Sequence[dict[str, Any]],
    ids: Sequence[int],
    *,
    tokens: int,
    focus: str = "",
    **more: Any,
) -> Compaction:
    """What the engine made of the history; UnusableResult when it failed or what it returned cannot stand for it.

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
        raise UnusableResult(f"it raised {type(error).__name__}: {error}") from error
    if not isinstance(made, list) or not all(isinstance(each, dict) and each.get("role") in _ROLES for each in made):
        raise UnusableResult("it did not return a list of messages with a role")
    if why := _cannot_be_stored(made):
        raise UnusableResult(f"what it returned cannot be stored: {why}")
    placed = _placed(made, dict(zip(ids, messages, strict=True)))
    repaired, origin = repair_pairs([message for message, _ in placed])
    kept = [None if at is None else placed[at][1] for at in origin]
    still, before = set(kept), Counts(messages).total(0, len(messages))
    replaced = [number for number in ids if number not in still]
    if not replaced:  # also when it added something: that would only make the context longer
        return unchanged(messages, list(ids), before, "the engine found nothing to take out")
    last = last_request(messages)
    if last is not None and ids[last] not in still:
        raise UnusableResult("it dropped the person's last request")
    if all(placed[at][1] is not None for at in origin if at is not None):  # a result we made up stands for nothing
        raise UnusableResult("it put nothing in the place of what it took out")
    after = Counts(repaired).total(0, len(repaired))
    if after >= before:
        raise UnusableResult(f"about {before:,} tokens of messages would become {after:,}")
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
                raise UnusableResult("it returned a message twice")
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
        return "the name of a field is not text"
    odd = [message["content"] for message in made if not isinstance(message.get("content"), str | list | None)]
    return f"content is {type(odd[0]).__name__}" if odd else ""
