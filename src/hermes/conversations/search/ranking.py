"""Reads the features of each candidate message and scores them: its words, its neighbours, its session.

Every signal is divided by the best value any candidate has, so that signals of different kinds can be added. The
weights are one configuration for every kind of conversation; what differs between a chat of short turns and a
transcript of long ones is read from the lengths, not from the data's name.
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
    """How much each feature counts; `hermes bench recall` measures a change."""

    turn: float = 1.0
    around: float = 1.2
    session: float = 0.7
    coverage: float = 1.0
    speaker: float = 0.5
    phrase: float = 0.5
    title: float = 1.0
    date: float = 1.5
    asks: float = -0.25
    answers: float = 0.9
    answered: float = 1.4
    brief: float = 0.6
    assistant: float = 0.75
    user: float = 0.75
    rule: float = 2.0
    pair: float = 0.9
    saturation: float = 1.2
    length: float = 0.4
    repeated: float = 0.3
    short_turn: float = 60.0
    apart: float = 0.6  # how much less surroundings say of turns that are long enough to speak for themselves
    pairs: float = 2.0
    exchange: float = 0.6
    told: float = 0.2


@dataclass(slots=True)
class Candidate:
    """What was seen in one message: how often each word of the query, and a bit for each of them."""

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
    told: bool = False  # the person tells what happened to them, where the question is about that
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

    With a `reader`, it also looks how near to each other the words stand in the best of them.
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
    """After the first hits, the best of every session not yet shown comes before more of the same sessions."""
    shown = {candidate.session for candidate in ranked[:first]}
    fresh: list[Candidate] = []
    more: list[Candidate] = []
    for candidate in ranked[first:]:
        (more if candidate.session in shown else fresh).append(candidate)
        shown.add(candidate.session)
    return ranked[:first] + fresh + more


def confidence(ranked: list[Candidate], statistics: Statistics, guessed: Mapping[int, float]) -> float:
    """How much of what was asked stands in one of the first hits or beside it: the share of the words by rarity.

    Names of speakers count as found: who speaks is known of every message. A word that nobody wrote and that was
    `guessed` to mean another one counts as missing, and as rare as such a word is.
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
    """Below this, hits are weak. Long messages hold many words of any question by chance, so more is expected there.

    Of a question `in_pairs` of characters, most pairs are no words, and fewer are found. Calibrated so that at most
    three in a hundred questions with an answer fall below it.
    """
    if in_pairs:
        return 0.17
    return 0.25 + 0.15 * min(1.0, max(0.0, (statistics.message_length - 30) / 120))


_FIRST = 5
_LOOKED_INTO = 20  # of the best candidates, in which places of words are compared
_TOGETHER = 3  # words apart
_MOST_RULES = 3
_STRATA = 4
_POOL = 3  # times as many as are shown are spread over time
_AROUND, _ITS_SHARE = (-6, -4, -2, 2, 4, 6), 0.1  # places away that count for a topic, which is a thread of turns


def cover(
    candidates: list[Candidate], statistics: Statistics, weights: Weights, started: dict[int, float], *, mine: bool
) -> list[Candidate]:
    """A topic over time: the best turns of each stretch of it in turn, with their replies unless only `mine` count.

    `started` gives the time of each session. The rest follows as it was ranked.
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
    """By session and place: the score of a person's turn among its neighbours, and the turn with its reply."""
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
        """A person's turn and the reply to it as one text: what is asked for often stands half in each."""
        found: dict[int, float] = {}
        for place, turn in members.items():
            if turn.spoken == "user" and (reply := members.get(place + 1)) and reply.spoken == "assistant":
                found[place] = found[place + 1] = self.bm25(turn, reply)
        return found

    def _answered(self, candidate: Candidate, before: Candidate | None) -> float:
        """The question's words in the other's question just before: a short answer seldom repeats them."""
        if before is None or not before.asks or before.spoken == candidate.spoken:
            return 0.0
        length = max(1.0, candidate.length + before.length / 2)
        return self._share(before.held) * min(1.0, self._weights.short_turn / length)

    def _window(self, turns: list[Seen]) -> float:
        """The words that stand in these turns, and a little for each turn that repeats one of them."""
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
        """Of the query's words, weighed by rarity, those that these bits stand for."""
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
        """Of one turn, or of a turn and its reply as one text."""
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
        weights = self._weights
        beside = 1 - weights.apart * self._long
        best = {
            name: max([candidate.parts[name] for candidate in candidates]) or 1.0
            for name in ("turn", "around", "session", "exchange")
        }
        for candidate in candidates:
            # A long turn says enough by itself; a short one is understood through its neighbours, and a reply that is
            # asked for through its question.
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
        """Long messages hold many words of any question; in the answer, words that belong together stand together."""
        weight, rarity = self._weights.pairs * self._long / self._total_rarity, self._statistics.rarity
        if not weight:
            return
        for candidate in heapq.nlargest(_LOOKED_INTO, candidates, key=lambda each: each.score):
            if candidate.held & candidate.held >> 1:
                found = sum([min(rarity[unit], rarity[unit + 1]) for unit in reader.pairs(candidate.id)])
                candidate.parts["pairs"] = weight * found
                candidate.score += weight * found * candidate.factor

    def hold_rules_back(self, candidates: list[Candidate]) -> None:
        """A few rules are shown beside the answer, never in its place."""
        rules = sorted([each for each in candidates if each.rule == 1], key=lambda each: -each.score)
        for candidate in rules[_MOST_RULES:]:
            candidate.score -= candidate.parts["rule"] * (1 - _PREFERENCE) * candidate.factor
            candidate.parts["rule"] *= _PREFERENCE
        first = max([candidate.score for candidate in candidates if not candidate.rule], default=math.inf)
        for candidate in candidates:
            if candidate.rule:
                candidate.score = min(candidate.score, max(candidate.score - candidate.parts["rule"], 0.999 * first))


# Reads what a candidate message says about a query: which words, how often, and who speaks.

_PREFERENCE = 0.24  # of what a rule counts
_KEPT = 300_000  # stems of messages, each counted once for every message that holds it
_SIDE_SOURCES = frozenset(("cron", "tool", "subagent"))


class Line:
    """What ranking needs of one message, kept between searches instead of its text."""

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
    """What kind of thing a message says, whatever it is about."""
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
    """The lines of messages that searches have looked at, up to a bounded number of stems."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self._known: dict[int, Line] = {}
        self._size = 0

    def of(self, ids: Sequence[int], rows: Callable[[list[int]], dict[int, Row]]) -> dict[int, Line]:
        """Reads the rows of those that are not known; what is not there, or rewound, has no line."""
        found = {i: line for i in ids if (line := self._known.get(i)) is not None}
        missing = self.missing(ids)
        for message_id, row in rows(missing).items() if missing else ():
            line = found[message_id] = self._known[message_id] = Line(row, self.words)
            self._size += len(line.counts)
        if self._size > _KEPT:
            self.forget()
        return found

    def missing(self, ids: Sequence[int]) -> list[int]:
        return [i for i in ids if i not in self._known]

    def known(self, message_id: int) -> Line | None:
        return self._known.get(message_id)

    def forget(self) -> None:
        self._known.clear()
        self._size = 0

    def is_current(self, row: Row) -> bool:
        """Whether what is known of a message is about this row; an id can be given out again."""
        known = self._known.get(row[0])
        return known is None or known.checksum == row[-1]


class Reader:
    """Looks at messages with one query in mind."""

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
        """The words of the query that stand close to the query's next word in this message."""
        line, number = self._lines.known(message_id), self._number
        places = [(at, number[stem]) for at, stem in enumerate(line.stems) if stem in number] if line else []
        return {
            min(one, other)
            for (at, one), (then, other) in pairwise(places)
            if abs(one - other) == 1 and then - at <= _TOGETHER
        }

    def phrases(self, row: Row) -> float:
        """The share of the phrases quoted in a question that stand in a message."""
        line = f" {' '.join(self._lines.words.of(readable(unpacked(row[4]))))} " if row[4] else ""
        phrases = self._query.phrases
        return sum(f" {' '.join(phrase)} " in line for phrase in phrases) / len(phrases)

    def passes(self, row: Row) -> bool:
        """Whether a message passes the test of explicit syntax: words in order, prefixes, and nothing refused."""
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
        """How much of the query the title holds, and what hits in such a session count."""
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
    """Takes speakers' names out of the counts: that Ann speaks is a sign of its own, and the other says "Hi Ann"."""
    names = frozenset().union(*(candidate.named for candidate in candidates))
    if not names or len(names) >= units:
        return
    said = ~sum(1 << name for name in names)
    for candidate in candidates:
        if not names.isdisjoint(candidate.counts):
            candidate.counts = {unit: count for unit, count in candidate.counts.items() if unit not in names}
            candidate.held &= said
