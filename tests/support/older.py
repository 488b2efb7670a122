"""A `state.db` as an older Hermes left it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw

if TYPE_CHECKING:
    from pathlib import Path


def make_older(path: Path) -> None:
    """Takes back what marks sessions as waiting."""
    connection = apsw.Connection(str(path))
    connection.execute("""
        DROP TRIGGER sessions_wait; DROP TRIGGER sessions_wait_when_made; DROP INDEX sessions_waiting;
        ALTER TABLE sessions DROP COLUMN waiting;
        CREATE INDEX sessions_to_index ON sessions (key) WHERE indexed_id < last_id;
        DELETE FROM migrations WHERE name = 'm005_sessions_that_wait';
    """)
    connection.close()
