"""`hermes memory list`, `show`, `add`, `replace` and `remove`: the entries themselves."""

from __future__ import annotations

import sys

from hermes.cli.context import OK
from hermes.cli.memory_report import BY_HAND, add_target, add_which, numbered, open_store, report
from hermes.cli.render import indented, print_json, print_text, when
from hermes.curated.entries import index_of, preview
from hermes.curated.operations import usage
from hermes.curated.provenance import is_trusted, provenance
from hermes.vocabulary.errors import WriteRefused
from hermes.vocabulary.words import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from typing import Any

    from hermes.cli.context import Context
    from hermes.curated.store import MemoryStore, Written


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


def _show(given: argparse.Namespace, context: Context) -> int:
    store, words = open_store(context, given), " ".join(given.which)
    entries = store.entries(given.target)
    entry = numbered(store, given.target, words, given)
    try:
        at = index_of(entries, entry or words, whole=bool(entry))
    except WriteRefused as refused:
        raise _with_the_right_target(refused, store, given, words) from refused
    entry = entries[at]
    marks, known = store.marks(given.target)[entry], store.provenance(given.target)[entry]
    change = known.change
    facts: dict[str, Any] = {
        "target": given.target,
        "number": at + 1,
        "entry": entry,
        "characters": len(entry),
        "origin": known.origin,
        "note": change.cause.note if change else "",
        "session": change.cause.session if change else "",
        "change": change.id if change else None,
        "at": change.at if change else None,
        "uses": marks.uses,
        "last_used": marks.last_used or None,
        "pinned": marks.pinned,
        "category": marks.category,
    }
    if given.json:
        print_json(facts)
        return OK
    by = f" ({facts['note']})" if facts["note"] else ""
    session = f", session {facts['session']}" if facts["session"] else ""
    used = f"{when(marks.last_used)} (uses: {marks.uses})" if marks.last_used else "not since it was added"
    print_text(f"{entry}\n")
    print_text(f"entry     {at + 1} of {len(entries)} in {given.target}, {len(entry):,} characters")
    print_text(f"origin    {known.origin}{by}{session}{'' if known.trusted else ', not trusted'}")
    print_text(f"added     {f'{when(change.at)}, change {change.id}' if change else 'unknown'}")
    print_text(f"last use  {used}")
    if marks.pinned or marks.category:
        print_text(f"marks     {', '.join(filter(None, ['pinned' if marks.pinned else '', marks.category]))}")
    return OK


def _add(given: argparse.Namespace, context: Context) -> int:
    store = open_store(context, given)
    return report(given, store.add(given.target, _content(given.content), cause=BY_HAND))


def _replace(given: argparse.Namespace, context: Context) -> int:
    store = open_store(context, given)
    content = _content([given.content])
    entry = numbered(store, given.target, given.old_text, given)
    try:
        written = store.replace(given.target, entry or given.old_text, content, cause=BY_HAND, whole=bool(entry))
    except WriteRefused as refused:
        raise _with_the_right_target(refused, store, given, given.old_text) from refused
    return report(given, _naming(written, given.old_text))


def _remove(given: argparse.Namespace, context: Context) -> int:
    store = open_store(context, given)
    old_text = " ".join(given.old_text)
    entry = numbered(store, given.target, old_text, given)
    try:
        written = store.remove(given.target, entry or old_text, cause=BY_HAND, whole=bool(entry))
    except WriteRefused as refused:
        raise _with_the_right_target(refused, store, given, old_text) from refused
    return report(given, _naming(written, old_text))


def _naming(written: Written, word: str) -> Written:
    """Who gave a number sees which entry it was; `hermes memory undo` takes it back."""
    if not word.isdecimal() or written.change is None:
        return written
    return written.saying(f"{written.message} It was {preview(written.change.removed()[0])!r}.")


def _with_the_right_target(
    refused: WriteRefused, store: MemoryStore, given: argparse.Namespace, words: str
) -> WriteRefused:
    """An entry that is not in this target may be in another one; who types by hand easily forgets `--target`."""
    if refused.kind != "no_match":
        return refused
    wanted = given.target
    for other in (target for target in store.targets if target != wanted):
        if numbered(store, other, words, given):
            hint = f"{wanted} has no entry {words}, but {other} has: add --target {other}"
        elif any(words in entry for entry in store.entries(other)):
            hint = f"no entry of {wanted} contains it, but one of {other} does: add --target {other}"
        else:
            continue
        return WriteRefused(hint, kind=refused.kind, details=refused.details)
    if not words.isdecimal() or given.text:
        return refused
    many = counted(len(store.entries(wanted)), "entry", "entries")
    hint = f"{wanted} has {many} and none contains {words!r}; `hermes memory list` shows them with their numbers"
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
    add_which(parser, "old_text", "OLD")
    parser.add_argument("content", metavar="NEW", help="the whole new entry; - reads it from standard input")
    add_target(parser)


def _configure_remove(parser: argparse.ArgumentParser) -> None:
    add_which(parser, "old_text", "OLD", nargs="+")
    add_target(parser)


def _configure_show(parser: argparse.ArgumentParser) -> None:
    add_which(parser, "which", "ENTRY", nargs="+")
    add_target(parser)


COMMANDS = {
    "list": (_configure_list, _list),
    "show": (_configure_show, _show),
    "add": (_configure_add, _add),
    "replace": (_configure_replace, _replace),
    "remove": (_configure_remove, _remove),
}
