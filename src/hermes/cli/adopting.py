"""`hermes import hermes-agent` and `hermes import --merge`: preview, question, work, report."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hermes.cli.claw import carry_out
from hermes.cli.progress import Progress
from hermes.migration.archive_file import ArchiveReader
from hermes.migration.hermes_agent_home import Adopting, Adoption
from hermes.migration.merge_export import MergeExport

if TYPE_CHECKING:
    import argparse

    from hermes.cli.context import Context


def adopt(given: argparse.Namespace, context: Context) -> int:
    progress = Progress("importing", None, unit=" messages")

    def told(_: str, done: int, __: int) -> None:
        progress.update(done)

    source = given.path or os.path.join(os.path.expanduser("~"), ".hermes")
    options = Adopting(
        source=source,
        overwrite=given.overwrite,
        migrate_secrets=given.migrate_secrets,
        backup=not given.no_backup,
    )
    adoption = Adoption(context.home, options, told)
    try:
        return carry_out(given, adoption, adoption.plan())
    finally:
        progress.close()


def merge(given: argparse.Namespace, context: Context) -> int:
    with ArchiveReader.open(given.source) as reader:
        work = MergeExport(context.home, reader, overwrite=given.overwrite, backup=not given.no_backup)
        return carry_out(given, work, work.plan())
