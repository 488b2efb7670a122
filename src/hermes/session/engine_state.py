"""How compaction fares in recent conversations: read from what sessions stored, without running any engine."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from hermes.compression.breaker import TRIPS_AFTER, Breaker
from hermes.storage.compaction import Contexts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes.settings.load import Settings
    from hermes.storage.conversations import Session
    from hermes.storage.sessions import SessionDB

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
