"""`hermes memory restore`, `pin` and `unpin`: what left for the archive, and what must never leave."""

from __future__ import annotations

from hermes.cli.context import OK
from hermes.cli.memory_report import BY_HAND, add_target, add_which, numbered, open_store, report
from hermes.cli.render import indented, print_json, print_text, when
from hermes.curated.archive import find
from hermes.curated.entries import index_of, preview
from hermes.curated.marks import PIN, UNPIN
from hermes.vocabulary.errors import NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from hermes.cli.context import Context
    from hermes.curated.archive import Archived
    from hermes.curated.store import MemoryStore


def list_archived(given: argparse.Namespace, store: MemoryStore) -> int:
    """`hermes memory list --archived`."""
    found = {target: store.archived(target) for target in ([given.target] if given.target else store.targets)}
    if given.json:
        print_json({target: [_as_json(each) for each in archived] for target, archived in found.items()})
        return OK
    for target, archived in found.items():
        print_text(f"{target}  {len(archived)} archived")
        for each in archived:
            print_text(indented(each.entry, f"  {when(each.at)[:10]}  "))
            stands = f"; now: {preview(each.into)!r}" if each.into else ""
            print_text(f"              {each.change}: {each.reason}{stands}")
    return OK


def _restore(given: argparse.Namespace, context: Context) -> int:
    store = open_store(context, given)
    archived = [each for target in store.targets for each in store.archived(target)]
    wanted = find([each for each in archived if given.target in (None, each.target)], given.words)
    return report(given, store.restore(wanted.target, wanted.entry, cause=BY_HAND))


def _marking(kind: str) -> Callable[[argparse.Namespace, Context], int]:
    def command(given: argparse.Namespace, context: Context) -> int:
        store = open_store(context, given)
        target, entry = _entry(store, given)
        store.marks_file(target).add(kind, [entry])
        if given.json:
            print_json({"target": target, "entry": entry, "pinned": kind == PIN})
        else:
            print_text(f"{'pinned' if kind == PIN else 'no longer pinned'}: {preview(entry)} ({target})")
        return OK

    return command


def _entry(store: MemoryStore, given: argparse.Namespace) -> tuple[str, str]:
    words = given.words
    if entry := numbered(store, given.target or "memory", words, given):
        return given.target or "memory", entry
    for each in [given.target] if given.target else store.targets:
        entries = store.entries(each)
        if any(words in entry for entry in entries):
            return each, entries[index_of(entries, words)]
    raise NotFound(f"no entry contains {preview(words)!r}; `hermes memory list` shows them")


def _as_json(archived: Archived) -> dict[str, object]:
    return {
        "entry": archived.entry,
        "archived_at": archived.at,
        "when": when(archived.at),
        "change": archived.change,
        "reason": archived.reason,
        "into": archived.into or None,
    }


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="TEXT", help="a piece of the entry that no other entry has")
    add_target(parser, default=None)


def _configure_mark(parser: argparse.ArgumentParser) -> None:
    add_which(parser, "words", "ENTRY")
    add_target(parser, default=None)


COMMANDS = {
    "restore": (_configure, _restore),
    "pin": (_configure_mark, _marking(PIN)),
    "unpin": (_configure_mark, _marking(UNPIN)),
}
