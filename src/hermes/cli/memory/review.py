"""`hermes memory` where a person decides: pending writes, edited files, scans, imports, starting over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.base.errors import NotConfirmed, StorageError
from hermes.base.text import counted
from hermes.cli.commands.inspect import judge, print_judged
from hermes.cli.commands.portability import carry_out
from hermes.cli.memory.entries import BY_HAND, add_project, add_target, open_store, report, report_all
from hermes.cli.output import (
    OK,
    REFUSED,
    add_ids,
    add_json_option,
    chosen_ids,
    confirmed,
    print_json,
    print_problem,
    print_text,
    show,
    when,
)
from hermes.memory.approval import Approvals
from hermes.memory.operations import usage
from hermes.memory.store import TARGETS
from hermes.operations.checks import examine
from hermes.portability.notes import FORMATS, MemoryImport
from hermes.safety.scanner import scan_entries
from hermes.session.external import chosen_providers
from hermes.settings.home import named_project

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from hermes.cli.output import Context
    from hermes.memory.store import MemoryStore


def _print_providers(found: list[dict[str, Any]]) -> None:
    for each in found:
        print_text(f"provider {each['name']}: {_in_short(each)}")
        if each.get("runs"):
            print_text(f"        runs {each['runs']}")
        for key, text in (each.get("config") or {}).items():
            print_text(f"        {key}: {text}")
        for field in each.get("missing") or ():
            where = f" ({field['url']})" if field["url"] else ""
            print_text(f"        ! {field['variable'] or field['key']} is missing{where}")
        if each["waiting"]:
            print_text(f"        {counted(each['waiting'], 'call')} waiting to be handed over")
        if each["refused"]:
            print_text(f"        ! {counted(each['refused'], 'call')} refused and set aside")
        if each.get("last"):
            print_text(f"        {when(each['last_at'])}: {each['last']}")


def _in_short(found: dict[str, Any]) -> str:
    if found["problem"]:
        return f"! {found['problem']}"
    if not found["available"]:
        return "! not available: packages or settings are missing (`hermes memory setup`)"
    return str(found["connection"] or "available")


# `hermes memory` where a person decides: pending writes, a file somebody edited, starting over; and its status.

_LISTING = "hermes memory pending"


def _status(given: argparse.Namespace, context: Context) -> int:
    store = open_store(context, given)
    waiting, unreadable = Approvals(context.home).pending()
    targets = (*TARGETS, "project") if "project" in store.targets else TARGETS
    files = {target: _file_status(store, target) for target in targets}
    names = chosen_providers(context.settings)
    providers = [examine(context.home, context.settings, name, connect=not given.offline) for name in names]
    if given.json:
        print_json(
            {
                "home": context.home.path,
                "files": files,
                "write_approval": context.settings.flag("memory.write_approval"),
                "pending": len(waiting),
                "unreadable_pending": unreadable,
                "providers": providers,
            }
        )
        return OK
    for target, state in files.items():
        print_text(f"{target:<7} {state['usage'] if state['enabled'] else 'switched off'}")
        if state["enabled"]:
            held = f"{counted(state['entries'] or 0, 'entry', 'entries')}, {counted(state['changes'] or 0, 'change')}"
            print_text(f"        {state['file']}: {held} in the log")
        if state["problem"]:
            print_text(f"        ! {state['problem']}")
    approval = "on" if context.settings.flag("memory.write_approval") else "off"
    print_text(f"write approval is {approval}; {counted(len(waiting), 'write')} pending")
    for path in unreadable:
        print_text(f"! {path} cannot be understood; look at it and remove it")
    if providers:
        _print_providers(providers)
    else:
        print_text("no external memory (`hermes memory setup`)")
    return OK


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


def _pending(given: argparse.Namespace, context: Context) -> int:
    waiting, unreadable = Approvals(context.home).pending()
    if given.json:
        print_json([each.as_dict() for each in waiting])
        return OK
    for each in waiting:
        print_text(f"{each.id}  {when(each.created_at)}  {each.target}  by {each.cause.origin}  {each.summary}")
        if each.reason:
            print_text(f"          because {each.reason}")
    for path in unreadable:
        print_problem(f"{path} cannot be understood; look at it and remove it")
    if not waiting:
        print_text("nothing is pending")
    return OK


def _approve(given: argparse.Namespace, context: Context) -> int:
    approvals, store = Approvals(context.home), open_store(context, given)
    return report_all(given, [approvals.approve(pending_id, store) for pending_id in _chosen(given, approvals)])


def _reject(given: argparse.Namespace, context: Context) -> int:
    approvals = Approvals(context.home)
    rejected = [approvals.reject(pending_id) for pending_id in _chosen(given, approvals)]
    return show(
        given, [each.as_dict() for each in rejected], *(f"{each.id} rejected: {each.summary}" for each in rejected)
    )


def _chosen(given: argparse.Namespace, approvals: Approvals) -> list[str]:
    return chosen_ids(given, _LISTING, lambda: (each.id for each in approvals.pending()[0]))


def _adopt(given: argparse.Namespace, context: Context) -> int:
    store = open_store(context, given)
    return report(given, store.adopt(given.target, cause=BY_HAND))


def _reset(given: argparse.Namespace, context: Context) -> int:
    store = open_store(context, given)
    everything = ["project"] if given.project else list(store.targets)
    targets = [given.target] if given.target else everything
    if not given.yes and not confirmed(f"forget everything in {' and '.join(targets)}?"):
        raise NotConfirmed("nothing was changed (use --yes to skip the question)")
    return report_all(given, [store.reset(target, cause=BY_HAND) for target in targets])


def _configure_status(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--offline", action="store_true", help="do not ask the backends of external memory")
    add_project(parser)
    add_json_option(parser)


def _configure_decision(parser: argparse.ArgumentParser) -> None:
    add_ids(parser, _LISTING)
    add_project(parser)
    add_json_option(parser)


def _configure_reset(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_target(parser, default=None)


# `hermes memory scan`: the scanner's verdict on what is already stored, with the origin of each entry.


def _scan_memory(given: argparse.Namespace, context: Context) -> int:
    judged = list(_stored(context))
    flagged = [each for each in judged if each["verdict"] != "clean"]
    if given.json:
        print_json({"entries": len(judged), "flagged": flagged})
    else:
        for each in flagged:
            print_text(f"{each['target']} entry {each['number']}, by {each['origin']}")
            print_judged(each)
        print_text(f"{counted(len(judged), 'entry', 'entries')} scanned, {len(flagged)} flagged")
    return REFUSED if flagged else OK


def _stored(context: Context) -> Iterator[dict[str, Any]]:
    store = open_store(context)
    for target in store.targets:
        entries = store.entries(target)
        origins = store.provenance(target)
        for number, (entry, verdict) in enumerate(zip(entries, scan_entries(entries), strict=True), start=1):
            yield {"target": target, "number": number, "origin": origins[entry].origin, **judge(entry, verdict)}


def _import(given: argparse.Namespace, context: Context) -> int:
    project = named_project(given.project) if given.project else ""
    work = MemoryImport(context.home, given.source, given.format, given.target, project)
    report = work.plan()
    code = carry_out(given, work, report)
    return code or (REFUSED if report.warnings else code)


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source", metavar="FILE|FOLDER|NAME", help="what to read; claude-code or codex: their usual places"
    )
    parser.add_argument("--format", choices=FORMATS, help="what it is (default: recognised by itself)")
    parser.add_argument("--target", choices=("memory", "user"), help="where all of it goes (default: by what it is)")
    parser.add_argument("--project", metavar="NAME", help="into the notes of this project")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be done")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_json_option(parser)


COMMANDS = {
    "memory status": (_configure_status, _status),
    "memory pending": (add_json_option, _pending),
    "memory approve": (_configure_decision, _approve),
    "memory reject": (_configure_decision, _reject),
    "memory adopt": (add_target, _adopt),
    "memory reset": (_configure_reset, _reset),
    "memory scan": (add_json_option, _scan_memory),
    "memory import": (_configure, _import),
}
