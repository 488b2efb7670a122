"""Checks a tool call's arguments against the tool's schema and names every wrong field."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Schema = dict[str, Any]

_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
_LONGEST = 60


def problems(schema: Schema, given: Any, field: str = "arguments") -> list[str]:
    """One sentence per wrong field; null counts as left out."""
    kind = schema.get("type")
    if not isinstance(kind, str) or kind not in _KINDS:
        return []  # a provider's schema may say what we do not check: a union, a reference
    if (wrong := _wrong_kind(schema, given, field)) is not None:
        return [wrong]
    if schema["type"] == "object":
        return _problems_of_object(schema, given, "" if field == "arguments" else f"{field}.")
    if schema["type"] == "array":
        return [
            each for i, item in enumerate(given) for each in problems(schema.get("items", {}), item, f"{field}[{i}]")
        ]
    return []


def without_nulls(given: Any) -> Any:
    """The arguments with everything left out that is null."""
    if isinstance(given, dict):
        return {name: without_nulls(value) for name, value in given.items() if value is not None}
    if isinstance(given, list):
        return [without_nulls(item) for item in given]
    return given


def _problems_of_object(schema: Schema, given: dict[str, Any], prefix: str) -> list[str]:
    known = schema.get("properties", {})
    free = schema.get("additionalProperties", False) is not False
    found = [f"{prefix}{name} is missing" for name in schema.get("required", ()) if given.get(name) is None]
    for name, value in given.items():
        if name not in known:
            if free:
                continue
            found.append(f"{prefix}{_short(name)} is not a field; the fields are {', '.join(known)}")
        elif value is not None:
            found += problems(known[name], value, f"{prefix}{name}")
    return found


def _wrong_kind(schema: Schema, given: Any, field: str) -> str | None:
    kind = schema["type"]
    fits = isinstance(given, _KINDS[kind]) and (kind == "boolean" or not isinstance(given, bool))
    if fits and "enum" in schema:
        fits = given in schema["enum"]
    if fits:
        return None
    article = "an" if kind[0] in "aoi" else "a"
    expected = f"one of {', '.join(map(str, schema['enum']))}" if "enum" in schema else f"{article} {kind}"
    return f"{field} must be {expected}, not {_short(repr(given))}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
