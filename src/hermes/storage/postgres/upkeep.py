"""Figures about a person's conversations in PostgreSQL, the summaries a context engine keeps there, and images."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from hermes.storage.ports import Summary, Use

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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
        with self._database.writing() as connection:
            connection.execute("DELETE FROM images WHERE person = %s AND name = ANY(%s)", (self._person, list(names)))


_OF_CONVERSATION = """
    WITH RECURSIVE family (root) AS (
        SELECT root FROM sessions WHERE person = %(person)s AND id = %(id)s
        UNION SELECT above.root FROM family
            JOIN sessions first ON first.person = %(person)s AND first.key = family.root
            JOIN sessions above ON above.person = %(person)s AND above.key = first.parent
    )
    SELECT s.node, s.depth, s.ids, s.messages, s.text, s.made_by
    FROM summaries s JOIN sessions c ON c.person = s.person AND c.key = s.session
    WHERE s.person = %(person)s AND c.root IN (SELECT root FROM family)
        AND (%(number)s::bigint IS NULL OR s.node = %(number)s)
        AND (%(depth)s::int IS NULL OR (s.depth = %(depth)s AND s.ids = %(ids)s))
        AND (%(parent)s::bigint IS NULL OR s.node = ANY(
            (SELECT p.children FROM summaries p WHERE p.person = %(person)s AND p.node = %(parent)s)::bigint[]))
    ORDER BY s.node
"""
_ADD_SUMMARY = """
    INSERT INTO summaries (person, node, session, depth, ids, messages, text, made_by, made_at, children)
    SELECT %s, %s, key, %s, %s, %s, %s, %s, %s, %s FROM sessions WHERE person = %s AND id = %s
"""


class PostgresSummaries:
    """The summary graph in PostgreSQL."""

    def __init__(self, database: PersonDatabase) -> None:
        self._database = database

    def nodes(
        self,
        session_id: str,
        *,
        number: int | None = None,
        same: tuple[int, str] | None = None,
        parent: int | None = None,
    ) -> list[Summary]:
        depth, ids = same or (None, None)
        values = {"person": self._database.person, "id": session_id, "number": number, "depth": depth, "ids": ids}
        return [Summary(*row) for row in self._database.rows(_OF_CONVERSATION, {**values, "parent": parent})]

    def add(self, session_id: str, node: Summary, children: Sequence[int]) -> Summary:
        person = self._database.person
        with self._database.writing() as connection:
            taken = "UPDATE people SET last_node = last_node + 1 WHERE person = %s RETURNING last_node"
            number = int(self._database.row(taken, (person,))[0])
            row = (person, number, node.depth, node.ids, node.messages, node.text, node.made_by, time.time())
            connection.execute(_ADD_SUMMARY, (*row, list(children), person, session_id))
        return node._replace(number=number)


_IN_ORDER_OF_USE = """
    SELECT s.key, s.last_active, s.ended_at IS NOT NULL, s.source, s.archived = 1,
        coalesce(d.details::jsonb ? 'imported_at', false)
    FROM sessions s LEFT JOIN session_details d ON d.person = s.person AND d.session = s.key
    WHERE s.person = %s AND s.listed = 1 ORDER BY s.activity, s.key
"""
_TOTALS = """
    SELECT count(*), coalesce(sum(listed), 0), coalesce(sum(message_count), 0)::bigint,
        coalesce(sum(tool_call_count), 0)::bigint, count(*) FILTER (WHERE ended_at IS NULL),
        coalesce(sum(archived), 0), min(started_at), max(last_active)
    FROM sessions WHERE person = %s
"""
_BY_SOURCE = """
    SELECT source, count(*), coalesce(sum(message_count), 0)::bigint, coalesce(sum(tool_call_count), 0)::bigint
    FROM sessions WHERE person = %s GROUP BY source ORDER BY 3 DESC, source
"""
_BY_MONTH = """
    SELECT started_at, message_count FROM sessions WHERE person = %s
"""
_SIZES = """
    SELECT coalesce(sum(pg_column_size(m.*)), 0)::bigint FROM messages m WHERE person = %s
"""


class PostgresMaintenance:
    """The server keeps tables and indexes in shape by itself (autovacuum)."""

    def __init__(self, database: PersonDatabase) -> None:
        self._database = database
        self._values = (database.person,)

    def uses(self) -> list[Use]:
        return [Use(*row) for row in self._database.rows(_IN_ORDER_OF_USE, self._values)]

    def last_moment(self, now: float) -> float | None:
        newest = """
            SELECT greatest(max(last_active) FILTER (WHERE last_active <= %(now)s),
                max(ended_at) FILTER (WHERE ended_at <= %(now)s)) FROM sessions WHERE person = %(person)s
        """
        row = self._database.row(newest, {"now": now, "person": self._database.person})
        return None if row[0] is None else float(row[0])

    def totals(self) -> dict[str, Any]:
        names = ("sessions", "conversations", "messages", "tool_calls", "open", "archived", "first_used", "last_used")
        return dict(zip(names, self._database.row(_TOTALS, self._values), strict=True))

    def by_source(self) -> list[dict[str, Any]]:
        names = ("source", "sessions", "messages", "tool_calls")
        return [dict(zip(names, row, strict=True)) for row in self._database.rows(_BY_SOURCE, self._values)]

    def by_month(self, months: int) -> list[dict[str, Any]]:
        """By this machine's time zone, as the local engine does."""
        found: dict[str, list[int]] = {}
        for started, messages in self._database.rows(_BY_MONTH, self._values):
            counted = found.setdefault(time.strftime("%Y-%m", time.localtime(started)), [0, 0])
            counted[0] += 1
            counted[1] += messages
        newest = sorted(found.items(), reverse=True)[:months]
        return [{"month": month, "sessions": sessions, "messages": count} for month, (sessions, count) in newest]

    def sizes(self) -> dict[str, int]:
        return {"file_bytes": int(self._database.row(_SIZES, self._values)[0]), "log_bytes": 0, "free_bytes": 0}

    def is_in_pieces(self) -> bool:
        return False

    def merge_steps(self) -> Iterator[str]:
        return iter(())

    def checkpoint(self) -> None: ...

    def rewrite(self) -> None: ...
