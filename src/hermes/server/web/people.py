"""The People page, for the owner only: who has a home here, their keys, rights, limits and when they were last seen.

Nothing that anybody said or stored is read for it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hermes.base.errors import NotFound
from hermes.memory.file import FOLDER
from hermes.server.web.sessions import Notice
from hermes.server.web.site import Page, Redirect, Section, View, address
from hermes.settings.config import load_settings
from hermes.settings.home import DATABASE
from hermes.settings.people import APPROVE, OWNER

if TYPE_CHECKING:
    from hermes.server.web.site import Ask
    from hermes.settings.people import People, Person

_EACH = 50  # on a page
_LONGEST = 100
_STORES = (DATABASE, f"{DATABASE}-wal", FOLDER)  # their times say when somebody was last active


def _people(ask: Ask) -> People:
    if ask.people is None:
        raise NotFound("the people of a home are its owner's business")
    return ask.people


def _show(ask: Ask) -> Page:
    return _page(ask, {})


def _page(ask: Ask, made: dict[str, str]) -> Page:
    people, settings = _people(ask), load_settings(ask.workspace.home)
    everybody, page = people.all(), ask.number("page")
    values = {
        "people": [_row(ask, each) for each in everybody[(page - 1) * _EACH : page * _EACH]],
        "count": len(everybody),
        "page": page,
        "pages": max(1, -(-len(everybody) // _EACH)),
        "requests": settings.integer("server.requests_per_minute"),
        "turns": settings.integer("server.turns_per_person"),
        "owner": OWNER,
        "made": made,
    }
    return Page(template="people.html", values=values)


def _row(ask: Ask, person: Person) -> dict[str, Any]:
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
    """The page with a new key on it: nobody can show it again."""
    rights = (APPROVE,) if ask.field("approve") else ()
    name = ask.path["name"]
    _, secret = _people(ask).make_key(name, ask.field("label")[:_LONGEST], rights=rights)
    return _page(ask, {"name": name, "secret": secret})


def _revoke(ask: Ask) -> Redirect:
    name = ask.path["name"]
    _people(ask).revoke(name, ask.path["key"])
    said = f"The key {ask.path['key']} of {name} no longer opens anything."
    return Redirect(to=address("people"), notice=Notice(said))


SECTION = Section(
    name="people",
    title="People",
    key="o",
    owner_only=True,
    views=(
        View(act=_show),
        View(path="/{name}/keys", method="POST", act=_make_key),
        View(path="/{name}/keys/{key}/revoke", method="POST", act=_revoke),
    ),
)
