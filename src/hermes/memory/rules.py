"""Standing instructions of the person: found in what they say, kept, and brought up when they apply.

A rule that stands in a prompt of ten thousand words is easily missed; one that arrives with a `git commit` is not. Each
is a sentence of the person with a trigger (`memory/triggers`). No model is asked. English only.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from hermes.base.errors import NotFound, WriteRefused
from hermes.base.tokens import estimate
from hermes.base.values import lazy_pattern, value
from hermes.memory.entries import Cause
from hermes.memory.triggers import (
    Situation,
    Trigger,
    acts_in,
    is_narrow,
    speech,
    stripped,
    trigger_of,
    why,
    window_as_dict,
    window_of,
)
from hermes.safety.statements import own_sentences
from hermes.safety.trust import decide
from hermes.settings.config import documents_of
from hermes.storage.documents import Document, new_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from hermes.memory.approval import Approvals
    from hermes.safety.trust import TurnContext
    from hermes.settings.home import Home

TELL, HOLD, ASK = "tell", "hold", "ask"  # what a rule does to a call it fires on
ENFORCE = (TELL, HOLD, ASK)

# --- which sentences state a rule -------------------------------------------------------------------------------------

_LONGEST = 400  # characters of a sentence that can be a rule
_BULLET = lazy_pattern(r"^\s*(?:[-*•]|\d+[.)])\s+", re.MULTILINE)
_CARELESS = lazy_pattern(r"\b(do|does|ca|wo|should|must)nt\b", re.IGNORECASE)
_QUOTED = lazy_pattern(r"[\"“]([^\"“”\n]*)[\"”]")
_TITLES = lazy_pattern(r"\b(Dr|Mr|Mrs|Ms|Prof|St|Jr|vs|approx|Inc|Ltd)\.(?=\s)")


def stated_rules(message: str) -> list[str]:
    """The sentences of the person's message that state a standing rule; most messages have none."""
    text = speech("introduction").sub("", _CARELESS.sub(r"\1n't", message.replace("\u2019", "'")))
    text = speech("rule-for").sub(r"For \g<what>, ", _TITLES.sub(r"\1", _QUOTED.sub(_kept_quote, text)))
    if speech("about-a-text").search(text):
        return []
    found = []
    for sentence in own_sentences(_BULLET.sub("", text)):
        for part in _parts(sentence):
            if "\0" not in part and 8 <= len(part) <= _LONGEST and _is_rule(part):  # noqa: PLR2004
                found.append(part.strip())
                break
    return found


def _kept_quote(found: re.Match[str]) -> str:
    """A short quotation is part of a rule (sign with "Best, Jo"), unless it reads like a rule of somebody else."""
    said = found[1]
    return found[0] if len(said.split()) > 5 or speech("directive").search(said) else f"\u2018{said}\u2019"  # noqa: PLR2004


def _parts(sentence: str) -> Iterator[str]:
    """The sentence, and what it says behind "so", "but" or a dash: a reason may stand before its rule."""
    yield sentence
    for found in speech("part").finditer(sentence):
        if not speech("reported").search(sentence[: found.start()]):
            yield sentence[found.end() :]


def _is_rule(sentence: str) -> bool:
    lasts = bool(speech("stands").search(sentence))
    plain, polite = stripped(sentence)
    if not plain or _is_no_command(plain, polite=polite):
        return False
    bare = speech("stands").sub("", sentence)
    passing = speech("not-yet").search(bare) and not speech("lasting").search(bare)
    if not lasts and (passing or speech("told").search(plain)):
        return False
    ours = speech("our-way").match(plain) and acts_in(plain)
    if ours or speech("habit").search(plain):
        return bool(ours)
    core = speech("modal").sub("", plain)
    form, strong, makes = speech("form").search(plain), speech("strong").search(plain), speech("makes-one").match(core)
    if lasts or (strong and not makes):
        return bool(form or strong or speech("lasting").search(plain))
    return bool(form) and not _is_one_task(plain, core) and _is_about_something(sentence, plain, core)


def _is_no_command(plain: str, *, polite: bool) -> bool:
    """A question, a report, a thought, a wish, or a sentence about somebody else."""
    return bool(
        (speech("asked").search(plain) and not polite)
        or (speech("reported").search(plain) and not (speech("if").match(plain) or speech("plain").match(plain)))
        or speech("hypothetical").search(plain)
        or speech("wish").match(plain)
        or (speech("asks-reminder").search(plain) and not speech("no-reminder").search(plain))
    )


def _is_one_task(plain: str, core: str) -> bool:
    """Something to be done once: one new thing, one thing that is there, many things now, or until a day."""
    return bool(
        (speech("makes-one").match(core) and not speech("every-new").search(core))
        or speech("deadline").search(plain)
        or (speech("bulk").match(core) and not speech("ways").match(core) and not speech("recurs").search(core))
        or (speech("over").search(plain) and speech("if").match(plain))
        or (speech("definite").match(core) and not speech("each-time").search(core))
        or (_points_at_one(plain) and not speech("every-one").search(plain))
    )


def _points_at_one(plain: str) -> bool:
    """Whether "it" or "them" stands for something outside of the sentence."""
    found = speech("about-one").search(speech("except").sub("", plain))
    return found is not None and not speech("named-before").search(plain[: found.start()])


def _is_about_something(sentence: str, plain: str, core: str) -> bool:
    trigger, generic = trigger_of(sentence), speech("generic").search(plain)
    if trigger.is_empty or generic:
        return not trigger.is_empty
    if speech("plain").match(core) and not speech("subject").match(core):
        kept = speech("ways").match(core) and (trigger.paths or is_narrow(trigger))
        return bool(kept or speech("plural").match(core))
    kind = speech("subject").match(core) and not re.match(r"(?:the|this|that|these|those)\b", core, re.IGNORECASE)
    return bool(trigger.paths or trigger.acts or trigger.times or kind or speech("negative").match(plain))


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
        kept = {key: list(each) for key, each in vars(self.when).items() if each and key != "times"}
        if self.when.times:
            kept["times"] = [window_as_dict(each) for each in self.when.times]
        told = {"id": self.id, "text": self.text, "when": kept, "enforce": self.enforce, "on": self.on}
        return {**told, "created_at": self.created_at, "session": self.session}

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Rule:
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
        """Keeps a rule; the one that says the same already is returned instead."""
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
        return any(each.text.casefold() == " ".join(text.split()).casefold() for each in self.all())

    def change(self, rule_id: str, **fields: Any) -> Rule:
        """Sets fields of a rule, such as `on` or `enforce`."""

        def apply(held: dict[str, Any]) -> Rule:
            record = _record(held, rule_id)
            record.update(fields)
            return Rule.of(record)

        return self._document.change(apply)

    def remove(self, rule_id: str) -> Rule:
        def apply(held: dict[str, Any]) -> Rule:
            record = _record(held, rule_id)
            held["rules"].remove(record)
            return Rule.of(record)

        return self._document.change(apply)

    def fired(self, now: Situation) -> list[Fired]:
        """The rules that apply in a situation, with the reason; those that need the person first."""
        found = [(each, reason) for each in self.all() if each.on and (reason := why(each.when, now))]
        found.sort(key=lambda pair: -ENFORCE.index(pair[0].enforce))
        return [
            Fired(kind="rule", name=each.id, text=each.text, trigger=reason, enforce=_effect(each, reason))
            for each, reason in found
        ]


def within(fired: Sequence[Fired], tokens: int) -> list[Fired]:
    """As many as fit the budget; one that asks the person is never left out."""
    kept, left = [], tokens
    for each in fired:
        left -= estimate(each.text)
        if left >= 0 or each.enforce == ASK:
            kept.append(each)
    return kept


def _effect(rule: Rule, reason: str) -> str:
    """A call that only shares a topic with a rule is not held back for it: that is too often something else."""
    loose = not re.search(r"\b(?:act|path|tool|command) ", reason)
    return TELL if loose and rule.enforce == HOLD else rule.enforce


def _record(held: dict[str, Any], rule_id: str) -> dict[str, Any]:
    for record in held.get("rules", ()):
        if record.get("id") == rule_id:
            found: dict[str, Any] = record
            return found
    raise NotFound(f"there is no rule {rule_id!r}; `hermes rules list` shows them")


class RulesInForce:
    """The rules of one session: hears them in what the person says, and brings each up once in a turn."""

    def __init__(self, book: RuleBook, approvals: Approvals, *, tokens: int, enforce: str) -> None:
        self.book = book
        self._approvals = approvals
        self._tokens = tokens
        self._enforce = enforce
        self._told: set[str] = set()  # in this turn
        self._once: set[str] = set()  # in this session
        self._said = ""

    def hear(self, said: str, turn: TurnContext) -> list[str]:
        """Keeps the rules of a message, or stages what did not come from the person; says so in a line each."""
        told = []
        for text in stated_rules(said):
            if self.book.knows(text):
                continue
            decision = decide("rules", turn, writes=[text])
            if decision.allowed:
                rule = self.book.add(text, enforce=self._enforce, session=turn.session)
                told.append(
                    f"rule {rule.id} noted: {rule.text} (fires on {rule.when.in_words()}; `hermes rules off {rule.id}`)"
                )
                self._once.add(rule.id)
            else:
                cause = Cause(origin=decision.origin or "unknown", session=turn.session)
                operation = {"action": "add", "content": text}
                self._approvals.stage("rules", [operation], cause, decision.reason, sources=decision.evidence())
        return told

    def begin(self, said: str, at: datetime) -> list[Fired]:
        """A turn begins: the rules that the person's words call for."""
        self._told, self._said = set(), said
        if not self.book.all():
            return []
        fired = self._new(Situation("", None, said, at))
        return [*self._everywhere(), *fired]

    def before_call(self, tool: str, arguments: Mapping[str, Any], at: datetime) -> list[Fired]:
        """The rules that a call fires: all that ask the person, and of the others those not told in this turn."""
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
