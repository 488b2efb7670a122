"""Databases that were altered behind our back, for the tests of damage and repair."""

from __future__ import annotations

import apsw

from hermes.conversations.database import SessionDB


def alter(path: str, *statements: str) -> None:
    """Changes stored values as a disk would: no checksum follows."""
    connection = apsw.Connection(path)
    for statement in ("PRAGMA foreign_keys = OFF", *statements):
        connection.execute(statement)
    connection.close()


def kept(path: str) -> dict[int, str]:
    with SessionDB.open(path) as db:
        return {m.id: m.text for session in db.list_sessions(limit=1000) for m in db.messages(session.id)}
