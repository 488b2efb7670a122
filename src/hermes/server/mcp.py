"""The MCP server: tools, resources and prompts over one person's memory, by standard input or over HTTP.

The official SDK does the protocol. Who is asking is not part of it: over standard input there is one person, over HTTP
the credential has decided before a message gets here.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from hermes.server import mcp_tools
from hermes.vocabulary.errors import HermesError
from hermes.vocabulary.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from hermes.server.workspace import Workspace

    Context = ServerRequestContext[Any, Any]
    Find = Callable[[Context], Workspace]

Result = TypeVar("Result")
NAME = "hermes"
_TEXTS = os.path.join(os.path.dirname(__file__), "text")
_PROMPTS = os.path.join(os.path.dirname(os.path.dirname(__file__)), "prompt", "text")
_GUIDANCE = {
    "memory": ("memory.md", "What is worth remembering, and how to write it down."),
    "past_conversations": ("session_search.md", "When to look into earlier conversations."),
    "skills": ("skills.md", "When and how to write down a procedure."),
}
_FILES = {"memory": "MEMORY.md", "user": "USER.md", "project": "PROJECT.md"}
_ABOUT = {
    "memory": "Notes about environment, conventions and lessons.",
    "user": "Who the person is and how they like to work.",
    "project": "Notes of the current project.",
}
_READ_ONLY = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
_WRITING = types.ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)


def build_server(find: Find, *, recorded: bool = False) -> Server[Any]:
    """A server that finds the workspace of each request; `recorded` when a hook stores the host's conversations."""
    answers = _Answers(find, recorded=recorded)
    server: Server[Any] = Server(
        NAME,
        version=__version__,
        title="Hermes memory",
        on_list_tools=answers.list_tools,
        on_call_tool=answers.call_tool,
        on_list_resources=answers.list_resources,
        on_read_resource=answers.read_resource,
        on_list_prompts=answers.list_prompts,
        on_get_prompt=answers.get_prompt,
    )
    server.middleware.append(answers.greet)
    return server


class _Answers:
    """What each request of the protocol gets; the work itself is done in a thread, because it touches files."""

    def __init__(self, find: Find, *, recorded: bool) -> None:
        self._find = find
        self._recorded = recorded
        self._run = os.urandom(8).hex()  # of standard input one connection, over HTTP as long as the server runs

    async def list_tools(self, context: Context, _params: Any) -> types.ListToolsResult:
        tools = await _work(partial(mcp_tools.tool_definitions, self._find(context)))
        return types.ListToolsResult(tools=[_tool(each) for each in tools])

    async def call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        workspace, arguments = self._find(context), params.arguments or {}
        text = await _work(partial(mcp_tools.call, workspace, params.name, arguments, _host(context), self._run))
        failed = text.startswith('{"success": false')
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=failed)

    async def list_resources(self, context: Context, _params: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[_resource(target) for target in self._find(context).targets])

    async def read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        workspace = self._find(context)
        target = next((each for each in workspace.targets if _uri(each) == str(params.uri)), None)
        if target is None:
            raise MCPError(types.INVALID_PARAMS, "there is no such resource")
        text = await _work(partial(_resource_text, workspace, target))
        content = types.TextResourceContents(uri=_uri(target), mime_type="text/markdown", text=text)
        return types.ReadResourceResult(contents=[content])

    async def list_prompts(self, _context: Context, _params: Any) -> types.ListPromptsResult:
        prompts = [types.Prompt(name=name, description=about) for name, (_, about) in _GUIDANCE.items()]
        return types.ListPromptsResult(prompts=prompts)

    async def get_prompt(self, _context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        if params.name not in _GUIDANCE:
            raise MCPError(types.INVALID_PARAMS, "there is no such prompt")
        file, about = _GUIDANCE[params.name]
        content = types.TextContent(type="text", text=mcp_tools.in_words_of_a_host(_prose(_PROMPTS, file)))
        return types.GetPromptResult(description=about, messages=[types.PromptMessage(role="user", content=content)])

    async def greet(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Tells a host at the beginning what is known about the person it works for."""
        result = await call_next(ctx)
        if ctx.method in ("initialize", "server/discover") and isinstance(result, dict):
            result["instructions"] = await _work(partial(instructions, self._find(ctx), recorded=self._recorded))
        return result


async def _work(call: Callable[[], Result]) -> Result:
    return await anyio.to_thread.run_sync(call)


def instructions(workspace: Workspace, *, recorded: bool = False) -> str:
    """The guidance, and the memory as it is now."""
    parts = [_prose(_TEXTS, "mcp.md") + ("" if recorded else "\n" + _prose(_TEXTS, "mcp_record.md"))]
    parts += [_resource_text(workspace, target) for target in workspace.targets]
    return "\n\n".join(part for part in parts if part)


async def serve_stdio(server: Server[Any]) -> None:
    """Speaks to the host that started this process until it closes the pipe."""
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def _tool(definition: dict[str, Any]) -> types.Tool:
    name = definition["name"]
    return types.Tool(
        name=name,
        description=definition["description"],
        input_schema=definition["inputSchema"],
        annotations=_READ_ONLY if name in ("session_search", "status") else _WRITING,
    )


def _resource(target: str) -> types.Resource:
    return types.Resource(uri=_uri(target), name=_FILES[target], description=_ABOUT[target], mime_type="text/markdown")


def _resource_text(workspace: Workspace, target: str) -> str:
    try:
        return workspace.memory_text(target)
    except HermesError as error:
        return f"{_FILES[target]} cannot be read: {error}"


def _uri(target: str) -> str:
    return f"hermes://memory/{_FILES[target]}"


def _host(context: Context) -> str:
    """What the program at the other end calls itself; nothing depends on it."""
    client = context.session.client_params
    return client.client_info.name[:60] if client is not None else "a host"


def _prose(folder: str, name: str) -> str:
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return file.read().strip()
