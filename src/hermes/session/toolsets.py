"""Which tools a platform gets: `enabled_toolsets` gates built-in tools and those of providers alike."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from hermes.settings.load import Settings

MEMORY = "memory"
TOOLSETS = {
    "memory": MEMORY,
    "session_search": "session_search",
    "skills_list": "skills",
    "skill_view": "skills",
    "skill_manage": "skills",
}


def enabled_toolsets(settings: Settings, platform: str) -> frozenset[str] | None:
    """What the settings enable for a platform; None, for everything, when they do not name it."""
    named = (settings.get("enabled_toolsets") or {}).get(platform)
    if named is None:
        return None
    return frozenset([named] if isinstance(named, str) else map(str, named))


def is_enabled(tool: str, toolsets: Collection[str] | None, toolset: str | None = None) -> bool:
    """Whether a tool is offered; one that belongs to no toolset always is."""
    belongs = toolset or TOOLSETS.get(tool)
    return toolsets is None or belongs is None or belongs in toolsets
