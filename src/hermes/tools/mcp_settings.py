"""`mcp_servers` in the settings: what a server is started with or where it is, checked before anything runs."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from hermes.settings.check import nearest
from hermes.vocabulary.errors import SettingsError
from hermes.vocabulary.values import value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_KINDS: dict[str, tuple[type, ...]] = {
    "command": (str,),
    "args": (list,),
    "env": (dict,),
    "cwd": (str,),
    "url": (str,),
    "headers": (dict,),
    "timeout": (int, float),
    "connect_timeout": (int, float),
    "enabled": (bool,),
    "tools": (dict,),
}
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@value
class ServerSettings:
    """One server: `command` starts it, or `url` is where it is."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str]
    cwd: str | None = None
    url: str = ""
    headers: Mapping[str, str]
    timeout: float = 120
    connect_timeout: float = 30
    include: tuple[str, ...] | None = None  # only these tools; None for all
    exclude: tuple[str, ...] = ()
    fingerprint: str = ""  # changes when the settings do

    def wants(self, tool: str) -> bool:
        return (self.include is None or tool in self.include) and tool not in self.exclude


def servers_in(given: Any, secret: Callable[[str], str | None]) -> list[ServerSettings]:
    """The servers that are switched on; `${NAME}` in texts is filled in from the environment or .env."""
    return [_server(str(name), block, secret) for name, block in (given or {}).items() if _checked(str(name), block)]


def _checked(name: str, block: Any) -> bool:
    """Whether the server is on; a mistake names its key."""
    where = f"mcp_servers.{name}"
    if not isinstance(block, dict):
        raise SettingsError(f"{where}: expected a mapping with command or url, found {block!r}")
    for key, given in block.items():
        if key not in _KINDS:
            raise SettingsError(f"{where}: there is no key {key!r}{nearest(str(key), _KINDS)}")
        if not isinstance(given, _KINDS[key]):
            expected = " or ".join(kind.__name__ for kind in _KINDS[key])
            raise SettingsError(f"{where}.{key}: expected {expected}, found {given!r}")
    if bool(block.get("command")) == bool(block.get("url")):
        raise SettingsError(f"{where}: give either command (a program to start) or url (a server that runs)")
    return bool(block.get("enabled", True))


def _server(name: str, block: dict[str, Any], secret: Callable[[str], str | None]) -> ServerSettings:
    def filled(text: Any) -> str:
        return _VARIABLE.sub(lambda found: secret(found[1]) or "", str(text))

    chosen = block.get("tools") or {}
    include = chosen.get("include")
    return ServerSettings(
        name=name,
        command=filled(block.get("command", "")),
        args=tuple(filled(each) for each in block.get("args", ())),
        env={str(key): filled(text) for key, text in (block.get("env") or {}).items()},
        cwd=block.get("cwd"),
        url=filled(block.get("url", "")),
        headers={str(key): filled(text) for key, text in (block.get("headers") or {}).items()},
        timeout=float(block.get("timeout", 120)),
        connect_timeout=float(block.get("connect_timeout", 30)),
        include=None if include is None else tuple(map(str, include)),
        exclude=tuple(map(str, chosen.get("exclude") or ())),
        # As written, not as filled in: a key does not belong into a file beside the settings, not even hashed.
        fingerprint=hashlib.sha256(json.dumps(block, sort_keys=True).encode()).hexdigest()[:32],
    )
