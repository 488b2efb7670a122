"""Finds candidate messages in the full-text index within a bounded amount of work."""

from __future__ import annotations

import math
import re
from array import array
from collections import defaultdict
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import TYPE_CHECKING

from hermes.storage.schema import BLOCK, BLOCK_BITS
from hermes.storage.search.index import FOREIGN, LOCAL_OWNER, owner_word
from hermes.storage.search.query import Unit
from hermes.storage.search.ranking import Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hermes.base.words import Words
    from hermes.storage.conversations import Transcripts
    from hermes.storage.database import Database
    from hermes.storage.search.query import Explicit, Query

    Look = Callable[[list[int]], tuple[list[int], int]]

MOST_WORDS = 1000  # beyond that, asking for each word takes as long as walking the messages
_QUOTED = re.compile(r'"((?:[^"]|"")*)"(\*?)')
_LAST = "\U0010ffff"
# The index holds stems, and FTS5 stems what it is asked for once more: "decis" would become "deci". With one of these
# endings the word is stemmed to what is meant.
_FORMS = ("", "ing", "ed", "s", "e", "ion", "ly", "ness", "ment", "y")
# What a stem may have lost: "decisi" must reach "decision", which stands in the index as "decis".
_ENDINGS = re.findall(
    r"\w+",
    "able ably al ality ally ance ant ate ation ational ative ator ed ely ement ence ent er es est ful fully ible ical"
    " ied ies ing ion ism ist ity ive iveness ization ize izing ly ment ness ous s tion",
)
_AFTER_CHANGES = ("ing", "ed", "er", "est")  # "runn-ing" and "hop-ing" stand there as "run" and "hope"
_SHORTEST_STEM = 3
_LONGEST_ENDING = 6


class Prefixes:
    def __init__(self, database: Database, words: Words) -> None:
        self._database = database
        self._words = words
        self._listed: set[str] = set()
        self._spelled: dict[tuple[str, str], str] = {}

    def refresh(self) -> None:
        """Others may have written new words since the last search."""
        self._spelled.clear()

    def expanded(self, table: str, expression: str) -> str:
        """Expands each prefix query (`"begin"*`) to the indexed words that start with it, unless there are too many."""
        if '"*' not in expression:
            return expression
        if (table, expression) not in self._spelled:
            self._spelled[table, expression] = _QUOTED.sub(lambda quoted: self._instead(table, quoted), expression)
        return self._spelled[table, expression]

    def _instead(self, table: str, quoted: re.Match[str]) -> str:
        starts = self._words.unstemmed(quoted[1].replace('""', '"')) if quoted[2] else []
        if len(starts) != 1:
            return quoted[0]
        found, cut = self._beginning(table, starts[0]), _cut_stems(starts[0])
        # A stem may differ from the beginning of its word, as in "happy": what was typed is asked for as a word, too.
        words = dict.fromkeys([*map(self._stemmed_to, cut), *cut, starts[0]])
        if len(found) <= MOST_WORDS:
            words |= dict.fromkeys(self._asked_as(found))
        listed = [f'"{word}"' for word in words]
        return f"({' OR '.join(listed if len(found) <= MOST_WORDS else [quoted[0], *listed])})"

    def _beginning(self, table: str, start: str) -> list[str]:
        if table not in self._listed:
            with self._database.lock, self._database.translated():
                self._database.connection.execute(
                    f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.words_of_{table}"
                    f" USING fts5vocab('main', '{table}', 'row')"
                )
            self._listed.add(table)
        listed = f"SELECT term FROM temp.words_of_{table} WHERE term >= ? AND term < ? LIMIT ?"  # noqa: S608 - our tables
        return [term for (term,) in self._database.rows(listed, (start, start + _LAST, MOST_WORDS + 1))]

    def _asked_as(self, terms: list[str]) -> list[str]:
        """What to ask for so that each of these stems is looked up."""
        again = self._words.of_searchable(" ".join(terms))
        return [
            term if term == stem else self._stemmed_to(term) for term, stem in zip_longest(terms, again, fillvalue="")
        ]

    def _stemmed_to(self, term: str) -> str:
        """A word that is stemmed to this; 200,000 made-up words had no stem without one."""
        return next((term + end for end in _FORMS if self._words.of_searchable(term + end) == [term]), term)


def _cut_stems(start: str) -> list[str]:
    """Stems that words with this beginning may have although they are shorter than it."""
    if not start.isascii():
        return []
    found: list[str] = []
    for size in range(max(_SHORTEST_STEM, len(start) - _LONGEST_ENDING), len(start)):
        stem, rest = start[:size], start[size:]
        if any(ending.startswith(rest) for ending in _ENDINGS):
            found.append(stem)
        if rest[0] == stem[-1] and any(ending.startswith(rest[1:]) for ending in _AFTER_CHANGES):
            found.append(stem)
        if any(ending.startswith(rest) for ending in _AFTER_CHANGES):
            found.append(stem + "e")
    return list(dict.fromkeys(found))


# Finds candidate messages in the full-text index without ever walking more of it than a bounded amount.
#
# Rare words bring all their messages. A word found more often than `CAP` brings none while rarer ones are there; when
# there is nothing rarer, messages that hold several of the common words come first, then the newest.

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
        self._prefixes = Prefixes(database, words)
        self._common: dict[tuple[str, str], tuple[float, int]] = {}
        self._only_owner = ""

    def refresh(self) -> None:
        self._places.refresh()
        self._prefixes.refresh()
        others = self._database.row("SELECT count(*) FROM owners")[0] > 1
        if not others:
            self._only_owner = ""
        elif self._owner == LOCAL_OWNER:
            self._only_owner = f' NOT "{FOREIGN}"'
        else:
            self._only_owner = f' AND "{owner_word(self._owner)}"'

    def matching(self, table: str, expression: str, limit: int) -> list[int]:
        """The newest messages of one index that match an FTS5 expression."""
        expression = self._prefixes.expanded(table, expression)
        matching = f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY rowid DESC LIMIT ?"  # noqa: S608 - our table names
        return self._database.column(matching, (f"({expression}){self._only_owner}", limit))

    def in_order(self, expression: str, *, oldest: bool, first: int = 64, most: int = 1024) -> Iterator[list[int]]:
        """All messages of both indexes that match, looked up as they are taken: chunks that grow to `most`."""
        order = "ASC" if oldest else "DESC"
        parts = [f"SELECT rowid FROM {table} WHERE {table} MATCH ?" for table in TABLES]  # noqa: S608 - our table names
        values = [f"({self._prefixes.expanded(table, expression)}){self._only_owner}" for table in TABLES]
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
