"""`hermes tool`, `prompt`, `scan` and `bench`: call tools as a model would, print prompts, judge texts, measure."""

from __future__ import annotations

import errno
import json
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from hermes.base.errors import NotFound, SettingsError
from hermes.cli import ui
from hermes.cli.catalogue import checkout
from hermes.memory.entries import preview
from hermes.safety.trust import TurnContext
from hermes.session.parts import open_parts
from hermes.storage.files import explain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hermes.safety.scanner import Verdict
    from hermes.session.parts import SessionParts
    from hermes.tools.builtin import Outcome, Task
    from hermes.tools.registry import Tool

_DELEGATE = "delegate_task"


def run_tool(given: ui.Given, context: ui.Context) -> int:
    """Calls a tool with the given arguments, as a model would, or lists the schemas of all tools."""
    if given.name == _DELEGATE and not given.list:
        return _delegate(given, context)
    parts = open_parts(context.home, settings=context.settings, project=given.project or "")
    toolbox = parts.toolbox
    if given.list or (given.name and given.name not in toolbox.names()):
        for tool in _tools_of_the_agent(context):
            toolbox.add(tool)
        parts.start_external(given.session or "tool", {"platform": "cli"})
    if given.list:
        ui.print_json(toolbox.schemas())
        parts.external.close([])
        return ui.OK
    if given.name is None:
        raise SettingsError("which tool? `hermes tool --list` shows them")
    result = toolbox.call(given.name, _arguments(given), TurnContext(session=given.session))
    parts.external.close([])
    return _told(result)


def _arguments(given: ui.Given) -> str | bytes | None:
    return sys.stdin.buffer.read() if given.arguments == "-" else given.arguments


def _told(result: str) -> int:
    ui.line(result)
    return ui.REFUSED if '"success": false' in result[:20] else ui.OK


def _delegate(given: ui.Given, context: ui.Context) -> int:
    """Runs `delegate_task` in a new conversation with the source `tool`: it needs a model and a session."""
    from hermes.agent import Agent

    arguments = _arguments(given) or "{}"
    text = arguments.decode(errors="replace") if isinstance(arguments, bytes) else arguments
    with Agent.open(context.home, "tool", cwd=os.getcwd(), project=given.project or "", ask=_consent()) as agent:
        return _told(agent.session.call_tool(_DELEGATE, text))


def _consent() -> Callable[[str], bool] | None:
    return (lambda question: ui.said_yes(ui.visible(question))) if sys.stdin.isatty() else None


def _tools_of_the_agent(context: ui.Context) -> list[Tool]:
    """The tools for files, commands and web pages, which a call of memory or search does not load."""
    from hermes.tools.builtin import BuiltinTools, DelegateTask

    kit = BuiltinTools(
        settings=context.settings,
        folder=os.getcwd(),
        home=context.home.above or context.home.root,
        ask=_consent(),
        cancelled=lambda: False,
        history=lambda: (),
    )
    return [*(make() for make in kit.makers().values()), DelegateTask(_nobody, at_once=1, longest=0, stop=lambda: None)]


def _nobody(_task: Task) -> Outcome:
    raise AssertionError("listed only; `_delegate` runs it")


def run_prompt(given: ui.Given, context: ui.Context) -> None:
    """Prints the prompt a new session would get, with the size of each section, or how an old one differs."""
    cwd = given.cwd or os.getcwd()
    owner = "local" if given.diff else None
    parts = open_parts(context.home, settings=context.settings, owner=owner, project=given.project, cwd=cwd)
    try:
        parts.start_external("prompt", {"platform": given.platform, "agent_context": "flush"})
        prompt = parts.build_prompt(model=given.model, cwd=cwd, platform=given.platform)
        if given.diff:
            _print_difference(parts, given.diff, prompt.text)
            return
    finally:
        parts.external.close([])
        parts.close()
    sizes = prompt.sizes()
    total = {"characters": len(prompt.text), "tokens": sum(size["tokens"] for size in sizes)}
    lines = [] if given.sizes else [f"{prompt.text}\n"]
    lines += [
        f"{each['name']:<26} {each['characters']:>8,} characters  about {each['tokens']:>6,} tokens"
        for each in [*sizes, {"name": "total", **total}]
    ]
    ui.show(given, {"prompt": prompt.text, "sections": sizes, "total": total}, *lines)


def _print_difference(parts: SessionParts, name: str, now: str) -> None:
    """Prints how the prompt of an earlier session differs from the one a new session would get."""
    session = parts.database.resolve(name)
    if session is None:
        raise NotFound(f"there is no session {name!r}; `hermes sessions list` shows ids and titles")
    then = parts.database.session_details(session.id).get("system_prompt", "")
    import difflib  # not needed by the other commands of this module

    lines = difflib.unified_diff(
        then.splitlines(), now.splitlines(), f"session {session.id}", "a new session", lineterm=""
    )
    ui.line("\n".join(lines) or "the prompt of that session is the one a new session would get")


_NO_FILE = (errno.ENOENT, errno.ENAMETOOLONG)


def run_scan(given: ui.Given, context: ui.Context) -> int:
    """Judges a text as memory, prompts and tool results would; exits with 1 unless it is clean."""
    from hermes.safety.scanner import scan  # not at the top: a call of the memory tool seldom needs it

    del context
    data = _read(given.file)
    if given.jsonl:
        return _scan_lines(data, given.scope, guard=given.guard)
    text = data.decode("utf-8", "surrogateescape")
    judged = judge(text, scan(text, given.scope, guard=given.guard))
    ui.show(given, judged, *judged_lines(judged))
    return ui.OK if judged["verdict"] == "clean" else ui.REFUSED


def judge(text: str, verdict: Verdict) -> dict[str, Any]:
    """The verdict on a text as a document; a text with a secret is refused, and the secret is never shown."""
    from hermes.safety.secrets import find_secrets, mask_secrets

    found = find_secrets(text)
    return {
        "verdict": "refuse" if found else verdict.level,
        "classes": [*(["secret"] if found else []), *verdict.classes],
        "excerpt": mask_secrets(verdict.excerpt) or ", ".join(dict.fromkeys(secret.kind for secret in found)),
        "advice": verdict.advice or ("Keep secrets in .env and save where they are." if found else ""),
    }


def _scan_lines(data: bytes, scope: str, *, guard: bool) -> int:
    """Judges the text in each line of JSON; a line without one gets an error in its place, to keep the order."""
    from hermes.safety.scanner import scan

    wrong = False
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            text = json.loads(line)["text"]
            judged = judge(text, scan(text, scope, guard=guard))
        except (ValueError, KeyError, TypeError):
            wrong = True
            judged = {"error": f'line {number}: expected {{"text": "…"}}'}
        ui.line(json.dumps(judged, ensure_ascii=False))
    return ui.USAGE if wrong else ui.OK


def judged_lines(judged: dict[str, Any]) -> list[str]:
    """The verdict of `judge` in lines for people."""
    found = f": {', '.join(judged['classes'])}" if judged["classes"] else ""
    return [f"{judged['verdict']}{found}", *(f"  {judged[name]}" for name in ("excerpt", "advice") if judged[name])]


def _read(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        with open(file, "rb") as source:
            return source.read()
    except OSError as error:
        if error.errno in _NO_FILE:  # a wrong name, or the text itself, which can be too long for a name
            raise NotFound(
                f"there is no file {preview(file)!r}; to scan a text, pipe it in: `echo 'the text' | hermes scan -`"
            ) from error
        raise explain("read", file, error) from error


def bench_recall(given: ui.Given, context: ui.Context) -> None:
    """Measures how well search finds answers, in a data set or in the person's own conversations."""
    if given.chart:
        checkout().refuse_unwritable("--chart", given.chart)
    figures = _recall_figures(given, context)
    if given.chart:
        checkout().draw_chart(given.chart, figures, "recall")
    ui.show(given, figures, *figure_lines(figures), *(() if given.path else _HOW))


_HOW = (
    "",
    "Each question is three telling words of one of your messages. hit@5 is the percentage of questions for which the",
    "conversation (`session`) or the message itself (`turn`) is among the first five results. `empty` counts questions",
    "without any result. `hermes bench self` measures whether this helps an agent.",
)


def figure_lines(figures: dict[str, Any], indent: str = "") -> Iterator[str]:
    """Yields measured figures as lines, nested ones indented."""
    for name, figure in figures.items():
        if isinstance(figure, dict):
            yield f"{indent}{name}"
            yield from figure_lines(figure, indent + "  ")
        else:
            yield f"{indent}{name!s:<35} {f'{figure:.4g}' if isinstance(figure, float) else figure}"


def _recall_figures(given: ui.Given, context: ui.Context) -> dict[str, Any]:
    if given.path is not None:
        more = {"semantic": given.semantic, "pooled": given.pooled, "unanswerable": given.unanswerable}
        return dict(checkout().recall(given.path, limit=given.limit, **more))
    from hermes.cli.sessions import open_existing
    from hermes.operations.own_bench import run_own

    with open_existing(context) as db:
        return run_own(db, questions=given.limit or 200)


def bench_self(given: ui.Given, context: ui.Context) -> None:
    """Measures with the person's own conversations whether memory helps, with a model if one is asked for."""
    from hermes.cli.sessions import open_existing
    from hermes.operations.own_bench import lines, run_self, shares
    from hermes.session.models import answer, main_model

    if given.chart:
        checkout().refuse_unwritable("--chart", given.chart)
    model = None
    if given.model:
        found = main_model(context.settings)
        seconds = context.settings.number("auxiliary.compression.timeout")
        prices = context.settings.get("model.prices") or {}
        model = (found.name, lambda system, text: answer(found, system, text, seconds), prices)
    with ui.Progress() as progress, open_existing(context) as db:
        figures = run_self(db, limit=given.limit, model=model, progress=partial(progress.stage, "asking"))
    if given.chart:
        checkout().draw_chart(given.chart, shares(figures), "self")
    ui.show(given, figures, *lines(figures))
