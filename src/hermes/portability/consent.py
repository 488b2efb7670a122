"""What comes along with an import, a migration or a restore and could act stays disabled until the person agrees.

Settings that let something run, reach or be reached, plug-ins, and the list of keys of the server are moved into
`disabled/` of the home, with the same names; `enable` puts them back. What the home in use has already, with the same
content, was agreed to before and stays enabled.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

from hermes.base.errors import SettingsError
from hermes.portability.archive import remove_tree
from hermes.portability.sources import files_below, read_bytes
from hermes.safety.secrets import mask_secrets
from hermes.settings.config import FILE as CONFIG
from hermes.settings.config import check_text
from hermes.settings.home import PROFILES, Home
from hermes.settings.people import FILE as SERVER_KEYS
from hermes.settings.schema import ENABLING, all_keys
from hermes.settings.yaml_file import parse, place_value, unset_value
from hermes.storage.files import make_private_folders

if TYPE_CHECKING:
    from collections.abc import Iterator

DISABLED = "disabled"
_PLUGINS = "plugins"
_FILES = {
    SERVER_KEYS: "the people of the server and their keys",
    "trust.json": "the folders that are trusted",
    "rules.json": "rules that the agent is held to",
    "reminders.json": "reminders that come up by themselves",
}
_LARGEST = 64 << 20
_LONGEST = 160


def disable(new: str, in_use: str) -> list[str]:
    """Disables what could act in a home that is about to take the place of the one in use; says what that is."""
    found: list[str] = []
    for home in _homes(new):
        before = os.path.join(in_use, os.path.relpath(home.path, new))
        label = f"profile {home.profile}: " if home.profile else ""
        found += [f"{label}{each}" for each in (*_disable_settings(home, before), *_disable_files(home, before))]
    return found


def disabled_in(path: str) -> list[str]:
    """What is disabled in a home, in the same words."""
    found = []
    for home in _homes(path):
        label = f"profile {home.profile}: " if home.profile else ""
        settings, _ = _settings(home.join(DISABLED, CONFIG))
        found += [f"{label}{_in_words(name, given)}" for name, given in settings.items()]
        found += [f"{label}{_file_in_words(name)}" for name in _held_files(home.join(DISABLED))]
    return found


def disabled_setting(home: Home, name: str) -> Any:
    """The value of a setting that waits for the person to agree; None when there is none."""
    return _settings(home.join(DISABLED, CONFIG))[0].get(name)


def enable(path: str) -> list[str]:
    """The person agrees: everything disabled works again, except where they have set or put something else since."""
    found = disabled_in(path)
    for home in _homes(path):
        here, _ = _settings(home.join(CONFIG))
        for name, given in _settings(home.join(DISABLED, CONFIG))[0].items():
            if name not in here:
                place_value(home, CONFIG, name, given)
        for name in _held_files(home.join(DISABLED)):
            if not os.path.lexists(home.join(name)):
                _move(home.join(DISABLED, name), home.join(name))
        remove_tree(home.join(DISABLED))
    return found


def _homes(path: str) -> Iterator[Home]:
    """The home and its profiles, which have settings and plug-ins of their own; people have those of the operator."""
    yield Home(path=path, root=path)
    profiles = os.path.join(path, PROFILES)
    for name in sorted(os.listdir(profiles)) if os.path.isdir(profiles) else ():
        if os.path.isdir(os.path.join(profiles, name)):
            yield Home(path=os.path.join(profiles, name), root=path, profile=name)


def _disable_settings(home: Home, before: str) -> Iterator[str]:
    given, readable = _settings(home.join(CONFIG))
    agreed, _ = _settings(os.path.join(before, CONFIG))
    keys = all_keys()
    try:
        for name, value in given.items():
            harmless = (keys[name].default, None, "", [], {}, *ENABLING.get(name, ()))
            if name in ENABLING and value not in harmless and agreed.get(name) != value:
                place_value(home, os.path.join(DISABLED, CONFIG), name, value)
                unset_value(home, CONFIG, name)
                yield _in_words(name, value)
    except SettingsError:
        readable = False
    if not readable and not _is_same(home.join(CONFIG), os.path.join(before, CONFIG)):
        # What cannot be edited line by line, such as values shared by `<<`, is put aside as a whole.
        _move(home.join(CONFIG), home.join(DISABLED, "unreadable.yaml"))
        yield f"{CONFIG}, which cannot be read: mend {DISABLED}/unreadable.yaml and put it back yourself"


def _disable_files(home: Home, before: str) -> Iterator[str]:
    for name in _held_files(home.path):
        if not _is_same(home.join(name), os.path.join(before, name)):
            _move(home.join(name), home.join(DISABLED, name))
            yield _file_in_words(name)


def _held_files(folder: str) -> list[str]:
    plugins = os.path.join(folder, _PLUGINS)
    names = [os.path.join(_PLUGINS, name) for name in sorted(os.listdir(plugins))] if os.path.isdir(plugins) else []
    return names + [name for name in _FILES if os.path.lexists(os.path.join(folder, name))]


def _settings(path: str) -> tuple[dict[str, Any], bool]:
    """What a file sets, and whether it could be read."""
    try:
        data = read_bytes(path)
        parse(path, data)
    except FileNotFoundError:
        return {}, True
    except SettingsError:
        return {}, False
    return {name: each.value for name, each in check_text(path, data)[0].items()}, True


def _is_same(one: str, other: str) -> bool:
    if os.path.isdir(one) and os.path.isdir(other) and not os.path.islink(other):
        inside, there = dict(files_below(one)), dict(files_below(other))
        return inside.keys() == there.keys() and all(_is_same(inside[name], there[name]) for name in inside)
    try:
        return os.path.isfile(one) and read_bytes(one, _LARGEST) == read_bytes(other, _LARGEST)
    except FileNotFoundError:
        return False


def _move(path: str, to: str) -> None:
    make_private_folders(os.path.dirname(to))
    remove_tree(to)  # what an earlier import left there
    shutil.move(path, to)


def _in_words(name: str, value: Any) -> str:
    if name == "mcp_servers" and isinstance(value, dict):
        started = ", ".join(f"{key} ({_started(each)})" for key, each in value.items())
        return mask_secrets(f"MCP servers: {started}")[:_LONGEST]
    return mask_secrets(f"{name}: {value}")[:_LONGEST]


def _started(server: Any) -> str:
    if not isinstance(server, dict):
        return str(server)
    words = [server.get("command"), *(server.get("args") or ())] if server.get("command") else [server.get("url")]
    return " ".join(map(str, words))


def _file_in_words(name: str) -> str:
    return f"{name}: {_FILES[name]}" if name in _FILES else f"plug-in {os.path.basename(name)}, a program"
