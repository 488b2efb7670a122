"""Finds candidate messages in the full-text index without ever walking more of it than a bounded amount.

Rare words bring all their messages. A word found more often than `CAP` brings none while rarer ones are there; when
there is nothing rarer, messages that hold several of the common words come first, then the newest.
"""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from hermes.storage.beginnings import Beginnings
from hermes.storage.index import FOREIGN, LOCAL_OWNER, owner_word
from hermes.storage.migrations import BLOCK, BLOCK_BITS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hermes.storage.database import Database
    from hermes.storage.query import Query
    from hermes.storage.syntax import Unit
    from hermes.storage.text import Words

CAP = 2000
FILTERED_CAP = 20_000
ENOUGH = 300
MOST_WALKED = 300_000
_FEW = 64  # messages with a rare word, which are read without looking other words up
_WALKED_WHILE_ONE_IS_READ = 400
TABLES = ("messages_fts", "tools_fts")


class Places:
    """Which session each block of message ids belongs to, for one owner; a block of somebody else's is not in it."""

    def __init__(self, database: Database, owner: int) -> None:
        self._database = database
        self._owner = owner
        self._session = array("q", [0])
        self._first = array("q", [0])
        self._before = array("q", [0])  # the session's previous and next block, 0 for none
        self._after = array("q", [0])
        self._last_block: dict[int, int] = {}

    def refresh(self) -> None:
        newest = len(self._session) - 1
        rows = self._database.rows(
            "SELECT block, session, first_place, owner FROM blocks WHERE block > ? ORDER BY block", (newest,)
        )
        if not rows:
            return
        missing = array("q", bytes(8 * (rows[-1][0] - newest)))
        for column in (self._session, self._first, self._before, self._after):
            column.extend(missing)
        for block, session, first, owner in rows:
            if owner == self._owner:
                self._session[block] = session
                self._first[block] = first
                before = self._last_block.get(session, 0)
                self._before[block] = before
                self._after[before] = block
                self._last_block[session] = block

    def session(self, message_id: int) -> int:
        """The session's key, or 0 when the message is not the owner's."""
        block = message_id >> BLOCK_BITS
        return self._session[block] if block < len(self._session) else 0

    def place(self, message_id: int) -> int:
        return self._first[message_id >> BLOCK_BITS] + (message_id & (BLOCK - 1))

    def neighbours(self, message_id: int, reach: int) -> list[int]:
        """Ids up to `reach` places before and after in the same session; the last may not exist yet."""
        block, offset = message_id >> BLOCK_BITS, message_id & (BLOCK - 1)
        found = []
        for step in range(-reach, reach + 1):
            at = offset + step
            where = block if 0 <= at < BLOCK else self._before[block] if at < 0 else self._after[block]
            if step and where:
                found.append((where << BLOCK_BITS) + at % BLOCK)
        return found

    def newest(self, count: int) -> list[int]:
        """Ids of about the newest messages, newest first; some of them may not be given out yet."""
        found: list[int] = []
        for block in range(len(self._session) - 1, 0, -1):
            if self._session[block]:
                found += range((block << BLOCK_BITS) + BLOCK - 1, (block << BLOCK_BITS) - 1, -1)
            if len(found) >= count:
                break
        return found[:count]

    @property
    def sessions(self) -> int:
        return len(self._last_block)

    @property
    def newest_id(self) -> int:
        return len(self._session) << BLOCK_BITS


@dataclass(slots=True)
class Found:
    """Messages that hold one word: all of them, or the newest `CAP` and a guess at how many there are."""

    ids: list[int]
    frequency: float
    complete: bool


class Postings:
    def __init__(self, database: Database, owner: int, places: Places, words: Words) -> None:
        self._database = database
        self._owner = owner
        self._places = places
        self._beginnings = Beginnings(database, words)
        self._common: dict[tuple[str, str], tuple[float, int]] = {}
        self._only_owner = ""

    def refresh(self) -> None:
        self._places.refresh()
        self._beginnings.refresh()
        others = self._database.row("SELECT count(*) FROM owners")[0] > 1
        if not others:
            self._only_owner = ""
        elif self._owner == LOCAL_OWNER:
            self._only_owner = f' NOT "{FOREIGN}"'
        else:
            self._only_owner = f' AND "{owner_word(self._owner)}"'

    def matching(self, table: str, expression: str, limit: int) -> list[int]:
        """The newest messages of one index that match an FTS5 expression."""
        expression = self._beginnings.spelled_out(table, expression)
        matching = f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY rowid DESC LIMIT ?"  # noqa: S608 - our table names
        return self._database.column(matching, (f"({expression}){self._only_owner}", limit))

    def in_order(self, expression: str, *, oldest: bool, first: int = 64, most: int = 1024) -> Iterator[list[int]]:
        """All messages of both indexes that match, looked up as they are taken: chunks that grow to `most`."""
        order = "ASC" if oldest else "DESC"
        parts = [f"SELECT rowid FROM {table} WHERE {table} MATCH ?" for table in TABLES]  # noqa: S608 - our table names
        values = [f"({self._beginnings.spelled_out(table, expression)}){self._only_owner}" for table in TABLES]
        with self._database.translated():
            cursor = self._database.connection.execute(f"{' UNION '.join(parts)} ORDER BY 1 {order}", values)
            try:
                while chunk := [message_id for (message_id,) in islice(cursor, first)]:
                    yield chunk
                    first = min(most, 2 * first)
            finally:
                cursor.close()

    def first(self, expression: str, most: int, *, oldest: bool) -> list[int]:
        """The newest (or oldest) messages of both indexes that match, at most so many."""
        return next(self.in_order(expression, oldest=oldest, first=most), [])

    def density(self, found: list[int], *, oldest: bool) -> float:
        """The share of all messages that hold a word, guessed from the newest (or oldest) that do."""
        everything = max(1, self._places.newest_id)
        return len(found) / max(1, found[-1] if oldest else everything - found[-1])

    def share(self, messages: int) -> float:
        return messages / max(1, self._places.newest_id)

    def known_common(self, table: str, unit: Unit) -> float | None:
        """How often a common word occurs, when that was seen before the store grew by half."""
        known = self._common.get((table, unit.match))
        if known is None or self._places.newest_id > known[1] * 1.5:
            return None
        return known[0]

    def of(self, table: str, unit: Unit, most: int = CAP) -> Found:
        ids = self.matching(table, unit.match, most)
        if len(ids) < most:
            return Found(ids, len(ids), complete=True)
        # The newest CAP messages reach back to a certain id; the rest of the store is taken to be as dense.
        newest = max(1, self._places.newest_id)
        covered = max(1, newest - ids[-1])
        frequency = len(ids) * newest / covered
        if frequency >= CAP:
            self._common[table, unit.match] = (frequency, newest)
        return Found(ids, frequency, complete=False)


def gather(
    postings: Postings, units: Sequence[Unit], messages: int, *, all_first: int | None = None, filtered: bool = False
) -> tuple[dict[int, float], list[float]]:
    """Candidate messages with a first, rough score, and the frequency of each word.

    `all_first` is for keywords: when so many messages hold all of them, others are not looked for, and when fewer
    do, only the newest with each word join them.
    """
    most = FILTERED_CAP if filtered else CAP if all_first is None else 4 * all_first
    gathering = _Gathering(postings, units, messages, most=most)
    if all_first is not None and len(units) > 1 and not filtered:
        gathering.hold_all(2 * all_first)
        if len(gathering.scores) >= all_first:
            return gathering.scores, gathering.guessed()
    for table in TABLES:
        gathering.add(table)
    return gathering.scores, gathering.frequency


def holding_all(postings: Postings, units: Sequence[Unit], *, oldest: bool) -> Iterator[list[int]]:
    """Messages that hold the words, in order, and maybe some that lack the commonest: the caller reads them anyway.

    Reading a few texts costs less than letting FTS5 walk the long list of a common word beside a rare one.
    """
    known: list[tuple[float, Unit]] = []
    for unit in sorted(units, key=lambda unit: -len(unit.written)):  # long words are usually the rare ones
        found = postings.first(unit.match, _FEW + 1, oldest=oldest)
        if len(found) <= _FEW:
            yield found
            return
        known.append((postings.density(found, oldest=oldest), unit))
    known.sort(key=lambda pair: pair[0])
    left, chosen = known[0][0], [known[0][1].match]
    for dense, unit in known[1:]:
        if dense < _WALKED_WHILE_ONE_IS_READ * max(left, postings.share(_FEW)) * (1 - dense):
            chosen.append(unit.match)
            left *= dense
    yield from postings.in_order(" AND ".join(chosen), oldest=oldest)


class _Gathering:
    def __init__(self, postings: Postings, units: Sequence[Unit], messages: int, *, most: int) -> None:
        self._most = most
        self.scores: dict[int, float] = defaultdict(float)
        self.frequency = [0.0] * len(units)
        self._postings = postings
        self._units = units
        self._messages = messages
        self._found: dict[tuple[str, int], Found] = {}

    def hold_all(self, most: int) -> None:
        """Candidates that hold every word, which FTS5 intersects by itself; the newest when there are many.

        With a rare word it need not: all messages that hold it are read anyway.
        """
        everything = " AND ".join(unit.match for unit in self._units)
        for table in TABLES:
            if len(self.scores) >= most:
                return  # what only tools say would come behind all of these
            if not any(self._is_rare(table, number, most) for number in range(len(self._units))):
                self._count(table, self._postings.matching(table, everything, most), 1.0)

    def _is_rare(self, table: str, number: int, most: int) -> bool:
        if self._postings.known_common(table, self._units[number]) is not None:
            return False
        found = self._look_up(table, number)
        return found.complete and len(found.ids) <= most

    def _look_up(self, table: str, number: int) -> Found:
        if (table, number) not in self._found:
            self._found[table, number] = self._postings.of(table, self._units[number], self._most)
        return self._found[table, number]

    def guessed(self) -> list[float]:
        """Frequencies that were seen before, or one in a hundred: enough to weigh messages that hold all words."""
        known = [self._postings.known_common(TABLES[0], unit) for unit in self._units]
        return [often or self._messages / 100 for often in known]

    def add(self, table: str) -> None:
        common: list[tuple[float, int]] = []
        before = len(self.scores)
        for number, unit in enumerate(self._units):
            often = self._postings.known_common(table, unit) if self._most == CAP else None
            if often is None:
                found = self._look_up(table, number)
                often = found.frequency
                # Keywords rank by how recent they are, and filters choose among them: there the newest are enough.
                if found.complete or self._most != CAP:
                    self._count(table, found.ids, often)
            if often >= self._most:
                common.append((often, number))
            self.frequency[number] += often
        if common and len(self.scores) - before < min(ENOUGH, self._most):
            self._add_common(table, sorted(common))

    def _add_common(self, table: str, common: list[tuple[float, int]]) -> None:
        """Candidates from common words: first those with all of them, then several, then the newest."""
        often, rarest = common[0]
        found: list[int] = []
        if len(common) > 1:
            everything = " AND ".join(self._units[number].match for _, number in common)
            found = self._postings.matching(table, everything, ENOUGH)
            if len(found) < ENOUGH // 6 and len(common) > 2:  # noqa: PLR2004 - with two words "all" was "several"
                found += self._with_any_other(table, common)
        self._count(table, found, often / 4)
        if len(found) < ENOUGH:
            self._count(table, self._postings.matching(table, self._units[rarest].match, ENOUGH), often)

    def _with_any_other(self, table: str, common: list[tuple[float, int]]) -> list[int]:
        others: list[str] = []
        walked = common[0][0]
        for often, number in common[1:]:
            walked += often
            if walked > MOST_WALKED:
                break
            others.append(self._units[number].match)
        if not others:
            return []
        return self._postings.matching(table, f"{self._units[common[0][1]].match} AND ({' OR '.join(others)})", ENOUGH)

    def _count(self, table: str, ids: list[int], often: float) -> None:
        value = worth(often, self._messages) * (1.0 if table == TABLES[0] else 0.8)
        scores = self.scores
        for message_id in ids:
            scores[message_id] += value


def newest_or_oldest(postings: Postings, query: Query, *, oldest: bool, limit: int) -> list[int]:
    """Messages in order of arrival that match explicit syntax, or hold all words of the query, or else any of them."""
    words = [unit.match for unit in query.units]
    for expression in (query.explicit.finds,) if query.explicit else (" AND ".join(words), " OR ".join(words)):
        if found := postings.first(expression, limit, oldest=oldest):
            return found
    return []


def worth(frequency: float, messages: int) -> float:
    """What finding a word says: much for a rare one, little for one that stands in every second message."""
    return math.log(1 + (messages - min(frequency, messages) + 0.5) / (frequency + 0.5))
