"""`hermes reminders`: what you asked to be reminded of, at a time or when a topic comes up."""

from __future__ import annotations

from datetime import datetime

from hermes.base.dates import zone_of
from hermes.base.errors import SettingsError
from hermes.cli import ui
from hermes.memory.reminders import DONE, WAITING, Reminders, Wanted, understood

_ID = ui.option("id ID", "the reminder, as `hermes reminders list` names it")


def _list(given: ui.Given, context: ui.Context) -> None:
    found = [each for each in Reminders(context.home).all() if given.all or each.state != DONE]
    lines = [
        f"{each.id}  {each.text}  ({each.when}{'' if each.state == WAITING else f', {each.state}'})" for each in found
    ]
    nothing = "no reminders; say `remind me tomorrow at 9 to …` in a conversation, or `hermes reminders add TEXT`"
    ui.show(given, [each.as_dict() for each in found], *(lines or [nothing]))


def _add(given: ui.Given, context: ui.Context) -> None:
    now = _now(context)
    if given.topic:
        wanted = Wanted(text=given.text, words=tuple(given.topic.lower().split()))
    elif given.at:
        wanted = Wanted(text=given.text, due=understood(_at(given.at), now).due)
    else:
        wanted = understood(given.text, now)
    made = Reminders(context.home).add(wanted)
    ui.show(given, made.as_dict(), f"{made.id}  {made.text}  ({made.when})")


def _done(given: ui.Given, context: ui.Context) -> None:
    made = Reminders(context.home).change(given.id, state=DONE)
    ui.show(given, made.as_dict(), f"done: {made.text}")


def _snooze(given: ui.Given, context: ui.Context) -> None:
    wanted = understood(_at(given.until), _now(context))
    if not wanted.due:
        raise SettingsError(f"{given.until!r} is not a time; write it like `tomorrow at 9` or `in 2 hours`")
    made = Reminders(context.home).change(given.id, state=WAITING, due=wanted.due, words=())
    ui.show(given, made.as_dict(), f"{made.id} comes up again {made.when}: {made.text}")


def _at(text: str) -> str:
    """A clock time alone is meant as one: "9:30" and "14" as "at 9:30" and "at 14"."""
    return (
        f"at {text}"
        if text[:1].isdigit() and "-" not in text and len(text.split()) == 1
        else text.replace("T", " at ", 1)
    )


def _now(context: ui.Context) -> datetime:
    return datetime.now(zone_of(context.settings.text("timezone"))).replace(tzinfo=None)


COMMANDS = {
    "reminders list": ui.command(_list, ui.option("--all", "also those that are done")),
    "reminders add": ui.command(
        _add,
        ui.option("text TEXT", "what and when, such as `tomorrow at 9 call Ada`"),
        ui.option("--at TIME", "when, such as `friday at 14:00`; the text is then only what"),
        ui.option("--topic WORDS", "when one of these words comes up instead"),
    ),
    "reminders done": ui.command(_done, _ID),
    "reminders snooze": ui.command(
        _snooze, _ID, ui.option("until TIME", "when it comes up again, such as `in 2 hours`")
    ),
}
