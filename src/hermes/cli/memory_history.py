"""`hermes memory log`, `undo` and `diff`: what changed, who did it, and taking it back."""

from __future__ import annotations

from hermes.cli.context import OK
from hermes.cli.memory_report import BY_HAND, add_project, add_target, open_store, report
from hermes.cli.render import add_json_option, indented, print_json, print_problem, print_text, when
from hermes.curated.entries import preview
from hermes.curated.history import newest_to_undo, replay
from hermes.vocabulary.errors import NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from hermes.cli.context import Context
    from hermes.curated.history import Change
    from hermes.curated.store import MemoryStore


def _log(given: argparse.Namespace, context: Context) -> int:
    changes = _changes(open_store(context, given), given.target)
    told = _told(given.session, context, changes) if given.session else {}
    wanted = [each for each in changes if any(given.grep in entry for entry in each.removed() + each.added())]
    wanted = [each for each in reversed(wanted) if not given.session or each.id in told]
    wanted = wanted[: given.limit] if given.limit else wanted
    if given.json:
        print_json([_as_json(change) | ({"told": told[change.id]} if told else {}) for change in wanted])
        return OK
    if not wanted:
        print_text("no such change; `hermes memory log` shows all" if changes else "nothing has changed yet")
    for change in wanted:
        print_text(_headline(change))
        if told:
            print_text(f"      {told[change.id]}")
        _print_difference(change.removed(), change.added())
        for leaving in change.archived:
            print_text(f"      archived {preview(leaving.entry)!r}: {leaving.reason}")
    return OK


def _told(name: str, context: Context, changes: list[Change]) -> dict[str, str]:
    """How a conversation learnt of changes; loaded only when it is asked for."""
    from hermes.cli.sessions_report import named, open_existing
    from hermes.session.injections import how_told

    with open_existing(context) as db:
        return how_told(db, named(db, name).id, changes)


def _undo(given: argparse.Namespace, context: Context) -> int:
    store = open_store(context, given)
    changes = _changes(store)
    change = _find(store, given.change) if given.change else newest_to_undo(changes)
    if change is None:
        last = next((each.id for each in reversed(changes) if each.undoes), "")
        again = f"; `hermes memory undo {last}` takes the last undo back" if last else ""
        raise NotFound(f"there is nothing left to undo{again}")
    return report(given, store.undo(change.id, cause=BY_HAND))


def _diff(given: argparse.Namespace, context: Context) -> int:
    store = open_store(context, given)
    change = _find(store, given.since or given.change)
    if given.since:
        history = store.history(change.target)[0]
        before = replay(history[: [each.id for each in history].index(change.id)])
        now = store.entries(change.target)
        removed = [entry for entry in before if entry not in now]
        added = [entry for entry in now if entry not in before]
    else:
        removed, added = change.removed(), change.added()
    if given.json:
        print_json({"change": change.id, "target": change.target, "removed": removed, "added": added})
        return OK
    print_text(f"since {_headline(change)}" if given.since else _headline(change))
    _print_difference(removed, added)
    return OK


def _changes(store: MemoryStore, target: str | None = None) -> list[Change]:
    """The changes of one or all targets, oldest first."""
    found: list[Change] = []
    for each in [target] if target else store.targets:
        changes, damaged = store.history(each)
        found += changes
        if damaged:
            print_problem(f"{damaged} records of the {each} history are damaged and left out")
    return sorted(found, key=lambda change: change.at)


def _find(store: MemoryStore, change_id: str | None) -> Change:
    changes = _changes(store)
    for change in reversed(changes):
        if change_id in (None, change.id):
            return change
    raise NotFound(
        f"there is no change {change_id}; `hermes memory log` lists them" if changes else "nothing has changed yet"
    )


def _headline(change: Change) -> str:
    session = f" in session {change.cause.session}" if change.cause.session else ""
    undoes = f" of {change.undoes}" if change.undoes else ""
    note = f" ({change.cause.note})" if change.cause.note else ""
    who = f"{change.action}{undoes} by {change.cause.origin}{session}{note}"
    return f"{change.id}  {when(change.at)}  {change.target}  {who}"


def _print_difference(removed: list[str], added: list[str]) -> None:
    for entry in removed:
        print_text(indented(entry, "    - "))
    for entry in added:
        print_text(indented(entry, "    + "))


def _as_json(change: Change) -> dict[str, Any]:
    return {
        "id": change.id,
        "target": change.target,
        "at": change.at,
        "when": when(change.at),
        "action": change.action,
        "origin": change.cause.origin,
        "session": change.cause.session,
        "note": change.cause.note,
        "undoes": change.undoes or None,
        "removed": change.removed(),
        "added": change.added(),
        "archived": [{"entry": each.entry, "reason": each.reason, "into": each.into} for each in change.archived],
    }


def _configure_log(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", "--limit", type=int, default=0, metavar="N", help="only the newest N (default: all)")
    parser.add_argument("--grep", default="", metavar="TEXT", help="only changes whose entries contain this")
    parser.add_argument(
        "--session", metavar="ID|TITLE", help="only what this conversation was told or wrote, and when and how"
    )
    add_target(parser, default=None)


def _configure_undo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("change", nargs="?", metavar="CHANGE", help="its id from the log (default: the newest change)")
    add_project(parser)
    add_json_option(parser)


def _configure_diff(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("change", nargs="?", metavar="CHANGE", help="its id from the log (default: the newest change)")
    parser.add_argument("--since", metavar="CHANGE", help="from the state before this change until now")
    add_project(parser)
    add_json_option(parser)


COMMANDS = {
    "log": (_configure_log, _log),
    "undo": (_configure_undo, _undo),
    "diff": (_configure_diff, _diff),
}
