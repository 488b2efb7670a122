"""Tools of MCP servers as tools of ours, named `mcp_<server>_<tool>`.

The list of a server's tools is kept in the home's cache, so that a session starts without waiting for its servers; a
server is started by the first call of one of its tools. Whatever it offers by then, the list of this session stays.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from hermes.storage.files import Folder
from hermes.tools.limits import Limits
from hermes.tools.mcp_connection import Connection, start_portal
from hermes.tools.mcp_settings import servers_in
from hermes.tools.registry import failure
from hermes.vocabulary.errors import HermesError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from anyio.from_thread import BlockingPortal

    from hermes.settings.home import Home
    from hermes.settings.load import Settings
    from hermes.tools.mcp_settings import ServerSettings
    from hermes.tools.registry import Tool

_CACHE = "mcp_tools.json"
_LARGEST_CACHE = 5_000_000
_FRESH = 24 * 3600  # seconds for which a kept list is believed without asking the server
_LONGEST_NAME = 64  # what OpenAI's and Anthropic's wires accept
_LONGEST_TOOL = 20_000  # characters of one tool's description and parameters: every request carries them
_LONGEST_LIST = 200_000  # characters of all the tools of a server
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]+")


class McpServers:
    """The servers of one agent; `problems` are lines for the person about those that could not be used."""

    def __init__(
        self, servers: list[ServerSettings], home: Home, limits: Limits, cancelled: Callable[[], bool]
    ) -> None:
        self._home = home
        self._limits = limits
        self._cancelled = cancelled
        self._servers = servers
        self._connections = {server.name: Connection(server, self._portal) for server in servers}
        self._running: AbstractContextManager[BlockingPortal] | None = None
        self._entered: BlockingPortal | None = None
        self._starting = threading.Lock()
        self.problems: list[str] = []

    @classmethod
    def of(cls, settings: Settings, home: Home, cancelled: Callable[[], bool]) -> McpServers:
        from hermes.settings.secrets_file import secret

        found = servers_in(settings.get("mcp_servers"), lambda name: secret(home, name))
        return cls(found, home, Limits.of(settings), cancelled)

    def makers(self) -> dict[str, Callable[[], Tool]]:
        """Every tool that is offered and wanted; servers that must be asked are asked at the same time."""
        kept = self._kept()
        with ThreadPoolExecutor(max_workers=max(len(self._servers), 1), thread_name_prefix="mcp") as pool:
            lists = list(pool.map(partial(self._offered, kept), self._servers))
        fresh = {server.fingerprint: each for server, each in zip(self._servers, lists, strict=True) if each["tools"]}
        if fresh != kept:
            self._keep(fresh)
        made: dict[str, Callable[[], Tool]] = {}
        for server, each in zip(self._servers, lists, strict=True):
            for offered in each["tools"]:
                if server.wants(offered["name"]):
                    name = tool_name(server.name, offered["name"])
                    if name in made:  # the first keeps it: nobody may stand in for another server's tool
                        self.problems.append(f"{server.name}: the tool {offered['name']} is left out, {name} is taken")
                    made.setdefault(name, partial(self._tool, name, offered, server))
        return made

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        if self._running is not None:
            self._running.__exit__(None, None, None)
            self._running = self._entered = None

    def _portal(self) -> BlockingPortal:
        with self._starting:
            if self._entered is None:
                self._running = start_portal()
                self._entered = self._running.__enter__()
            return self._entered

    def _tool(self, name: str, offered: Mapping[str, Any], server: ServerSettings) -> Tool:
        return McpTool(name, offered, self._connections[server.name], self._limits, self._cancelled)

    def _offered(self, kept: Mapping[str, Any], server: ServerSettings) -> dict[str, Any]:
        """The server's tools, from the cache or from itself; none, and a problem, when it does not answer."""
        known: dict[str, Any] = kept.get(server.fingerprint) or {"at": 0, "tools": []}
        if time.time() - known["at"] < _FRESH:
            return known
        try:
            tools = self._harmless(server, self._connections[server.name].tools())
        except HermesError as error:
            self.problems.append(str(error))
            return known
        return {"at": time.time(), "server": server.name, "tools": tools}

    def _harmless(self, server: ServerSettings, offered: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The tools whose descriptions may enter a prompt; whoever writes one speaks to the model."""
        from hermes.safety.threats import scan

        kept, too_long, room = [], [], _LONGEST_LIST
        for tool in offered:
            text = f"{tool['description']}\n{json.dumps(tool['parameters'], ensure_ascii=False)}"
            if len(text) > min(_LONGEST_TOOL, room):
                too_long.append(tool["name"][:_LONGEST_NAME])
                continue
            room -= len(text)
            verdict = scan(text, "context")
            if verdict.level == "refuse":
                what = ", ".join(verdict.classes)
                self.problems.append(f"{server.name}: the tool {tool['name']} is left out, its description has {what}")
            else:
                kept.append(tool)
        if too_long:
            self.problems.append(
                f"{server.name}: {len(too_long):,} of its tools are left out ({', '.join(too_long[:3])} …), because"
                f" every request would carry their descriptions: {_LONGEST_TOOL:,} characters for a tool and"
                f" {_LONGEST_LIST:,} for a server are the most"
            )
        return kept

    def _kept(self) -> dict[str, Any]:
        try:
            folder = Folder.open(self._home.join("cache"))
            if folder is None:
                return {}
            with folder:
                found = json.loads(folder.read(_CACHE, at_most=_LARGEST_CACHE) or b"{}")
            return {
                key: each for key, each in found.items() if isinstance(each, dict) and each.keys() >= {"at", "tools"}
            }
        except (StorageError, ValueError, AttributeError):
            return {}  # a copy only: the servers can be asked

    def _keep(self, lists: dict[str, Any]) -> None:
        try:
            with Folder.create(self._home.join("cache")) as folder:
                folder.replace(_CACHE, json.dumps(lists).encode())
        except StorageError:
            return  # a home that cannot be written to can still be used


class McpTool:
    brings = "tool"
    checks_itself = True  # its schema may use any JSON Schema; the server checks what it gets

    def __init__(
        self,
        name: str,
        offered: Mapping[str, Any],
        connection: Connection,
        limits: Limits,
        cancelled: Callable[[], bool],
    ) -> None:
        self.schema: dict[str, Any] = {
            "name": name,
            "description": offered["description"],
            "parameters": offered["parameters"],
        }
        self._there = offered["name"]
        self._connection = connection
        self._limits = limits
        self._cancelled = cancelled

    def call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        answer = self._connection.call(self._there, arguments, self._cancelled)
        text = self._limits.output("\n".join(_in_words(block) for block in answer.content))
        if answer.is_error:
            return failure(text or "the tool failed and did not say why")
        result: dict[str, Any] = {"success": True, "content": text}
        if answer.structured_content is not None and not text.strip():
            result["content"] = self._limits.output(json.dumps(answer.structured_content, ensure_ascii=False))
        return result


def tool_name(server: str, tool: str) -> str:
    """A name both wires accept; a long one keeps its beginning and is made unique."""
    name = "_".join(("mcp", _NOT_IN_NAMES.sub("_", server), _NOT_IN_NAMES.sub("_", tool)))
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[: _LONGEST_NAME - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _in_words(block: Any) -> str:
    """One block of a result as text; what is not text is named."""
    kind = getattr(block, "type", "")
    if kind == "text":
        return str(block.text)
    if kind == "resource" and getattr(block.resource, "text", None) is not None:
        return str(block.resource.text)
    if kind == "resource_link":
        return f"[{block.name}]({block.uri})"
    return f"[{kind or 'something'} that is not text]"
