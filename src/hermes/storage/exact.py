"""Finds the messages that pass explicit syntax where the index alone cannot tell: phrases, beginnings and refusals.

Candidates are taken from the index as they are needed, the newest (or oldest) first, and looked at in chunks that grow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes.storage.evidence import Reader
from hermes.storage.postings import holding_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hermes.storage.postings import Postings
    from hermes.storage.query import Query
    from hermes.storage.reading import Transcripts
    from hermes.storage.syntax import Explicit
    from hermes.storage.text import Words

    Look = Callable[[list[int]], tuple[list[int], int]]  # from ids to those that pass, and what it cost

# Behind ENOUGH messages the search goes on only while nothing was found, and it ends when MOST is spent: 0.1 seconds.
ENOUGH, MOST = 3000, 30_000
# What reading a message for what was typed costs is one; for other forms of its words; and stemming it.
_OTHER_FORMS, _STEMMING = 2, 10


@dataclass(frozen=True, slots=True)
class Passed:
    ids: list[int]
    looked_at: int  # the first so many messages that hold the words
    all_of_them: bool


class ExactSearch:
    def __init__(self, postings: Postings, transcripts: Transcripts, words: Words) -> None:
        self._postings = postings
        self._transcripts = transcripts
        self._words = words

    def passing(self, query: Query, *, oldest: bool, most: int, allowed: Callable[[list[int]], list[int]]) -> Passed:
        """Messages that pass and are allowed, as typed if there are such and else in other forms, until enough."""
        explicit = query.explicit
        assert explicit is not None  # noqa: S101 - nothing else is looked for here
        if explicit.typed is not None:
            found = self._until_enough(query, self._as_typed(explicit), oldest=oldest, most=most, allowed=allowed)
            if found.ids:
                return found
        look = self._in_any_form(explicit, Reader(query, self._words, ()))
        return self._until_enough(query, look, oldest=oldest, most=most, allowed=allowed)

    def _until_enough(
        self, query: Query, look: Look, *, oldest: bool, most: int, allowed: Callable[[list[int]], list[int]]
    ) -> Passed:
        found: list[int] = []
        looked_at = spent = before = 0
        for ids in self._candidates(query, oldest=oldest):
            passed, cost = look(ids)
            found += allowed(passed)
            looked_at += len(ids)
            spent += cost
            if len(found) >= most or (looked_at >= ENOUGH and (found or spent >= MOST)):
                return Passed(found, looked_at, all_of_them=len(ids) < before)  # they grow until there are no more
            before = len(ids)
        return Passed(found, looked_at, all_of_them=True)

    def _candidates(self, query: Query, *, oldest: bool) -> Iterator[list[int]]:
        assert query.explicit is not None  # noqa: S101 - nothing else is looked for here
        if query.explicit.one_phrase:
            return holding_all(self._postings, query.units, oldest=oldest)
        return self._postings.in_order(query.explicit.finds, oldest=oldest)

    def _as_typed(self, explicit: Explicit) -> Look:
        assert explicit.typed is not None  # noqa: S101 - the caller has seen it
        stands_in = explicit.typed.search

        def look(ids: list[int]) -> tuple[list[int], int]:
            texts = self._transcripts.texts(ids)
            return [message_id for message_id, text in texts if stands_in(text.lower())], len(ids)

        return look

    def _in_any_form(self, explicit: Explicit, reader: Reader) -> Look:
        def look(ids: list[int]) -> tuple[list[int], int]:
            possible = [message_id for message_id, text in self._transcripts.texts(ids) if explicit.may_pass(text)]
            rows = self._transcripts.rows(possible)
            passed = [message_id for message_id, row in rows.items() if reader.passes(row)]
            return passed, len(ids) * _OTHER_FORMS + len(possible) * _STEMMING

        return look
