"""`hermes rules`: the person's standing rules, and which of them a call would fire."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from hermes.base.dates import zone_of
from hermes.base.errors import SettingsError
from hermes.cli import ui
from hermes.memory.rules import ENFORCE, RuleBook
from hermes.memory.triggers import Situation

if TYPE_CHECKING:
    from hermes.memory.rules import Rule

_ID = ui.option("id ID", "the rule, as `hermes rules list` names it")


def _list(given: ui.Given, context: ui.Context) -> None:
    rules = RuleBook(context.home).all()
    lines = [line for rule in rules for line in _in_lines(rule)]
    nothing = "no rules yet; state one in a conversation, or `hermes rules add TEXT`"
    ui.show(given, [_as_dict(rule) for rule in rules], *(lines or [nothing]))


def _add(given: ui.Given, context: ui.Context) -> None:
    enforce = given.enforce or context.settings.text("rules.enforce")
    rule = RuleBook(context.home).add(given.text, enforce=enforce)
    ui.show(given, _as_dict(rule), *_in_lines(rule))


def _test(given: ui.Given, context: ui.Context) -> None:
    """Which rules would fire on a call: a command, a tool with its arguments, or a path that is written."""
    arguments: dict[str, Any] = {}
    if given.arguments:
        try:
            arguments = json.loads(given.arguments)
        except ValueError as error:
            raise SettingsError(f"--arguments: expected a JSON object, found {given.arguments!r} ({error})") from error
    if given.path:
        arguments |= {"path": given.path}
    if given.text and not given.tool and not given.path:
        arguments |= {"command": given.text}
    tool = given.tool or ("write_file" if given.path else "terminal")
    said = given.user or (given.text if given.tool or given.path else "")
    fired = RuleBook(context.home).fired(Situation(tool, arguments, said or "", _moment(given.at, context)))
    lines = [f"{each.name}  {each.text}\n    because of {each.trigger}; {_EFFECT[each.enforce]}" for each in fired]
    document = {
        "tool": tool,
        "arguments": arguments,
        "fired": [{**each.as_dict(), "enforce": each.enforce} for each in fired],
    }
    ui.show(given, document, *(lines or ["no rule would fire"]))


def _switch(given: ui.Given, context: ui.Context, *, on: bool) -> None:
    rule = RuleBook(context.home).change(given.id, on=on)
    ui.show(given, _as_dict(rule), f"{rule.id} is {'on' if on else 'off'}: {rule.text}")


def _remove(given: ui.Given, context: ui.Context) -> None:
    rule = RuleBook(context.home).remove(given.id)
    ui.show(given, _as_dict(rule), f"removed {rule.id}: {rule.text}")


_EFFECT = {
    "tell": "the model reads it with the result",
    "hold": "the call is held back once, until the model has read it",
    "ask": "you are asked first",
}


def _in_lines(rule: Rule) -> list[str]:
    state = "" if rule.on else " (off)"
    return [f"{rule.id}  {rule.text}{state}", f"    fires on {rule.when.in_words()}; {_EFFECT[rule.enforce]}"]


def _as_dict(rule: Rule) -> dict[str, Any]:
    return {**rule.as_dict(), "trigger": rule.when.in_words()}


def _moment(text: str | None, context: ui.Context) -> datetime:
    if text is None:
        return datetime.now(zone_of(context.settings.text("timezone"))).replace(tzinfo=None)
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError as error:
        raise SettingsError(f"--at: expected a time such as 2026-03-07T14:00, found {text!r}") from error


COMMANDS = {
    "rules list": ui.command(_list),
    "rules add": ui.command(
        _add,
        ui.option("text TEXT", "the rule, as you would say it"),
        ui.option("--enforce", "what it does to a call it fires on (default: rules.enforce)", choices=ENFORCE),
    ),
    "rules test": ui.command(
        _test,
        ui.option("text TEXT", "a shell command; with --tool or --path, what the person says", nargs="?"),
        ui.option("--tool NAME", "the tool that is called (default: terminal, or write_file with --path)"),
        ui.option("--arguments JSON", "the arguments of the call"),
        ui.option("--path PATH", "the file that is written or read"),
        ui.option("--user TEXT", "what the person says in this turn"),
        ui.option("--at TIME", "when, such as 2026-03-07T14:00 (default: now)"),
    ),
    "rules on": ui.command(lambda given, context: _switch(given, context, on=True), _ID),
    "rules off": ui.command(lambda given, context: _switch(given, context, on=False), _ID),
    "rules remove": ui.command(_remove, _ID),
}
