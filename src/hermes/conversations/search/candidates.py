"""Finds candidate messages in the full-text index within a bounded amount of work."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes.conversations.search.query import Unit
from hermes.conversations.search.ranking import Reader
from hermes.storage.local.postings import CAP, TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hermes.base.words import Words
    from hermes.conversations.search.query import Explicit, Query
    from hermes.storage.local.conversations import Transcripts
    from hermes.storage.local.database import Database
    from hermes.storage.local.postings import Found, Postings

    Look = Callable[[list[int]], tuple[list[int], int]]

# Rare words bring all their messages. A word found more often than `CAP` brings none while rarer ones are there; when
# there is nothing rarer, messages that hold several of the common words come first, then the newest.
FILTERED_CAP = 20_000
ENOUGH = 300
MOST_WALKED = 300_000
_FEW = 64  # messages with a rare word, which are read without looking other words up
_WALKED_WHILE_ONE_IS_READ = 400


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
        if self._postings.known_common(table, self._units[number].match) is not None:
            return False
        found = self._look_up(table, number)
        return found.complete and len(found.ids) <= most

    def _look_up(self, table: str, number: int) -> Found:
        if (table, number) not in self._found:
            self._found[table, number] = self._postings.of(table, self._units[number].match, self._most)
        return self._found[table, number]

    def guessed(self) -> list[float]:
        """Frequencies that were seen before, or one in a hundred: enough to weigh messages that hold all words."""
        known = [self._postings.known_common(TABLES[0], unit.match) for unit in self._units]
        return [often or self._messages / 100 for often in known]

    def add(self, table: str) -> None:
        common: list[tuple[float, int]] = []
        before = len(self.scores)
        for number, unit in enumerate(self._units):
            often = self._postings.known_common(table, unit.match) if self._most == CAP else None
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
        value = rarity(often, self._messages) * (1.0 if table == TABLES[0] else 0.8)
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


def rarity(frequency: float, messages: int) -> float:
    """Inverse document frequency: high for a rare word, low for one that is in every second message."""
    return math.log(1 + (messages - min(frequency, messages) + 0.5) / (frequency + 0.5))


# Finds the messages that pass explicit syntax where the index alone cannot tell: phrases, beginnings and refusals.
#
# Candidates are taken from the index as they are needed, the newest (or oldest) first, and looked at in chunks that
# grow.

# Behind ENOUGH messages the search goes on only while nothing was found, and it ends when MOST is spent: 0.1 seconds.
ENOUGH_EXACT, MOST = 3000, 30_000
# What reading a message for what was typed costs is one; for other forms of its words; and stemming it.
_OTHER_FORMS, _STEMMING = 2, 10


@dataclass(frozen=True, slots=True)
class Passed:
    ids: list[int]
    looked_at: int  # the first so many messages that hold the words
    all_of_them: bool


class ExactSearch:
    def __init__(self, postings: Postings, transcripts: Transcripts, words: Words) -> None:
        self._postings = postings
        self._transcripts = transcripts
        self._words = words

    def passing(self, query: Query, *, oldest: bool, most: int, allowed: Callable[[list[int]], list[int]]) -> Passed:
        """Messages that pass and are allowed, as typed if there are such and else in other forms, until enough."""
        explicit = query.explicit
        assert explicit is not None  # noqa: S101 - nothing else is looked for here
        if explicit.typed is not None:
            found = self._until_enough(query, self._as_typed(explicit), oldest=oldest, most=most, allowed=allowed)
            if found.ids:
                return found
        look = self._in_any_form(explicit, Reader(query, self._words, ()))
        return self._until_enough(query, look, oldest=oldest, most=most, allowed=allowed)

    def _until_enough(
        self, query: Query, look: Look, *, oldest: bool, most: int, allowed: Callable[[list[int]], list[int]]
    ) -> Passed:
        found: list[int] = []
        looked_at = spent = before = 0
        for ids in self._candidates(query, oldest=oldest):
            passed, cost = look(ids)
            found += allowed(passed)
            looked_at += len(ids)
            spent += cost
            if len(found) >= most or (looked_at >= ENOUGH_EXACT and (found or spent >= MOST)):
                return Passed(found, looked_at, all_of_them=len(ids) < before)  # they grow until there are no more
            before = len(ids)
        return Passed(found, looked_at, all_of_them=True)

    def _candidates(self, query: Query, *, oldest: bool) -> Iterator[list[int]]:
        assert query.explicit is not None  # noqa: S101 - nothing else is looked for here
        if query.explicit.one_phrase:
            return holding_all(self._postings, query.units, oldest=oldest)
        return self._postings.in_order(query.explicit.finds, oldest=oldest)

    def _as_typed(self, explicit: Explicit) -> Look:
        assert explicit.typed is not None  # noqa: S101 - the caller has seen it
        stands_in = explicit.typed.search

        def look(ids: list[int]) -> tuple[list[int], int]:
            texts = self._transcripts.texts(ids)
            return [message_id for message_id, text in texts if stands_in(text.lower())], len(ids)

        return look

    def _in_any_form(self, explicit: Explicit, reader: Reader) -> Look:
        def look(ids: list[int]) -> tuple[list[int], int]:
            possible = [message_id for message_id, text in self._transcripts.texts(ids) if explicit.may_pass(text)]
            rows = self._transcripts.rows(possible)
            passed = [message_id for message_id, row in rows.items() if reader.passes(row)]
            return passed, len(ids) * _OTHER_FORMS + len(possible) * _STEMMING

        return look


_SHORTEST = 5
_MOST_TERMS = 600


class Spelling:
    def __init__(self, database: Database, words: Words) -> None:
        self._database = database
        self._words = words
        self._ready = False

    def instead(self, unit: Unit, exists: Callable[[Unit], bool]) -> Unit | None:
        """A unit that occurs in the owner's messages and may be what was meant, or None."""
        start = unit.written.lower()
        for beginning in dict.fromkeys((start, unit.stem)):
            longer = Unit(beginning, beginning, prefix=True, weight=unit.weight)
            if exists(longer):
                return longer
        if len(start) < _SHORTEST or not start.isalpha() or not start.isascii():
            return None
        limit = 1 if len(unit.stem) < 8 else 2  # noqa: PLR2004 - one slip in a short word, two in a long one
        for term in self._terms(unit.stem):
            if _distance(term, unit.stem, limit) <= limit:
                near = Unit(term, term, weight=unit.weight * 0.8)
                if exists(near):
                    return near
        return None

    def _terms(self, stem: str) -> list[str]:
        if not self._ready:
            with self._database.lock, self._database.translated():
                self._database.connection.execute(
                    "CREATE VIRTUAL TABLE IF NOT EXISTS temp.terms USING fts5vocab('main', 'messages_fts', 'row')"
                )
            self._ready = True
        start = stem[: max(3, len(stem) // 2)]
        rows = self._database.rows(
            "SELECT term FROM temp.terms WHERE term >= ? AND term < ? LIMIT ?", (start, start + "\uffff", _MOST_TERMS)
        )
        near = [term for (term,) in rows if abs(len(term) - len(stem)) <= 2]  # noqa: PLR2004 - further is another word
        return sorted(near, key=lambda term: _distance(term, stem, 2))


def _distance(one: str, other: str, limit: int) -> int:
    """Insertions, deletions, replacements and swaps of neighbours between two words; stops counting above the limit."""
    if abs(len(one) - len(other)) > limit:
        return limit + 1
    before: list[int] = []
    above: list[int] = []
    row = list(range(len(other) + 1))
    for at, left in enumerate(one, start=1):
        before, above, row = above, row, [at]
        for to, right in enumerate(other, start=1):
            cost = min(above[to] + 1, row[to - 1] + 1, above[to - 1] + (left != right))
            if at > 1 and to > 1 and left == other[to - 2] and one[at - 2] == right:
                cost = min(cost, before[to - 2] + 1)
            row.append(cost)
        if min(row) > limit:
            return limit + 1
    return row[-1]
