"""The names by which a migration that is under way is recognised."""

from __future__ import annotations

FOLDER = ".migrating"  # in the home, from the first change to the last
LOCK = "migration.lock"
ARRIVING = ".arriving"  # after the name of the home: beside it, while two renames must happen and not one
OF_A_MIGRATION = "migration-"  # begins the name of an import into a database that is a step of one
