"""Reads the features of each candidate message and scores them: its words, its neighbours, its session.

Every signal is divided by the best value any candidate has, so that signals of different kinds can be added. The
weights are one configuration for every kind of conversation; what differs between a chat of short turns and a
transcript of long ones is read from the lengths, not from the data's name.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hermes.base import words as english
from hermes.storage.records import called, readable, unpacked

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

    from hermes.base.dates import Span
    from hermes.base.words import Words
    from hermes.conversations.search.query import Query
    from hermes.storage.records import Row, Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    turn: float = 1.0
    near: float = 1.0
    wide: float = 0.7
    session: float = 0.5
    coverage: float = 0.5
    together: float = 0.15
    speaker: float = 0.3
    phrase: float = 0.5
    title: float = 1.0
    date: float = 0.8
    asks: float = -0.25
    answers: float = 0.3
    assistant: float = 0.5
    user: float = 0.4
    rule: float = 0.8
    pair: float = 0.9
    saturation: float = 1.2
    length: float = 0.4
    near_span: tuple[int, int] = (2, 1)
    wide_span: tuple[int, int] = (3, 3)
    short_turn: float = 60.0
    silent: float = 0.5


@dataclass(slots=True)
class Candidate:
    """What was seen in one message: how often each word of the query, and how they stand together."""

    id: int
    session: int
    place: int
    counts: dict[int, int]
    length: int
    together: float = 0.0
    phrases: float = 0.0
    named: frozenset[int] = frozenset()
    asks: bool = False
    answers: float = 0.0
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
    """Lengths in words that a message and a session have on average, and how rare each word of the query is."""

    message_length: float
    session_length: float
    rarity: tuple[float, ...]
    session_lengths: dict[int, float]


def rank(candidates: list[Candidate], statistics: Statistics, weights: Weights) -> list[Candidate]:
    """Sets `score` and `parts` of every candidate and returns them best first."""
    if not candidates:
        return []
    sessions: dict[int, dict[int, Candidate]] = defaultdict(dict)
    for candidate in candidates:
        sessions[candidate.session][candidate.place] = candidate
    signals = _Signals(statistics, weights)
    for session, members in sessions.items():
        signals.weigh_session(session, members)
    signals.combine(candidates)
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


def confidence(ranked: list[Candidate], statistics: Statistics) -> float:
    """How much of what was asked stands in one of the first hits or beside it: the share of the words by rarity.

    Names of speakers count as found: who speaks is known of every message.
    """
    rarity = statistics.rarity
    at = {(each.session, each.place): each.counts.keys() for each in ranked}
    names = frozenset[int]().union(*(each.named for each in ranked))
    best = 0.0
    for hit in ranked[:_FIRST]:
        held = names.union(*(at.get((hit.session, hit.place + step), ()) for step in (-1, 0, 1)))
        best = max(best, sum([rarity[unit] for unit in held]))
    return best / (sum(rarity) or 1.0)


def expected_confidence(statistics: Statistics) -> float:
    """Below this, hits are weak. Long messages hold many words of any question by chance, so more is expected there.

    Calibrated so that about three in a hundred questions with an answer fall below it.
    """
    return 0.22 + 0.21 * min(1.0, max(0.0, (statistics.message_length - 30) / 120))


_FIRST = 5
_STRATA = 4
_POOL = 3  # times as many as are shown are spread over time
_AROUND = ((2, 0.3), (4, 0.15))  # places away, and how much what stands there counts: a topic is a thread of turns


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
            score
            + sum(
                share / 2 * own.get((session, place + side), (0.0,))[0]
                for away, share in _AROUND
                for side in (-away, away)
            ),
            turns,
        )
        for (session, place), (score, turns) in own.items()
    }


class _Signals:
    def __init__(self, statistics: Statistics, weights: Weights) -> None:
        self._statistics = statistics
        self._weights = weights
        self._total_rarity = sum(statistics.rarity) or 1.0

    def weigh_session(self, session: int, members: dict[int, Candidate]) -> None:
        weights, average, rarity = self._weights, self._statistics.message_length, self._statistics.rarity
        whole: dict[int, int] = {}
        for candidate in members.values():
            for unit, count in candidate.counts.items():
                whole[unit] = whole.get(unit, 0) + count
        length = self._statistics.session_lengths.get(session, self._statistics.session_length)
        session_score = self._bm25(whole, length, self._statistics.session_length)
        for place, candidate in members.items():
            parts, counts = candidate.parts, candidate.counts
            parts["turn"] = self._bm25(counts, candidate.length, average)
            parts["near"] = self._window(members, place, weights.near_span)
            parts["wide"] = self._window(members, place, weights.wide_span)
            parts["session"] = session_score
            own = sum([rarity[unit] for unit in counts])
            other = members.get(place - 1) if candidate.reply else None
            both = sum([rarity[unit] for unit in counts.keys() | other.counts.keys()]) if other else own
            parts["coverage"] = ((own + weights.pair * (both - own)) / self._total_rarity) ** 2
            parts["together"] = candidate.together
            parts["phrase"] = candidate.phrases

    def _window(self, members: dict[int, Candidate], place: int, span: tuple[int, int]) -> float:
        average = self._statistics.message_length
        first = max(0, place - span[0])
        size = place + span[1] + 1 - first
        counts: dict[int, int] = {}
        found = [members[at] for at in range(first, first + size) if at in members]
        length = (size - len(found)) * average
        for neighbour in found:
            length += neighbour.length
            for unit, count in neighbour.counts.items():
                counts[unit] = counts.get(unit, 0) + count
        return self._bm25(counts, length, average * (span[0] + span[1] + 1))

    def _bm25(self, counts: dict[int, int], length: float, average: float) -> float:
        if not counts:
            return 0.0
        k, b = self._weights.saturation, self._weights.length
        norm = k * (1 - b + b * length / average)
        rarity, k = self._statistics.rarity, k + 1
        return sum([rarity[unit] * count * k / (count + norm) for unit, count in counts.items()])

    def bm25(self, *turns: Candidate) -> float:
        """Of one turn, or of several as one text."""
        counts: dict[int, int] = {}
        for turn in turns:
            for unit, count in turn.counts.items():
                counts[unit] = counts.get(unit, 0) + count
        length = sum([turn.length for turn in turns])
        return self._bm25(counts, length, self._statistics.message_length * len(turns))

    def combine(self, candidates: list[Candidate]) -> None:
        weights = self._weights
        best = {
            name: max([candidate.parts[name] for candidate in candidates]) or 1.0
            for name in ("turn", "near", "wide", "session")
        }
        for candidate in candidates:
            # A long turn says enough by itself; a short one is understood through its neighbours, and a reply that is
            # asked for through its question.
            lean = 1.0 if candidate.role == "assistant" else min(1.0, weights.short_turn / max(1.0, candidate.length))
            if not candidate.counts and self._statistics.message_length > weights.short_turn:
                lean *= weights.silent  # among long turns, what says none of the words is seldom the answer
            parts = candidate.parts
            parts["turn"] *= weights.turn / best["turn"]
            parts["near"] *= weights.near * lean / best["near"]
            parts["wide"] *= weights.wide * lean / best["wide"]
            parts["session"] *= weights.session / best["session"]
            parts["coverage"] *= weights.coverage
            parts["together"] *= weights.together
            parts["phrase"] *= weights.phrase
            parts["speaker"] = weights.speaker if candidate.named else 0.0
            parts["asks"] = weights.asks if candidate.asks else 0.0
            parts["answers"] = weights.answers * candidate.answers
            parts["role"] = getattr(weights, candidate.role) if candidate.role else 0.0
            parts["rule"] = weights.rule * candidate.rule
            parts["date"] = weights.date * candidate.dated
            parts["title"] = weights.title * candidate.title
            candidate.score = sum(parts.values()) * candidate.factor
        # A rule is shown beside the answer, never in its place.
        first = max([candidate.score for candidate in candidates if not candidate.rule], default=math.inf)
        for candidate in candidates:
            if candidate.rule:
                candidate.score = min(candidate.score, max(candidate.score - candidate.parts["rule"], 0.999 * first))


# Reads what a candidate message says about a query: which words, how often, how close together, and who speaks.

_PREFERENCE = 0.4
_KEPT = 8_000_000  # characters of messages whose stems are kept
_LETTERS = 6  # in a word, about: for the length of a message whose words need not be known
_LONGEST_BETWEEN = 24
_SIDE_SOURCES = frozenset(("cron", "tool", "subagent"))


class Line:
    """What ranking needs of one message, kept between searches: its stems, and what their text looks like."""

    __slots__ = ("asks", "checksum", "length", "stems", "tells")

    def __init__(self, checksum: int, text: str) -> None:
        self.checksum = checksum
        self.stems: str | None = None  # " one  two ": each with its own spaces, so that neighbours can be counted
        self.length = len(text) // _LETTERS
        self.asks = text.rstrip(" \n\t\"'”)")[-1:] in ("?", "\uff1f")
        self.tells: dict[str, bool] = {}


class Lines:
    """The lines of messages that searches have looked at, up to a bounded amount of text."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self._known: dict[int, Line] = {}
        self._size = 0

    def of(self, row: Row, text: str) -> Line:
        known = self._known.get(row[0])
        if known is None or known.checksum != row[-1]:
            if self._size > _KEPT:
                self._known.clear()
                self._size = 0
            known = self._known[row[0]] = Line(row[-1], text)
            self._size += len(text)
        return known

    def stems(self, line: Line, text: str, calls: str | None) -> str:
        if line.stems is None:
            tokens = self.words.of(f"{text} {called(calls)}" if calls else text)
            line.stems = f" {'  '.join(tokens)} "
            line.length = len(tokens)
        return line.stems


class Reader:
    """Looks at messages with one query in mind."""

    def __init__(self, query: Query, lines: Lines, spans: Sequence[Span]) -> None:
        self._query = query
        self._lines = lines
        self._spans = spans
        self._needles = [
            (number, [f" {unit.stem}"] if unit.prefix else [f" {stem} " for stem in unit.stems])
            for number, unit in enumerate(query.units)
        ]
        self._number = {
            stem: number for number, unit in enumerate(query.units) if not unit.prefix for stem in unit.stems
        }
        self._held: dict[int, list[tuple[int, list[str]]]] = {}
        self._names: dict[str, frozenset[int]] = {}
        self._titles: dict[str, float] = {}

    def candidate(self, row: Row, session: Session, place: int, held: int = -1) -> Candidate:
        """`held` has a bit for each word that the index found in the message; -1 when it was not asked."""
        message_id, role, _, timestamp, content, name, calls, *_ = row
        text = readable(unpacked(content)) if content else ""
        line = self._lines.of(row, text)
        counts: dict[int, int] = {}
        together = phrases = 0.0
        if held:
            stems = self._lines.stems(line, text, calls)
            counts = self._counts(stems, held)
            together = self._together(stems, counts) if len(counts) > 1 else 0.0
            phrases = _phrases(stems, self._query.phrases) if self._query.phrases else 0.0
        return Candidate(
            id=message_id,
            session=session.key,
            place=place,
            counts=counts,
            length=line.length,
            named=self._name(name) if name else frozenset(),
            together=together,
            phrases=phrases,
            dated=max([max(span.fit(timestamp), span.fit(session.started_at)) for span in self._spans], default=0.0),
            title=self._title(session.title) if session.title else 0.0,
            reply=role == "assistant" and self._query.about != "user",
            asks=line.asks,
            answers=self._answers(line, text),
            spoken=role,
            role=role if role == self._query.about else "",
            rule=self._rule(line, text) if role == "user" and counts and self._query.question else 0.0,
            factor=(0.8 if role == "tool" else 1.0) * (0.7 if session.source in _SIDE_SOURCES else 1.0),
        )

    def _counts(self, stems: str, held: int) -> dict[int, int]:
        needles = self._held.get(held)
        if needles is None:
            needles = self._held[held] = [pair for pair in self._needles if held >> pair[0] & 1]
        counts: dict[int, int] = {}
        for number, forms in needles:
            if count := stems.count(forms[0]) if len(forms) == 1 else sum([stems.count(form) for form in forms]):
                counts[number] = count
        return counts

    def _together(self, stems: str, counts: dict[int, int]) -> float:
        """The share of neighbouring words of the query that also stand next to each other in the text, in order."""
        pairs = sum(
            any(_beside(stems, first, second) for first in self._needles[number][1] for second in following)
            for number in counts
            if number + 1 in counts and (following := self._needles[number + 1][1])
        )
        return pairs / max(1, len(self._query.units) - 1)

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

    def _title(self, title: str) -> float:
        known = self._titles.get(title)
        if known is None:
            found = {self._number[token] for token in self._lines.words.of(title) if token in self._number}
            known = self._titles[title] = len(found) / max(1, len(self._query.units))
        return known

    def _answers(self, line: Line, text: str) -> float:
        if self._query.asks_when and self._tells(line, "when", english.TELLS_WHEN, text):
            return 1.0
        many = self._query.asks_how_many and self._tells(line, "how many", english.TELLS_HOW_MANY, text)
        return 0.4 if many else 0.0

    def _rule(self, line: Line, text: str) -> float:
        """A standing rule belongs to every question on its topic, a preference to a wish for help."""
        if self._tells(line, "rule", english.STATES_RULE, text):
            return 1.0
        wish = self._query.wants_help and self._tells(line, "preference", english.STATES_PREFERENCE, text)
        return _PREFERENCE if wish else 0.0

    def _tells(self, line: Line, what: str, pattern: re.Pattern[str], text: str) -> bool:
        if what not in line.tells:
            line.tells[what] = pattern.search(text) is not None
        return line.tells[what]


def _beside(stems: str, first: str, second: str) -> bool:
    """Whether one stem stands before another, with at most one word between them."""
    at = stems.find(first)
    while at >= 0:
        end = at + len(first)
        to = stems.find(second, end, end + len(second) + _LONGEST_BETWEEN)
        if to >= 0 and stems.count("  ", end, to + 1) <= 1:
            return True
        at = stems.find(first, end)
    return False


def without_speakers(candidates: list[Candidate], units: int) -> None:
    """Takes speakers' names out of the counts: that Ann speaks is a sign of its own, and the other says "Hi Ann"."""
    names = frozenset().union(*(candidate.named for candidate in candidates))
    if not names or len(names) >= units:
        return
    for candidate in candidates:
        candidate.counts = {unit: count for unit, count in candidate.counts.items() if unit not in names}


def _phrases(stems: str, phrases: Sequence[tuple[str, ...]]) -> float:
    return sum(f" {'  '.join(phrase)} " in stems for phrase in phrases) / len(phrases)
