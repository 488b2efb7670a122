"""Looks at a provider as status and set-up do: really, with its code and its backend, but not for long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.providers.base import InAProcess
from hermes.providers.calling import running_for
from hermes.providers.config import configured, missing_fields, read_config
from hermes.providers.discovery import find_provider
from hermes.providers.health import in_words
from hermes.providers.lane import Lane, NotInTime
from hermes.providers.outbox import Outbox
from hermes.session.external import chosen_providers
from hermes.session.provider_places import in_passing, open_provider
from hermes.vocabulary.errors import HermesError, ProviderError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes.settings.home import Home
    from hermes.settings.load import Settings


def provider_states(home: Home, settings: Settings) -> list[dict[str, Any]]:
    """What is known about the chosen providers without running any of their code."""
    return [{"name": name, **_left_behind(home, name)} for name in chosen_providers(settings)]


def examine(home: Home, settings: Settings, name: str, *, connect: bool = True) -> dict[str, Any]:
    """Everything about one provider: whether it loads, is available, lacks something, and really answers."""
    found: dict[str, Any] = {"name": name, "installed": True, "available": False, "connection": "", "problem": ""}
    seconds = settings.number("memory.provider_tool_timeout")
    try:
        info = find_provider(name, home.operator)
        found |= {"bundled": info.bundled, "folder": info.folder, "description": info.description}
        with in_passing(within(seconds, lambda: open_provider(home, settings, name))) as provider:
            found["runs"] = "in a process of its own" if isinstance(provider, InAProcess) else "in this program"
            asked = _for(home, lambda: _configuration(provider, name, home))
            found["config"], found["missing"] = within(seconds, asked)
            found["available"] = bool(within(seconds, _for(home, provider.is_available)))
            if connect and found["available"]:
                found["connection"] = _connection(provider, home, seconds)
    except HermesError as error:
        found |= {"problem": str(error), "installed": found.get("bundled") is not None}
    return found | _left_behind(home, name)


def connection_of(name: str, home: Home, settings: Settings) -> str:
    """One line about a backend that answers; a ProviderError when it does not."""
    seconds = settings.number("memory.provider_tool_timeout")
    with in_passing(within(seconds, lambda: open_provider(home, settings, name))) as provider:
        return _connection(provider, home, seconds)


def fields_of(provider: Any) -> list[dict[str, Any]]:
    """The fields a provider's set-up has; those without a key are nobody's."""
    offered = provider.get_config_schema() if hasattr(provider, "get_config_schema") else []
    return [field for field in offered or () if isinstance(field, dict) and field.get("key")]


def secret_name(name: str, field: dict[str, Any]) -> str:
    """The variable a secret is kept under."""
    return str(field.get("env_var") or f"{name}_{field['key']}".upper().replace("-", "_"))


def _connection(provider: Any, home: Home, seconds: float) -> str:
    def ask() -> str:
        provider.initialize("status", hermes_home=home.path, platform="cli", agent_context="flush")
        try:
            answered = provider.check_connection() if hasattr(provider, "check_connection") else ""
        finally:
            if hasattr(provider, "shutdown"):
                provider.shutdown()
        return str(answered or "it started; it has no test of its own")

    return str(within(seconds, _for(home, ask)))


def _configuration(provider: Any, name: str, home: Home) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """What is configured, without secrets, and what is still needed."""
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
    outbox = Outbox(home.path, name)
    last = outbox.last_state()
    said = {"last": str(last.get("text", "")), "last_at": last.get("at")} if last else {}
    return {"waiting": len(outbox.names()), "refused": outbox.set_aside(), **said}


def _for(home: Home, work: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> Any:
        with running_for(home.path):
            return work()

    return run


def within(seconds: float, work: Callable[[], Any]) -> Any:
    """Runs a provider's code for a bounded time; whatever goes wrong is a ProviderError."""
    lane = Lane("hermes-provider-check")
    try:
        return lane.begin(work).wait(seconds)
    except NotInTime:
        raise ProviderError(f"it did not return within {seconds:g} s", kind="slow") from None
    except HermesError:
        raise
    except BaseException as error:
        raise ProviderError(in_words(error), kind="absent") from error
    finally:
        lane.close()
