"""What work in the background may cost in a day, what it did cost, what waits, and whether it is of use.

Reviews, curation, digests of search results, notes and titles ask a model while nobody waits for the answer. Each call
is counted in the database, by day and task. When the budget of a day is spent, reviews and curation wait for the next
day and everything else goes on without a model. Vectors of meaning are made on this machine and cost nothing.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from hermes.base.errors import SettingsError
from hermes.base.values import value
from hermes.llm.catalogue import cost_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hermes.base.events import Usage
    from hermes.conversations.database import SessionDB
    from hermes.settings.config import Settings

REVIEW, CURATION, COMPACTION = "background_review", "curator", "compression"  # tasks, as `auxiliary.*` names them
CACHED = 0.1  # what a cached token costs of a fresh one, with every provider about a tenth
_SPENT, _WAITING, _IDLE = "background:spent:", "background:waiting:", "background:idle:"
_KEPT_DAYS = 31
CUT_OFF = "it was cut off"
_LONGEST_REVIEW = 1800.0  # seconds, after which one that did not end was killed
_MOST_BEGUN = 3


@value
class Waiting:
    """A review that is due, of a conversation; `about` is what it looks for."""

    session: str
    at: float
    about: tuple[str, ...]
    why: str


class Background:
    """The budget of one person's background work."""

    def __init__(self, database: SessionDB, settings: Settings, now: Callable[[], float] = time.time) -> None:
        self._database = database
        self._settings = settings
        self._now = now

    def why_not(self, expected: int = 0, task: str = "") -> str:
        """Why nothing more may be asked today, if a call takes about so many tokens; "" when it may."""
        tokens, dollars = self._settings.integer("background.tokens_per_day"), self._limit_in_dollars()
        spent, expected = self.spent(), max(1, expected)
        spent.pop(COMPACTION, None)  # shown, and no reason for others to wait: it must happen
        used = sum(each["tokens"] for each in spent.values())
        if tokens and used + expected > tokens:
            return f"background work took {used:,} tokens today; background.tokens_per_day is {tokens:,}"
        cost = sum(each["cost"] for each in spent.values())
        if dollars and cost >= dollars:
            return f"background work cost ${cost:.4f} today; background.cost_per_day is ${dollars:g}"
        reviews = self._settings.integer("review.daily_tokens") if task == REVIEW else 0
        used = spent.get(REVIEW, {}).get("tokens", 0)
        if reviews and used + expected > reviews:
            return f"today's reviews took {used:,} tokens; review.daily_tokens is {reviews:,}"
        return ""

    def can_ever_pay(self, expected: int, task: str = "") -> bool:
        """Whether a whole day's budget is enough for a call of so many tokens."""
        limits = [self._settings.integer("background.tokens_per_day")]
        limits += [self._settings.integer("review.daily_tokens")] if task == REVIEW else []
        return all(not limit or expected <= limit for limit in limits)

    def count(self, task: str, usage: Usage, model: str) -> int:
        """Adds one call of a model; returns its tokens, a cached one counted as a tenth."""
        fresh = usage.input_tokens - usage.cache_read_tokens
        tokens = int(fresh + usage.cache_read_tokens * CACHED + usage.output_tokens)
        key = f"{_SPENT}{self._day()}:{task}"
        with self._database.store.transaction():  # others count, too
            before = _opened(self._database.get_meta(key))
            if not before:
                self._drop_old_days()
            after = {
                "tokens": before.get("tokens", 0) + tokens,
                "cost": before.get("cost", 0.0) + (self._cost(model, usage) or 0.0),
                "calls": before.get("calls", 0) + 1,
            }
            self._database.set_meta(key, json.dumps(after))
        return tokens

    def spent(self) -> dict[str, dict[str, Any]]:
        """Tokens, dollars (where prices are known) and calls of today, by task."""
        kept = self._database.store.meta_from(f"{_SPENT}{self._day()}:")
        return {task: {"tokens": 0, "cost": 0.0, "calls": 0, **_opened(text)} for task, text in kept}

    def by_day(self) -> dict[str, dict[str, float]]:
        """Tokens and dollars of all tasks, for the days that are kept."""
        days: dict[str, dict[str, float]] = {}
        for key, text in self._database.store.meta_from(_SPENT):
            day, kept = days.setdefault(key.partition(":")[0], {"tokens": 0, "cost": 0.0}), _opened(text)
            for name in day:
                day[name] += kept.get(name, 0)
        return days

    # What waits for the next day.

    def wait(self, session_id: str, about: Iterable[str], why: str) -> None:
        """A review of this conversation is due and may not be paid today."""
        if not self._database.get_meta(f"{_WAITING}{session_id}"):
            kept = {"at": self._now(), "about": sorted(about), "why": why}
            self._database.set_meta(f"{_WAITING}{session_id}", json.dumps(kept))

    def begin(self, session_id: str, about: Iterable[str]) -> bool:
        """A review is under way; if this process is killed, it waits again after a while. False after many kills."""
        key = f"{_WAITING}{session_id}"
        begun = _opened(self._database.get_meta(key)).get("begun", 0) + 1
        kept = {"at": self._now(), "about": sorted(about), "why": CUT_OFF, "begun": begun}
        self._database.set_meta(key, json.dumps(kept) if begun <= _MOST_BEGUN else None)
        return bool(begun <= _MOST_BEGUN)

    def waiting(self) -> list[Waiting]:
        """What waits, the longest first; not what somebody is at."""
        under_way = self._now() - _LONGEST_REVIEW
        kept = [(session, _opened(text)) for session, text in self._database.store.meta_from(_WAITING)]
        found = [
            Waiting(session=session, at=each["at"], about=tuple(each["about"]), why=each["why"])
            for session, each in kept
            if each and not (each.get("begun") and each["at"] > under_way)
        ]
        return sorted(found, key=lambda each: each.at)

    def done(self, session_id: str) -> None:
        """The review was made, or there is nothing left to look at."""
        if self._database.get_meta(f"{_WAITING}{session_id}"):
            self._database.set_meta(f"{_WAITING}{session_id}", None)

    # Whether it is of use.

    def consolidated(self, task: str, *, changed: bool, tokens: int) -> None:
        """A run of a task has ended; those that spend and change nothing, one after the other, raise an alarm."""
        before = _opened(self._database.get_meta(f"{_IDLE}{task}"))
        if changed:
            self._database.set_meta(f"{_IDLE}{task}", None)
        elif tokens:
            after = {
                "runs": before.get("runs", 0) + 1,
                "tokens": before.get("tokens", 0) + tokens,
                "since": before.get("since", self._day()),
            }
            self._database.set_meta(f"{_IDLE}{task}", json.dumps(after))

    def alarms(self) -> list[str]:
        """What has done nothing for long and was paid for, in words."""
        most = self._settings.integer("background.alarm_after")
        found = []
        for task, text in self._database.store.meta_from(_IDLE):
            idle = _opened(text)
            if most and idle.get("runs", 0) >= most:
                spent = f"the last {idle['runs']} runs of {_NAMES.get(task, task)} changed nothing and took"
                found.append(f"{spent} {idle['tokens']:,} tokens since {idle['since']}; {_REMEDIES.get(task, '')}")
        return found

    def as_dict(self) -> dict[str, Any]:
        """For `hermes status` and its JSON."""
        by_task = self.spent()
        compacted = by_task.pop(COMPACTION, {"tokens": 0, "cost": 0.0, "calls": 0})
        return {
            **{name: sum(each[name] for each in by_task.values()) for name in ("tokens", "cost", "calls")},
            "by_task": by_task,
            "compaction": compacted,
            "tokens_per_day": self._settings.integer("background.tokens_per_day"),
            "cost_per_day": self._limit_in_dollars(),
            "spent": self.why_not(),
            "waiting": [{**vars(each), "about": list(each.about)} for each in self.waiting()],
            "alarms": self.alarms(),
        }

    def _limit_in_dollars(self) -> float:
        return self._settings.number("background.cost_per_day")

    def _cost(self, model: str, usage: Usage) -> float | None:
        ttl = self._settings.text("prompt_caching.cache_ttl")
        try:
            return cost_of(model, usage, own=self._settings.get("model.prices"), cache_ttl=ttl)
        except SettingsError:
            return None  # the turn's own cost says what is wrong with the prices

    def _drop_old_days(self) -> None:
        oldest = time.strftime("%Y-%m-%d", time.localtime(self._now() - _KEPT_DAYS * 86_400))
        for key, _ in self._database.store.meta_from(_SPENT):
            if key < oldest:
                self._database.set_meta(f"{_SPENT}{key}", None)

    def _day(self) -> str:
        return time.strftime("%Y-%m-%d", time.localtime(self._now()))


_NAMES = {REVIEW: "the review", CURATION: "the curator"}
_REMEDIES = {
    REVIEW: "try another model for it (auxiliary.background_review), or review.enabled: false",
    CURATION: "try another model for it (auxiliary.curator), or curator.consolidate: false",
}


def _opened(stored: object) -> dict[str, Any]:
    try:
        found = json.loads(stored) if isinstance(stored, str) else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
