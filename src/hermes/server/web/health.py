"""The Health page, and the People page for the owner: who has a home here, their keys, rights, limits, last use.

Nothing that anybody said or stored is read for the People page.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hermes.base.errors import NotFound
from hermes.base.text import in_words
from hermes.memory.file import FOLDER
from hermes.operations.doctor import Options, examine
from hermes.operations.own_bench import ARMS, run_self
from hermes.operations.status import collect_status
from hermes.server.web.conversations import name_of
from hermes.server.web.site import Notice, Page, Redirect, Section, View, address, paged
from hermes.session.models import Background
from hermes.settings.config import load_settings
from hermes.settings.home import DATABASE
from hermes.settings.people import APPROVE, OWNER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hermes.server.web.site import Ask
    from hermes.settings.people import People, Person
    from hermes.storage.records import Session

_CONVERSATIONS = 400  # the newest, for the charts: the page costs the same in a store of any size
_DAYS = 30
_LOOKED_AT, _ANSWERS = 12, 40  # conversations and their newest messages that are searched for cache misses
_MISSES = 15
_QUESTIONS = 20  # of the person's own, which are asked again in a few seconds


def _show(ask: Ask) -> Page:
    workspace = ask.workspace
    sessions = workspace.past.list_sessions(limit=_CONVERSATIONS, begun=True)
    days = _by_day(sessions, Background(workspace.past, load_settings(workspace.home)).by_day())
    misses = _misses(ask, sessions[:_LOOKED_AT])
    values = {
        "days": days,
        "shares": [(day["day"], day["share"]) for day in days],
        "tokens": [(day["day"], day["input"], day["output"], int(day["tokens"])) for day in days],
        "costs": [(day["day"], round(day["cost"], 4), round(day["background"], 4)) for day in days],
        "said": [(day["day"], day["messages"]) for day in days],
        "misses": misses,
        "reasons": Counter(miss["why"] for miss in misses).most_common(),
        "conversations": len(sessions),
        "status": collect_status(workspace.home, load_settings(workspace.home), count=False),
        "checks": None,
        "arms": None,
    }
    return Page(template="health.html", values=values)


def _doctor(ask: Ask) -> Page:
    """Shows what `hermes doctor` finds, without contacting models and providers."""
    page = _show(ask)
    checks = list(examine(ask.workspace.home, Options(connect=False)))
    return Page(template=page.template, values={**page.values, "checks": checks})


def _does_it_help(ask: Ask) -> Page | Redirect:
    """Shows what `hermes bench self` measures without a model: whether memory answers what the person once asked."""
    try:
        figures = run_self(ask.workspace.past, limit=_QUESTIONS)
    except NotFound as nothing:
        return Redirect(to=address("health"), notice=Notice(f"Nothing to measure yet: {nothing}."))
    arms = [{"name": arm, "about": figures["how"][arm], **figures[arm]} for arm in ARMS]
    page = _show(ask)
    return Page(template=page.template, values={**page.values, "arms": arms, "found": figures["found_questions"]})


def _by_day(sessions: Iterable[Session], background: Mapping[str, Mapping[str, float]]) -> list[dict[str, Any]]:
    """Tokens, cost and cached share of the conversations last used on a day and of background work, oldest first."""
    nothing = dict.fromkeys(("input", "output", "cached", "messages", "tokens", "cost", "background"), 0)
    days: dict[str, dict[str, Any]] = {
        name: {**nothing, "day": name, "tokens": spent["tokens"], "background": spent["cost"]}
        for name, spent in background.items()
    }
    for each in sessions:
        name = in_words(each.last_active, "%Y-%m-%d")
        day = days.setdefault(name, {**nothing, "day": name})
        day["input"] += each.input_tokens
        day["output"] += each.output_tokens
        day["cached"] += each.cache_read_tokens
        day["cost"] += each.actual_cost_usd or each.estimated_cost_usd or 0.0
        day["messages"] += each.message_count
    for day in days.values():
        day["share"] = round(100 * day["cached"] / day["input"], 1) if day["input"] else None
    return sorted(days.values(), key=lambda day: str(day["day"]))[-_DAYS:]


def _misses(ask: Ask, sessions: Iterable[Session]) -> list[dict[str, Any]]:
    """The newest answers whose prompt missed the cache, with the reason recorded at that time."""
    found = []
    for session in sessions:
        for each in ask.workspace.past.messages(session.id, limit=_ANSWERS, newest=True):
            cache = each.message.get("cache")
            if isinstance(cache, dict) and cache.get("broken_by"):
                share = round(100 * (cache.get("share") or 0))
                about = {"at": each.timestamp, "why": cache["broken_by"], "share": share}
                found.append({**about, "session": session, "message": each.id, "name": name_of(session)})
    return sorted(found, key=lambda miss: -miss["at"])[:_MISSES]


HEALTH = Section(
    name="health",
    title="Health",
    key="h",
    views=(
        View(act=_show),
        View(path="/doctor", method="POST", act=_doctor),
        View(path="/help", method="POST", act=_does_it_help),
    ),
)


_EACH = 50  # on a page
_LONGEST = 100
_STORES = (DATABASE, f"{DATABASE}-wal", FOLDER)  # their modification times show when a person was last active


def _people(ask: Ask) -> People:
    if ask.people is None:
        raise NotFound("the people of a home are its owner's business")
    return ask.people


def _show_people(ask: Ask) -> Page:
    return _people_page(ask, {})


def _people_page(ask: Ask, made: dict[str, str]) -> Page:
    people, settings = _people(ask), load_settings(ask.workspace.home)
    shown, pages = paged(people.all(), ask, _EACH)
    values = {
        "people": [_person(ask, each) for each in shown],
        **pages,
        "requests": settings.integer("server.requests_per_minute"),
        "turns": settings.integer("server.turns_per_person"),
        "owner": OWNER,
        "made": made,
    }
    return Page(template="people.html", values=values)


def _person(ask: Ask, person: Person) -> dict[str, Any]:
    home = _people(ask).home_of(person.name)
    seen = [ask.seen(person.name)]
    for name in _STORES:
        with suppress(OSError):  # not there yet
            seen.append(os.stat(home.join(name)).st_mtime)
    keys = [
        {"id": key.id, "label": key.label, "made": key.made, "approves": APPROVE in key.rights} for key in person.keys
    ]
    return {"name": person.name, "note": person.note, "added": person.added, "seen": max(seen), "opens_with": keys}


def _make_key(ask: Ask) -> Page:
    """Shows a new key, once: only its digest is stored."""
    rights = (APPROVE,) if ask.field("approve") else ()
    name = ask.path["name"]
    _, secret = _people(ask).make_key(name, ask.field("label")[:_LONGEST], rights=rights)
    return _people_page(ask, {"name": name, "secret": secret})


def _revoke(ask: Ask) -> Redirect:
    name = ask.path["name"]
    _people(ask).revoke(name, ask.path["key"])
    said = f"The key {ask.path['key']} of {name} no longer opens anything."
    return Redirect(to=address("people"), notice=Notice(said))


PEOPLE = Section(
    name="people",
    title="People",
    key="o",
    owner_only=True,
    views=(
        View(act=_show_people),
        View(path="/{name}/keys", method="POST", act=_make_key),
        View(path="/{name}/keys/{key}/revoke", method="POST", act=_revoke),
    ),
)
