"""Looks up which messages of one owner contain given words, within a bounded amount of work."""

from __future__ import annotations

import re
from array import array
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from hermes.storage.ports import SAID, TITLES, TOOLS
from hermes.storage.records import BLOCK, BLOCK_BITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hermes.base.words import Words
    from hermes.conversations.search.query import Unit
    from hermes.storage.ports import Index

MOST_WORDS = 1000  # beyond that, looking up each word takes as long as walking the messages
_QUOTED = re.compile(r'"((?:[^"]|"")*)"(\*?)')
_LAST = "\U0010ffff"
# The index contains stems, and FTS5 stems each word of a query again: "decis" would become "deci". With one of these
# endings added, the word is stemmed to the stem that is meant.
_FORMS = ("", "ing", "ed", "s", "e", "ion", "ly", "ness", "ment", "y")
# Endings that the stemmer removes: "decisi" must find "decision", which is "decis" in the index.
_ENDINGS = re.findall(
    r"\w+",
    "able ably al ality ally ance ant ate ation ational ative ator ed ely ement ence ent er es est ful fully ible ical"
    " ied ies ing ion ism ist ity ive iveness ization ize izing ly ment ness ous s tion",
)
_AFTER_CHANGES = ("ing", "ed", "er", "est")  # "runn-ing" and "hop-ing" are "run" and "hope" in the index
_SHORTEST_STEM = 3
_LONGEST_ENDING = 6


class Prefixes:
    """Expands `begin*` to the indexed words that start with it."""

    def __init__(self, index: Index, words: Words) -> None:
        self._index = index
        self._words = words
        self._spelled: dict[tuple[str, str], str] = {}

    def refresh(self) -> None:
        """Forgets the expansions: others may have written new words since the last search."""
        self._spelled.clear()

    def expanded(self, table: str, expression: str) -> str:
        """Expands each prefix query (`"begin"*`) to the indexed words that start with it, unless there are too many."""
        if '"*' not in expression:
            return expression
        if (table, expression) not in self._spelled:
            self._spelled[table, expression] = _QUOTED.sub(lambda quoted: self._instead(table, quoted), expression)
        return self._spelled[table, expression]

    def _instead(self, table: str, quoted: re.Match[str]) -> str:
        starts = self._words.unstemmed(quoted[1].replace('""', '"')) if quoted[2] else []
        if len(starts) != 1:
            return quoted[0]
        found, cut = self._beginning(table, starts[0]), _cut_stems(starts[0])
        # A stem may differ from the beginning of its word ("happi" for "happy"), so the typed text is looked up, too.
        words = dict.fromkeys([*map(self._stemmed_to, cut), *cut, starts[0]])
        if len(found) <= MOST_WORDS:
            words |= dict.fromkeys(self._asked_as(found))
        listed = [f'"{word}"' for word in words]
        return f"({' OR '.join(listed if len(found) <= MOST_WORDS else [quoted[0], *listed])})"

    def _beginning(self, table: str, start: str) -> list[str]:
        return self._index.words_from(table, start, start + _LAST, MOST_WORDS + 1)

    def _asked_as(self, terms: list[str]) -> list[str]:
        """Words to ask FTS5 for, so that it looks up each of these stems."""
        again = self._words.of_searchable(" ".join(terms))
        return [
            term if term == stem else self._stemmed_to(term) for term, stem in zip_longest(terms, again, fillvalue="")
        ]

    def _stemmed_to(self, term: str) -> str:
        """A word whose stem is `term`; each stem of 200,000 made-up words had one."""
        return next((term + end for end in _FORMS if self._words.of_searchable(term + end) == [term]), term)


def _cut_stems(start: str) -> list[str]:
    """Stems shorter than this beginning that words starting with it may have."""
    if not start.isascii():
        return []
    found: list[str] = []
    for size in range(max(_SHORTEST_STEM, len(start) - _LONGEST_ENDING), len(start)):
        stem, rest = start[:size], start[size:]
        if any(ending.startswith(rest) for ending in _ENDINGS):
            found.append(stem)
        if rest[0] == stem[-1] and any(ending.startswith(rest[1:]) for ending in _AFTER_CHANGES):
            found.append(stem)
        if any(ending.startswith(rest) for ending in _AFTER_CHANGES):
            found.append(stem + "e")
    return list(dict.fromkeys(found))


TABLES = (SAID, TOOLS)
_COMMON = 1000  # messages with a word; such counts are kept, because counting takes longest and changes least


class Places:
    """Maps blocks of message ids to the sessions of one owner, in memory; blocks of other owners have none."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._session = array("q", [0])
        self._first = array("q", [0])
        self._before = array("q", [0])  # the session's previous and next block, 0 for none
        self._after = array("q", [0])
        self._last_block: dict[int, int] = {}

    def refresh(self) -> None:
        """Reads the blocks of ids that were given out since the last search."""
        newest = self.newest_block
        rows = self._index.blocks_after(newest)
        if not rows:
            return
        missing = array("q", bytes(8 * (rows[-1][0] - newest)))
        for column in (self._session, self._first, self._before, self._after):
            column.extend(missing)
        for block, session, first in rows:
            if session:
                self._session[block] = session
                self._first[block] = first
                before = self._last_block.get(session, 0)
                self._before[block] = before
                self._after[before] = block
                self._last_block[session] = block

    def session(self, message_id: int) -> int:
        """The session's key, or 0 when the message is not the owner's."""
        block = message_id >> BLOCK_BITS
        return self._session[block] if block < len(self._session) else 0

    def sessions_of(self, message_ids: Iterable[int]) -> dict[int, int]:
        """The session's key for each of the messages, 0 for those that are not the owner's."""
        sessions, known = self._session, len(self._session)
        return {i: sessions[i >> BLOCK_BITS] if i >> BLOCK_BITS < known else 0 for i in message_ids}

    def place(self, message_id: int) -> int:
        """The position of a message in its session, counted from 0; places that follow each other are neighbours."""
        return self._first[message_id >> BLOCK_BITS] + (message_id & (BLOCK - 1))

    def neighbours(self, message_id: int, reach: int) -> list[int]:
        """Ids up to `reach` places before and after a message in its session; the last ones may not exist yet."""
        block, offset = message_id >> BLOCK_BITS, message_id & (BLOCK - 1)
        found = []
        for step in range(-reach, reach + 1):
            at = offset + step
            where = block if 0 <= at < BLOCK else self._before[block] if at < 0 else self._after[block]
            if step and where:
                found.append((where << BLOCK_BITS) + at % BLOCK)
        return found

    def newest(self, count: int) -> list[int]:
        """Ids of approximately the newest messages, newest first; some may not belong to a message yet."""
        found: list[int] = []
        for block in range(len(self._session) - 1, 0, -1):
            if self._session[block]:
                found += range((block << BLOCK_BITS) + BLOCK - 1, (block << BLOCK_BITS) - 1, -1)
            if len(found) >= count:
                break
        return found[:count]

    def newest_sessions(self, most: int) -> list[int]:
        """Keys of the sessions that were begun last."""
        return list(self._last_block)[-most:]

    def messages_of(self, session: int) -> list[int]:
        """Ids of the messages of a session; the last ones may not exist yet."""
        found: list[int] = []
        block = self._last_block.get(session, 0)
        while block:
            found += range(block << BLOCK_BITS, (block + 1) << BLOCK_BITS)
            block = self._before[block]
        return found

    @property
    def session_count(self) -> int:
        """How many sessions of the owner have messages."""
        return len(self._last_block)

    @property
    def newest_block(self) -> int:
        """The number of the newest known block of ids, of whichever owner."""
        return len(self._session) - 1

    @property
    def newest_id(self) -> int:
        """An upper bound of all message ids, which stands for the size of the whole store."""
        return len(self._session) << BLOCK_BITS


class Postings:
    """Which messages contain a word, read through the engine's index and cached."""

    def __init__(self, index: Index, places: Places, words: Words) -> None:
        self._index = index
        self._places = places
        self._prefixes = Prefixes(index, words)
        self._words = words
        self._counted: dict[tuple[str, str], tuple[int, int]] = {}

    def refresh(self, counts: Iterable[tuple[str, str]] = (), matching: Iterable[tuple[str, str, int]] = ()) -> None:
        """Takes in what others wrote since the last search; `counts` and `matching` are the lookups that follow."""
        self._prefixes.refresh()
        self._index.refresh()
        newest = self._places.newest_id
        counts = [each for each in counts if self._counted.get(each, (0, 0))[1] < newest]
        self._index.expect(after=self._places.newest_block, counts=_plain(counts), matching=_plain(matching))
        self._places.refresh()

    def expect(
        self,
        matches: Sequence[str] = (),
        unknown: Sequence[Unit] = (),
        similar: Iterable[tuple[str, str, str, int]] = (),
    ) -> None:
        """Announces the next lookups: messages of `matches`; longer, `similar` words and titles for `unknown` words."""
        # Prefixes are expanded only for an index that has use for what is announced.
        counts = ((table, self._prefixes.expanded(table, match)) for table in TABLES for match in matches)
        starts = {
            start
            for unit in unknown
            for word in (unit.written.lower(), unit.stem)
            for start in self._words.unstemmed(word)
        }
        words = [(table, start, start + _LAST, MOST_WORDS + 1) for table in TABLES for start in starts]
        words += similar
        titles = _plain([(TITLES, unit.match, 5) for unit in unknown])
        if matches or words or titles:
            self._index.expect(counts=counts, matching=titles, words=words)

    def matching(self, table: str, expression: str, limit: int) -> list[int]:
        """The newest messages of one index that match an expression."""
        return self._index.matching(table, self._prefixes.expanded(table, expression), limit)

    def in_order(self, expression: str, *, oldest: bool, first: int = 64, most: int = 1024) -> Iterator[list[int]]:
        """All matches in both indexes, in chunks that grow to `most`; a chunk is looked up when it is taken."""
        said, tools = (self._prefixes.expanded(table, expression) for table in TABLES)
        return self._index.in_order(said, tools, oldest=oldest, first=first, most=most)

    def first(self, expression: str, most: int, *, oldest: bool) -> list[int]:
        """The newest (or oldest) matches in both indexes, at most `most`."""
        return next(self.in_order(expression, oldest=oldest, first=most), [])

    def density(self, found: list[int], *, oldest: bool) -> float:
        """Estimates the share of all messages that contain a word, from the newest (or oldest) that do."""
        everything = max(1, self._places.newest_id)
        return len(found) / max(1, found[-1] if oldest else everything - found[-1])

    def share(self, messages: int) -> float:
        """The share that so many messages are of the whole store."""
        return messages / max(1, self._places.newest_id)

    def frequencies(self, table: str, matches: Sequence[str]) -> list[int]:
        """How many messages contain each word; a common word is counted again after the store has grown by a tenth."""
        newest = self._places.newest_id
        known = {match: self._counted.get((table, match), (0, 0)) for match in matches}
        counts = {match: count for match, (count, grown) in known.items() if newest <= grown}
        asked = [match for match in dict.fromkeys(matches) if match not in counts]
        expanded = [self._prefixes.expanded(table, match) for match in asked]
        for match, count in zip(asked, self._index.frequencies(table, expanded), strict=True):
            counts[match] = count
            if count >= _COMMON:
                self._counted[table, match] = (count, newest * 11 // 10)
        return [counts[match] for match in matches]

    def lengths(self, message_ids: list[int]) -> dict[int, int]:
        """How many words each of these messages has in the index of what was said."""
        return self._index.lengths(message_ids)


def _plain(asked: Iterable[Any]) -> list[Any]:
    """Leaves out prefix queries, which are expanded before they are looked up."""
    return [each for each in asked if '"*' not in each[1]]
