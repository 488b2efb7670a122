"""The plain HTTP API: memory, conversations, search and status of the person whose key it is.

Each endpoint stands above its function: what it takes and what it gives. The routes, the checks of what comes in and
the OpenAPI description are all made from that table, so they cannot disagree.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse
from starlette.routing import Route

from hermes.base import dates
from hermes.base.errors import HermesError, LockTimeout, NotFound, SettingsError, StorageError, WriteRefused
from hermes.base.text import change_texts
from hermes.base.words import scrub
from hermes.conversations.retrieval import Criteria
from hermes.memory.entries import Cause, in_order, newest_to_undo
from hermes.memory.reminders import DONE, WAITING, Reminders, understood
from hermes.memory.rules import RuleBook
from hermes.safety.secrets import mask_secrets
from hermes.server import openai_wire as wire
from hermes.server import schemas
from hermes.server.auth import MAY_APPROVE, PERSON, ROUTE
from hermes.server.workspace import RECEIPT_ACTIONS
from hermes.session.approvals import PendingWrites
from hermes.tools.registry import problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Executor

    from starlette.requests import Request
    from starlette.responses import Response

    from hermes.memory.entries import Change
    from hermes.memory.rules import Rule
    from hermes.memory.store import Written
    from hermes.server.auth import CallLimits
    from hermes.server.conversations import Conversations
    from hermes.server.workspace import Workspace
    from hermes.storage.records import Session

    Given = dict[str, Any]
    Act = Callable[[Workspace, Given], Any]

PREFIX = "/api/v1"
_DIGITS = 9  # of the number of an item
_OVER_HTTP = "over HTTP"
_NO_RIGHT = (
    "this key has no right to approve; whoever runs this server makes one that has it with `hermes users key NAME "
    "--approve`"
)


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
    approves: bool = False  # only for a key with the right `approve`

    @property
    def parameters(self) -> list[str]:
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]


ENDPOINTS: list[Endpoint] = []


def _endpoint(request: str, summary: str, gives: dict[str, Any], **more: Any) -> Callable[[Act], Act]:
    """Puts a function into the table: `request` is its method and path."""
    method, path = request.split()

    def listed(act: Act) -> Act:
        ENDPOINTS.append(Endpoint(method=method, path=path, summary=summary, act=act, gives=gives, **more))
        return act

    return listed


@_endpoint("GET /memory", "All entries of MEMORY.md and USER.md.", schemas.ALL_MEMORY)
def _all_memory(workspace: Workspace, _given: Given) -> Any:
    return {target: workspace.entries(target) for target in workspace.targets}


@_endpoint("GET /memory/{target}", "The entries of one file.", schemas.MEMORY)
def _memory(workspace: Workspace, given: Given) -> Any:
    return workspace.entries(_target(workspace, given))


@_endpoint(
    "POST /memory/{target}",
    "Add, replace or remove an entry, or several; of several operations all happen or none.",
    schemas.CHANGED,
    body=schemas.OPERATIONS,
    example={"action": "add", "content": "Prefers short answers."},
)
def _change_memory(workspace: Workspace, given: Given) -> Any:
    return _changed(workspace, workspace.write(_target(workspace, given), _operations(given), _OVER_HTTP))


def _changed(workspace: Workspace, written: Written) -> Any:
    change = written.change.id if written.change else None
    return {"message": written.message, "change": change, **workspace.entries(written.target)}


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


@_endpoint(
    "GET /memory/{target}/log",
    "The changes of one file, newest first.",
    schemas.CHANGES,
    query={"limit": schemas.how_many(1000, 50)},
)
def _log(workspace: Workspace, given: Given) -> Any:
    changes = workspace.store.history(_target(workspace, given))[0]
    return {"changes": [_change(change) for change in reversed(changes[-given.get("limit", 50) :])]}


@_endpoint(
    "POST /memory-undo",
    "Take one change back, the newest that is not undone yet if none is named.",
    schemas.CHANGED,
    body=schemas.UNDO,
)
def _undo(workspace: Workspace, given: Given) -> Any:
    wanted = given["change"] if "change" in given else _newest_to_undo(workspace)
    return _changed(workspace, workspace.store.undo(wanted, cause=Cause(origin="user", note=_OVER_HTTP)))


def _newest_to_undo(workspace: Workspace) -> str:
    newest = newest_to_undo(in_order(*(workspace.store.history(target)[0] for target in workspace.targets)))
    if newest is None:
        raise WriteRefused("there is nothing left to undo", kind="nothing_to_undo")
    return newest.id


@_endpoint(
    "GET /memory-pending",
    "Writes that wait for the person, oldest first, each with its sources and the passages.",
    schemas.PENDING,
)
def _pending(workspace: Workspace, _given: Given) -> Any:
    return {"pending": [each.as_dict() for each in PendingWrites(workspace.home).all()]}


@_endpoint(
    "POST /memory-pending/{pending_id}",
    "Carry out a write that waits, with other texts if given, or throw it away. Needs a key with the right "
    "`approve` (`hermes users key NAME --approve`); other keys get 403.",
    schemas.DECIDED,
    approves=True,
    body=schemas.DECISION,
    example={"decision": "approve"},
)
def _decide(workspace: Workspace, given: Given) -> Any:
    pending, wanted = PendingWrites(workspace.home, platform="api"), str(given["pending_id"])
    if given["decision"] == "reject":
        rejected = pending.reject(wanted)
        return {"message": f"Rejected: {rejected.summary}", "change": None, "target": rejected.target}
    if "texts" in given:
        pending.edit(wanted, given["texts"])
    return pending.approve(wanted).as_dict()


@_endpoint("GET /rules", "The person's standing rules, and what each fires on.", schemas.RULES)
def _rules(workspace: Workspace, _given: Given) -> Any:
    return {"rules": [_rule(each) for each in RuleBook(workspace.home).all()]}


@_endpoint(
    "POST /rules/{rule_id}",
    "Switch a rule on or off, or change what it does to a call. Needs a key with the right `approve`.",
    schemas.RULE,
    approves=True,
    body=schemas.RULE_CHANGE,
    example={"on": False},
)
def _change_rule(workspace: Workspace, given: Given) -> Any:
    wanted = {name: given[name] for name in ("on", "enforce") if name in given}
    return _rule(RuleBook(workspace.home).change(str(given["rule_id"]), **wanted))


def _rule(rule: Rule) -> dict[str, Any]:
    return {**rule.as_dict(), "trigger": rule.when.in_words()}


@_endpoint("GET /reminders", "The person's reminders; `is_due` marks those that come up now.", schemas.REMINDERS)
def _reminders(workspace: Workspace, _given: Given) -> Any:
    reminders, now = Reminders(workspace.home), workspace.now()
    due = {each.id for each in reminders.due(now)}
    return {"reminders": [{**each.as_dict(), "is_due": each.id in due} for each in reminders.all()]}


@_endpoint(
    "POST /reminders/{reminder_id}",
    "End a reminder, or with `until` let it come up again later.",
    schemas.REMINDER,
    body=schemas.REMINDER_CHANGE,
    example={"until": "tomorrow at 9"},
)
def _change_reminder(workspace: Workspace, given: Given) -> Any:
    reminders, wanted, now = Reminders(workspace.home), str(given["reminder_id"]), workspace.now()
    if "until" in given:
        changed = reminders.change(wanted, state=WAITING, due=understood(given["until"], now).due, words=())
    else:
        changed = reminders.change(wanted, state=DONE)
    return {**changed.as_dict(), "is_due": False}


@_endpoint(
    "GET /sessions",
    "Conversations, the most recently used first.",
    schemas.SESSIONS,
    query={
        "limit": schemas.how_many(200, 20),
        "offset": schemas.whole(0, 10_000_000, "How many to leave out, for the next page (default: 0)."),
        "source": schemas.SOURCE,
        "project": schemas.PROJECT,
    },
)
def _sessions(workspace: Workspace, given: Given) -> Any:
    found = workspace.past.list_sessions(**{"limit": 20, **given})
    return {"sessions": [_session(each) for each in found]}


@_endpoint(
    "POST /sessions",
    "Store a conversation that happened elsewhere, or what is new of it.",
    schemas.RECORDED,
    body=schemas.RECORD,
    example={
        "conversation": "support-4711",
        "title": "Sign-in",
        "messages": [
            {"role": "user", "content": "Which tokens do we use?"},
            {"role": "assistant", "content": "Rotating ones, since May."},
        ],
    },
    status=201,
)
def _record(workspace: Workspace, given: Given) -> Any:
    kept = workspace.record(given["conversation"], given["messages"], title=given.get("title", ""))
    return {name: kept[name] for name in ("session_id", "added", "messages")}


@_endpoint("GET /sessions/{session_id}", "One conversation.", schemas.SESSION)
def _one_session(workspace: Workspace, given: Given) -> Any:
    return _session(workspace.session(given["session_id"]))


@_endpoint(
    "GET /sessions/{session_id}/messages",
    "The newest messages of a conversation, or the newest before one of them.",
    schemas.MESSAGES,
    query={
        "limit": schemas.how_many(1000, 100),
        "before": schemas.whole(1, 2**62, "The id of a message: only those before it, for the page before."),
    },
)
def _messages(workspace: Workspace, given: Given) -> Any:
    session = workspace.session(given["session_id"])
    stored = workspace.messages(session, limit=given.get("limit", 100), before=given.get("before"))
    return {
        "session_id": session.id,
        "messages": [
            {"id": each.id, "at": each.timestamp, "role": each.role, **workspace.shown(each.message)} for each in stored
        ],
    }


@_endpoint(
    "PATCH /sessions/{session_id}",
    "Give a conversation a title.",
    schemas.SESSION,
    body=schemas.TITLE,
    example={"title": "Sign-in rework"},
)
def _rename(workspace: Workspace, given: Given) -> Any:
    session = workspace.session(given["session_id"])
    workspace.database.rename(session.id, given["title"])
    return _session(workspace.database.get_session(session.id))


@_endpoint("DELETE /sessions/{session_id}", "Delete a conversation for good.", schemas.DELETED)
def _delete(workspace: Workspace, given: Given) -> Any:
    session = workspace.session(given["session_id"])
    workspace.database.delete(session.id)
    return {"deleted": session.id}


@_endpoint(
    "GET /search",
    "The conversations that answer a question, asked in plain words.",
    schemas.FOUND,
    query={
        "q": {**schemas.QUESTION, "required": True},
        "limit": schemas.how_many(50, 5),
        "sort": schemas.SORT,
        "since": schemas.moment("From when on"),
        "until": schemas.moment("Up to and including when"),
        "source": schemas.SOURCE,
        "project": schemas.PROJECT,
    },
)
def _search(workspace: Workspace, given: Given) -> Any:
    now = time.time()
    wanted = Criteria(
        limit=given.get("limit", 5),
        sort=given.get("sort", "relevance"),
        since=dates.since(given["since"], now) if given.get("since", "").strip() else None,
        until=dates.until(given["until"], now) if given.get("until", "").strip() else None,
        source=given.get("source"),
        project=given.get("project"),
    )
    found = workspace.search(given["q"], wanted)
    names = ("message_id", "role", "snippet", "score")
    rows = [{**_session(match.session), **{name: getattr(match, name) for name in names}} for match in found.matches]
    return {"results": rows, "notes": list(found.notes)}


@_endpoint(
    "GET /receipts",
    "The receipts of a conversation's answers, newest first, without their items.",
    schemas.RECEIPTS,
    query={
        "conversation": {**schemas.PLACES["session_id"], "maxLength": 200, "required": True},
        "limit": schemas.how_many(1000, 50),
    },
)
def _receipts(workspace: Workspace, given: Given) -> Any:
    found = workspace.receipts.of(workspace.session(given["conversation"]).id)
    return {"receipts": [each.as_dict() for each in reversed(found[-given.get("limit", 50) :])]}


@_endpoint(
    "GET /receipts/{receipt_id}",
    "What one answer was made from, what was written, what it cost, and whether the record still holds.",
    schemas.RECEIPT,
)
def _receipt(workspace: Workspace, given: Given) -> Any:
    return workspace.receipts.get(given["receipt_id"]).as_dict()


@_endpoint(
    "POST /receipts/{receipt_id}/items/{number}/{action}",
    "Correct, forget or pin what was in front of the model, keep it from models, or let them see it again.",
    schemas.RECEIPT_ACTED,
    body=schemas.RECEIPT_ACTION,
    example={"text": "Uses Helix since June."},
)
def _act_on_receipt(workspace: Workspace, given: Given) -> Any:
    number, action = str(given["number"]), str(given["action"])
    if action not in RECEIPT_ACTIONS or not number.isascii() or not number.isdigit() or len(number) > _DIGITS:
        raise NotFound(f"there is no {action} of item {number}")
    message = workspace.act_on_receipt(given["receipt_id"], int(number), action, given.get("text", ""))
    return {"message": message, "receipt": given["receipt_id"], "item": int(number)}


@_endpoint("GET /status", "How much there is.", schemas.STATUS)
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
        **{name: getattr(change, name) for name in ("id", "at", "action")},
        **{name: getattr(change.cause, name) for name in ("origin", "session")},
        "added": list(change.added()),
        "removed": list(change.removed()),
    }


_LOG = logging.getLogger("hermes.server")
_MOST_PROBLEMS = 10


def api_route(
    endpoint: Endpoint, prefix: str, conversations: Conversations, pool: Executor, limits: CallLimits
) -> Route:
    path = f"{prefix}{endpoint.path}"

    async def answer(request: Request) -> Response:
        request.scope[ROUTE] = path
        if endpoint.approves and not request.scope[MAY_APPROVE]:
            return JSONResponse(wire.error_body(_NO_RIGHT, "permission_error", code="approve"), 403)
        body = await request.body() if endpoint.body is not None else b""
        person = request.scope[PERSON]

        def work() -> Response:  # also what takes long with a large body or answer: reading and writing JSON
            given = _given(endpoint, request, body)
            return JSONResponse(endpoint.act(conversations.workspace(person), given), endpoint.status)

        try:
            async with limits.slot(person):
                return await asyncio.get_running_loop().run_in_executor(pool, work)
        except wire.BadRequest as wrong:
            return JSONResponse(wire.error_body(wrong.message, param=wrong.param), wrong.status)
        except HermesError as error:
            return _failed(error)

    return Route(path, answer, methods=[endpoint.method])


def _given(endpoint: Endpoint, request: Request, body: bytes) -> dict[str, Any]:
    given: dict[str, Any] = {name: scrub(request.path_params[name]) for name in endpoint.parameters}
    for name in request.query_params:
        if name not in endpoint.query:
            known = ", ".join(endpoint.query) or "none"
            raise wire.BadRequest(f"there is no parameter {name[:60]!r}; there are {known}", name[:60])
    for name, schema in endpoint.query.items():
        text = request.query_params.get(name)
        if text is not None:
            given[name] = _query(schema, text, name)
        elif schema.get("required"):
            raise wire.BadRequest(f"{name} is missing", name)
    if endpoint.body is not None:
        given |= _body(endpoint.body, body)
    return given


def _query(schema: dict[str, Any], text: str, name: str) -> Any:
    value: Any = text
    if schema["type"] == "integer":
        if not text.lstrip("-").isascii() or not text.lstrip("-").isdigit() or len(text) > 20:  # noqa: PLR2004 - digits
            raise wire.BadRequest(f"{name} must be a whole number", name)
        value = int(text)
    wrong = [*problems(schema, value, name), *bounds(schema, value, name)]
    if wrong:
        raise wire.BadRequest("; ".join(wrong), name)
    return value if schema["type"] == "integer" else scrub(value)


def _body(schema: dict[str, Any], data: bytes) -> dict[str, Any]:
    try:
        body = json.loads(data) if data.strip() else {}
    except (ValueError, RecursionError) as error:
        raise wire.BadRequest(f"the body is not JSON: {error}") from error
    wrong = problems(schema, body, "body") or chain(bounds(schema, body, "body"), _nulls(body, "body"))
    if first := list(islice(wrong, _MOST_PROBLEMS)):
        raise wire.BadRequest("; ".join(first), "body")
    return dict(change_texts(body, scrub))


def bounds(schema: dict[str, Any], value: Any, field: str) -> Iterator[str]:
    """What `problems` does not look at: how large, how long, how many."""
    if isinstance(value, bool):
        return
    if isinstance(value, int) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{field} must be from {schema['minimum']:,} to {schema['maximum']:,}"
    length = ("minLength", "maxLength") if isinstance(value, str) else ("minItems", "maxItems")
    if isinstance(value, str | list) and not schema.get(length[0], 0) <= len(value) <= schema.get(
        length[1], len(value)
    ):
        yield f"{field} is too short or too long ({length[0]}, {length[1]} in the description)"
    if isinstance(value, list):
        for place, item in enumerate(value):
            yield from bounds(schema.get("items", {}), item, f"{field}[{place}]")
    elif isinstance(value, dict):
        for name, below in value.items():
            yield from bounds(schema.get("properties", {}).get(name, {}), below, f"{field}.{name}")


def _nulls(value: Any, field: str) -> Iterator[str]:
    """Null is no value here: what is not given is left out."""
    if value is None:
        yield f"{field} must not be null"
    elif isinstance(value, dict):
        for name, below in value.items():
            yield from _nulls(below, f"{field}.{name}")
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _nulls(item, f"{field}[{place}]")


def _failed(error: HermesError) -> Response:
    if isinstance(error, NotFound):  # absent and not yours are the same answer
        said = str(error) if isinstance(error, NoSuchTarget) else "there is nothing of that name"
        return JSONResponse(wire.error_body(said, code="not_found"), 404)
    if isinstance(error, WriteRefused):
        return JSONResponse(wire.error_body(str(error), code=error.kind), 409 if error.kind == "full" else 422)
    if isinstance(error, LockTimeout):
        busy = wire.error_body("another program is writing; try again", "server_error", code="busy")
        return JSONResponse(busy, 503, {"retry-after": "1"})
    if isinstance(error, SettingsError):
        return JSONResponse(wire.error_body(str(error)), 400)
    _LOG.error("an API call failed: %s", error)
    kind = "storage" if isinstance(error, StorageError) else None
    return JSONResponse(wire.error_body("the operator's log says what is wrong", "server_error", code=kind), 503)
