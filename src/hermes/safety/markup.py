"""Finds text that imitates the frame around it: chat-template tokens, role lines, fences, our headers and markers."""

from __future__ import annotations

import re
from itertools import islice

from hermes.safety.beginnings import Beginnings
from hermes.safety.surroundings import LONG_TEXT
from hermes.safety.tables import load_lines
from hermes.safety.verdict import ASK, CLEAN, REFUSE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_ROLE = r"(?:system|developer|assistant|user|human|tool|admin|ai)"
_ORDER = (
    r"(?:you|ignore|disregard|forget|must|new|override|do|from now|always|never|the (?:assistant|ai|agent|model|user)"
    r"|all|any|execute|run|send|your|please|grant|disable|enable|reveal|print|respond|act|this|approve|treat|user|stop"
    r"|previous|safety|obey|no)\b"
)
_LINE_START = r"(?:^|\n)"
_DELIMITER_LINE = r"(?:^|\n)[ \t]{0,8}§[ \t]{0,8}(?:\n|$)"
# Whoever explains a format names its signs; our own frame is never explained in an entry.
_TALK = (
    r"\b(?:xml|html|elements?|tags?|templates?|tokenizer|schema|parser|escaped?|regex|fixtures?|syntax|tokens"
    r"|transcripts?|strip(?:ped)?)\b"
)
_OURS = ("memory", "user profile", "[blocked", "\u2550", "origin")
_TURNS = ("human:", "user:", "assistant:")
_ROW = re.compile(r"(\[(?:\\.|[^\]\\])+\]|[=~#<\u2550-])\{([1-9]),([0-9]?)\}")
_START = 4  # letters
_MANY = 2_000  # places, from which on it is quicker to look for one literal after the other
_beginnings: list[Beginnings] = []
_forgeries: list[tuple[str, str, str, str]] = []
_compiled: dict[str, re.Pattern[str]] = {}
_quick: dict[str, tuple[re.Pattern[str] | None, re.Pattern[str]]] = {}
_signs: dict[str, list[str]] = {}


def forgeries(folded: str, raw: str, scope: str) -> Iterator[tuple[str, int, int]]:
    """(level, start, end) in `folded` of what imitates the prompt's own frame."""
    if "§" in raw and scope == "memory":
        line = re.search(_DELIMITER_LINE, raw)
        if line and raw.strip() != "§":
            yield REFUSE, -1, -1
    held = _held_in(folded) if len(folded) >= LONG_TEXT else None
    for literal, level, level_in_code, source in _load():
        if literal not in (folded if held is None else held) or (scope == "recall" and literal in _TURNS):
            continue
        found = _first(source, folded)
        if found is not None:
            here = level_in_code if _in_code(folded, found.start()) else level
            if here == REFUSE and literal not in _OURS and re.search(_TALK, folded):
                here = ASK
            if here != CLEAN:
                yield here, found.start(), found.end()


def _held_in(folded: str) -> set[str]:
    """The literals that a long text holds; those that begin with a letter are looked for all at once."""
    literals = dict.fromkeys(literal for literal, _, _, _ in _load())
    words = known = [literal for literal in literals if literal.isascii() and literal[0].isalpha()]
    if not _beginnings:
        starts = sorted({word[:_START] for word in words})
        size = -(-len(starts) // 8)  # neighbours in the alphabet go well together
        _beginnings.append(Beginnings(*("|".join(starts[at : at + size]) for at in range(0, len(starts), size))))
    places = list(islice(_beginnings[0].places(folded.encode("ascii", "replace")), _MANY))
    if len(places) < _MANY:
        seen = {folded[at : at + _START] for at in places}
        seen |= {start[:-1] for start in seen}  # for the literals of three letters
        words = [word for word in known if word[:_START] in seen]
    # A single sign is found or missed in no time.
    signs = [literal for literal in literals.keys() - known if literal[0] in folded]
    return {literal for literal in [*words, *signs] if literal in folded}


def _first(source: str, folded: str) -> re.Match[str] | None:
    """Where an expression first matches; in a long text it is searched for by its first sign, soon found or missed."""
    if len(folded) < LONG_TEXT:
        if source not in _compiled:
            _compiled[source] = re.compile(_from_its_first_sign(source))
        return _compiled[source].search(folded)
    if source not in _quick:
        _quick[source] = _quickly_searched(source)
        _signs[source] = first_signs(source)
    if _signs[source] and not any(sign in folded for sign in _signs[source]):
        return None
    start, anywhere = _quick[source]
    return (start.match(folded) if start else None) or anywhere.search(folded)


def _quickly_searched(source: str) -> tuple[re.Pattern[str] | None, re.Pattern[str]]:
    """An expression as what it matches at the start of a text, if that differs, and what it matches elsewhere."""
    if source.startswith(_LINE_START):
        rest = f"(?:{source[len(_LINE_START) :]})"
        return re.compile(rest), re.compile("\n" + rest)
    return None, re.compile(_from_its_first_sign(source))


def _from_its_first_sign(source: str) -> str:
    """An expression with the sign written out once that it begins with several of: the search can look for it alone.

    Of any number of them it matches only from the first on, and all at once: rows of thousands would take minutes else.
    """
    row = _ROW.match(source)
    if row is None:
        return source
    sign, least, most = row[1], int(row[2]), row[3]
    rest = source[row.end() :]
    if most:
        return f"{sign * least}{sign}{{0,{int(most) - least}}}{rest}"
    return f"{sign}(?<!{sign}{sign}){sign}{{{least - 1},}}+{rest}"


def first_signs(source: str) -> list[str]:
    """The signs with one of which all begins that an expression matches; none when that is not to be seen at once."""
    found = re.match(r"(?:\[(?:\\\W|[^\w\s\]\\^])+\]|\\?[^\w\s\\^.(|])(?![?*]|\{0)", source)
    return [sign for sign in sorted(set(found[0])) if re.fullmatch(found[0], sign)] if found else []


def expressions() -> list[tuple[str, str]]:
    """Each expression, with what a text must hold for it to be tried."""
    return [(literal, source) for literal, _, _, source in _load()]


def _load() -> list[tuple[str, str, str, str]]:
    if not _forgeries:
        for line in load_lines("markup.rules"):
            literal, level, level_in_code, source = line.split("\t")
            source = source.replace("{role}", _ROLE).replace("{order}", _ORDER)
            _forgeries.append((literal, level, level_in_code, source))
    return _forgeries


def _in_code(text: str, position: int) -> bool:
    line_start = text.rfind("\n", 0, position) + 1
    # fold() turns backticks into apostrophes outside ASCII, so both count.
    return text[line_start:position].replace("'", "`").count("`") % 2 == 1
