"""Whether a home is in the middle of a migration: two looks, on every opening.

A migration keeps `.migrating` in the home from its first change to its last. Whoever opens a home and finds it waits
while the migration is alive; when it was killed, the home is made whole first: as it was before, or, where a whole new
home had just taken the place of the old one, as it was to become.
"""

from __future__ import annotations

import os

from hermes.storage.files import ARRIVING
from hermes.storage.files import MIGRATION_FOLDER as FOLDER


def settle(home: str) -> bool:
    """Makes a home whole that a killed migration left half done; True when there was one."""
    if not os.path.lexists(f"{home}/{FOLDER}") and not os.path.lexists(home + ARRIVING):
        return False
    from hermes.storage.rollback import make_whole  # only then: nobody else pays for loading it

    return make_whole(home)
