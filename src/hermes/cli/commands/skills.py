"""`hermes skills` and `hermes curator`: the agent's procedures, and the tidying in the background."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from hermes.base.errors import NotFound, WriteRefused
from hermes.base.text import counted
from hermes.cli.output import (
    OK,
    add_ids,
    add_json_option,
    chosen_ids,
    indented,
    pick,
    print_json,
    print_text,
    show,
    when,
)
from hermes.memory.entries import preview
from hermes.session.curator import Curator, helper_for
from hermes.session.history import open_past
from hermes.session.parts import open_parts
from hermes.skills import lifecycle
from hermes.skills.lifecycle import PendingSkills

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import Any

    from hermes.cli.output import Context
    from hermes.skills.lifecycle import PendingSkill


def _list(given: argparse.Namespace, context: Context) -> int:
    found = _call(context, "skills_list", {"category": given.category} if given.category else {})
    if given.json:
        print_json(found["skills"])
        return OK
    for skill in found["skills"]:
        note = f"  ({skill['note']})" if skill.get("note") else ""
        print_text(f"{skill['category']}/{skill['name']}  {skill['description']}{note}")
    if not found["skills"]:
        print_text(found["message"])
    return OK


def _show(given: argparse.Namespace, context: Context) -> int:
    arguments = {"name": given.name} | ({"file_path": given.file} if given.file else {})
    found = _call(context, "skill_view", arguments)
    return show(
        given,
        found,
        found["content"],
        *(f"linked: {path}" for path in [path for paths in found.get("linked_files", {}).values() for path in paths]),
    )


def _path(given: argparse.Namespace, context: Context) -> int:
    folder = context.home.join("skills")
    if given.name:
        folder = os.path.join(folder, os.path.dirname(_call(context, "skill_view", {"name": given.name})["path"]))
    return show(given, {"path": folder}, folder)


def _call(context: Context, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    result = open_parts(context.home, settings=context.settings).skills.handle(tool, arguments)
    if not result["success"]:
        more = [*result.get("available_skills", ()), *result.get("matches", ()), *result.get("available_files", ())]
        raise NotFound(f"{result['error']}" + (f" (there are: {', '.join(more)})" if more else ""))
    return result


def _configure_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--category", help="only this category")
    add_json_option(parser)


def _configure_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the skill, or category/name")
    parser.add_argument("--file", metavar="PATH", help="one of its linked files")
    add_json_option(parser)


def _configure_path(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="a skill (default: the folder of all skills)")
    add_json_option(parser)


# `hermes skills` where a person decides: what stays, what leaves, what comes back, what waits for approval.

_LISTING = "hermes skills pending"


def _usage(given: argparse.Namespace, context: Context) -> int:
    found = _skill_states(context)
    gone = lifecycle.archived(_root(context))
    if given.json:
        shown = [pick(each, "name", "state", "last_used", "views", "changes", "pinned") for each in found]
        print_json({"skills": shown, "archived": [pick(each, "name", "stamp") for each in gone]})
        return OK
    for each in found:
        state = "pinned" if each.pinned else "due for the archive" if each.state == lifecycle.DUE else each.state
        print_text(
            f"{each.name}  {state}, opened {each.views}, changed {each.changes}, last {when(each.last_used)[:10]}"
        )
    for archived in gone:
        print_text(f"{archived.name}  archived {archived.stamp}")
    if not found and not gone:
        print_text("there are no skills yet")
    return OK


def _one(act: Callable[[str, str], str], done: str) -> Callable[[argparse.Namespace, Context], int]:
    """A command about one skill: what to do with the skills folder and its name, and how to say that it is done."""

    def command(given: argparse.Namespace, context: Context) -> int:
        try:
            name = act(_root(context), given.name)
        except WriteRefused as refusal:
            known = refusal.details.get("available_skills")
            more = f" (there are: {', '.join(known)})" if isinstance(known, list) and known else "; there are none yet"
            raise NotFound(f"{refusal}{more}") from refusal
        return show(given, {"name": name, "done": done}, f"{done}: {name}")

    return command


def _pending(given: argparse.Namespace, context: Context) -> int:
    waiting = _pendings(context).all()
    if given.json:
        print_json([_as_json(each) for each in waiting])
        return OK
    for each in waiting:
        print_text(f"{each.id}  {when(each.created_at)}  {each.summary}  by {each.origin}")
        print_text(f"          because {each.reason}")
    if not waiting:
        print_text("nothing is pending")
    return OK


def _approve(given: argparse.Namespace, context: Context) -> int:
    pending, skills = _pendings(context), open_parts(context.home, settings=context.settings).skills
    done = []
    for each in _chosen(given, pending):
        result = skills.handle("skill_manage", each.arguments)
        if not result["success"]:
            raise WriteRefused(f"{each.id} stays pending: {result['error']}", kind="refused")
        pending.drop(each.id)
        done.append({"id": each.id, "message": result["message"]})
    return show(given, done, *(f"{one['id']}: {one['message']}" for one in done))


def _reject(given: argparse.Namespace, context: Context) -> int:
    pending = _pendings(context)
    rejected = _chosen(given, pending)
    for each in rejected:
        pending.drop(each.id)
    return show(
        given, [_as_json(each) for each in rejected], *(f"{each.id} rejected: {each.summary}" for each in rejected)
    )


def _chosen(given: argparse.Namespace, pending: PendingSkills) -> list[PendingSkill]:
    ids = chosen_ids(given, _LISTING, lambda: (each.id for each in pending.all()))
    return [pending.get(each) for each in ids]


def _skill_states(context: Context) -> list[lifecycle.SkillState]:
    settings = context.settings
    ages = settings.integer("curator.stale_after_days"), settings.integer("curator.archive_after_days")
    return lifecycle.skill_states(_root(context), time.time(), *ages)


def _root(context: Context) -> str:
    return context.home.join("skills")


def _pendings(context: Context) -> PendingSkills:
    return PendingSkills(context.home.join("pending", "skills"))


def _as_json(pending: PendingSkill) -> dict[str, Any]:
    return pick(pending, "id", "arguments", "origin", "session", "created_at", "reason")


def _configure_one(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the skill, or category/name")
    add_json_option(parser)


def _configure_decision(parser: argparse.ArgumentParser) -> None:
    add_ids(parser, _LISTING)
    add_json_option(parser)


# `hermes curator`: look at the background tidying, run it, pause it, read what it did, take it back.


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
        return show(given, {"ran": False, "because": why}, f"not now: {why}")
    run = curator.run(trigger="schedule" if given.if_due else "by hand", dry_run=given.dry_run)
    if given.json:
        print_json(run)
        return OK
    _print_run(run)
    return OK


def _switch(*, paused: bool) -> Callable[[argparse.Namespace, Context], int]:
    def command(given: argparse.Namespace, context: Context) -> int:
        _curator(context).log.set(paused=paused)
        return show(given, {"paused": paused}, "paused" if paused else "runs by schedule again")

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
    return show(
        given, undone, f"run {undone['undoes']} was taken back ({', '.join(undone['changes']) or 'no memory change'})"
    )


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
    root = _root(context)
    found = _skill_states(context) if os.path.isdir(root) else []
    return {
        "pinned": [each.name for each in found if each.pinned],
        "stale": [each.name for each in found if each.state != lifecycle.ACTIVE and not each.pinned],
        "archived": sorted({each.name for each in lifecycle.archived(root)}),
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
    "skills list": (_configure_list, _list),
    "skills show": (_configure_show, _show),
    "skills path": (_configure_path, _path),
    "skills usage": (add_json_option, _usage),
    "skills pin": (_configure_one, _one(lambda root, name: lifecycle.pin(root, name, pinned=True), "pinned")),
    "skills unpin": (
        _configure_one,
        _one(lambda root, name: lifecycle.pin(root, name, pinned=False), "no longer pinned"),
    ),
    "skills archive": (
        _configure_one,
        _one(lambda root, name: lifecycle.archive(root, name, time.time())[0], "archived"),
    ),
    "skills restore": (_configure_one, _one(lifecycle.restore, "restored")),
    "skills pending": (add_json_option, _pending),
    "skills approve": (_configure_decision, _approve),
    "skills reject": (_configure_decision, _reject),
    "curator status": (add_json_option, _status),
    "curator run": (_configure_run, _run),
    "curator pause": (add_json_option, _switch(paused=True)),
    "curator resume": (add_json_option, _switch(paused=False)),
    "curator log": (_configure_log, _log),
    "curator undo": (_configure_undo, _undo),
}
