"""The schema of `state.db` as named migrations, each applied in one transaction.

A released migration must not change, not even in a comment inside its SQL: `schema_problems` compares the text that
SQLite keeps with what the migrations write, to find damage.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import apsw

from hermes.base.errors import DamagedFile, ForeignFile
from hermes.base.words import TOKENIZER
from hermes.storage.local.database import PAGE, REPAIR

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hermes.storage.local.database import Database

    Step = tuple[str, Callable[[apsw.Connection], None]]

# Every live append also merges a little of the index. With 8 segments to a merge instead of FTS5's default of 4, it
# writes less than 40 bytes per byte of content at a million messages. The crisis merge, which by default merges a whole
# level at once when it has 16 segments, is disabled by a limit never reached: a single append would wait for it.
AUTOMERGE = 8
NO_CRISIS = 1000
WITH_IMAGES = """instr(extra, '"images":[')"""  # a row whose message has images, see images.py


def migrate(database: Database) -> None:
    """Brings the file to the newest layout; does not write when nothing is missing.

    Raises ForeignFile if a newer Hermes has changed the layout, and DamagedFile if the list of migrations is damaged.
    """
    applied = _applied(database)
    unknown = sorted(applied - {name for name, _ in MIGRATIONS + OPTIONAL})
    if unknown and {name for name, _ in MIGRATIONS} - applied:
        # A newer Hermes would have applied all of ours as well. If one is missing, a flipped bit has changed its name.
        raise DamagedFile(f"{database.path} is damaged (its list of migrations names {unknown[0]}); {REPAIR}")
    if unknown:
        raise ForeignFile(
            f"{database.path} was written by a newer Hermes (it has {', '.join(unknown)}); upgrade this one to open it"
        )
    if database.only_read and applied >= _READABLE:
        return  # reading works without the later migrations
    apply_steps(database, MIGRATIONS)


def add_vectors(database: Database) -> None:
    """Adds the tables for vectors, which only databases with search by meaning have."""
    apply_steps(database, OPTIONAL[:1])


def add_summaries(database: Database) -> None:
    """Adds the tables for the summary graph, which only databases with a context engine that keeps one have."""
    apply_steps(database, OPTIONAL[1:2])


def add_images(database: Database) -> None:
    """Adds the index of messages with images, which only databases with images need."""
    apply_steps(database, OPTIONAL[2:3])


def schema_problems(connection: apsw.Connection) -> dict[str, str]:
    """Tables, indexes and triggers whose text differs from what this file's migrations write: name to problem.

    SQLite's own check takes the schema as given: it misses a flipped bit there, and a search or an append fails later.
    So the listed migrations are run in an empty database, and the texts of both schemas are compared.
    """
    there = _schema_text(connection)
    # As bytes, because damaged text need not be UTF-8.
    rows: list[Any] = connection.execute("SELECT CAST(name AS BLOB) FROM migrations").fetchall()
    applied = {name.decode(errors="replace") for (name,) in rows if name is not None}
    known = MIGRATIONS + OPTIONAL
    found = {name: f"an unknown migration {name!r} is listed" for name in sorted(applied - {name for name, _ in known})}
    expected = apsw.Connection(":memory:")
    try:
        expected.execute("CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, applied_at REAL)")
        for name, step in known:
            if name in applied:
                step(expected)
        wanted = _schema_text(expected)
    finally:
        expected.close()
    for name in sorted({*there, *wanted}):
        if name not in there:
            found[name] = f"{name} is missing in the schema"
        elif name not in wanted:
            found[name] = f"the schema names {name!r}, which is not ours"
        elif there[name] != wanted[name]:
            found[name] = f"the schema text of {name} was changed"
    return found


def _schema_text(connection: apsw.Connection) -> dict[str, str]:
    question = "SELECT CAST(name AS BLOB), CAST(sql AS BLOB) FROM sqlite_schema WHERE sql IS NOT NULL"
    rows: list[Any] = connection.execute(question).fetchall()
    found = {name.decode(errors="replace"): text.decode(errors="replace") for name, text in rows}
    # `ANALYZE` creates these tables, so a database may have them or not.
    return {name: text for name, text in found.items() if not name.startswith("sqlite_stat")}


def apply_steps(database: Database, steps: Sequence[Step]) -> None:
    """Applies the missing steps of a list; also used for other databases than `state.db`, with their own steps."""
    applied = _applied(database)
    for name, step in steps:
        if name not in applied:
            with database.writing() as connection:
                connection.execute("CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, applied_at REAL)")
                taken = "INSERT OR IGNORE INTO migrations (name, applied_at) VALUES (?, ?) RETURNING name"
                if connection.execute(taken, (name, time.time())).fetchall():  # else another process was first
                    step(connection)


def _applied(database: Database) -> set[str]:
    if not database.rows("SELECT 1 FROM sqlite_schema WHERE name = 'migrations'"):
        return set()
    return {name for (name,) in database.rows("SELECT name FROM migrations")}


def _m001_sessions_and_messages(connection: apsw.Connection) -> None:
    connection.execute("""
        CREATE TABLE owners (key INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
        INSERT INTO owners (key, name) VALUES (1, 'local');

        CREATE TABLE state_meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
        INSERT INTO state_meta (key, value) VALUES ('syncs', 0);

        CREATE TABLE sessions (
            key INTEGER PRIMARY KEY AUTOINCREMENT,
            owner INTEGER NOT NULL REFERENCES owners (key),
            id TEXT NOT NULL,
            source TEXT NOT NULL,
            title TEXT,
            model TEXT,
            parent INTEGER REFERENCES sessions (key) ON DELETE SET NULL,
            root INTEGER,                         -- first session of the conversation this one continues
            kind TEXT,                            -- compression | branch | delegate, NULL without a parent
            listed INTEGER NOT NULL DEFAULT 1,    -- 1 on the newest session of each conversation
            archived INTEGER NOT NULL DEFAULT 0,
            activity INTEGER NOT NULL DEFAULT 0,  -- grows with every append of the owner: order without a clock
            started_at REAL NOT NULL,
            last_active REAL NOT NULL,
            ended_at REAL,
            end_reason TEXT,
            last_id INTEGER NOT NULL DEFAULT 0,
            indexed_id INTEGER NOT NULL DEFAULT 0,
            message_count INTEGER NOT NULL DEFAULT 0,
            tool_call_count INTEGER NOT NULL DEFAULT 0,
            words INTEGER NOT NULL DEFAULT 0,     -- rough length, for ranking whole sessions
            preview TEXT,
            project TEXT,
            cwd TEXT,
            input_tokens INTEGER NOT NULL DEFAULT 0,
            output_tokens INTEGER NOT NULL DEFAULT 0,
            cache_read_tokens INTEGER NOT NULL DEFAULT 0,
            cache_write_tokens INTEGER NOT NULL DEFAULT 0,
            reasoning_tokens INTEGER NOT NULL DEFAULT 0,
            api_call_count INTEGER NOT NULL DEFAULT 0,
            estimated_cost_usd REAL,
            actual_cost_usd REAL,
            seal INTEGER NOT NULL DEFAULT 0,      -- checksums of who it is and what it shows, see damage.py
            UNIQUE (owner, id)
        );
        CREATE UNIQUE INDEX sessions_by_title ON sessions (owner, title) WHERE title IS NOT NULL;
        CREATE INDEX sessions_by_activity ON sessions (owner, activity) WHERE listed = 1 AND archived = 0;
        CREATE INDEX sessions_by_parent ON sessions (parent) WHERE parent IS NOT NULL;
        CREATE INDEX sessions_by_root ON sessions (root) WHERE root <> key;
        CREATE INDEX sessions_to_index ON sessions (key) WHERE indexed_id < last_id;

        -- Long or rare values apart, so that counting a message does not rewrite a system prompt.
        CREATE TABLE session_details (
            session INTEGER PRIMARY KEY REFERENCES sessions (key) ON DELETE CASCADE,
            system_prompt TEXT,
            details TEXT,
            checksum INTEGER NOT NULL
        );

        CREATE TABLE blocks (
            block INTEGER PRIMARY KEY AUTOINCREMENT,
            owner INTEGER NOT NULL,
            session INTEGER NOT NULL REFERENCES sessions (key) ON DELETE CASCADE,
            first_place INTEGER NOT NULL          -- how many messages of the session stand before this block
        );
        CREATE INDEX blocks_by_session ON blocks (session, block);

        CREATE TABLE messages (
            id INTEGER PRIMARY KEY,
            role TEXT NOT NULL,
            state INTEGER NOT NULL DEFAULT 0,     -- 0 live, 1 compacted out of the context, 2 rewound
            timestamp REAL NOT NULL,
            content TEXT,
            name TEXT,
            tool_calls TEXT,
            tool_call_id TEXT,
            token_count INTEGER,
            extra TEXT,                           -- every other key of the message, as JSON
            checksum INTEGER NOT NULL
        );
    """)


def _m002_full_text_index(connection: apsw.Connection) -> None:
    for table in ("messages_fts", "tools_fts", "titles_fts"):
        connection.execute(
            f"CREATE VIRTUAL TABLE {table} USING fts5"
            f"(words, content='', contentless_delete=1, detail=none, tokenize=\"{TOKENIZER}\")"
        )
        # With this size, a leaf of the index fits on one page of the file. The larger buffer holds a whole batch of an
        # import, which then becomes one segment instead of several.
        for option, value in (("pgsz", PAGE - 60), ("automerge", AUTOMERGE), ("hashsize", 8 << 20)):
            set_option(connection, table, option, value)
        set_option(connection, table, "crisismerge", NO_CRISIS)


def set_option(connection: apsw.Connection, table: str, option: str, value: int) -> None:
    """Sets an option of one of our FTS5 tables; FTS5 stores it in the file."""
    connection.execute(f"INSERT INTO {table} ({table}, rank) VALUES (?, ?)", (option, value))  # noqa: S608 - ours


def _m003_vectors(connection: apsw.Connection) -> None:
    # A row holds the vectors of one block of messages, so it has the block's owner and is deleted with its session. A
    # trigger lists sessions with newly indexed messages, because the program that indexes may not compute vectors.
    connection.execute("""
        CREATE TABLE vectors (
            block INTEGER PRIMARY KEY REFERENCES blocks (block) ON DELETE CASCADE,
            stamp INTEGER NOT NULL,               -- grows with every change: what is newer was not read yet
            checksum INTEGER NOT NULL,
            data BLOB NOT NULL                    -- one signed byte per dimension, message after message
        );
        CREATE INDEX vectors_by_stamp ON vectors (stamp);
        CREATE TABLE vectors_waiting (session INTEGER PRIMARY KEY REFERENCES sessions (key) ON DELETE CASCADE);
        INSERT INTO vectors_waiting SELECT key FROM sessions WHERE indexed_id > 0;
        CREATE TRIGGER vectors_wait AFTER UPDATE OF indexed_id ON sessions WHEN new.indexed_id > old.indexed_id
        BEGIN
            INSERT OR IGNORE INTO vectors_waiting (session) VALUES (new.key);
        END;
    """)


def _m004_summaries(connection: apsw.Connection) -> None:
    # A summary belongs to the session in which it was made and is deleted with it. A leaf summarises messages, a
    # condensed summary other summaries: its children.
    connection.execute("""
        CREATE TABLE summaries (
            node INTEGER PRIMARY KEY AUTOINCREMENT,
            session INTEGER NOT NULL REFERENCES sessions (key) ON DELETE CASCADE,
            depth INTEGER NOT NULL,               -- 0 for a leaf
            ids TEXT NOT NULL,                    -- the messages below it, as ranges
            messages INTEGER NOT NULL,
            text TEXT NOT NULL,
            made_by TEXT NOT NULL,
            made_at REAL NOT NULL
        );
        CREATE INDEX summaries_by_session ON summaries (session, depth, ids);
        CREATE TABLE summary_children (
            parent INTEGER NOT NULL REFERENCES summaries (node) ON DELETE CASCADE,
            child INTEGER NOT NULL REFERENCES summaries (node) ON DELETE CASCADE,
            PRIMARY KEY (parent, child)
        ) WITHOUT ROWID;
    """)


def _m005_sessions_that_wait(connection: apsw.Connection) -> None:
    # Every append rewrote an index over "indexed_id < last_id", although the session was in it already: one page of the
    # three that an append writes. The flag changes rarely. Triggers maintain it, whatever program writes.
    connection.execute("""
        ALTER TABLE sessions ADD COLUMN waiting INTEGER NOT NULL DEFAULT 0;  -- 1 while indexed_id < last_id
        UPDATE sessions SET waiting = 1 WHERE indexed_id < last_id;
        DROP INDEX sessions_to_index;
        CREATE INDEX sessions_waiting ON sessions (key) WHERE waiting = 1;
        CREATE TRIGGER sessions_wait AFTER UPDATE OF last_id, indexed_id ON sessions
            WHEN new.waiting <> (new.indexed_id < new.last_id)
        BEGIN
            UPDATE sessions SET waiting = new.indexed_id < new.last_id WHERE key = new.key;
        END;
        CREATE TRIGGER sessions_wait_when_made AFTER INSERT ON sessions
            WHEN new.waiting <> (new.indexed_id < new.last_id)
        BEGIN
            UPDATE sessions SET waiting = new.indexed_id < new.last_id WHERE key = new.key;
        END;
    """)


def _m006_images(connection: apsw.Connection) -> None:
    # Each deletion of a conversation asks which images are still in use; without the index, it would read all messages.
    connection.execute(f"CREATE INDEX messages_with_images ON messages (id) WHERE {WITH_IMAGES}")


MIGRATIONS: tuple[Step, ...] = (
    ("m001_sessions_and_messages", _m001_sessions_and_messages),
    ("m002_full_text_index", _m002_full_text_index),
    ("m005_sessions_that_wait", _m005_sessions_that_wait),
)
# What a file on a read-only disk must have, because it cannot be migrated there.
_READABLE = {"m001_sessions_and_messages", "m002_full_text_index"}
# Applied on first use by the functions above, which refer to them by position.
OPTIONAL: tuple[Step, ...] = (
    ("m003_vectors", _m003_vectors),
    ("m004_summaries", _m004_summaries),
    ("m006_images", _m006_images),
)
