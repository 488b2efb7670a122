"""`hermes export`, `import`, `claw` and `backup`: a home moves in and out; previews come first."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from hermes.base.dates import since, until
from hermes.base.errors import ForeignSettings, NotConfirmed, NotFound, SettingsError
from hermes.base.text import counted
from hermes.cli.output import (
    OK,
    REFUSED,
    Progress,
    add_json_option,
    bytes_in_words,
    confirmed,
    moment_option,
    pick,
    print_json,
    print_text,
    show,
    tell_damaged,
    visible,
    when,
    whole_number,
)
from hermes.portability.archive import ArchiveReader
from hermes.portability.backups import create_backup, list_backups, prune_backups, restore_backup, verify_backup
from hermes.portability.hermes_agent import Adopting, Adoption
from hermes.portability.home import Selection, export_home, import_home, provider_paths
from hermes.portability.merge import MergeExport
from hermes.portability.openclaw import Migration, left_in, plan_cleanup
from hermes.portability.sources import CONFLICTS, PRESETS, Options, is_running
from hermes.settings.config import load_settings
from hermes.settings.home import DATABASE, named_project
from hermes.storage.local.database import HERMES_AGENT as PROGRAM
from hermes.storage.local.database import foreign_program

if TYPE_CHECKING:
    import argparse
    from typing import Protocol

    from hermes.cli.output import Context
    from hermes.portability.plan import Report

    class Planned(Protocol):
        """A migration that was planned: `apply` carries the plan out, all of it or nothing."""

        def apply(self, report: Report) -> Report: ...

    from hermes.portability.backups import Backup
    from hermes.portability.home import Exported, Restored


def _migrate(given: argparse.Namespace, context: Context) -> int:
    migration = Migration(
        context.home,
        Options(
            source=given.source,
            preset=given.preset,
            overwrite=given.overwrite,
            migrate_secrets=given.migrate_secrets,
            workspace_target=given.workspace_target,
            skill_conflict=given.skill_conflict,
            backup=not given.no_backup,
        ),
    )
    return carry_out(given, migration, migration.plan())


def carry_out(given: argparse.Namespace, migration: Planned, report: Report) -> int:
    """The preview, a question, the work and the report; what is not confirmed is not done."""
    blocked = bool(report.conflicts()) and not getattr(given, "overwrite", False)
    at_once = given.yes and report.has_work() and not blocked and not given.dry_run
    if not given.json and not at_once:
        print_text(visible(report.markdown()))
    if given.dry_run or not (report.has_work() or blocked):
        return _end(given, report, "" if given.dry_run else "there is nothing to do; nothing was changed")
    if not blocked and not given.yes and not confirmed("carry this out?"):
        return _end(given, report, "nothing was changed; --yes carries it out", code=REFUSED)
    done = migration.apply(report)
    if not given.json and at_once:
        print_text(visible(done.markdown()))
    backup = f"; the home as it was is in {done.options['backup']}" if done.options.get("backup") else ""
    return _end(given, done, f"done; the report is in {done.output_dir}{backup}")


def _end(given: argparse.Namespace, report: Report, words: str, code: int = OK) -> int:
    show(given, report.as_json(), *([words] if words else []))
    return code


def _cleanup(given: argparse.Namespace, context: Context) -> int:
    del context
    moves = plan_cleanup(given.source)
    running = is_running()
    if given.json:
        print_json({"moves": [{"from": old, "to": new} for old, new in moves], "running": running})
    else:
        for old, new in moves:
            print_text(f"{old} → {new}")
            for path in left_in(old):
                print_text(f"  holds {visible(path)}")
        for process in running:
            print_text(f"warning: OpenClaw still runs: {visible(process)}; stop it first")
        if not moves:
            print_text("there are no folders of OpenClaw to put aside")
    if given.dry_run or not moves:
        return OK
    if not given.yes and not confirmed("rename them?"):
        raise NotConfirmed("nothing was changed; --yes renames them")
    for old, new in moves:
        os.rename(old, new)
    return OK


def _configure_migrate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only show what would be done")
    parser.add_argument("--source", metavar="DIR", help="the old home (default: ~/.openclaw, ~/.clawdbot, ~/.moltbot)")
    parser.add_argument(
        "--preset", choices=PRESETS, default="full", help="full (default), or user-data: no secrets ever"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace what is here and differs")
    parser.add_argument("--migrate-secrets", action="store_true", help="bring the known keys and tokens over too")
    parser.add_argument("--workspace-target", metavar="DIR", help="a workspace that gets AGENTS.md")
    parser.add_argument("--skill-conflict", choices=CONFLICTS, default="skip", help="when a skill's name is taken")
    parser.add_argument("--no-backup", action="store_true", help="make no backup of this home first")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_json_option(parser)


def _configure_cleanup(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--source", metavar="DIR", help="only this folder")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be done")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_json_option(parser)


# `hermes import hermes-agent` and `hermes import --merge`: preview, question, work, report.


def _adopt(given: argparse.Namespace, context: Context) -> int:
    progress = Progress("importing", None, unit=" messages")
    options = Adopting(
        source=given.path or _old_home(context),
        overwrite=given.overwrite,
        migrate_secrets=given.migrate_secrets,
        backup=not given.no_backup,
    )
    adoption = Adoption(context.home, options, lambda _stage, done, _total: progress.update(done))
    try:
        return carry_out(given, adoption, adoption.plan())
    finally:
        progress.close()


def _old_home(context: Context) -> str:
    """Where hermes-agent lived: in this home when its files are still here, else in its usual place."""
    home = context.home
    usual = os.path.join(os.path.expanduser("~"), ".hermes")
    try:
        load_settings(home)
    except ForeignSettings:
        return home.path
    except SettingsError:
        pass  # ours, with a mistake in it
    database = home.join(DATABASE)
    return home.path if os.path.exists(database) and foreign_program(database) == PROGRAM else usual


# `hermes export` and `hermes import`: a home as plain text and back, and homes of other programs.

HERMES_AGENT = "hermes-agent"


def _export(given: argparse.Namespace, context: Context) -> int:
    selection = Selection(
        person=given.person or "",
        project=named_project(given.project) if given.project else "",
        since=moment_option(since, given.since),
        until=moment_option(until, given.until),
        secrets=given.with_secrets,
        reading=not given.no_reading,
    )
    out = given.out or f"hermes-export-{time.strftime('%Y%m%d-%H%M%S')}.zip"
    progress = Progress("exporting", None, unit=" records")
    done = export_home(context.home.path, out, selection, progress.update)
    progress.close()
    if given.json:
        print_json(pick(done, "out", "files", "sessions", "messages", "taken_back", "damaged", "left_out"))
    else:
        print_text(
            f"{done.out} holds {counted(done.files, 'file')} with {_conversations(done)}; its checksums were verified"
        )
        for path in done.left_out or ():
            secret = " (secrets come along with --with-secrets)" if path.endswith(".env") else ""
            print_text(f"left out: {path}{secret}")
    return tell_damaged(done.damaged)


def _conversations(done: Exported | Restored) -> str:
    more = f" ({done.taken_back:,} more that had been taken back)" if done.taken_back else ""
    return f"{counted(done.sessions, 'session')} and {counted(done.messages, 'message')}{more}"


def _import(given: argparse.Namespace, context: Context) -> int:
    if given.source == HERMES_AGENT:
        return _adopt(given, context)
    if given.path is not None:
        raise SettingsError(f"only `hermes import {HERMES_AGENT}` takes a second word; name one archive")
    if not os.path.exists(given.source):
        raise NotFound(f"there is no archive {given.source}; name an export, or {HERMES_AGENT}")
    if not ArchiveReader.is_archive(given.source):
        raise SettingsError(
            f"{given.source} is no export of Hermes; conversations of other programs come in with "
            "`hermes sessions import`, their memory with `hermes memory import`"
        )
    if given.merge:
        with ArchiveReader.open(given.source) as reader:
            work = MergeExport(context.home, reader, overwrite=given.overwrite, backup=not given.no_backup)
            return carry_out(given, work, work.plan())
    progress = Progress("importing", None, unit=" records")
    done = import_home(given.source, context.home.path, replace=given.replace, progress=progress.update)
    progress.close()
    if given.json:
        print_json(pick(done, "changed", "files", "sessions", "messages", "taken_back", "kept", "notes"))
    elif not done.changed:
        print_text(f"{context.home.path} holds exactly this already; nothing was changed")
    else:
        print_text(f"{context.home.path} now holds {counted(done.files, 'file')} with {_conversations(done)}")
        if done.kept:
            print_text(f"the home that was there is kept as {done.kept}")
        for note in done.notes:
            print_text(f"note: {note}")
    return OK


def _configure_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", nargs="?", metavar="OUT", help="a name ending in .zip, or a folder to make")
    parser.add_argument("--person", metavar="NAME", help="only this person's memory and conversations")
    parser.add_argument("--project", metavar="NAME", help="only this project's notes and conversations")
    parser.add_argument("--since", metavar="TIME", help="only conversations used since, such as 2026-01-01")
    parser.add_argument("--until", metavar="TIME", help="only conversations begun before")
    parser.add_argument("--with-secrets", action="store_true", help="put .env in, in plain text")
    parser.add_argument("--no-reading", action="store_true", help="leave out the Markdown copies of conversations")
    add_json_option(parser)


def _configure_import(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="ARCHIVE", help=f"an export (zip or folder), or {HERMES_AGENT}")
    parser.add_argument("path", nargs="?", metavar="HOME", help=f"with {HERMES_AGENT}: its home (default: ~/.hermes)")
    parser.add_argument("--replace", action="store_true", help="put it in the place of this home, which is kept")
    parser.add_argument("--merge", action="store_true", help="add what it holds to this home")
    parser.add_argument("--dry-run", action="store_true", help=f"{HERMES_AGENT}, --merge: say what would come in")
    parser.add_argument("--yes", action="store_true", help=f"{HERMES_AGENT}, --merge: do it without asking")
    parser.add_argument("--overwrite", action="store_true", help=f"{HERMES_AGENT}: replace what is there and differs")
    parser.add_argument("--migrate-secrets", action="store_true", help=f"{HERMES_AGENT}: bring the keys of .env too")
    parser.add_argument("--no-backup", action="store_true", help=f"{HERMES_AGENT}, --merge: make no backup first")
    add_json_option(parser)


def _create(given: argparse.Namespace, context: Context) -> int:
    home = context.home
    elsewhere, problem = provider_paths(home)
    backup = create_backup(home.path, given.out, why=given.why, elsewhere=elsewhere)
    removed = prune_backups(home.path, given.keep) if given.keep else []
    return show(
        given,
        {**_as_json(backup), "removed": removed, "problem": problem},
        f"{backup.path} holds {counted(backup.files, 'file')} ({bytes_in_words(backup.bytes)}); "
        "every checksum was verified",
        *(f"with what the provider keeps at {path}" for path in backup.provider_paths),
        *(f"left out: {path} (no regular file)" for path in backup.left_out),
        *(f"removed the older {path}" for path in removed),
        *([f"note: {problem}"] if problem else []),
    )


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
    return show(
        given,
        {"path": path, "files": count, "sound": True},
        f"{path} is whole: {counted(count, 'file')}, every checksum matches",
    )


def _restore(given: argparse.Namespace, context: Context) -> int:
    path = _named(given.file, context)
    home = context.home.path
    if not given.yes and os.path.isdir(home) and not confirmed(f"put {path} in the place of {home}?"):
        raise NotConfirmed(
            "nothing was changed; --yes restores without asking (the home that is there is kept beside it)"
        )
    done = restore_backup(path, home)
    if given.json:
        print_json(pick(done, "changed", "files", "kept", "beside"))
    elif not done.changed:
        print_text(f"{home} holds exactly this already; nothing was changed")
    else:
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
    names = ("path", "made_at", "bytes", "files", "why", "left_out", "provider_paths")
    return {**pick(backup, *names), "unreadable": backup.problem or None}


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
    "claw migrate": (_configure_migrate, _migrate),
    "claw cleanup": (_configure_cleanup, _cleanup),
    "export": (_configure_export, _export),
    "import": (_configure_import, _import),
    "backup create": (_configure_create, _create),
    "backup list": (add_json_option, _list),
    "backup verify": (_configure_file, _verify),
    "backup restore": (_configure_restore, _restore),
}
