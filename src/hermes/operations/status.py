"""What `hermes status` knows: memory, sessions, external memory, the context engine, reviews and curation."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hermes.base.errors import HermesError
from hermes.base.version import __version__
from hermes.compaction.engine import BUILT_IN
from hermes.conversations.maintenance import Maintenance
from hermes.conversations.recorded_import import unfinished_in_words
from hermes.memory.store import usage
from hermes.operations.checks import provider_states
from hermes.session.approvals import PendingWrites
from hermes.session.background import Background
from hermes.session.curator import CurationLog
from hermes.session.engines import engine_state
from hermes.session.parts import open_parts
from hermes.session.review import last_review
from hermes.session.unsaved import waiting
from hermes.settings.config import conversations_of
from hermes.settings.home import UNSAVED
from hermes.storage.ports import is_address

if TYPE_CHECKING:
    from typing import Any

    from hermes.session.parts import SessionParts
    from hermes.settings.config import Settings
    from hermes.settings.home import Home

_RECENT = 20

_MONTHS = 2


def collect_status(home: Home, settings: Settings, *, count: bool = True) -> dict[str, Any]:
    """Everything that `hermes status` shows; what cannot be read is part of the answer.

    Without `count` conversations and messages are not counted, which reads every session.
    """
    parts = open_parts(home, settings=settings)
    try:
        sessions = {**_sessions(parts, count=count), "unsaved": _unsaved(parts)}
        return {
            "version": __version__,
            "home": home.path,
            "profile": home.profile or "default",
            "memory": _memory(parts),
            "pending_writes": len(PendingWrites(home).all()),
            "providers": provider_states(home, settings),
            "skills": len(parts.skills.index.entries()),
            "model": settings.text("model.default"),
            "sessions": sessions,
            "prompt_cache_ttl": settings.text("prompt_caching.cache_ttl"),
            "engine": _engine(parts),
            "review": _last_review(parts),
            "curation": CurationLog(home).last(),
            "background": _background(parts),
        }
    finally:
        parts.close()


def _memory(parts: SessionParts) -> dict[str, str]:
    if parts.store is None:
        return {}
    found = {}
    for target in parts.store.targets:
        try:
            reading = parts.store.read(target)
            problem = f" (! {reading.drift})" if reading.drift else ""
            found[target] = usage(reading.entries, parts.store.limit(target)) + problem
        except HermesError as error:
            found[target] = f"! {error}"
    return found


def _sessions(parts: SessionParts, *, count: bool) -> dict[str, Any]:
    where = conversations_of(parts.home)["path"]
    if not is_address(where) and not os.path.exists(where):
        return {"conversations": 0, "sessions": 0, "messages": 0, "by_month": []}
    try:
        parts.storage.open()
        recent = parts.database.list_sessions(limit=_RECENT)
        read, sent = (sum(getattr(s, name) for s in recent) for name in ("cache_read_tokens", "input_tokens"))
        upkeep = Maintenance.of_db(parts.database)
        state = {**upkeep.sizes(), "unfinished": unfinished_in_words(parts.database)}
        if count:
            totals = upkeep.totals()
            counted = {name: totals[name] for name in ("conversations", "sessions", "messages")}
            state = {**counted, **state, "by_month": upkeep.by_month(_MONTHS)}
    except HermesError as error:
        return {"problem": str(error)}
    if sent:
        state["cached_share"] = round(read / sent, 3)
        newest = parts.database.messages(recent[0].id, limit=_RECENT, newest=True)
        misses = (each.message["cache"]["broken_by"] for each in newest if each.message.get("cache"))
        state["last_cache_miss"] = next(filter(None, misses), "")
    return state


def _unsaved(parts: SessionParts) -> list[dict[str, Any]]:
    """Conversations that could not be stored in the database yet."""
    if not os.path.isdir(parts.home.join(UNSAVED)):
        return []
    try:
        return waiting(parts.home)
    except HermesError as error:
        return [{"file": parts.home.join(UNSAVED), "open": False, "problem": str(error)}]


def _last_review(parts: SessionParts) -> dict[str, Any] | None:
    try:
        return last_review(parts.database) if parts.storage.is_open else None
    except HermesError as error:
        return {"status": "unknown", "error": str(error)}


def _background(parts: SessionParts) -> dict[str, Any]:
    """What work in the background took today, of how much, and what waits."""
    try:
        return Background(parts.database, parts.settings).as_dict() if parts.storage.is_open else {}
    except HermesError as error:
        return {"problem": str(error)}


def _engine(parts: SessionParts) -> dict[str, Any]:
    try:
        database = parts.database if parts.storage.is_open else None
        recent = database.list_sessions(limit=_RECENT) if database is not None else []
        state = engine_state(parts.settings, database, recent)
    except HermesError as error:
        return {**engine_state(parts.settings, None, []), "problem": str(error)}
    if state["name"] != BUILT_IN:
        choice = parts.engine
        state |= {"in_use": choice.engine.name, "problem": choice.problem}
    return state
