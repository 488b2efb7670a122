"""`hermes tool`: calls a tool exactly as a model would and prints its JSON result."""

from __future__ import annotations

import sys

from hermes.cli.context import OK, REFUSED
from hermes.cli.render import add_json_option, print_json, print_text, visible
from hermes.session.wiring import open_parts
from hermes.vocabulary.errors import SettingsError

_DELEGATE = "delegate_task"

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from hermes.cli.context import Context
    from hermes.tools.delegate import Outcome, Task
    from hermes.tools.registry import Tool


def _run(given: argparse.Namespace, context: Context) -> int:
    if given.name == _DELEGATE and not given.list:
        return _delegate(given, context)
    parts = open_parts(context.home, settings=context.settings, project=given.project or "")
    parts.bind(given.session)
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
    result = toolbox.call(given.name, _arguments(given))
    parts.external.close([])
    return _told(result)


def _arguments(given: argparse.Namespace) -> str | bytes | None:
    return sys.stdin.buffer.read() if given.arguments == "-" else given.arguments


def _told(result: str) -> int:
    print_text(result)
    return REFUSED if '"success": false' in result[:20] else OK


def _delegate(given: argparse.Namespace, context: Context) -> int:
    """Delegated tasks need a model and a conversation that they belong to; this one is filed as `tool`."""
    import os

    from hermes.agent import Agent

    arguments = _arguments(given) or "{}"
    text = arguments.decode(errors="replace") if isinstance(arguments, bytes) else arguments
    with Agent.open(context.home, "tool", cwd=os.getcwd(), project=given.project or "", ask=_consent()) as agent:
        return _told(agent.session.call_tool(_DELEGATE, text))


def _consent() -> Callable[[str], bool] | None:
    def ask(question: str) -> bool:
        from hermes.cli.questions import said_yes

        return said_yes(visible(question))

    return ask if sys.stdin.isatty() else None


def _tools_of_the_agent(context: Context) -> list[Tool]:
    """Those that work on files, commands and pages: not loaded for a call of memory or search."""
    import os

    from hermes.tools.builtin import Kit
    from hermes.tools.delegate import DelegateTask

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


COMMANDS = {"tool": (_configure, _run)}
