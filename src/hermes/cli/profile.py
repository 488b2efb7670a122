"""`hermes profile`: several homes side by side, each complete."""

from __future__ import annotations

from hermes.cli.context import OK
from hermes.cli.render import add_json_option, print_json, print_text
from hermes.settings.home import DEFAULT_PROFILE, choose_profile, locate_home, profile_names, profile_path
from hermes.storage.files import make_private_folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from hermes.cli.context import Context


def _list(given: argparse.Namespace, context: Context) -> int:
    home = context.home
    names = [DEFAULT_PROFILE, *profile_names(home.root)]
    chosen = home.profile or DEFAULT_PROFILE
    if given.json:
        print_json({"chosen": chosen, "profiles": names})
    else:
        for name in names:
            print_text(f"{'*' if name == chosen else ' '} {name}")
    return OK


def _create(given: argparse.Namespace, context: Context) -> int:
    path = profile_path(locate_home(context.root, "").root, given.name)
    make_private_folders(path)
    print_text(
        f"profile {given.name} is at {path}; use it with --profile {given.name} or `hermes profile use {given.name}`"
    )
    return OK


def _use(given: argparse.Namespace, context: Context) -> int:
    choose_profile(locate_home(context.root, "").root, given.name)
    print_text(f"profile {given.name} is used from now on")
    return OK


def _configure_create(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="small letters, digits, - and _")


def _configure_use(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help=f"its name, or {DEFAULT_PROFILE} for the home itself")


COMMANDS = {
    "list": (add_json_option, _list),
    "create": (_configure_create, _create),
    "use": (_configure_use, _use),
}
