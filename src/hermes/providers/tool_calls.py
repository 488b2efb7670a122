"""What a provider says about its tools, and what they return, in the form the rest of the program relies on."""

from __future__ import annotations

import json
import re
from typing import Any

from hermes.providers.base import tool_error
from hermes.safety.fence import sanitize_context

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LARGEST_SCHEMA = 20_000
_LARGEST_RESULT = 100_000


def usable_schema(offered: object) -> dict[str, Any]:
    """A provider's tool as a bare function description; ValueError says why it cannot be offered to a model."""
    function = offered.get("function", offered) if isinstance(offered, dict) else offered
    if not isinstance(function, dict):
        raise ValueError(f"a tool must be described by an object, not {type(function).__name__}")  # noqa: TRY004
    name = function.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"{str(name)[:80]!r} cannot be the name of a tool")
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    if not isinstance(parameters, dict) or parameters.get("type", "object") != "object":
        raise ValueError(f"the parameters of {name} must be a schema of an object")
    described = {
        "name": name,
        "description": sanitize_context(str(function.get("description") or "")),
        "parameters": {"type": "object", "properties": {}, **parameters},
    }
    try:
        size = len(json.dumps(described))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"the description of {name} is no JSON: {error}") from error
    if size > _LARGEST_SCHEMA:
        raise ValueError(f"the description of {name} has {size:,} characters; {_LARGEST_SCHEMA:,} are allowed")
    return described


def usable_result(returned: object) -> str:
    """A provider's result as JSON text without fences, of a bounded size."""
    if isinstance(returned, dict | list):
        found: Any = returned
    elif not isinstance(returned, str):
        return tool_error(f"the provider returned {type(returned).__name__} instead of JSON text")
    elif len(returned) > _LARGEST_RESULT:
        text = str.__getitem__(returned, slice(0, _LARGEST_RESULT))
        cut = f"[cut: {len(returned):,} characters; ask for less]"
        found = {"result": text, "note": cut}
    else:
        try:
            found = json.loads(returned)
        except (ValueError, RecursionError):
            found = {"result": str.__str__(returned)}
    try:
        text = json.dumps(_cleaned(found), ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError) as error:
        return tool_error(f"the provider returned something that is no JSON: {error}")
    return text if len(text) <= 2 * _LARGEST_RESULT else tool_error("the result is too large; ask for less")


def _cleaned(found: Any) -> Any:
    if isinstance(found, str):
        return sanitize_context(found)
    if isinstance(found, dict):
        return {str(key): _cleaned(each) for key, each in found.items()}
    return [_cleaned(each) for each in found] if isinstance(found, list | tuple) else found
