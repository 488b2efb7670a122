"""Looks up `begin*` as the words that begin so.

FTS5's own prefix search stems the beginning, as if it were a word, and walks every message that holds any longer one
before it returns the newest few: up to 50 ms at a million messages. Listing the words and asking for any of them takes
well under one.
"""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes.storage.database import Database
    from hermes.storage.text import Words

MOST_WORDS = 1000  # beyond that, asking for each word takes as long as walking the messages
_QUOTED = re.compile(r'"((?:[^"]|"")*)"(\*?)')
_LAST = "\U0010ffff"
# The index holds stems, and FTS5 stems what it is asked for once more: "decis" would become "deci". With one of these
# endings the word is stemmed to what is meant.
_FORMS = ("", "ing", "ed", "s", "e", "ion", "ly", "ness", "ment", "y")
# What a stem may have lost: "decisi" must reach "decision", which stands in the index as "decis".
_ENDINGS = re.findall(
    r"\w+",
    "able ably al ality ally ance ant ate ation ational ative ator ed ely ement ence ent er es est ful fully ible ical"
    " ied ies ing ion ism ist ity ive iveness ization ize izing ly ment ness ous s tion",
)
_AFTER_CHANGES = ("ing", "ed", "er", "est")  # "runn-ing" and "hop-ing" stand there as "run" and "hope"
_SHORTEST_STEM = 3
_LONGEST_ENDING = 6


class Beginnings:
    def __init__(self, database: Database, words: Words) -> None:
        self._database = database
        self._words = words
        self._listed: set[str] = set()
        self._spelled: dict[tuple[str, str], str] = {}

    def refresh(self) -> None:
        """Others may have written new words since the last search."""
        self._spelled.clear()

    def spelled_out(self, table: str, expression: str) -> str:
        """The expression with every `"begin"*` as the words of this table's index; as it was where that cannot be."""
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
        # A stem may differ from the beginning of its word, as in "happy": what was typed is asked for as a word, too.
        words = dict.fromkeys([*map(self._stemmed_to, cut), *cut, starts[0]])
        if len(found) <= MOST_WORDS:
            words |= dict.fromkeys(self._asked_as(found))
        listed = [f'"{word}"' for word in words]
        return f"({' OR '.join(listed if len(found) <= MOST_WORDS else [quoted[0], *listed])})"

    def _beginning(self, table: str, start: str) -> list[str]:
        if table not in self._listed:
            with self._database.lock, self._database.translated():
                self._database.connection.execute(
                    f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.words_of_{table}"
                    f" USING fts5vocab('main', '{table}', 'row')"
                )
            self._listed.add(table)
        listed = f"SELECT term FROM temp.words_of_{table} WHERE term >= ? AND term < ? LIMIT ?"  # noqa: S608 - our tables
        return [term for (term,) in self._database.rows(listed, (start, start + _LAST, MOST_WORDS + 1))]

    def _asked_as(self, terms: list[str]) -> list[str]:
        """What to ask for so that each of these stems is looked up."""
        again = self._words.of_searchable(" ".join(terms))
        return [
            term if term == stem else self._stemmed_to(term) for term, stem in zip_longest(terms, again, fillvalue="")
        ]

    def _stemmed_to(self, term: str) -> str:
        """A word that is stemmed to this; 200,000 made-up words had no stem without one."""
        return next((term + end for end in _FORMS if self._words.of_searchable(term + end) == [term]), term)


def _cut_stems(start: str) -> list[str]:
    """Stems that words with this beginning may have although they are shorter than it."""
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
