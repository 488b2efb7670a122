"""Reads the features of each candidate message and scores them: its words, its neighbours, its session.

Every signal is divided by the best value any candidate has, so that signals of different kinds can be added. The
weights are one configuration for every kind of conversation; what differs between a chat of short turns and a
transcript of long ones is read from the lengths, not from the data's name.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hermes.base import words as english
from hermes.storage.records import called, readable, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
    saturation: float = 1.2
    length: float = 0.4
    near_span: tuple[int, int] = (2, 1)
    wide_span: tuple[int, int] = (3, 3)
    short_turn: float = 60.0


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


def spread(ranked: list[Candidate], first: int = 10) -> list[Candidate]:
    """After the first hits, the best of every session not yet shown comes before more of the same sessions."""
    shown = {candidate.session for candidate in ranked[:first]}
    fresh: list[Candidate] = []
    more: list[Candidate] = []
    for candidate in ranked[first:]:
        (more if candidate.session in shown else fresh).append(candidate)
        shown.add(candidate.session)
    return ranked[:first] + fresh + more


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
            parts["coverage"] = (sum([rarity[unit] for unit in counts]) / self._total_rarity) ** 2
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

    def combine(self, candidates: list[Candidate]) -> None:
        weights = self._weights
        best = {
            name: max([candidate.parts[name] for candidate in candidates]) or 1.0
            for name in ("turn", "near", "wide", "session")
        }
        for candidate in candidates:
            # A long turn says enough by itself; a short one is understood through its neighbours.
            lean = min(1.0, weights.short_turn / max(1.0, candidate.length))
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
            parts["date"] = weights.date * candidate.dated
            parts["title"] = weights.title * candidate.title
            candidate.score = sum(parts.values()) * candidate.factor


# Reads what a candidate message says about a query: which words, how often, how close together, and who speaks.

_SIDE_SOURCES = frozenset(("cron", "tool", "subagent"))


class Reader:
    """Looks at messages with one query in mind."""

    def __init__(self, query: Query, words: Words, spans: Sequence[Span]) -> None:
        self._query = query
        self._words = words
        self._spans = spans
        self._number = {
            stem: number for number, unit in enumerate(query.units) if not unit.prefix for stem in unit.stems
        }
        self._stems = frozenset(self._number)
        self._prefixes = [(number, unit.stem) for number, unit in enumerate(query.units) if unit.prefix]
        self._names: dict[str, list[str]] = {}
        self._titles: dict[str, float] = {}

    def candidate(self, row: Row, session: Session, place: int) -> Candidate:
        message_id, role, _, timestamp, content, name, calls, *_ = row
        text = readable(unpacked(content)) if content else ""
        whole = f"{text} {called(calls)}" if calls else text
        tokens = self._words.of(whole)
        number = self._number
        present = self._stems.intersection(tokens)
        counts: dict[int, int] = {}
        for stem in present:
            counts[number[stem]] = counts.get(number[stem], 0) + tokens.count(stem)
        if self._prefixes:
            line = " ".join(["", *tokens])
            counts |= {unit: begun for unit, start in self._prefixes if (begun := line.count(f" {start}"))}
        named = frozenset(number[token] for token in self._name(name) if token in number) if name else frozenset()
        return Candidate(
            id=message_id,
            session=session.key,
            place=place,
            counts=counts,
            length=len(tokens),
            named=named,
            together=self._together(tokens, present) if len(present) > 1 else 0.0,
            phrases=_phrases(tokens, self._query.phrases) if self._query.phrases else 0.0,
            dated=max([max(span.fit(timestamp), span.fit(session.started_at)) for span in self._spans], default=0.0),
            title=self._title(session.title) if session.title else 0.0,
            asks=text.rstrip(" \n\t\"'”)")[-1:] in ("?", "\uff1f"),
            answers=self._answers(text),
            factor=(0.8 if role == "tool" else 1.0) * (0.7 if session.source in _SIDE_SOURCES else 1.0),
        )

    def _together(self, tokens: list[str], present: frozenset[str]) -> float:
        """The share of neighbouring words of the query that also stand next to each other in the text, in order."""
        places: dict[int, list[int]] = {}
        for stem in present:
            places.setdefault(self._number[stem], []).extend(_all_places(tokens, stem))
        pairs = 0
        for number, first in places.items():
            second = places.get(number + 1)
            if second and any(0 < to - at < 3 for at in first for to in second):  # noqa: PLR2004 - one word between
                pairs += 1
        return pairs / max(1, len(self._query.units) - 1)

    def passes(self, row: Row) -> bool:
        """Whether a message passes the test of explicit syntax: words in order, prefixes, and nothing refused."""
        explicit = self._query.explicit
        assert explicit is not None  # noqa: S101 - nothing else is tested
        content, name, calls = row[4:7]
        text = f"{readable(unpacked(content)) if content else ''} {called(calls)}"
        tokens = self._words.of(f"{name}: {text}" if name else text)
        return explicit.passes(" ".join(["", *tokens, ""]), text.lower())

    def _name(self, name: str) -> list[str]:
        known = self._names.get(name)
        if known is None:
            known = self._names[name] = self._words.of(name)
        return known

    def _title(self, title: str) -> float:
        known = self._titles.get(title)
        if known is None:
            found = {self._number[token] for token in self._words.of(title) if token in self._number}
            known = self._titles[title] = len(found) / max(1, len(self._query.units))
        return known

    def _answers(self, text: str) -> float:
        if self._query.asks_when and english.TELLS_WHEN.search(text):
            return 1.0
        return 0.4 if self._query.asks_how_many and english.TELLS_HOW_MANY.search(text) else 0.0


def _all_places(tokens: list[str], stem: str) -> Iterator[int]:
    at = -1
    for _ in range(tokens.count(stem)):
        at = tokens.index(stem, at + 1)
        yield at


def without_speakers(candidates: list[Candidate], units: int) -> None:
    """Takes speakers' names out of the counts: that Ann speaks is a sign of its own, and the other says "Hi Ann"."""
    names = frozenset().union(*(candidate.named for candidate in candidates))
    if not names or len(names) >= units:
        return
    for candidate in candidates:
        candidate.counts = {unit: count for unit, count in candidate.counts.items() if unit not in names}


def _phrases(tokens: list[str], phrases: Sequence[tuple[str, ...]]) -> float:
    line = " ".join(["", *tokens, ""])
    return sum(f" {' '.join(phrase)} " in line for phrase in phrases) / len(phrases)
