"""`hermes sessions repair`: make a damaged database whole again and say exactly what came back."""

from __future__ import annotations

import os

from hermes.cli.context import OK
from hermes.cli.progress import Stages
from hermes.cli.render import add_json_option, print_json, print_text
from hermes.settings.home import DATABASE, UNSAVED

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from hermes.cli.context import Context
    from hermes.settings.home import Home
    from hermes.storage.repair import Repair


def _repair(given: argparse.Namespace, context: Context) -> int:
    from hermes.storage.repair import repair

    stages = Stages()
    told = repair(
        given.path or context.home.join(DATABASE),
        dry_run=given.dry_run,
        progress=None if given.json else stages.show,
    )
    added = [] if given.dry_run or given.path else _added(context.home)
    if given.json:
        print_json(told.as_json() | {"dry_run": given.dry_run, "added": added})
        return OK
    stages.clear()
    for line in [*_lines(told, dry_run=given.dry_run), *added]:
        print_text(line)
    return OK


def _added(home: Home) -> list[str]:
    """What could not be stored while the database was damaged."""
    if not os.path.isdir(home.join(UNSAVED)):
        return []
    from hermes.session.unsaved import take_up
    from hermes.storage.sessions import SessionDB

    with SessionDB.open(home.join(DATABASE)) as db:
        return take_up(home, db)


def _lines(told: Repair, *, dry_run: bool) -> list[str]:
    found = told.salvaged
    if found is None:
        return [f"{told.path} is sound; nothing to repair"]
    kept, altered = found.messages, len(found.altered)
    lines = [f"{told.path} is damaged:", *(f"  {problem}" for problem in told.problems)]
    lines.append(f"{'can keep' if dry_run else 'kept'} {kept:,} messages in {found.sessions:,} sessions")
    if found.summaries:
        lines.append(f"{'can keep' if dry_run else 'kept'} {found.summaries:,} summaries of the lossless engine")
    if altered:
        lines.append(f"{altered:,} messages were altered; they are left out and stand in unverified.jsonl")
    if found.lost:
        lines.append(f"{found.lost:,} messages are lost")
    if found.damaged_sessions:
        lines.append(f"without their old titles: {', '.join(found.damaged_sessions)}")
    if found.salvage_sessions:
        lines.append(f"messages whose session is lost are in: {', '.join(found.salvage_sessions)}")
    if dry_run:
        lines.append("nothing was changed; run `hermes sessions repair` to do it")
    else:
        lines.append(f"the original bytes and a report are in {told.backup}")
    return lines


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", nargs="?", metavar="FILE", help="the database (default: state.db of the home)")
    parser.add_argument("--dry-run", action="store_true", help="say what would be kept, change nothing")
    add_json_option(parser)


COMMANDS = {"repair": (_configure, _repair)}
