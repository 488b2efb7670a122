"""Makes the answers of `session_search`: recent conversations, matches, a window, or a whole conversation."""

from __future__ import annotations

import json
import operator
import os
import queue
import re
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hermes.base.claims import Said, names_in_value, superseded
from hermes.base.errors import NotFound
from hermes.base.text import day
from hermes.base.tokens import estimate
from hermes.conversations.database import Pages
from hermes.conversations.retrieval import (
    ANCHOR,
    HIDDEN_SOURCES,
    IN_SCROLL,
    SAID,
    Finder,
    message_excerpt,
    outside_origin,
    session_meta,
    truncate_around,
    unmasked,
    when,
)
from hermes.storage.records import called

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hermes.base.claims import Outdated
    from hermes.conversations.database import SessionDB
    from hermes.conversations.retrieval import Criteria, Found, Mask, Match
    from hermes.storage.records import Session, StoredMessage

# Of digests: requests at once, digests per search, seconds for all of them, characters of each transcript.
CONCURRENT, MOST, SECONDS, WIDTH = 3, 5, 90.0, 100_000


def summaries(
    transcripts: Mapping[str, str],
    query: str,
    summarise: Callable[[str], str],
    *,
    seconds: float = SECONDS,
    concurrent: int = CONCURRENT,
    most: int = MOST,
    width: int = WIDTH,
) -> dict[str, str]:
    """Asks for a summary of each transcript with respect to the query; returns, by session id, those made in time."""
    waiting: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
    chosen = list(transcripts.items())[:most]
    for session_id, text in chosen:
        waiting.put((session_id, prompt(text, query, width=width)))
    finished: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
    deadline = time.monotonic() + seconds
    for _ in range(min(concurrent, len(chosen))):
        # Daemon threads, so that a model that never answers does not keep the program from ending.
        threading.Thread(target=_work, args=(waiting, finished, summarise, deadline), daemon=True).start()
    made: dict[str, str] = {}
    for _ in chosen:
        try:
            session_id, text = finished.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        if text:
            made[session_id] = text
    return made


def prompt(transcript: str, query: str, *, width: int = WIDTH) -> str:
    """What a helper model is asked for a digest: the question and the part of a transcript around it."""
    with open(os.path.join(os.path.dirname(__file__), "text", "digest.md"), encoding="utf-8") as file:
        wording = file.read()
    around = truncate_around(transcript, query, width)
    return wording.replace("{query}", query).replace("{transcript}", around)


def _work(
    waiting: queue.SimpleQueue[tuple[str, str]],
    finished: queue.SimpleQueue[tuple[str, str]],
    summarise: Callable[[str], str],
    deadline: float,
) -> None:
    while time.monotonic() < deadline:
        try:
            session_id, text = waiting.get_nowait()
        except queue.Empty:
            return
        try:
            made = str(summarise(text) or "").strip()
        except Exception:  # noqa: BLE001 - a model client of any kind runs here; without a summary the messages stand
            made = ""
        finished.put((session_id, made))


_HIT, _BESIDE, _END, _SNIPPET = 600, 200, 120, 80  # characters of a hit, a turn next to it, a start or end, a snippet
# Hits shown with the turns next to them. With neighbours for three hits only, more hits fit: a wanted message is shown
# in 86.4 % of the answers on BEAM instead of 85.8.
_WITH_CONTEXT = 3
_ANSWER_TOKENS, _KEYS_TOKENS = 60, 30  # of the JSON around all results, and around each transcript
READ_FIRST, READ_LAST = 20, 10  # messages of a long conversation that is read as a whole
_LARGEST_ID = (1 << 63) - 1
_BROWSED_AT_ONCE = 20
_MONTH = 30 * 86_400.0  # a message later than this after its session began was probably stored afterwards
_BEST, _MOST_NAMES, _LOOKED_UP = 3, 4, 8  # hits whose names are searched, names, newer messages that are compared
# A question about the past is also answered with outdated statements.
_ABOUT_THE_PAST = re.compile(
    r"\b(?:previous(?:ly)?|former(?:ly)?|used to|(?:my|our|the|your) old|originally|initially|earlier|history|before|"
    r"changed?|switched|until|over time)\b"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Helpers:
    """What a helper model adds: digests of conversations, and rewordings of the question. None switches one off."""

    summarise: Callable[[str], str] | None = None
    expand: Callable[[str], Iterable[str]] | None = None


WEAK = "weak: the best of these hold little of what was asked; they may be about something else"


@dataclass(frozen=True, slots=True)
class _Turn:
    """A message as one line of the transcript in an answer."""

    message: StoredMessage
    session: Session
    text: str

    @property
    def when(self) -> float:
        """When it was said: the session's time if the message was stored much later and brought no time of its own."""
        late = self.message.timestamp - self.session.started_at > _MONTH and "timestamp" not in self.message.message
        return self.session.started_at if late else self.message.timestamp

    @property
    def tokens(self) -> int:
        """What this line costs of the budget."""
        return estimate(self.text) + 2  # a line break and what JSON adds to it


def _said(turn: _Turn) -> Said:
    """A turn as a statement; text from outside does not count as the person's, so it supersedes nothing."""
    return Said(
        key=turn.message.id,
        conversation=turn.session.key,
        text=turn.text.partition(": ")[2],
        at=(turn.when, turn.session.started_at),
        mine=turn.message.role == "user" and not outside_origin(turn.message),
    )


def _short_snippet(snippet: str) -> str:
    """Cuts a snippet to the first word found: the transcript shows the text, so the snippet can be short."""
    if len(snippet) <= _SNIPPET:
        return snippet
    start = max(0, min(snippet.find(">>>") - _SNIPPET // 4, len(snippet) - _SNIPPET))
    cut = snippet[start : start + _SNIPPET]
    cut = cut[: cut.rfind(">>>")] if cut.count(">>>") > cut.count("<<<") else cut
    return f"{'…' if start else ''}{cut.strip()}…"


class SessionSearch:
    """Searches one owner's conversations on behalf of the session `current`, if there is one."""

    def __init__(
        self,
        db: SessionDB,
        *,
        current: str | None = None,
        mask: Mask = unmasked,
        now: Callable[[], float] = time.time,
        helpers: Helpers | None = None,
    ) -> None:
        self._db = db
        self._pages = Pages.of_db(db)
        self._hidden = db.never_recalled()
        self._finder = Finder(db, mask=mask, current=current, now=now, hidden=self._hidden)
        self._mask = mask
        self._helpers = helpers or Helpers()
        self.origin = ""  # the origin of the first text from outside that an answer showed; "" if none

    def browse(self, wanted: Criteria) -> dict[str, Any]:
        """The most recently used conversations, without the current one."""
        rows: list[Session] = []
        offset = 0
        while len(rows) < wanted.limit:
            page = self._db.list_sessions(
                limit=_BROWSED_AT_ONCE, offset=offset, source=wanted.source, project=wanted.project
            )
            rows += [session for session in page if self._is_browsed(session, wanted)]
            offset += len(page)
            if len(page) < _BROWSED_AT_ONCE:
                break
        results = [self._browsed(session) for session in rows[: wanted.limit]]
        message = "Give a query to search, or a session_id to read one." if results else "There is nothing to list."
        return {"success": True, "mode": "browse", "results": results, "count": len(results), "message": message}

    def discover(self, query: str, wanted: Criteria) -> dict[str, Any]:
        """The conversations that answer a question, each with its hits, the turns next to them, start and end."""
        helpers = self._helpers
        found = (
            self._finder.find_expanded(query, wanted, helpers.expand)
            if helpers.expand
            else self._finder.find(query, wanted)
        )
        if wanted.sort == "relevance" and not found.coverage:
            found = self._with_successors(found, query, wanted)
        past = wanted.include_superseded or found.coverage or _ABOUT_THE_PAST.search(query) is not None
        results = self._results(found, query, wanted.budget, past=past)
        self._add_summaries(query, found, results)
        answer: dict[str, Any] = {
            "success": True,
            "mode": "coverage" if found.coverage else "discover",
            "query": query,
            "results": results,
            "count": len(results),
            "sessions_searched": found.searched,
        }
        if found.weak and results:
            answer["weak"] = True
            found = replace(found, notes=(*found.notes, WEAK))
        if found.variants and results:
            found = replace(found, notes=(*found.notes, f"also searched: {', '.join(found.variants)}"))
        if found.notes:
            answer["note"] = "; ".join(found.notes)
        if not results:
            answer["message"] = (
                "No past conversation matches. Try fewer or other words, or call without arguments to browse."
                if found.searched
                else "There are no past conversations."
            )
        return answer

    def scroll(self, session_id: str, message_id: int, window: int) -> dict[str, Any]:
        """The messages around a known one, whichever session of the conversation it is in."""
        holder = self._db.session_of(message_id) if 0 < message_id <= _LARGEST_ID else None
        named = holder if not session_id or (holder and holder.id == session_id) else self._session(session_id)
        if holder is None or named is None or holder.root != named.root:
            place = f"in session {session_id!r}" if session_id else "in any past conversation"
            raise NotFound(f"message {message_id} is not {place}; search again for a current id")
        if message_id in self._hidden:
            raise NotFound(f"the person keeps message {message_id} from recall")
        if not self._finder.is_out_of_context(holder, message_id):
            raise NotFound(f"message {message_id} is part of your context already; there is nothing older to fetch")
        found = self._pages.around(holder, message_id, window)
        messages = self._out_of_context(holder, found)
        before, after = self._pages.around_any(holder, found[0], found[-1])
        answer: dict[str, Any] = {
            "success": True,
            "mode": "scroll",
            "session_id": holder.id,
            "around_message_id": message_id,
            "session_meta": session_meta(holder, mask=self._mask),
            "window": window,
            "messages": [self._shown(m, message_id, IN_SCROLL, ANCHOR) for m in messages],
            "messages_before": before,
            "messages_after": after,
        }
        if holder.id != named.id:
            answer["warning"] = f"the message is in {holder.id}, another part of the same conversation"
        return answer

    def read(self, session_id: str) -> dict[str, Any]:
        """A whole session; of a long one, the first and the last messages."""
        session = self._session(session_id)
        messages = [message for message in self._readable(session) if message.id not in self._hidden]
        count = session.message_count if not self._is_current(session) else len(messages)
        cut = len(messages) > READ_FIRST + READ_LAST or count > len(messages)
        shown = messages if len(messages) <= READ_FIRST + READ_LAST else messages[:READ_FIRST] + messages[-READ_LAST:]
        answer: dict[str, Any] = {
            "success": True,
            "mode": "read",
            "session_id": session.id,
            "session_meta": session_meta(session, mask=self._mask),
            "message_count": count,
            "truncated": cut,
            "messages": [self._shown(message, None, IN_SCROLL, IN_SCROLL) for message in shown],
        }
        parts = [each.id for each in self._db.lineage(session.id) if each.kind != "delegate"]
        if len(parts) > 1:
            answer["lineage_session_ids"] = parts
        if cut:
            answer["message"] = (
                f"The first {READ_FIRST} and the last {READ_LAST} of {count} messages; "
                "give around_message_id to see what stands between."
            )
        return answer

    def _session(self, session_id: str) -> Session:
        session = self._db.resolve(session_id)
        if session is None:
            raise NotFound(f"there is no session {session_id!r}; search, or call without arguments to see recent ones")
        return session

    def _readable(self, session: Session) -> list[StoredMessage]:
        """At least the first and last messages of a session; of the current session, those that compactions removed."""
        if self._is_current(session):
            gone = [message for message in self._pages.messages(session) if message.compacted]
            if not gone:
                raise NotFound("this is the current session, and all of it is part of your context already")
            return gone
        if session.message_count <= READ_FIRST + READ_LAST:
            return self._db.messages(session.id)
        first = self._db.messages(session.id, limit=READ_FIRST)
        return first + self._db.messages(session.id, limit=READ_LAST, newest=True)

    def _is_current(self, session: Session) -> bool:
        return self._finder.current is not None and self._finder.current.id == session.id

    def _out_of_context(self, session: Session, messages: list[StoredMessage]) -> list[StoredMessage]:
        allowed = [message for message in messages if message.id not in self._hidden]
        return [message for message in allowed if message.compacted] if self._is_current(session) else allowed

    def _is_browsed(self, session: Session, wanted: Criteria) -> bool:
        current = self._finder.current
        if session.source in HIDDEN_SOURCES and wanted.source is None:
            return False
        return wanted.allow(session) and not (current and session.root == current.root)

    def _browsed(self, session: Session) -> dict[str, Any]:
        preview = self._db.root(session.id).preview if session.preview is None else session.preview
        return {
            "session_id": session.id,
            "title": self._mask(session.title) if session.title else None,
            "source": session.source,
            "started_at": session.started_at,
            "last_active": session.last_active,
            "when": when(session.last_active),
            "message_count": session.message_count,
            "preview": "" if self._preview_is_hidden(session) else self._mask(preview or ""),
            "project": session.project,
        }

    def _preview_is_hidden(self, session: Session) -> bool:
        """Whether the preview would show a message that the person keeps from recall."""
        first = self._db.bookends(session.id, 1)[0] if self._hidden else []
        return any(message.id in self._hidden for message in first)

    def _results(self, found: Found, query: str, budget: int, *, past: bool) -> list[dict[str, Any]]:
        """The conversations with as many of the best hits, and turns next to them, as fit into the budget."""
        results = {match.session.key: self._header(match) for match in found.matches}
        shown: dict[int, dict[int, _Turn]] = {}
        hits = [(rank, at, match) for match in found.matches for rank, at in match.hits]
        left = budget - _ANSWER_TOKENS
        for rank, at, match in sorted(hits, key=operator.itemgetter(0)):
            turns = shown.get(match.session.key, {})
            header = 0 if turns else estimate(json.dumps(results[match.session.key])) + _KEYS_TOKENS
            for beside in (1, 0) if rank < _WITH_CONTEXT else (0,):
                new = self._turns(match.session, at, beside, query, turns)
                cost = header + sum(turn.tokens - (turns[i].tokens if i in turns else 0) for i, turn in new.items())
                if cost <= left or (not shown and not beside):
                    shown.setdefault(match.session.key, {}).update(new)
                    left -= cost
                    break
        kept = [match for match in found.matches if match.session.key in shown or not match.hits]
        outdated = self._outdated(shown, query)
        days = {at: day(turn.when) for turns in shown.values() for at, turn in turns.items()} if outdated else {}
        for match in kept:
            turns = self._dated(shown.get(match.session.key, {}), outdated, days, past=past)
            result = results[match.session.key]
            left -= self._add_transcript(result, match.session, turns, left // len(kept))
            if match.message_id in outdated:
                result["superseded_by"] = outdated[match.message_id][0].by
                result["snippet"] = ""
        if found.coverage:  # a story is told in its order
            kept.sort(key=lambda match: match.session.started_at)
        else:  # what is current comes first
            kept.sort(key=lambda match: "superseded_by" in results[match.session.key])
        return [results[match.session.key] for match in kept]

    def _with_successors(self, found: Found, query: str, wanted: Criteria) -> Found:
        """Adds a later statement of the person that supersedes one of the best hits, found by the names in these hits.

        "Sold the Skoda, I've got a Renault" shares no word with "What car do I drive?".
        """
        best = [match for match in found.matches[:_BEST] if match.role == "user" and match.message_id is not None]
        old = [
            turn for match in best for turn in self._turns(match.session, match.message_id or 0, 0, query, {}).values()
        ]
        names = [name for turn in old for name in names_in_value(_said(turn).text, query)][:_MOST_NAMES]
        if not names:
            return found
        known = {at for match in found.matches for _, at in match.hits}
        asked = " OR ".join(f'"{name}"' for name in dict.fromkeys(names))
        for hit in self._db.search(asked, limit=_LOOKED_UP, **{**wanted.filters, "sort": "newest", "roles": ("user",)}):
            if hit.message_id in known or hit.message_id in self._hidden:
                continue
            if not self._finder.is_out_of_context(hit.session, hit.message_id):
                continue
            turns = self._turns(hit.session, hit.message_id, 0, query, {})
            said = [_said(turn) for turn in (*old, *turns.values())]
            if any(each.by == hit.message_id for gone in superseded(said, query).values() for each in gone):
                match = replace(best[0], session=hit.session, message_id=hit.message_id, snippet=hit.snippet)
                same = next((each for each in found.matches if each.session.key == hit.session.key), None)
                match = replace(same or match, hits=((0, hit.message_id), *(same.hits if same else ())))
                others = [each for each in found.matches if each is not same]
                return replace(found, matches=(match, *others)[: wanted.limit])
        return found

    def _outdated(self, shown: dict[int, dict[int, _Turn]], query: str) -> dict[int, list[Outdated]]:
        """The outdated sentences in the turns, each superseded by something newer that is shown as well."""
        turns = [turn for each in shown.values() for turn in each.values() if turn.message.role in SAID]
        return superseded([_said(turn) for turn in turns], query)

    def _dated(
        self, turns: dict[int, _Turn], outdated: dict[int, list[Outdated]], days: Mapping[int, str], *, past: bool
    ) -> dict[int, _Turn]:
        """Replaces each outdated sentence by its date; its words stay if the question may be about the past."""
        result = dict(turns)
        for at in turns.keys() & outdated.keys():
            text = turns[at].text
            for each in outdated[at]:
                told = f": {each.sentence}" if past or not each.sure else ""
                text = text.replace(each.sentence, f"[until {days[each.by]}, now #{each.by}{told}]")
            result[at] = replace(turns[at], text=text)
        return result

    def _header(self, match: Match) -> dict[str, Any]:
        session = match.session
        result: dict[str, Any] = {
            "session_id": session.id,
            **session_meta(session, mask=self._mask),
            "matched_role": match.role,
            "match_message_id": match.message_id,
            "snippet": _short_snippet(match.snippet),
        }
        parent = self._pages.parent_id(session)
        if parent:
            result["parent_session_id"] = parent
        if match.explanation:
            result["explanation"] = {name: round(value, 4) for name, value in match.explanation.items()}
        return result

    def _turns(self, session: Session, at: int, beside: int, query: str, known: dict[int, _Turn]) -> dict[int, _Turn]:
        """A hit and the turns next to it that are not shown yet; a turn shown as a neighbour becomes a hit."""
        found = self._out_of_context(session, self._pages.around(session, at, beside))
        return {
            message.id: _Turn(message, session, self._line(message, query, hit=message.id == at))
            for message in found
            if message.id == at or (message.role in SAID and message.text and message.id not in known)
        }

    def _line(self, message: StoredMessage, query: str, *, hit: bool) -> str:
        self.origin = self.origin or outside_origin(message)
        shown = message_excerpt(message, mask=self._mask, longest=_HIT if hit else _BESIDE, focus=query)
        text = " ".join(shown["content"].split()) or ("(damaged)" if message.damaged else "")
        if "tool_calls" in shown:
            text = f"{text} (calls {truncate_around(called(json.dumps(shown['tool_calls'])), query, _BESIDE)})".strip()
        who = shown.get("name") or shown.get("tool_name") or message.role
        return f"{'> ' if hit else ''}#{message.id} {who}: {text}"

    def _add_transcript(self, result: dict[str, Any], session: Session, turns: dict[int, _Turn], room: int) -> int:
        """Adds a conversation's turns to its result, and its start and end if there is room; returns their cost."""
        lines = [turns[at] for at in sorted(turns)]
        texts = [
            f"…\n{turn.text}" if before and turn.message.place > before.message.place + 1 else turn.text
            for before, turn in zip([None, *lines], lines, strict=False)
        ]
        before, after = self._pages.around_any(session, lines[0].message, lines[-1].message) if lines else (0, 0)
        start, end = self._ends(session, turns) if lines else ("", "")
        cost = estimate(start) + estimate(end)
        if cost > room:
            start = end = ""
            cost = 0
        result |= {
            "bookend_start": start,
            "messages": "\n".join(texts),
            "bookend_end": end,
            "messages_before": before,
            "messages_after": after,
        }
        return cost

    def _ends(self, session: Session, turns: dict[int, _Turn]) -> tuple[str, str]:
        first, last = (self._out_of_context(session, each) for each in self._db.bookends(session.id, 1))
        start, end = (
            [message_excerpt(m, mask=self._mask, longest=_END)["content"] for m in each if m.id not in turns]
            for each in (first, last)
        )
        return " ".join(start), " ".join(end)

    def _shown(
        self, message: StoredMessage, anchor: int | None, longest: int, longest_anchor: int, focus: str = ""
    ) -> dict[str, Any]:
        found = message.id == anchor
        self.origin = self.origin or outside_origin(message)
        return message_excerpt(
            message, mask=self._mask, longest=longest_anchor if found else longest, anchor=found, focus=focus
        )

    def _add_summaries(self, query: str, found: Found, results: list[dict[str, Any]]) -> None:
        """Adds the digests that the helper model made in time; the messages stay in the answer."""
        if self._helpers.summarise is None or not results:
            return
        texts = {match.session.id: self._transcript(match.session) for match in found.matches}
        made = summaries(texts, query, self._helpers.summarise)
        for result in results:
            if result["session_id"] in made:
                result["summary"] = made[result["session_id"]]

    def _transcript(self, session: Session) -> str:
        messages = self._out_of_context(session, list(self._pages.messages(session)))
        self.origin = self.origin or next(filter(None, map(outside_origin, messages)), "")
        return "\n\n".join(self._mask(f"[{message.role}] {message.text}") for message in messages if message.text)
