"""The MCP server: tools, resources and prompts over one person's memory, by standard input or over HTTP.

The official SDK implements the protocol. The person is not part of it: over standard input there is one person, over
HTTP the key has decided before a message arrives here.
"""

from __future__ import annotations

import copy
import json
import os
import re
import tomllib
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError

from hermes.base.errors import HermesError, NotFound, WriteRefused
from hermes.base.version import __version__
from hermes.memory.store import ACTIONS
from hermes.session.approvals import PendingWrites, described
from hermes.skills.tool import ACTIONS as SKILL_ACTIONS
from hermes.tools.registry import failure, to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from hermes.server.workspace import Workspace
    from hermes.session.approvals import PendingWrite

    Context = ServerRequestContext[Any, Any]
    Find = Callable[[Context], Workspace]

_TEXTS = os.path.join(os.path.dirname(__file__), "text")
with open(os.path.join(_TEXTS, "mcp.toml"), "rb") as _file:
    _TABLE = tomllib.load(_file)
_TOOLS: dict[str, dict[str, Any]] = _TABLE["tools"]
_TOOLS["skills"]["input"]["action"]["enum"] += SKILL_ACTIONS


def tool_definitions(workspace: Workspace) -> list[dict[str, Any]]:
    """Name, description and input schema of each tool, in a fixed order."""
    return [
        {"name": name, "description": tool["description"], "inputSchema": _input(workspace, name, tool)}
        for name, tool in _TOOLS.items()
    ]


def _input(workspace: Workspace, name: str, tool: dict[str, Any]) -> dict[str, Any]:
    """The input schema of a tool; for tools that our own agent also has, its schema, as far as hosts need it."""
    if name == "memory":  # with `list`, for hosts that do not show the entries themselves
        schema: dict[str, Any] = copy.deepcopy(workspace.schema(name)["parameters"])
        for field, ours in tool["input"].items():
            schema["properties"][field] = ours if "type" in ours else {**schema["properties"][field], **ours}
        return schema
    if name == "session_search":
        known = workspace.schema(name)["parameters"]["properties"]
        return {"type": "object", "properties": {each: known[each] for each in tool["fields"].split()}, "required": []}
    return _schema(tool.get("input", {}), tool.get("required"))


def _schema(properties: dict[str, Any], required: list[str] | None) -> dict[str, Any]:
    return {"type": "object", "properties": properties} | ({} if required is None else {"required": required})


def call(workspace: Workspace, name: str, arguments: Mapping[str, Any], host: str, run: str = "") -> str:
    """Calls a tool and returns its JSON result; a wrong call gets a result that says what is wrong.

    `run` identifies this run of the server.
    """
    tools: dict[str, Callable[[], str]] = {
        "memory": lambda: _memory(workspace, arguments, host),
        "session_search": lambda: workspace.call_tool("session_search", arguments),
        "skills": lambda: _skills(workspace, arguments),
        "record_conversation": lambda: _record(workspace, arguments, f"{host} {run}"),
        "status": lambda: to_json({"success": True, **workspace.status()}),
        "search": lambda: _search(workspace, arguments),
        "fetch": lambda: _fetch(workspace, arguments),
    }
    if name not in tools:
        return to_json(failure(f"there is no tool {name[:100]!r}; the tools are {', '.join(tools)}"))
    try:
        return tools[name]()
    except WriteRefused as refusal:
        return to_json(failure(str(refusal), refusal.details))
    except HermesError as error:
        return to_json(failure(str(error)))


def _memory(workspace: Workspace, arguments: Mapping[str, Any], host: str) -> str:
    action = arguments.get("action")
    if action is not None and action not in ("list", *ACTIONS):
        raise WriteRefused(f"action must be one of list, {', '.join(ACTIONS)}, not {action!r}", kind="bad_argument")
    if action != "list":
        return workspace.call_tool("memory", arguments, note=f"over MCP, by {host}")
    target = arguments.get("target")
    targets = [target] if target in workspace.targets else workspace.targets
    return to_json({"success": True, **{each: workspace.entries_for_model(each) for each in targets}})


def _skills(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    action = arguments.get("action")
    rest = {name: value for name, value in arguments.items() if name != "action"}
    if action == "list":
        text = workspace.call_tool("skills_list", {k: v for k, v in rest.items() if k == "category"})
    elif action == "view":
        text = workspace.call_tool("skill_view", {k: v for k, v in rest.items() if k in ("name", "file_path")})
    else:
        text = workspace.call_tool("skill_manage", arguments)
    result = {
        name: value for name, value in json.loads(text).items() if name != "_change"
    }  # for programs, not for a model
    said = {name: in_words_of_a_host(result[name]) for name in ("hint", "usage_hint") if result.get(name)}
    return to_json(result | said)


def in_words_of_a_host(text: str) -> str:
    """Rewrites hints for our own agent's skill tools for hosts, which have the single tool `skills`."""
    return text.replace("skill_view(", "skills(action='view', ").replace("skill_manage", "skills")


def _record(workspace: Workspace, arguments: Mapping[str, Any], host_and_run: str) -> str:
    from hermes.tools.registry import fitted, problems, without_nulls

    ignored: list[str] = []
    shape = _schema(_TOOLS["record_conversation"]["input"], ["messages"])
    given = without_nulls(fitted(shape, dict(arguments), ignored))
    if wrong := problems(shape, given):
        return to_json(failure("; ".join(wrong)))
    messages, title = given["messages"], given.get("title", "")
    if name := given.get("conversation"):
        result = {**workspace.record(name, messages, title=title, by_model=True), "conversation": name}
    else:
        result = workspace.record_unnamed(host_and_run, messages, title=title)
    return to_json({**result, "ignored_arguments": ignored[:20]} if ignored else result)


def _search(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    """Search results in the form that ChatGPT requires; an ordinary search, so the trust gate learns of them."""
    wanted = {"query": _required(arguments, "query"), "limit": _MOST_RESULTS}
    found = json.loads(workspace.call_tool("session_search", wanted))
    if not found["success"]:
        return to_json(found)
    rows = [(row["session_id"], row["title"] or _MARKS.sub("", row["snippet"])) for row in found["results"]]
    return to_json({"results": [{"id": name, "title": title, "url": _CONVERSATIONS + name} for name, title in rows]})


def _fetch(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    name = _required(arguments, "id")
    read = json.loads(workspace.call_tool("session_search", {"session_id": name}))
    if not read["success"]:
        return to_json(read)
    about = {key: str(told) for key, told in read["session_meta"].items() if told}
    text = "\n\n".join(f"{message['role']}: {message['content']}" for message in read["messages"])
    title = about.pop("title", "") or text[:_LONGEST_TITLE].partition("\n")[0] or name
    return to_json({"id": name, "title": title, "text": text, "url": _CONVERSATIONS + name, "metadata": about})


def _required(arguments: Mapping[str, Any], name: str) -> str:
    given = arguments.get(name)
    if not isinstance(given, str) or not given.strip():
        raise WriteRefused(f"{name} must be a text that is not empty", kind="bad_argument")
    return given.strip()


def schema_json(workspace: Workspace) -> str:
    """The tool definitions as text, which a host sends with every request: what the tools cost."""
    return json.dumps(tool_definitions(workspace), ensure_ascii=False)


Result = TypeVar("Result")
_ANSWER_SECONDS = 600  # that a host's user has to answer; afterwards the write stays pending
NAME = "hermes"
_PROMPTS = os.path.join(os.path.dirname(os.path.dirname(__file__)), "prompt", "text")
_RECEIPTS = "hermes://receipts/"
_CARD = "ui://hermes/memory"  # MCP Apps: the page that a host shows next to a call of `memory`
_RECEIPT_CARDS = "ui://hermes/receipts/"
_CARD_TYPE = "text/html;profile=mcp-app"
_CONVERSATIONS = "hermes://conversations/"
_MOST_RESULTS = 10
_LONGEST_TITLE = 80
_MARKS = re.compile(">>>|<<<")  # around the words that were found
_MODERN = "2026-07-28"  # from this version on, a server asks through its result instead of a request
_KEEP = "keep"  # the name of the one question that is asked
_MINUTE = 60_000  # milliseconds
# How long a host may cache an answer. Memory itself (resources/read) must not be cached.
_FRESH = {
    "server/discover": CacheHint(_MINUTE),  # its instructions hold memory
    "tools/list": CacheHint(60 * _MINUTE),
    "resources/list": CacheHint(60 * _MINUTE),
    "resources/templates/list": CacheHint(60 * _MINUTE, "public"),
    "prompts/list": CacheHint(60 * _MINUTE, "public"),
}


def build_server(find: Find, *, recorded: bool = False, asks: bool = False) -> Server[Any]:
    """A server that finds the workspace of each request; `recorded` when a hook stores the host's conversations.

    With `asks`, the host may ask its user about pending writes. That is for programs that this person has started; a
    key of the HTTP API may lack the right to approve.
    """
    answers = _Answers(find, recorded=recorded, asks=asks)
    server: Server[Any] = Server(
        NAME,
        version=__version__,
        title="Hermes memory",
        on_list_tools=answers.list_tools,
        on_call_tool=answers.call_tool,
        on_list_resources=answers.list_resources,
        on_read_resource=answers.read_resource,
        on_list_resource_templates=answers.list_templates,
        on_list_prompts=answers.list_prompts,
        on_get_prompt=answers.get_prompt,
        cache_hints=_FRESH,  # type: ignore[arg-type]  # the names are those of methods
    )
    server.middleware.append(answers.greet)
    # The state that a host returns with an answer is sealed: valid for this person, this call and a few minutes.
    sealed = RequestStateSecurity(
        keys=[os.urandom(32)], ttl=_ANSWER_SECONDS, bind_principal=lambda context: find(context).home.path
    )
    server.middleware.append(RequestStateBoundary(sealed, default_audience=NAME))
    return server


class _Answers:
    """Answers the requests of the protocol; the work runs in a thread, because it reads and writes files."""

    def __init__(self, find: Find, *, recorded: bool, asks: bool) -> None:
        self._find = find
        self._asks = asks
        self._recorded = recorded
        self._run = os.urandom(8).hex()  # one connection over standard input, or one run of the HTTP server

    async def list_tools(self, context: Context, _params: Any) -> types.ListToolsResult:
        """Lists the tools with their schemas."""
        tools = await _work(partial(tool_definitions, self._find(context)))
        return types.ListToolsResult(tools=[_tool(each) for each in tools])

    async def call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Calls a tool, and where the host can, asks its user about a write that must wait."""
        workspace, arguments = self._find(context), params.arguments or {}
        if self._asks and params.request_state:
            return _told(await _work(partial(_carried_back, workspace, params)))
        text = await _work(partial(call, workspace, params.name, arguments, _host(context), self._run))
        told = await _asked(context, workspace, text) if self._asks and '"staged"' in text else text
        return _told(told) if isinstance(told, str) else told

    async def list_resources(self, context: Context, _params: Any) -> types.ListResourcesResult:
        """Lists the memory files that are switched on."""
        return types.ListResourcesResult(resources=[_resource(target) for target in self._find(context).targets])

    async def read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Reads a memory file, a conversation, a receipt or a card."""
        return await _work(partial(_read, self._find(context), str(params.uri)))

    async def list_templates(self, _context: Context, _params: Any) -> types.ListResourceTemplatesResult:
        """Lists the forms of the addresses of conversations and receipts."""
        templates = [
            types.ResourceTemplate(
                uri_template=each["uri"], name=each["name"], description=each["about"], mime_type=each["type"]
            )
            for each in _TABLE["templates"]
        ]
        return types.ListResourceTemplatesResult(resource_templates=templates)

    async def list_prompts(self, _context: Context, _params: Any) -> types.ListPromptsResult:
        """Lists the prompts that a host's user can choose."""
        prompts = [types.Prompt(name=name, description=each["about"]) for name, each in _TABLE["prompts"].items()]
        return types.ListPromptsResult(prompts=prompts)

    async def get_prompt(self, _context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        """Returns the text of a prompt."""
        found = _TABLE["prompts"].get(params.name)
        if found is None:
            raise MCPError(types.INVALID_PARAMS, "there is no such prompt")
        content = types.TextContent(type="text", text=in_words_of_a_host(_prose(_PROMPTS, found["file"])))
        return types.GetPromptResult(
            description=found["about"], messages=[types.PromptMessage(role="user", content=content)]
        )

    async def greet(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Adds instructions with the current memory to the first answer of a connection."""
        result = await call_next(ctx)
        if ctx.method in ("initialize", "server/discover") and isinstance(result, dict):
            result["instructions"] = await _work(partial(instructions, self._find(ctx), recorded=self._recorded))
        return result


def _read(workspace: Workspace, uri: str) -> types.ReadResourceResult:
    """Reads a card, a receipt, a conversation, or a memory file as a prompt would show it."""
    if uri == _CARD:
        return _card(_CARD)
    if uri.startswith((_RECEIPTS, _RECEIPT_CARDS)):
        try:
            receipt = to_json(workspace.receipts.get(uri.rpartition("/")[2]).as_dict())
        except NotFound as error:
            raise MCPError(types.INVALID_PARAMS, "there is no such receipt") from error
        return _card(uri, receipt) if uri.startswith(_RECEIPT_CARDS) else _contents(uri, "application/json", receipt)
    if uri.startswith(_CONVERSATIONS):
        read = json.loads(_fetch(workspace, {"id": uri.removeprefix(_CONVERSATIONS)}))
        if "text" not in read:
            raise MCPError(types.INVALID_PARAMS, "there is no such conversation")
        return _contents(uri, "text/plain", read["text"])
    target = next((each for each in workspace.targets if _uri(each) == uri), None)
    if target is None:
        raise MCPError(types.INVALID_PARAMS, "there is no such resource")
    return _contents(uri, "text/markdown", _resource_text(workspace, target))


def _contents(uri: str, kind: str, text: str, **more: Any) -> types.ReadResourceResult:
    content = types.TextResourceContents(uri=uri, mime_type=kind, text=text, **more)
    return types.ReadResourceResult(contents=[content])


def _card(uri: str, data: str = "null") -> types.ReadResourceResult:
    """The card with its data; without data, it waits for the result of a call. It loads nothing from elsewhere."""
    held = data.replace("<", "\\u003c")  # so that no text can close the <script> element
    page = _prose(_TEXTS, "card.html").replace('id="data">null<', f'id="data">{held}<')
    return _contents(uri, _CARD_TYPE, page, _meta={"ui": {"csp": {}, "prefersBorder": True}})


def _told(text: str) -> types.CallToolResult:
    """A result for the model as text and for programs as an object."""
    failed = text.startswith('{"success": false')
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)],
        structured_content=None if failed else json.loads(text),
        is_error=failed,
    )


async def _asked(context: Context, workspace: Workspace, text: str) -> str | types.InputRequiredResult:
    """Has a host that can ask its user about a pending write; otherwise the write stays staged."""
    result, session = json.loads(text), context.session
    can_ask = types.ClientCapabilities(elicitation=types.ElicitationCapability())
    if not result.get("staged") or not session.check_client_capability(can_ask):
        return text
    pending = PendingWrites(workspace.home, platform=workspace.source)
    waiting = await _work(partial(pending.get, result["pending_id"]))
    editable = {"type": "string", "title": "Text", "description": "What is kept. Change it if you like."}
    shown = {"text": {**editable, "default": waiting.texts[0]}} if len(waiting.texts) == 1 else {}
    form = {"type": "object", "properties": shown, "required": []}
    question = f"Keep this?\n\n{described(waiting)}"
    if context.protocol_version >= _MODERN:
        asked = types.ElicitRequest(params=types.ElicitRequestFormParams(message=question, requested_schema=form))
        return types.InputRequiredResult(input_requests={_KEEP: asked}, request_state=text)
    if not session.can_send_request:
        return text
    try:
        with anyio.fail_after(_ANSWER_SECONDS):
            answer = await session.elicit_form(question, form, context.request_id)
    except (MCPError, TimeoutError):
        return text
    return await _work(partial(_decided, pending, waiting, answer, text))


def _carried_back(workspace: Workspace, params: types.CallToolRequestParams) -> str:
    """The result of a call after the host asked its user; the state holds the result without an answer."""
    staged = params.request_state or ""
    answer = (params.input_responses or {}).get(_KEEP)
    pending = PendingWrites(workspace.home, platform=workspace.source)
    try:
        waiting = pending.get(json.loads(staged)["pending_id"])
    except HermesError as error:
        return to_json(failure(str(error)))
    return _decided(pending, waiting, answer, staged) if isinstance(answer, types.ElicitResult) else staged


def _decided(pending: PendingWrites, waiting: PendingWrite, answer: types.ElicitResult, staged: str) -> str:
    """The tool result once the person has answered. If they gave no answer, it says that the write is staged."""
    try:
        if answer.action == "decline":
            pending.reject(waiting.id)
            return to_json(failure("the user was asked and said no; leave it at that"))
        if answer.action != "accept":
            return staged
        text = (answer.content or {}).get("text")
        if isinstance(text, str) and text.strip() and waiting.texts[:1] != (text,) and len(waiting.texts) == 1:
            pending.edit(waiting.id, [text])
        return to_json({"success": True, "message": f"The user agreed. {pending.approve(waiting.id).message}"})
    except HermesError as error:
        return to_json(failure(f"the user agreed, but it still waits: {error}"))


async def _work(call: Callable[[], Result]) -> Result:
    return await anyio.to_thread.run_sync(call)


def instructions(workspace: Workspace, *, recorded: bool = False) -> str:
    """The instructions for a host: guidance, and the current memory."""
    parts = [_prose(_TEXTS, "mcp.md") + ("" if recorded else "\n" + _prose(_TEXTS, "mcp_record.md"))]
    parts += [_resource_text(workspace, target) for target in workspace.targets]
    return "\n\n".join(part for part in parts if part)


async def serve_stdio(server: Server[Any]) -> None:
    """Speaks to the host that started this process until it closes the pipe."""
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def _tool(definition: dict[str, Any]) -> types.Tool:
    """A tool with what only people and programs see: its title, annotations and the schema of its result."""
    tool = _TOOLS[definition["name"]]
    return types.Tool(
        name=definition["name"],
        title=tool["title"],
        description=definition["description"],
        input_schema=definition["inputSchema"],
        output_schema=_result(tool),
        annotations=types.ToolAnnotations(**_TABLE["kinds"][tool["kind"]]),
        _meta={"ui": {"resourceUri": _CARD}} if definition["name"] == "memory" else None,
    )


def _result(tool: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for name, _, kind in (field.partition(":") for field in tool["result"].split()):
        properties[name] = {"type": kind or "string"}
    for name, fields in tool.get("items", {}).items():
        properties[name]["items"] = _result({"result": fields, "always": fields})
    return _schema(properties, tool["always"].split())


def _resource(target: str) -> types.Resource:
    found = _TABLE["resources"][target]
    return types.Resource(uri=_uri(target), name=found["file"], description=found["about"], mime_type="text/markdown")


def _resource_text(workspace: Workspace, target: str) -> str:
    try:
        return workspace.memory_text(target)
    except HermesError as error:
        return f"{_TABLE['resources'][target]['file']} cannot be read: {error}"


def _uri(target: str) -> str:
    return f"hermes://memory/{_TABLE['resources'][target]['file']}"


def _host(context: Context) -> str:
    """The client's name for itself, which is only shown."""
    client = context.session.client_params
    return client.client_info.name[:60] if client is not None else "a host"


def _prose(folder: str, name: str) -> str:
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return file.read().strip()
