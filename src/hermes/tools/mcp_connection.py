"""One connection to an MCP server, usable from synchronous code: the SDK runs in an event loop of its own thread."""

from __future__ import annotations

import time
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hermes.storage.error_output import ErrorOutput
from hermes.vocabulary.errors import ExtraMissing, Interrupted, WriteRefused
from hermes.vocabulary.extras import command

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager, AsyncExitStack

    from anyio.from_thread import BlockingPortal

    from hermes.tools.mcp_settings import ServerSettings

_LOOK_EVERY = 0.1  # seconds between two looks at whether to stop
_LONGEST_CLOSE = 5.0
_MOST_PAGES = 50
_CLOSED = "Connection closed"  # what the SDK says when a server is no longer there
_LAST_WORDS = 300  # characters of what a server wrote before it failed


class Connection:
    """Started by the first call of `tools` or `call`; a failure is remembered and told again, not tried again."""

    def __init__(self, server: ServerSettings, portal: Callable[[], BlockingPortal]) -> None:
        self._server = server
        self._portal = portal
        self._client: Any = None
        self._failed = ""
        self._ended: Any = None
        self._holding: Future[None] | None = None
        self._errors: ErrorOutput | None = None

    def tools(self) -> list[dict[str, Any]]:
        """What the server offers: name, description and parameters of each tool."""
        client = self._connected(lambda: False)
        found: list[dict[str, Any]] = self._wait(
            self._list, client, seconds=self._server.connect_timeout, cancelled=lambda: False
        )
        return found

    def call(self, tool: str, arguments: dict[str, Any], cancelled: Callable[[], bool]) -> Any:
        client = self._connected(cancelled)
        return self._wait(client.call_tool, tool, arguments, seconds=self._server.timeout, cancelled=cancelled)

    def close(self) -> None:
        if self._holding is None:
            return
        with suppress(Exception):  # whatever a server does at its end, ours must come
            self._portal().call(self._ended.set)
            self._holding.result(_LONGEST_CLOSE)
        self._holding.cancel()
        self._client = self._holding = None
        self._forget_words()

    def _connected(self, cancelled: Callable[[], bool]) -> Any:
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
                if not isinstance(error, Interrupted):  # a person who had no time to wait may have some later
                    self._failed = told
                raise WriteRefused(told, kind="mcp") from error
        return self._client

    async def _hold(self, ready: Future[Any]) -> None:
        """Keeps the client open in one task until `close`; the SDK wants to be left where it was entered."""
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
        from mcp.client.stdio import StdioServerParameters, stdio_client
        from mcp.client.streamable_http import streamable_http_client
        from mcp.shared._httpx_utils import create_mcp_http_client

        server = self._server
        if server.url:
            http = await stack.enter_async_context(create_mcp_http_client(headers=dict(server.headers)))
            return streamable_http_client(server.url, http_client=http)
        self._forget_words()  # of a server that ended and is started again
        self._errors = ErrorOutput()
        started = StdioServerParameters(
            command=server.command, args=list(server.args), env=dict(server.env) or None, cwd=server.cwd
        )
        return stdio_client(started, errlog=self._errors.file)

    def _last_words(self) -> str:
        written = " ".join(self._errors.last_words()[-_LAST_WORDS:].split()) if self._errors is not None else ""
        return f" (it wrote: {written})" if written else ""

    def _forget_words(self) -> None:
        if self._errors is not None:
            self._errors.close()

    @staticmethod
    async def _list(client: Any) -> list[dict[str, Any]]:
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
            running.cancel()  # does nothing to what is done


def start_portal() -> AbstractContextManager[BlockingPortal]:
    try:
        import mcp  # noqa: F401 - the question is whether it is there
        from anyio.from_thread import start_blocking_portal
    except ImportError as error:
        raise ExtraMissing(f"mcp_servers needs the extra `server`: {command('server')}") from error
    return start_blocking_portal()


def _watched(wanted: Future[Any], holding: Future[None] | None, seconds: float, cancelled: Callable[[], bool]) -> Any:
    """The result, unless the connection ends first, time is over or somebody stops."""
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
    """The innermost message; task groups wrap what happened in them."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return str(error) or type(error).__name__
