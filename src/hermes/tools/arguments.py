"""Fits a tool call's arguments to the tool's schema, checks them, and names every wrong field."""

from __future__ import annotations

from hermes.vocabulary.jsontext import decode, encode

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


def fitted(schema: Any, given: Any, ignored: list[str] | None, field: str = "") -> Any:
    """The arguments in the types of the schema where only the spelling differs, such as "5" for 5 or JSON as a text.

    Fields that the schema does not know are left out and named in `ignored`; without such a list they stay.
    """
    if not isinstance(schema, dict):
        return given  # as JSON Schema allows: true
    value = _coerced(schema, given)
    if isinstance(value, dict) and isinstance(known := schema.get("properties"), dict):
        unknown = [] if ignored is None else [name for name in value if not _takes(schema, name)]
        if ignored is not None:
            ignored += [f"{field}{_short(name)}" for name in unknown]
        return {
            name: fitted(known.get(name, {}), below, ignored, f"{field}{name}.")
            for name, below in value.items()
            if name not in unknown
        }
    if isinstance(value, list) and (items := schema.get("items")):
        place = field.removesuffix(".")
        return [fitted(items, item, ignored, f"{place}[{at}].") for at, item in enumerate(value)]
    return value


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
    found = [f"{prefix}{name} is missing" for name in schema.get("required", ()) if given.get(name) is None]
    for name, value in given.items():
        if not _takes(schema, name):
            found.append(f"{prefix}{_short(name)} is not a field; the fields are {', '.join(known)}")
        elif name in known and value is not None:
            found += problems(known[name], value, f"{prefix}{name}")
    return found


def _takes(schema: Schema, name: str) -> bool:
    """Whether an object may have this field; one whose schema names no fields may have any."""
    known = schema.get("properties")
    return not known or name in known or schema.get("additionalProperties", False) is not False


def _coerced(schema: Schema, given: Any) -> Any:
    kinds = _kinds(schema)
    if given is None or any(_is(kind, given) for kind in kinds):
        return given
    for kind in kinds:
        read = _read(kind, given)
        if _is(kind, read):
            return read
        items = schema.get("items") if kind == "array" else None
        if isinstance(items, dict) and items.get("type") and not problems(items, fitted(items, given, [])):
            return [given]  # a list of one, written without its brackets
    return given


def _kinds(schema: Schema) -> list[str]:
    """The types a value may have; none when the schema says it in a way that is not read here."""
    told, choices = schema.get("type"), schema.get("anyOf")
    if told is None and isinstance(choices, list):
        told = [each.get("type") if isinstance(each, dict) else None for each in choices]
    named = told if isinstance(told, list) else [told]
    kinds = [kind for kind in named if isinstance(kind, str)]
    return kinds if len(kinds) == len(named) else []


def _is(kind: str, given: Any) -> bool:
    if isinstance(given, float):
        return kind == "number" and given - given == 0  # neither NaN nor endless
    return isinstance(given, _KINDS.get(kind, ())) and (kind == "boolean" or not isinstance(given, bool))


def _read(kind: str, given: Any) -> Any:
    """A value read as one of this kind, where it is only written otherwise; itself when it is not."""
    if kind == "string":
        return encode(given) if isinstance(given, int | float) and not isinstance(given, bool) else given
    read = _from_text(kind, given) if isinstance(given, str) else given
    return int(read) if kind == "integer" and isinstance(read, float) and read.is_integer() else read


def _from_text(kind: str, given: str) -> Any:
    try:
        return decode(given.strip().lower() if kind == "boolean" else given)
    except (ValueError, RecursionError):
        if kind not in ("array", "object"):
            return given
    from hermes.vocabulary.json_repair import repaired

    try:
        return repaired(given)
    except (ValueError, RecursionError):
        return given


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
