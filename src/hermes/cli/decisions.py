"""What `approve` and `reject` have in common, of memory and of skills."""

from __future__ import annotations

from hermes.cli.render import print_text
from hermes.vocabulary.errors import SettingsError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable


def add_ids(parser: argparse.ArgumentParser, listing: str) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help=f"their ids from `{listing}`")
    parser.add_argument("--all", action="store_true", help="all of them")


def chosen_ids(given: argparse.Namespace, listing: str, every: Callable[[], Iterable[str]]) -> list[str]:
    if given.all:
        found = list(every())
        if not found and not given.json:
            print_text("nothing is pending")
        return found
    if not given.ids:
        raise SettingsError(f"name the ids, or use --all (`{listing}` lists them)")
    return list(given.ids)
