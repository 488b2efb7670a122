"""`hermes profile`: several homes side by side, each complete."""

from __future__ import annotations

import os
import shutil

from hermes.cli.context import OK
from hermes.cli.questions import confirmed
from hermes.cli.render import add_json_option, print_json, print_text
from hermes.settings.home import (
    DEFAULT_PROFILE,
    choose_profile,
    chosen_profile,
    existing_profile,
    locate_home,
    profile_names,
    profile_path,
)
from hermes.storage.files import explain, make_private_folders
from hermes.vocabulary.errors import NotConfirmed, SettingsError, StorageError, UnsafePath

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
    path = _free_place(locate_home(context.root, "").root, given.name)
    make_private_folders(path)
    print_text(
        f"profile {given.name} is at {path}; use it with --profile {given.name} or `hermes profile use {given.name}`"
    )
    return OK


def _free_place(root: str, name: str) -> str:
    path = profile_path(root, name)
    if name == DEFAULT_PROFILE:
        raise SettingsError(f"{name} is the home itself, so no profile could be reached by this name; choose another")
    if os.path.lexists(path):
        raise SettingsError(
            f"there is a profile {name} already, at {path}; choose another name, or use it with --profile {name}"
        )
    return path


def _use(given: argparse.Namespace, context: Context) -> int:
    choose_profile(locate_home(context.root, "").root, given.name)
    print_text(f"profile {given.name} is used from now on")
    return OK


def _rename(given: argparse.Namespace, context: Context) -> int:
    root = locate_home(context.root, "").root
    old, new = existing_profile(root, given.name), _free_place(root, given.new)
    is_chosen = chosen_profile(root) == given.name
    try:
        os.rename(old, new)
    except OSError as error:
        raise explain("rename", old, error) from error
    if is_chosen:
        choose_profile(root, given.new)
    print_text(f"profile {given.name} is now {given.new}, at {new}{', and still the chosen one' if is_chosen else ''}")
    return OK


def _delete(given: argparse.Namespace, context: Context) -> int:
    root = locate_home(context.root, "").root
    path = existing_profile(root, given.name)
    if os.path.islink(path):
        raise UnsafePath(f"{path} is a link to {os.path.realpath(path)}; nothing was deleted: remove the link yourself")
    is_chosen = chosen_profile(root) == given.name
    which = f"{path}, which is used when none is named," if is_chosen else path
    if not given.yes and not confirmed(f"delete {which} with all memory and conversations, for good?"):
        raise NotConfirmed(f"nothing was deleted; --yes deletes {which} without asking")
    if is_chosen:
        choose_profile(root, DEFAULT_PROFILE)
    try:
        shutil.rmtree(path)  # it never goes through a link
    except OSError as error:
        raise StorageError(f"could not delete all of {path}: {error}; what is left can be deleted again") from error
    after = "; from now on the home itself is used" if is_chosen else ""
    print_text(f"profile {given.name} is gone{after}")
    return OK


def _configure_rename(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="which profile")
    parser.add_argument("new", metavar="NEW", help="small letters, digits, - and _")


def _configure_delete(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="which profile")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _configure_create(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="small letters, digits, - and _")


def _configure_use(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help=f"its name, or {DEFAULT_PROFILE} for the home itself")


COMMANDS = {
    "list": (add_json_option, _list),
    "create": (_configure_create, _create),
    "use": (_configure_use, _use),
    "rename": (_configure_rename, _rename),
    "delete": (_configure_delete, _delete),
}
