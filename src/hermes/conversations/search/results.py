"""What a search returns: filters, hits, and snippets that show why a message was found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from hermes.base.words import unspaced_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from hermes.base.words import Words
    from hermes.conversations.search.query import Query
    from hermes.storage.records import Row, Session


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
    session: Session = field(repr=False)
    explanation: dict[str, float] = field(default_factory=dict, repr=False)


class SearchResults(list[Hit]):
    """Hits, best first; `note` says what a person should know about how the query was understood.

    `mode` is "coverage" when hits are spread over the whole time of a topic instead of ranked by similarity alone.
    `confidence` is how much of a question its best hits hold, from 0 to 1; `weak` hits hold so little that they are
    likely to be about something else.
    """

    note: str | None = None
    mode: Literal["relevance", "coverage"] = "relevance"
    confidence: float = 1.0
    weak: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What narrows a search: all of them are about messages of the owner, and none of them widens it."""

    roles: Collection[str] | None = None
    sources: Collection[str] | None = None
    exclude_sources: Collection[str] = ()
    sessions: Collection[str] | None = None
    exclude_sessions: Collection[str] = ()
    since: float | None = None
    until: float | None = None
    project: str | None = None
    prefer_project: str | None = None
    sort: Literal["relevance", "newest", "oldest"] = "relevance"
    mode: Literal["auto", "relevance", "coverage"] = "auto"
    now: float | None = None
    explain: bool = False
    mask: Callable[[str], str] | None = None  # what a message goes through before a snippet is cut out of it

    @property
    def about_sessions(self) -> bool:
        return bool(
            self.sources is not None
            or self.exclude_sources
            or self.sessions is not None
            or self.exclude_sessions
            or self.project is not None
            or self.since is not None
            or self.until is not None
        )

    @property
    def narrow(self) -> bool:
        return self.about_sessions or self.roles is not None

    def allow(self, session: Session) -> bool:
        return (
            (self.sources is None or session.source in self.sources)
            and session.source not in self.exclude_sources
            and (self.sessions is None or session.id in self.sessions)
            and session.id not in self.exclude_sessions
            and (self.project is None or session.project == self.project)
        )

    def allow_row(self, row: Row, session: Session) -> bool:
        if self.roles is not None and row[1] not in self.roles:
            return False
        # A session that was imported has the right date; its messages may carry the time of the import.
        moments = (row[3], session.started_at)
        return (self.since is None or any(moment >= self.since for moment in moments)) and (
            self.until is None or any(moment <= self.until for moment in moments)
        )


BEFORE, WIDTH = 48, 240
_READ = 20_000


def snippet(text: str, query: Query, words: Words) -> str:
    """About `WIDTH` characters around the place where most of the query's words stand together."""
    text = text[:_READ]
    found = sorted(set(_places(text, query, words)))
    start = max(0, _best_start(found) - BEFORE)
    end = start + WIDTH
    if start > 0:
        start = text.find(" ", start, start + 20) + 1 or start
    if end < len(text):
        end = max(text.rfind(" ", start + 1, end + 1), end - 20)
    shown = _marked(text, start, end, [(first, last) for first, last, _ in found])
    return f"{'…' if start else ''}{shown.strip()}{'…' if end < len(text) else ''}"


def _places(text: str, query: Query, words: Words) -> Iterator[tuple[int, int, int]]:
    """(start, end, which word) in characters; pairs of unspaced script are looked for as they are written."""
    stems = {stem: number for number, unit in enumerate(query.units) if not unit.prefix for stem in unit.stems}
    beginnings = [(number, unit.stem) for number, unit in enumerate(query.units) if unit.prefix]
    data = text.encode("utf-8", "replace")
    plain = text.isascii()
    places = words.places(text)
    found = [(first, last, stems[token]) for first, last, token in places if token in stems]
    for number, beginning in beginnings:
        found += [(first, last, number) for first, last, token in places if token.startswith(beginning)]
    if plain:
        yield from found
    else:
        yield from (_in_characters(data, *place) for place in found)
        yield from _unspaced_places(text, query)


def _unspaced_places(text: str, query: Query) -> Iterator[tuple[int, int, int]]:
    wanted = [(unit.written, number) for number, unit in enumerate(query.units) if not unit.written.isascii()]
    for start, run in unspaced_runs(text):
        for written, number in wanted:
            at = run.find(written)
            while at >= 0:
                yield start + at, start + at + len(written), number
                at = run.find(written, at + 1)


def _in_characters(data: bytes, first: int, last: int, number: int) -> tuple[int, int, int]:
    start = len(data[:first].decode("utf-8", "ignore"))
    return start, start + len(data[first:last].decode("utf-8", "ignore")), number


def _best_start(found: list[tuple[int, int, int]]) -> int:
    best, most = 0, -1
    for at, (start, _, _) in enumerate(found):
        kinds = {number for first, _, number in found[at : at + 40] if first < start + WIDTH - BEFORE}
        if len(kinds) > most:
            best, most = start, len(kinds)
    return best


def _marked(text: str, start: int, end: int, found: list[tuple[int, int]]) -> str:
    pieces, at = [], start
    for first, last in _merged(found):
        if first >= at and last <= end:
            pieces += [text[at:first], ">>>", text[first:last], "<<<"]
            at = last
    return "".join([*pieces, text[at:end]])


def _merged(found: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Overlapping pairs of characters read as one stretch."""
    current: tuple[int, int] | None = None
    for first, last in found:
        if current is not None and first < current[1]:
            current = current[0], max(current[1], last)
            continue
        if current is not None:
            yield current
        current = first, last
    if current is not None:
        yield current
