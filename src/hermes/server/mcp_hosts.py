"""The hosts that can use this memory over MCP: where each keeps its configuration, and what has to stand there.

A plan is made first: every file with its bytes before and after. Nothing is written until somebody agrees, the file as
it was is kept beside it, and removing takes out exactly what was put in.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hermes.server.mcp_toml import with_server, without_server
from hermes.storage.files import Folder, explain
from hermes.vocabulary.errors import NotFound, SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable

_NAME = "hermes"
_RECORDS = "mcp record "  # in the command of every hook of ours
_LARGEST = 64 << 20  # Claude Code keeps much besides its servers in one file


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a host starts us: the program, the words that choose the home, and for hooks the words that record."""

    program: str
    home: tuple[str, ...] = ()

    def serve(self, host: str, *, recorded: bool) -> list[str]:
        return [*self.home, "mcp", "serve", "--source", host, *(["--recorded"] if recorded else [])]

    def record(self, host: str) -> str:
        import shlex

        return shlex.join([self.program, *self.home, "mcp", "record", host])


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One file: what it holds, what it would hold, and why."""

    path: str
    before: bytes | None
    after: bytes
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """`records` says how its conversations come in: a hook, or the model itself by calling record_conversation."""

    title: str
    plan: Callable[[Launch, str, bool], list[Change]]
    records: str


def plan(host: str, launch: Launch, user_home: str, *, remove: bool = False) -> list[Change]:
    """The files that would change, without those that are right already."""
    if host not in HOSTS:
        raise NotFound(
            f"there is no host {host!r}; the hosts are {', '.join(HOSTS)}. Any other one takes these lines in its list "
            f"of MCP servers; where that is, and what it calls it, is in its manual:\n{_for_any_other(launch)}"
        )
    changes = HOSTS[host].plan(launch, user_home, remove)
    return [change for change in changes if change.before != change.after]


def _for_any_other(launch: Launch) -> str:
    return json.dumps({"mcpServers": {_NAME: {"command": launch.program, "args": [*launch.home, "mcp"]}}}, indent=2)


def carry_out(changes: list[Change]) -> list[str]:
    """Writes the files, each as a whole; returns where the earlier versions are kept."""
    backups = []
    for change in changes:
        path = os.path.realpath(change.path)  # people keep these files in a repository and link to them
        name = os.path.basename(path)
        with Folder.create(os.path.dirname(path)) as folder:
            if change.before is not None:
                if folder.read(name, at_most=_LARGEST) != change.before:
                    raise SettingsError(f"{path} was changed meanwhile; run the command again")
                backup = f"{name}.before-hermes-{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"
                folder.write_new(backup, change.before)
                backups.append(folder.join(backup))
            status = folder.status(name)
            folder.replace(name, change.after)
            if status is not None:
                os.chmod(path, stat.S_IMODE(status.st_mode))
    return backups


def _json_servers(*place: str, keys: tuple[str, ...] = ("mcpServers",), kind: str = "") -> Callable[..., list[Change]]:
    """A host that lists its servers in a JSON file."""

    def make(launch: Launch, user_home: str, remove: bool, *, recorded: bool = False) -> list[Change]:  # noqa: FBT001 - as `Host.plan`
        path = os.path.join(user_home, *place)
        before, document = _read_json(path)
        servers = _down(document, keys)
        if remove and servers.pop(_NAME, None) is None:
            return []  # nothing of ours is there
        if not remove:
            servers[_NAME] = _entry(launch, kind, recorded=recorded)
        why = "without the memory server" if remove else "the memory server"
        return [Change(path=path, before=before, after=_json_bytes(document, before), reason=why)]

    return make


def _entry(launch: Launch, kind: str, *, recorded: bool) -> dict[str, Any]:
    host, _, style = kind.partition(":")
    words = launch.serve(host, recorded=recorded)
    if style == "one-list":
        return {"type": "local", "command": [launch.program, *words], "enabled": True}
    entry: dict[str, Any] = {"command": launch.program, "args": words}
    return {"type": "stdio", **entry} if style == "typed" else entry


def _claude_code(launch: Launch, user_home: str, remove: bool) -> list[Change]:  # noqa: FBT001 - as `Host.plan`
    servers = _json_servers(".claude.json", kind="claude-code:typed")(launch, user_home, remove, recorded=True)
    command = {"type": "command", "command": launch.record("claude-code")}
    events = {event: {"hooks": [command]} for event in ("Stop", "SessionEnd")}
    return [*servers, *_hooks(os.path.join(user_home, ".claude", "settings.json"), events, remove=remove)]


def _gemini(launch: Launch, user_home: str, remove: bool) -> list[Change]:  # noqa: FBT001 - as `Host.plan`
    path = os.path.join(user_home, ".gemini", "settings.json")
    before, document = _read_json(path)
    if remove and not _mentions_us(document):
        return []
    servers = _down(document, ("mcpServers",))
    hooks = _down(document, ("hooks",))
    if remove:
        servers.pop(_NAME, None)
    else:
        servers[_NAME] = _entry(launch, "gemini", recorded=True)
    entry = {"hooks": [{"name": _NAME, "type": "command", "command": launch.record("gemini")}]}
    _set_hook(hooks, "AfterAgent", entry, remove=remove)
    return [Change(path=path, before=before, after=_json_bytes(document, before), reason="server and hook")]


def _cursor(launch: Launch, user_home: str, remove: bool) -> list[Change]:  # noqa: FBT001 - as `Host.plan`
    servers = _json_servers(".cursor", "mcp.json", kind="cursor")(launch, user_home, remove, recorded=True)
    entry = {"command": launch.record("cursor")}
    events = dict.fromkeys(("beforeSubmitPrompt", "afterAgentResponse"), entry)
    path = os.path.join(user_home, ".cursor", "hooks.json")
    return [*servers, *_hooks(path, events, remove=remove, version=1)]


def _codex(launch: Launch, user_home: str, remove: bool) -> list[Change]:  # noqa: FBT001 - as `Host.plan`
    folder = os.environ.get("CODEX_HOME") or os.path.join(user_home, ".codex")
    path = os.path.join(folder, "config.toml")
    before = _read(path)
    if remove:
        after = without_server(path, before or b"")
        return [] if before is None else [Change(path=path, before=before, after=after, reason="without the server")]
    notify = [launch.program, *launch.home, "mcp", "record", "codex"]
    after = with_server(path, before or b"", launch.program, launch.serve("codex", recorded=True), notify)
    return [Change(path=path, before=before, after=after, reason="the memory server, and notify to record")]


def _hooks(path: str, events: dict[str, dict[str, Any]], *, remove: bool, version: int = 0) -> list[Change]:
    before, document = _read_json(path)
    if remove and not _mentions_us(document):
        return []
    if version and not remove:
        document.setdefault("version", version)
    hooks = _down(document, ("hooks",))
    for event, entry in events.items():
        _set_hook(hooks, event, entry, remove=remove)
    why = "without the hook" if remove else "a hook that records conversations"
    return [Change(path=path, before=before, after=_json_bytes(document, before), reason=why)]


def _mentions_us(document: dict[str, Any]) -> bool:
    return _NAME in document.get("mcpServers", {}) or _RECORDS in json.dumps(document)


def _set_hook(hooks: dict[str, Any], event: str, entry: dict[str, Any], *, remove: bool) -> None:
    """Puts ours at the end of an event's list, once; what others put there stays."""
    listed = hooks.get(event, [])
    others = [each for each in listed if _RECORDS not in json.dumps(each)] if isinstance(listed, list) else []
    if wanted := others if remove else [*others, entry]:
        hooks[event] = wanted
    else:
        hooks.pop(event, None)


def _down(document: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    for key in keys:
        below = document.setdefault(key, {})
        if not isinstance(below, dict):
            raise SettingsError(f"{key} is no object there; look at the file and mend it first")
        document = below
    return document


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read(_LARGEST)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise explain("read", path, error) from error


def _read_json(path: str) -> tuple[bytes | None, dict[str, Any]]:
    data = _read(path)
    if not (data or b"").strip():
        return data, {}
    try:
        document = json.loads(data or b"{}")
    except ValueError as error:
        raise SettingsError(
            f"{path} is not plain JSON ({error}); comments are none. Add the server by hand, as the guide on MCP shows"
        ) from error
    if not isinstance(document, dict):
        raise SettingsError(f"{path} holds no object; look at the file and mend it first")
    return data, document


def _json_bytes(document: dict[str, Any], before: bytes | None) -> bytes:
    """Written with the indentation the file has; the same content is the same bytes."""
    if before and before.strip() and json.loads(before) == document:
        return before
    lines = (before or b"").split(b"\n")
    second = lines[1] if len(lines) > 1 else b"  "
    indent = len(second) - len(second.lstrip()) or 2
    return (json.dumps(document, ensure_ascii=False, indent=indent) + "\n").encode()


def _application_data(*names: str) -> tuple[str, ...]:
    """Where desktop programs keep their settings, below the user's home."""
    if sys.platform == "darwin":
        return ("Library", "Application Support", *names)
    return ("AppData", "Roaming", *names) if sys.platform == "win32" else (".config", *names)


_BY_MODEL = "the model calls record_conversation, as the server's instructions ask it to"
_DESKTOP = _application_data("Claude", "claude_desktop_config.json")
_VS_CODE = _application_data("Code", "User", "mcp.json")
HOSTS = {
    "claude-code": Host(title="Claude Code", plan=_claude_code, records="hooks at the end of a turn and of a session"),
    "codex": Host(title="Codex CLI", plan=_codex, records="notify at the end of a turn"),
    "cursor": Host(title="Cursor", plan=_cursor, records="hooks on each prompt and each answer"),
    "gemini": Host(title="Gemini CLI", plan=_gemini, records="a hook at the end of a turn"),
    "claude-desktop": Host(
        title="Claude Desktop", plan=_json_servers(*_DESKTOP, kind="claude-desktop"), records=_BY_MODEL
    ),
    "opencode": Host(
        title="opencode",
        plan=_json_servers(".config", "opencode", "opencode.json", keys=("mcp",), kind="opencode:one-list"),
        records=_BY_MODEL,
    ),
    "vscode": Host(
        title="VS Code", plan=_json_servers(*_VS_CODE, keys=("servers",), kind="vscode:typed"), records=_BY_MODEL
    ),
    "windsurf": Host(
        title="Windsurf",
        plan=_json_servers(".codeium", "windsurf", "mcp_config.json", kind="windsurf"),
        records=_BY_MODEL,
    ),
}
