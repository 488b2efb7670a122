"""The SQLite session store of OpenAI's Agents SDK: tables `agent_sessions` and `agent_messages`."""

from __future__ import annotations

import json
import tempfile
from functools import partial
from typing import TYPE_CHECKING, Any

from hermes.base.errors import DamagedFile
from hermes.portability.conversations_import import moment_of
from hermes.portability.sources import merged
from hermes.portability.transcripts.conversation import Conversation, message_of, timed
from hermes.storage.local.database import all_rows
from hermes.storage.local.repair.salvage import open_unchanged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import apsw

    from hermes.portability.transcripts.conversation import Told

NAME = "openai-agents"
TABLE = "agent_messages"
_SESSIONS = "SELECT session_id, min(created_at) FROM agent_messages GROUP BY session_id ORDER BY min(id)"
_ITEMS = "SELECT message_data, created_at FROM agent_messages WHERE session_id = ? ORDER BY id"


def places() -> list[str]:
    return []


def conversations(path: str, told: Told, on_bytes: Callable[[int], None] | None = None) -> Iterator[Conversation]:
    del on_bytes
    with tempfile.TemporaryDirectory(prefix="hermes-import-") as place:
        connection = open_unchanged(merged(path, place))
        if connection is None:
            raise DamagedFile(f"{path} cannot be read as a database; copy it anew from where it came")
        try:
            for name, started in all_rows(connection, _SESSIONS):
                fields = {"source": NAME, "started_at": _moment(started), "imported_from": path}
                yield Conversation(
                    id=str(name),
                    fields={key: value for key, value in fields.items() if value is not None},
                    messages=partial(_messages, connection, name, told),
                )
        finally:
            connection.close()


def _messages(connection: apsw.Connection, session: Any, told: Told) -> Iterator[dict[str, Any]]:
    names: dict[str, str] = {}
    for data, created in connection.execute(_ITEMS, (session,)):
        try:
            item = json.loads(data)
        except (TypeError, ValueError, RecursionError) as error:
            told(f"session {session!r}: an item is not JSON ({str(error)[:100]})")
            continue
        message = message_of(item, names) if isinstance(item, dict) else None
        if message is not None:
            yield timed(message, _moment(created))


def _moment(given: Any) -> float | None:
    """SQLite's own time stamps are in UTC and do not say so."""
    return moment_of(f"{given}+00:00" if isinstance(given, str) and "+" not in given else given)
