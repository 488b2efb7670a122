"""Whether a text says what a person said: that need not wait because of a page that was read earlier.

Errs on the side of "no". Each sentence must be the person's by itself, from one place of one message: in a long
conversation a person has used nearly every word once, and anything can be composed of them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hermes.curation.wording import LIMITING, NEGATIONS, SMALL_WORDS, is_name, stem
from hermes.vocabulary.values import value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
