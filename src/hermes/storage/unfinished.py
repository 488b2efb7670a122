"""Whether a home can be used as it stands: two looks, on every opening.

A migration builds a copy and exchanges it with the home (`portability.exchange`), so that a kill leaves nothing half
done in it. Two things are left to notice: a home between two renames, where the system cannot exchange two names, and
a home that Hermes 0.1, which migrated in place, left half changed.
"""

from __future__ import annotations

import os

from hermes.base.errors import DamagedFile
from hermes.storage.files import ARRIVING, MIGRATION_FOLDER, Folder


def check_whole(home: str) -> None:
    """Completes the two renames; refuses what an interrupted migration by Hermes 0.1 left."""
    if os.path.lexists(home + ARRIVING):
        _complete_renames(home)
    notes = f"{home}/{MIGRATION_FOLDER}/changes.jsonl"
    if os.path.lexists(notes):
        raise DamagedFile(
            f"{home} is half migrated: Hermes 0.1 was interrupted in the middle ({notes}). Open the home once with "
            f"Hermes 0.1, which puts everything back; or remove {home}/{MIGRATION_FOLDER} and restore the backup from "
            f"before the migration, {_newest_backup(home)}, with `hermes backup restore`"
        )


def _complete_renames(home: str) -> None:
    """The old home left its place, and the new one had not come yet."""
    import json  # only then: nobody else pays for loading them

    from hermes.storage.locks import FileLock

    parent, name = os.path.split(home)
    with Folder.create(parent) as folder, FileLock(folder, name + ARRIVING, timeout=10):
        data = folder.read(name + ARRIVING, at_most=1 << 16) or b""
        built = os.path.basename(json.loads(data)["staged"]) if data.endswith(b"\n") else ""
        if built and not os.path.lexists(home) and folder.status(built) is not None:
            folder.rename(built, name)
            folder.sync()
        folder.remove(name + ARRIVING)


def _newest_backup(home: str) -> str:
    folder = os.path.join(home, "backups")
    names = sorted(name for name in os.listdir(folder) if name.endswith(".zip")) if os.path.isdir(folder) else []
    return os.path.join(folder, names[-1]) if names else f"if there is one in {folder}"
