"""`hermes memory` where a person decides: pending writes, edited files, scans, imports, starting over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.base.errors import NotConfirmed, StorageError
from hermes.base.text import counted
from hermes.cli import ui
from hermes.cli.commands.inspect import judge, print_judged
from hermes.cli.commands.portability import carry_out
from hermes.cli.memory.entries import BY_HAND, PROJECT, open_store, report, report_all, targets
from hermes.memory.approval import Approvals
from hermes.memory.store import TARGETS, usage
from hermes.operations.checks import examine
from hermes.portability.notes import FORMATS, MemoryImport
from hermes.safety.scanner import scan_entries
from hermes.session.external import chosen_providers
from hermes.settings.home import named_project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes.memory.store import MemoryStore


def _print_providers(found: list[dict[str, Any]]) -> None:
    for each in found:
        ui.line(f"provider {each['name']}: {_in_short(each)}")
        if each.get("runs"):
            ui.line(f"        runs {each['runs']}")
        for key, text in (each.get("config") or {}).items():
            ui.line(f"        {key}: {text}")
        for field in each.get("missing") or ():
            where = f" ({field['url']})" if field["url"] else ""
            ui.line(f"        ! {field['variable'] or field['key']} is missing{where}")
        if each["waiting"]:
            ui.line(f"        {counted(each['waiting'], 'call')} waiting to be handed over")
        if each["refused"]:
            ui.line(f"        ! {counted(each['refused'], 'call')} refused and set aside")
        if each.get("last"):
            ui.line(f"        {ui.when(each['last_at'])}: {each['last']}")


def _in_short(found: dict[str, Any]) -> str:
    if found["problem"]:
        return f"! {found['problem']}"
    if not found["available"]:
        return "! not available: packages or settings are missing (`hermes memory setup`)"
    return str(found["connection"] or "available")


# `hermes memory` where a person decides: pending writes, a file somebody edited, starting over; and its status.

_LISTING = "hermes memory pending"


def _status(given: ui.Given, context: ui.Context) -> int:
    store = open_store(context, given)
    waiting, unreadable = Approvals(context.home).pending()
    targets = (*TARGETS, "project") if "project" in store.targets else TARGETS
    files = {target: _file_status(store, target) for target in targets}
    names = chosen_providers(context.settings)
    providers = [examine(context.home, context.settings, name, connect=not given.offline) for name in names]
    if given.json:
        ui.print_json(
            {
                "home": context.home.path,
                "files": files,
                "write_approval": context.settings.flag("memory.write_approval"),
                "pending": len(waiting),
                "unreadable_pending": unreadable,
                "providers": providers,
            }
        )
        return ui.OK
    for target, state in files.items():
        ui.line(f"{target:<7} {state['usage'] if state['enabled'] else 'switched off'}")
        if state["enabled"]:
            held = f"{counted(state['entries'] or 0, 'entry', 'entries')}, {counted(state['changes'] or 0, 'change')}"
            ui.line(f"        {state['file']}: {held} in the log")
        if state["problem"]:
            ui.line(f"        ! {state['problem']}")
    approval = "on" if context.settings.flag("memory.write_approval") else "off"
    ui.line(f"write approval is {approval}; {counted(len(waiting), 'write')} pending")
    for path in unreadable:
        ui.line(f"! {path} cannot be understood; look at it and remove it")
    if providers:
        _print_providers(providers)
    else:
        ui.line("no external memory (`hermes memory setup`)")
    return ui.OK


def _file_status(store: MemoryStore, target: str) -> dict[str, Any]:
    if target not in store.targets:
        return {"enabled": False, "problem": None}
    state: dict[str, Any] = {"enabled": True, "file": store.path(target), "limit": store.limit(target)}
    try:
        reading, (changes, damaged) = store.read(target), store.history(target)
    except StorageError as error:
        return {**state, "entries": None, "changes": None, "usage": "cannot be read", "problem": str(error)}
    problem = reading.drift or (f"{damaged} records of its history are damaged" if damaged else None)
    return {
        **state,
        "entries": len(reading.entries),
        "usage": usage(reading.entries, store.limit(target)),
        "changes": len(changes),
        "problem": problem,
    }


def _pending(given: ui.Given, context: ui.Context) -> int:
    waiting, unreadable = Approvals(context.home).pending()
    if given.json:
        ui.print_json([each.as_dict() for each in waiting])
        return ui.OK
    for each in waiting:
        ui.line(f"{each.id}  {ui.when(each.created_at)}  {each.target}  by {each.cause.origin}  {each.summary}")
        if each.reason:
            ui.line(f"          because {each.reason}")
    for path in unreadable:
        ui.problem(f"{path} cannot be understood; look at it and remove it")
    if not waiting:
        ui.line("nothing is pending")
    return ui.OK


def _approve(given: ui.Given, context: ui.Context) -> int:
    approvals, store = Approvals(context.home), open_store(context, given)
    return report_all(given, [approvals.approve(pending_id, store) for pending_id in _chosen(given, approvals)])


def _reject(given: ui.Given, context: ui.Context) -> int:
    approvals = Approvals(context.home)
    rejected = [approvals.reject(pending_id) for pending_id in _chosen(given, approvals)]
    return ui.show(
        given, [each.as_dict() for each in rejected], *(f"{each.id} rejected: {each.summary}" for each in rejected)
    )


def _chosen(given: ui.Given, approvals: Approvals) -> list[str]:
    return ui.chosen_ids(given, _LISTING, lambda: (each.id for each in approvals.pending()[0]))


def _adopt(given: ui.Given, context: ui.Context) -> int:
    store = open_store(context, given)
    return report(given, store.adopt(given.target, cause=BY_HAND))


def _reset(given: ui.Given, context: ui.Context) -> int:
    store = open_store(context, given)
    everything = ["project"] if given.project else list(store.targets)
    targets = [given.target] if given.target else everything
    if not given.yes and not ui.confirmed(f"forget everything in {' and '.join(targets)}?"):
        raise NotConfirmed("nothing was changed (use --yes to skip the question)")
    return report_all(given, [store.reset(target, cause=BY_HAND) for target in targets])


# `hermes memory scan`: the scanner's verdict on what is already stored, with the origin of each entry.


def _scan_memory(given: ui.Given, context: ui.Context) -> int:
    judged = list(_stored(context))
    flagged = [each for each in judged if each["verdict"] != "clean"]
    if given.json:
        ui.print_json({"entries": len(judged), "flagged": flagged})
    else:
        for each in flagged:
            ui.line(f"{each['target']} entry {each['number']}, by {each['origin']}")
            print_judged(each)
        ui.line(f"{counted(len(judged), 'entry', 'entries')} scanned, {len(flagged)} flagged")
    return ui.REFUSED if flagged else ui.OK


def _stored(context: ui.Context) -> Iterator[dict[str, Any]]:
    store = open_store(context)
    for target in store.targets:
        entries = store.entries(target)
        origins = store.provenance(target)
        for number, (entry, verdict) in enumerate(zip(entries, scan_entries(entries), strict=True), start=1):
            yield {"target": target, "number": number, "origin": origins[entry].origin, **judge(entry, verdict)}


def _import(given: ui.Given, context: ui.Context) -> int:
    project = named_project(given.project) if given.project else ""
    work = MemoryImport(context.home, given.source, given.format, given.target, project)
    report = work.plan()
    code = carry_out(given, work, report)
    return code or (ui.REFUSED if report.warnings else code)


_DECISION = (*ui.ids(_LISTING), PROJECT)


COMMANDS = {
    "memory status": ui.command(_status, ui.option("--offline", "do not ask the backends of external memory"), PROJECT),
    "memory pending": ui.command(_pending),
    "memory approve": ui.command(_approve, *_DECISION),
    "memory reject": ui.command(_reject, *_DECISION),
    "memory adopt": ui.command(_adopt, *targets()),
    "memory reset": ui.command(_reset, ui.YES, *targets(None)),
    "memory scan": ui.command(_scan_memory),
    "memory import": ui.command(
        _import,
        ui.option("source FILE|FOLDER|NAME", "what to read; claude-code or codex: their usual places"),
        ui.option("--format", "what it is (default: recognised by itself)", choices=FORMATS),
        ui.option("--target", "where all of it goes (default: by what it is)", choices=("memory", "user")),
        ui.option("--project NAME", "into the notes of this project"),
        ui.DRY_RUN,
        ui.YES,
    ),
}
