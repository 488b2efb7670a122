"""The Rules page: the person's standing rules with what each fires on, a way to test them, and their reminders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.memory.reminders import DONE, WAITING, Reminders, understood
from hermes.memory.rules import ENFORCE, RuleBook
from hermes.memory.triggers import Situation
from hermes.server.web.sessions import Notice
from hermes.server.web.site import Page, Redirect, Section, View, address
from hermes.settings.config import load_settings

if TYPE_CHECKING:
    from hermes.server.web.site import Ask
    from hermes.server.workspace import Workspace

EFFECTS = {
    "tell": "the model reads it with the result",
    "hold": "the call is held back until the model has read it",
    "ask": "you are asked first",
}


def _show(ask: Ask) -> Page:
    """A query `test` names a command or a sentence: the rules that it would fire come first."""
    rules, reminders, now = RuleBook(ask.workspace.home), Reminders(ask.workspace.home), ask.workspace.now()
    tested = ask.query.get("test", "").strip()
    moments = (Situation("terminal", {"command": tested}, "", now), Situation("", None, tested, now)) if tested else ()
    fired = {each.name: each for moment in reversed(moments) for each in rules.fired(moment)}
    due = {each.id for each in reminders.due(now)}
    waiting = [each for each in reminders.all() if each.state == WAITING]
    values = {
        "rules": sorted(rules.all(), key=lambda each: (each.id not in fired, not each.on)),
        "fired": fired,
        "tested": tested,
        "effects": EFFECTS,
        "reminders": sorted(waiting, key=lambda each: (each.id not in due, each.due or "~")),
        "due": due,
    }
    return Page(template="rules.html", values=values)


def _add(ask: Ask) -> Redirect:
    """What a person types here is their own word, as on the command line."""
    home = ask.workspace.home
    rule = RuleBook(home).add(ask.field("text"), enforce=load_settings(home).text("rules.enforce"))
    return _back(f"Noted: {rule.text} It fires on {rule.when.in_words()}.")


def _change(ask: Ask) -> Redirect:
    rules, wanted = RuleBook(ask.workspace.home), ask.path["rule"]
    if ask.field("enforce") in ENFORCE:
        rule = rules.change(wanted, enforce=ask.field("enforce"))
        return _back(f"When it fires, {EFFECTS[rule.enforce]}: {rule.text}")
    if ask.field("remove"):
        return _back(f"Removed: {rules.remove(wanted).text}")
    rule = rules.change(wanted, on=ask.field("on") == "yes")
    return _back(f"Switched {'on' if rule.on else 'off'}: {rule.text}")


def _remind(ask: Ask) -> Redirect:
    reminders, now = Reminders(ask.workspace.home), ask.workspace.now()
    if ask.field("done"):
        return _back(f"Done: {reminders.change(ask.path['reminder'], state=DONE).text}")
    due = understood(ask.field("until"), now).due
    moved = reminders.change(ask.path["reminder"], state=WAITING, due=due, words=())
    return _back(f"Comes up {moved.when}: {moved.text}")


def _back(said: str) -> Redirect:
    return Redirect(to=address("rules"), notice=Notice(said))


def _due(workspace: Workspace) -> int:
    return len(Reminders(workspace.home).due(workspace.now()))


SECTION = Section(
    name="rules",
    title="Rules",
    key="u",
    waiting=_due,
    views=(
        View(act=_show),
        View(method="POST", act=_add, approves=True),
        View(path="/{rule}", method="POST", act=_change, approves=True),
        View(path="/reminders/{reminder}", method="POST", act=_remind),
    ),
)
