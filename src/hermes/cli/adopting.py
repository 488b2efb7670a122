"""`hermes import hermes-agent` and `hermes import --merge`: preview, question, work, report."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hermes.cli.claw import carry_out
from hermes.cli.progress import Progress
from hermes.migration.archive_file import ArchiveReader
from hermes.migration.hermes_agent_home import Adopting, Adoption
from hermes.migration.merge_export import MergeExport
from hermes.settings.home import DATABASE
from hermes.settings.load import load_settings
from hermes.storage.foreign import HERMES_AGENT as PROGRAM
from hermes.storage.foreign import foreign_program
from hermes.vocabulary.errors import ForeignSettings, SettingsError

if TYPE_CHECKING:
    import argparse

    from hermes.cli.context import Context


def adopt(given: argparse.Namespace, context: Context) -> int:
    progress = Progress("importing", None, unit=" messages")

    def told(_: str, done: int, __: int) -> None:
        progress.update(done)

    source = given.path or _old_home(context)
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


def merge(given: argparse.Namespace, context: Context) -> int:
    with ArchiveReader.open(given.source) as reader:
        work = MergeExport(context.home, reader, overwrite=given.overwrite, backup=not given.no_backup)
        return carry_out(given, work, work.plan())
