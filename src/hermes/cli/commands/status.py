"""`hermes status` and `hermes doctor`: what is there, whether it works, and what to do."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hermes.base.errors import HermesError
from hermes.base.events import PROBLEM
from hermes.base.text import counted
from hermes.base.version import __version__
from hermes.cli import ui
from hermes.cli.sessions.look import in_words
from hermes.compaction.engine import BUILT_IN
from hermes.conversations.maintenance import Maintenance
from hermes.memory.approval import Approvals
from hermes.memory.store import usage
from hermes.operations.doctor import Options, examine
from hermes.session.curator import CurationLog
from hermes.session.engines import engine_state
from hermes.session.parts import open_parts
from hermes.session.review import last_review
from hermes.settings.home import DATABASE, UNSAVED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from hermes.session.parts import SessionParts


def _session_lines(state: dict[str, Any]) -> Iterator[str]:
    if "problem" in state:
        yield f"sessions  ! {state['problem']}"
    else:
        size = f", {ui.bytes_in_words(state['file_bytes'])} on disk" if "file_bytes" in state else ""
        held = f"{counted(state['conversations'], 'conversation')}, {counted(state['messages'], 'message')}"
        yield f"sessions  {held}{size}"
        grown = (f"{counted(each['messages'], 'message')} in {each['month']}" for each in state["by_month"])
        yield f"growth    {', '.join(grown) or 'nothing yet'}"
    for words in state.get("unfinished", ()):
        yield f"          ! {words}"
    for each in state["unsaved"]:
        now = each.get("problem") or ("open now" if each["open"] else "the next session adds it")
        yield f"          ! 1 conversation is not in state.db: {each['file']} ({now})"


def _engine_lines(state: dict[str, Any]) -> Iterator[str]:
    used = state.get("in_use", state["name"])
    decides = f"at {state['threshold']:.0%} of the window" if state["enabled"] else "off (compression.enabled)"
    if used != BUILT_IN:
        decides = "when it decides"  # compression.threshold is the built-in one's
    compacted = counted(state["recent_sessions_compacted"], "recent session")
    name = used if used == state["name"] else f"{used} instead of {state['name']}"
    yield f"context   {name}, {decides}; {compacted} compacted; breaker {state['breaker']}"
    if problem := state.get("problem"):
        yield f"          ! {problem}"
    for each in state["held_back"]:
        yield f"          ! {each['session_id']}: {each['why']}"


def _review(review: dict[str, Any]) -> str:
    at = f"{ui.when(review['at'])}: " if "at" in review else ""
    saved = f", {counted(len(review.get('saved', ())), 'save')}" if review.get("saved") else ""
    error = f" (! {review['error']})" if review.get("error") else ""
    cost = f", {review['tokens']:,} tokens" if review.get("tokens") else ""
    return f"{at}{review['status']}{saved}{cost}{error}"


def _curation(run: dict[str, Any]) -> str:
    disputed = f", {counted(len(run['contradictions']), 'contradiction')} (`hermes curator status`)"
    return (
        f"{run['id']} {ui.when(run['at'])}: {counted(len(run['operations']), 'operation')}"
        f"{disputed if run['contradictions'] else ''}{', taken back' if run['undone_by'] else ''}"
    )


_RECENT = 20

_MONTHS = 2


def _status(given: ui.Given, context: ui.Context) -> None:
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
        state |= {"review": _last_review(parts), "curation": CurationLog(parts.home).last()}
    finally:
        parts.close()
    ui.show(given, state, *_state_lines(state))


def _providers(context: ui.Context) -> list[dict[str, Any]]:
    """How external memory fared last, and what waits for it; none of its code is run."""
    if not (context.settings.text("memory.provider") or context.settings.texts("memory.providers")):
        return []
    from hermes.operations.checks import provider_states

    return provider_states(context.home, context.settings)


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


def _sessions(parts: SessionParts) -> dict[str, Any]:
    path = parts.home.join(DATABASE)
    if not os.path.exists(path):
        return {"conversations": 0, "sessions": 0, "messages": 0, "by_month": []}
    try:
        parts.storage.open()
        recent = parts.database.list_sessions(limit=_RECENT)
        read, sent = (sum(getattr(s, name) for s in recent) for name in ("cache_read_tokens", "input_tokens"))
        upkeep = Maintenance.of_db(parts.database)
        totals = upkeep.totals()
        state = {name: totals[name] for name in ("conversations", "sessions", "messages")}
        state |= {**upkeep.sizes(), "by_month": upkeep.by_month(_MONTHS), "unfinished": in_words(parts.database)}
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
    from hermes.session.unsaved import waiting

    try:
        return waiting(parts.home)
    except HermesError as error:
        return [{"file": parts.home.join(UNSAVED), "open": False, "problem": str(error)}]


def _last_review(parts: SessionParts) -> dict[str, Any] | None:
    try:
        return last_review(parts.database) if parts.storage.is_open else None
    except HermesError as error:
        return {"status": "unknown", "error": str(error)}


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


def _state_lines(state: dict[str, Any]) -> Iterator[str]:
    yield f"hermes {state['version']}  {state['home']} (profile {state['profile']})"
    for target, used in state["memory"].items():
        yield f"{target:<9} {used}"
    yield f"pending   {counted(state['pending_writes'], 'memory write')}"
    yield f"model     {state['model'] or 'none chosen (`hermes setup`)'}"
    for each in state["providers"]:
        refused = f", {each['refused']} refused" if each["refused"] else ""
        last = f"; {each['last']}" if each.get("last") else ""
        yield f"provider  {each['name']}, {counted(each['waiting'], 'call')} waiting{refused}{last}"
    if not state["providers"]:
        yield "provider  built-in memory only"
    yield from _engine_lines(state["engine"])
    yield f"skills    {state['skills']}"
    yield from _session_lines(state["sessions"])
    share = state["sessions"].get("cached_share")
    known = "" if share is None else f"{share:.0%} of the prompt tokens of recent sessions came from it; "
    yield f"cache     {known}kept for {state['prompt_cache_ttl']}"
    if miss := state["sessions"].get("last_cache_miss"):
        yield f"          last miss: {miss}"
    review, curation = state["review"], state["curation"]
    yield f"review    {_review(review) if review else 'none yet'}"
    yield f"curation  {_curation(curation) if curation else 'none yet'}"


_SIGNS = {"ok": "✓", "warning": "!", "problem": "✗"}


def _doctor(given: ui.Given, context: ui.Context) -> int:
    stages = ui.Stages()
    options = Options(fix=given.fix, connect=not given.offline, progress=stages.show)
    checks = []
    for check in examine(context.home, options):
        checks.append(check)
        if not given.json:
            stages.clear()
            ui.line(f"{_SIGNS[check.state]} {check.name}: {check.found}{' (fixed)' if check.fixed else ''}")
            if check.remedy:
                ui.line(f"    → {check.remedy}")
    healthy = not any(check.state == PROBLEM for check in checks)
    if given.json:
        ui.print_json({"healthy": healthy, "checks": [check.as_json() for check in checks]})
    elif healthy:
        ui.line("Everything that must work works.")
    else:
        ui.line("Something needs you: see the lines marked ✗.")
    return ui.OK if healthy else ui.REFUSED


COMMANDS = {
    "status": ui.command(_status),
    "doctor": ui.command(
        _doctor,
        ui.option("--fix", "do what is safe: privacy, leftovers, index, log"),
        ui.option("--offline", "do not ask models and providers whether they answer"),
    ),
}
