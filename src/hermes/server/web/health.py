"""The Health page: cache, tokens and cost per day, store, providers, background work, and doctor on request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.base.text import in_words
from hermes.operations.doctor import Options, examine
from hermes.operations.status import collect_status
from hermes.server.web.conversations import name_of
from hermes.server.web.site import Page, Section, View
from hermes.settings.config import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hermes.server.web.site import Ask
    from hermes.storage.records import Session

_CONVERSATIONS = 400  # the newest, which the charts are made of: a page costs the same in a store of any size
_DAYS = 30
_LOOKED_AT, _ANSWERS = 12, 40  # conversations and their newest messages that are searched for cache misses
_MISSES = 15


def _show(ask: Ask) -> Page:
    workspace = ask.workspace
    sessions = workspace.past.list_sessions(limit=_CONVERSATIONS, begun=True)
    days = _by_day(sessions)
    values = {
        "days": days,
        "shares": [(day["day"], day["share"]) for day in days],
        "tokens": [(day["day"], day["input"], day["output"]) for day in days],
        "costs": [(day["day"], round(day["cost"], 4)) for day in days],
        "said": [(day["day"], day["messages"]) for day in days],
        "misses": _misses(ask, sessions[:_LOOKED_AT]),
        "conversations": len(sessions),
        "status": collect_status(workspace.home, load_settings(workspace.home), count=False),
        "checks": None,
    }
    return Page(template="health.html", values=values)


def _doctor(ask: Ask) -> Page:
    """What `hermes doctor` finds, without asking models and providers whether they answer."""
    page = _show(ask)
    checks = list(examine(ask.workspace.home, Options(connect=False)))
    return Page(template=page.template, values={**page.values, "checks": checks})


def _by_day(sessions: Iterable[Session]) -> list[dict[str, Any]]:
    """Tokens, cost and cached share of the conversations last used on a day, oldest first."""
    days: dict[str, dict[str, Any]] = {}
    for each in sessions:
        name = in_words(each.last_active, "%Y-%m-%d")
        day = days.setdefault(name, {"day": name, "input": 0, "output": 0, "cached": 0, "cost": 0.0, "messages": 0})
        day["input"] += each.input_tokens
        day["output"] += each.output_tokens
        day["cached"] += each.cache_read_tokens
        day["cost"] += each.actual_cost_usd or each.estimated_cost_usd or 0.0
        day["messages"] += each.message_count
    for day in days.values():
        day["share"] = round(100 * day["cached"] / day["input"], 1) if day["input"] else None
    return sorted(days.values(), key=lambda day: str(day["day"]))[-_DAYS:]


def _misses(ask: Ask, sessions: Iterable[Session]) -> list[dict[str, Any]]:
    """The newest answers whose prompt did not come from the cache, with the reason that was found at the time."""
    found = []
    for session in sessions:
        for each in ask.workspace.past.messages(session.id, limit=_ANSWERS, newest=True):
            cache = each.message.get("cache")
            if isinstance(cache, dict) and cache.get("broken_by"):
                share = round(100 * (cache.get("share") or 0))
                about = {"at": each.timestamp, "why": cache["broken_by"], "share": share}
                found.append({**about, "session": session, "message": each.id, "name": name_of(session)})
    return sorted(found, key=lambda miss: -miss["at"])[:_MISSES]


SECTION = Section(
    name="health",
    title="Health",
    key="h",
    views=(View(act=_show), View(path="/doctor", method="POST", act=_doctor)),
)
