"""`hermes rules`, `reminders` and `trust`: standing instructions, reminders and trusted folders."""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from hermes.base.dates import zone_of
from hermes.base.errors import SettingsError
from hermes.cli import ui
from hermes.memory.reminders import DONE, WAITING, Reminders, Wanted, moment_meant, understood
from hermes.memory.rules import RuleBook
from hermes.memory.triggers import Situation
from hermes.settings.home import project_root
from hermes.settings.trust import DecisionLog, TrustedFolders

if TYPE_CHECKING:
    from hermes.memory.rules import Rule
    from hermes.settings.home import Home


def rules_list(given: ui.Given, context: ui.Context) -> None:
    """Lists the rules with what triggers them and what they do."""
    rules = RuleBook(context.home).all()
    lines = [line for rule in rules for line in _in_lines(rule)]
    nothing = "no rules yet; state one in a conversation, or `hermes rules add TEXT`"
    ui.show(given, [_as_dict(rule) for rule in rules], *(lines or [nothing]))


def rules_add(given: ui.Given, context: ui.Context) -> None:
    """Adds a rule from a sentence; its trigger is recognised as in a conversation."""
    enforce = given.enforce or context.settings.text("rules.enforce")
    rule = RuleBook(context.home).add(given.text, enforce=enforce)
    ui.show(given, _as_dict(rule), *_in_lines(rule))


def rules_test(given: ui.Given, context: ui.Context) -> None:
    """Prints which rules a call would trigger: a command, a tool with its arguments, or a write to a path."""
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
    told = [{**each.as_dict(), "enforce": each.enforce} for each in fired]
    ui.show(given, {"tool": tool, "arguments": arguments, "fired": told}, *(lines or ["no rule would be triggered"]))


def _switch(given: ui.Given, context: ui.Context, *, on: bool) -> None:
    rule = RuleBook(context.home).change(given.id, on=on)
    ui.show(given, _as_dict(rule), f"{rule.id} is {'on' if on else 'off'}: {rule.text}")


rules_on, rules_off = partial(_switch, on=True), partial(_switch, on=False)


def rules_remove(given: ui.Given, context: ui.Context) -> None:
    """Removes a rule by its id."""
    rule = RuleBook(context.home).remove(given.id)
    ui.show(given, _as_dict(rule), f"removed {rule.id}: {rule.text}")


_EFFECT = {
    "tell": "the model reads it with the result",
    "hold": "the call is held back once, until the model has read it",
    "ask": "you are asked first",
}


def _in_lines(rule: Rule) -> list[str]:
    state = "" if rule.on else " (off)"
    return [f"{rule.id}  {rule.text}{state}", f"    applies to {rule.when.in_words()}; {_EFFECT[rule.enforce]}"]


def _as_dict(rule: Rule) -> dict[str, Any]:
    return {**rule.as_dict(), "trigger": rule.when.in_words()}


def _moment(text: str | None, context: ui.Context) -> datetime:
    if text is None:
        return _now(context)
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError as error:
        raise SettingsError(f"--at: expected a time such as 2026-03-07T14:00, found {text!r}") from error


def reminders_list(given: ui.Given, context: ui.Context) -> None:
    """Lists the reminders that are not done, or with `--all` every one."""
    found, lines = [each for each in Reminders(context.home).all() if given.all or each.state != DONE], []
    for each in found:
        state = "" if each.state == WAITING else f", {each.state}"
        lines.append(f"{each.id}  {each.text}  ({each.when}{state})")
    nothing = "no reminders; say `remind me tomorrow at 9 to …` in a conversation, or `hermes reminders add TEXT`"
    ui.show(given, [each.as_dict() for each in found], *(lines or [nothing]))


def reminders_add(given: ui.Given, context: ui.Context) -> None:
    """Adds a reminder for a topic or a time; without either option, it is understood from the text."""
    now = _now(context)
    if given.topic:
        wanted = Wanted(text=given.text, words=tuple(given.topic.lower().split()))
    elif given.at:
        at = moment_meant(given.at, now)
        wanted = Wanted(text=given.text, due=at.due, repeat=at.repeat)
    else:
        wanted = understood(given.text, now)
    made = Reminders(context.home).add(wanted)
    ui.show(given, made.as_dict(), f"{made.id}  {made.text}  ({made.when})")


def reminders_done(given: ui.Given, context: ui.Context) -> None:
    """Marks a reminder as done."""
    made = Reminders(context.home).change(given.id, state=DONE)
    ui.show(given, made.as_dict(), f"done: {made.text}")


def reminders_snooze(given: ui.Given, context: ui.Context) -> None:
    """Puts a reminder off to another time; one about a topic then comes up by time."""
    due = moment_meant(given.until, _now(context)).due
    made = Reminders(context.home).change(given.id, state=WAITING, due=due, words=())
    ui.show(given, made.as_dict(), f"{made.id} comes up again {made.when}: {made.text}")


def _now(context: ui.Context) -> datetime:
    return datetime.now(zone_of(context.settings.text("timezone"))).replace(tzinfo=None)


# Files that agents load from a folder by themselves.
_NOTES = (".hermes.md", "HERMES.md", "AGENTS.md", "agents.md", "CLAUDE.md", "claude.md", ".cursorrules", ".cursor")
_QUESTION = (
    "{folder} is new here. Do you trust what is in it (its files, AGENTS.md and other notes for agents)?\n"
    "If not, they are shown to the model all the same, and what it saves after reading them waits for your approval. "
    "`hermes trust` changes that later."
)


def ask_about(home: Home, cwd: str) -> None:
    """Asks once, at a terminal, whether to trust the repository around a folder, or a folder with notes for agents."""
    folders, here = TrustedFolders(home), os.path.realpath(cwd)
    folder = project_root(here) or here
    if not sys.stdin.isatty() or not sys.stdout.isatty() or folders.decision(folder) is not None:
        return
    if not project_root(here) and not any(os.path.lexists(os.path.join(here, name)) for name in _NOTES):
        return  # nothing in it speaks to a model by itself
    if folder in (os.path.realpath(os.path.expanduser("~")), os.path.dirname(folder)):
        return  # the home folder or the whole disk: too much to trust with one answer
    ui.line(_QUESTION.format(folder=folder))
    folders.add(folder, trusted=ui.said_yes("trust it?"))


def trust_add(given: ui.Given, context: ui.Context) -> None:
    """Trusts a folder: its files no longer count as text from outside."""
    path = TrustedFolders(context.home).add(given.dir)
    ui.show(given, {"path": path, "trusted": True}, f"{path} is trusted")


def trust_remove(given: ui.Given, context: ui.Context) -> None:
    """Forgets the decision about a folder."""
    path = TrustedFolders(context.home).remove(given.dir)
    ui.show(given, {"path": path, "trusted": None}, f"{path} is no longer on the list; it counts as outside")


def trust_list(given: ui.Given, context: ui.Context) -> None:
    """Lists the folders that were decided about."""
    found = sorted(TrustedFolders(context.home).all().items())
    lines = [f"{'trusted    ' if trusted else 'not trusted'}  {path}" for path, trusted in found]
    document = [{"path": path, "trusted": trusted} for path, trusted in found]
    ui.show(given, document, *(lines or ["no folder is trusted yet; `hermes trust add DIR` adds one"]))


def trust_log(given: ui.Given, context: ui.Context) -> None:
    """Prints the latest decisions of the trust gate."""
    found = DecisionLog(context.home).newest(given.count)
    lines = [f"{ui.when(each['at'])}  {each['verdict']:<5}  {each['sink']:<8}  {each['reason']}" for each in found]
    ui.show(given, found, *(lines or ["the gate has not decided anything yet"]))
