"""`hermes export` and `hermes import`: a home as plain text and back, and homes of other programs."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from hermes.cli.context import OK
from hermes.cli.progress import Progress
from hermes.cli.render import add_json_option, print_json, print_text
from hermes.cli.sessions_report import moment_option, tell_damaged
from hermes.migration.archive_file import ArchiveReader
from hermes.migration.export_home import Selection, export_home
from hermes.migration.import_home import import_home
from hermes.recall.moments import since, until
from hermes.settings.projects import named_project
from hermes.vocabulary.errors import NotFound, SettingsError
from hermes.vocabulary.words import counted

if TYPE_CHECKING:
    import argparse

    from hermes.cli.context import Context
    from hermes.migration.export_home import Exported
    from hermes.migration.import_home import Restored

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
        print_json(
            {
                "out": done.out,
                "files": done.files,
                "sessions": done.sessions,
                "messages": done.messages,
                "taken_back": done.taken_back,
                "damaged": done.damaged,
                "left_out": done.left_out,
            }
        )
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
        from hermes.cli.adopting import adopt

        return adopt(given, context)
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
        from hermes.cli.adopting import merge

        return merge(given, context)
    progress = Progress("importing", None, unit=" records")
    done = import_home(given.source, context.home.path, replace=given.replace, progress=progress.update)
    progress.close()
    if given.json:
        print_json(
            {
                "changed": done.changed,
                "files": done.files,
                "sessions": done.sessions,
                "messages": done.messages,
                "taken_back": done.taken_back,
                "kept": done.kept,
                "notes": done.notes,
            }
        )
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


COMMANDS = {"export": (_configure_export, _export), "import": (_configure_import, _import)}
