"""What the settings say about where a conversation takes place: the day there, and how text is shown."""

from __future__ import annotations

from datetime import datetime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import date

    from hermes.settings.load import Settings


def local_day(settings: Settings) -> date:
    """Today in the time zone of the settings, else in the machine's own."""
    name = settings.text("timezone")
    if not name:
        return datetime.now().astimezone().date()
    from zoneinfo import ZoneInfo

    return datetime.now(ZoneInfo(name)).date()


def platform_words(settings: Settings, platform: str) -> tuple[str, str]:
    """What the prompt says about a platform instead of our own words, and what it says besides."""
    given = (settings.get("platform_hints") or {}).get(platform)
    if isinstance(given, dict):
        return _text(given.get("replace")), _text(given.get("append"))
    return _text(given), ""


def _text(given: object) -> str:
    return given if isinstance(given, str) else ""
