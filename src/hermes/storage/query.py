"""What a query asks for: the words of a question, or explicit syntax with phrases, AND, OR, NOT and prefix*.

A question is searched by its words, weighed later. Explicit syntax is followed when it parses; when it does not, the
same text is searched as plain words and the query says so. Nothing a person types is ever handed to FTS5 unquoted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes.storage.text import query_pieces

if TYPE_CHECKING:
    from hermes.storage.text import Words

LONGEST = 4096
MOST_WORDS = 64
# Words that ask or glue, in questions of any topic; they are dropped only when something else remains.
STOP_WORDS = frozenset(
    "a about am an and any are as at be been being but by can could d did do does doing don for from had has have having he"
    " her hers him his how i if in into is it its just ll m may me might mine my no not of on or our ours re s shall she"
    " should so some such t than that the their theirs them then there these they this those to too us ve was we were"
    " what when where which who whom whose why will with would you your yours ever say said tell please".split()
)
_OPERATORS = frozenset(("AND", "OR", "NOT"))
_LEXEME = re.compile(r'"([^"]*)"(\*?)|([()])|([^\s()"]+)')
_QUOTED = re.compile(r'["“„«]([^"“”„«»]{2,})["”»]')


@dataclass(frozen=True, slots=True)
class Unit:
    """One word to look up: as written (FTS5 stems it itself), its stem, and whether it may go on."""

    written: str
    stem: str
    prefix: bool = False
    stop: bool = False

    @property
    def match(self) -> str:
        quoted = '"' + self.written.replace('"', '""') + '"'
        return quoted + "*" if self.prefix else quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    units: tuple[Unit, ...]
    phrases: tuple[tuple[str, ...], ...] = ()
    expression: str | None = None
    prefixes: tuple[str, ...] = ()
    note: str | None = None


def parse(text: str, words: Words) -> Query:
    text = text[:LONGEST]
    if _looks_explicit(text):
        try:
            return _explicit(text, words)
        except _DoesNotParse as error:
            return _plain(text, words, note=f"searched as plain words, because {error}")
    return _plain(text, words, note=None)


def _plain(text: str, words: Words, *, note: str | None) -> Query:
    units: dict[str, Unit] = {}
    for written, stem, prefix in query_pieces(text, words):
        if stem not in units and len(units) < MOST_WORDS:
            units[stem] = Unit(written, stem, prefix, written.lower() in STOP_WORDS)
    phrases = [tuple(stem for _, stem, _ in query_pieces(quoted, words)) for quoted in _QUOTED.findall(text)]
    kept = [unit for unit in units.values() if not unit.stop] or list(units.values())
    return Query(units=tuple(kept), phrases=tuple(phrase for phrase in phrases if len(phrase) > 1), note=note)


def _looks_explicit(text: str) -> bool:
    """Operators count in capitals among other words; a text that is all capitals is somebody shouting."""
    lexemes = text.split()
    operators = [word for word in lexemes if word in _OPERATORS]
    others = [word for word in lexemes if word not in _OPERATORS]
    if operators and not all(word.isupper() for word in others if word.isascii() and word.isalpha() and len(word) > 1):
        return True
    if operators and len(lexemes) <= 2 * len(operators) + 1:
        return True
    if any(re.fullmatch(r"[\w.-]{2,}\*", word) for word in lexemes):
        return True
    return re.fullmatch(r'\s*("[^"]+"\s*)+', text) is not None


class _DoesNotParse(Exception):
    pass


def _explicit(text: str, words: Words) -> Query:
    parser = _Parser(_LEXEME.findall(text), words)
    expression = parser.alternatives()
    if parser.left:
        raise _DoesNotParse(f"{parser.left[0][2] or parser.left[0][3]!r} does not belong where it stands")
    if expression is None:
        raise _DoesNotParse("nothing in it can be looked up")
    return Query(
        units=tuple({unit.stem: unit for unit in parser.units}.values())[:MOST_WORDS],
        phrases=tuple(parser.phrases),
        expression=expression,
        prefixes=tuple(parser.prefixes),
    )


class _Parser:
    """alternatives := all (OR all)*;  all := part ((AND)? part)*;  part := NOT? atom  — the precedence FTS5 has."""

    def __init__(self, lexemes: list[tuple[str, str, str, str]], words: Words) -> None:
        self.left = lexemes
        self.units: list[Unit] = []
        self.phrases: list[tuple[str, ...]] = []
        self.prefixes: list[str] = []
        self._words = words
        self._denied = False
        self._depth = 0

    def alternatives(self) -> str | None:
        parts = [self._all()]
        while self._next_is("OR"):
            self.left.pop(0)
            parts.append(self._all(needed="OR"))
        kept = [part for part in parts if part]
        return f"({' OR '.join(kept)})" if kept else None

    def _all(self, needed: str | None = None) -> str | None:
        wanted: list[str] = []
        refused: list[str] = []
        seen = False
        while self.left and not self._next_is("OR") and self.left[0][2] != ")":
            joined = self._next_is("AND")
            if joined:
                if not seen:
                    raise _DoesNotParse("AND has nothing before it")
                self.left.pop(0)
            negative = self._next_is("NOT")
            if negative:
                self.left.pop(0)
            if not self.left or self._next_is("OR") or self._next_is("AND") or self.left[0][2] == ")":
                if joined or negative:
                    raise _DoesNotParse(f"{'NOT' if negative else 'AND'} has nothing after it")
                continue
            part = self._atom(denied=negative)
            seen = True
            if part:
                (refused if negative else wanted).append(part)
        if needed and not seen:
            raise _DoesNotParse(f"{needed} has nothing after it")
        if refused and not wanted:
            raise _DoesNotParse("NOT needs something it is taken away from")
        if not wanted:
            return None
        both = " AND ".join(wanted)
        return f"(({both}) NOT ({' OR '.join(refused)}))" if refused else f"({both})"

    def _atom(self, *, denied: bool) -> str | None:
        phrase, star, bracket, word = self.left.pop(0)
        if bracket == "(":
            return self._group(denied=denied)
        outer, self._denied = self._denied, self._denied or denied
        try:
            if word:
                return self._word(word)
            return self._phrase(phrase, prefix=bool(star))
        finally:
            self._denied = outer

    def _group(self, *, denied: bool) -> str | None:
        self._depth += 1
        if self._depth > MOST_WORDS:
            raise _DoesNotParse("its brackets are nested too deeply")
        outer, self._denied = self._denied, self._denied or denied
        inner = self.alternatives()
        self._denied = outer
        self._depth -= 1
        if not self.left or self.left[0][2] != ")":
            raise _DoesNotParse("a bracket is not closed")
        self.left.pop(0)
        return inner

    def _word(self, word: str) -> str | None:
        bare = word.rstrip("*")
        return self._phrase(bare, prefix=bare != word)

    def _phrase(self, text: str, *, prefix: bool) -> str | None:
        pieces = query_pieces(text, self._words)
        if not pieces:
            return None
        if len(self.units) + len(pieces) > MOST_WORDS:
            raise _DoesNotParse(f"it has more than {MOST_WORDS} words")
        units = [Unit(written, stem, starts) for written, stem, starts in pieces]
        if not self._denied:
            self.units += units[:-1] if prefix else units
            if len(units) > 1:
                self.phrases.append(tuple(unit.stem for unit in units))
        if prefix:
            return self._beginning(units)
        # A single character looks for the beginning of a pair, which FTS5 only knows at the end of a phrase.
        return " + ".join(unit.match for unit in units if not unit.prefix or len(units) == 1 or unit is units[-1])

    def _beginning(self, units: list[Unit]) -> str:
        last = units[-1]
        start = last.written.lower()
        if not self._denied:
            self.units.append(Unit(start, start, prefix=True))
            self.prefixes.append(start)
        before = " + ".join(unit.match for unit in units[:-1])
        ends = [f'"{start}"*', last.match.rstrip("*")]
        # The index holds stems, which may be shorter than what was typed: "decidi*" must reach "deciding" as "decid".
        ends += [f'"{start[:size]}"' for size in range(max(3, len(start) - 6), len(start)) if not units[:-1]]
        return "(" + " OR ".join(f"{before} + {end}" if before else end for end in ends) + ")"

    def _next_is(self, operator: str) -> bool:
        return bool(self.left) and self.left[0][3] == operator
