"""Reads a provider's configuration from the environment, `.env` and `$HERMES_HOME/<name>.json`.

If a field names a variable, its value comes from the environment or `.env`, else from the file, else it is the field's
default. Texts are converted to the field's type, so that "false" in a file is false.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from typing import TYPE_CHECKING, Any

from hermes.base.errors import SettingsError
from hermes.settings.config import secret
from hermes.settings.home import PEOPLE, Home
from hermes.storage.files import Folder, read_private
from hermes.storage.locks import FileLock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Fields = tuple[dict[str, Any], ...]

TEXTS = os.path.join(os.path.dirname(__file__), "text")
_LARGEST = 1 << 20  # bytes of a configuration file
_LOCK_TIMEOUT = 5  # seconds
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_KINDS: dict[type, str] = {bool: "flag", int: "integer", float: "number"}
_FLAGS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def read_config(name: str, hermes_home: str) -> dict[str, Any]:
    """Reads the provider's file; empty if there is none, a `SettingsError` if it cannot be parsed.

    A person's home without such a file uses the operator's.
    """
    return _first_of(os.path.join(place, _file(name)) for place in (hermes_home, home_of(hermes_home).operator))


def read_elsewhere(*places: str) -> dict[str, Any]:
    """The contents of the first of these files that exists, in which other programs configure the same service."""
    return _first_of(map(os.path.expanduser, places))


def _first_of(paths: Iterable[str]) -> dict[str, Any]:
    for path in dict.fromkeys(paths):  # the person's home may be the operator's
        if data := read_private(path, at_most=_LARGEST):
            return _parsed(path, data)
    return {}


def save_config(name: str, hermes_home: str, values: Mapping[str, Any]) -> None:
    """Sets these values in the provider's private file and keeps the others; None removes a value."""
    with Folder.create(hermes_home) as folder, FileLock(folder, f"{_file(name)}.lock", timeout=_LOCK_TIMEOUT):
        data = folder.read(_file(name), at_most=_LARGEST)
        kept = _parsed(folder.join(_file(name)), data) if data else {}
        kept |= values
        text = json.dumps({key: each for key, each in kept.items() if each is not None}, indent=2, ensure_ascii=False)
        folder.replace(_file(name), f"{text}\n".encode())


def configured(
    name: str, hermes_home: str, fields: Iterable[Mapping[str, Any]], *, file: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The value of every field of a provider's schema, or its default.

    `file` is the content of the provider's file, for providers that read it in their own way.
    """
    file = read_config(name, hermes_home) if file is None else file
    found: dict[str, Any] = {}
    for field in fields:
        key = field["key"]
        given: Any = secret_value(hermes_home, field.get("env_var", ""))
        if given is None:
            given = file.get(key)
        if given is None:
            given = default_of(field, found)
        found[key] = typed(field, given, f"{_file(name)}: {key}")
    return found


def described(name: str) -> tuple[Fields, Fields]:
    """The settings and tools of a bundled provider, from `text/NAME.toml`.

    Settings are as `MemoryProvider.get_config_schema` describes them; set-up does not ask for those marked `file_only`.
    A tool's property is the name of a type, or a full description.
    """
    with open(os.path.join(TEXTS, f"{name}.toml"), "rb") as file:
        found = tomllib.load(file)
    settings = tuple({"key": key, **about} for key, about in found["settings"].items())
    return settings, tuple(_tool(name, about) for name, about in found["tools"].items())


def _tool(name: str, about: Mapping[str, Any]) -> dict[str, Any]:
    given = about.get("properties", {}).items()
    shapes = {key: {"type": shape} if isinstance(shape, str) else shape for key, shape in given}
    parameters = {"type": "object", "properties": shapes, "required": about.get("required", [])}
    return {"name": name, "description": about["description"], "parameters": parameters}


def secret_value(hermes_home: str, variable: str) -> str | None:
    """The environment variable, else the value in the home's .env file; None if neither exists."""
    return secret(home_of(hermes_home), variable) or None if variable else None


def missing_fields(fields: Iterable[Mapping[str, Any]], values: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The required fields that apply and have no value."""
    return [
        field
        for field in fields
        if field.get("required") and applies(field, values) and values.get(field["key"]) in (None, "")
    ]


def applies(field: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    """Whether a field is asked for, given the answers to others (`when`)."""
    conditions: Mapping[str, Any] = field.get("when") or {}
    return all(
        values.get(key) in wanted if isinstance(wanted, list | tuple) else values.get(key) == wanted
        for key, wanted in conditions.items()
    )


def typed(field: Mapping[str, Any], given: Any, where: str = "") -> Any:
    """Converts a value to its field's type, or that of the field's default; raises a `SettingsError` if it cannot."""
    kind = field.get("type") or _KINDS.get(type(field.get("default")), "")
    if given is None or not isinstance(given, str) or kind in ("", "text", "string"):
        return given
    try:
        return _READERS[kind](given.strip()) if kind in _READERS and given.strip() else given
    except (ValueError, KeyError) as error:
        raise SettingsError(f"{where or field['key']}: expected a {kind}, found {given!r}") from error


def default_of(field: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    """A field's default; it may depend on the answer to another field (`default_from`)."""
    source = field.get("default_from") or {}
    table = source.get("map") or {}
    return table.get(values.get(source.get("field", "")), field.get("default"))


_READERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("flag", "bool", "boolean"), lambda words: _FLAGS[words.lower()]),
    **dict.fromkeys(("integer", "int"), int),
    **dict.fromkeys(("number", "float"), float),
}


def home_of(path: str) -> Home:
    """The home at a path; a person's home is recognized by its folder, `users` in the operator's home."""
    parent = os.path.dirname(os.path.normpath(path))
    above = os.path.dirname(parent) if os.path.basename(parent) == PEOPLE else ""
    return Home(path=path, root=path, above=above)


def _file(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise SettingsError(f"{name!r} is not the name of a provider; use letters, digits, - and _")
    return f"{name}.json"


def _parsed(path: str, data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError as error:
        raise SettingsError(f"{path}: not valid JSON: {error}; correct it, or run `hermes memory setup`") from error
    if not isinstance(found, dict):
        raise SettingsError(f"{path}: expected an object of names and values, found {type(found).__name__}")
    return found
