"""Which context engine a session uses; loads it lazily, forwards events to it, and falls back when it fails."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

from hermes.base.errors import HermesError, ModelError
from hermes.compaction.compressor import TRIPS_AFTER, Breaker, ContextCompressor
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
from hermes.compaction.lcm import register as register_lcm
from hermes.compaction.messages import prose
from hermes.conversations.context import Contexts
from hermes.llm.catalogue import UNKNOWN_CONTEXT
from hermes.session.models import answer, helper_model

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hermes.compaction.engine import Choice, ContextEngine
    from hermes.compaction.summary import Summariser
    from hermes.conversations.database import SessionDB
    from hermes.llm.client import Model
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


def summarisers(settings: Settings, main: Model | None, renew: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Who may be asked for a summary: the helper of `auxiliary.compression`, then the model of the conversation."""
    given: dict[str, Any] = {}
    seconds = settings.number("auxiliary.compression.timeout")
    try:
        own = helper_model(settings, "compression", own_only=True)
    except HermesError:  # nobody serves it now; the main model or the extract stands in
        own = None
    if own is not None:
        given |= {"summarise": _asking(own, seconds, renew), "summary_context_length": own.context_length}
    if main is not None and settings.flag("auxiliary.compression.enabled"):
        given["main_summarise"] = _asking(main, seconds, renew)
    return given


def _asking(model: Model, seconds: float, renew: Callable[[], None]) -> Summariser:
    def ask(prompt: str, max_tokens: int) -> str:
        del max_tokens  # the prompt says how long it may be; what is longer is cut off and would be rejected
        renew()
        try:
            return answer(model, prose("system"), prompt, seconds)
        except ModelError as error:
            if error.passing:
                raise ConnectionError(str(error)) from error
            raise

    return ask
