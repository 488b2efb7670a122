"""What a search is asked for and what it gives back: filters, hits, and a list of hits with a note."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from hermes.storage.conversations import Session
    from hermes.storage.transcripts import Row


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
    """Hits, best first; `note` says what a person should know about how the query was understood."""

    note: str | None = None


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
