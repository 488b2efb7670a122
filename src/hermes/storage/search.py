"""Finds the messages that answer a query: candidates from the index, evidence from their text, one ranking.

The text of a hit is read, checked against its checksum and weighed before it is shown; a damaged row is left out and
the result says so.
"""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from hermes.storage.postings import TABLES, Places, Postings, gather, worth
from hermes.storage.query import Query, Unit, parse
from hermes.storage.ranking import Candidate, Statistics, Weights, rank
from hermes.storage.reading import Transcripts
from hermes.storage.snippets import snippet
from hermes.storage.text import Words, searchable
from hermes.storage.transcripts import Row, called, checksum, readable, unpacked

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from hermes.storage.conversations import Conversations, Session
    from hermes.storage.database import Database

_RESCORED = 256
_LITERAL_ROWS = 2000
_SIDE_SOURCES = frozenset(("cron", "tool", "subagent"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    session_id: str
    message_id: int
    role: str
    snippet: str
    score: float
    timestamp: float
    title: str | None
    source: str
    root_id: int = field(repr=False)
    explanation: dict[str, float] = field(default_factory=dict, repr=False)


class SearchResults(list[Hit]):
    """Hits, best first; `note` says what a person should know about how the query was understood."""

    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    roles: Collection[str] | None = None
    sources: Collection[str] | None = None
    exclude_sources: Collection[str] = ()
    exclude_roots: Collection[int] = ()
    sessions: Collection[str] | None = None
    since: float | None = None
    until: float | None = None
    project: str | None = None
    prefer_project: str | None = None
    sort: Literal["relevance", "newest", "oldest"] = "relevance"
    now: float | None = None
    explain: bool = False


class SearchEngine:
    def __init__(self, database: Database, owner: int, sessions: Conversations, weights: Weights | None = None) -> None:
        self._database = database
        self._owner = owner
        self._sessions = sessions
        self._weights = weights or Weights()
        self._transcripts = Transcripts(database, owner)
        self._places = Places(database, owner)
        self._postings = Postings(database, owner, self._places)
        self._words = Words(database.connection)

    def search(self, query: str, *, limit: int = 10, **filters: Any) -> SearchResults:
        chosen = Filters(**filters)
        parsed = parse(query, self._words)
        with self._database.lock:
            self._postings.refresh()
            candidates, rows, sessions, worths = self._evidence(parsed, chosen, limit)
            ranked = rank(candidates, self._statistics(worths, sessions), self._weights)
        if chosen.sort != "relevance":
            ranked.sort(key=lambda candidate: candidate.id, reverse=chosen.sort == "newest")
        results = SearchResults(
            self._hit(candidate, rows[candidate.id], sessions[candidate.session], parsed, chosen)
            for candidate in ranked[:limit]
        )
        results.note = parsed.note
        return results

    def _evidence(
        self, query: Query, chosen: Filters, limit: int
    ) -> tuple[list[Candidate], dict[int, Row], dict[int, Session], list[float]]:
        messages, _ = self._totals()
        tables = TABLES if chosen.roles is None or "tool" in chosen.roles else TABLES
        scores, frequency = gather(self._postings, tables, query.units, messages)
        worths = [worth(often, messages) for often in frequency]
        mine = {i: s for i, s in scores.items() if self._places.session(i)}
        keep = heapq.nlargest(max(_RESCORED, limit), mine, key=lambda i: (mine[i], i))
        rows = self._transcripts.rows(keep)
        sessions = self._sessions.by_keys(list({self._places.session(i) for i in rows}))
        candidates = []
        for message_id, row in rows.items():
            session = sessions.get(self._places.session(message_id))
            if session is None:
                continue
            candidate = self._candidate(row, session, query)
            if candidate is not None:
                candidates.append(candidate)
        return candidates, rows, sessions, worths

    def _candidate(self, row: Row, session: Session, query: Query) -> Candidate | None:
        message_id, role, _, _, content, name, calls, *_ = row
        text = readable(unpacked(content)) if content else ""
        if calls:
            text = f"{text} {called(calls)}"
        tokens = self._words.of(text)
        units = query.units
        wanted = {unit.stem: number for number, unit in enumerate(units) if not unit.prefix}
        hits = [(at, wanted[token]) for at, token in enumerate(tokens) if token in wanted]
        hits += [
            (at, number)
            for number, unit in enumerate(units)
            if unit.prefix
            for at, token in enumerate(tokens)
            if token.startswith(unit.stem)
        ]
        counts: dict[int, int] = {}
        for _, number in hits:
            counts[number] = counts.get(number, 0) + 1
        speaker = 0.0
        if name:
            for token in self._words.of(name):
                if token in wanted:
                    speaker = 1.0
                    counts.setdefault(wanted[token], 1)
        if not counts:
            return None
        return Candidate(
            id=message_id,
            session=session.key,
            place=self._places.place(message_id),
            counts=counts,
            length=len(tokens),
            together=_together(hits, len(units)),
            phrases=_phrases(tokens, query.phrases),
            speaker=speaker,
            factor=(0.8 if role == "tool" else 1.0) * (0.7 if session.source in _SIDE_SOURCES else 1.0),
        )

    def _statistics(self, worths: list[float], sessions: dict[int, Session]) -> Statistics:
        messages, words = self._totals()
        average = max(1.0, words / max(1, messages))
        lengths = {key: max(1, session.message_count) * average for key, session in sessions.items()}
        count = self._database.row("SELECT count(*) FROM sessions WHERE owner = ?", (self._owner,))[0]
        return Statistics(
            message_length=average,
            session_length=max(1.0, words / max(1, count)),
            worth=tuple(worths),
            session_lengths=lengths,
        )

    def _totals(self) -> tuple[int, int]:
        """Messages and words in the index of what was said, as FTS5 itself keeps them."""
        row = self._database.row("SELECT block FROM messages_fts_data WHERE id = 1")
        messages, at = _varint(row[0], 0) if row and row[0] else (0, 0)
        words, _ = _varint(row[0], at) if row and at < len(row[0]) else (0, 0)
        return messages, words

    def _hit(self, candidate: Candidate, row: Row, session: Session, query: Query, chosen: Filters) -> Hit:
        content, calls = row[4], row[6]
        text = readable(unpacked(content)) if content else ""
        return Hit(
            session_id=session.id,
            message_id=candidate.id,
            role=row[1],
            snippet=snippet(text or called(calls), query, self._words),
            score=candidate.score,
            timestamp=row[3],
            title=session.title,
            source=session.source,
            root_id=session.root,
            explanation=candidate.parts if chosen.explain else {},
        )


def _together(hits: list[tuple[int, int]], units: int) -> float:
    """How many neighbouring words of the query also stand next to each other in the text, in order."""
    if units < 2 or len(hits) < 2:
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


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for size in range(8):
        byte = data[at + size]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + size + 1
    return value << 8 | data[at + 8], at + 9
