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
from itertools import pairwise, repeat
from sys import intern
from typing import TYPE_CHECKING

from hermes.base import words as english
from hermes.storage.records import called, only_looks_back, readable, unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, KeysView, Mapping, Sequence

    from hermes.base.dates import Span
    from hermes.base.words import Words
    from hermes.conversations.search.query import Query
    from hermes.storage.records import Row, Session

    Seen = tuple[int, float, float]  # of a turn: the words it holds, their share of the query, its length


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """How much each feature counts; `hermes bench recall` measures a change.

    A linear ranking was fitted listwise on the development sets, with folds by conversation, and rounded. In
    cross-validation, the right turn of LoCoMo came first for 50.7 % of the questions instead of 47.1. The weights for
    stores of long messages (`apart`, `pairs`, `exchange`) and `told` were added later.
    """

    turn: float = 1.0  # BM25 of the turn itself
    around: float = 1.2  # the words of the question in the three turns before and after it
    session: float = 0.7  # BM25 of the best turn of the session
    coverage: float = 1.0  # the squared share of the question's words that the turn contains
    speaker: float = 0.5  # the question names the speaker
    phrase: float = 0.5  # quoted phrases of the question
    title: float = 1.0  # the question's words in the title of the session
    date: float = 1.5  # it was said at the time that the question names
    asks: float = -0.25  # a turn that asks a question seldom answers one
    answers: float = 0.9  # it states a time or a number, where the question wants one
    answered: float = 1.4  # the other speaker's question just before it: a short answer repeats few of its words
    brief: float = 0.6  # a short turn; a turn of over 60 words gets less
    assistant: float = 0.75  # the assistant's turn, if the question asks what the assistant said
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


@dataclass(slots=True)
class Candidate:
    """One message that may answer a query, with its features and, after ranking, its score.

    `counts` says how often it contains each word of the query, and `held` has a bit for each of these words.
    """

    id: int
    session: int
    place: int
    counts: dict[int, int]
    length: int
    held: int = 0
    phrases: float = 0.0
    named: frozenset[int] = frozenset()
    asks: bool = False
    answers: float = 0.0
    told: bool = False  # the person tells what happened to them, and the question is about the person
    spoken: str = ""  # the role of who speaks
    role: str = ""  # the role that the question asks about, if this is its turn
    rule: float = 0.0
    reply: bool = False
    dated: float = 0.0
    title: float = 0.0
    factor: float = 1.0
    score: float = 0.0
    parts: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """How many words a message has on average, and how rare each word of the query is."""

    message_length: float
    rarity: tuple[float, ...]


def rank(
    candidates: list[Candidate], statistics: Statistics, weights: Weights, reader: Reader | None = None
) -> list[Candidate]:
    """Sets `score` and `parts` of every candidate and returns them best first.

    With a `reader`, it also compares how close together the words are in the best of them.
    """
    if not candidates:
        return []
    sessions: dict[int, dict[int, Candidate]] = defaultdict(dict)
    for candidate in candidates:
        sessions[candidate.session][candidate.place] = candidate
    signals = _Signals(statistics, weights)
    for members in sessions.values():
        signals.weigh_session(members)
    signals.combine(candidates)
    if reader is not None:
        signals.add_pairs(candidates, reader)
    signals.hold_rules_back(candidates)
    return sorted(candidates, key=lambda candidate: (-candidate.score, -candidate.id))


def spread(ranked: list[Candidate], first: int = 20) -> list[Candidate]:
    """Puts the best hit of each new session before further hits of the sessions among the first ones."""
    shown = {candidate.session for candidate in ranked[:first]}
    fresh: list[Candidate] = []
    more: list[Candidate] = []
    for candidate in ranked[first:]:
        (more if candidate.session in shown else fresh).append(candidate)
        shown.add(candidate.session)
    return ranked[:first] + fresh + more


def confidence(ranked: list[Candidate], statistics: Statistics, guessed: Mapping[int, float]) -> float:
    """The share of the question's words, by rarity, that occur in one of the first hits or next to it.

    Names of speakers count as found, because every message has a known speaker. A word that no message contains, and
    that was `guessed` to mean another one, counts as missing and as very rare.
    """
    rarity = [guessed.get(unit, value) for unit, value in enumerate(statistics.rarity)]
    at = {(each.session, each.place): each.counts.keys() for each in ranked}
    names = frozenset[int]().union(*(each.named for each in ranked))
    best = 0.0
    for hit in ranked[:_FIRST]:
        held = names.union(*(at.get((hit.session, hit.place + step), ()) for step in (-1, 0, 1)))
        best = max(best, sum([rarity[unit] for unit in held.difference(guessed)]))
    return best / (sum(rarity) or 1.0)


def expected_confidence(statistics: Statistics, *, in_pairs: bool) -> float:
    """The confidence below which hits are weak.

    Long messages contain many words of any question by chance, so more is expected of them. Of a question in pairs of
    characters (`in_pairs`), most pairs are not words, so fewer are found. Calibrated so that at most three in a hundred
    questions with an answer fall below it: 2.8 % on LoCoMo and BEAM.
    """
    if in_pairs:
        return 0.17
    return 0.25 + 0.15 * min(1.0, max(0.0, (statistics.message_length - 30) / 120))


_FIRST = 5  # hits that confidence looks at
_LOOKED_INTO = 20  # the best candidates, in which the distances of words are compared
_TOGETHER = 3  # at most so many words apart, two words of the question count as neighbours
_MOST_RULES = 3  # standing rules that are shown next to the answer
_STRATA = 4  # stretches of time over which a topic is spread
_POOL = 3  # times as many threads as are usually shown are spread over time
# A topic continues over several turns. Turns of one speaker are two places apart, so the three before and the three
# after add a little to a thread's score.
_AROUND, _ITS_SHARE = (-6, -4, -2, 2, 4, 6), 0.1


def cover(
    candidates: list[Candidate], statistics: Statistics, weights: Weights, started: dict[int, float], *, mine: bool
) -> list[Candidate]:
    """Covers a topic over time: takes the best turns of each stretch of time in turn, with the replies unless `mine`.

    `mine` says that the question is only about what the person said. `started` gives the time of each session. The
    candidates that are not chosen follow in their order.
    """
    threads = _threads(candidates, _Signals(statistics, weights), pairs=not mine)
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
    candidates: list[Candidate], signals: _Signals, *, pairs: bool
) -> dict[tuple[int, int], tuple[float, list[Candidate]]]:
    """Maps session and place of each turn of the person to its thread's score, and to the turn and its reply."""
    at = {(each.session, each.place): each for each in candidates}
    own: dict[tuple[int, int], tuple[float, list[Candidate]]] = {}
    for (session, place), turn in at.items():
        reply = at.get((session, place + 1))
        if turn.spoken != "user" or not (turn.counts or (reply and reply.counts)):
            continue
        score = signals.bm25(turn)
        if pairs and reply and reply.spoken == "assistant":
            own[session, place] = score + signals.bm25(turn, reply), [turn, reply]
        elif turn.counts:
            own[session, place] = score, [turn]
    return {
        (session, place): (
            score + _ITS_SHARE * sum([own.get((session, place + away), (0.0,))[0] for away in _AROUND]),
            turns,
        )
        for (session, place), (score, turns) in own.items()
    }


class _Signals:
    def __init__(self, statistics: Statistics, weights: Weights) -> None:
        self._statistics = statistics
        self._weights = weights
        self._total_rarity = sum(statistics.rarity) or 1.0
        self._shares: dict[int, float] = {}
        # From 0 in a chat of short turns to 1 where messages are long.
        self._long = 1 - min(1.0, weights.short_turn / statistics.message_length)

    def weigh_session(self, members: dict[int, Candidate]) -> None:
        """Measures the signals of all candidates of one session, which are its members by place."""
        weights, average, share = self._weights, self._statistics.message_length, self._share
        seen: dict[int, Seen] = dict.fromkeys((-3, -2, -1), (0, 0.0, 0))  # before the first turn there is nothing
        for place, candidate in members.items():
            seen[place] = (candidate.held, share(candidate.held), candidate.length)
        unknown = repeat((0, 0.0, average))
        exchanges = self._exchanges(members) if self._long else {}
        turns = {place: self._bm25(each.counts, each.length, average) for place, each in members.items()}
        best = max(turns.values())
        at = seen.get
        for place, candidate in members.items():
            held, own, _ = seen[place]
            around = list(map(at, range(place - 3, place + 4), unknown))
            both = share(held | around[2][0]) if candidate.reply else own
            candidate.parts = {
                "turn": turns[place],
                "around": self._window(around),
                "session": best,
                "exchange": exchanges.get(place, turns[place]),
                "coverage": (own + weights.pair * (both - own)) ** 2,
                "phrase": candidate.phrases,
                "answered": self._answered(candidate, members.get(place - 1)),
            }

    def _exchanges(self, members: dict[int, Candidate]) -> dict[int, float]:
        """Scores each turn of the person and its reply as one text: an answer is often divided between them."""
        found: dict[int, float] = {}
        for place, turn in members.items():
            if turn.spoken == "user" and (reply := members.get(place + 1)) and reply.spoken == "assistant":
                found[place] = found[place + 1] = self.bm25(turn, reply)
        return found

    def _answered(self, candidate: Candidate, before: Candidate | None) -> float:
        """The share of words in the question that this turn answers: a short answer seldom repeats them."""
        if before is None or not before.asks or before.spoken == candidate.spoken:
            return 0.0
        length = max(1.0, candidate.length + before.length / 2)
        return self._share(before.held) * min(1.0, self._weights.short_turn / length)

    def _window(self, turns: list[Seen]) -> float:
        """Scores the words in these turns, with a little more for each turn that repeats one, by BM25's formula."""
        average = self._statistics.message_length
        words, length, repeated = 0, 0.0, 0.0
        for held, share, size in turns:
            words |= held
            repeated += share
            length += size
        if not words:
            return 0.0
        weights = self._weights
        once = self._share(words)
        found = once + weights.repeated * (repeated - once)
        return found / (
            1 + weights.saturation * (1 - weights.length + weights.length * length / (average * len(turns)))
        )

    def _share(self, held: int) -> float:
        """The share of the query's words, by rarity, that these bits stand for."""
        known = self._shares.get(held)
        if known is None:
            rarity = self._statistics.rarity
            found = [value for unit, value in enumerate(rarity) if held >> unit & 1]
            known = self._shares[held] = sum(found) / self._total_rarity
        return known

    def _bm25(self, counts: dict[int, int], length: float, average: float) -> float:
        if not counts:
            return 0.0
        k, b = self._weights.saturation, self._weights.length
        norm = k * (1 - b + b * length / average)
        rarity, k = self._statistics.rarity, k + 1
        return sum([rarity[unit] * count * k / (count + norm) for unit, count in counts.items()])

    def bm25(self, turn: Candidate, reply: Candidate | None = None) -> float:
        """BM25 of one turn, or of a turn and its reply as one text."""
        average = self._statistics.message_length
        if reply is None:
            return self._bm25(turn.counts, turn.length, average)
        counts = turn.counts
        if reply.counts:
            counts = counts.copy()
            for unit, count in reply.counts.items():
                counts[unit] = counts.get(unit, 0) + count
        return self._bm25(counts, turn.length + reply.length, 2 * average)

    def combine(self, candidates: list[Candidate]) -> None:
        """Scales each signal by the best value among all candidates, weighs it, and adds up the scores."""
        weights = self._weights
        beside = 1 - weights.apart * self._long
        best = {
            name: max([candidate.parts[name] for candidate in candidates]) or 1.0
            for name in ("turn", "around", "session", "exchange")
        }
        for candidate in candidates:
            # A long turn speaks for itself. A short one is understood through its neighbours, and a reply that the
            # question asks about through the question it answered.
            lean = 1.0 if candidate.role == "assistant" else min(1.0, weights.short_turn / max(1.0, candidate.length))
            parts = candidate.parts
            parts["turn"] *= weights.turn / best["turn"]
            parts["around"] *= weights.around * lean * beside / best["around"]
            parts["session"] *= weights.session * beside / best["session"]
            parts["exchange"] *= weights.exchange * self._long / best["exchange"]
            parts["coverage"] *= weights.coverage
            parts["phrase"] *= weights.phrase
            parts["answered"] *= weights.answered * beside
            parts["brief"] = weights.brief * lean
            parts["speaker"] = weights.speaker if candidate.named else 0.0
            parts["asks"] = weights.asks if candidate.asks else 0.0
            parts["answers"] = weights.answers * candidate.answers
            parts["told"] = weights.told if candidate.told else 0.0
            parts["role"] = getattr(weights, candidate.role) if candidate.role else 0.0
            parts["rule"] = weights.rule * candidate.rule
            parts["date"] = weights.date * candidate.dated
            parts["title"] = weights.title * candidate.title
            candidate.score = sum(parts.values()) * candidate.factor

    def add_pairs(self, candidates: list[Candidate], reader: Reader) -> None:
        """Scores neighbouring words of the question that are close together in a long message.

        Long messages contain many words of any question by chance; in an answer, words that belong together are close.
        """
        weight, rarity = self._weights.pairs * self._long / self._total_rarity, self._statistics.rarity
        if not weight:
            return
        for candidate in heapq.nlargest(_LOOKED_INTO, candidates, key=lambda each: each.score):
            if candidate.held & candidate.held >> 1:  # it contains two words that follow each other in the question
                found = sum([min(rarity[unit], rarity[unit + 1]) for unit in reader.pairs(candidate.id)])
                candidate.parts["pairs"] = weight * found
                candidate.score += weight * found * candidate.factor

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


# Reads what a candidate message says about a query: which words, how often, and who speaks.

_PREFERENCE = 0.24  # what a preference, or a rule on another topic, counts compared with a rule
_KEPT = 300_000  # stems kept in memory, each counted once for every message that contains it
# Sessions that a program started, not the person; their hits count 0.7 of others.
_SIDE_SOURCES = frozenset(("cron", "tool", "subagent"))


class Line:
    """What ranking needs to know about one message; kept between searches instead of its text."""

    __slots__ = (
        *("asks", "checksum", "counts", "length", "looks_back", "name", "role", "size"),
        *("stems", "tells", "timestamp", "topic"),
    )

    def __init__(self, row: Row, words: Words) -> None:
        _, self.role, _, self.timestamp, content, self.name, calls, *_ = row
        self.checksum = row[-1]
        text = readable(unpacked(content)) if content else ""
        self.stems = list(map(intern, words.of(f"{text} {called(calls)}" if calls else text)))
        self.counts = dict(Counter(self.stems))
        self.length = len(self.stems)
        self.size = len(content or "") + len(calls or "")
        self.looks_back = only_looks_back(row)
        self.asks = text.rstrip(" \n\t\"'”)")[-1:] in ("?", "\uff1f")
        self.tells = _tells(text, self.counts.keys(), self.role)
        topic = english.RULE_TOPIC.search(text) if "rule" in self.tells else None
        self.topic = frozenset(words.of(topic[1])) if topic else None


def _tells(text: str, stems: KeysView[str], role: str) -> frozenset[str]:
    """The kinds of statements in a message, whatever its topic: a time, a number, a rule, a preference, an event."""
    numbers = [stem for stem in stems if stem[0].isdigit()]
    told = {
        "when": not english.WHEN_STEMS.isdisjoint(stems) or any(map(english.IS_DATE.fullmatch, numbers)),
        "how many": bool(numbers) or not english.NUMBER_STEMS.isdisjoint(stems),
        "rule": role == "user" and english.STATES_RULE.search(text) is not None,
        "preference": role == "user" and english.STATES_PREFERENCE.search(text) is not None,
        "happened": role == "user" and english.TELLS_WHAT_HAPPENED.search(text) is not None,
    }
    return frozenset(what for what, so in told.items() if so)


class Lines:
    """The lines of messages that searches have read, up to a bounded number of stems."""

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
            self._size += len(line.counts)
        if self._size > _KEPT:
            self.forget()
        return found

    def missing(self, ids: Sequence[int]) -> list[int]:
        """Those of the messages whose rows must still be read."""
        return [i for i in ids if i not in self._known]

    def known(self, message_id: int) -> Line | None:
        """The line of a message if an earlier step of a search has read it."""
        return self._known.get(message_id)

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

    def __init__(self, query: Query, lines: Lines, spans: Sequence[Span]) -> None:
        self._query = query
        self._lines = lines
        self._spans = spans
        self._number = {
            stem: number for number, unit in enumerate(query.units) if not unit.prefix for stem in unit.stems
        }
        self._stems = list(self._number.items())
        self._beginnings = [(unit.stem, number) for number, unit in enumerate(query.units) if unit.prefix]
        self._names: dict[str, frozenset[int]] = {}
        self._sessions: dict[int, tuple[float, float]] = {}

    def candidate(self, message_id: int, line: Line, session: Session, place: int) -> Candidate:
        """The features of one message with respect to the query; only scores are missing."""
        query, role = self._query, line.role
        counts = self._counts(line.counts)
        title, factor = self._sessions.get(session.key) or self._of_session(session)
        dated = 0.0
        if self._spans:
            moments = (line.timestamp, session.started_at)
            dated = max([span.fit(moment) for span in self._spans for moment in moments])
        return Candidate(
            id=message_id,
            session=session.key,
            place=place,
            counts=counts,
            length=line.length,
            held=sum([1 << number for number in counts]),
            named=self._name(line.name) if line.name else frozenset(),
            dated=dated,
            title=title,
            reply=role == "assistant" and query.about != "user",
            asks=line.asks,
            answers=self._answers(line.tells) if line.tells else 0.0,
            told="happened" in line.tells and query.about == "user",
            spoken=role,
            role=role if role == query.about else "",
            rule=self._rule(line) if counts and query.question else 0.0,
            factor=factor * 0.8 if role == "tool" else factor,
        )

    def _counts(self, stems: dict[str, int]) -> dict[int, int]:
        counts: dict[int, int] = {}
        for stem, number in [pair for pair in self._stems if pair[0] in stems]:
            counts[number] = counts.get(number, 0) + stems[stem]
        for beginning, number in self._beginnings:
            if count := sum([often for stem, often in stems.items() if stem.startswith(beginning)]):
                counts[number] = count
        return counts

    def pairs(self, message_id: int) -> set[int]:
        """The words of the query that occur close to the query's next word in this message."""
        line, number = self._lines.known(message_id), self._number
        places = [(at, number[stem]) for at, stem in enumerate(line.stems) if stem in number] if line else []
        return {
            min(one, other)
            for (at, one), (then, other) in pairwise(places)
            if abs(one - other) == 1 and then - at <= _TOGETHER
        }

    def phrases(self, row: Row) -> float:
        """The share of the question's quoted phrases that a message contains."""
        line = f" {' '.join(self._lines.words.of(readable(unpacked(row[4]))))} " if row[4] else ""
        phrases = self._query.phrases
        return sum(f" {' '.join(phrase)} " in line for phrase in phrases) / len(phrases)

    def passes(self, row: Row) -> bool:
        """Whether a message passes the test of explicit syntax: words in order, prefixes, and nothing excluded."""
        explicit = self._query.explicit
        assert explicit is not None  # noqa: S101 - nothing else is tested
        content, name, calls = row[4:7]
        text = f"{readable(unpacked(content)) if content else ''} {called(calls)}"
        tokens = self._lines.words.of(f"{name}: {text}" if name else text)
        return explicit.passes(" ".join(["", *tokens, ""]), text.lower())

    def _name(self, name: str) -> frozenset[int]:
        known = self._names.get(name)
        if known is None:
            tokens = self._lines.words.of(name)
            known = self._names[name] = frozenset(self._number[token] for token in tokens if token in self._number)
        return known

    def _of_session(self, session: Session) -> tuple[float, float]:
        """The share of the query's words in the title, and the factor for hits in sessions from this source."""
        tokens = self._lines.words.of(session.title) if session.title else []
        held = len({self._number[token] for token in tokens if token in self._number})
        factor = 0.7 if session.source in _SIDE_SOURCES else 1.0
        known = self._sessions[session.key] = (held / max(1, len(self._query.units)), factor)
        return known

    def _answers(self, tells: frozenset[str]) -> float:
        if self._query.asks_when and "when" in tells:
            return 1.0
        return 0.4 if self._query.asks_how_many and "how many" in tells else 0.0

    def _rule(self, line: Line) -> float:
        """A standing rule belongs to every question on its topic, a preference to a wish for help."""
        if "rule" in line.tells:
            return 1.0 if line.topic is None or not line.topic.isdisjoint(self._number) else _PREFERENCE
        return _PREFERENCE if self._query.wants_help and "preference" in line.tells else 0.0


def without_speakers(candidates: list[Candidate], units: int) -> None:
    """Removes speakers' names from the counts: who speaks is a signal of its own, and "Hi Ann" is said by the other."""
    names = frozenset().union(*(candidate.named for candidate in candidates))
    if not names or len(names) >= units:
        return
    said = ~sum(1 << name for name in names)
    for candidate in candidates:
        if not names.isdisjoint(candidate.counts):
            candidate.counts = {unit: count for unit, count in candidate.counts.items() if unit not in names}
            candidate.held &= said
