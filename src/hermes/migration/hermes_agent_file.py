"""Reads a hermes-agent `state.db` of any layout without altering a byte, as sessions and messages in our own shape.

Only the tables `sessions` and `messages` are needed; columns that are missing are left out, columns nobody here knows
travel along under their own names, and no full-text table is touched.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes.migration.foreign_database import merged
from hermes.storage.damage import mended
from hermes.storage.database import all_rows
from hermes.storage.foreign import HERMES_AGENT, foreign_program
from hermes.storage.salvage import open_unchanged
from hermes.vocabulary.errors import DamagedFile, NotFound, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import apsw

_JSON_MARK = "\x00json:"
_JSON_COLUMNS = ("tool_calls", "reasoning_details", "codex_reasoning_items", "codex_message_items")
_PLAIN = (
    *("source", "title", "model", "started_at", "ended_at", "end_reason", "cwd", "system_prompt"),
    *("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens"),
    *("api_call_count", "estimated_cost_usd", "actual_cost_usd"),
)
_OUR_OWN = ("id", "parent_session_id", "message_count", "tool_call_count", "archived", "git_repo_root")
_NOT_IN_MESSAGE = ("id", "session_id", "active", "compacted", "tool_name")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignSession:
    """A session as `SessionDB.create_session` takes it; `newest` is the largest id among its messages."""

    id: str
    parent: str | None
    kind: str | None
    newest: int
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignMessage:
    id: int
    message: dict[str, Any]
    compacted: bool
    rewound: bool


class HermesAgentFile:
    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    @classmethod
    @contextlib.contextmanager
    def open(cls, path: str) -> Iterator[HermesAgentFile]:
        """The file as it stands, its log included; the file, its log and their times stay as they are."""
        if not os.path.isfile(path):
            raise NotFound(f"{path} does not exist")
        with tempfile.TemporaryDirectory(prefix="hermes-import-") as place:
            readable = merged(path, place)
            if foreign_program(readable) != HERMES_AGENT:
                raise StorageError(f"{path} is no database of hermes-agent: it has no tables sessions and messages")
            connection = open_unchanged(readable)
            if connection is None:
                raise DamagedFile(f"{path} cannot be read; repair it with hermes-agent's own command first")
            try:
                yield cls(connection)
            finally:
                connection.close()

    def sessions(self) -> list[ForeignSession]:
        """Parents before children, otherwise in the order in which they were last used."""
        question = "SELECT session_id, max(id) FROM messages GROUP BY session_id"
        newest: dict[Any, Any] = dict(all_rows(self._connection, question))
        rows = {str(row["id"]): row for row in self._rows("sessions", "ORDER BY rowid")}
        sessions = {name: _session(row, rows, newest.get(name, 0)) for name, row in rows.items()}
        ordered: dict[str, ForeignSession] = {}
        for session in sorted(sessions.values(), key=lambda each: each.newest):
            _after_its_parents(session, sessions, ordered)
        return list(ordered.values())

    def messages(self, session: str, after: int = 0) -> Iterator[ForeignMessage]:
        for row in self._rows("messages", "WHERE session_id = ? AND id > ? ORDER BY id", (session, after)):
            live = row.get("active") in (None, 1)
            yield ForeignMessage(
                id=row["id"],
                message=_message(row),
                compacted=not live and row.get("compacted") == 1,
                rewound=not live and row.get("compacted") != 1,
            )

    def count(self) -> int:
        return int(all_rows(self._connection, "SELECT count(*) FROM messages")[0][0])

    def _rows(self, table: str, rest: str, values: tuple[Any, ...] = ()) -> Iterator[dict[str, Any]]:
        names = [row[1] for row in self._connection.execute(f"PRAGMA table_info({table})")]
        quoted = ['"' + name.replace('"', '""') + '"' for name in names]
        bare = ", ".join(f"iif(typeof({name}) = 'text', CAST({name} AS BLOB), {name})" for name in quoted)
        for row in self._connection.execute(f"SELECT {bare} FROM {table} {rest}", values):  # noqa: S608 - names from the file, quoted
            yield dict(zip(names, mended(row), strict=True))


def _session(row: dict[str, Any], rows: dict[str, dict[str, Any]], newest: int) -> ForeignSession:
    parent = row.get("parent_session_id")
    parent = parent if parent in rows and parent != row["id"] else None
    fields = {name: row[name] for name in _PLAIN if row.get(name) is not None}
    fields |= {"source": str(row.get("source") or "unknown"), "archived": 1 if row.get("archived") else 0}
    if row.get("git_repo_root"):
        fields["project"] = row["git_repo_root"]
    kept = {name: value for name, value in row.items() if name not in (*_PLAIN, *_OUR_OWN)}
    fields |= {name: value for name, value in kept.items() if value not in (None, "", 0)}
    return ForeignSession(
        id=str(row["id"]), parent=parent, kind=_kind(row, rows.get(parent or "")), newest=newest, fields=fields
    )


def _kind(row: dict[str, Any], parent: dict[str, Any] | None) -> str | None:
    """How a session hangs on its parent; hermes-agent says it in `model_config` and in why the parent ended."""
    if parent is None:
        return None
    marks = _opened(row.get("model_config"))
    if isinstance(marks, dict) and marks.get("_branched_from"):
        return "branch"
    if isinstance(marks, dict) and marks.get("_delegate_from"):
        return "delegate"
    if row.get("source") in ("tool", "subagent"):
        return "delegate"
    return {"compression": "compression", "branched": "branch"}.get(str(parent.get("end_reason")), "delegate")


def _after_its_parents(
    session: ForeignSession, sessions: dict[str, ForeignSession], ordered: dict[str, ForeignSession]
) -> None:
    chain: list[ForeignSession] = []
    seen: set[str] = set()
    at: ForeignSession | None = session
    while at is not None and at.id not in ordered and at.id not in seen:  # a ring of parents ends here too
        seen.add(at.id)
        chain.append(at)
        at = sessions.get(at.parent) if at.parent else None
    for each in reversed(chain):
        ordered[each.id] = each


def _message(row: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": str(row.get("role") or "unknown")}
    content = row.get("content")
    packed = isinstance(content, str) and content.startswith(_JSON_MARK)
    message["content"] = _opened(content[len(_JSON_MARK) :]) if content and packed else content
    if row.get("tool_name"):
        message["name" if message["role"] == "tool" else "tool_name"] = row["tool_name"]
    for name, value in row.items():
        if name not in (*_NOT_IN_MESSAGE, "role", "content") and value not in (None, "", 0):
            message[name] = _opened(value) if name in _JSON_COLUMNS else value
    if not isinstance(message.get("tool_calls"), list | None):
        message["tool_calls_unread"] = message.pop("tool_calls")  # not JSON; kept, though nobody can call it
    return message


def _opened(text: Any) -> Any:
    """The JSON inside a text; the text itself when there is none."""
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text
