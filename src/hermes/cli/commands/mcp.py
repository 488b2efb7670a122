"""`hermes mcp`: this memory for other agents, and their configuration."""

from __future__ import annotations

import difflib
import json
import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

from hermes.base.errors import HermesError, NotFound, SettingsError, StorageError
from hermes.cli import ui
from hermes.server.hosts import BY_MODEL, HOSTS, RECORDED, carry_out, configured, list_tools, plan, record, this_copy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes.server.hosts import Change


def mcp_serve(given: ui.Given, context: ui.Context) -> None:
    if given.http:
        from hermes.cli.commands.serve import start

        start(context, host=given.host or "", port=given.port, only_mcp=True)
        return
    import gc

    gc.disable()  # the SDK makes a hundred thousand objects that stay: looking through them again and again is waste
    with ui.needing("server"):
        from hermes.server.mcp import build_server, serve_stdio
    gc.freeze()
    gc.enable()
    import anyio

    from hermes.server.workspace import Workspace

    workspace = Workspace(context.home, source=given.source, project=given.project, cwd=os.getcwd())
    try:
        anyio.run(serve_stdio, build_server(lambda _context: workspace, recorded=given.recorded, asks=True))
    finally:
        workspace.close()


_LARGEST = 16 << 20


def mcp_install(given: ui.Given, context: ui.Context) -> int:
    if given.remove:
        return mcp_uninstall(given, context)
    changes = plan(given.host, this_copy(context.home), os.path.expanduser("~"))
    written = configured(given.host, os.path.expanduser("~"), changes)
    command = written.command if written else []
    try:
        tools = list_tools(command)
    except NotFound as error:
        title = HOSTS[given.host].title
        raise NotFound(f"nothing was changed, because {title} could not start Hermes: {error}") from error
    return _write(given, changes, tools, HOSTS[given.host].records if RECORDED in command else BY_MODEL)


def mcp_uninstall(given: ui.Given, context: ui.Context) -> int:
    del context
    return _write(given, plan(given.host, None, os.path.expanduser("~")), [], "")


def _write(given: ui.Given, changes: list[Change], tools: list[str], records: str) -> int:
    title = HOSTS[given.host].title
    agreed = bool(changes) and not given.dry_run and given.yes
    if changes and not given.dry_run and not given.yes and not given.json:
        for diff in _diffs(changes):
            ui.line(diff)
        agreed = ui.confirmed("Write this?")
    backups = carry_out(changes) if agreed else []
    lines = [f"tested as {title} will start it: it answers, with {len(tools)} tools"] if tools else []
    if not changes:
        lines.append(f"{title}: nothing to change")
    elif agreed:
        lines += [f"the previous file: {backup}" for backup in backups]
        lines.append(f"{title}: {f'done. Restart it. Conversations: {records}.' if tools else 'removed. Restart it.'}")
    else:
        lines += _diffs(changes) if given.dry_run else []
        lines.append("nothing was changed" + ("" if given.dry_run else "; --yes does it without asking"))
    document = {
        "host": given.host,
        "done": agreed or not changes,
        "files": [ui.pick(change, "path", "reason") for change in changes],
        "backups": backups,
        "tools": tools,
        "records": records,
    }
    ui.show(given, document, *lines)
    return ui.OK if agreed or not changes or given.dry_run else ui.REFUSED


def mcp_status(given: ui.Given, context: ui.Context) -> int:
    del context
    rows = [_state(host) for host in HOSTS]
    ui.show(given, rows, *(_told(row) for row in rows))
    return ui.REFUSED if any(row["problem"] for row in rows) else ui.OK


def _state(host: str) -> dict[str, Any]:
    """Whether a host knows us, and whether the command it has still answers."""
    row: dict[str, Any] = {"host": host, "configured": False, "answers": None, "tools": [], "problem": None}
    try:
        found = configured(host, os.path.expanduser("~"))
        if found is None:
            return row
        row |= {"path": found.path, "command": found.command, "hooks": found.hooks}
        if not found.ours:
            row["problem"] = f"its server called hermes is another program: {shlex.join(found.command)}"
            return row
        row |= {"configured": True, "answers": False}
        row |= {"tools": list_tools(found.command), "answers": True}
        if RECORDED in found.command and not found.hooks:
            row["problem"] = f"no hook records its conversations; `hermes mcp install {host}` puts it there"
    except (NotFound, SettingsError, StorageError) as error:
        again = f". `hermes mcp install {host}` writes one that does" if row["configured"] else ""
        row["problem"] = f"{error}{again}"
    return row


def _told(row: dict[str, Any]) -> str:
    command = shlex.join(row.get("command", ()))
    if row["answers"]:
        said = f"answers, {len(row['tools'])} tools: {command}"
        return f"{row['host']:<16}{said}" + (f"\n{'':<16}{row['problem']}" if row["problem"] else "")
    return f"{row['host']:<16}{row['problem'] or 'not configured'}"


def _diffs(changes: list[Change]) -> Iterator[str]:
    for change in changes:
        before = (change.before or b"").decode("utf-8", "replace").splitlines()
        after = change.after.decode("utf-8", "replace").splitlines()
        name = f"{change.path} ({change.reason})"
        lines = difflib.unified_diff(before, after, change.path if change.before else "nothing", name, lineterm="", n=1)
        yield "\n".join(lines) + "\n"


def mcp_record(given: ui.Given, context: ui.Context) -> int:
    """Ends with 0 or 1 only: hosts take 2 as an order to stop the person's prompt or to go on with the turn."""
    try:
        result = record(context.home, given.host, _payload(given))
    except HermesError as error:
        ui.failure(error, ui.REFUSED, as_json=given.json)
        return ui.REFUSED
    if given.json:
        ui.print_json(result)
    return ui.OK


def _payload(given: ui.Given) -> dict[str, Any]:
    text = given.payload if given.payload is not None else sys.stdin.buffer.read(_LARGEST)
    try:
        payload: Any = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"a hook sends a JSON object, and this is not JSON: {error}") from error
    if not isinstance(payload, dict):
        raise SettingsError("a hook sends a JSON object, and this is something else")
    return payload
