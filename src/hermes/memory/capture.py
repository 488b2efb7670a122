"""Capture: finds facts worth keeping in what a person says, and compares entries by their wording, without a model.

Only plain statements that will hold for a while are taken: a missed fact costs little, because the conversation stays
searchable, and junk in a small store costs every prompt. Questions, quotes, pasted text, states of the moment and
anything that points at something else ("I like it") are left alone. English only.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hermes.base.claims import replaced
from hermes.base.values import value

if TYPE_CHECKING:
    from collections.abc import Sequence

_TOKEN = re.compile(r"[^\s,;()\[\]{}<>\"“”«»]+")
_EDGES = ".!?:'`*\u2018\u2019\u2026"
_SMALL = (
    "a an the is are was were be been being am to of in on at for with and as by from this that these those it its "
    "i me my we us our you your user user's person they their them he she his her has have had do does did will would "
    "also please so very really just currently always-on"
)
SMALL_WORDS = frozenset(_SMALL.split())
_NOT = (
    "not no never don't doesn't didn't isn't aren't won't cannot can't without neither nor stop avoid avoids dislikes"
)
NEGATIONS = frozenset(_NOT.split())
_LIMITING = "only except unless but if when while until instead sometimes rarely occasionally over than rather"
LIMITING = frozenset(_LIMITING.split())
_SAME = {
    "likes": "prefer",
    "like": "prefer",
    "wants": "prefer",
    "want": "prefer",
    "prefers": "prefer",
    "favours": "prefer",
    "favors": "prefer",
    "using": "use",
    "uses": "use",
    "used": "use",
}


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
    meaningful = [(token, word) for token, word in plain if word not in SMALL_WORDS and word not in NEGATIONS]
    return Wording(
        sequence=tuple(word if is_name(token) else stem(word) for token, word in meaningful),
        names=frozenset(token for token, _ in plain if is_name(token)),
        negated=any(word in NEGATIONS for _, word in plain),
        limited=frozenset(word for _, word in plain if word in LIMITING),
    )


def is_name(token: str) -> bool:
    """Whether a token is a number, path, address or identifier, where a different letter means a different thing."""
    if any(map(str.isdigit, token)) or any(mark in token.strip("/") for mark in "_/@#\\:=.+"):
        return True
    return (token.isupper() and len(token) > 1) or any(map(str.isupper, token[1:]))


def stem(word: str) -> str:
    """Strips common English endings and maps synonyms such as "likes" and "prefers" to one word."""
    word = _SAME.get(word.removesuffix("'s"), word.removesuffix("'s"))
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
# Code blocks, quotations, shell prompts, log lines, stack traces and markup: the person did not write these words.
_PASTED = re.compile(
    r"```|^\s*(?:>|\$ |\d{4}-\d\d-\d\d[ T]\d|\[?(?:INFO|DEBUG|WARN|ERROR)\b|Traceback|\{|<)", re.MULTILINE
)
# A host sends instructions to its model in the same message role; they are not the person's statements.
_FOR_A_MODEL = re.compile(
    r"\byou are (?:an?|the)\b.{0,60}\b(?:assistant|agent|model|bot|ai)\b|system prompt|these instructions|^\[\w+\]",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
# Words that only lead into a statement ("ok, so actually …"); they are dropped before the forms are tried.
_OPENING = re.compile(
    r"^(?:(?:ok(?:ay)?|hi|hello|hey|well|so|thanks|thank you|right|sure|yes|yeah|no|nope|sorry|oh|and|but|also|btw|fyi|"
    r"by the way|just so you know|for the record|actually|correction|wait|in fact|i meant?|to be clear)\b[\s,:;.!-]*)+",
    re.IGNORECASE,
)
# A clause after the value ("Lyon, because …") is not part of it.
_ASIDE = re.compile(
    r"\s*(?:,|;| -|—|\()\s*(?:so|but|because|which|since|though|although|and|it|it's|i|i'm|they)\b.*$", re.IGNORECASE
)
_FIRST_PERSON = re.compile(r"\b(?:i|i'm|i'll|i've|i'd|me|my|mine|myself|we|us|our|you've|you)\b", re.IGNORECASE)
# A value that begins like this describes a state or compares ("my car is getting …") and names nothing lasting.
_VAGUE = re.compile(
    r"^(?:like|so|to|not|no|about|a bit|actually|also|just|all|very|really|too|pretty|kind of|more|still|getting|going|"
    r"being|having|living|doing|making|using|the same|some|any|most|one of|awesome|great|good|fine|amazing|cute|nice|"
    r"around|approximately)\b",
    re.IGNORECASE,
)
_ASKED = re.compile(
    r"^(?:please\s+)?(?:remember|note|keep in mind|don't forget|make a note)(?: that\b| of\b|:)\s*", re.IGNORECASE
)
_PLEASE = re.compile(
    r"^(?:please\s+)?(?:from now on|in (?:the )?future|going forward)\b[\s,:]*(?:please\s+)?", re.IGNORECASE
)
_DEFINITE = "the|all|some|any|most|each|both|their|his|her|its|every|no"
_ORDINALS = "first|second|third|other|last|latter|former|previous|next|new|old|idea|look|way|sound|option|result|answer"
_PRONOUNS = "it|this|that|these|those|them|him|her|you|your|how|what|when|where|why|who"
_POINTING = rf"(?:{_PRONOUNS}|the (?:{_ORDINALS})|to (?:see|know|hear|ask|think|thank))"
# "My question is …" holds only for the moment; "always there" and "never seen" are not rules.
_MOMENTARY = (
    "question|point|problem|issue|guess|fault|bad|test|build|code|idea|understanding|plan|goal|last|first|next|turn|"
    "answer|concern|call|chat|conversation|talk|favourite part"
)
_NO_RULE = (
    r"here|there|on|in|at|\w+ing|remember|mind|an?|the|good|nice|fun|happy|ever|again|knew|seen|heard|been|had|saw"
)
_TELLING = "said|meant|thought|knew|saw|heard|got|had|did|asked|been|wondered"
# States of the moment, which would be wrong by the next session; a person can still ask to keep them.
_PASSING = re.compile(
    r"\b(?:today|tonight|tomorrow|yesterday|right now|at the moment|currently|for now|this time|again|broken|failing|"
    r"failed|down|stuck|done|finished|running|slow|red|green|tired|sick|busy|late|back|ready|sure|glad|happy|sorry|"
    r"wondering|trying|looking|thinking|going to|about to|weird|strange|error)\b|\d\s?%",
    re.IGNORECASE,
)
# An entry that ends in a pronoun points at the conversation and means nothing without it.
_LEFT_OPEN = re.compile(r"\b(?:it|this|that|them|these|those|here|there|you|too)$", re.IGNORECASE)
_LIKING = r"i (?:really |always |usually |generally )?(?P<a>prefer|like|love|hate|dislike)"
# Each form: the sentence as said, the memory file it belongs to, and the entry it becomes.
_FORMS = (
    (rf"my (?P<a>(?!(?:{_MOMENTARY})\b)[a-z][a-z' -]{{1,30}}?) (?:is|are) (?P<b>.+)", "user", "User's {a} is {b}"),
    (r"call me (?P<b>(?-i:[A-Z])[\w'-]*)", "user", "User wants to be called {b}"),
    (r"i (?P<a>live|am based|study) (?P<p>in|at) (?P<b>.+)", "user", "User {a}s {p} {b}"),
    (r"i (?P<a>work) (?P<p>in|at|for|as) (?P<b>.+)", "user", "User {a}s {p} {b}"),
    (r"i(?:'ve| have)? moved to (?P<b>(?-i:[A-Z]).+)", "user", "User moved to {b}"),
    (rf"{_LIKING} (?!(?:{_POINTING}|{_DEFINITE}|to just)\b)(?P<b>.+)", "user", "User {a}s {b}"),
    (rf"i (?P<a>always|never) (?P<b>(?!(?:{_TELLING})\b|\w+ed\b)[a-z].+)", "user", "User {a} {b}"),
    (rf"our (?P<a>(?!(?:{_MOMENTARY})\b)[a-z][\w' -]{{1,40}}?) (?:is|are) (?P<b>.+)", "memory", "Our {a} is {b}"),
    (
        r"we (?P<a>use|deploy|host|run|store|ship|build|test) (?!it\b|this\b|that\b|them\b|the same\b|out\b)(?P<b>.+)",
        "memory",
        "We {a} {b}",
    ),
    (r"we(?:'ve| have)? (?P<a>switched|moved|migrated) (?P<b>(?:from .+ )?to .+)", "memory", "We {a} {b}"),
    (rf"(?P<a>always|never) (?P<b>(?!(?:{_NO_RULE})\b)[a-z].+)", "memory", "{a} {b}"),
)
_CAPTURED = tuple((re.compile(rf"^{form}$", re.IGNORECASE), target, shape) for form, target, shape in _FORMS)


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
    if _PASTED.search(text) or _FOR_A_MODEL.search(text):
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
    plain = _OPENING.sub("", sentence).strip()
    asked = _ASKED.match(plain)
    plain = _PLEASE.sub("", plain[asked.end() :] if asked else plain).strip(" .!")
    for pattern, target, shape in _CAPTURED:
        found = pattern.match(plain)
        if found is not None:
            told = _ASIDE.sub("", found["b"])
            if _FIRST_PERSON.search(told) or _VAGUE.match(told) or (_PASSING.search(told) and not asked):
                return None
            return _kept(target, shape.format(**{**found.groupdict(""), "b": told.strip()}))
    if asked and len(wording_of(plain).sequence) > _FEWEST_WORDS and not _starts_loosely(plain):
        return _kept("memory", plain)
    return None


def _starts_loosely(text: str) -> bool:
    """Whether the text after "remember" is a memory to share ("when we met") or a pronoun, and not a fact to keep."""
    return re.match(rf"(?:{_POINTING}|to|me|last|our (?:last|chat|talk)|if|about)\b", text, re.IGNORECASE) is not None


def _kept(target: str, text: str) -> Captured | None:
    if len(text) > _LONGEST_ENTRY or _LEFT_OPEN.search(text):
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
