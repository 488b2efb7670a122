"""What the `hermes memory` commands share: opening the store, choosing a target, saying what happened."""

from __future__ import annotations

from hermes.cli.context import OK
from hermes.cli.render import add_json_option, print_all, print_json, print_text
from hermes.curated.history import Cause
from hermes.curated.store import ALL_TARGETS, MemoryStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from hermes.cli.context import Context
    from hermes.curated.store import Written

BY_HAND = Cause(origin="user", note="from the command line")


def open_store(context: Context, given: argparse.Namespace | None = None) -> MemoryStore:
    """The store, with the notes of the project that was named; they are the target then, unless another was named.

    Where only the target is named, they are those of the repository around the current folder, as in a chat there.
    What is changed in it is kept for the memory providers of the settings.
    """
    words = getattr(given, "project", None)
    if given is not None and getattr(given, "target", None) == "":
        given.target = "project" if words else "memory"
    project = ""
    if words:
        from hermes.settings.projects import named_project

        project = named_project(words)
    elif getattr(given, "target", None) == "project" and context.settings.text("memory.projects") == "auto":
        import os

        from hermes.settings.projects import project_of

        project = project_of(os.getcwd())
    store = MemoryStore.open(context.home, settings=context.settings, project=project)
    if context.settings.text("memory.provider") or context.settings.texts("memory.providers"):
        from hermes.session.external import chosen_providers
        from hermes.session.mirroring import leave_for_providers

        names = chosen_providers(context.settings)
        store.watcher = lambda written: leave_for_providers(context.home, names, written, platform="cli")
    return store


def add_target(parser: argparse.ArgumentParser, *, default: str | None = "") -> None:
    usual = "all" if default is None else "memory"
    parser.add_argument("--target", choices=ALL_TARGETS, default=default, help=f"default: {usual}")
    add_project(parser)
    add_json_option(parser)


def add_project(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--project", metavar="NAME", help="the notes of a project: its name, or . for this repository")


def add_which(parser: argparse.ArgumentParser, name: str, metavar: str, **more: Any) -> None:
    parser.add_argument(
        name,
        metavar=metavar,
        help="its number in the list, or a piece of the entry that no other entry has",
        **more,
    )
    parser.add_argument("--text", action="store_true", help=f"{metavar} is a piece of the entry even if it is a number")


def numbered(store: MemoryStore, target: str, word: str, given: argparse.Namespace) -> str:
    """The entry that has this number in the list; "" when there is none, or the word is meant as text."""
    if given.text or not (word.isascii() and word.isdecimal()):
        return ""
    entries = store.entries(target)
    return entries[int(word) - 1] if 0 < int(word) <= len(entries) else ""


def report(given: argparse.Namespace, written: Written) -> int:
    """Says what one write did."""
    print_json(_as_json(written)) if given.json else print_text(_in_words(written))
    return OK


def report_all(given: argparse.Namespace, written: list[Written]) -> int:
    """Says what several writes did; one JSON list for scripts."""
    print_all(given, written, _as_json, _in_words)
    return OK


def _in_words(written: Written) -> str:
    change = f", change {written.change.id}" if written.change else ""
    return f"{written.message} ({written.target}: {written.usage}{change})"


def _as_json(written: Written) -> dict[str, Any]:
    return {
        "target": written.target,
        "message": written.message,
        "change": written.change.id if written.change else None,
        "entries": list(written.entries),
        "usage": written.usage,
        "archived": [{"entry": each.entry, "reason": each.reason} for each in written.archived],
    }
