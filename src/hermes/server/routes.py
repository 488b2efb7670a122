"""From the table of endpoints to routes: what comes in is checked against its schema, errors become answers."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse
from starlette.routing import Route

from hermes.server import openai_wire as wire
from hermes.server.api import NoSuchTarget
from hermes.server.door import PERSON, ROUTE
from hermes.storage.text import scrub
from hermes.tools.arguments import problems
from hermes.vocabulary.errors import HermesError, LockTimeout, NotFound, SettingsError, StorageError, WriteRefused
from hermes.vocabulary.json_texts import change_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Executor

    from starlette.requests import Request
    from starlette.responses import Response

    from hermes.server.api import Endpoint
    from hermes.server.rooms import Rooms
    from hermes.server.shares import Lines

_LOG = logging.getLogger("hermes.server")


def api_route(endpoint: Endpoint, prefix: str, rooms: Rooms, pool: Executor, lines: Lines) -> Route:
    path = f"{prefix}{endpoint.path}"

    async def answer(request: Request) -> Response:
        request.scope[ROUTE] = path
        try:
            given = await _given(endpoint, request)
        except wire.BadRequest as wrong:
            return JSONResponse(wire.error(wrong.message, param=wrong.param), wrong.status)
        person = request.scope[PERSON]
        work: Callable[[], Any] = lambda: endpoint.act(rooms.workspace(person), given)  # noqa: E731 - run elsewhere
        try:
            async with lines.place(person):
                document = await asyncio.get_running_loop().run_in_executor(pool, work)
        except HermesError as error:
            return _failed(error)
        return JSONResponse(document, endpoint.status)

    return Route(path, answer, methods=[endpoint.method])


async def _given(endpoint: Endpoint, request: Request) -> dict[str, Any]:
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
        given |= _body(endpoint.body, await request.body())
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
    wrong = problems(schema, body, "body") or list(bounds(schema, body, "body"))
    wrong += list(_nulls(body, "body"))
    if wrong:
        raise wire.BadRequest("; ".join(wrong[:10]), "body")
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
        return JSONResponse(wire.error(said, code="not_found"), 404)
    if isinstance(error, WriteRefused):
        return JSONResponse(wire.error(str(error), code=error.kind), 409 if error.kind == "full" else 422)
    if isinstance(error, LockTimeout):
        busy = wire.error("somebody else is writing; try again", "server_error", code="busy")
        return JSONResponse(busy, 503, {"retry-after": "1"})
    if isinstance(error, SettingsError):
        return JSONResponse(wire.error(str(error)), 400)
    _LOG.error("an API call failed: %s", error)
    kind = "storage" if isinstance(error, StorageError) else None
    return JSONResponse(wire.error("the operator's log says what is wrong", "server_error", code=kind), 503)
