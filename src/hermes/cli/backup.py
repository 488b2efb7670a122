"""`hermes backup`: archives of the whole home, checked, and the way back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from hermes.cli.context import OK
from hermes.cli.questions import confirmed
from hermes.cli.render import add_json_option, print_json, print_text, when
from hermes.cli.sessions_report import bytes_in_words, whole_number
from hermes.migration.backups import (
    create_backup,
    list_backups,
    prune_backups,
    restore_backup,
    verify_backup,
)
from hermes.migration.provider_paths import provider_paths
from hermes.vocabulary.errors import NotConfirmed, NotFound, SettingsError
from hermes.vocabulary.words import counted

if TYPE_CHECKING:
    import argparse

    from hermes.cli.context import Context
    from hermes.migration.backups import Backup


def _create(given: argparse.Namespace, context: Context) -> int:
    home = context.home
    elsewhere, problem = provider_paths(home)
    backup = create_backup(home.path, given.out, why=given.why, elsewhere=elsewhere)
    removed = prune_backups(home.path, given.keep) if given.keep else []
    if given.json:
        print_json({**_as_json(backup), "removed": removed, "problem": problem})
    else:
        print_text(
            f"{backup.path} holds {counted(backup.files, 'file')} ({bytes_in_words(backup.bytes)}); "
            "every checksum was verified"
        )
        for path in backup.provider_paths:
            print_text(f"with what the provider keeps at {path}")
        for path in backup.left_out:
            print_text(f"left out: {path} (no regular file)")
        for path in removed:
            print_text(f"removed the older {path}")
        if problem:
            print_text(f"note: {problem}")
    return OK


def _list(given: argparse.Namespace, context: Context) -> int:
    found = list_backups(context.home.path)
    if given.json:
        print_json([_as_json(backup) for backup in found])
        return OK
    for backup in found:
        note = f"  {backup.problem}" if backup.problem else f"  {backup.why}" if backup.why else ""
        print_text(f"{when(backup.made_at)}  {bytes_in_words(backup.bytes):>10}  {backup.path}{note}")
    if not found:
        print_text("there are no backups yet; `hermes backup create` makes one")
    return OK


def _verify(given: argparse.Namespace, context: Context) -> int:
    path = _named(given.file, context)
    count = verify_backup(path)
    if given.json:
        print_json({"path": path, "files": count, "sound": True})
    else:
        print_text(f"{path} is whole: {counted(count, 'file')}, every checksum matches")
    return OK


def _restore(given: argparse.Namespace, context: Context) -> int:
    path = _named(given.file, context)
    home = context.home.path
    if not given.yes and os.path.isdir(home) and not confirmed(f"put {path} in the place of {home}?"):
        raise NotConfirmed(
            "nothing was changed; --yes restores without asking (the home that is there is kept beside it)"
        )
    done = restore_backup(path, home)
    if given.json:
        print_json({"changed": done.changed, "files": done.files, "kept": done.kept, "beside": done.beside})
        return OK
    if not done.changed:
        print_text(f"{home} holds exactly this already; nothing was changed")
        return OK
    print_text(f"{home} is as it was: {counted(done.files, 'file')}")
    if done.kept:
        print_text(f"the home that was there is kept as {done.kept}")
    for line in done.beside:
        print_text(line)
    return OK


def _named(given: str | None, context: Context) -> str:
    """The file that was named, also by its bare name; the newest backup when none was."""
    found = [backup for backup in list_backups(context.home.path) if not backup.problem]
    if given is None:
        if not found:
            raise NotFound("there are no backups in this home; name a file")
        return found[0].path
    if os.path.exists(given):
        return given
    inside = [backup.path for backup in found if os.path.basename(backup.path) == given]
    if not inside:
        raise SettingsError(f"there is no backup {given}; `hermes backup list` shows those of this home")
    return inside[0]


def _as_json(backup: Backup) -> dict[str, Any]:
    return {
        "path": backup.path,
        "made_at": backup.made_at,
        "bytes": backup.bytes,
        "files": backup.files,
        "why": backup.why,
        "left_out": list(backup.left_out),
        "provider_paths": list(backup.provider_paths),
        "unreadable": backup.problem or None,
    }


def _configure_create(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="FILE", help="where to write (default: in backups/ of the home)")
    parser.add_argument("--why", default="", metavar="TEXT", help="a note for the list")
    parser.add_argument("--keep", type=whole_number(1), metavar="N", help="then remove all but the newest N")
    add_json_option(parser)


def _configure_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", metavar="FILE", help="a backup, by path or name (default: the newest)")
    add_json_option(parser)


def _configure_restore(parser: argparse.ArgumentParser) -> None:
    _configure_file(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")


COMMANDS = {
    "create": (_configure_create, _create),
    "list": (add_json_option, _list),
    "verify": (_configure_file, _verify),
    "restore": (_configure_restore, _restore),
}
