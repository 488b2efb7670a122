"""`hermes memory list`, `add`, `replace` and `remove`: the entries themselves."""

from __future__ import annotations

import sys

from hermes.cli.context import OK
from hermes.cli.memory_report import BY_HAND, add_target, open_store, report
from hermes.cli.render import indented, print_json, print_text
from hermes.curated.operations import usage
from hermes.curated.provenance import is_trusted, provenance
from hermes.vocabulary.errors import WriteRefused

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from typing import Any

    from hermes.cli.context import Context
    from hermes.curated.store import MemoryStore


def _list(given: argparse.Namespace, context: Context) -> int:
    store = open_store(context, given)
    if given.archived:
        from hermes.cli.memory_archive import list_archived

        return list_archived(given, store)
    readings = {target: store.read(target) for target in ([given.target] if given.target else store.targets)}
    if given.json:
        print_json(
            {
                target: {
                    "entries": list(reading.entries),
                    "usage": usage(reading.entries, store.limit(target)),
                    "limit": store.limit(target),
                    "file": store.path(target),
                    "problem": reading.drift or None,
                    **_beside(store, target, reading.entries),
                }
                for target, reading in readings.items()
            }
        )
        return OK
    for target, reading in readings.items():
        print_text(f"{target}  {usage(reading.entries, store.limit(target))}")
        beside = _beside(store, target, reading.entries)
        for number, entry in enumerate(reading.entries, start=1):
            print_text(indented(entry, f"{number:>4} {'*' if entry in beside['pinned'] else ' '}"))
            if (origin := beside["origins"][entry]) != "unknown" and not is_trusted(origin):
                print_text(f"      (from outside: {origin})")
        if reading.drift:
            print_text(f"      ! {store.path(target)}: {reading.drift} (`hermes memory adopt --target {target}`)")
        if target == "project" and not reading.entries:
            _name_namesakes(store)
    return OK


def _name_namesakes(store: MemoryStore) -> None:
    """Where notes of a project may be that has none: those of a repository stay with the place it was in."""
    import os

    from hermes.settings.projects import namesakes

    folder = os.path.dirname(os.path.dirname(store.path("project")))
    for each in namesakes(folder, store.project):
        print_text(
            f"      there are notes of {each}, in another place (`hermes memory list --project {each}`); when it was "
            f"moved here, move the files of {os.path.join(folder, each)} to {os.path.join(folder, store.project)}"
        )


def _beside(store: MemoryStore, target: str, entries: Sequence[str]) -> dict[str, Any]:
    """What is known about the entries beside their text; one that somebody removes meanwhile may have no marks."""
    marks, origins = store.marks(target), provenance(entries, store.history(target)[0])
    return {
        "origins": {entry: origins[entry].origin for entry in entries},
        "pinned": [entry for entry in entries if entry in marks and marks[entry].pinned],
        "categories": {entry: marks[entry].category for entry in entries if entry in marks and marks[entry].category},
        "archived": len(store.archived(target)),
    }


def _add(given: argparse.Namespace, context: Context) -> int:
    store = open_store(context, given)
    return report(given, store.add(given.target, _content(given.content), cause=BY_HAND))


def _replace(given: argparse.Namespace, context: Context) -> int:
    store = open_store(context, given)
    content = _content([given.content])
    try:
        written = store.replace(given.target, given.old_text, content, cause=BY_HAND)
    except WriteRefused as refused:
        raise _with_the_right_target(refused, store, given.target, given.old_text) from refused
    return report(given, written)


def _remove(given: argparse.Namespace, context: Context) -> int:
    store = open_store(context, given)
    old_text = " ".join(given.old_text)
    try:
        written = store.remove(given.target, old_text, cause=BY_HAND)
    except WriteRefused as refused:
        raise _with_the_right_target(refused, store, given.target, old_text) from refused
    return report(given, written)


def _with_the_right_target(refused: WriteRefused, store: MemoryStore, wanted: str, old_text: str) -> WriteRefused:
    """An entry that is not in this target may be in another one; who types by hand easily forgets `--target`."""
    others = [target for target in store.targets if target != wanted]
    holding = [target for target in others if any(old_text in entry for entry in store.entries(target))]
    if refused.kind != "no_match" or not holding:
        return refused
    hint = f"no entry of {wanted} contains it, but one of {holding[0]} does: add --target {holding[0]}"
    return WriteRefused(hint, kind=refused.kind, details=refused.details)


def _content(words: list[str]) -> str:
    if words != ["-"]:
        return " ".join(words)
    return sys.stdin.buffer.read().decode("utf-8", "surrogateescape")


def _configure_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--archived", action="store_true", help="the entries that made room for others instead")
    add_target(parser, default=None)


def _configure_add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("content", nargs="+", metavar="TEXT", help="the entry; - reads it from standard input")
    add_target(parser)


def _configure_replace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("old_text", metavar="OLD", help="a piece of the entry that no other entry has")
    parser.add_argument("content", metavar="NEW", help="the whole new entry; - reads it from standard input")
    add_target(parser)


def _configure_remove(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("old_text", nargs="+", metavar="OLD", help="a piece of the entry that no other entry has")
    add_target(parser)


COMMANDS = {
    "list": (_configure_list, _list),
    "add": (_configure_add, _add),
    "replace": (_configure_replace, _replace),
    "remove": (_configure_remove, _remove),
}
