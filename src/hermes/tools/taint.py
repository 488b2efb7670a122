"""What entered the current turn from outside, and whether a text only repeats what the person said."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hermes.base.values import value
from hermes.memory.capture import LIMITING, NEGATIONS, SMALL_WORDS, is_name, stem
from hermes.memory.entries import Cause, least_trusted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

_SENTENCES = re.compile(r"(?<=[.!?;])\s+|\n+|(?<=[\u3002\uff01\uff1f\uff1b])")
_CLAUSES = re.compile(r"[,;()\u2013\u2014\u3001\uff0c\uff1b](?!\d)|\s-+\s|\s(?:and|but|then)\s", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+")
_EDGES = ".,;:!?()[]{}'\"`*\u2018\u2019\u201c\u201d\u2026"
_BEGINNING = 4  # letters that two forms of a word share
_SHORTEST = 3
_SHARE = 0.6  # of the words of a clause
_TOGETHER = 3  # neighbouring sentences of a person that one of a note is made of, at most
# What a note about a person is framed with; it tells nothing.
_FRAMING = (
    "prefer prefers preferred like likes want wants use uses using name named called said says asked told note notes "
    "remember always never should must not when who works lives"
)
_FRAME = frozenset(_FRAMING.split())
_TURNS = NEGATIONS | LIMITING
_WITHOUT_BLANKS = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


@value
class _Word:
    """`exact`: of a name, of which nothing may be different; `weight`: 0.5 for two signs of a script without blanks."""

    text: str
    exact: bool
    weight: float = 1.0


@value
class _Spoken:
    """One sentence of a person: every form of its words, and whether it says no to something."""

    forms: frozenset[str]
    turned: bool


def is_said(text: str, said: Sequence[str]) -> bool:
    """Whether every sentence of `text` is made of the words of a person who said `said`."""
    spoken = [[_spoken(each) for each in _sentences(message)] for message in said]
    return all(any(_is_theirs(each, message) for message in spoken) for each in _sentences(text) if any(_clauses(each)))


def is_about(text: str, said: str) -> bool:
    """Whether a person who said `said` spoke of what `text` is about."""
    forms = _spoken(said).forms
    return any(_is_in(word, forms) for words in _clauses(text) for word in words)


def _sentences(text: str) -> list[str]:
    return [each for each in _SENTENCES.split(text) if each.strip()]


def _is_theirs(sentence: str, message: Sequence[_Spoken]) -> bool:
    clauses, turned = _clauses(sentence), _turns(sentence)
    for length in range(1, _TOGETHER + 1):
        for at in range(len(message) - length + 1):
            near = message[at : at + length]
            forms = frozenset[str]().union(*(each.forms for each in near))
            if turned is any(each.turned for each in near) and all(_is_made_of(forms, each) for each in clauses):
                return True
    return False


def _is_made_of(forms: frozenset[str], clause: Sequence[_Word]) -> bool:
    """All names, most words, and never two others in a row: those say something of their own."""
    theirs, others = 0.0, 0.0
    for word in clause:
        if _is_in(word, forms):
            theirs, others = theirs + word.weight, 0.0
            continue
        others += word.weight
        if word.exact or others > 1:
            return False
    return theirs >= _SHARE * sum(word.weight for word in clause)


def _is_in(word: _Word, forms: frozenset[str]) -> bool:
    return (stem(word.text) if word.exact else word.text[:_BEGINNING]) in forms


def _spoken(sentence: str) -> _Spoken:
    words = [word.text for clause in _clauses(sentence, framed=True) for word in clause]
    forms = frozenset(form for word in words for form in (word, stem(word), word[:_BEGINNING]))
    return _Spoken(forms=forms, turned=_turns(sentence))


def _turns(sentence: str) -> bool:
    """Whether it says no to something, or one thing rather than another."""
    return any(token.strip(_EDGES).replace("\u2019", "'") in _TURNS for token in sentence.casefold().split())


def _clauses(sentence: str, *, framed: bool = False) -> list[list[_Word]]:
    """The words of each clause that tell something; with `framed` also those that only frame it."""
    found = (list(_words(clause, begins=at == 0)) for at, clause in enumerate(_CLAUSES.split(sentence)))
    telling = [[word for word in words if framed or word.exact or word.text not in _FRAME] for words in found]
    return [words for words in telling if words]


def _words(clause: str, *, begins: bool) -> Iterator[_Word]:
    for token in clause.split():
        plain = token.strip(_EDGES)
        exact = is_name(plain) or plain.startswith("-") or (plain[:1].isupper() and not begins)
        begins = begins and not plain
        for word in _WORD.findall(plain.casefold()):
            if _WITHOUT_BLANKS.search(word):
                yield from (
                    _Word(text=word[at : at + 2], exact=False, weight=0.5) for at in range(max(len(word) - 1, 1))
                )
            elif word not in SMALL_WORDS and (exact or len(word) >= _SHORTEST):
                yield _Word(text=word, exact=exact)


_LONGEST_EXCERPT, _LONGEST_READ = 200, 4_000
_NOT_SAID = frozenset({"session_id", "when", "query", "hint"})  # of our own tools: names, dates, what was asked
_SHORTEST_SENTENCE = 20  # letters; what is shorter is a name, a date or a state


@value
class Source:
    """One text from outside: its kind (web, file, tool, recall, provider), who brought it, and what it says."""

    origin: str
    name: str
    text: str

    def excerpt(self) -> str:
        """How it begins, for a person: of a tool's JSON what it says, without its braces and names, or its secrets."""
        from hermes.safety.secrets import mask_secrets

        said = _said(self.text) or self.text
        # Longer than what is shown, so that nothing is cut out of the middle of a key before it is known to be one.
        return " ".join(mask_secrets(said[:_LONGEST_READ]).split())[:_LONGEST_EXCERPT]


@value
class TurnContext:
    """What a tool may know about the turn it is called in.

    A page can ask to be obeyed later, so a session also says what the model still has in front of it from outside
    (`earlier`), and what the person `said`: only that is free of it. `compact` puts messages of the session away.
    """

    session: str = ""
    origin: str = "agent"  # who acts
    note: str = ""
    earlier: Callable[[], Sequence[Source]] = tuple
    said: Callable[[], Sequence[str]] = tuple
    compact: Callable[[Mapping[str, str]], dict[str, Any]] | None = None

    @property
    def cause(self) -> Cause:
        """What memory changes of this turn are stamped with."""
        return Cause(origin=self.origin, session=self.session, note=self.note)


NO_TURN = TurnContext()


class Taint:
    """Collects the sources of one turn; the program notes them, the model cannot."""

    def __init__(self) -> None:
        self._sources: list[Source] = []
        self._inherited: list[Source] = []

    def start_turn(self) -> None:
        self._sources = list(self._inherited)

    def note(self, origin: str, name: str, text: str) -> None:
        self._sources.append(Source(origin=origin, name=name, text=text))

    def inherit(self, sources: Sequence[Source]) -> None:
        """These stand behind every turn: whoever wrote the task had them before their eyes."""
        self._inherited += sources
        self._sources += sources

    @property
    def origin(self) -> str:
        """The least trusted origin of this turn; empty when nothing came from outside."""
        return least_trusted([source.origin for source in self._sources]) if self._sources else ""

    def behind(self, texts: Sequence[str], gone: Callable[[], Sequence[str]], turn: TurnContext) -> Source | None:
        """What may have put a change into the model's mouth; None when nothing from outside can have.

        `texts` is what would be written, `gone` what would be lost for it.
        """
        if self._sources:
            return _worst(self._sources)
        earlier = turn.earlier()
        if earlier:
            said = turn.said()
            # What goes for good is not taken from what was said long ago, only from the person's newest words.
            spoken_of = (any(is_about(text, each) for each in said[-1:]) for text in gone())
            if not (all(is_said(text, said) for text in texts) and all(spoken_of)):
                return _worst(earlier)
        return None

    def in_words(self, source: Source) -> str:
        excerpt = source.excerpt()
        what = f"{source.origin}, {source.name}" + (f": {excerpt!r}" if excerpt else "")
        if source in self._sources:
            return f"text from outside entered this turn ({what})"
        return f"text from outside entered this conversation earlier ({what}) and this is not what the user said"

    def sources(self) -> list[Source]:
        """What entered this turn from outside."""
        return list(self._sources)


def _worst(sources: Sequence[Source]) -> Source:
    origin = least_trusted([source.origin for source in sources])
    return next(source for source in reversed(sources) if source.origin == origin)


def _said(text: str) -> str:
    """The sentences in a JSON document, or nothing."""
    import json

    if not text.lstrip().startswith(("{", "[")):
        return ""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    return " … ".join(each for each in _texts(document) if len(each) >= _SHORTEST_SENTENCE)


def _texts(document: object) -> Iterator[str]:
    if isinstance(document, str):
        yield document
    elif isinstance(document, list):
        for each in document:
            yield from _texts(each)
    elif isinstance(document, dict):
        for name, each in document.items():
            if name not in _NOT_SAID:
                yield from _texts(each)
