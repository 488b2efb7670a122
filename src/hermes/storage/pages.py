"""Walks through transcripts of any length a page at a time, and says how much stands before and after a window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.storage.conversations import Conversations
from hermes.storage.migrations import BLOCK_BITS
from hermes.storage.reading import Transcripts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes.storage.conversations import Session
    from hermes.storage.database import Database
    from hermes.storage.sessions import SessionDB
    from hermes.storage.transcripts import StoredMessage

_PAGE = 256
_NEXT_SESSIONS = "SELECT key FROM sessions WHERE owner = ? AND key > ? ORDER BY key LIMIT ?"
_SEEN_BEFORE = """
    SELECT count(*) FROM blocks b CROSS JOIN messages m ON m.id BETWEEN (b.block << 5) AND (b.block << 5) + 31
    WHERE b.owner = ? AND b.session = ? AND b.block <= ? AND m.id < ? AND (m.state & 3) <> 2
"""
_FIRST_PLACE = "SELECT first_place FROM blocks WHERE block = ? AND owner = ?"


_ANY = """
    SELECT 1 FROM blocks b CROSS JOIN messages m ON m.id BETWEEN (b.block << 5) AND (b.block << 5) + 31
    WHERE b.owner = ? AND b.session = ? AND {wanted} LIMIT 1
"""
_ANY_COMPACTED = _ANY.format(wanted="(m.state & 3) = 1")  # the state stands before the text, so that none is read
_ANY_POINTER = _ANY.format(wanted="(instr(m.extra, '\"compaction\":true') OR instr(m.extra, '\"copy_of\":'))")


class Pages(Transcripts):
    def __init__(self, database: Database, owner: int) -> None:
        super().__init__(database, owner)
        self._conversations = Conversations(database, owner)

    @classmethod
    def of_db(cls, db: SessionDB) -> Pages:
        return cls(db._database, db._owner_key)  # noqa: SLF001 - one package, two files

    def messages(self, session: Session, *, page: int = _PAGE) -> Iterator[StoredMessage]:
        """Every message of a session in order, with one page of them in memory."""
        after = 0
        while found := self._read(session, low=after + 1, limit=page):
            yield from found
            after = found[-1].id

    def between(self, session: Session, low: int, high: int) -> list[StoredMessage]:
        """The messages of a session whose ids lie in a span, ends included."""
        return self._read(session, low=low, high=high)

    def sessions(self, *, page: int = _PAGE) -> Iterator[Session]:
        """Every session of the owner, in the order in which they were made: parents before their children."""
        after = 0
        while keys := [key for (key,) in self._database.rows(_NEXT_SESSIONS, (self._owner, after, page))]:
            found = self._conversations.by_keys(keys)
            yield from (found[key] for key in keys if key in found)
            after = keys[-1]

    def around_any(self, session: Session, first: StoredMessage, last: StoredMessage) -> tuple[int, int]:
        """How many messages of the session stand before `first` and after `last`."""
        total = session.message_count
        if self._place(session.last_id) == total - 1:  # nothing was taken back, so places count messages
            return first.place, max(0, total - last.place - 1)
        return self._before(session, first.id), max(0, total - self._before(session, last.id + 1))

    def holds_pointers(self, session: Session) -> bool:
        """Whether a message of this session names others by their ids: a compaction wrote it, or it is a copy."""
        one = (self._owner, session.key)
        may = session.kind in ("compression", "branch") or self._database.rows(_ANY_COMPACTED, one)
        return bool(may and self._database.rows(_ANY_POINTER, one))

    def parent_id(self, session: Session) -> str | None:
        if session.parent is None:
            return None
        parent = self._conversations.by_key(session.parent)
        return parent.id if parent else None

    def _place(self, message_id: int) -> int:
        row = self._database.row(_FIRST_PLACE, (message_id >> BLOCK_BITS, self._owner))
        return int(row[0]) + message_id % (1 << BLOCK_BITS) if row else -1

    def _before(self, session: Session, message_id: int) -> int:
        values = (self._owner, session.key, message_id >> BLOCK_BITS, message_id)
        return int(self._database.row(_SEEN_BEFORE, values)[0])
