"""Capture: finds facts worth keeping in what a person says, and compares entries by their wording, without a model.

Only plain statements that will hold for a while are taken: a missed fact costs little, because the conversation stays
searchable, and junk in a small store costs every prompt. Questions, quotes, pasted text, states of the moment and
anything that points at something else ("I like it") are left alone. English only.
"""

from __future__ import annotations

import os
import re
import tomllib
from functools import cache
from typing import TYPE_CHECKING, Any

from hermes.base.claims import replaced
from hermes.base.values import value

if TYPE_CHECKING:
    from collections.abc import Sequence

_TOKEN = re.compile(r"[^\s,;()\[\]{}<>\"“”«»]+")
_EDGES = ".!?:'`*\u2018\u2019\u2026"


@cache
def table() -> dict[str, Any]:
    """The words, expressions and forms of `text/capture.toml`."""
    with open(os.path.join(os.path.dirname(__file__), "text", "capture.toml"), "rb") as file:
        found = tomllib.load(file)
    found["words"] = {name: frozenset(words.split()) for name, words in found["words"].items()}
    found["same"] = {word: same for same, words in found["same"].items() for word in words.split()}
    return found


@cache
def _expression(source: str) -> re.Pattern[str]:
    parts = table()["parts"]
    while (inside := re.search(r"\{([a-z-]+)\}", source)) is not None:
        source = source.replace(inside[0], parts[inside[1]])
    return re.compile(source, re.IGNORECASE)


def _is(name: str) -> re.Pattern[str]:
    return _expression(table()["expressions"][name])


@value
class Wording:
    """What an entry says. `sequence` has its meaningful words, stemmed and in order; `names` must never be altered."""

    sequence: tuple[str, ...]
    names: frozenset[str]
    negated: bool
    limited: frozenset[str]

    @property
    def words(self) -> frozenset[str]:
        """The meaningful words without their order, for comparing how much two entries share."""
        return frozenset(self.sequence)


def wording_of(entry: str) -> Wording:
    """Reduces an entry to what two entries are compared by: stems, names, negation and limits."""
    tokens = [token.strip(_EDGES) for token in _TOKEN.findall(entry)]
    plain = [(token, token.casefold().replace("\u2019", "'")) for token in tokens if token]
    words = table()["words"]
    unmeaning = words["small"] | words["negations"]
    meaningful = [(token, word) for token, word in plain if word not in unmeaning]
    return Wording(
        sequence=tuple(word if is_name(token) else stem(word) for token, word in meaningful),
        names=frozenset(token for token, _ in plain if is_name(token)),
        negated=any(word in words["negations"] for _, word in plain),
        limited=frozenset(word for _, word in plain if word in words["limiting"]),
    )


def is_name(token: str) -> bool:
    """Whether a token is a number, path, address or identifier, where a different letter means a different thing."""
    if any(map(str.isdigit, token)) or any(mark in token.strip("/") for mark in "_/@#\\:=.+"):
        return True
    return (token.isupper() and len(token) > 1) or any(map(str.isupper, token[1:]))


def stem(word: str) -> str:
    """Strips common English endings and maps synonyms such as "likes" and "prefers" to one word."""
    word = table()["same"].get(word.removesuffix("'s"), word.removesuffix("'s"))
    for ending in ("ing", "es", "ed", "s"):
        if word.endswith(ending) and len(word) > len(ending) + 3:
            return word[: -len(ending)]
    return word


def covers(richer: Wording, poorer: Wording) -> bool:
    """Whether `richer` says everything `poorer` says, in the same order and with the same limits and negation."""
    if not poorer.sequence or richer.negated != poorer.negated or not poorer.names <= richer.names:
        return False
    if richer.limited != poorer.limited:
        return False
    words = iter(richer.sequence)
    return all(word in words for word in poorer.sequence)


@value
class Fact:
    """An entry to compare. `at` is when it was written (0 if unknown); `trusted` is False for text from outside."""

    entry: str
    at: float = 0.0
    trusted: bool = True
    pinned: bool = False

    @property
    def wording(self) -> Wording:
        """The wording of the entry, for comparing it with other entries."""
        return wording_of(self.entry)


KNOWN = "known"
_LONGEST_MESSAGE = 600
_LONGEST_ENTRY = 200
_MOST_LINES = 6
_FEWEST_WORDS = 1
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


@value
class Captured:
    """One captured statement, as the entry it becomes and the memory file it belongs to."""

    target: str
    entry: str


def capture(said: str) -> list[Captured]:
    """The statements of one message that are worth keeping; most messages have none."""
    text = said.strip()
    if not text or len(text) > _LONGEST_MESSAGE or text.count("\n") >= _MOST_LINES:
        return []
    if _is("pasted").search(text) or _is("for-a-model").search(text):
        return []
    found = (_of_sentence(sentence.strip()) for sentence in _SENTENCE.split(text))
    return [each for each in found if each is not None]


@value
class Write:
    """What to do with a captured statement: an operation of the memory tool, or KNOWN if `old_text` already says it."""

    action: str
    content: str
    old_text: str = ""


def placed(captured: Captured, entries: Sequence[str]) -> Write:
    """How a statement enters a store: not at all when it is known, in place of what it corrects, or as a new entry."""
    new = wording_of(captured.entry)
    for entry in entries:
        if covers(wording_of(entry), new):
            return Write(action=KNOWN, content=captured.entry, old_text=entry)
    for entry in reversed(entries):
        if covers(new, wording_of(entry)) or replaced(entry, captured.entry):
            return Write(action="replace", content=captured.entry, old_text=entry)
    return Write(action="add", content=captured.entry)


def _of_sentence(sentence: str) -> Captured | None:
    if sentence.endswith("?") or "[" in sentence or '"' in sentence or "“" in sentence:
        return None
    plain = _is("opening").sub("", sentence).strip()
    asked = _is("asked").match(plain)
    plain = _is("please").sub("", plain[asked.end() :] if asked else plain).strip(" .!")
    for form in table()["forms"]:
        found = _expression(form["said"]).fullmatch(plain)
        if found is not None:
            told = _is("aside").sub("", found["b"])
            passing = _is("passing").search(told) and not asked
            if _is("first-person").search(told) or _is("vague").match(told) or passing:
                return None
            return _kept(form["target"], form["entry"].format(**{**found.groupdict(""), "b": told.strip()}))
    if asked and len(wording_of(plain).sequence) > _FEWEST_WORDS and not _is("loose").match(plain):
        return _kept("memory", plain)
    return None


def _kept(target: str, text: str) -> Captured | None:
    if len(text) > _LONGEST_ENTRY or _is("left-open").search(text):
        return None
    entry = _grammar(text[0].upper() + text[1:]).rstrip(" .!,;") + "."
    return Captured(target=target, entry=entry) if len(wording_of(entry).sequence) > _FEWEST_WORDS else None


def _grammar(text: str) -> str:
    """The third person for what was said in the first."""
    for wrong, right in (("User am baseds", "User is based"), (" studys ", " studies ")):
        text = text.replace(wrong, right)
    return re.sub(r"^User (always|never) (\w+)", lambda found: f"User {found[1]} {_third(found[2])}", text)


def _third(verb: str) -> str:
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return f"{verb[:-1]}ies"
    return f"{verb}es" if verb.endswith(("s", "sh", "ch", "x", "o")) else f"{verb}s"
