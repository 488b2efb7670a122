"""The Forget pages: by conversation, source, words or person; they show what is affected, then what was removed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from hermes.base.errors import NotFound
from hermes.memory.entries import Cause, key_of
from hermes.operations.forget import forget, rehearse
from hermes.safety.secrets import mask_secrets
from hermes.server.web.conversations import delete_conversation, name_of
from hermes.server.web.memory import TITLES, projects_of, store_of
from hermes.server.web.site import Page, Section, View
from hermes.settings.people import OWNER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes.server.web.site import Ask
    from hermes.server.workspace import Workspace
    from hermes.storage.records import Session

_MOST = 200  # conversations at once; the page says if there are more
_BY_PERSON = Cause(origin="user", note="forgotten on the web page")
_KINDS = ("words", "conversation", "source")


def _ask_what(ask: Ask) -> Page:
    """Shows the form, and with `what` also everything that would be removed."""
    kind = ask.query.get("kind", "words")
    what = ask.query.get("what", "").strip()
    values: dict[str, Any] = {
        "kinds": _KINDS,
        "kind": kind if kind in _KINDS else "words",
        "what": what,
        "people": _others(ask),
        "plan": None,
    }
    if what:
        values["plan"] = _plan(ask.workspace, values["kind"], what)
    return Page(template="forget.html", values=values)


def _plan(workspace: Workspace, kind: str, what: str) -> dict[str, Any]:
    sessions = _sessions(workspace, kind, what)
    entries = list(_entries(workspace, what)) if kind == "words" else []
    from_them = {session.id for session in sessions}
    entries += [each for each in _learnt(workspace, from_them) if each not in entries]
    return {
        "conversations": [{"session": each, "name": name_of(each)} for each in sessions[:_MOST]],
        "more": len(sessions) > _MOST,
        "messages": sum(each.message_count for each in sessions[:_MOST]),
        "entries": entries,
    }


def _sessions(workspace: Workspace, kind: str, what: str) -> list[Session]:
    db = workspace.past
    if kind == "source":
        return db.list_sessions(limit=_MOST + 1, source=what)
    if kind == "conversation":
        found = db.resolve(what)
        return [found] if found else []
    phrase = what.replace('"', " ")
    hits = db.search(f'"{phrase}"', limit=_MOST + 1)
    return list({hit.session.id: hit.session for hit in hits}.values())


def _entries(workspace: Workspace, what: str) -> Iterator[dict[str, Any]]:
    for entry in _all_entries(workspace):
        if what.casefold() in str(entry["text"]).casefold():
            yield entry


def _learnt(workspace: Workspace, sessions: set[str]) -> Iterator[dict[str, Any]]:
    """The entries that were written in these conversations."""
    return (entry for entry in _all_entries(workspace) if entry["session"] in sessions)


def _all_entries(workspace: Workspace) -> Iterator[dict[str, Any]]:
    for project in ("", *projects_of(workspace)):
        store = store_of(workspace, project)
        for target in store.targets if not project else ("project",):
            for text, origin in store.provenance(target).items():
                session = origin.change.cause.session if origin.change else ""
                place = {"target": target, "project": project, "title": TITLES[target], "key": key_of(text)}
                yield {**place, "text": text, "session": session}


def _carry_out(ask: Ask) -> Page:
    """Removes what was chosen in the preview, searches again, and shows what was removed and what is left."""
    workspace, what = ask.workspace, ask.field("what").strip()
    chosen = set(ask.form.get("conversation", ()))
    keys = set(ask.form.get("entry", ()))
    gone = []
    for session_id in chosen:
        session = workspace.past.find_session(session_id)
        if session is not None:
            gone.append((name_of(session), delete_conversation(workspace.database, session)))
    removed = []
    for entry in list(_all_entries(workspace)):
        if f"{entry['project']}/{entry['target']}/{entry['key']}" in keys:
            store = store_of(workspace, entry["project"])
            store.remove(entry["target"], entry["text"], cause=_BY_PERSON, whole=True)
            removed.append(entry)
    if not gone and not removed:
        raise NotFound("nothing was chosen, or it is gone already")
    left = _plan(workspace, "words", what) if what and ask.field("kind") == "words" else None
    values = {
        "gone": gone,
        "removed": [{**each, "text": mask_secrets(each["text"])} for each in removed],
        "at": time.time(),
        "what": what,
        "left": None if left is None else len(left["conversations"]) + len(left["entries"]),
    }
    return Page(template="forgotten.html", values=values)


def _others(ask: Ask) -> list[str]:
    """The people whom the owner may remove: everybody else."""
    return [each.name for each in ask.people.all() if each.name != OWNER] if ask.people else []


def _person(ask: Ask) -> Page:
    """Shows the owner what removing another person would delete, or with `sure` removes them."""
    name = ask.field("person")
    if ask.people is None or name not in _others(ask):
        raise NotFound("there is nobody of that name")
    done = ask.field("sure") == name
    plan = forget(ask.people, name) if done else rehearse(ask.people, name)
    return Page(template="forget-person.html", values={"plan": plan, "name": name})


FORGET = Section(
    name="forget",
    title="Forget",
    key="f",
    views=(
        View(act=_ask_what),
        View(method="POST", act=_carry_out),
        View(path="/person", method="POST", act=_person),
    ),
)
