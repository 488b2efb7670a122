"""Opens the storage engine that holds a person's data, or a gateway's: SQLite for a path, PostgreSQL for an address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.storage.local.conversations import LocalConversations
from hermes.storage.local.database import Database
from hermes.storage.ports import is_address

if TYPE_CHECKING:
    from hermes.storage.conversations import Conversations, EngineDatabase
    from hermes.storage.ports import Durability


def open_conversations(
    where: str,
    *,
    owner: str = "local",
    durability: Durability = "message",
    wait: float | None = None,
    reading: bool = False,
) -> Conversations:
    """One person's conversations in the SQLite file, or in the PostgreSQL database, at `where`."""
    if is_address(where):
        from hermes.storage.postgres.conversations import PostgresConversations  # loads an optional library

        return PostgresConversations.open(where, owner=owner, wait=wait)
    return LocalConversations.open(where, owner=owner, durability=durability, wait=wait, reading=reading)


def forget_conversations(path: str, owner: str) -> None:
    """Removes everything of a person from a shared database; a file is removed with its home instead."""
    if is_address(path):
        from hermes.storage.postgres.conversations import PostgresConversations  # loads an optional library
        from hermes.storage.postgres.documents import PostgresDocuments

        PostgresConversations.open(path, owner=owner).forget()
        PostgresDocuments.renew()


# The same tables are in `postgres/migrations/0003_ledger.sql`; the statements of `gateway/ledger` are for both.
_LEDGER = """
CREATE TABLE IF NOT EXISTS inbox (
    -- A number is never given again: one that still waits in a lane must not become somebody else's message.
    id INTEGER PRIMARY KEY AUTOINCREMENT, platform TEXT NOT NULL, number TEXT NOT NULL, lane TEXT NOT NULL,
    person TEXT NOT NULL, message TEXT NOT NULL, state TEXT NOT NULL, session TEXT NOT NULL DEFAULT '',
    before INTEGER NOT NULL DEFAULT 0, draft TEXT NOT NULL DEFAULT '', attempts INTEGER NOT NULL DEFAULT 0,
    received REAL NOT NULL, outcome TEXT NOT NULL DEFAULT '', UNIQUE (platform, number));
CREATE INDEX IF NOT EXISTS open_messages ON inbox (state) WHERE state <> 'done';
CREATE INDEX IF NOT EXISTS old_messages ON inbox (received);
CREATE TABLE IF NOT EXISTS outbox (
    message INTEGER NOT NULL, piece INTEGER NOT NULL, text TEXT NOT NULL, sent TEXT NOT NULL DEFAULT '',
    buttons TEXT NOT NULL DEFAULT '[]', PRIMARY KEY (message, piece));
CREATE TABLE IF NOT EXISTS cursors (platform TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS chats (
    lane TEXT PRIMARY KEY, person TEXT NOT NULL, session TEXT NOT NULL, active REAL NOT NULL);
CREATE TABLE IF NOT EXISTS links (
    platform TEXT NOT NULL, user TEXT NOT NULL, person TEXT NOT NULL, made REAL NOT NULL,
    PRIMARY KEY (platform, user));
CREATE TABLE IF NOT EXISTS asked (
    person TEXT NOT NULL, pending TEXT NOT NULL, place TEXT NOT NULL, PRIMARY KEY (person, pending, place));
CREATE TABLE IF NOT EXISTS codes (
    digest TEXT PRIMARY KEY, kind TEXT NOT NULL, person TEXT NOT NULL, about TEXT NOT NULL, expires REAL NOT NULL);
"""
_OF_INBOX = "platform, number, lane, person, message, state, session, before, draft, attempts, received, outcome"
_OF_OUTBOX = "message, piece, text, sent, buttons"
_OTHERS = (
    ("cursors", "platform, value"),
    ("chats", "lane, person, session, active"),
    ("links", 'platform, "user", person, made'),
    ("asked", "person, pending, place"),
    ("codes", "digest, kind, person, about, expires"),
)


def open_ledger(path: str, address: str, owner: str) -> EngineDatabase:
    """Opens the tables of a gateway: the file at `path`, or the rows of `owner` in the database at `address`."""
    if address:
        from hermes.storage.postgres.database import (
            OF_LEDGER,
            PersonDatabase,
            person_named,
        )  # loads an optional library

        return PersonDatabase(address, person_named(address, owner), locks=OF_LEDGER)
    database = Database.open(path)
    database.connection.pragma("secure_delete", "ON")  # what is erased is erased from the file, too
    with database.writing() as connection:
        connection.execute(_LEDGER)
        if "buttons" not in [row[1] for row in connection.execute("PRAGMA table_info(outbox)")]:  # made by 0.1
            connection.execute("ALTER TABLE outbox ADD COLUMN buttons TEXT NOT NULL DEFAULT '[]'")
    return database


def copy_ledger(source: EngineDatabase, target: EngineDatabase) -> int:
    """Copies what the target does not have yet; returns how many messages, which get new numbers there."""
    copied = 0
    with target.writing():
        for number, *row in source.rows(f"SELECT id, {_OF_INBOX} FROM inbox ORDER BY id"):  # noqa: S608 - our own names
            if made := target.rows(f"{_inserted('inbox', _OF_INBOX)} RETURNING id", row):
                copied += 1
                pieces = f"SELECT {_OF_OUTBOX} FROM outbox WHERE message = ? ORDER BY piece"  # noqa: S608 - our own names
                for _, *piece in source.rows(pieces, (number,)):
                    target.run(_inserted("outbox", _OF_OUTBOX), (made[0][0], *piece))
        for table, columns in _OTHERS:
            for row in source.rows(f"SELECT {columns} FROM {table}"):  # noqa: S608 - our own names
                target.run(_inserted(table, columns), row)
    return copied


def _inserted(table: str, columns: str) -> str:
    marks = ", ".join("?" * len(columns.split(", ")))
    return f"INSERT INTO {table} ({columns}) VALUES ({marks}) ON CONFLICT DO NOTHING"  # noqa: S608 - our own names
