"""`hermes claw`: come from OpenClaw. The preview always comes first."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hermes.cli.context import OK, REFUSED
from hermes.cli.questions import confirmed
from hermes.cli.render import add_json_option, print_json, print_text, visible
from hermes.migration.openclaw import Migration, left_in, plan_cleanup
from hermes.migration.openclaw_source import CONFLICTS, PRESETS, Options, is_running
from hermes.vocabulary.errors import NotConfirmed

if TYPE_CHECKING:
    import argparse
    from typing import Protocol

    from hermes.cli.context import Context
    from hermes.migration.report import Report

    class Planned(Protocol):
        """A migration that was planned: `apply` carries the plan out, all of it or nothing."""

        def apply(self, report: Report) -> Report: ...


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
    if given.json:
        print_json(report.as_json())
    elif words:
        print_text(words)
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


COMMANDS = {"migrate": (_configure_migrate, _migrate), "cleanup": (_configure_cleanup, _cleanup)}
