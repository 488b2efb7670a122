"""What a query asks for: the words of a question, or explicit syntax with phrases, AND, OR, NOT and prefix*.

A question is searched by its words, which ranking weighs later. Explicit syntax is followed if it parses; otherwise the
same text is searched as plain words, and a note says so. Nothing that a person types reaches FTS5 unquoted.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hermes.base import words as english
from hermes.base.dates import spans
from hermes.base.words import camel_parts, query_pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hermes.base.dates import Span
    from hermes.base.words import Words

_LETTER = rb"[a-z0-9\x80-\xff]"
_NO_LETTERS = rb"[^a-z0-9\x80-\xff]+"
_ONLY_WORDS = re.compile(r"[a-z0-9 ]+")
_LETTER_OR_DIGIT = re.compile(r"[a-z0-9]")
# All forms of a word begin like its stem without the last letter ("happi": happy, happiness) and are at most 15 letters
# longer. Nothing separates the words in a name such as "userName".
_GOES_ON = rb"[a-z0-9]{0,24}[^a-z0-9]*"
_SHORTEST_STEM = 3  # the stemmer leaves shorter words alone
# JSON escapes in the arguments of tool calls: \u00e9, \n, \r, \t; more backslashes if JSON is nested in JSON.
_ESCAPED = re.compile(rb"\\+(?:u([0-9a-fA-F]{4})|[nrt])")


def as_typed(typed: str, *, goes_on: bool) -> re.Pattern[bytes]:
    """A pattern for lower-case bytes that finds what was typed; any characters but letters may separate bare words."""
    words = typed.split()
    space = _NO_LETTERS if _ONLY_WORDS.fullmatch(" ".join(words)) else rb"\s+"
    first, *others = (re.escape(word.encode("utf-8", "replace")) for word in words)
    if goes_on:  # the beginning of a word, which may be part of a name such as "myDecision"
        return re.compile(space.join([first, *others]))
    # The look-behind comes after the first word: `re` finds a pattern fast if it begins with literal letters.
    border = b"(?<!" + _LETTER + first + b")" if _LETTER_OR_DIGIT.match(words[0][0]) else b""
    end = b"(?!" + _LETTER + b")" if _LETTER_OR_DIGIT.match(words[-1][-1]) else b""
    return re.compile(space.join([first + border, *others]) + end)


def side_by_side(stems: Sequence[str]) -> Callable[[bytes], bool]:
    """A cheap test for texts in which words with these stems follow each other; a few other texts pass it, too."""
    beginnings = [stem[:-1] if len(stem) >= _SHORTEST_STEM else stem for stem in stems]
    if not all(beginning.isascii() for beginning in beginnings):
        return lambda _: True
    found = re.compile(_GOES_ON.join(re.escape(beginning.encode()) for beginning in beginnings)).search

    def may_hold(text: bytes) -> bool:
        if b"\x00" in text:  # packed parts: a phrase may begin in one part and end in the next
            return True
        # The arguments of a tool call contain JSON escapes; elsewhere a backslash means itself. So both are tried.
        return bool(found(_folded(text)) or (b"\\" in text and found(_folded(_ESCAPED.sub(_meant, text)))))

    return may_hold


def _folded(text: bytes) -> bytes:
    """Lower case without accents; characters that have no ASCII form are left out."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKD", text.decode("utf-8", "replace")).encode("ascii", "ignore").lower()


def _meant(escaped: re.Match[bytes]) -> bytes:
    return chr(int(escaped[1], 16)).encode("utf-8", "replace") if escaped[1] else b" "


# Explicit query syntax: words, "phrases", AND, OR, NOT, brackets and prefix*, as a test that a message passes or not.
#
# The index knows which messages contain which words, but not where in a message they are. So each part has two sides:
# an FTS5 expression that finds every message that could pass, and an exact test on the words of one message.

MOST_WORDS = 64  # of a query, and levels of brackets
# A phrase with an optional star, a bracket, or a bare word.
_LEXEME = re.compile(r'"([^"]*)"(\*?)|([()])|([^\s()"]+)')
_ONE_PHRASE = re.compile(r'"([^"]+)"|(\w+)\*')


@dataclass(frozen=True, slots=True)
class Unit:
    """One word to look up: as written (FTS5 stems it itself), its stem, and whether it is a prefix."""

    written: str
    stem: str
    prefix: bool = False
    weight: float = 1.0
    others: tuple[tuple[str, str], ...] = ()  # irregular forms and synonyms of the word, as written and stemmed

    @property
    def match(self) -> str:
        """The FTS5 expression that finds the word in any of its forms."""
        quoted = '"' + self.written.replace('"', '""') + '"'
        if self.others:
            return "(" + " OR ".join([quoted, *(f'"{written}"' for written, _ in self.others)]) + ")"
        return quoted + "*" if self.prefix else quoted

    @property
    def stems(self) -> tuple[str, ...]:
        """The stems of all forms of the word, as messages contain them."""
        return (self.stem, *(stem for _, stem in self.others))


@dataclass(frozen=True, slots=True)
class Part:
    """One part of explicit syntax: how the index finds it, and how a message is tested for it.

    `finds` is an FTS5 expression, or None if the index cannot help. `passes` takes the stems with a space around each,
    and the text. `may_pass` is a cheap test on the stored bytes, which saves most texts from being stemmed: it is true
    wherever `passes` is, and rarely elsewhere.
    """

    finds: str | None
    passes: Callable[[str, str], bool]
    may_pass: Callable[[bytes], bool]


@dataclass(slots=True)
class Explicit:
    """Explicit syntax that parsed: what to look up, the test, and the words and phrases that rank the hits."""

    finds: str = ""
    exact: bool = True  # False when the index alone cannot tell, so that the text must be tested
    passes: Callable[[str, str], bool] = field(default=lambda _line, _text: True)
    may_pass: Callable[[bytes], bool] = field(default=lambda _text: True)
    units: list[Unit] = field(default_factory=list)
    phrases: list[tuple[str, ...]] = field(default_factory=list)
    # What was typed, if the whole query is one phrase or prefix. None if it contains letters beyond A to Z that have
    # capitals, because `bytes.lower` leaves those of the stored text as they are.
    typed: re.Pattern[bytes] | None = None

    @property
    def one_phrase(self) -> bool:
        """Whether the whole query is one phrase, so that its words can be looked up rarest first."""
        return self.typed is not None and not any(unit.prefix for unit in self.units)


class DoesNotParse(Exception):
    """A query is not valid explicit syntax; the message completes a sentence that ends in "because"."""


def parse_explicit(text: str, words: Words) -> Explicit:
    """Parses explicit syntax; raises DoesNotParse, and the caller then searches the text as plain words."""
    parser = _Parser(_LEXEME.findall(text), words)
    whole = parser.alternatives()
    if parser.left:
        raise DoesNotParse(f"{parser.left[0][2] or parser.left[0][3]!r} does not belong there")
    if whole is None or whole.finds is None:
        raise DoesNotParse("nothing in it can be looked up")
    parser.result.finds, parser.result.passes, parser.result.may_pass = whole.finds, whole.passes, whole.may_pass
    alone = _ONE_PHRASE.fullmatch(text.strip())
    typed = (alone[1] or alone[2]).lower() if alone else None
    if alone and typed and all(sign.isascii() or sign == sign.upper() for sign in typed):
        parser.result.typed = as_typed(typed, goes_on=alone[2] is not None)
    return parser.result


class _Parser:
    """alternatives := all (OR all)*;  all := part (AND? part)*;  part := NOT? atom: the same precedence as FTS5."""

    def __init__(self, lexemes: list[tuple[str, str, str, str]], words: Words) -> None:
        self.left = lexemes
        self.result = Explicit()
        self._words = words
        self._denied = False
        self._depth = 0
        self._count = 0

    def alternatives(self) -> Part | None:
        """Parses parts joined by OR; None if none of them contains anything to look up."""
        if self._next_is("OR"):
            raise DoesNotParse("OR has nothing before it")
        parts = [self._all(after=None)]
        while self._next_is("OR"):
            self.left.pop(0)
            parts.append(self._all(after="OR"))
        kept = [part for part in parts if part]
        return _any(kept) if kept else None

    def _all(self, *, after: str | None) -> Part | None:
        wanted: list[Part] = []
        refused: list[Part] = []
        seen = False
        while self.left and not self._next_is("OR") and self.left[0][2] != ")":
            glue = self._glue(seen=seen)
            if self._at_end():
                raise DoesNotParse(f"{glue} has nothing after it")
            part = self._atom(denied=glue == "NOT")
            seen = True
            if part:
                (refused if glue == "NOT" else wanted).append(part)
        if after and not seen:
            raise DoesNotParse(f"{after} has nothing after it")
        if refused and not wanted:
            raise DoesNotParse("NOT needs something it is taken away from")
        return _both(wanted, refused) if wanted else None

    def _glue(self, *, seen: bool) -> str | None:
        """Takes AND, NOT or AND NOT from the front and returns the last of them."""
        glue = None
        if self._next_is("AND"):
            if not seen:
                raise DoesNotParse("AND has nothing before it")
            self.left.pop(0)
            glue = "AND"
        if self._next_is("NOT"):
            self.left.pop(0)
            glue = "NOT"
        return glue

    def _at_end(self) -> bool:
        return not self.left or self.left[0][2] == ")" or self.left[0][3] in ("AND", "OR", "NOT")

    def _atom(self, *, denied: bool) -> Part | None:
        phrase, star, bracket, word = self.left.pop(0)
        outer, self._denied = self._denied, self._denied or denied
        try:
            if bracket == "(":
                return self._group()
            bare = word.rstrip("*")
            return self._words_of(bare, prefix=bare != word) if word else self._words_of(phrase, prefix=bool(star))
        finally:
            self._denied = outer

    def _group(self) -> Part | None:
        self._depth += 1
        if self._depth > MOST_WORDS:
            raise DoesNotParse("its brackets are nested too deeply")
        inner = self.alternatives()
        self._depth -= 1
        if not self.left or self.left[0][2] != ")":
            raise DoesNotParse("a bracket is not closed")
        self.left.pop(0)
        return inner

    def _words_of(self, text: str, *, prefix: bool) -> Part | None:
        units = [Unit(written, stem) for written, stem in query_pieces(text, self._words)]
        self._count += len(units)
        if self._count > MOST_WORDS:
            raise DoesNotParse(f"it has more than {MOST_WORDS} words")
        if not units:
            return None
        self.result.exact = self.result.exact and len(units) == 1 and not prefix and not self._denied
        if prefix:
            start = units[-1].written.lower()
            folded = self._words.unstemmed(start)
            units[-1] = Unit(start, folded[0] if len(folded) == 1 else start, prefix=True)
        if not self._denied:
            self.result.units += units
            if len(units) > 1:
                self.result.phrases.append(tuple(unit.stem for unit in units))
        return _phrase(units, text.lower().strip())

    def _next_is(self, operator: str) -> bool:
        return bool(self.left) and self.left[0][3] == operator


def _any(parts: list[Part]) -> Part:
    if len(parts) == 1:
        return parts[0]
    finds = (
        None if any(part.finds is None for part in parts) else f"({' OR '.join(part.finds or '' for part in parts)})"
    )
    return Part(
        finds,
        lambda line, text: any(part.passes(line, text) for part in parts),
        lambda text: any(part.may_pass(text) for part in parts),
    )


def _both(wanted: list[Part], refused: list[Part]) -> Part:
    found = [part.finds for part in wanted if part.finds]
    finds = f"({' AND '.join(found)})" if found else None

    def passes(line: str, text: str) -> bool:
        return all(part.passes(line, text) for part in wanted) and not any(part.passes(line, text) for part in refused)

    return Part(finds, passes, lambda text: all(part.may_pass(text) for part in wanted))


def _phrase(units: list[Unit], typed: str) -> Part:
    """Words in order; a prefix also matches as typed, because the stem of a longer word may not begin with it."""
    finds = " AND ".join(unit.match for unit in units)
    stems = " ".join(unit.stem for unit in units)
    may_pass = side_by_side([unit.stem for unit in units])
    if units[-1].prefix:
        return Part(f"({finds})", lambda line, text: f" {stems}" in line or typed in text, may_pass)
    return Part(f"({finds})", lambda line, _text: f" {stems} " in line, may_pass)


LONGEST = 4096  # characters of a query
FRAME_WEIGHT = 0.35  # of words that frame a question ("how many", "recommend"): they say little about its topic
TIME_WEIGHT = 0.5  # of words that name a time: the date of a message says more than such words in its text
MOST_KEYWORDS = 8  # more words than these are a question, even without a glue word or a question mark
_OPERATORS = frozenset(("AND", "OR", "NOT"))
_QUOTED = re.compile(r'["“„«]([^"“”„«»]{2,})["”»]')


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A parsed query: words, phrases, and explicit operators if there are any."""

    units: tuple[Unit, ...]
    phrases: tuple[tuple[str, ...], ...] = ()
    explicit: Explicit | None = None
    times: tuple[Span, ...] = ()  # that the query names
    note: str | None = None
    question: bool = False
    asks_when: bool = False
    asks_how_many: bool = False
    asks_name: bool = False
    wants_help: bool = False
    coverage: bool = False  # asks for a topic's whole history, not for the most similar messages
    told_by_me: bool = False
    about: str | None = None  # whose turns are asked about, by role, when the question says so


def parse(text: str, words: Words, now: float) -> Query:
    """Reads a query as explicit syntax if it looks like that, otherwise as a question or keywords."""
    text = text[:LONGEST]
    if _looks_explicit(text):
        try:
            explicit = parse_explicit(text, words)
        except DoesNotParse as error:
            return plain(text, words, now, note=f"searched as plain words, because {error}")
        units = {unit.stem: unit for unit in explicit.units}
        times = tuple(span for _, span in spans(text, now))
        return Query(units=tuple(units.values()), phrases=tuple(explicit.phrases), explicit=explicit, times=times)
    return plain(text, words, now, note=None)


def plain(text: str, words: Words, now: float, *, note: str | None) -> Query:
    """Reads a text as plain words, whatever operators it contains."""
    coverage = english.WANTS_COVERAGE.search(text) is not None
    empty = english.STOP_WORDS | english.COVERAGE_WORDS if coverage else english.STOP_WORDS
    units: dict[str, Unit] = {}
    glue: dict[str, Unit] = {}
    asked = text if text.isascii() else english.UNSPACED_QUESTION_WORDS.sub(" ", text)
    asked = asked if any(sign.isalnum() for sign in asked) else text
    for written, stem in query_pieces(f"{asked} {camel_parts(text)}", words):
        known = units.keys() | {other for unit in units.values() for _, other in unit.others}
        if stem not in known and len(units) < MOST_WORDS:
            unit = _unit(written, stem, words)
            (glue if written.lower() in empty else units)[stem] = unit
    phrases = [tuple(stem for _, stem in query_pieces(quoted, words)) for quoted in _QUOTED.findall(text)]
    times = list(spans(text, now))
    question = bool(glue) or len(units) > MOST_KEYWORDS or text.rstrip().endswith(("?", "\uff1f"))
    if question:
        units = _with_synonyms(units, words)
    return Query(
        units=_times_last(" ".join(wording for wording, _ in times), (units or glue), words),
        times=tuple(span for _, span in times),
        phrases=tuple(phrase for phrase in phrases if len(phrase) > 1),
        note=note,
        question=question,
        asks_when=english.ASKS_WHEN.search(text) is not None,
        asks_name=english.ASKS_NAME.search(text) is not None,
        asks_how_many=english.ASKS_HOW_MANY.search(text) is not None,
        coverage=coverage,
        told_by_me=english.TOLD_BY_ME.search(text) is not None,
        wants_help=english.WANTS_HELP.search(text) is not None,
        about=_about(text),
    )


def _about(text: str) -> str | None:
    """The role a question asks about; None for both, as in "what did I plan, and what did you suggest?"."""
    if english.ASKS_ASSISTANT.search(text):
        return None if english.TOLD_BY_ME.search(text) else "assistant"
    return "user" if english.ASKS_ABOUT_ME.search(text) else None


def _times_last(times: str, units: dict[str, Unit], words: Words) -> tuple[Unit, ...]:
    """Lowers the weight of words that name a time: what was said "last weekend" is found by its date."""
    timed = {stem for _, stem in query_pieces(times, words)}
    if timed.issuperset(units):
        return tuple(units.values())
    return tuple(replace(unit, weight=TIME_WEIGHT) if stem in timed else unit for stem, unit in units.items())


def _unit(written: str, stem: str, words: Words) -> Unit:
    low = written.lower()
    frames = low in english.FRAME_WORDS or english.UNSPACED_PARTICLES.search(written)
    others = tuple((form, words.of(form)[0]) for form in english.FORMS.get(low, ()))
    return Unit(
        written,
        stem,
        weight=FRAME_WEIGHT if frames else 1.0,
        others=tuple((form, its) for form, its in others if its != stem),
    )


def _with_synonyms(units: dict[str, Unit], words: Words) -> dict[str, Unit]:
    """Lets each word also find its synonyms, unless the question contains them itself."""
    known = {stem for unit in units.values() for stem in unit.stems}
    return {
        stem: replace(unit, others=(*unit.others, *(each for each in words.synonyms(stem) if each[1] not in known)))
        for stem, unit in units.items()
    }


def _looks_explicit(text: str) -> bool:
    """Whether a text uses explicit syntax; in a text that is all capitals, AND and OR are ordinary words."""
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
