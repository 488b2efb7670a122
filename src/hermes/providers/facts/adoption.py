"""Takes over a `memory_store.db` of hermes-agent's: its facts go into a new file, its own file is kept beside it.

Killed at any point, the next start finds either the old file or the finished new one.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import apsw

from hermes.storage.database import all_rows
from hermes.storage.foreign import program_of
from hermes.vocabulary.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes.providers.facts.store import FactStore

KEPT, _NEW = ".hermes-agent", ".adopting"
_SIDES = ("", "-wal", "-shm", "-journal", ".lock")
_THEIRS = {"facts", "entities", "fact_entities", "memory_banks"}
_FACTS = """
    SELECT content, category, tags, trust_score, retrieval_count, helpful_count, created_at, updated_at
    FROM facts ORDER BY fact_id
"""
_AS_IT_WAS = """
    UPDATE facts SET trust_score = ?, retrieval_count = ?, helpful_count = ?, created_at = ?, updated_at = ?
    WHERE fact_id = ?
"""


def adopt(path: str, opened: Callable[[str], FactStore]) -> None:
    """Puts a file of ours with all its facts where hermes-agent's stands; does nothing when there is none."""
    if not os.path.exists(path) and os.path.exists(path + _NEW) and os.path.exists(path + KEPT):
        os.rename(path + _NEW, path)  # an earlier attempt was stopped between its last two steps
    rows = _their_facts(path)
    if rows is None:
        return
    for side in _SIDES:
        if os.path.exists(path + _NEW + side):
            os.remove(path + _NEW + side)
    store = opened(path + _NEW)
    try:
        _copy(store, rows)
    finally:
        store.close()
    kept = _free_name(path + KEPT)
    for side in _SIDES:
        if os.path.exists(path + side):
            os.rename(path + side, kept + side)
    os.rename(path + _NEW, path)


def _their_facts(path: str) -> list[Any] | None:
    """Every row, or None when the file is not theirs."""
    if not os.path.isfile(path) or os.path.islink(path):
        return None
    try:
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    except apsw.Error:
        return None  # whoever opens it next says what is wrong with it
    try:
        tables = {name for (name,) in all_rows(connection, "SELECT name FROM sqlite_schema WHERE type = 'table'")}
        if program_of(connection) is None or not tables >= _THEIRS:
            return None
        connection.pragma("wal_checkpoint(TRUNCATE)")
        return all_rows(connection, _FACTS)
    except apsw.NotADBError:
        return None
    except apsw.Error as error:
        raise StorageError(f"{path}, written by hermes-agent, cannot be read: {error}; move it away") from error
    finally:
        connection.close()


def _copy(store: FactStore, rows: list[Any]) -> None:
    """Each fact with its trust, counts and dates; entities are found anew, theirs take "t like Bob" for somebody."""
    with store.database.writing() as connection:
        for content, category, tags, trust, retrieved, helpful, created, updated in rows:
            fact_id, new = store.add(str(content), category=str(category or "general"), tags=str(tags or ""))
            if new:
                values = (float(trust), int(retrieved), int(helpful), _moment(created), _moment(updated), fact_id)
                connection.execute(_AS_IT_WAS, values)


def _free_name(path: str) -> str:
    number, candidate = 1, path
    while os.path.exists(candidate):
        number, candidate = number + 1, f"{path}.{number}"
    return candidate


def _moment(text: Any) -> float:
    """SQLite's CURRENT_TIMESTAMP is UTC without saying so."""
    try:
        return datetime.fromisoformat(str(text)).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return datetime.now(UTC).timestamp()
