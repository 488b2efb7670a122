"""Standing instructions of the person: found in what they say, kept, and brought up when they apply.

A rule in a prompt of ten thousand words is easily missed; one that arrives with a `git commit` is not. Each rule is a
sentence of the person with a trigger (`memory/triggers`). No model is used. English only.
"""

from __future__ import annotations

import re
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from hermes.base import linear
from hermes.base.errors import NotFound, WriteRefused
from hermes.base.tokens import estimate
from hermes.base.values import lazy_pattern, value
from hermes.memory.entries import Cause
from hermes.memory.triggers import WEIGHTS, Situation, Trigger, speech, trigger_of, why, window_as_dict, window_of
from hermes.safety.trust import decide, own_sentences
from hermes.settings.config import documents_of
from hermes.storage.documents import Document, new_id

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from hermes.memory.approval import Approvals
    from hermes.safety.trust import TurnContext
    from hermes.settings.home import Home

TELL, HOLD, ASK = "tell", "hold", "ask"  # what a rule does to a call it fires on
ENFORCE = (TELL, HOLD, ASK)

# --- which sentences state a rule -------------------------------------------------------------------------------------

_TOKEN = lazy_pattern(r"[^\W_]+(?:'[^\W_]+)*|\S")
_ENDINGS = ("ing", "ed", "ly", "tion", "s")
_OUTRIGHT = 4.0  # how far the threshold drops for a sentence that states outright that it is a rule
_LONG = 4  # letters of a word whose beginning counts too
_LONGEST = 400  # characters of a sentence that can be a rule
_BULLET = lazy_pattern(r"^\s*(?:[-*•]|\d+[.)])\s+", re.MULTILINE)
_QUOTED = lazy_pattern(r"[\"“]([^\"“”\n]*)[\"”]")
_TITLES = lazy_pattern(r"\b(Dr|Mr|Mrs|Ms|Prof|St|Jr|vs|approx|Inc|Ltd)\.(?=\s)")


def stated_rules(message: str) -> list[str]:
    """The sentences of the person's message that state a standing rule; most messages have none."""
    return [sentence for sentence in sentences_of(message) if states_rule(sentence)]


def states_rule(sentence: str) -> bool:
    """Whether a sentence is a standing rule: it has a sign of lasting, and the trained model scores it as a rule."""
    if not has_sign(sentence):
        return False
    threshold: float = linear.numbers(WEIGHTS, "rules")["table"]["threshold"]
    threshold -= _OUTRIGHT * (speech("outright").search(sentence) is not None)
    return linear.score(WEIGHTS, "rules", linear.places(wording(sentence))) > threshold


def has_sign(sentence: str) -> bool:
    """Whether the sentence has a word that makes it last; without one it is no rule, whatever its wording."""
    return speech("lasting").search(sentence) is not None


def wording(sentence: str) -> set[str]:
    """The pieces of a sentence: its words, and runs of them with and without what they are about."""
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
    return pieces


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
            else:
                cause = Cause(origin=decision.origin or "unknown", session=turn.session)
                operation = {"action": "add", "content": text}
                self._approvals.stage("rules", [operation], cause, decision.reason, sources=decision.evidence())
        return told

    def begin(self, said: str, at: datetime) -> list[Fired]:
        """Begins a turn and returns the rules that apply to the person's message."""
        self._told, self._said = set(), said
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
