"""Reads what a candidate message says about a query: which words, how often, how close together, and who speaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.storage import english
from hermes.storage.ranking import Candidate
from hermes.storage.transcripts import called, readable, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
        self._stems = frozenset(self._number)
        self._beginnings = [(number, unit.stem) for number, unit in enumerate(query.units) if unit.prefix]
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
        if self._beginnings:
            line = " ".join(["", *tokens])
            counts |= {unit: begun for unit, start in self._beginnings if (begun := line.count(f" {start}"))}
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
