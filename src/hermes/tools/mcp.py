"""Offers the tools of MCP servers as our own, named `mcp_<server>_<tool>`.

The list of a server's tools is kept in the home's cache, so that a session starts without waiting for its servers: the
first call of a tool starts its server. If the server offers other tools by then, this session's list does not change.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from hermes.base.errors import (
    ExtraMissing,
    HermesError,
    Interrupted,
    SettingsError,
    StorageError,
    WriteRefused,
    command,
)
from hermes.base.values import value
from hermes.settings.schema import nearest
from hermes.storage.files import ErrorOutput, Folder, read_private
from hermes.tools.paths import Limits
from hermes.tools.registry import failure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager, AsyncExitStack

    from anyio.from_thread import BlockingPortal

    from hermes.settings.config import Settings
    from hermes.settings.home import Home
    from hermes.tools.registry import Tool

# The keys of a server in `mcp_servers`, and what they take.
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
    """The checked settings of one server: `command` starts it, or it runs at `url`."""

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
    fingerprint: str = ""  # changes with the settings, so that a cached list of tools is not used for others

    def wants(self, tool: str) -> bool:
        """Whether the settings of this server include a tool of this name."""
        return (self.include is None or tool in self.include) and tool not in self.exclude


def servers_in(given: Any, secret: Callable[[str], str | None]) -> list[ServerSettings]:
    """Reads the enabled servers; replaces `${NAME}` in their texts by the secret of that name."""
    return [_server(str(name), block, secret) for name, block in (given or {}).items() if _checked(str(name), block)]


def _checked(name: str, block: Any) -> bool:
    """Checks the settings of one server, and returns whether it is enabled; an error names the wrong key."""
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
        # Of the settings as written, not as filled in: the cache must not hold a secret, not even a hash of one.
        fingerprint=hashlib.sha256(json.dumps(block, sort_keys=True).encode()).hexdigest()[:32],
    )


# One connection to an MCP server for synchronous code: the SDK is asynchronous and runs in a thread of its own.

_LOOK_EVERY = 0.1  # seconds between two looks at whether to stop
_LONGEST_CLOSE = 5.0  # seconds a server gets to end
_MOST_PAGES = 50  # of a list of tools: a server could send pages forever
_CLOSED = "Connection closed"  # the message of the SDK's error when the server has ended
_LAST_WORDS = 300  # characters of what a server wrote before it failed


class Connection:
    """The connection to one server; the first call of `tools` or `call` starts it.

    A server that failed to start is not started again: every later call gets the same error at once.
    """

    def __init__(self, server: ServerSettings, portal: Callable[[], BlockingPortal]) -> None:
        self._server = server
        self._portal = portal
        self._client: Any = None
        self._failed = ""
        self._ended: Any = None
        self._holding: Future[None] | None = None
        self._errors: ErrorOutput | None = None

    def tools(self) -> list[dict[str, Any]]:
        """Asks the server for its tools: name, description and parameters of each."""
        client = self._connected(lambda: False)
        found: list[dict[str, Any]] = self._wait(
            self._list, client, seconds=self._server.connect_timeout, cancelled=lambda: False
        )
        return found

    def call(self, tool: str, arguments: dict[str, Any], cancelled: Callable[[], bool]) -> Any:
        """Calls a tool of the server; a server that hangs, fails or is stopped becomes a `WriteRefused`."""
        client = self._connected(cancelled)
        return self._wait(client.call_tool, tool, arguments, seconds=self._server.timeout, cancelled=cancelled)

    def close(self) -> None:
        """Ends the connection and the server it started; the next call would start it again."""
        if self._holding is None:
            return
        with suppress(Exception):  # a server that fails while it ends must not keep us from ending
            self._portal().call(self._ended.set)
            self._holding.result(_LONGEST_CLOSE)
        self._holding.cancel()
        self._client = self._holding = None
        self._forget_words()

    def _connected(self, cancelled: Callable[[], bool]) -> Any:
        """The client of the server, which is started now if it does not run."""
        if self._failed:
            raise WriteRefused(self._failed, kind="mcp")
        if self._client is None or (self._holding is not None and self._holding.done()):
            ready: Future[Any] = Future()
            self._holding = self._portal().start_task_soon(self._hold, ready)
            try:
                self._client = _watched(ready, self._holding, self._server.connect_timeout, cancelled)
            except Exception as error:  # the SDK and the server are other people's code
                self._holding.cancel()
                told = f"the MCP server {self._server.name} did not start: {_reason(error)}{self._last_words()}"
                if not isinstance(error, Interrupted):  # a person who did not want to wait may try again
                    self._failed = told
                raise WriteRefused(told, kind="mcp") from error
        return self._client

    async def _hold(self, ready: Future[Any]) -> None:
        """Keeps the client open in one task until `close`: the SDK must be exited in the task that entered it."""
        from contextlib import AsyncExitStack

        import anyio
        from mcp import Client

        self._ended = anyio.Event()
        async with AsyncExitStack() as stack:
            transport = await self._transport(stack)
            client = Client(transport, read_timeout_seconds=self._server.timeout)
            ready.set_result(await stack.enter_async_context(client))
            await self._ended.wait()

    async def _transport(self, stack: AsyncExitStack) -> Any:
        """Opens the channel to the server: HTTP if it has a url, else the pipes of the program it starts."""
        from mcp.client.stdio import StdioServerParameters, stdio_client
        from mcp.client.streamable_http import streamable_http_client
        from mcp.shared._httpx_utils import create_mcp_http_client

        server = self._server
        if server.url:
            http = await stack.enter_async_context(create_mcp_http_client(headers=dict(server.headers)))
            return streamable_http_client(server.url, http_client=http)
        self._forget_words()  # those of an earlier start of the same server
        self._errors = ErrorOutput()
        started = StdioServerParameters(
            command=server.command, args=list(server.args), env=dict(server.env) or None, cwd=server.cwd
        )
        return stdio_client(started, errlog=self._errors.file)

    def _last_words(self) -> str:
        """What the server wrote to standard error before it failed: often the only reason there is."""
        written = " ".join(self._errors.last_words()[-_LAST_WORDS:].split()) if self._errors is not None else ""
        return f" (it wrote: {written})" if written else ""

    def _forget_words(self) -> None:
        if self._errors is not None:
            self._errors.close()

    @staticmethod
    async def _list(client: Any) -> list[dict[str, Any]]:
        """Collects the list of tools from all its pages."""
        found: list[dict[str, Any]] = []
        cursor = None
        for _ in range(_MOST_PAGES):
            page = await client.list_tools(cursor=cursor)
            found += [
                {"name": tool.name, "description": tool.description or "", "parameters": tool.input_schema}
                for tool in page.tools
            ]
            cursor = page.next_cursor
            if not cursor:
                break
        return found

    def _wait(self, action: Callable[..., Any], *given: Any, seconds: float, cancelled: Callable[[], bool]) -> Any:
        """Runs a call in the thread of the SDK and waits for its result."""
        running = self._portal().start_task_soon(action, *given)
        try:
            return _watched(running, self._holding, seconds, cancelled)
        except Exception as error:  # the SDK and the server are other people's code
            told = f"the MCP server {self._server.name}: {_reason(error)}"
            if _reason(error) == _CLOSED:
                told += f"{self._last_words()}; the next call starts it again"
                self.close()
            raise WriteRefused(told, kind="mcp") from error
        finally:
            running.cancel()  # has no effect on a call that is done


def start_portal() -> AbstractContextManager[BlockingPortal]:
    """Starts the thread with the event loop of the MCP SDK; entering the result gives access to it."""
    try:
        import mcp  # noqa: F401 - only to see whether it is installed
        from anyio.from_thread import start_blocking_portal
    except ImportError as error:
        raise ExtraMissing(f"mcp_servers needs the extra `server`: {command('server')}") from error
    return start_blocking_portal()


def _watched(wanted: Future[Any], holding: Future[None] | None, seconds: float, cancelled: Callable[[], bool]) -> Any:
    """Waits for a result; raises when the connection ends, the time is over or the person stops the call."""
    end = time.monotonic() + seconds
    while not wait([wanted], _LOOK_EVERY).done:
        if holding is not None and holding.done() and not wanted.done():
            raise holding.exception() or ConnectionError("the connection ended")
        if cancelled():
            raise Interrupted("the user stopped the call")
        if time.monotonic() > end:
            raise TimeoutError(f"no answer within {seconds:g} s")
    return wanted.result()


def _reason(error: BaseException) -> str:
    """The message of the innermost error: task groups wrap the one that matters."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return str(error) or type(error).__name__


_CACHE = "mcp_tools.json"
_LARGEST_CACHE = 5_000_000  # bytes
_FRESH = 24 * 3600  # seconds for which a cached list is used without asking the server
_LONGEST_NAME = 64  # the most that the APIs of OpenAI and Anthropic accept
# Every request carries all of it: without a limit, 50 tools of 200 kB made requests of 10 MB.
_LONGEST_TOOL = 20_000  # characters of one tool's description and parameters
_LONGEST_LIST = 200_000  # characters of all the tools of a server
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]+")


class McpServers:
    """The MCP servers of one agent; `problems` tells the person which servers and tools cannot be used, and why."""

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
        """Reads the servers from the settings, with secrets filled in; starts none of them."""
        from hermes.settings.config import secret

        found = servers_in(settings.get("mcp_servers"), lambda name: secret(home, name))
        return cls(found, home, Limits.of(settings), cancelled)

    def makers(self) -> dict[str, Callable[[], Tool]]:
        """A maker for each offered tool that the settings include; asks servers without a fresh list in parallel."""
        kept = self._kept()
        with ThreadPoolExecutor(max_workers=max(len(self._servers), 1), thread_name_prefix="mcp") as pool:
            lists = list(pool.map(partial(self._offered, kept), self._servers))
        # An empty list, as after a failure, is not cached: the next session asks again.
        fresh = {server.fingerprint: each for server, each in zip(self._servers, lists, strict=True) if each["tools"]}
        if fresh != kept:
            self._keep(fresh)
        made: dict[str, Callable[[], Tool]] = {}
        for server, each in zip(self._servers, lists, strict=True):
            for offered in each["tools"]:
                if server.wants(offered["name"]):
                    name = tool_name(server.name, offered["name"])
                    if name in made:  # the first keeps it: no server may pose as another
                        self.problems.append(f"{server.name}: the tool {offered['name']} is left out, {name} is taken")
                    made.setdefault(name, partial(self._tool, name, offered, server))
        return made

    def close(self) -> None:
        """Closes all connections, then ends the thread of the event loop."""
        for connection in self._connections.values():
            connection.close()
        if self._running is not None:
            self._running.__exit__(None, None, None)
            self._running = self._entered = None

    def _portal(self) -> BlockingPortal:
        """The thread of the event loop, started by the first server that needs it and shared by all."""
        with self._starting:
            if self._entered is None:
                self._running = start_portal()
                self._entered = self._running.__enter__()
            return self._entered

    def _tool(self, name: str, offered: Mapping[str, Any], server: ServerSettings) -> Tool:
        return McpTool(name, offered, self._connections[server.name], self._limits, self._cancelled)

    def _offered(self, kept: Mapping[str, Any], server: ServerSettings) -> dict[str, Any]:
        """The server's tools, from the cache or the server itself; if it fails, the old list and a problem."""
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
        """The tools whose descriptions may enter a prompt: a description is text from outside that the model reads."""
        from hermes.safety.scanner import scan

        kept, too_long, room = [], [], _LONGEST_LIST
        for tool in offered:
            text = f"{tool['description']}\n{json.dumps(tool['parameters'], ensure_ascii=False)}"
            if len(text) > min(_LONGEST_TOOL, room):
                too_long.append(tool["name"][:_LONGEST_NAME])
                continue
            room -= len(text)
            verdict = scan(text, "context")
            if verdict.level != "clean":
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
            found = json.loads(read_private(self._home.join("cache", _CACHE), at_most=_LARGEST_CACHE) or b"{}")
            return {name: each for name, each in found.items() if each.keys() >= {"at", "tools"}}
        except (StorageError, ValueError, AttributeError):
            return {}  # only a cache: the servers can be asked again

    def _keep(self, lists: dict[str, Any]) -> None:
        try:
            with Folder.create(self._home.join("cache")) as folder:
                folder.replace(_CACHE, json.dumps(lists).encode())
        except StorageError:
            return  # a home that cannot be written to can still be used


class McpTool:
    """A tool of an MCP server, offered as one of ours."""

    brings = "tool"
    sink = "mcp"
    is_foreign = True
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
        """Calls the tool on its server and returns its text, within the limits for tool results."""
        answer = self._connection.call(self._there, arguments, self._cancelled)
        text = self._limits.output("\n".join(_in_words(block) for block in answer.content))
        if answer.is_error:
            return failure(text or "the tool failed and did not say why")
        result: dict[str, Any] = {"success": True, "content": text}
        if answer.structured_content is not None and not text.strip():
            result["content"] = self._limits.output(json.dumps(answer.structured_content, ensure_ascii=False))
        return result


def tool_name(server: str, tool: str) -> str:
    """Makes a name that all model APIs accept; a long one is cut and ends in a digest that keeps it unique."""
    name = "_".join(("mcp", _NOT_IN_NAMES.sub("_", server), _NOT_IN_NAMES.sub("_", tool)))
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[: _LONGEST_NAME - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _in_words(block: Any) -> str:
    """Converts one block of a result to text; one that is not text, such as an image, is only named."""
    kind = getattr(block, "type", "")
    if kind == "text":
        return str(block.text)
    if kind == "resource" and getattr(block.resource, "text", None) is not None:
        return str(block.resource.text)
    if kind == "resource_link":
        return f"[{block.name}]({block.uri})"
    return f"[{kind or 'something'} that is not text]"
