"""Finds the conversations that answer a question, and cuts their messages to what a reader needs.

It never finds what the model still sees (the live messages of the current session), but it does find what compactions
removed from that context.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import apsw

from hermes.base.errors import StorageError
from hermes.base.text import change_texts, in_words
from hermes.base.words import STOP_WORDS, unspaced_runs
from hermes.storage.records import readable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from hermes.conversations.database import SessionDB
    from hermes.conversations.search.results import Hit, SearchResults
    from hermes.storage.records import Session, StoredMessage

    Mask = Callable[[str], str]

NEAR = 200  # characters; words within this distance count as near each other
_MOST_PLACES = 20_000  # of one word in one text, which bounds the time that a huge message takes
_MOST_TERMS = 32  # words of a query that are looked for in a text
_WORD = re.compile(r"\w+")


def truncate_around(text: str, query: str, width: int) -> str:
    """Cuts a text to the `width` characters around most of the query's words, with `…` where something is missing."""
    if len(text) <= width:
        return text
    places = match_places(text, query)
    start = _best_start(places, len(text), width)
    end = min(len(text), start + width)
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"


def match_places(text: str, query: str) -> list[int]:
    """Where the whole phrase occurs, else where all its words are near each other, else where any of them occurs."""
    phrase = " ".join(query.split()).strip("\"'?!.… ")
    if " " in phrase and (whole := _places(text, re.escape(phrase).replace(r"\ ", r"\s+"))):
        return whole
    by_term = [found for term in _terms(query) if (found := _places(text, re.escape(term)))]
    if len(by_term) > 1 and (together := _near_each_other(by_term)):
        return together
    return sorted(place for found in by_term for place in found)[:_MOST_PLACES]


def _best_start(places: list[int], length: int, width: int) -> int:
    """The start of the window that covers the most places; the earliest among equals."""
    if not places:
        return 0
    latest = length - width
    starts = [min(max(0, place - width // 4), latest) for place in places]
    covered = [bisect_left(places, start + width) - bisect_left(places, start) for start in starts]
    return starts[covered.index(max(covered))]


def _places(text: str, pattern: str) -> list[int]:
    found = []
    for match in re.finditer(pattern, text, re.IGNORECASE):
        found.append(match.start())
        if len(found) == _MOST_PLACES:
            break
    return found


def _near_each_other(by_term: list[list[int]]) -> list[int]:
    rarest = min(by_term, key=len)
    return [
        place
        for place in rarest
        if all(
            bisect_left(found, place - NEAR) < bisect_right(found, place + NEAR)
            for found in by_term
            if found is not rarest
        )
    ]


def _terms(query: str) -> list[str]:
    """The words of a query without stop words; text in scripts without spaces becomes pairs of characters."""
    words = [word for word in _WORD.findall(query) if word.lower() not in STOP_WORDS] or _WORD.findall(query)
    return list(dict.fromkeys(piece for word in words for piece in _pieces(word)))[:_MOST_TERMS]


def _pieces(word: str) -> Iterator[str]:
    if not any(unspaced_runs(word)):
        yield word
        return
    yield from ([word[at : at + 2] for at in range(len(word) - 1)] or [word])


# Messages as a model reads them in a result: whole if short, cut around the words found if long, with secrets masked.

# Characters of a message: in a window around a message, and of the message that the window is around.
IN_SCROLL, ANCHOR = 8_000, 24_000
_ARGUMENTS = 1_000  # characters of each text in the arguments of a tool call


def unmasked(text: str) -> str:
    """The mask for a reader who may see secrets: it changes nothing."""
    return text


def as_imported(message: Mapping[str, Any]) -> dict[str, Any]:
    """Marks an imported message as text from outside, whatever role it claims."""
    return dict(message) if message.get("outside") else {**message, "outside": "import"}


def as_reported(message: Mapping[str, Any]) -> dict[str, Any]:
    """Marks a message that a host's hook reports: the person's words are theirs, all else counts as from outside.

    Hermes does not see what the host's model has read.
    """
    return dict(message) if message.get("role") == "user" else as_imported(message)


def outside_origin(message: StoredMessage) -> str:
    """Where a stored message's text comes from, as recorded when it was stored; "" if it was said here."""
    known = message.message.get("outside")
    if isinstance(known, str):
        return known
    return "tool" if message.role == "tool" else "recall" if "compaction" in message.message else ""


def message_excerpt(
    message: StoredMessage, *, mask: Mask, longest: int, anchor: bool = False, focus: str = ""
) -> dict[str, Any]:
    """Cuts a message to `longest` characters, around the words of `focus` if given; `cut` counts those left out."""
    if message.damaged:
        shown: dict[str, Any] = {"id": message.id, "role": message.role, "content": "", "damaged": True}
        return {**shown, "timestamp": message.timestamp, **({"anchor": True} if anchor else {})}
    content = mask(readable(message.message.get("content")))
    result: dict[str, Any] = {
        "id": message.id,
        "role": message.role,
        "content": truncate_around(content, focus, longest) if focus else _cut(content, longest),
        "timestamp": message.timestamp,
    }
    name = message.message.get("tool_name") or message.message.get("name")
    if isinstance(name, str) and name:
        result["tool_name" if message.role == "tool" else "name"] = name
    if message.message.get("tool_calls"):
        result["tool_calls"] = change_texts(message.message["tool_calls"], lambda text: _cut(mask(text), _ARGUMENTS))
    if isinstance(message.message.get("tool_call_id"), str):
        result["tool_call_id"] = message.message["tool_call_id"]
    if len(content) > longest:
        result["cut"] = len(content) - longest
    if anchor:
        result["anchor"] = True
    return result


def session_meta(session: Session, *, mask: Mask) -> dict[str, Any]:
    """The fields of a session that a search result shows."""
    return {
        "when": when(session.started_at),
        "source": session.source,
        "model": session.model,
        "title": mask(session.title) if session.title else None,
        "project": session.project,
    }


def when(moment: float) -> str:
    """A time such as `May 03, 2024 at 02:10 PM`, in the time zone of this machine."""
    return in_words(moment, "%B %d, %Y at %I:%M %p")


def _cut(text: str, longest: int) -> str:
    """Keeps three quarters from the beginning and one from the end: a text ends with what came of it."""
    if len(text) <= longest:
        return text
    head = longest * 3 // 4
    return f"{text[:head]}\n… {len(text) - longest:,} characters left out …\n{text[len(text) - (longest - head) :]}"


Sort = Literal["relevance", "newest", "oldest"]
HIDDEN_SOURCES = ("subagent", "tool")  # found only when named as `source`
DEMOTED_SOURCES = ("cron",)  # listed after all others
SAID = ("user", "assistant")
_FIRST_LOOK, _LONGEST_LOOK = 16, 640  # hits; more are asked for until enough conversations are among them
_ENOUGH_HITS = 24  # hits after which the search stops, even if they are from few conversations
_FUSION = 60  # the usual constant of reciprocal rank fusion
_MOST_QUERIES = 5
_UP_TO_THE_ANSWER = 20  # messages after a person's, because tool calls and their results come before the answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    """How a search is filtered, ordered and shown; None filters nothing, and `budget` is in tokens."""

    limit: int = 3
    budget: int = 2_000
    sort: Sort = "relevance"
    roles: tuple[str, ...] | None = None
    since: float | None = None
    until: float | None = None
    source: str | None = None
    project: str | None = None
    prefer_project: str | None = None
    explain: bool = False
    include_superseded: bool = False  # also shows what newer statements of the person replaced

    def allow(self, session: Session) -> bool:
        """Whether a session as a whole passes the filters, for matches by title."""
        return (
            self.source in (None, session.source)
            and self.project in (None, session.project)
            and (self.since is None or session.last_active >= self.since)
            and (self.until is None or session.started_at <= self.until)
        )

    @property
    def filters(self) -> dict[str, Any]:
        """These criteria as arguments of `SessionDB.search`."""
        return {
            "sort": self.sort,
            "sources": None if self.source is None else (self.source,),
            "exclude_sources": HIDDEN_SOURCES if self.source is None else (),
            "since": self.since,
            "until": self.until,
            "project": self.project,
            "prefer_project": self.prefer_project,
            "explain": self.explain,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """One conversation and its best message; `message_id` is None if only the title was found.

    `hits` are the ranks and ids of all its messages that were found, including `message_id`.
    """

    session: Session
    message_id: int | None
    role: str
    snippet: str
    score: float = 0.0
    explanation: dict[str, float] = field(default_factory=dict)
    hits: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The conversations that a search found, and how sure the search is."""

    matches: tuple[Match, ...]
    searched: int
    weak: bool = False  # the matches are probably about something else
    coverage: bool = False  # chosen to cover a topic over time, not by similarity alone
    variants: tuple[str, ...] = ()  # what else was searched: other words, other questions
    notes: tuple[str, ...] = ()


class Finder:
    """Searches one store for a person or a model, with filters, one match per conversation, and secrets masked."""

    def __init__(
        self,
        db: SessionDB,
        *,
        mask: Mask,
        current: str | None = None,
        now: Callable[[], float] = time.time,
        hidden: frozenset[int] = frozenset(),
    ) -> None:
        """Searches on behalf of the session `current`; `mask` removes secrets, and `hidden` messages are not found."""
        self._db = db
        self._hidden = hidden
        self._mask = mask
        self._now = now
        self._current = db.find_session(current) if current else None

    @property
    def current(self) -> Session | None:
        """The session on whose behalf is searched; what its model still sees is never found."""
        return self._current

    def find(self, query: str, wanted: Criteria) -> Found:
        """The best conversations for one query, with notes about how they were found."""
        try:
            return self._find(query, wanted)
        except apsw.Error as error:
            raise StorageError(f"the search failed in the database ({error}); try other words") from error

    def find_expanded(self, query: str, wanted: Criteria, expand: Callable[[str], Iterable[str]]) -> Found:
        """Searches the question and rewordings of it, and merges the results; the question itself counts twice."""
        found = self.find(query, wanted)
        others = _other_queries(query, expand)
        if not others or wanted.sort != "relevance":
            return found
        more = [self.find(other, wanted) for other in others]
        matches = _merged([found.matches, found.matches, *(each.matches for each in more)])
        variants = (*others, *found.variants)
        return replace(found, matches=tuple(matches[: wanted.limit]), variants=variants)

    def _find(self, query: str, wanted: Criteria) -> Found:
        by_title = self._by_title(query, wanted)
        best, notes, found = self._by_message(query, wanted)
        if by_title is not None:
            root = by_title.session.root
            own = next((hit for hit in best if hit.session.root == root), None)
            if own is not None and own.session.id == by_title.session.id:
                said = _match(own, found)
                by_title = replace(by_title, message_id=own.message_id, explanation=said.explanation, hits=said.hits)
            best = [hit for hit in best if hit.session.root != root]
        matches = [by_title] if by_title is not None else []
        matches += [_match(hit, found) for hit in best[: wanted.limit]]  # a snippet costs as much as finding a hit
        if not matches:
            notes += self._left_out(query, wanted)
        return Found(
            matches=tuple(matches[: wanted.limit]),
            searched=found.searched,
            notes=tuple(notes),
            weak=found.weak and by_title is None,
            coverage=found.mode == "coverage",
            variants=tuple(form for forms in found.variants.values() for form in forms),
        )

    def _by_title(self, query: str, wanted: Criteria) -> Match | None:
        session = self._db.resolve(query.strip().strip('"'))
        if session is None or not wanted.allow(session) or self._is_current(session):
            return None
        first = self._db.messages(session.id, limit=1)
        return Match(
            session=session,
            message_id=first[0].id if first else None,
            role="session_title",
            snippet=self._mask(session.title or session.id),
            score=1.0,
        )

    def _by_message(self, query: str, wanted: Criteria) -> tuple[list[Hit], list[str], SearchResults]:
        roles = wanted.roles or SAID
        best, found = self._one_per_conversation(query, wanted, roles)
        notes = [found.note] if found.note else []
        if not best and wanted.roles is None:
            best, found = self._one_per_conversation(query, wanted, None)
            if best:
                notes.append("nothing that was said matches; these are from tool output and system messages")
        return best, notes, found

    def _one_per_conversation(
        self, query: str, wanted: Criteria, roles: tuple[str, ...] | None
    ) -> tuple[list[Hit], SearchResults]:
        """Takes the best hit of each conversation, and asks for more hits until there are enough conversations."""
        look = max(_FIRST_LOOK, 3 * wanted.limit)
        gather = self._glance
        while True:
            hits, exhausted = gather(query, wanted, roles, look)
            best: dict[int, Hit] = {}
            for hit in hits:
                best.setdefault(hit.session.root, hit)
            ordinary = [hit for hit in best.values() if hit.source not in DEMOTED_SOURCES]
            demoted = [hit for hit in best.values() if hit.source in DEMOTED_SOURCES]
            enough = len(ordinary) >= wanted.limit or len(hits) >= _ENOUGH_HITS
            if enough or exhausted or look >= _LONGEST_LOOK:
                return [*ordinary, *demoted], hits
            look *= 4
            gather = self._hits

    def _glance(
        self, query: str, wanted: Criteria, roles: tuple[str, ...] | None, look: int
    ) -> tuple[SearchResults, bool]:
        """Searches once and drops the hits that may not be shown: mostly enough, in a fifth of the time of `_hits`."""
        filters = {**wanted.filters, "exclude_sources": (), **self._for_all(roles)}
        found = self._db.search(query, limit=look, **filters)
        exhausted = len(found) < look
        found[:] = [
            hit
            for hit in found
            if (wanted.source is not None or hit.source not in HIDDEN_SOURCES)
            and hit.message_id not in self._hidden
            and self.is_out_of_context(hit.session, hit.message_id)
        ]
        return found, exhausted

    def _hits(
        self, query: str, wanted: Criteria, roles: tuple[str, ...] | None, look: int
    ) -> tuple[SearchResults, bool]:
        filters = {**wanted.filters, **self._for_all(roles)}
        if self._current is None:
            found = self._db.search(query, limit=look, **filters)
            exhausted = len(found) < look
            found[:] = [hit for hit in found if hit.message_id not in self._hidden]
            return found, exhausted
        away = self._db.search(query, limit=look, **filters, exclude_sessions=(self._current.id,))
        own = self._db.search(query, limit=look, **filters, sessions=(self._current.id,))
        exhausted = len(away) < look and len(own) < look
        compacted = [hit for hit in own if self.is_out_of_context(hit.session, hit.message_id)]
        away.note = away.note or own.note
        if compacted:
            away += compacted
            if wanted.sort == "relevance":
                away.sort(key=lambda hit: -hit.score)
            else:
                away.sort(key=lambda hit: hit.message_id, reverse=wanted.sort == "newest")
        away[:] = [hit for hit in away if hit.message_id not in self._hidden]
        return away, exhausted

    def _for_all(self, roles: tuple[str, ...] | None) -> dict[str, Any]:
        return {"roles": roles, "now": self._now(), "mask": self._mask}

    def is_out_of_context(self, session: Session, message_id: int) -> bool:
        """True unless the message is a live one of the current session."""
        if self._current is None or session.id != self._current.id:
            return True
        return any(
            message.compacted
            for message in self._db.messages(session.id, around=message_id, window=0)
            if message.id == message_id
        )

    def _is_current(self, session: Session) -> bool:
        return self._current is not None and session.root == self._current.root

    def _left_out(self, query: str, wanted: Criteria) -> list[str]:
        """Says where a match would have been, when only filters or hidden sources kept it away."""
        if wanted.source is None:
            side = self._db.search(query, limit=5, sources=HIDDEN_SOURCES)
            if side:
                names = ", ".join(sorted({hit.source for hit in side}))
                return [f"there are matches in sessions with source {names}; name it as source to see them"]
        narrowed = wanted.source or wanted.project or wanted.since is not None or wanted.until is not None
        if narrowed or wanted.roles:
            anywhere = self._db.search(query, limit=1)
            if anywhere and self.is_out_of_context(anywhere[0].session, anywhere[0].message_id):
                return ["there are matches outside of the filters (source, project, since, until, role_filter)"]
        return []


def answer_to(db: SessionDB, match: Match) -> StoredMessage | None:
    """The assistant's answer to a match; None if the match is not a person's message or got no answer."""
    if match.role != "user" or match.message_id is None:
        return None
    for message in db.messages(match.session.id, around=match.message_id, window=_UP_TO_THE_ANSWER):
        if message.id > match.message_id and message.role == "user":
            return None
        if message.id > match.message_id and message.role == "assistant" and message.text.strip():
            return message
    return None


def _match(hit: Hit, hits: list[Hit]) -> Match:
    ranked = enumerate(hits)
    return Match(
        hits=tuple((rank, each.message_id) for rank, each in ranked if each.session.key == hit.session.key),
        session=hit.session,
        message_id=hit.message_id,
        role=hit.role,
        snippet=hit.snippet,
        score=hit.score,
        explanation=hit.explanation,
    )


def _other_queries(query: str, expand: Callable[[str], Iterable[str]]) -> list[str]:
    try:
        proposed = [str(text).strip() for text in expand(query)]
    except Exception:  # noqa: BLE001 - a helper model's client runs here; without it the question alone is searched
        return []
    return [text for text in dict.fromkeys(proposed) if text and text != query][: _MOST_QUERIES - 1]


def _merged(rankings: list[tuple[Match, ...]]) -> list[Match]:
    """Merges rankings by reciprocal rank fusion; the first ranking with a conversation decides how it is shown."""
    points: dict[int, float] = {}
    shown: dict[int, Match] = {}
    for ranking in rankings:
        for place, match in enumerate(ranking):
            root = match.session.root
            shown.setdefault(root, match)
            points[root] = points.get(root, 0.0) + 1 / (_FUSION + place)
    return sorted(shown.values(), key=lambda match: -points[match.session.root])
