"""The plain HTTP API: memory, conversations, search and status of the person whose key it is.

Each endpoint is one entry of a table: what it takes, what it gives, and the function that does it. The routes, the
checks of what comes in and the OpenAPI description are all made from it, so they cannot disagree.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes.recall import moments
from hermes.recall.finding import Criteria
from hermes.safety.secrets import mask_secrets
from hermes.server import api_schemas as schemas
from hermes.server import pending
from hermes.vocabulary.errors import NotFound, WriteRefused

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes.curated.history import Change
    from hermes.server.workspace import Workspace
    from hermes.storage.conversations import Session

    Given = dict[str, Any]
    Act = Callable[[Workspace, Given], Any]

PREFIX = "/api/v1"
_OVER_HTTP = "over HTTP"


class NoSuchTarget(NotFound):
    """A memory file that nobody has: its message tells nothing about anybody, so it is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """`act` gets path, query and body fields in one dict, checked against the schemas here."""

    method: str
    path: str
    summary: str
    act: Act
    gives: dict[str, Any]
    query: dict[str, dict[str, Any]] = field(default_factory=dict)
    body: dict[str, Any] | None = None
    example: dict[str, Any] | None = None  # a body
    status: int = 200

    @property
    def parameters(self) -> list[str]:
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]


def _all_memory(workspace: Workspace, _given: Given) -> Any:
    return {target: workspace.entries(target) for target in workspace.targets}


def _memory(workspace: Workspace, given: Given) -> Any:
    return workspace.entries(_target(workspace, given))


def _change_memory(workspace: Workspace, given: Given) -> Any:
    target = _target(workspace, given)
    written = workspace.write(target, _operations(given), _OVER_HTTP)
    change = written.change.id if written.change else None
    return {"message": written.message, "change": change, **workspace.entries(target)}


def _operations(given: Given) -> list[dict[str, str]]:
    """The operations, or the one that stands in the body itself as in the memory tool; `content` alone is an add."""
    single: dict[str, str] = {name: given[name] for name in ("action", "content", "old_text") if name in given}
    if "operations" in given and single:
        raise WriteRefused(f"send operations or {', '.join(single)}, not both", kind="operations")
    if "action" in single or single.keys() == {"content"}:
        return [{"action": "add", **single}]
    if "operations" not in given:
        raise WriteRefused(
            'say what to do: {"action": "add", "content": "…"}, {"action": "replace", "old_text": "…", "content": '
            '"…"}, {"action": "remove", "old_text": "…"}, or a list of these as operations',
            kind="missing_action",
        )
    return list(given["operations"])


def _log(workspace: Workspace, given: Given) -> Any:
    changes = workspace.store.history(_target(workspace, given))[0]
    return {"changes": [_change(change) for change in reversed(changes[-given.get("limit", 50) :])]}


def _undo(workspace: Workspace, given: Given) -> Any:
    from hermes.curated.history import Cause

    wanted = given["change"] if "change" in given else _newest_to_undo(workspace)
    written = workspace.store.undo(wanted, cause=Cause(origin="user", note=_OVER_HTTP))
    change = written.change.id if written.change else None
    return {"message": written.message, "change": change, **workspace.entries(written.target)}


def _newest_to_undo(workspace: Workspace) -> str:
    from hermes.curated.history import newest_to_undo

    changes = [change for target in workspace.targets for change in workspace.store.history(target)[0]]
    newest = newest_to_undo(sorted(changes, key=lambda change: change.at))
    if newest is None:
        raise WriteRefused("there is nothing left to undo", kind="nothing_to_undo")
    return newest.id


def _sessions(workspace: Workspace, given: Given) -> Any:
    wanted = {name: given[name] for name in ("source", "project") if name in given}
    found = workspace.past.list_sessions(limit=given.get("limit", 20), offset=given.get("offset", 0), **wanted)
    return {"sessions": [_session(each) for each in found]}


def _record(workspace: Workspace, given: Given) -> Any:
    kept = workspace.record(given["conversation"], given["messages"], title=given.get("title", ""))
    return {name: kept[name] for name in ("session_id", "added", "messages")}


def _one_session(workspace: Workspace, given: Given) -> Any:
    return _session(workspace.session(given["session_id"]))


def _messages(workspace: Workspace, given: Given) -> Any:
    session = workspace.session(given["session_id"])
    stored = workspace.messages(session, limit=given.get("limit", 100), before=given.get("before"))
    return {
        "session_id": session.id,
        "messages": [
            {"id": each.id, "at": each.timestamp, "role": each.role, **workspace.shown(each.message)} for each in stored
        ],
    }


def _rename(workspace: Workspace, given: Given) -> Any:
    session = workspace.session(given["session_id"])
    workspace.database.rename(session.id, given["title"])
    return _session(workspace.database.get_session(session.id))


def _delete(workspace: Workspace, given: Given) -> Any:
    session = workspace.session(given["session_id"])
    workspace.database.delete(session.id)
    return {"deleted": session.id}


def _search(workspace: Workspace, given: Given) -> Any:
    now = time.time()
    wanted = Criteria(
        limit=given.get("limit", 5),
        sort=given.get("sort", "relevance"),
        since=moments.since(given["since"], now) if given.get("since", "").strip() else None,
        until=moments.until(given["until"], now) if given.get("until", "").strip() else None,
        source=given.get("source"),
        project=given.get("project"),
    )
    found = workspace.search(given["q"], wanted)
    return {
        "results": [
            {
                **_session(match.session),
                "message_id": match.message_id,
                "role": match.role,
                "snippet": match.snippet,
                "score": match.score,
            }
            for match in found.matches
        ],
        "notes": list(found.notes),
    }


def _status(workspace: Workspace, _given: Given) -> Any:
    return workspace.status()


def _target(workspace: Workspace, given: Given) -> str:
    target = str(given["target"])
    if target not in workspace.targets:
        raise NoSuchTarget(f"there is no memory {target[:60]!r}; there are {', '.join(workspace.targets) or 'none'}")
    return target


def _session(session: Session) -> dict[str, Any]:
    names = ("title", "source", "model", "project", "started_at", "last_active", "message_count", "preview")
    shown = {name: getattr(session, name) for name in names}
    said = {name: mask_secrets(shown[name]) for name in ("title", "preview") if shown[name]}  # as messages are
    return {"session_id": session.id, **shown, **said}


def _change(change: Change) -> dict[str, Any]:
    return {
        "id": change.id,
        "at": change.at,
        "action": change.action,
        "origin": change.cause.origin,
        "session": change.cause.session,
        "added": list(change.added()),
        "removed": list(change.removed()),
    }


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/memory",
        summary="All entries of MEMORY.md and USER.md.",
        act=_all_memory,
        gives=schemas.ALL_MEMORY,
    ),
    Endpoint(
        method="GET", path="/memory/{target}", summary="The entries of one file.", act=_memory, gives=schemas.MEMORY
    ),
    Endpoint(
        method="POST",
        path="/memory/{target}",
        summary="Add, replace or remove an entry, or several; of several operations all happen or none.",
        act=_change_memory,
        body=schemas.OPERATIONS,
        example={"action": "add", "content": "Prefers short answers."},
        gives=schemas.CHANGED,
    ),
    Endpoint(
        method="GET",
        path="/memory/{target}/log",
        summary="The changes of one file, newest first.",
        act=_log,
        query={"limit": schemas.how_many(1000, 50)},
        gives=schemas.CHANGES,
    ),
    Endpoint(
        method="POST",
        path="/memory-undo",
        summary="Take one change back, the newest that is not undone yet if none is named.",
        act=_undo,
        body=schemas.UNDO,
        gives=schemas.CHANGED,
    ),
    Endpoint(
        method="GET",
        path="/memory-pending",
        summary="Writes of a model that wait for the person, oldest first, each with the reason.",
        act=pending.waiting,
        gives=schemas.PENDING,
    ),
    Endpoint(
        method="POST",
        path="/memory-pending/{pending_id}",
        summary="Carry out a write that waits, or throw it away.",
        act=pending.decide,
        body=schemas.DECISION,
        example={"decision": "approve"},
        gives=schemas.DECIDED,
    ),
    Endpoint(
        method="GET",
        path="/sessions",
        summary="Conversations, the most recently used first.",
        act=_sessions,
        query={
            "limit": schemas.how_many(200, 20),
            "offset": schemas.whole(0, 10_000_000, "How many to leave out, for the next page (default: 0)."),
            "source": schemas.SOURCE,
            "project": schemas.PROJECT,
        },
        gives=schemas.SESSIONS,
    ),
    Endpoint(
        method="POST",
        path="/sessions",
        summary="Store a conversation that happened elsewhere, or what is new of it.",
        act=_record,
        body=schemas.RECORD,
        example={
            "conversation": "support-4711",
            "title": "Sign-in",
            "messages": [
                {"role": "user", "content": "Which tokens do we use?"},
                {"role": "assistant", "content": "Rotating ones, since May."},
            ],
        },
        gives=schemas.RECORDED,
        status=201,
    ),
    Endpoint(
        method="GET",
        path="/sessions/{session_id}",
        summary="One conversation.",
        act=_one_session,
        gives=schemas.SESSION,
    ),
    Endpoint(
        method="GET",
        path="/sessions/{session_id}/messages",
        summary="The newest messages of a conversation, or the newest before one of them.",
        act=_messages,
        query={
            "limit": schemas.how_many(1000, 100),
            "before": schemas.whole(1, 2**62, "The id of a message: only those before it, for the page before."),
        },
        gives=schemas.MESSAGES,
    ),
    Endpoint(
        method="PATCH",
        path="/sessions/{session_id}",
        summary="Give a conversation a title.",
        act=_rename,
        body=schemas.TITLE,
        example={"title": "Sign-in rework"},
        gives=schemas.SESSION,
    ),
    Endpoint(
        method="DELETE",
        path="/sessions/{session_id}",
        summary="Delete a conversation for good.",
        act=_delete,
        gives=schemas.DELETED,
    ),
    Endpoint(
        method="GET",
        path="/search",
        summary="The conversations that answer a question, asked in plain words.",
        act=_search,
        query={
            "q": {**schemas.QUESTION, "required": True},
            "limit": schemas.how_many(50, 5),
            "sort": schemas.SORT,
            "since": schemas.moment("From when on"),
            "until": schemas.moment("Up to and including when"),
            "source": schemas.SOURCE,
            "project": schemas.PROJECT,
        },
        gives=schemas.FOUND,
    ),
    Endpoint(method="GET", path="/status", summary="How much there is.", act=_status, gives=schemas.STATUS),
)
