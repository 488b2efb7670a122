"""Settings and secrets of OpenClaw: what has a place here goes there, the rest is archived with its secrets masked."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

from hermes.migration.openclaw_source import dig
from hermes.migration.report import CONFLICT, MIGRATED, Item
from hermes.safety.secrets import mask_secrets
from hermes.settings.check import problem_with
from hermes.settings.load import load_settings
from hermes.settings.schema import all_keys
from hermes.settings.secrets_file import read_secrets, save_secret
from hermes.settings.yaml_file import place_value
from hermes.vocabulary.errors import HermesError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes.migration.carrying import Carrying
    from hermes.migration.openclaw_source import OpenClaw, Options
    from hermes.migration.undo_log import UndoLog
    from hermes.settings.home import Home

# Secrets that may come over when somebody asks for it, and where OpenClaw keeps them.
SECRETS: dict[str, tuple[tuple[str, ...], ...]] = {
    "TELEGRAM_BOT_TOKEN": (("channels", "telegram", "botToken"), ("telegram", "botToken")),
    "OPENROUTER_API_KEY": (("models", "providers", "openrouter", "apiKey"),),
    "OPENAI_API_KEY": (("models", "providers", "openai", "apiKey"),),
    "ANTHROPIC_API_KEY": (("models", "providers", "anthropic", "apiKey"),),
    "ELEVENLABS_API_KEY": (("messages", "tts", "elevenlabs", "apiKey"), ("talk", "apiKey")),
    "VOICE_TOOLS_OPENAI_KEY": (("messages", "tts", "openai", "apiKey"),),
}
_SECTIONS = {
    "plugins": "plugins-config",
    "cron": "cron-jobs",
    "hooks": "hooks-config",
    "agents": "agent-config",
    "gateway": "gateway-config",
    "session": "session-config",
    "models": "full-providers",
    "channels": "deep-channels",
    "browser": "browser-config",
    "tools": "tools-config",
    "approvals": "approvals-config",
    "memory": "memory-backend",
    "skills": "skills-config",
    "ui": "ui-identity",
    "logging": "logging-config",
    "messages": "tts-config",
}
_SECRET_NAME = re.compile(r"token|key|secret|password|credential|auth", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{?\w+\}?$")


def plan_settings(source: OpenClaw, home: Home, options: Options, carrying: Carrying) -> list[Item]:
    items = [_setting(source, home, options, wanted) for wanted in _wanted(source)]
    items += _secrets(source, home, options)
    for name, kind in _SECTIONS.items():
        section = source.config.get(name)
        if section:
            data = (json.dumps(_masked(section), ensure_ascii=False, indent=2, sort_keys=True) + "\n").encode()
            reason = "kept for you to look at; what has a place here came over by itself"
            place = f"{source.config_file}#{name}"
            items.append(carrying.archived_data(kind, place, data, f"config/{name}.json", reason))
    approvals = os.path.join(source.root, "exec-approvals.json")
    if os.path.isfile(approvals) and not os.path.islink(approvals):
        reason = "commands are approved anew here"
        items.append(carrying.archived("command-allowlist", approvals, "exec-approvals.json", reason))
    return items


def _wanted(source: OpenClaw) -> Iterator[tuple[str, str, Any]]:
    """Kind, name of our setting and value, for each setting of theirs that has a place here."""
    model = dig(source.config, "agents", "defaults", "model")
    model = model.get("primary") if isinstance(model, dict) else model
    if isinstance(model, str):
        yield "model-config", "model.default", model
    servers = dig(source.config, "mcp", "servers") or source.config.get("mcpServers")
    if isinstance(servers, dict) and servers:
        yield "mcp-servers", "mcp_servers", servers
    reset = dig(source.config, "session", "reset")
    if isinstance(reset, dict):
        if reset.get("mode") in ("idle", "daily"):
            yield "session-config", "session_reset.mode", reset["mode"]
        for theirs, ours in (("atHour", "session_reset.at_hour"), ("idleMinutes", "session_reset.idle_minutes")):
            if isinstance(reset.get(theirs), int):
                yield "session-config", ours, reset[theirs]
    zone = dig(source.config, "agents", "defaults", "userTimezone")
    if isinstance(zone, str):
        yield "agent-config", "timezone", zone


def _setting(source: OpenClaw, home: Home, options: Options, wanted: tuple[str, str, Any]) -> Item:
    kind, name, value = wanted
    item = Item(kind=kind, source=source.config_file, destination=f"{home.join('config.yaml')}: {name}")
    settings = load_settings(home)
    key = all_keys()[name]
    without_secrets = _masked(value) if kind == "mcp-servers" else value
    if not options.migrate_secrets or options.preset == "user-data":
        value = without_secrets
    if problem := problem_with(key, value):
        item.reason = f"{problem}; it stays behind"
        return item
    if os.path.islink(home.join("config.yaml")):
        item.reason = "config.yaml is a link; set it yourself where it leads"
        return item
    if settings.origin(name) != "default":
        if settings.get(name) == value:
            item.reason = "it is set like this already"
            return item
        if not options.overwrite and settings.get(name) != without_secrets:  # an earlier run left its secrets behind
            item.status, item.reason = CONFLICT, "it is set to something else here"
            return item

    def act(log: UndoLog) -> None:
        log.protect("config.yaml")
        place_value(home, "config.yaml", name, value)

    item.status, item.act = MIGRATED, act
    return item


def _secrets(source: OpenClaw, home: Home, options: Options) -> Iterator[Item]:
    found = _found_secrets(source)
    try:
        there = read_secrets(home)
    except HermesError:
        there = {}
    for name, text in found.items():
        kind = "secret-settings" if name == "TELEGRAM_BOT_TOKEN" else "provider-keys"
        item = Item(kind=kind, source=source.root, destination=f"{home.join('.env')}: {name}", sensitive=True)
        if options.preset == "user-data":
            item.reason = "the preset user-data leaves secrets behind"
        elif not options.migrate_secrets:
            item.reason = "secrets come over only with --migrate-secrets"
        elif there.get(name) == text:
            item.reason = "it is there already"
        elif name in there and not options.overwrite:
            item.status, item.reason = CONFLICT, "another value is there"
        else:
            item.status, item.act = MIGRATED, _save(home, name, text)
        yield item


def _save(home: Home, name: str, text: str) -> Any:
    def act(log: UndoLog) -> None:
        log.protect(".env")
        save_secret(home, name, text)

    return act


def _found_secrets(source: OpenClaw) -> dict[str, str]:
    lines = (source.read_path(os.path.join(source.root, ".env")) or "").splitlines()
    named = dict(line.removeprefix("export ").split("=", 1) for line in lines if "=" in line and line[:1] != "#")
    own = source.config.get("env") if isinstance(source.config.get("env"), dict) else {}
    inner = dig(own, "vars")
    found = {}
    for name, places in SECRETS.items():
        given = [named.get(name), dig(own, name), dig(inner, name), *(dig(source.config, *place) for place in places)]
        for value in given:
            text = value.strip().strip("\"'") if isinstance(value, str) else ""
            if text and not _REFERENCE.match(text) and "\n" not in text:
                found[name] = text
                break
    return found


def _masked(tree: Any, name: str = "") -> Any:
    """The same tree without what looks like a secret by its name or by itself."""
    if isinstance(tree, dict):
        return {str(key): _masked(value, str(key)) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_masked(value, name) for value in tree]
    if isinstance(tree, str):
        return "[left behind]" if _SECRET_NAME.search(name) and len(tree) > 7 else mask_secrets(tree)  # noqa: PLR2004
    return tree if isinstance(tree, int | float | bool | None) else str(tree)
