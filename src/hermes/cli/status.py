"""`hermes status`: what is there and how it fares, in one screen."""

from __future__ import annotations

import os

from hermes.cli.context import OK
from hermes.cli.render import add_json_option, print_json, print_text
from hermes.cli.sessions_unfinished import in_words
from hermes.cli.status_background import background, print_background, print_engine, print_sessions
from hermes.compression.discovery import BUILT_IN
from hermes.curated.approval import Approvals
from hermes.curated.operations import usage
from hermes.session.engine_state import engine_state
from hermes.session.wiring import open_parts
from hermes.settings.home import DATABASE, UNSAVED
from hermes.storage.upkeep import Upkeep
from hermes.vocabulary.errors import HermesError
from hermes.vocabulary.version import __version__
from hermes.vocabulary.words import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from hermes.cli.context import Context
    from hermes.session.wiring import Parts

_RECENT = 20
_MONTHS = 2


def _status(given: argparse.Namespace, context: Context) -> int:
    parts = open_parts(context.home, settings=context.settings)
    try:
        state: dict[str, Any] = {
            "version": __version__,
            "home": context.home.path,
            "profile": context.home.profile or "default",
            "memory": _memory(parts),
            "pending_writes": len(Approvals(context.home).pending()[0]),
            "providers": _providers(context),
            "skills": len(parts.skills.index.entries()),
            "model": context.settings.text("model.default"),
            "sessions": {**_sessions(parts), "unsaved": _unsaved(parts)},
            "prompt_cache_ttl": context.settings.text("prompt_caching.cache_ttl"),
        }
        state["engine"] = _engine(parts)
        state |= background(parts)  # after the sessions, which open the database
    finally:
        parts.close()
    if given.json:
        print_json(state)
    else:
        _print_state(state)
    return OK


def _providers(context: Context) -> list[dict[str, Any]]:
    """How external memory fared last, and what waits for it; none of its code is run."""
    if not (context.settings.text("memory.provider") or context.settings.texts("memory.providers")):
        return []
    from hermes.session.provider_checks import provider_states

    return provider_states(context.home, context.settings)


def _memory(parts: Parts) -> dict[str, str]:
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


def _sessions(parts: Parts) -> dict[str, Any]:
    path = parts.home.join(DATABASE)
    if not os.path.exists(path):
        return {"conversations": 0, "sessions": 0, "messages": 0, "by_month": []}
    try:
        parts.open_database("local")
        recent = parts.database.list_sessions(limit=_RECENT)
        read, sent = (sum(getattr(s, name) for s in recent) for name in ("cache_read_tokens", "input_tokens"))
        upkeep = Upkeep.of_db(parts.database)
        totals = upkeep.totals()
        state = {name: totals[name] for name in ("conversations", "sessions", "messages")}
        state |= {**upkeep.sizes(), "by_month": upkeep.by_month(_MONTHS), "unfinished": in_words(parts.database)}
    except HermesError as error:
        return {"problem": str(error)}
    if sent:
        state["cached_share"] = round(read / sent, 3)
        state["last_cache_miss"] = _last_miss(parts, recent[0].id)
    return state


def _unsaved(parts: Parts) -> list[dict[str, Any]]:
    """Conversations that could not be stored in the database yet."""
    if not os.path.isdir(parts.home.join(UNSAVED)):
        return []
    from hermes.session.unsaved import waiting

    try:
        return waiting(parts.home)
    except HermesError as error:
        return [{"file": parts.home.join(UNSAVED), "open": False, "problem": str(error)}]


def _engine(parts: Parts) -> dict[str, Any]:
    try:
        database = parts.database if parts.has_database else None
        recent = database.list_sessions(limit=_RECENT) if database is not None else []
        state = engine_state(parts.settings, database, recent)
    except HermesError as error:
        return {**engine_state(parts.settings, None, []), "problem": str(error)}
    if state["name"] != BUILT_IN:
        choice = parts.engine
        state |= {"in_use": choice.engine.name, "problem": choice.problem}
    return state


def _last_miss(parts: Parts, session_id: str) -> str:
    newest = parts.database.messages(session_id, limit=_RECENT, newest=True)
    misses = (each.message["cache"]["broken_by"] for each in newest if each.message.get("cache"))
    return next((miss for miss in misses if miss), "")


def _print_state(state: dict[str, Any]) -> None:
    ttl = state["prompt_cache_ttl"]
    print_text(f"hermes {state['version']}  {state['home']} (profile {state['profile']})")
    for target, used in state["memory"].items():
        print_text(f"{target:<9} {used}")
    print_text(f"pending   {counted(state['pending_writes'], 'memory write')}")
    print_text(f"model     {state['model'] or 'none chosen (`hermes setup`)'}")
    for each in state["providers"]:
        refused = f", {each['refused']} refused" if each["refused"] else ""
        last = f"; {each['last']}" if each.get("last") else ""
        print_text(f"provider  {each['name']}, {counted(each['waiting'], 'call')} waiting{refused}{last}")
    if not state["providers"]:
        print_text("provider  built-in memory only")
    print_engine(state["engine"])
    print_text(f"skills    {state['skills']}")
    print_sessions(state["sessions"])
    share = state["sessions"].get("cached_share")
    known = "" if share is None else f"{share:.0%} of the prompt tokens of recent sessions came from it; "
    print_text(f"cache     {known}kept for {ttl}")
    if miss := state["sessions"].get("last_cache_miss"):
        print_text(f"          last miss: {miss}")
    print_background(state)


COMMANDS = {"status": (add_json_option, _status)}
