"""Finds candidate messages in the full-text index without ever walking more of it than a bounded amount.

Rare words bring all their messages. A word found more often than `CAP` brings none while rarer ones are there; when
there is nothing rarer, messages that hold several of the common words come first, then the newest.
"""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes.storage.index import FOREIGN, LOCAL_OWNER, owner_word
from hermes.storage.migrations import BLOCK_BITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hermes.storage.database import Database
    from hermes.storage.query import Unit

CAP = 4000
ENOUGH = 300
MOST_WALKED = 300_000
TABLES = ("messages_fts", "tools_fts")


class Places:
    """Which session each block of message ids belongs to, for one owner; a block of somebody else's is not in it."""

    def __init__(self, database: Database, owner: int) -> None:
        self._database = database
        self._owner = owner
        self._session = array("q", [0])
        self._first = array("q", [0])

    def refresh(self) -> None:
        newest = len(self._session) - 1
        rows = self._database.rows(
            "SELECT block, session, first_place, owner FROM blocks WHERE block > ? ORDER BY block", (newest,)
        )
        if not rows:
            return
        missing = array("q", bytes(8 * (rows[-1][0] - newest)))
        self._session.extend(missing)
        self._first.extend(missing)
        for block, session, first, owner in rows:
            if owner == self._owner:
                self._session[block] = session
                self._first[block] = first

    def session(self, message_id: int) -> int:
        """The session's key, or 0 when the message is not the owner's."""
        block = message_id >> BLOCK_BITS
        return self._session[block] if block < len(self._session) else 0

    def place(self, message_id: int) -> int:
        return self._first[message_id >> BLOCK_BITS] + (message_id & ((1 << BLOCK_BITS) - 1))

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
    def __init__(self, database: Database, owner: int, places: Places) -> None:
        self._database = database
        self._owner = owner
        self._places = places
        self._common: dict[tuple[str, str], tuple[float, int]] = {}
        self._only_owner = ""

    def refresh(self) -> None:
        self._places.refresh()
        others = self._database.row("SELECT count(*) FROM owners")[0] > 1
        if not others:
            self._only_owner = ""
        elif self._owner == LOCAL_OWNER:
            self._only_owner = f' NOT "{FOREIGN}"'
        else:
            self._only_owner = f' AND "{owner_word(self._owner)}"'

    def matching(self, table: str, expression: str, limit: int) -> list[int]:
        """The newest messages that match an FTS5 expression."""
        return [
            message_id
            for (message_id,) in self._database.rows(
                f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY rowid DESC LIMIT ?",  # noqa: S608 - our table names
                (f"({expression}){self._only_owner}", limit),
            )
        ]

    def known_common(self, table: str, unit: Unit) -> float | None:
        """How often a common word occurs, when that was seen before the store grew by half."""
        known = self._common.get((table, unit.match))
        if known is None or self._places.newest_id > known[1] * 1.5:
            return None
        return known[0]

    def of(self, table: str, unit: Unit) -> Found:
        ids = self.matching(table, unit.match, CAP)
        if len(ids) < CAP:
            return Found(ids, len(ids), complete=True)
        # The newest CAP messages reach back to a certain id; the rest of the store is taken to be as dense.
        newest = max(1, self._places.newest_id)
        covered = max(1, newest - ids[-1])
        frequency = len(ids) * newest / covered
        self._common[table, unit.match] = (frequency, newest)
        return Found(ids, frequency, complete=False)


def gather(
    postings: Postings, tables: Iterable[str], units: Sequence[Unit], messages: int
) -> tuple[dict[int, float], list[float]]:
    """Candidate messages with a first, rough score, and the frequency of each word."""
    scores: dict[int, float] = defaultdict(float)
    frequency = [0.0] * len(units)
    for table in tables:
        weight = 1.0 if table == TABLES[0] else 0.8
        _gather_from(postings, table, units, messages, weight, scores, frequency)
    return scores, frequency


def _gather_from(
    postings: Postings,
    table: str,
    units: Sequence[Unit],
    messages: int,
    weight: float,
    scores: dict[int, float],
    frequency: list[float],
) -> None:
    common: list[tuple[float, int]] = []
    newest: dict[int, list[int]] = {}
    before = len(scores)
    for number, unit in enumerate(units):
        known = postings.known_common(table, unit)
        if known is not None:
            common.append((known, number))
            frequency[number] += known
            continue
        found = postings.of(table, unit)
        frequency[number] += found.frequency
        if not found.complete:
            common.append((found.frequency, number))
            newest[number] = found.ids
            continue
        value = weight * worth(found.frequency, messages)
        for message_id in found.ids:
            scores[message_id] += value
    if common and len(scores) - before < ENOUGH:
        _add_common(postings, table, units, sorted(common), messages, weight, scores, newest)


def _add_common(
    postings: Postings,
    table: str,
    units: Sequence[Unit],
    common: list[tuple[float, int]],
    messages: int,
    weight: float,
    scores: dict[int, float],
    newest: dict[int, list[int]],
) -> None:
    """Candidates from common words: those that hold all of them, several of them, and the newest with the rarest."""
    rarest_frequency, rarest = common[0]
    value = weight * worth(rarest_frequency, messages)
    found: list[int] = []
    if len(common) > 1:
        found = postings.matching(table, " AND ".join(units[number].match for _, number in common), ENOUGH)
        if len(found) < ENOUGH // 6 and len(common) > 2:
            found += _with_any_other(postings, table, units, common)
    for message_id in found:
        scores[message_id] += 2 * value
    if len(found) < ENOUGH:
        ids = newest.get(rarest) or postings.matching(table, units[rarest].match, ENOUGH)
        for message_id in ids[:ENOUGH]:
            scores[message_id] += value


def _with_any_other(
    postings: Postings, table: str, units: Sequence[Unit], common: list[tuple[float, int]]
) -> list[int]:
    rarest, others, walked = common[0], [], common[0][0]
    for often, number in common[1:]:
        walked += often
        if walked > MOST_WALKED:
            break
        others.append(units[number].match)
    if not others:
        return []
    return postings.matching(table, f"{units[rarest[1]].match} AND ({' OR '.join(others)})", ENOUGH)


def worth(frequency: float, messages: int) -> float:
    """What finding a word says: much for a rare one, little for one that stands in every second message."""
    return math.log(1 + (messages - min(frequency, messages) + 0.5) / (frequency + 0.5))
