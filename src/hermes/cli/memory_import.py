"""`hermes memory import`: notes of other programs, judged entry by entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.cli.claw import carry_out
from hermes.cli.context import REFUSED
from hermes.cli.render import add_json_option
from hermes.migration.foreign_memory import FORMATS
from hermes.migration.memory_import import MemoryImport
from hermes.settings.projects import named_project

if TYPE_CHECKING:
    import argparse

    from hermes.cli.context import Context


def _import(given: argparse.Namespace, context: Context) -> int:
    project = named_project(given.project) if given.project else ""
    work = MemoryImport(context.home, given.source, given.format, given.target, project)
    report = work.plan()
    code = carry_out(given, work, report)
    return code or (REFUSED if report.warnings else code)


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source", metavar="FILE|FOLDER|NAME", help="what to read; claude-code or codex: their usual places"
    )
    parser.add_argument("--format", choices=FORMATS, help="what it is (default: recognised by itself)")
    parser.add_argument("--target", choices=("memory", "user"), help="where all of it goes (default: by what it is)")
    parser.add_argument("--project", metavar="NAME", help="into the notes of this project")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be done")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_json_option(parser)


COMMANDS = {"import": (_configure, _import)}
