"""Finds candidate messages in the full-text index within a bounded amount of work."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes.conversations.search.postings import TABLES
from hermes.conversations.search.query import Unit
from hermes.conversations.search.ranking import Reader, Sums
from hermes.storage.ports import SAID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hermes.base.words import Words
    from hermes.conversations.search.postings import Places, Postings
    from hermes.conversations.search.query import Explicit, Query
    from hermes.storage.conversations import Conversations
    from hermes.storage.ports import Index

    Look = Callable[[list[int]], tuple[list[int], int]]

# Once this many candidates are out of reach of the remaining words, those words are looked up only among the messages
# already found.
ENOUGH = 500
# The share of the remaining words' rarity that a message without any earlier word is assumed to contain. Hardly any
# message contains all of them, so waiting until they cannot win at all would walk long lists for nothing.
_CHANCE = 0.7
MOST_WALKED = 200_000  # messages that one word may bring, which bounds the cost of a common word
# If every word of a question is in more messages than _COMMON, words alone cannot single out a message. Then only the
# newest messages that contain all of the words, and the newest that contain each of them, become candidates.
_COMMON, _NEWEST_OF_COMMON = 20_000, 240
_NEWEST_ALONE = 48  # messages with nothing but the commonest word of several, unless a filter may drop most of them
POOL = 4_000  # candidates that are weighed by length and surroundings before the best are read
_LENGTH = 0.35  # how much the score of longer messages is lowered: by chance, they contain more words of any question
# What the better neighbour and the best message of the session add to a message's score: an answer often stands next
# to the words that were asked for.
_BESIDE, _SESSION = 0.3, 0.2
_TOLD_BY_TOOLS = 0.8  # the score of a message whose words occur only in tool calls and their output
_FEW = 64  # at most so many messages with a rare word are read without looking up the other words
# Reading one message costs about as much as walking this many entries of a word's list in FTS5.
_WALKED_WHILE_ONE_IS_READ = 400


class Gathering:
    """Records which messages contain which words of a query.

    Each message has a bit per word, and one more bit that says that only tools used the words.
    """

    def __init__(
        self, postings: Postings, units: Sequence[Unit], messages: int, *, most: int, newest: int | None = None
    ) -> None:
        """Gathers up to `most` candidates; for keywords, only the `newest` messages with all words and with each."""
        self._postings = postings
        self._messages = messages
        self._most = most
        self.units = list(units)
        self.frequency = [0] * len(units)
        self.held: dict[int, int] = {}
        self.common = False  # every word is common, so only the newest messages were noted
        self._all_noted = True  # every message with any of the words was noted
        self._in_part = False  # a message may have been noted without all of its words
        self.guessed: dict[int, float] = {}  # words that no message contains, and how rare that makes them
        self._scores = Sums([])
        for table in TABLES:
            if newest is None:
                self._add(table, range(len(units)))
            else:
                self._add_newest(table, newest)

    def replace(self, number: int, unit: Unit) -> None:
        """Looks up another word instead of one that no message contains."""
        self.units[number] = unit
        self.guessed[number] = unit.weight * rarity(0, self._messages)
        for table in TABLES:
            self._add(table, [number])

    def best(self) -> dict[int, float]:
        """The best messages with the sum of the rarity of their words; among equals, the newest come first."""
        score, most_bits = self._scores, (1 << len(self.units)) - 1
        # Many messages contain the same words, so the sets of words are compared instead of the messages.
        often = Counter(self.held.values())
        values = {held: score[held] if held <= most_bits else _TOLD_BY_TOOLS * score[held] for held in often}
        room, least = self._most, 0.0
        for held in sorted(often, key=values.__getitem__, reverse=True):
            if room <= 0 and values[held] < least:
                break
            room, least = room - often[held], values[held]
        if room >= 0:
            return {i: values[held] for i, held in self.held.items() if values[held] >= least}
        best = {i: values[held] for i, held in self.held.items() if values[held] > least}
        last = heapq.nlargest(self._most - len(best), [i for i, held in self.held.items() if values[held] == least])
        return best | dict.fromkeys(last, least)

    def bits(self, message_id: int) -> int | None:
        """A bit for each word that a message contains; None if not all of its words were looked up."""
        held = self.held.get(message_id)
        if held is None:
            return 0 if self._all_noted else None
        return None if self._in_part else held & ((1 << len(self.units)) - 1)

    @property
    def rarities(self) -> list[float]:
        """How much each word of the query tells: its rarity times its weight, in the order of the query."""
        return [self._value(number) for number in range(len(self.units))]

    def _value(self, number: int) -> float:
        return self.units[number].weight * rarity(self.frequency[number], self._messages)

    def _add(self, table: str, numbers: Iterable[int]) -> None:
        """Notes which messages contain each word, the rarest word first.

        Once messages that contain only the remaining words can no longer reach the best score, Hermes looks for these
        words only in the messages already found: FTS5 intersects the lists itself, at a tenth of the cost.
        """
        numbers = list(numbers)
        counts = self._postings.frequencies(table, [self.units[number].match for number in numbers])
        often = dict(zip(numbers, counts, strict=True))
        for number, count in often.items():
            self.frequency[number] += count
        self._scores = Sums(self.rarities)
        words = sorted((number for number in often if often[number]), key=self._value, reverse=True)
        held, mark = self.held, 0 if table == TABLES[0] else 1 << len(self.units)
        if words and min(often[number] for number in words) > _COMMON:
            self._note_newest(table, words, _NEWEST_OF_COMMON)
            self.common = self._in_part = True
            self._all_noted = False
            return
        left, known, among = sum(map(self._value, words)), 0.0, ""
        for at, number in enumerate(words):
            if not among and known >= _CHANCE * left and self._reach(_CHANCE * left):
                among = f"({' OR '.join(self.units[earlier].match for earlier in words[:at])}) AND "
            bit, match = 1 << number, self.units[number].match
            asked = [(among + match, MOST_WALKED)]
            if at and not among and number == words[-1] and often[number] > self._most:
                # Messages that contain only the commonest word differ in nothing but their age, so a few of the newest
                # are enough: 4,000 of them take four times the CPU time in a million messages, and find nothing more.
                earlier = f"({' OR '.join(self.units[other].match for other in words[:at])}) AND "
                alone = _NEWEST_ALONE if self._most <= POOL else self._most
                asked = [(earlier + match, MOST_WALKED), (match, alone)]
            for expression, most in asked:
                for message_id in self._postings.matching(table, expression, most):
                    held[message_id] = held.get(message_id, mark) | bit
                self._all_noted = self._all_noted and not among and often[number] <= most
                self._in_part = self._in_part or often[number] > MOST_WALKED
            left -= self._value(number)
            known += self._value(number)

    def _add_newest(self, table: str, most: int) -> None:
        """Notes the newest messages for keywords: recent ones rank first, so no long list is walked to its end."""
        for number, found in self._note_newest(table, range(len(self.units)), most).items():
            # The list was cut off, so how common the word is can only be guessed.
            self.frequency[number] += found if found < most else max(most, self._messages // 100)
            self._all_noted = self._all_noted and found < most
            self._in_part = not self._all_noted
        self._scores = Sums(self.rarities)

    def _note_newest(self, table: str, numbers: Sequence[int], most: int) -> dict[int, int]:
        """Notes the newest messages with all of the words and with each of them; returns how many each brought."""
        mark = 0 if table == TABLES[0] else 1 << len(self.units)
        bits = {1 << number: self.units[number].match for number in numbers}
        asked = [(sum(bits), " AND ".join(bits.values())), *bits.items()] if len(bits) > 1 else list(bits.items())
        brought: dict[int, int] = {}
        for held, match in asked:
            found = self._postings.matching(table, match, most)
            for message_id in found:
                self.held[message_id] = self.held.get(message_id, mark) | held
            if held in bits:
                brought[held.bit_length() - 1] = len(found)
        return brought

    def _reach(self, least: float) -> bool:
        """Whether enough messages have at least this score."""
        if len(self.held) < ENOUGH:
            return False
        counts = Counter(self.held.values()).items()
        return sum(often for held, often in counts if self._scores[held] >= least) >= ENOUGH


def shortlist(scores: dict[int, float], postings: Postings, places: Places, average: float) -> dict[int, float]:
    """Scores candidates by length, neighbours and session as well, which needs no text: reading it costs far more."""
    lengths = postings.lengths(list(scores))
    own = {i: score / (1 + _LENGTH * (lengths.get(i, average) / average - 1)) for i, score in scores.items()}
    where = places.sessions_of(scores)
    best: dict[int, float] = {}
    for message_id, score in own.items():
        key = where[message_id]
        if score > best.get(key, 0.0):
            best[key] = score
    beside = own.get
    return {
        i: score + _BESIDE * max(beside(i - 1, 0.0), beside(i + 1, 0.0)) + _SESSION * best.get(where[i], 0.0)
        for i, score in own.items()
    }


def best_of(scores: dict[int, float], most: int) -> list[int]:
    """Ids of the best, and of the newest among equals."""
    if len(scores) > most:
        least = heapq.nlargest(most, scores.values())[-1]
        scores = {i: score for i, score in scores.items() if score >= least}
    return sorted(sorted(scores, reverse=True), key=scores.__getitem__, reverse=True)[:most]


def holding_all(postings: Postings, units: Sequence[Unit], *, oldest: bool) -> Iterator[list[int]]:
    """Messages that contain the words, by arrival; some may lack the commonest, but the caller reads them anyway.

    Reading a few texts costs less than letting FTS5 walk the long list of a common word along with a rare one's.
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


def newest_or_oldest(postings: Postings, query: Query, *, oldest: bool, limit: int) -> list[int]:
    """Messages by arrival that match explicit syntax, or that contain all words of the query, or else any of them."""
    words = [unit.match for unit in query.units]
    for expression in (query.explicit.finds,) if query.explicit else (" AND ".join(words), " OR ".join(words)):
        if found := postings.first(expression, limit, oldest=oldest):
            return found
    return []


def rarity(frequency: float, messages: int) -> float:
    """Inverse document frequency, as BM25 defines it: high for a rare word, low for one in every second message."""
    return math.log(1 + (messages - min(frequency, messages) + 0.5) / (frequency + 0.5))


# Finds the messages that match explicit syntax where the index alone cannot tell: phrases, prefixes and exclusions.
#
# Candidates are taken from the index as they are needed, the newest (or oldest) first, in chunks that grow.

# After ENOUGH_EXACT messages, the search continues only while nothing has been found. It ends when it has spent MOST,
# which takes about 0.1 seconds.
ENOUGH_EXACT, MOST = 3000, 30_000
# The cost of a message, where 1 is reading it for the text as typed: reading it for other word forms, and stemming it.
_OTHER_FORMS, _STEMMING = 2, 10


@dataclass(frozen=True, slots=True)
class Passed:
    """The messages that satisfy an explicit query."""

    ids: list[int]
    looked_at: int  # the first so many messages that hold the words
    all_of_them: bool


class ExactSearch:
    """Answers explicit queries: phrases, AND, OR, NOT and prefixes."""

    def __init__(self, postings: Postings, store: Conversations, words: Words) -> None:
        self._postings = postings
        self._store = store
        self._words = words

    def passing(self, query: Query, *, oldest: bool, most: int, allowed: Callable[[list[int]], list[int]]) -> Passed:
        """Finds enough allowed messages that match as typed or, if there are none, in other forms of the words."""
        explicit = query.explicit
        assert explicit is not None  # noqa: S101 - nothing else is looked for here
        if explicit.typed is not None:
            found = self._until_enough(query, self._as_typed(explicit), oldest=oldest, most=most, allowed=allowed)
            if found.ids:
                return found
        look = self._in_any_form(explicit, Reader(query, self._words))
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
            texts = self._store.texts(ids)
            return [message_id for message_id, text in texts if stands_in(text.lower())], len(ids)

        return look

    def _in_any_form(self, explicit: Explicit, reader: Reader) -> Look:
        def look(ids: list[int]) -> tuple[list[int], int]:
            possible = [message_id for message_id, text in self._store.texts(ids) if explicit.may_pass(text)]
            rows = self._store.rows(possible)
            passed = [message_id for message_id, row in rows.items() if reader.passes(row)]
            return passed, len(ids) * _OTHER_FORMS + len(possible) * _STEMMING

        return look


_SHORTEST = 5  # letters; shorter words have too many neighbours that are words of their own
_MOST_TERMS = 600  # indexed words with the same beginning that are compared


class Spelling:
    """Suggests indexed words for one that no message contains; a caller takes the first that one does contain."""

    def __init__(self, index: Index, words: Words) -> None:
        self._index = index
        self._words = words

    def longer(self, unit: Unit) -> list[Unit]:
        """Words with this beginning."""
        beginnings = dict.fromkeys((unit.written.lower(), unit.stem))
        return [Unit(beginning, beginning, prefix=True, weight=unit.weight) for beginning in beginnings]

    def similar(self, unit: Unit) -> list[Unit]:
        """Words that differ in a letter or two, the nearest first."""
        limit = 1 if len(unit.stem) < 8 else 2  # noqa: PLR2004 - one slip in a short word, two in a long one
        terms = (term for each in self.compared(unit) for term in self._index.words_from(*each))
        near = [term for term in terms if abs(len(term) - len(unit.stem)) <= 2]  # noqa: PLR2004 - further is another word
        near = [term for term in near if _distance(term, unit.stem, limit) <= limit]
        near.sort(key=lambda term: _distance(term, unit.stem, 2))
        return [Unit(term, term, weight=unit.weight * 0.8) for term in near]

    def compared(self, unit: Unit) -> list[tuple[str, str, str, int]]:
        """The part of the index that `similar` compares with a word; none for a word that may have too many neighbours.

        A typo in the first letters is not found: comparing with every word of the index would take too long.
        """
        start, stem = unit.written.lower(), unit.stem
        if len(start) < _SHORTEST or not start.isalpha() or not start.isascii():
            return []
        beginning = stem[: max(3, len(stem) // 2)]
        return [(SAID, beginning, beginning + "\uffff", _MOST_TERMS)]


def _distance(one: str, other: str, limit: int) -> int:
    """Damerau-Levenshtein distance of two words (edits and swaps of neighbours); stops above the limit."""
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
