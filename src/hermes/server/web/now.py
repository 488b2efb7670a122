"""The Now page: what was read, written, compacted and approved, newest first, and live while it is open."""

from __future__ import annotations

import asyncio
import hashlib
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from starlette.responses import StreamingResponse

from hermes.base.errors import HermesError
from hermes.base.text import counted
from hermes.conversations.context import COPY, WRITTEN
from hermes.memory.file import FILES, FOLDER, PROJECTS
from hermes.safety.secrets import mask_secrets
from hermes.server.web.memory import RECENT, TITLES, projects_of, store_of
from hermes.server.web.site import Page, Section, View
from hermes.settings.config import documents_of
from hermes.settings.trust import DecisionLog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from starlette.requests import Request
    from starlette.responses import Response

    from hermes.memory.entries import Change
    from hermes.server.web.site import Ask
    from hermes.server.workspace import Workspace
    from hermes.storage.records import Session, StoredMessage

    Event = dict[str, Any]

KINDS = ("all", "read", "written", "compacted", "approved")
_SESSIONS, _MESSAGES, _EVENTS, _DECISIONS = 8, 10, 50, 40
_SHOWN = 220  # characters of what was said
_LIVE_SECONDS = 20.0  # of one connection; browsers connect again, and a stopping server need not wait long
_LOOK_SECONDS = 1.0
_READING = frozenset(("session_search", "context_expand", "skill_view", "read_file", "fetch", "recall"))


def _show(ask: Ask) -> Page:
    workspace = ask.workspace
    project, agent, kind = (ask.query.get(name, "") for name in ("project", "agent", "kind"))
    recent = _sessions(workspace, "", "", RECENT)
    sessions = _sessions(workspace, project, agent, _SESSIONS) if project or agent else recent[:_SESSIONS]
    projects = projects_of(workspace, recent)
    known = {session.id: session for session in sessions}
    events = [
        *(event for session in sessions for event in _of_session(workspace, session)),
        *_of_memory(workspace, known, project if project in projects else "", whole=not (project or agent)),
        *_of_gate(workspace, known, whole=not (project or agent)),
    ]
    wanted = [event for event in events if kind in ("", "all", event["kind"])]
    values = {
        "events": sorted(wanted, key=lambda event: -event["at"])[:_EVENTS],
        "project": project,
        "agent": agent,
        "kind": kind or "all",
        "kinds": KINDS,
        "projects": sorted({*projects, project} - {""}),
        "agents": sorted({*(each.source for each in recent), agent} - {""}),
    }
    return Page(template="now.html", values=values)


def _sessions(workspace: Workspace, project: str, agent: str, limit: int) -> list[Session]:
    try:
        return workspace.past.list_sessions(limit=limit, project=project or None, source=agent or None, begun=True)
    except HermesError:
        return []  # the page shows what it can without conversations; Health says what is wrong


def _of_session(workspace: Workspace, session: Session) -> Iterator[Event]:
    try:
        stored = workspace.past.messages(session.id, limit=_MESSAGES, newest=True)
    except HermesError:
        return
    for each in stored:
        if not each.damaged and COPY not in each.message:
            for event in _of_message(each):
                yield {"at": each.timestamp, **_about(session, message=each.id), **event}


def _about(session: Session | None, *, message: int = 0, agent: str = "") -> Event:
    """The conversation in which something happened; without one, who did it."""
    if session is None:
        return {"session": "", "message": 0, "title": "", "agent": agent, "project": ""}
    title, project = mask_secrets(session.title or ""), session.project or ""
    return {"session": session.id, "message": message, "title": title, "agent": session.source, "project": project}


def _of_message(stored: StoredMessage) -> Iterator[Event]:
    """The events that a stored message reports."""
    message = stored.message
    additions = message.get("additions") or ()
    if WRITTEN in message:
        if additions:
            yield {"kind": "compacted", "what": "Compacted the conversation", "text": _cut(stored.text)}
        return
    for addition in additions:
        source = {"recalled": "recalled memory", "announcement": "changes of memory"}.get(
            addition.get("source"), str(addition.get("source"))
        )
        what = f"Read {source}, {counted(addition.get('characters', 0), 'character')}"
        yield {"kind": "read", "what": what, "text": ""}
    if stored.role == "user":
        yield {"kind": "said", "what": "You said", "text": _cut(stored.text)}
    elif stored.role == "tool" and message.get("name") in _READING:
        what = f"Read with {message['name']}, {counted(len(stored.text), 'character')}"
        yield {"kind": "read", "what": what, "text": ""}
    elif stored.role == "assistant" and message.get("usage"):
        share = (message.get("cache") or {}).get("share")
        cached = f", {share:.0%} from the cache" if share is not None else ""
        tokens = counted(message["usage"].get("input_tokens", 0), "token")
        yield {"kind": "answered", "what": f"Answered from {tokens}{cached}", "text": _cut(stored.text)}


def _of_memory(workspace: Workspace, known: dict[str, Session], project: str, *, whole: bool) -> Iterator[Event]:
    """Changes of memory: all of them, or those of known conversations and in the notes of a project."""
    with suppress(HermesError):  # Memory says what is wrong with it
        store = store_of(workspace, project, [project])
        for target in store.targets:
            for change in store.history(target)[0][-_EVENTS:]:
                session = known.get(change.cause.session)
                if whole or session or target == "project":
                    yield _of_change(change, session)


def _of_change(change: Change, session: Session | None) -> Event:
    texts = change.added() or change.removed()
    approved = change.cause.approved and not change.cause.note.startswith("moved")
    verbs = {"undo": "Undid", "archive": "Archived", "curate": "Tidied", "restore": "Brought back", "remove": "Removed"}
    verb = "You approved" if approved else verbs.get(change.action, "Wrote" if change.added() else "Removed")
    return {
        "at": change.at,
        "kind": "approved" if approved else "written",
        "what": f"{verb} in {TITLES[change.target]}",
        "text": _cut(" · ".join(texts)),
        **_about(session, agent={"user": "you"}.get(change.cause.origin, change.cause.origin)),
    }


def _of_gate(workspace: Workspace, known: dict[str, Session], *, whole: bool) -> Iterator[Event]:
    with suppress(HermesError):
        for each in DecisionLog(workspace.home).newest(_DECISIONS):
            session = known.get(each.get("session", ""))
            if each["verdict"] == "ask" and (whole or session):
                yield {
                    "at": each["at"],
                    "kind": "held",
                    "what": f"Held back a write to {TITLES.get(each['sink'], each['sink'])}",
                    "text": _cut(" · ".join(each.get("texts", ()))),
                    **_about(session),
                }


def _cut(text: str) -> str:
    shown = mask_secrets(" ".join(text[: _SHOWN * 4].split()))
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"


async def _events(request: Request, ask: Callable[[], Ask]) -> Response:
    """Streams an event `changed` for each change in the home by any program, even between two connections."""
    workspace = (await asyncio.to_thread(ask)).workspace
    now = await asyncio.to_thread(_stamp, workspace)
    before = request.headers.get("last-event-id", "")

    async def stream() -> AsyncIterator[str]:
        last, seen = before or now, now
        yield f"id: {now}\nretry: 1000\n\n"
        until = time.monotonic() + _LIVE_SECONDS
        while time.monotonic() < until:  # Starlette ends it earlier if the browser disconnects
            if seen != last:
                last = seen
                yield f"id: {last}\nevent: changed\ndata: now\n\n"
            await asyncio.sleep(_LOOK_SECONDS)
            seen = await asyncio.to_thread(_stamp, workspace)

    return StreamingResponse(stream(), media_type="text/event-stream")


def _stamp(workspace: Workspace) -> str:
    """A digest that differs as soon as memory, pending writes, the gate's log or a conversation has changed."""
    documents, found = documents_of(workspace.home), list[object]()
    watched: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
        ((FOLDER,), (*FILES.values(),)),
        (("trust",), ("decisions.jsonl",)),
    ]
    watched += [((PROJECTS, name), (FILES["project"],)) for name in projects_of(workspace)]
    watched += [(("pending", kind), ()) for kind in ("memory", "skills")]
    for parts, names in watched:
        with suppress(HermesError):
            folder = documents.below(*parts).open()
            if folder is not None:
                with folder:
                    found.append((parts, *map(folder.stamp, names)) if names else (parts, *folder.names()))
    with suppress(HermesError):
        found += [(each.id, each.last_id, each.last_active) for each in workspace.past.list_sessions(limit=1)]
    return hashlib.sha256(repr(found).encode()).hexdigest()[:16]


NOW = Section(name="now", title="Now", key="n", views=(View(act=_show), View(path="/events", stream=_events)))
