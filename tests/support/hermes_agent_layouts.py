"""Databases as hermes-agent writes them: by SQL in two of its layouts, and by the program itself when there is one."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import apsw

if TYPE_CHECKING:
    from pathlib import Path

# Names the Python of an environment with hermes-agent; without it the layouts below stand for the program.
REAL_PROGRAM = os.environ.get("HERMES_AGENT_PYTHON", "")

_SESSIONS = """
    CREATE TABLE sessions (
        id TEXT PRIMARY KEY, source TEXT NOT NULL, user_id TEXT, model TEXT, model_config TEXT, system_prompt TEXT,
        parent_session_id TEXT REFERENCES sessions (id), started_at REAL NOT NULL, ended_at REAL, end_reason TEXT,
        message_count INTEGER DEFAULT 0, input_tokens INTEGER DEFAULT 0, estimated_cost_usd REAL, title TEXT,
        cwd TEXT, git_repo_root TEXT, archived INTEGER NOT NULL DEFAULT 0{more}
    );
"""
_MESSAGES = """
    CREATE TABLE messages (
        id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL REFERENCES sessions (id), role TEXT NOT NULL,
        content TEXT, tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, timestamp REAL NOT NULL, token_count INTEGER,
        finish_reason TEXT, reasoning TEXT, api_content TEXT{flags}
    );
"""
_FLAGS = ", active INTEGER NOT NULL DEFAULT 1, compacted INTEGER NOT NULL DEFAULT 0"
_INLINE = """
    CREATE VIRTUAL TABLE messages_fts USING fts5 (content);
    CREATE TRIGGER messages_fts_insert AFTER INSERT ON messages BEGIN
        INSERT INTO messages_fts (rowid, content) VALUES (new.id, coalesce(new.content, ''));
    END;
"""
_EXTERNAL = """
    CREATE VIEW messages_fts_src AS SELECT id, content, tool_name, tool_calls FROM messages;
    CREATE VIRTUAL TABLE messages_fts
        USING fts5 (content, tool_name, tool_calls, content='messages_fts_src', content_rowid='id');
"""
LAYOUTS = {
    "inline index": _SESSIONS.format(more="") + _MESSAGES.format(flags=_FLAGS) + _INLINE,
    "external index": _SESSIONS.format(more=", compression_ineffective_count INTEGER, \"odd name\" TEXT DEFAULT 'kept'")
    + _MESSAGES.format(flags=_FLAGS + ", from_the_future TEXT DEFAULT 'new'")
    + _EXTERNAL,
    "before compaction flags": _SESSIONS.format(more="") + _MESSAGES.format(flags=""),
}


def build(path: Path, layout: str) -> None:
    """A conversation that was compressed once, a branch, a delegated task, packed content, and rows in every state."""
    connection = apsw.Connection(str(path))
    connection.execute(LAYOUTS[layout])
    old = 1_600_000_000.5
    for values in (
        ("root", "cli", None, None, old, "compression", "Deploy", '{"temperature": 1}'),
        ("tip", "cli", "root", None, old + 100, None, "Deploy #2", None),
        ("side", "cli", "root", None, old + 50, None, None, '{"_branched_from": "root"}'),
        ("helper", "subagent", "tip", None, old + 120, "agent_close", None, '{"_delegate_from": "tip"}'),
        ("orphan", "telegram", None, "u7", old + 10, None, None, None),
    ):
        connection.execute(
            "INSERT INTO sessions (id, source, parent_session_id, user_id, started_at, end_reason, title, model_config)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            values,
        )
    connection.execute(
        "UPDATE sessions SET system_prompt = 'be brief', input_tokens = 70, cwd = '/w' WHERE id = 'root'"
    )
    calls = json.dumps(
        [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "桂林"}'}}]
    )
    packed = "\x00json:" + json.dumps([{"type": "text", "text": "东京的天气"}])
    for at, (session, role, content, tool_calls, tool_name) in enumerate(
        (
            ("root", "user", "how do I deploy the auth_refactor_v2 service?", None, None),
            ("root", "assistant", None, calls, None),
            ("root", "tool", "rain", None, "weather"),
            ("root", "user", packed, None, None),
            ("orphan", "user", "hello from telegram", None, None),
            ("side", "user", "a branch of its own", None, None),
            ("tip", "user", "summary so far", None, None),
            ("tip", "assistant", "taken back", None, None),
            ("tip", "user", "left the context", None, None),
            ("helper", "user", "delegated task", None, None),
        )
    ):
        connection.execute(
            "INSERT INTO messages (session_id, role, content, tool_calls, tool_name, timestamp)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (session, role, content, tool_calls, tool_name, old + at),
        )
    connection.execute("UPDATE messages SET api_content = 'as sent', finish_reason = 'stop' WHERE id = 7")
    if layout != "before compaction flags":
        connection.execute("UPDATE messages SET active = 0 WHERE content = 'taken back'")
        connection.execute("UPDATE messages SET active = 0, compacted = 1 WHERE content = 'left the context'")
    connection.close()


_WRITE_WITH_THE_PROGRAM = """
import pathlib, sys, hermes_state
db = hermes_state.SessionDB(db_path=pathlib.Path(sys.argv[1]))
db.create_session("root", "cli", model="m", system_prompt="be brief")
db.append_message("root", "user", "how do I deploy the auth_refactor_v2 service?")
db.append_message("root", "assistant", None, tool_calls=[{"id": "c1", "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "桂林"}'}}])
db.append_message("root", "user", [{"type": "text", "text": "东京的天气"}])
db.set_session_title("root", "Deploy")
print([query for query in ("how do I deploy the auth_refactor_v2 service?", "桂林", "东京的天气")
    if not db.search_messages(query)])
"""


def write_with_the_program(path: Path) -> list[str]:
    """Lets hermes-agent write a database and returns the questions to which its own search finds nothing."""
    said = subprocess.run(
        [REAL_PROGRAM, "-c", _WRITE_WITH_THE_PROGRAM, str(path)], check=True, capture_output=True, text=True
    ).stdout
    found: list[str] = json.loads(said.strip().splitlines()[-1].replace("'", '"'))
    return found
