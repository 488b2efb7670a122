"""Reads the features of each candidate message and scores them: its words, its neighbours, its session.

Every signal is divided by the best value any candidate has, so that signals of different kinds can be added. One set of
weights serves every kind of conversation; the lengths of the messages tell a chat of short turns from a transcript of
long ones. docs/concepts/recall.md describes the signals and gives the figures.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import pairwise, repeat
from operator import or_
from typing import TYPE_CHECKING

from hermes.base import words as english
from hermes.base.words import words_in
from hermes.storage.records import called, only_looks_back, readable, unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from hermes.base.words import Words
    from hermes.conversations.search.query import Query
    from hermes.storage.records import Row, Session

    Seen = tuple[int, float, float]  # of a turn: the words it holds, their share of the query, its length
    # A candidate, and BM25 of the turn, of the turns around, of the session's best turn, and of the turn with its
    # reply; the share of the query's words that it covers, and that the question covers which it answers.
    Measured = tuple["Candidate", float, float, float, float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """How much each feature counts; `hermes bench recall` measures a change.

    A linear ranking was fitted listwise on the development sets, with folds by conversation, and rounded. In
    cross-validation, the right turn of LoCoMo came first for 50.7 % of the questions instead of 47.1. The weights for
    stores of long messages (`apart`, `pairs`, `exchange`) and `told` were added later; `turn`, `date` and `brief` were
    changed where LoCoMo and BEAM agreed.
    """

    turn: float = 0.7  # BM25 of the turn itself
    around: float = 1.2  # the words of the question in the three turns before and after it
    session: float = 0.7  # BM25 of the best turn of the session
    coverage: float = 1.0  # the squared share of the question's words that the turn contains
    speaker: float = 0.5  # the question names the speaker
    phrase: float = 0.5  # quoted phrases of the question
    title: float = 1.0  # the question's words in the title of the session
    date: float = 2.0  # it was said at the time that the question names
    asks: float = -0.25  # a turn that asks a question seldom answers one
    answers: float = 0.9  # it states a time, a number or a name, where the question wants one
    answered: float = 1.4  # the other speaker's question just before it: a short answer repeats few of its words
    brief: float = 0.9  # a short turn; a turn of over 60 words gets less
    user: float = 0.75  # the person's turn, if the question asks about the person
    rule: float = 2.0  # a standing rule on the topic; `hold_rules_back` keeps it from displacing the answer
    pair: float = 0.9  # how much the words of the turn before count towards the coverage of a reply
    saturation: float = 1.2  # BM25's k1
    length: float = 0.4  # BM25's b
    repeated: float = 0.3  # what a word counts in each further turn around
    short_turn: float = 60.0  # words up to which a turn counts as short
    apart: float = 0.6  # how much less the turns around count where turns are long and speak for themselves
    pairs: float = 2.0  # neighbouring words of the question that are close to each other in a long turn
    exchange: float = 0.6  # BM25 of a long turn and its reply as one text
    told: float = 0.2  # the person tells what happened to them
    personal: float = 0.3  # the speaker talks about themself


@dataclass(slots=True)
class Candidate:
    """One message that may answer a query, with its features and, after ranking, its score.

    `held` has a bit for each word of the query that it contains.
    """

    id: int
    session: int
    place: int
    held: int
    line: Line
    named: int = 0  # the bits of the words that name its speaker
    reply: bool = False  # the assistant's turn, unless the question is about the person
    role: str = ""  # the role that the question asks about, if this is its turn
    dated: float = 0.0
    title: float = 0.0
    factor: float = 1.0
    rule: float = 0.0
    score: float = 0.0
    parts: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """How many messages there are, how many words they have on average, and how rare each word of the query is."""

    messages: int
    message_length: float
    rarity: tuple[float, ...]


def rank(
    candidates: list[Candidate],
    statistics: Statistics,
    weights: Weights,
    reader: Reader,
    *,
    rules: Collection[int] = (),
    in_pairs: bool = False,
) -> list[Candidate]:
    """Sets `score` and `parts` of every candidate and returns them best first.

    All are compared by the words they contain, which the index knows. Only the text of the best of them, and of those
    that may state `rules`, is split into words. A question `in_pairs` of characters has no neighbouring words.
    """
    if not candidates:
        return []
    sessions: dict[int, dict[int, Candidate]] = defaultdict(dict)
    for candidate in candidates:
        sessions[candidate.session][candidate.place] = candidate
    signals = _Signals(statistics, weights)
    signals.combine([measured for members in sessions.values() for measured in signals.measured(members)])
    best = heapq.nlargest(_LOOKED_INTO, candidates, key=lambda each: each.score)
    ids = {each.id for each in best}
    stated = [each for each in candidates if each.id in rules and each.id not in ids and each.line.states_rule]
    for at, candidate in enumerate((*best, *stated)):
        signals.look_into(candidate, reader, pairs=at < _COMPARED_IN_PAIRS and not in_pairs)
    signals.hold_rules_back(candidates)
    return sorted(candidates, key=lambda candidate: (-candidate.score, -candidate.id))


def spread(ranked: list[Candidate], first: int = 20) -> list[Candidate]:
    """Puts the best hit of each new session before further hits of the sessions among the first ones.

    The new sessions come in the order of their best hit's score, to which the next two hits of the session add a share.
    """
    shown = {candidate.session for candidate in ranked[:first]}
    fresh: dict[int, list[Candidate]] = defaultdict(list)
    for candidate in ranked[first:]:
        if candidate.session not in shown:
            fresh[candidate.session].append(candidate)
    by_session = sorted(fresh.values(), key=lambda hits: -hits[0].score - _FURTHER * sum([x.score for x in hits[1:3]]))
    best = {hits[0].id: hits[0] for hits in by_session}
    return [*ranked[:first], *best.values(), *(each for each in ranked[first:] if each.id not in best)]


def confidence(ranked: list[Candidate], statistics: Statistics, guessed: Mapping[int, float]) -> float:
    """The share of the question's words, by rarity, that occur in one of the first hits or next to it.

    Names of speakers count as found, because every message has a known speaker. A word that no message contains, and
    that was `guessed` to mean another one, counts as missing and as very rare.
    """
    rarity = [guessed.get(unit, value) for unit, value in enumerate(statistics.rarity)]
    at = {(each.session, each.place): each.held for each in ranked}
    names = reduce(or_, [each.named for each in ranked], 0)
    best = 0.0
    for hit in ranked[:_FIRST]:
        held = reduce(or_, [at.get((hit.session, hit.place + step), 0) for step in (-1, 0, 1)], names)
        found = [value for unit, value in enumerate(rarity) if held >> unit & 1 and unit not in guessed]
        best = max(best, sum(found))
    return best / (sum(rarity) or 1.0)


def expected_confidence(statistics: Statistics, *, in_pairs: bool) -> float:
    """The confidence below which hits are weak.

    Long messages, and a large store, contain many words of any question by chance, so more is expected of them. Of a
    question in pairs of characters (`in_pairs`), most pairs are not words, so fewer are found. Calibrated so that about
    three in a hundred questions with an answer fall below it.
    """
    if in_pairs:
        return 0.17
    long = min(1.0, max(0.0, (statistics.message_length - 30) / 120))
    return 0.24 + long * (0.16 + 0.105 * math.log10(max(1.0, statistics.messages / 1000)))


_BESIDE = 3  # the turns before and after a turn that are around it
_IN_WINDOW = 2 * _BESIDE + 1
_FURTHER = 0.4  # the share of a session's second and third hit in its place among the sessions
_FIRST = 5  # hits that confidence looks at
_LOOKED_INTO = 32  # the best candidates, whose text is split into words
_COMPARED_IN_PAIRS = 20  # the best of these, in which the distances of words are compared
_TOGETHER = 3  # at most so many words apart, two words of the question count as neighbours
_MOST_RULES = 3  # standing rules that are shown next to the answer
_STRATA = 4  # stretches of time over which a topic is spread
_POOL = 3  # times as many threads as are usually shown are spread over time
# A topic continues over several turns. Turns of one speaker are two places apart, so the three before and the three
# after add a little to a thread's score.
_AROUND, _ITS_SHARE = (-6, -4, -2, 2, 4, 6), 0.1


def cover(
    candidates: list[Candidate],
    statistics: Statistics,
    weights: Weights,
    reader: Reader,
    started: dict[int, float],
    *,
    mine: bool,
) -> list[Candidate]:
    """Covers a topic over time: takes the best turns of each stretch of time in turn, with the replies unless `mine`.

    `mine` says that the question is only about what the person said. `started` gives the time of each session. The
    candidates that are not chosen follow in their order.
    """
    threads = _threads(candidates, _Signals(statistics, weights), reader, pairs=not mine)
    best = sorted(threads.values(), key=lambda thread: -thread[0])[: _POOL * (20 if mine else 10)]
    in_time = sorted(best, key=lambda thread: (started[thread[1][0].session], thread[1][0].place))
    strata = [in_time[len(in_time) * at // _STRATA : len(in_time) * (at + 1) // _STRATA] for at in range(_STRATA)]
    for stratum in strata:
        stratum.sort(key=lambda thread: thread[0])
    strata = sorted((each for each in strata if each), key=lambda stratum: -stratum[-1][0])
    chosen: dict[int, Candidate] = {}
    while any(strata):
        for stratum in strata:
            if stratum:
                score, turns = stratum.pop()
                for turn in turns:
                    turn.parts["thread"] = score
                    chosen[turn.id] = turn
    return [*chosen.values(), *(each for each in candidates if each.id not in chosen)]


def _threads(
    candidates: list[Candidate], signals: _Signals, reader: Reader, *, pairs: bool
) -> dict[tuple[int, int], tuple[float, list[Candidate]]]:
    """Maps session and place of each turn of the person to its thread's score, and to the turn and its reply."""
    at = {(each.session, each.place): each for each in candidates}
    own: dict[tuple[int, int], tuple[float, list[Candidate]]] = {}
    for (session, place), turn in at.items():
        reply = at.get((session, place + 1))
        if turn.line.role != "user" or not (turn.held or (reply and reply.held)):
            continue
        score = signals.counted(reader, turn)
        if pairs and reply and reply.line.role == "assistant":
            own[session, place] = score + signals.counted(reader, turn, reply), [turn, reply]
        elif turn.held:
            own[session, place] = score, [turn]
    return {
        (session, place): (
            (score + _ITS_SHARE * sum([own.get((session, place + away), (0.0,))[0] for away in _AROUND]))
            * turns[0].line.opens,
            turns,
        )
        for (session, place), (score, turns) in own.items()
    }


class Sums(dict[int, float]):
    """Maps bits to the sum of the values that they stand for, computed once."""

    def __init__(self, values: Sequence[float]) -> None:
        self._values = values

    def __missing__(self, bits: int) -> float:
        found = self[bits] = sum([value for number, value in enumerate(self._values) if bits >> number & 1])
        return found


class _Signals:
    def __init__(self, statistics: Statistics, weights: Weights) -> None:
        self._statistics = statistics
        self._weights = weights
        total = sum(statistics.rarity) or 1.0
        self._share = Sums([value / total for value in statistics.rarity])
        self._best_turn = 1.0
        # From 0 in a chat of short turns to 1 where messages are long.
        self._long = 1 - min(1.0, weights.short_turn / statistics.message_length)
        # BM25 divides by one plus this, and this for each word of the text.
        self._short = weights.saturation * (1 - weights.length)
        self._each_word = weights.saturation * weights.length / statistics.message_length

    def measured(self, members: dict[int, Candidate]) -> list[Measured]:
        """Measures the signals of all candidates of one session, which are its members by place."""
        weights, share, short, each_word = self._weights, self._share, 1 + self._short, self._each_word
        seen: dict[int, Seen] = dict.fromkeys((-3, -2, -1), (0, 0.0, 0))  # before the first turn there is nothing
        turns: dict[int, float] = {}
        for place, candidate in members.items():
            held, length = candidate.held, candidate.line.length
            seen[place] = held, share[held], length
            turns[place] = share[held] / (short + each_word * length)
        exchanges = self._exchanges(members) if self._long else {}
        best = max(turns.values())
        unknown = repeat((0, 0.0, self._statistics.message_length))
        at = seen.get
        found: list[Measured] = []
        for place, candidate in members.items():
            turn, line = turns[place], candidate.line
            words, read, repeated = 0, 0.0, 0.0
            for held, its_share, size in map(at, range(place - _BESIDE, place + _BESIDE + 1), unknown):
                words |= held
                repeated += its_share
                read += size
            # BM25 of the turns around as one text, with a little more for each of them that repeats a word.
            once = share[words]
            around = (once + weights.repeated * (repeated - once)) / (short + each_word * read / _IN_WINDOW)
            before = members.get(place - 1)
            covered = share[candidate.held]
            if candidate.reply and before:
                covered += weights.pair * (share[candidate.held | before.held] - covered)
            answered = 0.0
            # A short answer seldom repeats the words of the question that it answers.
            if before and before.line.asks and before.line.role != line.role:
                shared = min(1.0, weights.short_turn / (line.length + before.line.length / 2))
                answered = seen[place - 1][1] * shared
            found.append((candidate, turn, around, best, exchanges.get(place, turn), covered, answered))
        return found

    def _exchanges(self, members: dict[int, Candidate]) -> dict[int, float]:
        """Scores each turn of the person and its reply as one text: an answer is often divided between them."""
        found: dict[int, float] = {}
        for place, turn in members.items():
            if turn.line.role == "user" and (reply := members.get(place + 1)) and reply.line.role == "assistant":
                found[place] = found[place + 1] = self.together(turn, reply)
        return found

    def counted(self, reader: Reader, *turns: Candidate) -> float:
        """BM25 of a turn, or of a turn and its reply as one text, with how often they contain each word."""
        counts: Counter[int] = Counter()
        for turn in turns:
            counts.update({unit: count for unit, count in reader.counts(turn.line).items() if turn.held >> unit & 1})
        norm = self._short + self._each_word * sum([turn.line.length for turn in turns]) / len(turns)
        rarity = self._statistics.rarity
        return sum([rarity[unit] * count / (count + norm) for unit, count in counts.items()])

    def together(self, turn: Candidate, reply: Candidate) -> float:
        """BM25 of a turn and its reply as one text; a word that both contain counts as twice."""
        norm, twice = self._short + self._each_word * (turn.line.length + reply.line.length) / 2, turn.held & reply.held
        once = self._share[turn.held ^ reply.held] / (1 + norm)
        return once + 2 * self._share[twice] / (2 + norm) if twice else once

    def combine(self, measured: list[Measured]) -> None:
        """Scales each signal by the best value among all candidates, weighs it, and adds up the scores."""
        weights, long = self._weights, self._long
        beside = 1 - weights.apart * long
        _, *columns = zip(*measured, strict=True)
        turn_best, around_best, session_best, exchange_best, *_ = (max(column) or 1.0 for column in columns)
        self._best_turn = turn_best
        by_turn, by_around = weights.turn / turn_best, weights.around * beside / around_best
        by_session, by_exchange = weights.session * beside / session_best, weights.exchange * long / exchange_best
        for candidate, turn, around, session, exchange, covered, answered in measured:
            line = candidate.line
            # A long turn speaks for itself. A short one is understood through its neighbours, and a reply that the
            # question asks about through the question it answered.
            lean = 1.0 if candidate.role == "assistant" else min(1.0, weights.short_turn / line.length)
            candidate.parts = parts = {
                "turn": by_turn * turn,
                "around": by_around * lean * around,
                "session": by_session * session,
                "exchange": by_exchange * exchange,
                "coverage": weights.coverage * covered**2,
                "answered": weights.answered * beside * answered,
                "brief": weights.brief * lean,
                "speaker": weights.speaker if candidate.named else 0.0,
                "asks": weights.asks if line.asks else 0.0,
                "role": weights.user if candidate.role == "user" else 0.0,
                "rule": 0.0,
                "date": weights.date * candidate.dated,
                "title": weights.title * candidate.title,
            }
            candidate.score = sum(parts.values()) * candidate.factor

    def look_into(self, candidate: Candidate, reader: Reader, *, pairs: bool) -> None:
        """Adds what only the text of a candidate tells."""
        weights, rarity, line = self._weights, self._statistics.rarity, candidate.line
        total = sum(rarity) or 1.0
        candidate.rule = reader.rule(line) if candidate.held else 0.0
        once = self._share[candidate.held] / (1 + self._short + self._each_word * line.length)
        often = self.counted(reader, candidate) / total - once
        added = {
            "often": weights.turn * often / self._best_turn,
            "phrase": weights.phrase * reader.phrases(line),
            "answers": weights.answers * reader.answers(line),
            "told": weights.told if reader.told(line) else 0.0,
            "rule": weights.rule * candidate.rule,
            "personal": weights.personal * line.personal,
        }
        # Long messages contain many words of any question by chance; those that belong together are close in an answer.
        if pairs and self._long and candidate.held & candidate.held >> 1:
            found = sum([min(rarity[unit], rarity[unit + 1]) for unit in reader.close_pairs(line)])
            added["pairs"] = weights.pairs * self._long * found / total
        candidate.parts |= added
        candidate.score += sum(added.values()) * candidate.factor

    def hold_rules_back(self, candidates: list[Candidate]) -> None:
        """Lowers rules so that a few appear next to the answer but never replace it."""
        rules = sorted([each for each in candidates if each.rule == 1], key=lambda each: -each.score)
        for candidate in rules[_MOST_RULES:]:
            candidate.score -= candidate.parts["rule"] * (1 - _PREFERENCE) * candidate.factor
            candidate.parts["rule"] *= _PREFERENCE
        # A rule that leads only because it is a rule goes directly below the best other hit.
        first = max([candidate.score for candidate in candidates if not candidate.rule], default=math.inf)
        for candidate in candidates:
            if candidate.rule:
                candidate.score = min(candidate.score, max(candidate.score - candidate.parts["rule"], 0.999 * first))


# Reads what a candidate message says about a query: who speaks, and what its text tells beyond its words.

_PREFERENCE = 0.24  # what a preference, or a rule on another topic, counts compared with a rule
_PERSONAL = 8  # words to one "I" or "my", or fewer, make a turn wholly personal
_NAMES_ONE = 60  # words up to which a message that names something is likely to be about it
_TAKEN_UP, _SPECIFIC = 0.3, 3  # what opening a matter counts in coverage; numbers and names of which more count nothing
_KEPT = 3_000_000  # characters of text kept in memory
# Sessions that a program started, not the person; their hits count 0.7 of others.
_SIDE_SOURCES = frozenset(("cron", "tool", "subagent"))


class Line:
    """What ranking needs to know about one message; kept between searches."""

    def __init__(self, row: Row, words: Words) -> None:
        _, self.role, _, self.timestamp, content, self.name, calls, *_ = row
        self.checksum = row[-1]
        self._words = words
        self._calls = calls
        self.text = readable(unpacked(content)) if content else ""
        self.size = len(content or "") + len(calls or "")
        # Splitting the text into words would take twenty times as long as counting what separates them.
        self.length = words_in(self._whole())
        self.looks_back = calls is not None and only_looks_back(row)
        self.asks = self.text.endswith(("?", "\uff1f")) or self.text.rstrip(" \n\t\"'”)")[-1:] in ("?", "\uff1f")

    @cached_property
    def stems(self) -> list[str]:
        """The words of the text and of its tool calls, in order."""
        return self._words.of(self._whole())

    @cached_property
    def counts(self) -> Counter[str]:
        """How often the message contains each word."""
        return Counter(self.stems)

    @cached_property
    def states_time(self) -> bool:
        """Whether the message states a time, whatever its topic."""
        numbers = [stem for stem in self.counts if stem[0].isdigit()]
        return not english.WHEN_STEMS.isdisjoint(self.counts) or any(map(english.IS_DATE.fullmatch, numbers))

    @cached_property
    def states_number(self) -> bool:
        """Whether the message states a number, whatever its topic."""
        return not english.NUMBER_STEMS.isdisjoint(self.counts) or any(stem[0].isdigit() for stem in self.counts)

    @cached_property
    def states_rule(self) -> bool:
        """Whether the person states a standing rule; most texts lack its words, which is much faster to see."""
        text = self.text.lower()
        possible = self.role == "user" and any(sign in text for sign in english.RULE_SIGNS)
        return possible and english.STATES_RULE.search(self.text) is not None

    @cached_property
    def states_preference(self) -> bool:
        """Whether the person states a preference."""
        return self.role == "user" and english.STATES_PREFERENCE.search(self.text) is not None

    @cached_property
    def tells_what_happened(self) -> bool:
        """Whether the person tells what they did or what happened to them."""
        return self.role == "user" and english.TELLS_WHAT_HAPPENED.search(self.text) is not None

    @cached_property
    def personal(self) -> float:
        """How much the speaker talks about themself, from 0 to 1."""
        return min(1.0, _PERSONAL * len(english.FIRST_PERSON.findall(self.text)) / self.length)

    @cached_property
    def opens(self) -> float:
        """How much the turn opens a matter: less if it takes up the answer before it, more with numbers and names."""
        specific = len(english.SPECIFIC.findall(self.text)) / _SPECIFIC
        return 1 - _TAKEN_UP * (english.TAKES_UP.match(self.text) is not None) + _TAKEN_UP * min(1.0, specific)

    @cached_property
    def topic(self) -> frozenset[str] | None:
        """The words after "when I ask about" in a rule."""
        found = english.RULE_TOPIC.search(self.text)
        return frozenset(self._words.of(found[1])) if found else None

    def _whole(self) -> str:
        """The text and its tool calls, which the index holds as well."""
        return f"{self.text} {called(self._calls)}" if self._calls else self.text


class Lines:
    """The lines of messages that searches have read, up to a bounded number of characters."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self._known: dict[int, Line] = {}
        self._size = 0

    def of(self, ids: Sequence[int], rows: Callable[[list[int]], dict[int, Row]]) -> dict[int, Line]:
        """The lines of these messages, read where they are not known; missing and rewound messages have none."""
        found = {i: line for i in ids if (line := self._known.get(i)) is not None}
        missing = self.missing(ids)
        for message_id, row in rows(missing).items() if missing else ():
            line = found[message_id] = self._known[message_id] = Line(row, self.words)
            self._size += line.size
        if self._size > _KEPT:
            self.forget()
        return found

    def missing(self, ids: Sequence[int]) -> list[int]:
        """Those of the messages whose rows must still be read."""
        return [i for i in ids if i not in self._known]

    def forget(self) -> None:
        """Drops all lines, because messages changed or too many lines are kept."""
        self._known.clear()
        self._size = 0

    def is_current(self, row: Row) -> bool:
        """Whether the line that is kept was made from this row; an id can be given out again."""
        known = self._known.get(row[0])
        return known is None or known.checksum == row[-1]


class Reader:
    """Extracts the features of messages with respect to one query."""

    def __init__(self, query: Query, words: Words) -> None:
        self._query = query
        self._words = words
        self._number = {
            stem: number for number, unit in enumerate(query.units) if not unit.prefix for stem in unit.stems
        }
        self._beginnings = [(unit.stem, number) for number, unit in enumerate(query.units) if unit.prefix]
        self._names: dict[str, int] = {}
        self._sessions: dict[int, tuple[float, float]] = {}

    def candidate(self, message_id: int, line: Line, session: Session, place: int, held: int | None) -> Candidate:
        """The features of one message that need no look into its text; `held` is None if the index does not know."""
        role = line.role
        # A message that only calls a search tool contains what was searched for in the index of an older Hermes.
        if held is None or line.looks_back:
            held = self._held(line)
        title, factor = self._sessions.get(session.key) or self._of_session(session)
        dated = 0.0
        if self._query.times:
            moments = (line.timestamp, session.started_at)
            dated = max([span.fit(moment) for span in self._query.times for moment in moments])
        return Candidate(
            message_id,
            session.key,
            place,
            held,
            line,
            self._named(line.name) if line.name else 0,
            role == "assistant" and self._query.about != "user",
            role if role == self._query.about else "",
            dated,
            title,
            factor * 0.8 if role == "tool" else factor,
        )

    def _held(self, line: Line) -> int:
        return sum([1 << number for number in self.counts(line)])

    def counts(self, line: Line) -> dict[int, int]:
        """How often a message contains each of the query's words that it contains."""
        counts: dict[int, int] = {}
        stems = line.counts
        for stem, number in self._number.items():
            if stem in stems:
                counts[number] = counts.get(number, 0) + stems[stem]
        for beginning, number in self._beginnings:
            if count := sum([often for stem, often in stems.items() if stem.startswith(beginning)]):
                counts[number] = count
        return counts

    def close_pairs(self, line: Line) -> set[int]:
        """The words of the query that occur close to the query's next word in a message."""
        number = self._number
        places = [(at, number[stem]) for at, stem in enumerate(line.stems) if stem in number]
        return {
            min(one, other)
            for (at, one), (then, other) in pairwise(places)
            if abs(one - other) == 1 and then - at <= _TOGETHER
        }

    def phrases(self, line: Line) -> float:
        """The share of the question's quoted phrases that a message contains."""
        phrases = self._query.phrases
        if not phrases or self._query.explicit is not None:
            return 0.0
        text = f" {' '.join(line.stems)} "
        return sum(f" {' '.join(phrase)} " in text for phrase in phrases) / len(phrases)

    def passes(self, row: Row) -> bool:
        """Whether a message passes the test of explicit syntax: words in order, prefixes, and nothing excluded."""
        explicit = self._query.explicit
        assert explicit is not None  # noqa: S101 - nothing else is tested
        content, name, calls = row[4:7]
        text = f"{readable(unpacked(content)) if content else ''} {called(calls)}"
        tokens = self._words.of(f"{name}: {text}" if name else text)
        return explicit.passes(" ".join(["", *tokens, ""]), text.lower())

    def _bits(self, text: str) -> int:
        return reduce(or_, [1 << self._number[token] for token in self._words.of(text) if token in self._number], 0)

    def _named(self, name: str) -> int:
        known = self._names.get(name)
        if known is None:
            known = self._names[name] = self._bits(name)
        return known

    def _of_session(self, session: Session) -> tuple[float, float]:
        """The share of the query's words in the title, and the factor for hits in sessions from this source."""
        held = self._bits(session.title).bit_count() if session.title else 0
        factor = 0.7 if session.source in _SIDE_SOURCES else 1.0
        known = self._sessions[session.key] = (held / max(1, len(self._query.units)), factor)
        return known

    def told(self, line: Line) -> bool:
        """Whether the person tells what happened to them, and the question is about the person."""
        return self._query.about == "user" and line.tells_what_happened

    def answers(self, line: Line) -> float:
        """How surely a message states a time, a number or a name, if the question wants one."""
        if self._query.asks_when and line.states_time:
            return 1.0
        if self._query.asks_how_many and line.states_number:
            return 0.4
        # Almost every long message names something.
        return 0.5 * min(1.0, _NAMES_ONE / line.length) if self._query.asks_name and self._names_another(line) else 0.0

    def _names_another(self, line: Line) -> bool:
        """Whether a message names something besides the speakers and what the question names."""
        speakers = {word for name in self._names for word in name.split()}
        names = set(english.NAME.findall(line.text)) - speakers
        return any(self._number.keys().isdisjoint(self._words.of(name)) for name in names)

    def rule(self, line: Line) -> float:
        """A standing rule belongs to every question on its topic, a preference to a wish for help."""
        if not self._query.question:
            return 0.0
        if line.states_rule:
            return 1.0 if line.topic is None or not line.topic.isdisjoint(self._number) else _PREFERENCE
        return _PREFERENCE if self._query.wants_help and line.states_preference else 0.0


def without_speakers(candidates: list[Candidate], units: int) -> None:
    """Removes speakers' names from the words: who speaks is a signal of its own, and "Hi Ann" is said by the other."""
    names = reduce(or_, [candidate.named for candidate in candidates], 0)
    if names and names.bit_count() < units:
        for candidate in candidates:
            candidate.held &= ~names
