"""Says everything that is wrong with a `state.db` that is only read: structure, seals, checksums, index."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw

from hermes.storage.damage import details_seal, identity_holds, is_shaped, mended, texts_hold
from hermes.storage.database import one_row
from hermes.storage.salvage import open_unchanged
from hermes.storage.transcripts import COLUMNS, REWOUND, STATE_BITS, called, checksum, said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes.storage.rebuild import Progress
    from hermes.storage.sqlite_pages import Image

_MOST_SHOWN = 20
_EVERY = 5000


def problems_of(image: Image, path: str, progress: Progress) -> list[str]:
    """In words, at most a screenful; empty when the database is sound."""
    if not image.header_holds and image.count:
        return ["the header of the file is damaged"]
    connection = open_unchanged(path)
    if connection is None:
        return ["SQLite cannot open the file"]
    found: list[str] = ["the log of the database breaks off before its end"] if image.doubtful() else []
    try:
        for problem in _all_problems(connection, progress):
            found.append(problem)
            if len(found) == _MOST_SHOWN:
                return [*found, "and more"]
    except (apsw.Error, UnicodeDecodeError) as error:
        found.append(f"the file cannot be read to its end: {error}")
    finally:
        connection.close()
    return found


def _all_problems(connection: apsw.Connection, progress: Progress) -> Iterator[str]:
    progress("checking the structure", 0, 0)
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'messages'").fetchall():
        return  # nothing was ever stored
    for (verdict,) in connection.execute(f"PRAGMA integrity_check({_MOST_SHOWN})"):
        if verdict != "ok":
            yield str(verdict).splitlines()[0]
    yield from _session_problems(connection)
    yield from _message_problems(connection, progress)
    yield from _index_problems(connection)


def _session_problems(connection: apsw.Connection) -> Iterator[str]:
    rows = connection.execute(f"SELECT {_bare('key, owner, id, source, title, preview, seal')} FROM sessions")  # noqa: S608
    for row in rows:
        key, owner, name, *shown, sealed = mended(row)
        if not identity_holds(sealed, key, owner, name) or not texts_hold(sealed, key, *shown):
            yield f"the row of session {key} does not match its seal"
    rows = connection.execute(f"SELECT {_bare('session, system_prompt, details, checksum')} FROM session_details")  # noqa: S608
    for row in rows:
        key, prompt, details, stored = mended(row)
        if details_seal(key, prompt, details) != stored:
            yield f"the details of session {key} do not match their checksum"


def _message_problems(connection: apsw.Connection, progress: Progress) -> Iterator[str]:
    total = one_row(connection, "SELECT count(*) FROM messages")[0]
    columns = _bare(", ".join(f"m.{column}" for column in COLUMNS.split(", ")))
    question = f"SELECT b.session, {columns} FROM messages m LEFT JOIN blocks b ON b.block = m.id >> 5"  # noqa: S608
    for number, (session, *values) in enumerate(connection.execute(question)):
        row = mended(values)
        if not number % _EVERY:
            progress("checking messages", number, total)
        if session is None:
            yield f"message {row[0]} belongs to no session"
        elif not is_shaped(row) or checksum(row[:-1], session) != row[-1]:
            yield f"the checksum of message {row[0]} does not match its text"


def _index_problems(connection: apsw.Connection) -> Iterator[str]:
    """Every live message that was indexed has its row in the index, and the index has no row of its own."""
    for table in ("messages_fts", "tools_fts"):
        orphan = f"SELECT id FROM {table}_docsize WHERE id NOT IN (SELECT id FROM messages) LIMIT 1"  # noqa: S608 - our tables
        for (message_id,) in connection.execute(orphan):
            yield f"the index knows a message {message_id} that does not exist"
    if "waiting" in {row[1] for row in connection.execute("PRAGMA table_info(sessions)")}:  # else of an older Hermes
        for (key,) in connection.execute("SELECT key FROM sessions WHERE waiting <> (indexed_id < last_id)"):
            yield f"session row {key} is wrong about whether it waits for the index"
    missing = """
        SELECT m.id, m.role, m.state, CAST(m.content AS BLOB), CAST(m.name AS BLOB), CAST(m.tool_calls AS BLOB)
        FROM messages m JOIN blocks b ON b.block = m.id >> 5 JOIN sessions s ON s.key = b.session
        WHERE m.id <= s.indexed_id AND m.id NOT IN (SELECT id FROM messages_fts_docsize)
            AND m.id NOT IN (SELECT id FROM tools_fts_docsize)
    """
    for row in connection.execute(missing):
        message_id, role, state, content, name, calls = mended(row)
        try:
            words = state & STATE_BITS != REWOUND and (said(content, name) or called(calls) or role == "tool")
        except (ValueError, TypeError):
            words = True
        if words:
            yield f"message {message_id} is missing in the index"


def _bare(columns: str) -> str:
    """The columns with text as bytes, because damaged text need not be UTF-8."""
    return ", ".join(f"iif(typeof({name}) = 'text', CAST({name} AS BLOB), {name})" for name in columns.split(", "))
