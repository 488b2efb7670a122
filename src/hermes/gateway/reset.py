"""When a chat starts over by itself: after a time without a message, at an hour of the day, or both."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import tzinfo

    from hermes.settings.load import Settings

IDLE, DAILY = "idle", "daily"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetPolicy:
    mode: str = "none"  # none, idle, daily, both
    at_hour: int = 4
    idle_minutes: int = 1440
    notify: bool = True
    zone: tzinfo | None = None  # of the hour; None for the machine's own

    @classmethod
    def of(cls, settings: Settings) -> ResetPolicy:
        from zoneinfo import ZoneInfo

        name = settings.text("timezone")
        return cls(
            mode=settings.text("session_reset.mode"),
            at_hour=settings.integer("session_reset.at_hour"),
            idle_minutes=settings.integer("session_reset.idle_minutes"),
            notify=settings.flag("session_reset.notify"),
            zone=ZoneInfo(name) if name else None,
        )

    def due(self, active: float, now: float) -> str:
        """Why a chat that was last used at `active` starts over at `now`; "" when it goes on."""
        if self.mode in (DAILY, "both") and active < self._last_reset(now):
            return DAILY
        if self.mode in (IDLE, "both") and now - active >= self.idle_minutes * 60:
            return IDLE
        return ""

    def told(self, why: str) -> str:
        """One line for the person."""
        cause = "a new day" if why == DAILY else f"{_duration(self.idle_minutes)} without a message"
        return f"This is a new conversation ({cause}). What I remember is still there; /continue goes back."

    def _last_reset(self, now: float) -> float:
        local = datetime.fromtimestamp(now, self.zone) if self.zone else datetime.fromtimestamp(now).astimezone()
        hour = local.replace(hour=self.at_hour, minute=0, second=0, microsecond=0)
        return (hour if hour <= local else hour - timedelta(days=1)).timestamp()


def _duration(minutes: int) -> str:
    if minutes % 1440 == 0:
        return f"{minutes // 1440} day{'s' if minutes > 1440 else ''}"  # noqa: PLR2004 - the minutes of a day
    if minutes % 60 == 0:
        return f"{minutes // 60} hour{'s' if minutes > 60 else ''}"  # noqa: PLR2004 - the minutes of an hour
    return f"{minutes} minutes"
