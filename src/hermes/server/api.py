"""The plain HTTP API: memory, conversations, search and status of the person whose key it is.

`text/api.toml` says what each route takes and gives; `@_answers` marks the function that does it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import time
import tomllib
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse
from starlette.routing import Route

from hermes.base import dates
from hermes.base.errors import HermesError, LockTimeout, NotFound, SettingsError, StorageError, WriteRefused
from hermes.base.text import change_texts
from hermes.base.version import __version__
from hermes.base.words import scrub
from hermes.conversations.retrieval import Criteria
from hermes.memory.entries import Cause, in_order, newest_to_undo
from hermes.memory.reminders import DONE, WAITING, Reminders, moment_meant
from hermes.memory.rules import RuleBook
from hermes.safety.secrets import mask_secrets
from hermes.server import openai_wire as wire
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
    Schema = dict[str, Any]
    Act = Callable[[Workspace, Given], Any]

_DIGITS = 9  # of the number of an item
_OVER_HTTP = "over HTTP"
_NO_RIGHT = (
    "this key has no right to approve; whoever runs this server makes one that has it with `hermes users key NAME "
    "--approve`"
)


class NoSuchTarget(NotFound):
    """A memory file that nobody has; its message reveals nothing about anybody, so it is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One route of the table; its function receives path, query and body fields in one dict, already checked."""

    method: str
    path: str
    about: str
    gives: Schema
    query: dict[str, Schema]
    body: Schema | None
    example: dict[str, Any] | None  # a body
    name: str  # of the operation, in the description
    status: int = 200
    approves: bool = False  # only for a key with the right `approve`
    conversation: bool = False  # takes the header that names a conversation
    failures: str = "400 404 409 413 422 503"

    @property
    def parameters(self) -> list[str]:
        """The names in the path, in their order."""
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]


class _Table:
    """`text/api.toml`, with every schema written out."""

    def __init__(self) -> None:
        with open(os.path.join(os.path.dirname(__file__), "text", "api.toml"), "rb") as file:
            self._read = tomllib.load(file)
        self.failures: dict[str, str] = self._read["failures"]
        self.places = {name: self._schema(given) for name, given in self._read["places"].items()}
        self.endpoints = [self._endpoint(**route) for route in self._read["routes"]]
        self.error = self._schema("Error")

    def _endpoint(self, *, request: str, gives: str, body: str | None = None, **given: Any) -> Endpoint:
        method, path = request.split()
        query = {name: self._schema(schema) for name, schema in given.pop("query", {}).items()}
        wanted = None if body is None else self._schema(body)
        named = {"name": re.sub("[{}]", "", f"{method.lower()}{path.removeprefix(PREFIX)}".replace("/", "_")), **given}
        example = named.pop("example", None)
        shown = self._schema(gives)
        return Endpoint(method=method, path=path, gives=shown, query=query, body=wanted, example=example, **named)

    def _schema(self, given: str | Schema) -> Schema:
        if isinstance(given, dict):
            base = self._schema(given["like"]) if "like" in given else {}
            inside: Schema = {
                key: self._schema(given[key]) for key in ("items", "additionalProperties") if key in given
            }
            return {**base, **{key: value for key, value in given.items() if key != "like"}, **inside}
        if given.endswith("[]"):
            return {"type": "array", "items": self._schema(given[:-2])}
        if found := self._read["types"].get(given):
            return self._schema(found)
        if found := self._read["objects"].get(given):
            return self._object(found)
        return {"type": [given[:-1], "null"] if given.endswith("?") else given}

    def _object(self, given: str | dict[str, Any]) -> Schema:
        if isinstance(given, str):
            given = {name: kind or "string" for name, _, kind in (word.partition(":") for word in given.split())}
        properties = {name: self._schema(field) for name, field in given.items() if not name.startswith("_")}
        closed = {} if given.get("_open") else {"additionalProperties": False}
        required = given.get("_required", list(properties))
        return {"type": "object", "properties": properties, "required": required, **closed, **given.get("_more", {})}


PREFIX = "/api/v1"
_TABLE = _Table()
FAILURES = _TABLE.failures
_ACTS: dict[tuple[str, str], Act] = {}


def _answers(request: str) -> Callable[[Act], Act]:
    """Marks the function that answers a route below `PREFIX`."""

    def listed(act: Act) -> Act:
        method, path = request.split()
        _ACTS[method, f"{PREFIX}{path}"] = act
        return act

    return listed


def description() -> dict[str, Any]:
    """The OpenAPI description of all routes."""
    paths: dict[str, Any] = {}
    for endpoint in _TABLE.endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Hermes", "version": __version__, "description": "Memory for language-model agents."},
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "A key of `hermes users key`."},
                "browser": {"type": "http", "scheme": "basic", "description": "Any name, the key as password."},
            },
            "schemas": {"Error": _TABLE.error},
        },
        "security": [{"key": []}, {"browser": []}],
    }


_ALWAYS_POSSIBLE = "401 403 421 429"
_CONVERSATION = {
    "name": "X-Hermes-Session",
    "in": "header",
    "schema": {"type": "string", "maxLength": 200, "pattern": "^[ -~]*$"},
    "description": "Names the conversation: an id, a title, or a name of your own.",
}


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    wrong = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    done = {"description": "Done.", "content": {"application/json": {"schema": endpoint.gives}}}
    failures = sorted(f"{_ALWAYS_POSSIBLE} {endpoint.failures}".split())
    responses = {code: {"description": FAILURES[code], "content": wrong} for code in failures}
    found = {
        "summary": endpoint.about,
        "operationId": endpoint.name,
        "responses": {str(endpoint.status): done, **responses},
    }
    if endpoint.body is not None:
        shown = {"schema": endpoint.body} | ({} if endpoint.example is None else {"example": endpoint.example})
        needed = bool(endpoint.body["required"]) or "minProperties" in endpoint.body
        found["requestBody"] = {"required": needed, "content": {"application/json": shown}}
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": _TABLE.places[name]} for name in endpoint.parameters
    ]
    for name, schema in endpoint.query.items():
        plain = {key: value for key, value in schema.items() if key != "required"}
        parameters.append({"name": name, "in": "query", "required": bool(schema.get("required")), "schema": plain})
    if endpoint.conversation:
        parameters.append(_CONVERSATION)
    return found | ({"parameters": parameters} if parameters or endpoint.path.startswith(PREFIX) else {})


@_answers("GET /memory")
def _all_memory(workspace: Workspace, _given: Given) -> Any:
    return {target: workspace.entries(target) for target in workspace.targets}


@_answers("GET /memory/{target}")
def _memory(workspace: Workspace, given: Given) -> Any:
    return workspace.entries(_target(workspace, given))


@_answers("POST /memory/{target}")
def _change_memory(workspace: Workspace, given: Given) -> Any:
    return _changed(workspace, workspace.write(_target(workspace, given), _operations(given), _OVER_HTTP))


def _changed(workspace: Workspace, written: Written) -> Any:
    change = written.change.id if written.change else None
    return {"message": written.message, "change": change, **workspace.entries(written.target)}


def _operations(given: Given) -> list[dict[str, str]]:
    """The operations of a body, or its single one in the form of the memory tool; `content` alone is an add."""
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


@_answers("GET /memory/{target}/log")
def _log(workspace: Workspace, given: Given) -> Any:
    changes = workspace.store.history(_target(workspace, given))[0]
    return {"changes": [_change(change) for change in reversed(changes[-given.get("limit", 50) :])]}


@_answers("POST /memory-undo")
def _undo(workspace: Workspace, given: Given) -> Any:
    wanted = given["change"] if "change" in given else _newest_to_undo(workspace)
    return _changed(workspace, workspace.store.undo(wanted, cause=Cause(origin="user", note=_OVER_HTTP)))


def _newest_to_undo(workspace: Workspace) -> str:
    newest = newest_to_undo(in_order(*(workspace.store.history(target)[0] for target in workspace.targets)))
    if newest is None:
        raise WriteRefused("there is nothing left to undo", kind="nothing_to_undo")
    return newest.id


@_answers("GET /memory-pending")
def _pending(workspace: Workspace, _given: Given) -> Any:
    return {"pending": [each.as_dict() for each in PendingWrites(workspace.home).all()]}


@_answers("POST /memory-pending/{pending_id}")
def _decide(workspace: Workspace, given: Given) -> Any:
    pending, wanted = PendingWrites(workspace.home, platform="api"), str(given["pending_id"])
    if given["decision"] == "reject":
        rejected = pending.reject(wanted)
        return {"message": f"Rejected: {rejected.summary}", "change": None, "target": rejected.target}
    if "texts" in given:
        pending.edit(wanted, given["texts"])
    return pending.approve(wanted).as_dict()


@_answers("GET /rules")
def _rules(workspace: Workspace, _given: Given) -> Any:
    return {"rules": [_rule(each) for each in RuleBook(workspace.home).all()]}


@_answers("POST /rules/{rule_id}")
def _change_rule(workspace: Workspace, given: Given) -> Any:
    wanted = {name: given[name] for name in ("on", "enforce") if name in given}
    return _rule(RuleBook(workspace.home).change(str(given["rule_id"]), **wanted))


def _rule(rule: Rule) -> dict[str, Any]:
    return {**rule.as_dict(), "trigger": rule.when.in_words()}


@_answers("GET /reminders")
def _reminders(workspace: Workspace, _given: Given) -> Any:
    reminders, now = Reminders(workspace.home), workspace.now()
    due = {each.id for each in reminders.due(now)}
    return {"reminders": [{**each.as_dict(), "is_due": each.id in due} for each in reminders.all()]}


@_answers("POST /reminders/{reminder_id}")
def _change_reminder(workspace: Workspace, given: Given) -> Any:
    reminders, wanted, now = Reminders(workspace.home), str(given["reminder_id"]), workspace.now()
    if "until" in given:
        changed = reminders.change(wanted, state=WAITING, due=moment_meant(given["until"], now).due, words=())
    else:
        changed = reminders.change(wanted, state=DONE)
    return {**changed.as_dict(), "is_due": False}


@_answers("GET /sessions")
def _sessions(workspace: Workspace, given: Given) -> Any:
    found = workspace.past.list_sessions(**{"limit": 20, **given})
    return {"sessions": [_session(each) for each in found]}


@_answers("POST /sessions")
def _record(workspace: Workspace, given: Given) -> Any:
    kept = workspace.record(given["conversation"], given["messages"], title=given.get("title", ""))
    return {name: kept[name] for name in ("session_id", "added", "messages")}


@_answers("GET /sessions/{session_id}")
def _one_session(workspace: Workspace, given: Given) -> Any:
    return _session(workspace.session(given["session_id"]))


@_answers("GET /sessions/{session_id}/messages")
def _messages(workspace: Workspace, given: Given) -> Any:
    session = workspace.session(given["session_id"])
    stored = workspace.messages(session, limit=given.get("limit", 100), before=given.get("before"))
    return {
        "session_id": session.id,
        "messages": [
            {"id": each.id, "at": each.timestamp, "role": each.role, **workspace.shown(each.message)} for each in stored
        ],
    }


@_answers("PATCH /sessions/{session_id}")
def _rename(workspace: Workspace, given: Given) -> Any:
    session = workspace.session(given["session_id"])
    workspace.database.rename(session.id, given["title"])
    return _session(workspace.database.get_session(session.id))


@_answers("DELETE /sessions/{session_id}")
def _delete(workspace: Workspace, given: Given) -> Any:
    session = workspace.session(given["session_id"])
    workspace.database.delete(session.id)
    return {"deleted": session.id}


@_answers("GET /search")
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


@_answers("GET /receipts")
def _receipts(workspace: Workspace, given: Given) -> Any:
    found = workspace.receipts.of(workspace.session(given["conversation"]).id)
    return {"receipts": [each.as_dict() for each in reversed(found[-given.get("limit", 50) :])]}


@_answers("GET /receipts/{receipt_id}")
def _receipt(workspace: Workspace, given: Given) -> Any:
    return workspace.receipts.get(given["receipt_id"]).as_dict()


@_answers("POST /receipts/{receipt_id}/items/{number}/{action}")
def _act_on_receipt(workspace: Workspace, given: Given) -> Any:
    number, action = str(given["number"]), str(given["action"])
    if action not in RECEIPT_ACTIONS or not number.isascii() or not number.isdigit() or len(number) > _DIGITS:
        raise NotFound(f"there is no {action} of item {number}")
    message = workspace.act_on_receipt(given["receipt_id"], int(number), action, given.get("text", ""))
    return {"message": message, "receipt": given["receipt_id"], "item": int(number)}


@_answers("GET /status")
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


def api_routes(conversations: Conversations, pool: Executor, limits: CallLimits) -> Iterator[Route]:
    """Yields the routes of the table that have a function in this module."""
    for endpoint in _TABLE.endpoints:
        if act := _ACTS.get((endpoint.method, endpoint.path)):
            yield _route(endpoint, act, conversations, pool, limits)


def _route(endpoint: Endpoint, act: Act, conversations: Conversations, pool: Executor, limits: CallLimits) -> Route:
    async def answer(request: Request) -> Response:
        request.scope[ROUTE] = endpoint.path
        if endpoint.approves and not request.scope[MAY_APPROVE]:
            return JSONResponse(wire.error_body(_NO_RIGHT, "permission_error", code="approve"), 403)
        body = await request.body() if endpoint.body is not None else b""
        person = request.scope[PERSON]

        def work() -> Response:  # in a worker, because reading and writing large JSON takes long
            given = _given(endpoint, request, body)
            return JSONResponse(act(conversations.workspace(person), given), endpoint.status)

        try:
            async with limits.slot(person):
                return await asyncio.get_running_loop().run_in_executor(pool, work)
        except wire.BadRequest as wrong:
            return JSONResponse(wire.error_body(wrong.message, param=wrong.param), wrong.status)
        except HermesError as error:
            return _failed(error)

    return Route(endpoint.path, answer, methods=[endpoint.method])


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
    """Finds what `problems` does not check: sizes of numbers, texts and lists."""
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
    """Finds nulls: a field without a value must be left out."""
    if value is None:
        yield f"{field} must not be null"
    elif isinstance(value, dict):
        for name, below in value.items():
            yield from _nulls(below, f"{field}.{name}")
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _nulls(item, f"{field}[{place}]")


def _failed(error: HermesError) -> Response:
    if isinstance(error, NotFound):  # something absent and something of another person get the same answer
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
