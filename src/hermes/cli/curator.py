"""`hermes curator`: look at the background tidying, run it, pause it, read what it did, take it back."""

from __future__ import annotations

import os
import time

from hermes.cli.context import OK
from hermes.cli.render import add_json_option, indented, print_json, print_text, when
from hermes.curated.entries import preview
from hermes.session.curator import Curator, helper_for
from hermes.session.past import open_past
from hermes.session.wiring import open_parts
from hermes.vocabulary.words import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import Any

    from hermes.cli.context import Context


def _status(given: argparse.Namespace, context: Context) -> int:
    curator = _curator(context)
    last = curator.log.last()
    state: dict[str, Any] = {
        "enabled": context.settings.flag("curator.enabled"),
        "paused": bool(curator.log.state().get("paused")),
        "waits_because": curator.why_not_now(_last_active(context)),
        "last_run": last,
        "contradictions": curator.contradictions(),
        "skills": _skills(context),
    }
    if given.json:
        print_json(state)
        return OK
    print_text(f"curator   {state['waits_because'] or 'due now'}")
    print_text(f"last run  {_in_short(last) if last else 'none yet'}")
    for name, names in state["skills"].items():
        print_text(f"skills    {name}: {', '.join(names) or 'none'}")
    _print_contradictions(state["contradictions"])
    return OK


def _run(given: argparse.Namespace, context: Context) -> int:
    curator = _curator(context, helper=True)
    if given.if_due and (why := curator.why_not_now(_last_active(context))):
        print_json({"ran": False, "because": why}) if given.json else print_text(f"not now: {why}")
        return OK
    run = curator.run(trigger="schedule" if given.if_due else "by hand", dry_run=given.dry_run)
    if given.json:
        print_json(run)
        return OK
    _print_run(run)
    return OK


def _switch(*, paused: bool) -> Callable[[argparse.Namespace, Context], int]:
    def command(given: argparse.Namespace, context: Context) -> int:
        _curator(context).log.set(paused=paused)
        print_json({"paused": paused}) if given.json else print_text("paused" if paused else "runs by schedule again")
        return OK

    return command


def _log(given: argparse.Namespace, context: Context) -> int:
    runs = _curator(context).log.runs()
    wanted = runs[-given.limit :] if given.limit else runs
    if given.json:
        print_json(wanted)
        return OK
    for run in reversed(wanted):
        _print_run(run)
    if not wanted:
        print_text("the curator has not run yet")
    return OK


def _undo(given: argparse.Namespace, context: Context) -> int:
    undone = _curator(context).undo(given.run or "")
    if given.json:
        print_json(undone)
    else:
        print_text(f"run {undone['undoes']} was taken back ({', '.join(undone['changes']) or 'no memory change'})")
    return OK


def _curator(context: Context, *, helper: bool = False) -> Curator:
    parts = open_parts(context.home, settings=context.settings)
    ask = helper_for(context.settings) if helper else None
    return Curator(context.home, context.settings, parts.store, ask=ask)


def _last_active(context: Context) -> float:
    past = open_past(context.home)
    if past is None:
        return 0.0
    with past:
        return max((session.last_active for session in past.list_sessions(limit=1)), default=0.0)


def _skills(context: Context) -> dict[str, list[str]]:
    from hermes.skills.lifecycle import ACTIVE, archived, standings

    root, settings = context.home.join("skills"), context.settings
    ages = settings.integer("curator.stale_after_days"), settings.integer("curator.archive_after_days")
    found = standings(root, time.time(), *ages) if os.path.isdir(root) else []
    return {
        "pinned": [each.name for each in found if each.pinned],
        "stale": [each.name for each in found if each.state != ACTIVE and not each.pinned],
        "archived": sorted({each.name for each in archived(root)}),
    }


def _print_run(run: dict[str, Any]) -> None:
    print_text(_in_short(run))
    for operation in run.get("operations", ()):
        print_text(indented(operation["keep"], f"    {operation['kind']:<9} "))
        for old in (operation["drop"], operation.get("was")):
            if old:
                print_text(indented(old, "      was     "))
    for skill in run.get("skills", ()):
        print_text(f"    archived  skill {skill['name']}")
    _print_contradictions(run.get("contradictions", []))
    for why in run.get("refused", ()):
        print_text(f"    refused   {why}")


def _in_short(run: dict[str, Any]) -> str:
    if run.get("undoes"):
        return f"{run['id']}  {when(run['at'])}  undo of {run['undoes']}"
    name = "dry run" if run.get("dry_run") else run["id"]
    undone = f", taken back by {run['undone_by']}" if run.get("undone_by") else ""
    what = [counted(len(run["operations"]), "operation"), counted(len(run["contradictions"]), "contradiction")]
    what += [counted(len(run["skills"]), "skill") + " archived"] if run["skills"] else []
    what += [f"{run['put_off']} left for the next run"] if run["put_off"] else []
    return f"{name}  {when(run['at'])}  {run['trigger']}: {', '.join(what)}{undone}"


def _print_contradictions(found: list[dict[str, str]]) -> None:
    for each in found:
        print_text(f"  ! {each['target']}: {each['why']}; which one holds? `hermes memory remove` takes the other away")
        print_text(f"      {preview(each['one'])}")
        print_text(f"      {preview(each['other'])}")


def _configure_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="say what would be done and change nothing")
    parser.add_argument("--if-due", action="store_true", help="only when the schedule says so (for cron)")
    add_json_option(parser)


def _configure_log(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", "--limit", type=int, default=0, metavar="N", help="only the newest N (default: all)")
    add_json_option(parser)


def _configure_undo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", metavar="RUN", help="its id from the log (default: the newest that changed)")
    add_json_option(parser)


COMMANDS = {
    "status": (add_json_option, _status),
    "run": (_configure_run, _run),
    "pause": (add_json_option, _switch(paused=True)),
    "resume": (add_json_option, _switch(paused=False)),
    "log": (_configure_log, _log),
    "undo": (_configure_undo, _undo),
}
