"""`hermes memory` where a person decides: pending writes, a file somebody edited, starting over; and its status."""

from __future__ import annotations

from hermes.cli.context import OK
from hermes.cli.decisions import add_ids, chosen_ids
from hermes.cli.memory_report import BY_HAND, add_project, add_target, open_store, report, report_all
from hermes.cli.questions import confirmed
from hermes.cli.render import add_json_option, print_all, print_json, print_problem, print_text, when
from hermes.curated.approval import Approvals
from hermes.curated.operations import usage
from hermes.curated.store import TARGETS
from hermes.vocabulary.errors import NotConfirmed, StorageError
from hermes.vocabulary.words import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from hermes.cli.context import Context
    from hermes.curated.store import MemoryStore

_LISTING = "hermes memory pending"


def _status(given: argparse.Namespace, context: Context) -> int:
    store = open_store(context, given)
    waiting, unreadable = Approvals(context.home).pending()
    targets = (*TARGETS, "project") if "project" in store.targets else TARGETS
    files = {target: _file_status(store, target) for target in targets}
    providers = _providers(given, context)
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
        from hermes.cli.memory_providers import print_providers

        print_providers(providers)
    else:
        print_text("no external memory (`hermes memory setup`)")
    return OK


def _providers(given: argparse.Namespace, context: Context) -> list[dict[str, Any]]:
    """The external providers in use, each really looked at; nothing is loaded when there is none."""
    if not (context.settings.text("memory.provider") or context.settings.texts("memory.providers")):
        return []
    from hermes.cli.memory_providers import examined

    return examined(context, connect=not given.offline)


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
    print_all(given, rejected, lambda each: each.as_dict(), lambda each: f"{each.id} rejected: {each.summary}")
    return OK


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


COMMANDS = {
    "status": (_configure_status, _status),
    "pending": (add_json_option, _pending),
    "approve": (_configure_decision, _approve),
    "reject": (_configure_decision, _reject),
    "adopt": (add_target, _adopt),
    "reset": (_configure_reset, _reset),
}
