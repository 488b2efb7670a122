"""Collects what `hermes status` shows about a home, and tries a provider or a context engine for a bounded time."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from typing import TYPE_CHECKING, Any

from hermes.base.errors import HermesError, NotFound, ProviderError, SettingsError
from hermes.base.version import __version__
from hermes.compaction.engine import BUILT_IN
from hermes.conversations.maintenance import Maintenance
from hermes.memory.store import usage
from hermes.providers.base import SeparateProcess
from hermes.providers.config import configured, missing_fields, read_config
from hermes.providers.delivery import Outbox, TimedOut, Worker, in_words
from hermes.providers.discovery import find_provider, in_passing, open_provider
from hermes.providers.manager import running_for
from hermes.session.approvals import PendingWrites
from hermes.session.compaction import engine_state
from hermes.session.curator import CurationLog
from hermes.session.external import chosen_providers
from hermes.session.models import Background
from hermes.session.parts import ENGINES, engine_folders, known_engines, named_engine, open_parts
from hermes.session.review import last_review
from hermes.session.unsaved import waiting
from hermes.settings.config import conversations_of, documents_of
from hermes.settings.home import UNSAVED
from hermes.storage.ports import is_address
from hermes.tools.registry import usable_schemas

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes.session.parts import SessionParts
    from hermes.settings.config import Settings
    from hermes.settings.home import Home

_RECENT = 20  # newest sessions and messages from which the share of the cache is taken
_MONTHS = 2


def collect_status(home: Home, settings: Settings, *, count: bool = True) -> dict[str, Any]:
    """Everything that `hermes status` shows; a part that cannot be read appears as a problem.

    Without `count`, conversations and messages are not counted, because counting reads every session.
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
        state: dict[str, Any] = upkeep.sizes()
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
    """How much of today's budget work in the background has used, and what waits."""
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


def provider_states(home: Home, settings: Settings) -> list[dict[str, Any]]:
    """What is known about the chosen providers without running any of their code."""
    return [{"name": name, **_left_behind(home, name)} for name in chosen_providers(settings)]


def examine_provider(home: Home, settings: Settings, name: str, *, connect: bool = True) -> dict[str, Any]:
    """Tries one provider: whether it loads, is available, lacks a setting, and (with `connect`) really answers."""
    found: dict[str, Any] = {"name": name, "installed": True, "available": False, "connection": "", "problem": ""}
    seconds = settings.number("memory.provider_tool_timeout")
    try:
        info = find_provider(name, home.operator)
        found |= {"bundled": info.bundled, "folder": info.folder, "description": info.description}
        with in_passing(within(seconds, lambda: open_provider(home, settings, name))) as provider:
            found["runs"] = "in a process of its own" if isinstance(provider, SeparateProcess) else "in this program"
            asked = _for(home, lambda: _configuration(provider, name, home))
            found["config"], found["missing"] = within(seconds, asked)
            found["available"] = bool(within(seconds, _for(home, provider.is_available)))
            if connect and found["available"]:
                found["connection"] = _connection(provider, home, seconds)
    except HermesError as error:
        found |= {"problem": str(error), "installed": found.get("bundled") is not None}
    return found | _left_behind(home, name)


def connection_of(name: str, home: Home, settings: Settings) -> str:
    """Asks a provider's backend for one line about itself; raises ProviderError if it does not answer."""
    seconds = settings.number("memory.provider_tool_timeout")
    with in_passing(within(seconds, lambda: open_provider(home, settings, name))) as provider:
        return _connection(provider, home, seconds)


def fields_of(provider: Any) -> list[dict[str, Any]]:
    """The fields of a provider's set-up; those without a key are ignored."""
    offered = provider.get_config_schema() if hasattr(provider, "get_config_schema") else []
    return [field for field in offered or () if isinstance(field, dict) and field.get("key")]


def secret_name(name: str, field: dict[str, Any]) -> str:
    """The environment variable that holds a secret of a provider's set-up."""
    return str(field.get("env_var") or f"{name}_{field['key']}".upper().replace("-", "_"))


def _connection(provider: Any, home: Home, seconds: float) -> str:
    def ask() -> str:
        provider.initialize("status", hermes_home=home.path, platform="cli", agent_context="flush")
        try:
            answered = provider.check_connection() if hasattr(provider, "check_connection") else ""
        finally:
            if hasattr(provider, "shutdown"):
                provider.shutdown()
        return str(answered or "it started; it has no connection test")

    return str(within(seconds, _for(home, ask)))


def _configuration(provider: Any, name: str, home: Home) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """The provider's settings without secrets, and the fields that still need a value."""
    fields = fields_of(provider)
    values = configured(name, home.path, fields)
    secrets = {field["key"] for field in fields if field.get("secret")}
    shown = {key: each for key, each in {**read_config(name, home.path), **values}.items() if key not in secrets}
    if hasattr(provider, "get_status_config"):
        shown = dict(provider.get_status_config(shown) or {})
    lacking = [
        {
            "key": str(field["key"]),
            "variable": secret_name(name, dict(field)) if field.get("secret") else "",
            "url": str(field.get("url") or ""),
        }
        for field in missing_fields(fields, values)
    ]
    return {key: each for key, each in shown.items() if each not in (None, "")}, lacking


def _left_behind(home: Home, name: str) -> dict[str, Any]:
    outbox = Outbox(documents_of(home), name)
    last = outbox.last_state()
    said = {"last": str(last.get("text", "")), "last_at": last.get("at")} if last else {}
    return {"waiting": len(outbox.names()), "refused": outbox.set_aside(), **said}


def _for(home: Home, work: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> Any:
        with running_for(home.path):
            return work()

    return run


def within(seconds: float, work: Callable[[], Any]) -> Any:
    """Runs a provider's code for a bounded time; any exception of it becomes a ProviderError."""
    worker = Worker("hermes-provider-check")
    try:
        return worker.begin(work).wait(seconds)
    except TimedOut:
        raise ProviderError(f"it did not return within {seconds:g} s", kind="slow") from None
    except HermesError:
        raise
    except BaseException as error:
        raise ProviderError(in_words(error), kind="absent") from error
    finally:
        worker.close()


def examine_engine(home: Home, settings: Settings, name: str) -> dict[str, Any]:
    """Tries whether an engine loads; `problem` says what is wrong, `tried` what it offers."""
    belongs = os.path.join(engine_folders(home)[0], name, "__init__.py")
    info = next((each for each in known_engines(home) if each.name == name), None)
    found: dict[str, Any] = {"name": name, "kind": "context engine", "installed": True, "tried": "", "problem": ""}
    found |= {"bundled": name in ENGINES, "belongs_into": belongs}
    found |= {"folder": info.folder if info else "", "description": info.description if info else ""}
    try:
        seconds = settings.number("memory.provider_tool_timeout")
        found["tried"] = within(seconds, lambda: _loaded(home, settings, name))
    except HermesError as error:
        found |= {"problem": str(error), "installed": not isinstance(error, NotFound)}
    return found


def _loaded(home: Home, settings: Settings, name: str) -> str:
    """Loads an engine; a session tries each of its hooks, and falls back to the built-in engine with a notice."""
    tools = usable_schemas(named_engine(home, settings, name))
    return f"loads{'; tools: ' if tools else ''}{', '.join(each['name'] for each in tools)}"


def installer() -> list[str]:
    """The command that installs packages into the environment we run in: uv, its own pip, or another Python's pip.

    The environment of a checkout has no pip inside: `bin/install` makes it without, to start faster.
    """
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--python", sys.executable]
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install"]
    base = getattr(sys, "_base_executable", "")
    for python in filter(None, dict.fromkeys((os.environ.get("HERMES_PYTHON"), base, shutil.which("python3")))):
        has_pip = [python, "-m", "pip", "--version"]
        if python != sys.executable and subprocess.run(has_pip, capture_output=True, check=False).returncode == 0:
            return [python, "-m", "pip", "--python", sys.executable, "install"]
    raise SettingsError("there is neither uv nor pip to install packages with; install uv (https://docs.astral.sh/uv)")


def is_installed(requirement: str) -> bool:
    """Whether a package is installed, whatever version the requirement (`name>=1.0`) asks for."""
    try:
        return bool(distribution(re.split(r"[\s<>=!~\[;]", requirement, maxsplit=1)[0]))
    except PackageNotFoundError:
        return False
