"""Weighs the evidence for each candidate message: its own words, its neighbours', its session's, and how they fit.

Every signal is divided by the best value any candidate has, so that signals of different kinds can be added. The
weights are one configuration for every kind of conversation; what differs between a chat of short turns and a
transcript of long ones is read from the lengths, not from the data's name.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field


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
    """Lengths in words that a message and a session have on average, and what each word of the query is worth."""

    message_length: float
    session_length: float
    worth: tuple[float, ...]
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
        self._total_worth = sum(statistics.worth) or 1.0

    def weigh_session(self, session: int, members: dict[int, Candidate]) -> None:
        weights, average, worth = self._weights, self._statistics.message_length, self._statistics.worth
        whole: dict[int, int] = {}
        for candidate in members.values():
            for unit, count in candidate.counts.items():
                whole[unit] = whole.get(unit, 0) + count
        length = self._statistics.session_lengths.get(session, self._statistics.session_length)
        session_score = self._bm25(whole, length, self._statistics.session_length)
        alone = len(members) == 1
        for place, candidate in members.items():
            parts, counts = candidate.parts, candidate.counts
            parts["turn"] = self._bm25(counts, candidate.length, average) if counts else 0.0
            parts["near"] = self._window(members, place, weights.near_span, alone=alone)
            parts["wide"] = self._window(members, place, weights.wide_span, alone=alone)
            parts["session"] = session_score
            parts["coverage"] = (sum([worth[unit] for unit in counts]) / self._total_worth) ** 2
            parts["together"] = candidate.together
            parts["phrase"] = candidate.phrases

    def _window(self, members: dict[int, Candidate], place: int, span: tuple[int, int], *, alone: bool) -> float:
        average = self._statistics.message_length
        first = max(0, place - span[0])
        size = place + span[1] + 1 - first
        if alone:
            candidate = members[place]
            length = candidate.length + (size - 1) * average
            return self._bm25(candidate.counts, length, average * (span[0] + span[1] + 1))
        counts: dict[int, int] = {}
        found = [members[at] for at in range(first, first + size) if at in members]
        length = (size - len(found)) * average
        for neighbour in found:
            length += neighbour.length
            if neighbour.counts:
                for unit, count in neighbour.counts.items():
                    counts[unit] = counts.get(unit, 0) + count
        return self._bm25(counts, length, average * (span[0] + span[1] + 1))

    def _bm25(self, counts: dict[int, int], length: float, average: float) -> float:
        if not counts:
            return 0.0
        k, b = self._weights.saturation, self._weights.length
        norm = k * (1 - b + b * length / average)
        worth, k = self._statistics.worth, k + 1
        return sum([worth[unit] * count * k / (count + norm) for unit, count in counts.items()])

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
