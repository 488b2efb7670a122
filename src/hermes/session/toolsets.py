"""Which groups of tools are on: by platform, from the settings. A group that is off costs neither schema nor import."""

from __future__ import annotations

from hermes.settings.check import nearest
from hermes.vocabulary.errors import SettingsError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from typing import Any

    from hermes.settings.load import Settings

MEMORY = "memory"
TOOLSETS: dict[str, tuple[str, ...]] = {
    MEMORY: ("memory",),  # and whatever memory providers offer
    "session_search": ("session_search",),
    "skills": ("skills_list", "skill_view", "skill_manage"),
    "context": ("context_expand", "context_compact"),
    "todo": ("todo",),
    "delegation": ("delegate_task",),
    "files": ("read_file", "write_file", "patch", "search_files"),
    "terminal": ("terminal",),
    "web": ("fetch_url",),
    "mcp": (),  # whatever the servers in mcp_servers offer
}
# Hands on the machine: on where its owner sits in front of it, off for chats and servers until the settings say so.
_HANDS = frozenset({"files", "terminal"})
_AT_THE_MACHINE = frozenset({"cli", "demo", "subagent"})
_ANYWHERE = "default"


def toolsets_of(settings: Settings, platform: str) -> frozenset[str]:
    """The toolsets a session of a platform gets."""
    enabled = _named(settings, "enabled_toolsets", platform)
    disabled = _named(settings, "disabled_toolsets", platform) or ()
    if enabled is None:
        enabled = frozenset(TOOLSETS) if platform in _AT_THE_MACHINE else frozenset(TOOLSETS) - _HANDS
    everywhere = _checked("disabled_toolsets", (settings.get("disabled_toolsets") or {}).get(_ANYWHERE, ()))
    return frozenset(enabled) - frozenset(disabled) - frozenset(everywhere)


def check_names(names: Collection[str]) -> frozenset[str]:
    """Toolsets somebody named, or an error that knows the right spelling."""
    return _checked("toolsets", names)


def is_enabled(tool: str, toolsets: Collection[str] | None, toolset: str | None = None) -> bool:
    """Whether a tool is offered; one that belongs to no toolset always is."""
    belongs = toolset or next((name for name, tools in TOOLSETS.items() if tool in tools), None)
    return toolsets is None or belongs is None or belongs in toolsets


def _named(settings: Settings, key: str, platform: str) -> frozenset[str] | None:
    by_platform = settings.get(key) or {}
    given = by_platform.get(platform, by_platform.get(_ANYWHERE) if key == "enabled_toolsets" else None)
    return None if given is None else _checked(f"{key}.{platform}", given)


def _checked(key: str, names: Any) -> frozenset[str]:
    listed: Iterable[str] = [names] if isinstance(names, str) else names
    if not isinstance(listed, list | tuple | set | frozenset):
        raise SettingsError(f"{key}: expected a list of toolsets, found {names!r}")
    for name in listed:
        if name not in TOOLSETS:
            known = ", ".join(TOOLSETS)
            raise SettingsError(f"{key}: there is no toolset {name!r}{nearest(str(name), TOOLSETS)} (known: {known})")
    return frozenset(listed)
