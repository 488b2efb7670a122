"""The pages of the reference that are read from classes, schemas and the database."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import re
import tempfile
import textwrap
from typing import TYPE_CHECKING, Any, get_args

from checks.reference import table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hermes.tools.builtin import Outcome, Task


def tools_page() -> str:
    from hermes.tools.registry import TOOLSETS

    parts = [
        "# Tools\n",
        (
            "What a model may call, by set. `enabled_toolsets` and `disabled_toolsets` switch toolsets per platform; "
            "`hermes tool NAME JSON` calls one exactly as a model would; `hermes tool --list` prints the schemas.\n"
        ),
    ]
    schemas = {schema["name"]: schema for schema in model_tools()}
    for toolset, names in TOOLSETS.items():
        if names:
            parts.append(f"## {toolset}\n")
            parts += [_tool(schemas[name], "###") for name in names if name in schemas]
    parts.append("## Over MCP\n\nWhat `hermes mcp` offers to other agents.\n")
    parts += [_tool({**each, "parameters": each["inputSchema"]}, "###") for each in mcp_tools()]
    return "\n".join(parts)


def model_tools() -> list[dict[str, Any]]:
    """The schemas of every built-in tool, in the order of the request."""
    from hermes.session.parts import open_parts
    from hermes.tools.builtin import BuiltinTools

    with tempfile.TemporaryDirectory() as home:
        parts = open_parts(home)
        try:
            found = [each["function"] for each in parts.toolbox.schemas()]
            kit = BuiltinTools(
                settings=parts.settings,
                folder=home,
                home=home,
                ask=None,
                cancelled=lambda: False,
                history=lambda: (),
                delegate=_never,
            )
            found += [make().schema for make in kit.makers().values()]
        finally:
            parts.close()
    return found


def _never(task: Task) -> Outcome:
    raise AssertionError(task)  # only schemas are wanted


def mcp_tools() -> list[dict[str, Any]]:
    from hermes.server.mcp import tool_definitions
    from hermes.server.workspace import Workspace
    from hermes.settings.home import locate_home

    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace(locate_home(folder))
        try:
            return tool_definitions(workspace)
        finally:
            workspace.close()


def _tool(schema: dict[str, Any], level: str) -> str:
    parameters = schema.get("parameters") or {}
    required = parameters.get("required", ())
    rows = [
        (f"`{name}`", _type(field), "yes" if name in required else "", field.get("description", ""))
        for name, field in parameters.get("properties", {}).items()
    ]
    described = " ".join(_plain(schema["description"]).split())
    shown = table(("argument", "type", "needed", "meaning"), rows) if rows else "It takes no arguments.\n"
    return f"{level} {schema['name']}\n\n{described}\n\n{shown}"


def _type(field: dict[str, Any]) -> str:
    if "enum" in field:
        return ", ".join(f"`{each}`" for each in field["enum"])
    kind = field.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _plain(text: str) -> str:
    """Prose for Markdown: what looks like HTML or emphasis is shown as written."""
    return text.replace("<", "&lt;").replace("*", "\\*").replace("[", "\\[")


def hooks_page() -> str:
    from hermes.base import events
    from hermes.compaction.engine import ContextEngine, EngineRegistry
    from hermes.providers.base import MemoryProvider

    parts = [
        "# Hooks and events\n",
        (
            "What a plug-in implements and what a surface hears: [write a provider](../guides/write-a-provider.md) and "
            "[write a context engine](../guides/write-a-context-engine.md) show how.\n"
        ),
        "## MemoryProvider\n",
        *_methods(MemoryProvider),
        "## ContextEngine\n",
        *_methods(ContextEngine),
        "## What a plug-in's `register(ctx)` may call\n",
        _method("register_context_engine", EngineRegistry.register_context_engine),
        (
            "### register_memory_provider\n\n"
            "```python\nregister_memory_provider(provider: MemoryProvider) -> None\n```\n\n"
            "Offers a memory provider; a subclass of MemoryProvider in the plug-in is found without it.\n"
        ),
        "## Events\n",
        "Everything a surface learns about a turn, in `hermes.base.events`.\n",
    ]
    for event in sorted(get_args(events.TurnEvent | events.ModelEvent), key=lambda event: str(event.__name__)):
        fields = ", ".join(f"`{field.name}`" for field in dataclasses.fields(event))
        parts.append(f"### {event.__name__}\n\n{_doc(event)}\n\nFields: {fields}.\n")
    return "\n".join(parts)


def _methods(interface: type) -> Iterable[str]:
    for name, member in vars(interface).items():
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
            yield _method(name, member)


def _method(name: str, member: Any) -> str:
    function = member.fget if isinstance(member, property) else member
    mark = " (required)" if getattr(member, "__isabstractmethod__", False) else ""
    kind = "" if not isinstance(member, property) else "property "
    signature = f"{kind}{name}{_signature(function)}"
    return f"### {name}{mark}\n\n```python\n{signature}\n```\n\n{_doc(function)}\n"


def _signature(function: Any) -> str:
    parameters = list(inspect.signature(function).parameters.values())[1:]
    shown = inspect.signature(function).replace(parameters=parameters)
    return re.sub(r": '([^']*)'", r": \1", re.sub(r"-> '([^']*)'", r"-> \1", str(shown)))


def _doc(thing: Any) -> str:
    written = thing.__doc__ or ""
    if written.startswith(getattr(thing, "__name__", "") + "("):  # what `dataclass` writes when nobody has
        return ""
    return "\n".join(_plain(line) for line in inspect.cleandoc(written).splitlines())


def schema_page() -> str:
    from hermes.conversations.database import SessionDB

    parts = [
        "# Database\n",
        (
            "The tables of `state.db` in the home, as its migrations make them. Read it with any SQLite of at least "
            "version 3.43; write to it only through Hermes, because rows carry checksums.\n"
        ),
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "state.db")
        with SessionDB.open(path) as db:
            db.create_session(source="cli")
        parts += [f"```sql\n{_outdented(sql)};\n```\n" for sql in _statements(path)]
    return "\n".join(parts)


def _outdented(sql: str) -> str:
    first, _, rest = sql.partition("\n")
    return f"{first}\n{textwrap.dedent(rest)}".strip()


def _statements(path: str) -> list[str]:
    import apsw

    from hermes.storage.local.schema import OPTIONAL

    with apsw.Connection(path) as connection:
        done = {name for (name,) in connection.execute("SELECT name FROM migrations")}
        for name, step in OPTIONAL:
            if name not in done:
                step(connection)
        asked = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE '%\\_fts\\_%' ESCAPE '\\'"
        found = [sql for (sql,) in connection.execute(f"{asked} AND name NOT LIKE 'sqlite%' ORDER BY rowid")]
    connection.close()
    return found


def errors_page() -> str:
    from hermes.base import errors
    from hermes.server.api import FAILURES

    headline, _, tree = inspect.cleandoc(errors.__doc__ or "").partition("\n")
    where = "In Python: `from hermes.base.errors import HermesError`, and so on.\n"
    parts = ["# Errors\n", f"{headline}\n", where, f"```text\n{tree.strip()}\n```\n"]
    for name, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, errors.HermesError) and (kind.__doc__ and kind is not errors.HermesError):
            parts.append(f"## {name}\n\n```text\n{inspect.cleandoc(kind.__doc__)}\n```\n")
    parts.append("## Over HTTP\n\n" + table(("status", "meaning"), FAILURES.items()))
    parts.append(
        "## From tools\n\nA tool never raises: its result is JSON with `success: false` and an `error` that says what "
        f"to do, such as\n\n```json\n{json.dumps({'success': False, 'error': 'content: required'})}\n```\n"
    )
    return "\n".join(parts)
