"""Reads transcripts in the order in which messages arrived; a row that fails its checksum is shown without its text."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import apsw

from hermes.storage.damage import UNREADABLE, careful_row, is_shaped
from hermes.storage.database import all_rows
from hermes.storage.migrations import BLOCK, BLOCK_BITS
from hermes.storage.transcripts import COLUMNS, REWOUND, STATE_BITS, checksum, decode
from hermes.vocabulary.errors import DamagedFile, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hermes.storage.conversations import Session
    from hermes.storage.database import Database
    from hermes.storage.transcripts import Row, StoredMessage

_PREFIXED = ", ".join(f"m.{column}" for column in COLUMNS.split(", "))
_OF_SESSION = f"""
    SELECT b.first_place + (m.id & 31), {_PREFIXED}
    FROM blocks b CROSS JOIN messages m ON m.id BETWEEN max(b.block << 5, :low) AND min((b.block << 5) + 31, :high)
    WHERE b.owner = :owner AND b.session = :session AND b.block BETWEEN :first AND :last
        AND ((m.state & 3) <> 2 OR :rewound)
        AND (:spoken = 0 OR (m.role IN ('user', 'assistant') AND m.content IS NOT NULL))
    ORDER BY b.block {{order}}, m.id {{order}} LIMIT :limit
"""  # noqa: S608 - column names are ours
_BLOCKS_OF_SESSION = """
    SELECT block, first_place FROM blocks
    WHERE owner = :owner AND session = :session AND block BETWEEN :first AND :last ORDER BY block
"""
_OLDEST_FIRST = _OF_SESSION.format(order="ASC")
_NEWEST_FIRST = _OF_SESSION.format(order="DESC")
_EVERYTHING = 1 << 62
_BLOCK = "SELECT first_place FROM blocks WHERE block = ? AND owner = ? AND session = ?"
_IN_BLOCK = f"SELECT {COLUMNS} FROM messages WHERE id BETWEEN ? AND ? AND (state & 3) <> 2 ORDER BY id"  # noqa: S608
_TEXTS = """
    SELECT id, CAST(concat_ws(' ', name, content, tool_calls) AS BLOB) FROM carray(?) CROSS JOIN messages ON id = value
"""
_BY_IDS = f"SELECT {COLUMNS} FROM carray(?) CROSS JOIN messages ON id = value"  # noqa: S608 - column names are ours


class Transcripts:
    def __init__(self, database: Database, owner: int) -> None:
        self._database = database
        self._owner = owner

    def of(
        self, session: Session, *, limit: int | None = None, newest: bool = False, rewound: bool = False
    ) -> list[StoredMessage]:
        found = self._read(session, limit=limit, newest=newest, rewound=rewound)
        return found[::-1] if newest else found

    def around(self, session: Session, message_id: int, window: int) -> list[StoredMessage]:
        """The message itself with up to `window` neighbours on each side."""
        block = self._database.row(_BLOCK, (message_id >> BLOCK_BITS, self._owner, session.key))
        if block is None:
            raise NotFound(f"message {message_id} is not in session {session.id!r}; search again for a current id")
        # Neighbours are neighbouring numbers, as long as they stand in the same block and none was taken back.
        start = message_id >> BLOCK_BITS << BLOCK_BITS
        low, high = max(start, message_id - window), min(start + BLOCK - 1, message_id + window)
        found = self._span(session, low, high, block[0] - start)
        before = [message for message in found if message.id < message_id]
        after = found[len(before) :]
        if len(before) < window and (low > start or block[0]):
            before = self._read(session, high=message_id - 1, limit=window, newest=True)[::-1]
        if len(after) <= window and session.last_id > high:
            after = self._read(session, low=message_id, limit=window + 1)
        return self._told_of_damage(before + after)

    def _span(self, session: Session, low: int, high: int, place: int) -> list[StoredMessage]:
        """Messages of one block; `place` is what their ids lack to their places."""
        key = session.key
        try:
            rows = self._database.rows(_IN_BLOCK, (low, high))
            return [decode(row, place + row[0], key) for row in rows]
        except (DamagedFile, TypeError, AttributeError):  # the last two: a number where a text was
            return self._read(session, low=low, high=high)

    def bookends(self, session: Session, count: int) -> tuple[list[StoredMessage], list[StoredMessage]]:
        first = self._read(session, limit=count, spoken=True)
        last = self._read(session, limit=count, spoken=True, newest=True)
        return first, last[::-1]

    def session_key(self, message_id: int) -> int | None:
        row = self._database.row(
            "SELECT session FROM blocks WHERE block = ? AND owner = ?", (message_id >> BLOCK_BITS, self._owner)
        )
        return int(row[0]) if row else None

    def rows(self, message_ids: Iterable[int]) -> dict[int, Row]:
        """Rows by id for the search, which has already seen that they are the owner's."""
        wanted = array("q", message_ids)
        if not wanted:
            return {}
        with self._database.lock:
            try:
                rows: list[Row] = all_rows(self._database.connection, _BY_IDS, (apsw.carray(wanted),))
            except UNREADABLE as error:
                self._database.mark_damaged(str(error))
                rows = [row for message_id in wanted if (row := careful_row(self._database, message_id)) is not None]
        return {row[0]: row for row in rows if self._can_be_opened(row) and row[2] & STATE_BITS != REWOUND}

    def _can_be_opened(self, row: Row) -> bool:
        """False for a damaged row the search would stumble over; plain text waits until its checksum is looked at."""
        content, calls = row[4], row[6]
        shaped = is_shaped(row)
        if shaped and calls is None and not (content is not None and content.startswith("\x00")):
            return True
        key = self.session_key(row[0])
        if shaped and key is not None and checksum(row[:-1], key) == row[-1]:
            return True
        self._database.mark_damaged(f"the checksum of message {row[0]} does not match its text")
        return False

    def _read_around_damage(self, session: Session, values: dict[str, int], *, newest: bool) -> list[StoredMessage]:
        """One message after the other, so that a bad page costs its own messages and no others."""
        blocks = self._database.rows(_BLOCKS_OF_SESSION, values)
        ids = [
            (message_id, first + message_id - (block << BLOCK_BITS))
            for block, first in blocks
            for message_id in range(block << BLOCK_BITS, (block + 1) << BLOCK_BITS)
            if values["low"] <= message_id <= min(values["high"], session.last_id)
        ]
        found: list[StoredMessage] = []
        for message_id, place in reversed(ids) if newest else ids:
            row = careful_row(self._database, message_id)
            if row is not None and (row[2] & STATE_BITS != REWOUND or values["rewound"]):
                message = decode(row, place, session.key)
                if not values["spoken"] or (message.role in ("user", "assistant") and row[4] is not None):
                    found.append(message)
            if len(found) == values["limit"]:
                break
        return found

    def texts(self, message_ids: list[int]) -> list[tuple[int, bytes]]:
        """All that stands in these messages, as it is stored, in the given order."""
        return self._database.rows(_TEXTS, (apsw.carray(array("q", message_ids)),)) if message_ids else []

    def counts(self) -> dict[str, int]:
        sessions, messages = self._database.row(
            "SELECT count(*), coalesce(sum(message_count), 0) FROM sessions WHERE owner = ?", (self._owner,)
        )
        return {"sessions": sessions, "messages": messages}

    def _read(
        self,
        session: Session,
        *,
        low: int = 0,
        high: int = _EVERYTHING,
        limit: int | None = None,
        newest: bool = False,
        rewound: bool = False,
        spoken: bool = False,
    ) -> list[StoredMessage]:
        values = {
            "owner": self._owner,
            "session": session.key,
            "first": low >> BLOCK_BITS,
            "last": high >> BLOCK_BITS,
            "low": low,
            "high": high,
            "rewound": int(rewound),
            "spoken": int(spoken),
            "limit": -1 if limit is None else limit,
        }
        try:
            rows = self._database.rows(_NEWEST_FIRST if newest else _OLDEST_FIRST, values)
            messages = [decode(row[1:], row[0], session.key) for row in rows]
        except (DamagedFile, TypeError, AttributeError):  # the last two: a number where a text was
            messages = self._read_around_damage(session, values, newest=newest)
        return self._told_of_damage(messages)

    def _told_of_damage(self, messages: list[StoredMessage]) -> list[StoredMessage]:
        for message in messages:
            if message.damaged:
                self._database.mark_damaged(f"the checksum of message {message.id} does not match its text")
        return messages


assert (BLOCK, BLOCK_BITS) == (32, 5)  # noqa: S101 - the statements above spell the block size out
