"""Which messages of a person hold given words, and their vectors of meaning, in PostgreSQL.

The words of a message are made by the same tokenizer as in SQLite and stored as a tsvector, so both engines find the
same messages; PostgreSQL's own dictionaries and ranking are not used.
"""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from hermes.base.words import searchable
from hermes.storage.ports import EVERYTHING, SAID, TITLES
from hermes.storage.records import REWOUND, STATE_BITS, called, said

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hermes.base.words import Words
    from hermes.storage.postgres.database import PersonDatabase
    from hermes.storage.records import Row

_LONGEST_WORD = 500  # characters; a word of a tsvector has at most 2,046 bytes
_MOST_BYTES = 900_000  # of distinct words in one message; a tsvector has at most a megabyte
_MATCHING = "SELECT matching(%s::tsquery, %s::tsquery, %s, %s, %s)"
_HOLDERS = "SELECT number, ids, lengths FROM holders(%s, %s::text[]::tsquery[], %s)"
_KEPT = 20_000  # messages with one word; a word that more of them hold is only counted
_FREQUENCY = "SELECT frequency(%s::tsquery, %s::tsquery)"
_MATCHING_TITLES = """
    SELECT key FROM sessions WHERE person = %s AND title_words @@ %s::tsquery ORDER BY key DESC LIMIT %s
"""
_TOTALS = """
    SELECT coalesce(sum(said_messages), 0)::bigint, coalesce(sum(said_words), 0)::bigint
    FROM sessions WHERE person = %s
"""
_WORDS_FROM = """
    SELECT r.number, v.word
    FROM unnest(%s::text[], %s::text[], %s::text[], %s::int[]) WITH ORDINALITY AS r(kind, first, behind, most, number),
        LATERAL (
            SELECT word FROM vocabulary
            WHERE person = %s AND kind = r.kind AND word >= r.first AND word < r.behind ORDER BY word LIMIT r.most
        ) AS v
    ORDER BY r.number, v.word
"""
_NEWER_BLOCKS = "SELECT block, session, first_place FROM blocks WHERE person = %s AND block > %s ORDER BY block"
_TOKEN = re.compile(r'"((?:[^"]|"")*)"(\*?)|(\()|(\))|(AND|OR|NOT)\b')


class Terms(NamedTuple):
    """The words of a message for each index, and how many were said."""

    said: list[str] | None
    tools: list[str] | None
    length: int

    @staticmethod
    def cut(words: Iterable[str]) -> Iterator[str]:
        """Distinct words, as a tsvector can hold them."""
        room = _MOST_BYTES
        for word in dict.fromkeys(word[:_LONGEST_WORD] for word in words):
            room -= len(word.encode()) + 8
            if room < 0:
                return
            yield word


def terms_of(row: Row, words: Words) -> Terms:
    """The words of a stored message, split as SQLite's index splits them."""
    _, role, state, _, content, name, calls, *_ = row
    if state & STATE_BITS == REWOUND:
        return Terms(None, None, 0)
    text = said(content, name)
    if role == "tool":
        return Terms(None, list(Terms.cut(words.of_searchable(searchable(text)))), 0)
    spoken = words.of_searchable(searchable(text)) if text else None
    tools = list(Terms.cut(words.of_searchable(searchable(called(calls))))) if calls else None
    return Terms(None if spoken is None else list(Terms.cut(spoken)), tools, len(spoken or ()))


class PostgresIndex:
    """Every message is indexed as it is stored."""

    def __init__(self, database: PersonDatabase, words: Words) -> None:
        self._database = database
        self._words = words
        # During one search: who holds a word, newest first, and how long these messages are.
        self._held: dict[tuple[str, str], list[int]] = {}
        self._lengths: dict[int, int] = {}
        self._listed: dict[tuple[str, str, str, int], list[str]] = {}  # the words of a range

    def update(self, *, batch: int, most: int | None = None) -> int:
        return 0

    def is_level(self) -> bool:
        return True

    def refresh(self) -> None:
        self._held.clear()
        self._lengths.clear()
        self._listed.clear()

    def expect(
        self,
        *,
        after: int | None = None,
        counts: Iterable[tuple[str, str]] = (),
        matching: Iterable[tuple[str, str, int]] = (),
        words: Iterable[tuple[str, str, str, int]] = (),
    ) -> None:
        person = self._database.person
        held: dict[str, list[str]] = {}
        for table, expression in counts:
            held.setdefault(table, []).append(expression)
        asked = [self._holders(table, expressions) for table, expressions in held.items()]
        asked += [self._matching(*each) for each in matching]
        if ranges := list(words):
            asked.append(self._words_from(ranges))
        if after is not None:
            asked += [(_NEWER_BLOCKS, (person, after)), (_TOTALS, (person,))]
        self._database.ahead([each for each in asked if each is not None])
        for table, expressions in held.items():
            self.frequencies(table, expressions)
        self._list(ranges)

    def matching(self, table: str, expression: str, limit: int) -> list[int]:
        if (table, expression) in self._held:
            return self._held[table, expression][:limit]
        asked = self._matching(table, expression, limit)
        return [] if asked is None else self._database.column(*asked)

    def frequencies(self, table: str, expressions: Sequence[str]) -> list[int]:
        """Asks for all words at once, and keeps who holds them: the search asks for that next."""
        counts = {each: len(self._held.get((table, each), ())) for each in expressions}
        missing = [each for each in counts if (table, each) not in self._held]
        asked = self._holders(table, missing)
        wanted = [each for each in missing if self._query(each) is not None]
        for number, ids, lengths in self._database.rows(*asked) if asked else ():
            each = wanted[number - 1]
            counts[each] = len(ids or ())
            if counts[each] < _KEPT:
                self._held[table, each] = ids or []
                self._lengths.update(zip(ids or (), lengths or (), strict=True))
            else:
                counts[each] = int(
                    self._database.row(_FREQUENCY, self._values(table, self._query(each) or "", 0)[:2])[0]
                )
        return [counts[each] for each in expressions]

    def lengths(self, message_ids: Sequence[int]) -> dict[int, int]:
        known = {i: length for i in message_ids if (length := self._lengths.get(i)) is not None}
        missing = [i for i in message_ids if i not in known]
        wanted = "SELECT id, length FROM messages WHERE person = %s AND id = ANY(%s)"
        if missing:
            known |= dict(self._database.rows(wanted, (self._database.person, missing)))
        return {i: length for i, length in known.items() if length}

    def in_order(self, said: str, tools: str, *, oldest: bool, first: int, most: int) -> Iterator[list[int]]:
        queries = (self._query(said), self._query(tools))
        beyond = -1 if oldest else EVERYTHING
        while queries != (None, None):
            chunk = self._database.column(_MATCHING, (*queries, oldest, beyond, first))
            if chunk:
                yield chunk
            if len(chunk) < first:
                return
            beyond, first = chunk[-1], min(most, 2 * first)

    def words_from(self, table: str, start: str, end: str, limit: int) -> list[str]:
        wanted = (table, start, end, limit)
        if wanted not in self._listed:
            self._list([wanted])
        return self._listed[wanted]

    def _list(self, ranges: list[tuple[str, str, str, int]]) -> None:
        if ranges:
            self._listed |= {each: [] for each in ranges}
            for number, word in self._database.rows(*self._words_from(ranges)):
                self._listed[ranges[number - 1]].append(word)

    def _words_from(self, ranges: list[tuple[str, str, str, int]]) -> tuple[str, tuple[Any, ...]]:
        return _WORDS_FROM, (*map(list, zip(*ranges, strict=True)), self._database.person)

    def totals(self) -> tuple[int, int]:
        messages, words = self._database.row(_TOTALS, (self._database.person,))
        return messages, words

    def blocks_after(self, block: int) -> list[tuple[int, int, int]]:
        return self._database.rows(_NEWER_BLOCKS, (self._database.person, block))

    def _holders(self, table: str, expressions: Iterable[str]) -> tuple[str, tuple[Any, ...]] | None:
        queries = [query for each in dict.fromkeys(expressions) if (query := self._query(each)) is not None]
        return (_HOLDERS, (table, queries, _KEPT)) if queries else None

    def _matching(self, table: str, expression: str, limit: int) -> tuple[str, tuple[Any, ...]] | None:
        query = self._query(expression)
        if query is None:
            return None
        if table == TITLES:
            return _MATCHING_TITLES, (self._database.person, query, limit)
        return _MATCHING, self._values(table, query, limit)

    def _values(self, table: str, query: str, limit: int) -> tuple[str | None, str | None, bool, int, int]:
        said, tools = (query, None) if table == SAID else (None, query)
        return said, tools, False, EVERYTHING, limit

    def _query(self, expression: str) -> str | None:
        """The expression as a tsquery; None when no word of it can be in any message."""
        tokens = [match.groups() for match in _TOKEN.finditer(expression)]
        parsed, _ = self._either(tokens, 0)
        return parsed

    def _either(self, tokens: list[Any], at: int) -> tuple[str | None, int]:
        parts = []
        while True:
            part, at = self._both(tokens, at)
            parts.append(part)
            if at >= len(tokens) or tokens[at][4] != "OR":
                break
            at += 1
        found = [part for part in parts if part is not None]
        return (f"({' | '.join(found)})" if found else None), at

    def _both(self, tokens: list[Any], at: int) -> tuple[str | None, int]:
        found, at = self._one(tokens, at)
        while at < len(tokens) and tokens[at][4] != "OR" and not tokens[at][3]:
            operator = tokens[at][4]
            other, at = self._one(tokens, at + 1 if operator else at)
            if operator == "NOT":
                found = found if found is None or other is None else f"({found} & !{other})"
            else:
                found = None if found is None or other is None else f"({found} & {other})"
        return found, at

    def _one(self, tokens: list[Any], at: int) -> tuple[str | None, int]:
        text, prefix, opened, _, _ = tokens[at]
        if opened:
            found, at = self._either(tokens, at + 1)
            return found, at + 1  # the closing one
        words = [word[:_LONGEST_WORD] for word in self._words.of_searchable(text.replace('""', '"')) if word]
        if not words:
            return None, at + 1
        quoted = [_quoted(word) for word in words]
        quoted[-1] += ":*" if prefix else ""
        return (f"({' & '.join(quoted)})" if len(quoted) > 1 else quoted[0]), at + 1


def _quoted(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


_WAITING = """
    SELECT key, last_id FROM sessions WHERE person = %s AND embedded_id < last_id ORDER BY key DESC LIMIT %s
"""
_MISSING = """
    SELECT b.block, least(31, %(reached)s - (b.block << 5)) + 1
    FROM blocks b LEFT JOIN vectors v ON v.person = b.person AND v.block = b.block
    WHERE b.person = %(person)s AND b.session = %(session)s AND b.block <= %(reached)s::bigint >> 5
        AND coalesce(length(v.data), 0) < (least(31, %(reached)s - (b.block << 5)) + 1) * %(dimensions)s
    ORDER BY b.block DESC
"""
_KEEP = """
    INSERT INTO vectors (person, block, stamp, checksum, data)
    SELECT %(person)s, %(block)s, %(stamp)s, %(checksum)s, %(data)s
    FROM blocks WHERE person = %(person)s AND block = %(block)s
    ON CONFLICT (person, block) DO UPDATE SET stamp = excluded.stamp, checksum = excluded.checksum, data = excluded.data
        WHERE length(vectors.data) < length(excluded.data)
"""
_VECTORS = "SELECT block, stamp, checksum, data FROM vectors WHERE person = %s"


class PostgresVectors:
    """Embeddings in PostgreSQL."""

    def __init__(self, database: PersonDatabase) -> None:
        self._database = database
        self._person = database.person

    def start_over_unless(self, made_by: str) -> None:
        wanted = "SELECT value FROM meta WHERE person = %s AND key = 'vectors_made_by'"
        row = self._database.row(wanted, (self._person,))
        if row is not None and bytes(row[0]) == made_by.encode():
            return
        with self._database.writing() as connection:
            connection.execute("DELETE FROM vectors WHERE person = %s", (self._person,))
            connection.execute("UPDATE sessions SET embedded_id = 0 WHERE person = %s", (self._person,))
            connection.execute(
                "INSERT INTO meta (person, key, kind, value) VALUES (%s, 'vectors_made_by', 'text', %s)"
                " ON CONFLICT (person, key) DO UPDATE SET value = excluded.value",
                (self._person, made_by.encode()),
            )

    def waiting(self, most: int) -> list[tuple[int, int]]:
        return self._database.rows(_WAITING, (self._person, most))

    def waits_for_many(self, many: int) -> bool:
        return len(self.waiting(many)) == many

    def missing(self, session: int, reached: int, dimensions: int) -> list[tuple[int, int]]:
        values = {"person": self._person, "session": session, "reached": reached, "dimensions": dimensions}
        return self._database.rows(_MISSING, values)

    def texts(self, first: int, last: int) -> list[tuple[int, str, str | None]]:
        wanted = "SELECT id, role, content FROM messages WHERE person = %s AND id BETWEEN %s AND %s"
        rows = self._database.rows(wanted, (self._person, first, last))
        return [(i, role, None if content is None else bytes(content).decode()) for i, role, content in rows]

    def keep(self, made: Sequence[tuple[int, bytes]], finished: Sequence[tuple[int, int]]) -> None:
        with self._database.writing() as connection:
            taken = "UPDATE people SET vectors_stamp = vectors_stamp + 1 WHERE person = %s RETURNING vectors_stamp"
            stamp = self._database.row(taken, (self._person,))[0]
            for block, data in made:
                values = {"person": self._person, "block": block, "stamp": stamp, "data": data}
                connection.execute(_KEEP, {**values, "checksum": zlib.crc32(data, block)})
            for session, reached in finished:
                connection.execute(
                    "UPDATE sessions SET embedded_id = %s WHERE person = %s AND key = %s",
                    (reached, self._person, session),
                )

    def newer(self, stamp: int, oldest: int) -> list[tuple[int, int, int, bytes]]:
        return self._rows("AND stamp > %s AND block >= %s ORDER BY stamp", (stamp, oldest))

    def below(self, block: int, most: int) -> list[tuple[int, int, int, bytes]]:
        return self._rows("AND block < %s ORDER BY block DESC LIMIT %s", (block, most))

    def count(self, oldest: int) -> int:
        counted = "SELECT count(*) FROM vectors WHERE person = %s AND block >= %s"
        return int(self._database.row(counted, (self._person, oldest))[0])

    def forget(self, blocks: Sequence[int]) -> None:
        with self._database.writing() as connection:
            gone = list(blocks)
            connection.execute(
                "UPDATE sessions SET embedded_id = 0 WHERE person = %s AND key IN"
                " (SELECT session FROM blocks WHERE person = %s AND block = ANY(%s))",
                (self._person, self._person, gone),
            )
            connection.execute("DELETE FROM vectors WHERE person = %s AND block = ANY(%s)", (self._person, gone))

    def _rows(self, rest: str, values: tuple[int, ...]) -> list[tuple[int, int, int, bytes]]:
        rows = self._database.rows(f"{_VECTORS} {rest}", (self._person, *values))
        return [(block, stamp, checksum, bytes(data)) for block, stamp, checksum, data in rows]
