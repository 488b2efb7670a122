"""The OpenAPI description, made from the table of endpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.server import api_schemas as schemas
from hermes.server.api import ENDPOINTS, PREFIX
from hermes.vocabulary.version import __version__

if TYPE_CHECKING:
    from hermes.server.api import Endpoint

_ERRORS = {
    "400": "What was sent does not fit the description.",
    "401": "There is no valid key.",
    "403": "The web page that sends this may not.",
    "404": "There is nothing of that name, or it is not yours.",
    "409": "It does not fit what is there now.",
    "413": "The body is too large.",
    "421": "The server does not answer under that name.",
    "422": "The change was refused; the message says why.",
    "429": "Too many requests.",
    "502": "The model could not be asked.",
    "503": "Not now; try again.",
    "504": "It took too long.",
}


def description() -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(f"{PREFIX}{endpoint.path}", {})[endpoint.method.lower()] = _operation(endpoint)
    chat = {
        "summary": "One turn of a conversation, in OpenAI's format, with memory.",
        "operationId": "chat_completions",
        "parameters": [
            {
                "name": "X-Hermes-Session",
                "in": "header",
                "schema": {"type": "string", "maxLength": 200, "pattern": "^[ -~]*$"},
                "description": "Names the conversation: an id, a title, or a name of your own.",
            }
        ],
        "requestBody": _body(schemas.CHAT, {"messages": [{"role": "user", "content": "I am vegetarian."}]}),
        "responses": _responses(200, schemas.COMPLETION, "400 401 403 404 409 413 421 429 502 503 504"),
    }
    paths["/v1/chat/completions"] = {"post": chat}
    paths["/v1/models"] = {"get": _plain("models", "The models a client may name.", schemas.MODELS)}
    paths["/health"] = {"get": _plain("health", "Whether the server answers.", schemas.HEALTH)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Hermes", "version": __version__, "description": "Memory for language-model agents."},
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "A key of `hermes users key`."},
                "browser": {"type": "http", "scheme": "basic", "description": "Any name, the key as password."},
            },
            "schemas": {"Error": schemas.ERROR},
        },
        "security": [{"key": []}, {"browser": []}],
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    name = f"{endpoint.method.lower()}{endpoint.path}".replace("/", "_").replace("{", "").replace("}", "")
    parameters = [
        {"name": each, "in": "path", "required": True, "schema": schemas.PLACES[each]} for each in endpoint.parameters
    ]
    for each, schema in endpoint.query.items():
        shown = {key: value for key, value in schema.items() if key != "required"}
        parameters.append({"name": each, "in": "query", "required": bool(schema.get("required")), "schema": shown})
    operation: dict[str, Any] = {"summary": endpoint.summary, "operationId": name, "parameters": parameters}
    if endpoint.body is not None:
        operation["requestBody"] = _body(endpoint.body, endpoint.example)
    failures = "400 401 403 404 409 413 421 422 429 503"
    return {**operation, "responses": _responses(endpoint.status, endpoint.gives, failures)}


def _plain(name: str, summary: str, gives: dict[str, Any]) -> dict[str, Any]:
    return {"summary": summary, "operationId": name, "responses": _responses(200, gives, "401 403 421 429")}


def _body(schema: dict[str, Any], example: dict[str, Any] | None) -> dict[str, Any]:
    needed = bool(schema["required"]) or "minProperties" in schema
    shown = {"schema": schema} if example is None else {"schema": schema, "example": example}
    return {"required": needed, "content": {"application/json": shown}}


def _responses(status: int, gives: dict[str, Any], failures: str) -> dict[str, Any]:
    wrong = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    found: dict[str, Any] = {str(status): {"description": "Done.", "content": {"application/json": {"schema": gives}}}}
    return found | {code: {"description": _ERRORS[code], "content": wrong} for code in failures.split()}
