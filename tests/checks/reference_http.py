"""The page of the reference on HTTP: every route with its fields and a request, from the OpenAPI description."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

from checks.reference import table

if TYPE_CHECKING:
    from collections.abc import Iterator

ADDRESS = "http://127.0.0.1:8484"  # as the guide has it
_LONGEST = 100
_ABOUT = f"""# HTTP

What `hermes serve` answers, with the fields each route takes and a request. `/openapi.json` says the same for programs,
and `/docs` is a page to try it. How to begin: [Run it as a server](../guides/http-server.md).

Each request needs a key of `hermes users key`, as a bearer token. The requests below are for a shell that knows:

```sh
HERMES={ADDRESS}
AUTH="Authorization: Bearer hk-…"
```

A body is JSON, whatever its content type; none at all is an empty object. What is wrong comes back as
`{{"error": {{"message": …}}}}` with one of these [statuses](errors.md#over-http).
"""


def http_page() -> str:
    from hermes.server.api import description

    found = [
        (method, path, each) for path, methods in description()["paths"].items() for method, each in methods.items()
    ]
    rows = [(f"`{method.upper()} {path}`", operation["summary"]) for method, path, operation in found]
    return "\n".join([_ABOUT, table(("route", "what it does"), rows), *(_section(*each) for each in found)])


def _section(method: str, path: str, operation: dict[str, Any]) -> str:
    parts = [f"## {method.upper()} {path}\n\n{operation['summary']}\n"]
    if rows := [*_parameters(operation), *_body(operation)]:
        parts.append(table(("field", "where", "type", "needed", "meaning"), rows))
    parts.append(f"```sh\n{request(method, path, operation)}\n```\n")
    if answer := _answer(operation):
        parts.append(f"Gives {answer}.\n")
    return "\n".join(parts)


def _parameters(operation: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for each in operation.get("parameters", ()):
        meaning = each["schema"].get("description") or each.get("description", "")
        yield _row(each["name"], each["in"], each["schema"], meaning, needed=each.get("required", False))


def _body(operation: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    schema = _json(operation.get("requestBody", {})).get("schema", {})
    for name, each in schema.get("properties", {}).items():
        yield _row(name, "body", each, each["description"], needed=name in schema["required"])


def _row(name: str, where: str, schema: dict[str, Any], meaning: str, *, needed: bool) -> tuple[str, ...]:
    kind = " or ".join(f"`{each}`" for each in schema["enum"]) if "enum" in schema else schema["type"]
    kind = kind if isinstance(kind, str) else " or ".join(kind)
    return f"`{name}`", where, kind, "yes" if needed else "no", meaning


def _answer(operation: dict[str, Any]) -> str:
    schema = next(_json(each)["schema"] for status, each in operation["responses"].items() if status < "300")
    return ", ".join(f"`{name}`" for name in schema.get("properties", {}))


def _json(holder: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = holder.get("content", {}).get("application/json", {})
    return found


def request(method: str, path: str, operation: dict[str, Any]) -> str:
    """A request as a person would type it."""
    words, asked = ['curl -H "$AUTH"'], []
    for each in operation.get("parameters", ()):
        example = each["schema"].get("examples", [""])[0]
        if each["in"] == "path":
            path = path.replace(f"{{{each['name']}}}", example)
        elif example:
            asked.append(f"-G --data-urlencode {shlex.quote(each['name'] + '=' + example)}")
    body = _json(operation.get("requestBody", {})).get("example")
    usual = "POST" if body is not None else "GET"
    if method.upper() != usual:
        words.append(f"-X {method.upper()}")
    words.append(f'"$HERMES{path}"')
    if body is not None:
        asked.append(f"-d {shlex.quote(json.dumps(body, ensure_ascii=False))}")
    whole = " ".join([*words, *asked])
    return whole if len(whole) <= _LONGEST else " \\\n  ".join([" ".join(words), *asked])
