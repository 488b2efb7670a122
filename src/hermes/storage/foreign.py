"""Recognises databases that are not ours, so that they are left alone and the person is told what to do instead."""

from __future__ import annotations

import os
import urllib.parse

import apsw

APPLICATION_ID = 0x48524D53  # "HRMS"
HERMES_AGENT = "hermes-agent"


def program_of(connection: apsw.Connection) -> str | None:
    """None for a database of ours or an empty one, else the name of the program that wrote it."""
    if connection.pragma("application_id") == APPLICATION_ID:
        return None
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if not tables or {"blocks", "migrations"} <= tables:
        return None
    return HERMES_AGENT if {"sessions", "messages"} <= tables else "another program"


def foreign_program(path: str) -> str | None:
    """The same for a file that is only looked at; None also when it cannot be read."""
    try:
        connection = apsw.Connection(
            f"file:{urllib.parse.quote(os.path.abspath(path))}?immutable=1",
            flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI,
        )
        try:
            return program_of(connection)
        finally:
            connection.close()
    except (apsw.Error, UnicodeDecodeError):
        return None
