"""What a search returns: filters, hits, and snippets that show why a message was found."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from hermes.base.words import unspaced_runs
from hermes.storage.records import called, readable, unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from hermes.base.words import Words
    from hermes.conversations.search.query import Query
    from hermes.storage.records import Row, Session


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A message that was found, and how to show it."""

    row: Row
    snippets: Snippets
    mask: Callable[[str], str] | None

    def text(self) -> str:
        """The whole text of the message, or of its tool calls if it says nothing, with secrets masked."""
        content, calls = self.row[4], self.row[6]
        text = (readable(unpacked(content)) if content else "") or called(calls)
        return self.mask(text) if self.mask else text

    def cut(self) -> str:
        """The part of the text that shows why the message was found."""
        # Mask first and cut later: a cut inside a key would leave a part that no mask recognises.
        return self.snippets.of(self.text())


@dataclass(frozen=True, kw_only=True)
class Hit:
    """One message that a search found."""

    session_id: str
    message_id: int
    role: str
    score: float
    timestamp: float
    title: str | None
    source: str
    session: Session = field(repr=False)
    excerpt: Excerpt = field(repr=False, compare=False)
    explanation: dict[str, float] = field(default_factory=dict, repr=False)

    @cached_property
    def snippet(self) -> str:
        """The part of the text with the words, cut out on first use, because most hits are never shown."""
        return self.excerpt.cut()


class SearchResults(list[Hit]):
    """Hits, best first; `note` says what a person should know about how the query was understood.

    `mode` is "coverage" if hits are spread over a topic's whole history instead of ranked by similarity alone.
    `confidence` is how much of a question its best hits contain, from 0 to 1; `weak` hits contain so little that they
    are probably about something else. `searched` counts the sessions that have messages. `variants` are other forms
    that were searched as well as a word of the query, or instead of one that no message contains.
    """

    note: str | None = None
    mode: Literal["relevance", "coverage"] = "relevance"
    confidence: float = 1.0
    weak: bool = False
    searched: int = 0
    variants: Mapping[str, tuple[str, ...]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The filters of a search; every filter selects among the owner's messages, and none adds any."""

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
    mask: Callable[[str], str] | None = None  # takes the secrets out of a text before a snippet is cut

    @property
    def about_sessions(self) -> bool:
        """Whether a filter depends on the session of a message, which must then be looked up."""
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
        """Whether any filter applies."""
        return self.about_sessions or self.roles is not None

    @property
    def selective(self) -> bool:
        """Whether filters may reject most of the messages with the words, so that more must be looked at.

        A filter that allows the person and the assistant rejects almost nothing: they said nearly everything in the
        index. The web page and `session_search` always use that filter.
        """
        return self.about_sessions or not {"user", "assistant"}.issubset(self.roles or ("user", "assistant"))

    def allow(self, session: Session) -> bool:
        """Whether the messages of a session may be found at all; `allow_message` then checks role and time."""
        return (
            (self.sources is None or session.source in self.sources)
            and session.source not in self.exclude_sources
            and (self.sessions is None or session.id in self.sessions)
            and session.id not in self.exclude_sessions
            and (self.project is None or session.project == self.project)
        )

    def allow_message(self, role: str, timestamp: float, session: Session) -> bool:
        """Whether a message of an allowed session passes the filters by role and time."""
        if self.roles is not None and role not in self.roles:
            return False
        # A session that was imported has the right date; its messages may carry the time of the import.
        moments = (timestamp, session.started_at)
        return (self.since is None or any(moment >= self.since for moment in moments)) and (
            self.until is None or any(moment <= self.until for moment in moments)
        )


BEFORE, WIDTH = 48, 240  # characters before the first word, and of the whole snippet
_READ = 20_000  # characters of a message in which the best place is looked for


class Snippets:
    """Cuts out of a message the part that contains most of a query's words."""

    def __init__(self, query: Query, words: Words) -> None:
        self._words = words
        units = list(enumerate(query.units))
        self._stems = {stem: number for number, unit in units if not unit.prefix for stem in unit.stems}
        self._beginnings = [(number, unit.stem) for number, unit in units if unit.prefix]
        self._unspaced = {unit.written: number for number, unit in units if not unit.written.isascii()}

    def of(self, text: str) -> str:
        """About `WIDTH` characters, with the words marked."""
        text = text[:_READ]
        found = sorted(set(self._places(text)))
        start = max(0, _best_start(found) - BEFORE)
        end = start + WIDTH
        if start > 0:
            start = text.find(" ", start, start + 20) + 1 or start
        if end < len(text):
            end = max(text.rfind(" ", start + 1, end + 1), end - 20)
        shown = _marked(text, start, end, [(first, last) for first, last, _ in found if start <= first < end])
        return f"{'…' if start else ''}{shown.strip()}{'…' if end < len(text) else ''}"

    def _places(self, text: str) -> Iterator[tuple[int, int, int]]:
        """(start, end, number of the word) in characters; in scripts without spaces, pairs are searched as written."""
        stems = self._stems
        places = self._words.places(text)
        found = [(first, last, stems[token]) for first, last, token in places if token in stems]
        for number, beginning in self._beginnings:
            found += [(first, last, number) for first, last, token in places if token.startswith(beginning)]
        if text.isascii():
            yield from found
            return
        data = text.encode("utf-8", "replace")
        yield from (_in_characters(data, *place) for place in found)
        unspaced = self._unspaced
        for start, run in unspaced_runs(text) if unspaced else ():
            for at, sign in enumerate(run):
                for written in (run[at : at + 2], sign):
                    if written in unspaced:
                        yield start + at, start + at + len(written), unspaced[written]


def _in_characters(data: bytes, first: int, last: int, number: int) -> tuple[int, int, int]:
    start = len(data[:first].decode("utf-8", "ignore"))
    return start, start + len(data[first:last].decode("utf-8", "ignore")), number


def _best_start(found: list[tuple[int, int, int]]) -> int:
    """Where the part with most of the words begins, found by a window that slides over the places."""
    inside: dict[int, int] = {}
    best = most = end = 0
    for start, _, leaving in found:
        while end < len(found) and found[end][0] < start + WIDTH - BEFORE:
            inside[found[end][2]] = inside.get(found[end][2], 0) + 1
            end += 1
        if len(inside) > most:
            best, most = start, len(inside)
        inside[leaving] -= 1
        if not inside[leaving]:
            del inside[leaving]
    return best


def _marked(text: str, start: int, end: int, found: list[tuple[int, int]]) -> str:
    pieces, at = [], start
    for first, last in _merged(found):
        if first >= at and last <= end:
            pieces += [text[at:first], ">>>", text[first:last], "<<<"]
            at = last
    return "".join([*pieces, text[at:end]])


def _merged(found: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Joins overlapping pairs of characters, so that they are marked once."""
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
