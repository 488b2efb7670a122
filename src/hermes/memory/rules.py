"""Standing instructions of the person: found in what they say, kept, and brought up when they apply.

A rule in a prompt of ten thousand words is easily missed; one that arrives with a `git commit` is not. Each rule is a
sentence of the person with a trigger (`memory/triggers`). No model is used. English only.
"""

from __future__ import annotations

import os
import re
import time
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from hermes.base import linear
from hermes.base.errors import NotFound, WriteRefused
from hermes.base.tokens import estimate
from hermes.base.values import lazy_pattern, value
from hermes.memory.entries import Cause
from hermes.memory.triggers import (
    TEXT,
    WEIGHTS,
    Situation,
    Trigger,
    is_narrow,
    speech,
    trigger_of,
    why,
    window_as_dict,
    window_of,
)
from hermes.safety.trust import decide, own_sentences
from hermes.settings.config import documents_of
from hermes.storage.documents import Document, new_id

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from hermes.memory.approval import Approvals
    from hermes.safety.trust import TurnContext
    from hermes.settings.home import Home

TELL, HOLD, ASK = "tell", "hold", "ask"  # what a rule does to a call it fires on
ENFORCE = (TELL, HOLD, ASK)

# --- which sentences state a rule -------------------------------------------------------------------------------------

_TOKEN = lazy_pattern(r"[^\W_]+(?:'[^\W_]+)*|\S")
_ENDINGS = ("ing", "ed", "ly", "tion", "s")
_OUTRIGHT = 2.0  # how far the threshold drops for a sentence that states outright that it is a rule
_LONG = 4  # letters of a word whose beginning counts too
_FEW_TOPICS = 2  # of a sentence that needs the one before it
_I = ("I'", "I\u2019")
_DOUBLES = lazy_pattern(r"[^aeiou][aeiou][^aeiouwxy]$")
_MOST_VERBS = 2  # verbs in the past that are counted; more of them count as two
PLACES = 1 << 16  # of the table of wordings
_LONGEST = 400  # characters of a sentence that can be a rule
_BULLET = lazy_pattern(r"^\s*(?:[-*•]|\d+[.)])\s+", re.MULTILINE)
_QUOTED = lazy_pattern(r"[\"“]([^\"“”\n]*)[\"”]")
_TITLES = lazy_pattern(r"\b(Dr|Mr|Mrs|Ms|Prof|St|Jr|vs|approx|Inc|Ltd)\.(?=\s)")


def stated_rules(message: str) -> list[str]:
    """The sentences of the person's message that state a standing rule; most messages have none.

    A sentence that only refers to what was said before ("Don't open it") comes with the sentence before it.
    """
    sentences = sentences_of(message)
    found = [at for at in range(len(sentences)) if states_rule(sentences, at)]
    return [_with_what_it_is_about(sentences, at, found) for at in found]


def states_rule(sentences: Sequence[str], at: int) -> bool:
    """Whether a sentence of a message is a standing rule: the trained model scores its wording as one."""
    threshold: float = linear.numbers(WEIGHTS, "rules")["table"]["threshold"]
    threshold -= _OUTRIGHT * (speech("outright").search(sentences[at]) is not None)
    return linear.score(WEIGHTS, "rules", linear.places(wording(sentences, at), PLACES)) > threshold


def _with_what_it_is_about(sentences: Sequence[str], at: int, rules: Sequence[int]) -> str:
    sentence = sentences[at]
    if at == 0 or at - 1 in rules or sentences[at - 1].endswith("?"):
        return sentence
    both, about = f"{sentences[at - 1]} {sentence}", trigger_of(sentence)
    refers = speech("refers").search(sentence) or (speech("forbids").match(sentence) and not is_narrow(about))
    return (
        both if refers and len(about.words) <= _FEW_TOPICS and not about.paths and len(both) <= _LONGEST else sentence
    )


def wording(sentences: Sequence[str], at: int) -> set[str]:
    """The pieces of a sentence: its words, runs of them with and without their topics, and the message around it."""
    sentence = sentences[at]
    tokens = [token.lower() for token in _TOKEN.findall(sentence.replace("\u2019", "'"))]
    words = ["^", *("0" if token.isdigit() else token for token in tokens), "$"]
    glue = linear.numbers(WEIGHTS, "rules")["glue"]
    shapes = [word if word in glue or not word[0].isalpha() else _shape(word) for word in words]
    pieces = {f"length {min(len(tokens) // 4, 6)}", *words}
    pieces |= {f"begins {word[:5]}" for word in words if len(word) > _LONG and word.isalpha()}
    pieces |= {f"{one} {other}" for one, other in pairwise(words)}
    pieces |= {f"{one} _ {other}" for one, other in zip(words, words[2:], strict=False)}
    pieces |= {" ".join(each) for each in zip(words, words[1:], words[2:], strict=False)}
    for size in (2, 3, 4):
        pieces |= {f"shape {' '.join(shapes[at : at + size])}" for at in range(len(shapes) - size + 1)}
        pieces |= {f"first {' '.join(words[:size])}", f"first shape {' '.join(shapes[: size + 1])}"}
    return pieces | _grammar(words, glue) | _around(sentences, at)


def _grammar(words: Sequence[str], glue: Collection[str]) -> set[str]:
    """Runs of the kinds of words, with nouns that follow each other as one."""
    kinds = [word if word in glue or not word[0].isalpha() else _kind(word) for word in words]
    line = [
        kind for kind, after in zip(kinds, [*kinds[1:], ""], strict=True) if not (kind in _NOUNS and after in _NOUNS)
    ]
    pieces = {f"kinds {' '.join(line[at : at + size])}" for size in (2, 3, 4) for at in range(len(line) - size + 1)}
    pieces |= {f"first kinds {' '.join(line[:size])}" for size in (3, 4, 5)}
    pieces |= {f"has {kind}" for kind in line if kind[0] == "~"}
    pieces.add(f"past {min(line.count('~past'), _MOST_VERBS)}")
    pieces.add(f"first verb {next((kind for kind in kinds if kind in ('~verb', '~does', '~past')), '')}")
    return pieces


def _around(sentences: Sequence[str], at: int) -> set[str]:
    """What the message around a sentence is like: a long one, or one that asks something, seldom states a rule."""
    asks = any(each.endswith("?") for each in sentences)
    return {
        f"lasting {speech('lasting').search(sentences[at]) is not None}",
        f"sentences {min(len(sentences), 6)}",
        f"sentence {min(at, 4)} of {min(len(sentences), 5)}",
        f"asks {asks}",
        f"asks {asks} in {min(len(sentences), 4)}",
        f"characters {min(8, sum(map(len, sentences)) // 120)}",
        f"begins with I {sentences[0][:2] in ('I ', 'i ') or sentences[0].startswith(_I)}",
    }


_NOUNS = ("~noun", "~nouns")


def _kind(word: str) -> str:
    """The kind of a word: a form of a known verb, else what its ending makes likely."""
    known = _verbs().get(word)
    if known:
        return known
    if word.endswith("s"):
        return "~noun" if word.endswith("ss") or len(word) <= _LONG - 1 else "~nouns"
    return next(
        (kind for ending, kind in (("ly", "~ly"), ("ed", "~past"), ("ing", "~doing")) if word.endswith(ending)), "~noun"
    )


@cache
def _verbs() -> dict[str, str]:
    """`text/verbs.txt`: the kind of each form of its verbs."""
    found: dict[str, str] = {}
    with open(os.path.join(TEXT, "verbs.txt"), encoding="utf-8") as file:
        verbs = [each.split(",") for line in file if line[0] != "#" for each in line.split()]
    found |= {verb: "~verb" for verb, *_ in verbs}
    for verb, *past in verbs:
        soft = verb[-1] == "y" and verb[-2] not in "aeiou"
        stem = verb[:-1] if verb[-1] == "e" else verb
        forms = dict.fromkeys((*past, f"{verb[:-1]}ied" if soft else f"{stem}ed"), "~past")
        forms[
            f"{verb[:-1]}ies" if soft else f"{verb}es" if verb.endswith(("s", "sh", "ch", "x", "o")) else f"{verb}s"
        ] = "~does"
        forms[f"{stem}ing"] = "~doing"
        if _DOUBLES.search(verb):
            forms |= {f"{verb}{verb[-1]}ing": "~doing", f"{verb}{verb[-1]}ed": "~past"}
        found = forms | found
    return found


def _shape(word: str) -> str:
    """Replaces a word by its ending, so that the model learns grammar instead of topics."""
    return next((f"~{end}" for end in _ENDINGS if word.endswith(end) and len(word) > len(end) + 2), "~")


def sentences_of(message: str) -> list[str]:
    """The person's own sentences that can be a rule: no quotations, no wishes to be reminded once."""
    text = speech("introduction").sub("", message.replace("\u2019", "'"))
    text = speech("rule-for").sub(r"For \g<what>, ", _TITLES.sub(r"\1", _QUOTED.sub(_kept_quote, text)))
    own = [sentence for sentence in own_sentences(_BULLET.sub("", text)) if 8 <= len(sentence) <= _LONGEST]  # noqa: PLR2004
    reminding = (speech("asks-reminder").search(each) and not speech("no-reminder").search(each) for each in own)
    return [each for each, once in zip(own, reminding, strict=True) if "\0" not in each and not once]


def _kept_quote(found: re.Match[str]) -> str:
    """A short quotation is part of a rule (sign with "Best, Jo"), unless it reads like a rule of somebody else."""
    said = found[1]
    return found[0] if len(said.split()) > 5 or speech("directive").search(said) else f"\u2018{said}\u2019"  # noqa: PLR2004


# --- the rules of a home ----------------------------------------------------------------------------------------------

FILE = "rules.json"
_MOST = 500


@value
class Rule:
    """One rule: the person's words, its trigger, and what it does to a call it fires on (`enforce`)."""

    id: str
    text: str
    when: Trigger
    enforce: str = HOLD
    on: bool = True
    created_at: float = 0.0
    session: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The rule as `rules.json` and the API hold it; empty parts of the trigger are left out."""
        kept = {key: list(each) for key, each in vars(self.when).items() if each and key != "times"}
        if self.when.times:
            kept["times"] = [window_as_dict(each) for each in self.when.times]
        told = {"id": self.id, "text": self.text, "when": kept, "enforce": self.enforce, "on": self.on}
        return {**told, "created_at": self.created_at, "session": self.session}

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Rule:
        """Reads a record of `rules.json`; an unknown `enforce` falls back to `hold`."""
        given = record.get("when") or {}
        lists = {key: tuple(map(str, given.get(key, ()))) for key in ("acts", "paths", "words", "tools", "commands")}
        when = Trigger(**lists, times=tuple(window_of(each) for each in given.get("times", ())))
        enforce = record.get("enforce")
        return cls(
            id=str(record["id"]),
            text=str(record["text"]),
            when=when,
            enforce=enforce if enforce in ENFORCE else HOLD,
            on=record.get("on") is not False,
            created_at=float(record.get("created_at") or 0),
            session=str(record.get("session") or ""),
        )


@value
class Fired:
    """A rule or reminder that came up, as receipts record it."""

    kind: str
    name: str
    text: str
    trigger: str
    enforce: str = TELL

    def as_dict(self) -> dict[str, str]:
        """The record for a receipt; `enforce` is left out."""
        return {key: each for key, each in vars(self).items() if key != "enforce"}


class RuleBook:
    """`rules.json` of a person's home."""

    def __init__(self, home: Home) -> None:
        self._document = Document(documents_of(home), FILE)

    def all(self) -> list[Rule]:
        """Every rule, oldest first; what cannot be understood in a file edited by hand is left out."""
        found = []
        for record in self._document.read().get("rules", ()):
            try:
                found.append(Rule.of(record))
            except (KeyError, TypeError, ValueError, AttributeError):
                continue
        return found

    def add(self, text: str, *, enforce: str = HOLD, session: str = "", when: Trigger | None = None) -> Rule:
        """Stores a rule, or switches on and returns the existing one with the same words."""
        text = " ".join(text.split())
        if not text or len(text) > _LONGEST:
            raise WriteRefused(f"a rule has 1 to {_LONGEST} characters; this one has {len(text)}", kind="length")

        def apply(held: dict[str, Any]) -> Rule:
            rules = held.setdefault("rules", [])
            known = next((each for each in rules if str(each.get("text", "")).casefold() == text.casefold()), None)
            if known is not None:
                known["on"] = True
                return Rule.of(known)
            if len(rules) >= _MOST:
                raise WriteRefused(f"there are {_MOST} rules already; `hermes rules remove ID` makes room", kind="full")
            made = Rule(
                id=f"r{new_id()[:4]}",
                text=text,
                when=when or trigger_of(text),
                enforce=enforce,
                created_at=time.time(),
                session=session,
            )
            rules.append(made.as_dict())
            return made

        return self._document.change(apply)

    def knows(self, text: str) -> bool:
        """Whether a rule with these words exists, ignoring case and spacing."""
        return any(each.text.casefold() == " ".join(text.split()).casefold() for each in self.all())

    def change(self, rule_id: str, **fields: Any) -> Rule:
        """Sets fields of a rule, such as `on` or `enforce`."""

        def apply(held: dict[str, Any]) -> Rule:
            record = _record(held, rule_id)
            record.update(fields)
            return Rule.of(record)

        return self._document.change(apply)

    def remove(self, rule_id: str) -> Rule:
        """Deletes a rule and returns it; raises NotFound when there is none with this id."""

        def apply(held: dict[str, Any]) -> Rule:
            record = _record(held, rule_id)
            held["rules"].remove(record)
            return Rule.of(record)

        return self._document.change(apply)

    def fired(self, now: Situation) -> list[Fired]:
        """Returns the rules that apply in a situation with the reason, those that ask the person first."""
        found = [(each, reason) for each in self.all() if each.on and (reason := why(each.when, now, each.text))]
        found.sort(key=lambda pair: -ENFORCE.index(pair[0].enforce))
        return [
            Fired(kind="rule", name=each.id, text=each.text, trigger=reason, enforce=_effect(each, reason))
            for each, reason in found
        ]


def within(fired: Sequence[Fired], tokens: int) -> list[Fired]:
    """Keeps the rules that fit the token budget; one that asks the person is never dropped."""
    kept, left = [], tokens
    for each in fired:
        left -= estimate(each.text)
        if left >= 0 or each.enforce == ASK:
            kept.append(each)
    return kept


def _effect(rule: Rule, reason: str) -> str:
    """What the rule does to this call; a shared topic alone is too weak a sign to hold the call back."""
    loose = not re.search(r"\b(?:act|path|tool|command) ", reason)
    return TELL if loose and rule.enforce == HOLD else rule.enforce


def _record(held: dict[str, Any], rule_id: str) -> dict[str, Any]:
    for record in held.get("rules", ()):
        if record.get("id") == rule_id:
            found: dict[str, Any] = record
            return found
    raise NotFound(f"there is no rule {rule_id!r}; `hermes rules list` shows them")


class RulesInForce:
    """The rules of one session: finds new ones in what the person says, and shows each at most once in a turn."""

    def __init__(self, book: RuleBook, approvals: Approvals, *, tokens: int, enforce: str) -> None:
        self.book = book
        self._approvals = approvals
        self._tokens = tokens
        self._enforce = enforce
        self._told: set[str] = set()  # in this turn
        self._heard: set[str] = set()  # noted from the message of this turn, which the model reads anyway
        self._once: set[str] = set()  # in this session
        self._said = ""

    def hear(self, said: str, turn: TurnContext) -> list[str]:
        """Stores the rules a message states, with a notice for each; stages those that may not be the person's."""
        told = []
        for text in stated_rules(said):
            if self.book.knows(text):
                continue
            decision = decide("rules", turn, writes=[text])
            if decision.allowed:
                rule = self.book.add(text, enforce=self._enforce, session=turn.session)
                told.append(
                    f"new rule: “{rule.text}” Applies to: {rule.when.in_short()}."
                    f" `hermes rules off {rule.id}` switches it off"
                )
                self._once.add(rule.id)
                self._heard.add(rule.id)
            else:
                cause = Cause(origin=decision.origin or "unknown", session=turn.session)
                operation = {"action": "add", "content": text}
                self._approvals.stage("rules", [operation], cause, decision.reason, sources=decision.evidence())
        return told

    def begin(self, said: str, at: datetime) -> list[Fired]:
        """Begins a turn and returns the rules that apply to the person's message."""
        self._told, self._heard, self._said = self._heard, set(), said
        if not self.book.all():
            return []
        fired = self._new(Situation("", None, said, at))
        return [*self._everywhere(), *fired]

    def before_call(self, tool: str, arguments: Mapping[str, Any], at: datetime) -> list[Fired]:
        """Returns the rules that apply to a call; of those already shown in this turn, only the ones that ask."""
        return self._new(Situation(tool, arguments, self._said, at)) if self.book.all() else []

    def _everywhere(self) -> list[Fired]:
        """Rules without a trigger ("always answer in German"): once in a session."""
        found = [each for each in self.book.all() if each.on and each.when.is_empty and each.id not in self._once]
        self._once.update(each.id for each in found)
        fired = [Fired(kind="rule", name=each.id, text=each.text, trigger="every session") for each in found]
        return within(fired, self._tokens)

    def _new(self, now: Situation) -> list[Fired]:
        fired = [each for each in self.book.fired(now) if each.enforce == ASK or each.name not in self._told]
        kept = within(fired, self._tokens)
        self._told.update(each.name for each in kept)
        return kept
