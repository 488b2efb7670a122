"""`hermes skills` and `hermes curator`: the agent's procedures, and the curation of memory and skills."""

from __future__ import annotations

import os
import time
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from hermes.base.errors import NotFound, WriteRefused
from hermes.base.text import counted
from hermes.cli import ui
from hermes.memory.entries import preview
from hermes.session.curator import Curator, helper_for
from hermes.session.models import Background
from hermes.session.parts import open_parts, open_past
from hermes.skills import files
from hermes.skills.files import skills_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def skills_list(given: ui.Given, context: ui.Context) -> None:
    """Lists the skills, or those of one category."""
    found, lines = _call(context, "skills_list", {"category": given.category} if given.category else {}), []
    for each in found["skills"]:
        note = f"  ({each['note']})" if each.get("note") else ""
        lines.append(f"{each['category']}/{each['name']}  {each['description']}{note}")
    ui.show(given, found["skills"], *(lines or [found["message"]]))


def skills_show(given: ui.Given, context: ui.Context) -> None:
    """Prints a skill as the model sees it, or one of its files."""
    arguments = {"name": given.name} | ({"file_path": given.file} if given.file else {})
    found = _call(context, "skill_view", arguments)
    linked = [f"linked: {path}" for paths in found.get("linked_files", {}).values() for path in paths]
    ui.show(given, found, found["content"], *linked)


def skills_path(given: ui.Given, context: ui.Context) -> None:
    """Prints the folder of all skills, or of one."""
    folder = context.home.join("skills")
    if given.name:
        folder = os.path.join(folder, os.path.dirname(_call(context, "skill_view", {"name": given.name})["path"]))
    ui.show(given, {"path": folder}, folder)


def _call(context: ui.Context, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Calls a skill tool as a model would; a failure becomes `NotFound` with the names that exist."""
    result = open_parts(context.home, settings=context.settings).skills.handle(tool, arguments)
    if not result["success"]:
        more = [*result.get("available_skills", ()), *result.get("matches", ()), *result.get("available_files", ())]
        raise NotFound(f"{result['error']}" + (f" (there are: {', '.join(more)})" if more else ""))
    return result


def skills_usage(given: ui.Given, context: ui.Context) -> None:
    """Prints how often and when each skill was used, and which are archived."""
    found = _skill_states(context)
    gone = files.archived(_root(context))
    lines = []
    for each in found:
        state = "pinned" if each.pinned else "due for the archive" if each.state == files.DUE else each.state
        last = ui.when(each.last_used)[:10]
        lines.append(f"{each.name}  {state}, opened {each.views}, changed {each.changes}, last {last}")
    lines += [f"{each.name}  archived {each.stamp}" for each in gone]
    shown = [ui.pick(each, "name", "state", "last_used", "views", "changes", "pinned") for each in found]
    document = {"skills": shown, "archived": [ui.pick(each, "name", "stamp") for each in gone]}
    ui.show(given, document, *(lines or ["there are no skills yet"]))


def _one(act: Callable[[str, str], str], done: str) -> Callable[[ui.Given, ui.Context], None]:
    """Makes a command about one skill; `act` gets the skills folder and the name, `done` says what happened."""

    def command(given: ui.Given, context: ui.Context) -> None:
        try:
            with skills_folder(context.home).changing():
                name = act(_root(context), given.name)
        except WriteRefused as refusal:
            known = refusal.details.get("available_skills")
            more = f" (there are: {', '.join(known)})" if isinstance(known, list) and known else "; there are none yet"
            raise NotFound(f"{refusal}{more}") from refusal
        ui.show(given, {"name": name, "done": done}, f"{done}: {name}")

    return command


skills_pin = _one(partial(files.pin, pinned=True), "pinned")
skills_unpin = _one(partial(files.pin, pinned=False), "no longer pinned")
skills_archive = _one(lambda root, name: files.archive(root, name, time.time())[0], "archived")
skills_restore = _one(files.restore, "restored")


def _skill_states(context: ui.Context) -> list[files.SkillState]:
    settings = context.settings
    ages = settings.integer("curator.stale_after_days"), settings.integer("curator.archive_after_days")
    return files.skill_states(_root(context), time.time(), *ages)


def _root(context: ui.Context) -> str:
    folder = skills_folder(context.home)
    folder.sync()
    return folder.path


def curator_status(given: ui.Given, context: ui.Context) -> None:
    """Prints why the curator does not run now, its last run, contradictions and the age of skills."""
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
    lines = [f"curator   {state['waits_because'] or 'due now'}"]
    lines.append(f"last run  {_in_short(last) if last else 'none yet'}")
    lines += [f"skills    {name}: {', '.join(names) or 'none'}" for name, names in state["skills"].items()]
    ui.show(given, state, *lines, *_contradictions(state["contradictions"]))


def curator_run(given: ui.Given, context: ui.Context) -> None:
    """Runs the curator now, or with `--if-due` only if its schedule and budget allow."""
    with open_past(context.home) or nullcontext() as past:
        budget = Background(past, context.settings) if past is not None else None
        curator = _curator(context, budget, helper=True)
        why = curator.why_not_now(_last_active(context)) if given.if_due else ""
        if given.if_due and budget is not None and context.settings.flag("curator.consolidate"):
            why = why or budget.why_not()
        if why:
            ui.show(given, {"ran": False, "because": why}, f"not now: {why}")
            return
        run = curator.run(trigger="schedule" if given.if_due else "by hand", dry_run=given.dry_run)
    ui.show(given, run, *_run_lines(run))


def curator_pause(given: ui.Given, context: ui.Context, *, paused: bool = True) -> None:
    """Stops the curator from running by schedule; `curator resume` undoes that."""
    _curator(context).log.set(paused=paused)
    ui.show(given, {"paused": paused}, "paused" if paused else "runs by schedule again")


curator_resume = partial(curator_pause, paused=False)


def curator_log(given: ui.Given, context: ui.Context) -> None:
    """Prints past runs of the curator and what they changed, the newest first."""
    runs = _curator(context).log.runs()
    wanted = runs[-given.limit :] if given.limit else runs
    lines = [line for run in reversed(wanted) for line in _run_lines(run)]
    ui.show(given, wanted, *(lines or ["the curator has not run yet"]))


def curator_undo(given: ui.Given, context: ui.Context) -> None:
    """Takes back everything a run of the curator changed, by default the newest one."""
    undone = _curator(context).undo(given.run or "")
    changes = ", ".join(undone["changes"]) or "it had not changed memory"
    ui.show(given, undone, f"run {undone['undoes']} is undone ({changes})")


def _curator(context: ui.Context, budget: Background | None = None, *, helper: bool = False) -> Curator:
    parts = open_parts(context.home, settings=context.settings)
    ask = helper_for(context.settings, budget) if helper else None
    return Curator(context.home, context.settings, parts.store, ask=ask)


def _last_active(context: ui.Context) -> float:
    """When a conversation was last used: the curator waits for a quiet time."""
    past = open_past(context.home)
    if past is None:
        return 0.0
    with past:
        return max((session.last_active for session in past.list_sessions(limit=1)), default=0.0)


def _skills(context: ui.Context) -> dict[str, list[str]]:
    root = _root(context)
    found = _skill_states(context) if os.path.isdir(root) else []
    return {
        "pinned": [each.name for each in found if each.pinned],
        "stale": [each.name for each in found if each.state != files.ACTIVE and not each.pinned],
        "archived": sorted({each.name for each in files.archived(root)}),
    }


def _run_lines(run: dict[str, Any]) -> Iterator[str]:
    yield _in_short(run)
    for operation in run.get("operations", ()):
        yield ui.indented(operation["keep"], f"    {operation['kind']:<9} ")
        for old in filter(None, (operation["drop"], operation.get("was"))):
            yield ui.indented(old, "      was     ")
    for skill in run.get("skills", ()):
        yield f"    archived  skill {skill['name']}"
    yield from _contradictions(run.get("contradictions", []))
    for why in run.get("refused", ()):
        yield f"    refused   {why}"


def _in_short(run: dict[str, Any]) -> str:
    if run.get("undoes"):
        return f"{run['id']}  {ui.when(run['at'])}  undo of {run['undoes']}"
    name = "dry run" if run.get("dry_run") else run["id"]
    undone = f", taken back by {run['undone_by']}" if run.get("undone_by") else ""
    what = [counted(len(run["operations"]), "operation"), counted(len(run["contradictions"]), "contradiction")]
    what += [counted(len(run["skills"]), "skill") + " archived"] if run["skills"] else []
    what += [f"{run['put_off']} left for the next run"] if run["put_off"] else []
    return f"{name}  {ui.when(run['at'])}  {run['trigger']}: {', '.join(what)}{undone}"


def _contradictions(found: list[dict[str, str]]) -> Iterator[str]:
    for each in found:
        yield f"  ! {each['target']}: {each['why']}; which one is true? `hermes memory remove` removes the other"
        yield f"      {preview(each['one'])}\n      {preview(each['other'])}"
