"""Reads what a candidate message says about a query: which words, how often, how close together, and who speaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.storage import english
from hermes.storage.ranking import Candidate
from hermes.storage.transcripts import called, readable, unpacked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes.storage.conversations import Session
    from hermes.storage.dates import Span
    from hermes.storage.query import Query
    from hermes.storage.text import Words
    from hermes.storage.transcripts import Row

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
        self._beginnings = [(number, unit.stem) for number, unit in enumerate(query.units) if unit.prefix]
        self._names: dict[str, list[str]] = {}
        self._titles: dict[str, float] = {}

    def candidate(self, row: Row, session: Session, place: int) -> Candidate:
        message_id, role, _, timestamp, content, name, calls, *_ = row
        text = readable(unpacked(content)) if content else ""
        whole = f"{text} {called(calls)}" if calls else text
        tokens = self._words.of(whole)
        number = self._number
        hits = [(at, number[token]) for at, token in enumerate(tokens) if token in number]
        for unit, beginning in self._beginnings:
            hits += [(at, unit) for at, token in enumerate(tokens) if token.startswith(beginning)]
        counts: dict[int, int] = {}
        for _, unit in hits:
            counts[unit] = counts.get(unit, 0) + 1
        named = frozenset(number[token] for token in self._name(name) if token in number) if name else frozenset()
        return Candidate(
            id=message_id,
            session=session.key,
            place=place,
            counts=counts,
            length=len(tokens),
            named=named,
            together=_together(hits, len(self._query.units)),
            phrases=_phrases(tokens, self._query.phrases),
            dated=max((max(span.fit(timestamp), span.fit(session.started_at)) for span in self._spans), default=0.0),
            title=self._title(session.title) if session.title else 0.0,
            asks=text.rstrip(" \n\t\"'”)")[-1:] in ("?", "\uff1f"),
            answers=self._answers(text),
            passes=self._passes(tokens, whole, name),
            factor=(0.8 if role == "tool" else 1.0) * (0.7 if session.source in _SIDE_SOURCES else 1.0),
        )

    def _passes(self, tokens: list[str], text: str, name: str | None) -> bool:
        if self._query.explicit is None:
            return True
        spoken = [*self._name(name), *tokens] if name else tokens
        return self._query.explicit.passes(" ".join(["", *spoken, ""]), text.lower())

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


def without_speakers(candidates: list[Candidate], units: int) -> None:
    """Takes speakers' names out of the counts: that Ann speaks is a sign of its own, and the other says "Hi Ann"."""
    names = frozenset().union(*(candidate.named for candidate in candidates))
    if not names or len(names) >= units:
        return
    for candidate in candidates:
        candidate.counts = {unit: count for unit, count in candidate.counts.items() if unit not in names}


def _together(hits: list[tuple[int, int]], units: int) -> float:
    """The share of neighbouring words of the query that also stand next to each other in the text, in order."""
    if units < 2 or len(hits) < 2:  # noqa: PLR2004 - a pair needs two
        return 0.0
    places: dict[int, set[int]] = {}
    for at, number in hits:
        places.setdefault(number, set()).add(at)
    pairs = 0
    for number in range(units - 1):
        first, second = places.get(number), places.get(number + 1)
        if first and second and any(at + 1 in second or at + 2 in second for at in first):
            pairs += 1
    return pairs / (units - 1)


def _phrases(tokens: list[str], phrases: Sequence[tuple[str, ...]]) -> float:
    if not phrases:
        return 0.0
    line = " ".join(["", *tokens, ""])
    return sum(f" {' '.join(phrase)} " in line for phrase in phrases) / len(phrases)
