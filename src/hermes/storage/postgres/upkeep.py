"""Figures about a person's conversations in PostgreSQL, the summaries a context engine keeps there, and images."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from hermes.storage.conversations import Maintenance, Summaries

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hermes.storage.ports import Summary
    from hermes.storage.postgres.database import PersonDatabase


class PostgresImages:
    """Blobs of images under their names."""

    def __init__(self, database: PersonDatabase) -> None:
        self._database = database
        self._person = database.person

    def names(self) -> list[str]:
        return self._database.column("SELECT name FROM images WHERE person = %s", (self._person,))

    def put(self, images: Iterable[tuple[str, bytes]]) -> None:
        added = "INSERT INTO images (person, name, data) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
        with self._database.writing() as connection:
            for name, data in images:
                connection.execute(added, (self._person, name, data))

    def read(self, name: str, at_most: int) -> bytes | None:
        wanted = "SELECT substring(data FROM 1 FOR %s) FROM images WHERE person = %s AND name = %s"
        row = self._database.row(wanted, (at_most, self._person, name))
        return None if row is None else bytes(row[0])

    def remove(self, names: Sequence[str]) -> None:
        self._database.run("DELETE FROM images WHERE person = %s AND name = ANY(%s)", (self._person, list(names)))


_ADD_SUMMARY = """
    INSERT INTO summaries (person, node, session, depth, ids, messages, text, made_by, made_at, children)
    SELECT %s, %s, key, %s, %s, %s, %s, %s, %s, %s FROM sessions WHERE person = %s AND id = %s
"""

_OF_SESSION = """
    SELECT node, depth, ids, messages, text, made_by, made_at, children
    FROM summaries WHERE person = %s AND session = %s ORDER BY node
"""
_PUT_SUMMARY = """
    INSERT INTO summaries (person, session, node, depth, ids, messages, text, made_by, made_at, children)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""


class PostgresSummaries(Summaries):
    """The summary graph in PostgreSQL."""

    child = """s.node = ANY(
        (SELECT p.children FROM summaries p WHERE p.person = :owner AND p.node = :parent)::bigint[])"""

    def add(self, session_id: str, node: Summary, children: Sequence[int]) -> Summary:
        person = self._owner
        with self._database.writing() as connection:
            taken = "UPDATE people SET last_node = last_node + 1 WHERE person = %s RETURNING last_node"
            number = int(self._database.row(taken, (person,))[0])
            row = (person, number, node.depth, node.ids, node.messages, node.text, node.made_by, time.time())
            connection.execute(_ADD_SUMMARY, (*row, list(children), person, session_id))
        return node._replace(number=number)

    def of_session(self, key: int) -> list[Any]:
        return [(*row[:-1], tuple(sorted(row[-1]))) for row in self._database.rows(_OF_SESSION, (self._owner, key))]

    def put(self, key: int, nodes: Sequence[Any]) -> None:
        with self._database.writing() as connection:
            for node in nodes:
                connection.execute(_PUT_SUMMARY, (self._owner, key, *node[:-1], list(node[-1])))
            newest = "UPDATE people SET last_node = greatest(last_node, %s) WHERE person = %s"
            connection.execute(newest, (max((node[0] for node in nodes), default=0), self._owner))


class PostgresMaintenance(Maintenance):
    """The server keeps tables and indexes in shape by itself (autovacuum)."""

    details = "d.person = s.person AND d.session = s.key"

    def sizes(self) -> dict[str, int]:
        stored = "SELECT coalesce(sum(pg_column_size(m.*)), 0)::bigint FROM messages m WHERE person = %s"
        return {"file_bytes": int(self._database.row(stored, (self._owner,))[0]), "log_bytes": 0, "free_bytes": 0}
