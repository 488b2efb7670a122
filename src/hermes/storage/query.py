"""What a query asks for: the words of a question, or explicit syntax with phrases, AND, OR, NOT and prefix*.

A question is searched by its words, weighed later. Explicit syntax is followed when it parses; when it does not, the
same text is searched as plain words and the query says so. Nothing a person types is ever handed to FTS5 unquoted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes.storage import english
from hermes.storage.syntax import MOST_WORDS, DoesNotParse, Unit, parse_explicit
from hermes.storage.text import camel_parts, query_pieces

if TYPE_CHECKING:
    from hermes.storage.syntax import Explicit
    from hermes.storage.text import Words

LONGEST = 4096
FRAME_WEIGHT = 0.35
MOST_KEYWORDS = 8
_OPERATORS = frozenset(("AND", "OR", "NOT"))
_QUOTED = re.compile(r'["“„«]([^"“”„«»]{2,})["”»]')


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    units: tuple[Unit, ...]
    phrases: tuple[tuple[str, ...], ...] = ()
    explicit: Explicit | None = None
    note: str | None = None
    question: bool = False
    asks_when: bool = False
    asks_how_many: bool = False


def parse(text: str, words: Words) -> Query:
    text = text[:LONGEST]
    if _looks_explicit(text):
        try:
            explicit = parse_explicit(text, words)
        except DoesNotParse as error:
            return plain(text, words, note=f"searched as plain words, because {error}")
        units = {unit.stem: unit for unit in explicit.units}
        return Query(units=tuple(units.values()), phrases=tuple(explicit.phrases), explicit=explicit)
    return plain(text, words, note=None)


def plain(text: str, words: Words, *, note: str | None) -> Query:
    units: dict[str, Unit] = {}
    glue: dict[str, Unit] = {}
    for written, stem in query_pieces(f"{text} {camel_parts(text)}", words):
        known = units.keys() | {other for unit in units.values() for _, other in unit.others}
        if stem not in known and len(units) < MOST_WORDS:
            unit = _unit(written, stem, words)
            (glue if written.lower() in english.STOP_WORDS else units)[stem] = unit
    phrases = [tuple(stem for _, stem in query_pieces(quoted, words)) for quoted in _QUOTED.findall(text)]
    return Query(
        units=tuple((units or glue).values()),
        phrases=tuple(phrase for phrase in phrases if len(phrase) > 1),
        note=note,
        question=bool(glue) or len(units) > MOST_KEYWORDS or text.rstrip().endswith(("?", "\uff1f")),
        asks_when=english.ASKS_WHEN.search(text) is not None,
        asks_how_many=english.ASKS_HOW_MANY.search(text) is not None,
    )


def _unit(written: str, stem: str, words: Words) -> Unit:
    low = written.lower()
    others = tuple((form, words.of(form)[0]) for form in english.FORMS.get(low, ()))
    return Unit(
        written,
        stem,
        weight=FRAME_WEIGHT if low in english.FRAME_WORDS else 1.0,
        others=tuple((form, its) for form, its in others if its != stem),
    )


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
