"""`hermes tool` and `hermes prompt`: call a tool as a model would, and see the system prompt."""

from __future__ import annotations

import os
import sys

from hermes.base.errors import NotFound, SettingsError
from hermes.cli.output import OK, REFUSED, add_json_option, print_json, print_text, visible
from hermes.session.parts import open_parts
from hermes.tools.taint import TurnContext

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from hermes.cli.output import Context
    from hermes.session.parts import SessionParts
    from hermes.tools.builtin import Outcome, Task
    from hermes.tools.registry import Tool

_DELEGATE = "delegate_task"


def _run(given: argparse.Namespace, context: Context) -> int:
    if given.name == _DELEGATE and not given.list:
        return _delegate(given, context)
    parts = open_parts(context.home, settings=context.settings, project=given.project or "")
    toolbox = parts.toolbox
    if given.list or (given.name and given.name not in toolbox.names()):
        for tool in _tools_of_the_agent(context):
            toolbox.add(tool)
        parts.start_external(given.session or "tool", owner="local", identity={"platform": "cli"})
    if given.list:
        print_json(toolbox.schemas())
        parts.external.close([])
        return OK
    if given.name is None:
        raise SettingsError("which tool? `hermes tool --list` shows them")
    result = toolbox.call(given.name, _arguments(given), TurnContext(session=given.session))
    parts.external.close([])
    return _told(result)


def _arguments(given: argparse.Namespace) -> str | bytes | None:
    return sys.stdin.buffer.read() if given.arguments == "-" else given.arguments


def _told(result: str) -> int:
    print_text(result)
    return REFUSED if '"success": false' in result[:20] else OK


def _delegate(given: argparse.Namespace, context: Context) -> int:
    """Delegated tasks need a model and a conversation that they belong to; this one is filed as `tool`."""
    from hermes.agent import Agent

    arguments = _arguments(given) or "{}"
    text = arguments.decode(errors="replace") if isinstance(arguments, bytes) else arguments
    with Agent.open(context.home, "tool", cwd=os.getcwd(), project=given.project or "", ask=_consent()) as agent:
        return _told(agent.session.call_tool(_DELEGATE, text))


def _consent() -> Callable[[str], bool] | None:
    def ask(question: str) -> bool:
        from hermes.cli.output import said_yes

        return said_yes(visible(question))

    return ask if sys.stdin.isatty() else None


def _tools_of_the_agent(context: Context) -> list[Tool]:
    """Those that work on files, commands and pages: not loaded for a call of memory or search."""
    from hermes.tools.builtin import DelegateTask, Kit

    kit = Kit(
        context.settings,
        folder=os.getcwd(),
        home=context.home.above or context.home.root,
        ask=_consent(),
        cancelled=lambda: False,
        history=lambda: (),
    )
    return [*(make() for make in kit.makers().values()), DelegateTask(_nobody, at_once=1, longest=0, stop=lambda: None)]


def _nobody(_task: Task) -> Outcome:
    raise AssertionError("listed only; `_delegate` runs it")


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="the tool to call")
    parser.add_argument("arguments", nargs="?", metavar="JSON", help="its arguments; - reads them from standard input")
    parser.add_argument("--session", default="", metavar="ID", help="call it as the model does inside this session")
    parser.add_argument(
        "--project", metavar="NAME", help="call it as in this project: a name, or . for this repository"
    )
    parser.add_argument("--list", action="store_true", help="print the schemas of all tools, as JSON")
    add_json_option(parser)  # what tools say is JSON anyway; with it, so are mistakes


def _prompt(given: argparse.Namespace, context: Context) -> int:
    cwd = given.cwd or os.getcwd()
    owner = "local" if given.diff else None
    parts = open_parts(context.home, settings=context.settings, owner=owner, project=given.project, cwd=cwd)
    try:
        parts.start_external("prompt", owner="local", identity={"platform": given.platform, "agent_context": "flush"})
        prompt = parts.build_prompt(model=given.model, cwd=cwd, platform=given.platform)
        if given.diff:
            return _print_difference(parts, given.diff, prompt.text)
    finally:
        parts.external.close([])
        parts.close()
    sizes = prompt.sizes()
    total = {"characters": len(prompt.text), "tokens": sum(size["tokens"] for size in sizes)}
    if given.json:
        print_json({"prompt": prompt.text, "sections": sizes, "total": total})
        return OK
    if not given.sizes:
        print_text(f"{prompt.text}\n")
    for size in [*sizes, {"name": "total", **total}]:
        print_text(f"{size['name']:<26} {size['characters']:>8,} characters  about {size['tokens']:>6,} tokens")
    return OK


def _print_difference(parts: SessionParts, name: str, now: str) -> int:
    session = parts.database.resolve(name)
    if session is None:
        raise NotFound(f"there is no session {name!r}; `hermes sessions list` shows them")
    then = parts.database.session_details(session.id).get("system_prompt", "")
    import difflib  # a call of a tool starts without it

    lines = difflib.unified_diff(
        then.splitlines(), now.splitlines(), f"session {session.id}", "a new session", lineterm=""
    )
    print_text("\n".join(lines) or "the prompt of that session is what a new session would get")
    return OK


def _configure_prompt(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sizes", action="store_true", help="only the size of each section")
    parser.add_argument("--diff", metavar="SESSION", help="how it differs from the prompt a session (id or title) has")
    parser.add_argument("--model", default="", help="for which model (some get more guidance)")
    parser.add_argument("--platform", default="cli", help="for which platform (default: cli)")
    parser.add_argument("--cwd", metavar="DIR", help="in which folder to look for context files (default: here)")
    parser.add_argument("--project", metavar="NAME", help="of which project (default: the repository of that folder)")
    add_json_option(parser)


COMMANDS = {
    "tool": (_configure, _run),
    "prompt": (_configure_prompt, _prompt),
}
