"""Finds the messages that answer a query: candidates from the index, features from their text, one ranking."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any

from hermes.base.words import RULE_WORDS, Words, unspaced_runs
from hermes.conversations.search.candidates import (
    POOL,
    ExactSearch,
    Gathering,
    Spelling,
    best_of,
    newest_or_oldest,
    rarity,
    shortlist,
)
from hermes.conversations.search.postings import TABLES, Places, Postings
from hermes.conversations.search.query import Query, parse, plain
from hermes.conversations.search.ranking import (
    Candidate,
    Line,
    Lines,
    Reader,
    Statistics,
    Weights,
    confidence,
    cover,
    expected_confidence,
    rank,
    spread,
    without_speakers,
)
from hermes.conversations.search.reranker import RERANKED
from hermes.conversations.search.results import Excerpt, Filters, Hit, SearchResults, Snippets
from hermes.conversations.search.semantic import NEAREST, ONLY_NEAR, fuse
from hermes.storage.ports import SAID, TITLES
from hermes.storage.records import checksum, readable, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hermes.conversations.search.query import Unit
    from hermes.conversations.search.reranker import Reranking
    from hermes.conversations.search.semantic import Meaning, Nearness
    from hermes.storage.conversations import Conversations
    from hermes.storage.records import Row, Session

# Characters of text that are read to rank candidates: 20,000 instead of 45,000 takes a fifth off the CPU time of a
# search on LoCoMo and costs at most 0.4 points of recall. Coverage needs the whole history of a topic.
_READ, _READ_TO_COVER = 20_000, 1_000_000
# Messages that are read: at least for keywords, at least for a question, and at most.
_FEWEST, _FEWEST_OF_QUESTION, _MOST = 24, 96, 480
_CHUNK = 32  # messages read at once
_SPREAD = 16  # the best candidates whose neighbours are read, too
_MOST_FILTERED = 3000  # the newest (or oldest) matches from which a filter selects
_MOST_ALLOWED = 20_000  # candidates whose sessions are looked at for a filter
_LOOKED_AT_BY_TIME = 64
_SPARE = 10  # hits beyond those asked for, in case some turn out to be damaged
_LITERAL_ROWS = 2000  # the newest messages, which are read when no part of the query is in the index
_KEYWORD = 500  # the newest messages with keywords that become candidates
_MOST_RULES = 24  # messages that may state a rule; ranking reads them and finds those that do
_EXPECTED = 2  # suggestions for an unknown word that are looked up at once
_TITLED = 5  # the newest sessions whose title contains the words
# Of so many of the newest sessions, those that began at the time which the question names make candidates of about so
# many messages; a fitting time counts like half of the question's words.
_DATED_AMONG, _DATED, _DATE_SHARE = 2000, 160, 0.5
_FITS = 0.5  # a session is of that time if it fits better than this: not two weeks later, and not just the same year


class SearchEngine:
    """The whole path of a search: query, candidates, ranking, snippets."""

    def __init__(self, store: Conversations, meaning: Meaning, reranking: Reranking) -> None:
        self._store = store
        self._meaning = meaning
        self._reranking = reranking
        self._weights = Weights()
        self._places = Places(store.index)
        self._started: dict[int, float] = {}  # when sessions began, by key
        self._words = Words()
        self._lines = Lines(self._words)
        self._postings = Postings(store.index, self._places, self._words)
        self._exact = ExactSearch(self._postings, store, self._words)
        self._spelling = Spelling(store.index, self._words)

    def forget(self) -> None:
        """Drops what is known about messages, because some were deleted or taken back."""
        self._lines.forget()
        self._started.clear()

    def search(self, query: str, *, limit: int = 10, **filters: Any) -> SearchResults:
        """Hits for a question or for explicit syntax; `filters` are the fields of `Filters`."""
        if limit < 0:
            raise ValueError(f"limit is {limit}; it must not be negative")
        if not limit:
            return SearchResults()
        chosen = Filters(**filters)
        # Ids follow the order of use only within a session, so a sort by time looks at more messages than it shows.
        looked_at = limit if chosen.sort == "relevance" else max(limit, _LOOKED_AT_BY_TIME)
        now = time.time() if chosen.now is None else chosen.now
        parsed = parse(query, self._words, now)
        reranked = parsed.question and chosen.sort == "relevance" and self._reranking.is_on()
        wanted, limit = limit, max(limit, RERANKED) if reranked else limit
        results = self._found(query, parsed, chosen, looked_at, limit)
        if not results and parsed.explicit is not None:
            nothing = results.note or "nothing matches this exactly"
            parsed = plain(query, self._words, now, note=f"{nothing}, so it was searched as plain words")
            results = self._found(query, parsed, chosen, looked_at, limit)
        if not results:
            with self._store.reading():
                results = self._literal(query, chosen, limit)
            # An error in the syntax is reported even without a hit; words that no message contains need no note.
            results.note = parsed.note or (results.note if results or not parsed.units else "")
        results.searched = self._places.session_count
        if reranked and results.mode == "relevance":  # no transaction is open while the service is asked
            self._reranking.reorder(query, results)
        del results[wanted:]
        return results

    def _found(self, text: str, query: Query, chosen: Filters, looked_at: int, limit: int) -> SearchResults:
        """The hits by words and, for a question or when no message holds the words, those nearest in meaning.

        The meaning is compared outside the transaction, because it writes vectors and may ask a service.
        """
        compares = bool(query.units) and query.explicit is None and chosen.sort == "relevance"
        near = self._meaning.near(text, filtered=chosen.narrow) if compares and query.question else None
        with self._store.reading():
            self._refresh(query, chosen)
            results = self._answer(query, chosen, looked_at, limit, near)
        if results or query.question or not compares:
            return results
        near = self._meaning.near(text, filtered=chosen.narrow)
        if near is not None:
            with self._store.reading():
                results = self._answer(query, chosen, looked_at, limit, near)
        return results

    def _refresh(self, query: Query, chosen: Filters) -> None:
        """Announces the coming lookups, so that a database server answers them in one round trip."""
        if not query.units or query.explicit is not None or chosen.sort != "relevance":
            return self._postings.refresh()
        matches = [unit.match for unit in query.units]
        titles = (TITLES, " AND ".join(matches), _TITLED)
        if not query.question:
            return self._postings.refresh(matching=[titles])
        counts = [(table, match) for table in TABLES for match in matches]
        return self._postings.refresh(counts, [titles, (SAID, _rule_about(query.units), _MOST_RULES)])

    def _answer(
        self, query: Query, chosen: Filters, looked_at: int, limit: int, nearness: Nearness | None
    ) -> SearchResults:
        if not query.units:
            return SearchResults()
        messages, words = self._store.index.totals()
        written = query.units
        query, scores, gathered, rules = self._candidates(query, chosen, messages, looked_at)
        average = max(1.0, words / max(1, messages))
        lines, sessions = self._read(scores, query, chosen, looked_at, average)
        if lines and not query.question:
            nearness = None  # keywords, or words that are all common, find what holds them
        if nearness is not None:
            self._add_near(nearness, chosen, lines, sessions)
        reader = Reader(query, self._words)
        where, place, bits = (
            self._places.sessions_of(lines),
            self._places.place,
            gathered.bits if gathered else _unknown,
        )
        candidates = [reader.candidate(i, line, sessions[where[i]], place(i), bits(i)) for i, line in lines.items()]
        candidates = [each for each in candidates if each.held or not each.line.looks_back]
        without_speakers(candidates, len(query.units))
        if chosen.sort != "relevance":
            # What passed a test holds what was asked for, even where its words are not counted: "happy*" in "happily".
            found = candidates if query.explicit is not None else [each for each in candidates if each.held]
            candidates = _by_time(found, sessions, chosen)[: limit + _SPARE]
        rarities = (
            gathered.rarities if gathered else [unit.weight * rarity(messages / 100, messages) for unit in query.units]
        )
        in_pairs = 2 * sum(any(unspaced_runs(unit.written)) for unit in query.units) > len(query.units)
        statistics = Statistics(messages=messages, message_length=average, rarity=tuple(rarities))
        ranked = rank(candidates, statistics, self._weights, reader, rules=rules, in_pairs=in_pairs)
        if nearness is not None:
            ranked = fuse(ranked, nearness)
        ranked = self._ordered(ranked, sessions, query, chosen)
        wanted = query.coverage if chosen.mode == "auto" else chosen.mode == "coverage"
        covers = wanted and chosen.sort == "relevance" and query.explicit is None
        if covers:
            started = {key: session.started_at for key, session in sessions.items()}
            ranked = cover(ranked, statistics, self._weights, reader, started, mine=query.told_by_me)
        results = self._served(ranked, sessions, query=query, chosen=chosen, limit=limit)
        if gathered and query.question and chosen.sort == "relevance":
            results.confidence = round(confidence(ranked, statistics, gathered.guessed), 3)
            results.weak = results.confidence < expected_confidence(statistics, in_pairs=in_pairs)
        results.mode = "coverage" if covers else "relevance"
        results.variants = _variants(written, query.units)
        results.note = results.note or (ONLY_NEAR if results and not scores else self._meaning.note)
        return results

    def _candidates(
        self, query: Query, chosen: Filters, messages: int, limit: int
    ) -> tuple[Query, dict[int, float], Gathering | None, list[int]]:
        """Scores messages roughly by id, and replaces words that no message contains by what they may have meant.

        The last of the results are the messages that may state a rule.
        """
        if query.explicit is not None or chosen.sort != "relevance":
            found, note = self._in_order(query, chosen, limit)
            return dataclasses.replace(query, note=note or query.note), dict.fromkeys(found, 1.0), None, []
        newest = None if query.question else _MOST_ALLOWED if chosen.selective else max(_KEYWORD, 4 * limit)
        most = _MOST_ALLOWED if chosen.about_sessions else POOL
        gathered = Gathering(self._postings, query.units, messages, most=most, newest=newest)
        titled = list(self._by_title(query.units))
        unknown = [n for n, unit in enumerate(query.units) if not (gathered.frequency[n] or unit.prefix)]
        for number, meant in self._meant({number: query.units[number] for number in unknown}, titled).items():
            gathered.replace(number, meant)
        scores = gathered.best()
        rules = self._rules(query.units) if query.question else []
        # A fitting title or a standing rule need not share rare words with the question; this gets its message read.
        for message_id in (*titled, *rules):
            scores[message_id] = scores.get(message_id, 0.0) + 5.0
        for message_id, fit in self._dated(query).items():
            scores[message_id] = scores.get(message_id, 0.0) + _DATE_SHARE * fit * sum(gathered.rarities)
        asks = query.question and not gathered.common
        return dataclasses.replace(query, units=tuple(gathered.units), question=asks), scores, gathered, rules

    def _meant(self, unknown: dict[int, Unit], titled: list[int]) -> dict[int, Unit]:
        """What was probably meant by words that no message contains, and puts messages whose title has one in `titled`.

        Each step asks for all words at once, because each costs a round trip to a database server.
        """
        asked = list(unknown.values())
        self._postings.expect(unknown=asked, similar=[each for unit in asked for each in self._spelling.compared(unit)])
        for number, unit in list(unknown.items()):
            if named := list(self._by_title([unit])):
                titled += named
                del unknown[number]
        meant: dict[int, Unit] = {}
        for suggest in (self._spelling.longer, self._spelling.similar):
            suggested = {number: suggest(unit) for number, unit in unknown.items() if number not in meant}
            self._postings.expect([each.match for units in suggested.values() for each in units[:_EXPECTED]])
            for number, units in suggested.items():
                if (found := next(filter(self._occurs, units), None)) is not None:
                    meant[number] = found
        return dict(sorted(meant.items()))

    def _in_order(self, query: Query, chosen: Filters, limit: int) -> tuple[list[int], str | None]:
        """The matches of explicit syntax or of a sort by time, and a note if not all messages were looked at."""
        oldest = chosen.sort == "oldest"
        if query.explicit is None or query.explicit.exact:
            most = _MOST_FILTERED if chosen.narrow else max(24, 4 * limit)
            return newest_or_oldest(self._postings, query, oldest=oldest, limit=most), None
        passed = self._exact.passing(
            query, oldest=oldest, most=2 * limit, allowed=lambda ids: self._allowed_of(ids, chosen)
        )
        if len(passed.ids) >= limit or passed.all_of_them:
            return passed.ids, None
        looked_at = f"the {'oldest' if oldest else 'newest'} {passed.looked_at:,} messages that hold its words"
        other = "newest" if oldest else "oldest"
        if passed.ids:
            return passed.ids, f"only {looked_at} were looked at; sort by {other} to begin at the other end"
        return [], f"none of {looked_at} matches this exactly (sort by {other} to begin at the other end)"

    def _allowed_of(self, ids: list[int], chosen: Filters) -> list[int]:
        if not chosen.narrow or not ids:
            return ids
        rows = self._store.rows(ids)
        sessions = self._store.by_keys(list({self._places.session(message_id) for message_id in rows}))
        return [
            message_id
            for message_id, row in rows.items()
            if (session := sessions.get(self._places.session(message_id)))
            and chosen.allow(session)
            and chosen.allow_message(row[1], row[3], session)
        ]

    def _rules(self, units: Sequence[Unit]) -> list[int]:
        """The newest messages that may state a rule about a word of the question; most of them state none."""
        return self._postings.matching(SAID, _rule_about(units), _MOST_RULES)

    def _dated(self, query: Query) -> dict[int, float]:
        """Messages of the sessions that began at a time which the query names, and how well it fits.

        "What did we do last Friday?" shares no word with its answer.
        """
        if not query.times:
            return {}
        keys = self._places.newest_sessions(_DATED_AMONG)
        if missing := [key for key in keys if key not in self._started]:
            self._started |= {key: found.started_at for key, found in self._store.by_keys(missing).items()}
        fits = {
            key: max([span.fit(self._started[key]) for span in query.times]) for key in keys if key in self._started
        }
        dated: dict[int, float] = {}
        for key in sorted((key for key in fits if fits[key] > _FITS), key=lambda key: (-fits[key], -key)):
            dated |= dict.fromkeys(self._places.messages_of(key), fits[key])
            if len(dated) >= _DATED:
                break
        return dated

    def _occurs(self, unit: Any) -> bool:
        return any(self._postings.matching(table, unit.match, 1) for table in TABLES)

    def _by_title(self, units: Sequence[Any]) -> Iterator[int]:
        """First messages of the newest sessions whose title holds every word of the query."""
        for key in self._postings.matching(TITLES, " AND ".join(unit.match for unit in units), _TITLED):
            first = self._store.first_message(key)
            if first is not None:
                yield first

    def _read(
        self, scores: dict[int, float], query: Query, chosen: Filters, limit: int, average: float
    ) -> tuple[dict[int, Line], dict[int, Session]]:
        """Reads the most promising candidates and their neighbours, up to a bounded amount of text."""
        mine = self._allowed(scores, chosen)
        if query.question and chosen.sort == "relevance" and len(mine) > _FEWEST_OF_QUESTION:
            mine = shortlist(mine, self._postings, self._places, average)
        # Keywords name what they look for; the words of a question surround it, so more is read for a question.
        fewest = _FEWEST_OF_QUESTION if query.question else _FEWEST
        most = _MOST if query.question or chosen.selective else max(2 * limit, _FEWEST)
        order = best_of(mine, max(most, limit))
        if query.question and chosen.sort == "relevance":
            order = self._with_neighbours(order)
        where = self._places.sessions_of(order)
        lines: dict[int, Line] = {}
        read = 0
        for at in range(0, len(order), _CHUNK):
            # Ask a database server for everything that will be read: first a guess, then judged by the lengths seen.
            if at in (0, _CHUNK):
                ahead = self._lines.missing(order)[: int(_READ / max(1, read) * len(lines)) if at else _CHUNK]
                self._store.expect(ahead, list(set(where.values())))
            lines |= (found := self._lines.of(order[at : at + _CHUNK], self._store.rows))
            read += sum([line.size for line in found.values()])
            if read > (_READ_TO_COVER if query.coverage else _READ) and len(lines) >= max(limit, fewest):
                break
        sessions = self._store.by_keys(list({where[message_id] for message_id in lines}))
        return self._allowed_lines(lines, sessions, chosen), sessions

    def _allowed_lines(self, lines: dict[int, Line], sessions: dict[int, Session], chosen: Filters) -> dict[int, Line]:
        where, narrow = self._places.sessions_of(lines), chosen.narrow
        return {
            message_id: line
            for message_id, line in lines.items()
            if (found := sessions.get(where[message_id]))
            and (not narrow or chosen.allow_message(line.role, line.timestamp, found))
        }

    def _add_near(
        self, nearness: Nearness, chosen: Filters, lines: dict[int, Line], sessions: dict[int, Session]
    ) -> None:
        """Adds the messages nearest in meaning."""
        near = [message_id for message_id in self._allowed(nearness.nearest, chosen) if message_id not in lines]
        near = near[: 4 * NEAREST if chosen.narrow else NEAREST]  # filters by role and time refuse some of them
        found = self._lines.of(near, self._store.rows)
        sessions |= self._store.by_keys(list({self._places.session(message_id) for message_id in found}))
        lines |= self._allowed_lines(found, sessions, chosen)

    def _allowed(self, scores: dict[int, float], chosen: Filters) -> dict[int, float]:
        if not chosen.about_sessions:
            return scores  # a message of another owner has no session here, and is dropped when rows are read
        where = self._places.sessions_of(scores)
        keys = list(set(where.values()) - {0})
        allowed = {key for key, found in self._store.by_keys(keys).items() if chosen.allow(found)}
        return {message_id: score for message_id, score in scores.items() if where[message_id] in allowed}

    def _with_neighbours(self, order: list[int]) -> list[int]:
        """Adds the neighbours of the best candidates: an answer often stands next to the words that were asked for."""
        beside: dict[int, None] = {}
        for at, message_id in enumerate(order):
            beside[message_id] = None
            if at < _SPREAD:
                beside |= dict.fromkeys(self._places.neighbours(message_id, 2))
        return list(beside)

    def _ordered(
        self, ranked: list[Candidate], sessions: dict[int, Session], query: Query, chosen: Filters
    ) -> list[Candidate]:
        if chosen.sort != "relevance":
            return _by_time(ranked, sessions, chosen)
        if chosen.prefer_project is not None:
            for candidate in ranked:
                if sessions[candidate.session].project == chosen.prefer_project:
                    candidate.score *= 1.2
            ranked.sort(key=lambda candidate: (-candidate.score, -candidate.id))
        return ranked if query.explicit is not None else spread(ranked)

    def _served(
        self, ranked: list[Candidate], sessions: dict[int, Session], *, query: Query, chosen: Filters, limit: int
    ) -> SearchResults:
        results = SearchResults()
        results.note = query.note
        snippets = Snippets(query, self._words)
        for at in range(0, len(ranked), limit):
            some = ranked[at : at + limit]
            rows = self._store.rows([candidate.id for candidate in some])
            # An id may belong to another message now, for example after an undone import.
            if not all(map(self._lines.is_current, rows.values())):
                self._lines.forget()
            for candidate in some:
                row = rows.get(candidate.id)  # None if it was deleted or taken back after it was read
                if row is not None and checksum(row[:-1], candidate.session) != row[-1]:
                    self._store.mark_damaged(f"the checksum of message {row[0]} does not match its text")
                    results.note = "some messages are damaged and were left out; run `hermes sessions repair`"
                elif row is not None:
                    results.append(self._hit(candidate, row, sessions[candidate.session], snippets, chosen))
                if len(results) == limit:
                    return results
        return results

    def _hit(self, candidate: Candidate, row: Row, session: Session, snippets: Snippets, chosen: Filters) -> Hit:
        return Hit(
            session_id=session.id,
            message_id=candidate.id,
            role=row[1],
            score=candidate.score,
            timestamp=row[3],
            title=session.title,
            source=session.source,
            session=session,
            explanation=candidate.parts if chosen.explain else {},
            excerpt=Excerpt(row, snippets, chosen.mask),
        )

    def _literal(self, text: str, chosen: Filters, limit: int) -> SearchResults:
        """Looks for the text literally in the newest messages: punctuation and symbols are not in the index."""
        results = SearchResults()
        wanted = text.strip().lower()
        if not wanted or "\x00" in wanted or not wanted.isprintable():
            return results
        ids = self._places.newest(_LITERAL_ROWS)
        rows = {i: row for i, row in self._store.rows(ids).items() if row[4] and wanted in _text(row).lower()}
        sessions = self._store.by_keys(list({self._places.session(message_id) for message_id in rows}))
        query = Query(
            units=(), note=f"no word of it is indexed, so only the newest {_LITERAL_ROWS:,} messages were read"
        )
        found = [
            Candidate(i, self._places.session(i), 0, 0, Line(row, self._words))
            for i, row in rows.items()
            if (session := sessions.get(self._places.session(i)))
            and chosen.allow(session)
            and chosen.allow_message(row[1], row[3], session)
        ]
        return self._served(found, sessions, query=query, chosen=chosen, limit=limit)


def _unknown(_: int) -> None:
    """The words of a message that the index was not asked for."""


def _rule_about(units: Sequence[Unit]) -> str:
    rule, topic = (" OR ".join(words) for words in ([f'"{w}"' for w in RULE_WORDS], [u.match for u in units]))
    return f"({rule}) AND ({topic})"


def _variants(written: Sequence[Unit], looked_for: Sequence[Unit]) -> dict[str, tuple[str, ...]]:
    """Maps each word of the query to the other forms, or to the replacement, that were searched for."""
    variants: dict[str, tuple[str, ...]] = {}
    for word, unit in zip(written, looked_for, strict=True):
        if unit.written != word.written or unit.prefix != word.prefix:
            variants[word.written] = (f"{unit.written}*" if unit.prefix else unit.written,)
        elif unit.others:
            variants[word.written] = tuple(form for form, _ in unit.others)
    return variants


def _by_time(candidates: list[Candidate], sessions: dict[int, Session], chosen: Filters) -> list[Candidate]:
    """Sorts by the order of use, which does not depend on clocks; ids follow it only within a session."""
    order = {key: session.activity for key, session in sessions.items()}
    return sorted(candidates, key=lambda each: (order[each.session], each.id), reverse=chosen.sort == "newest")


def _text(row: Row) -> str:
    return readable(unpacked(row[4])) if row[4] else ""
