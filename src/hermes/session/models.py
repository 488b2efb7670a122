"""Opens the models that the settings name (main model, fallbacks, helpers) and limits what background work costs.

Keys come from the environment or from the `.env` next to the settings. Opening a model calls no provider, but a model
without a known provider is looked for on the usual ports of this machine.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hermes.base.errors import (
    Interrupted,
    ModelError,
    ModelUnreachable,
    NotFound,
    SettingsError,
    StorageError,
    WrongKey,
)
from hermes.base.tokens import estimate
from hermes.llm.catalogue import cost_of
from hermes.session.context import kept_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hermes.base.events import Usage
    from hermes.conversations.database import SessionDB
    from hermes.llm.client import Model
    from hermes.settings.config import Settings

    Helper = Callable[[str, str], str]

SCRIPTED = "scripted"  # the model provider that replays a script file, for tests and demonstrations


def main_model(settings: Settings, name: str = "", *, person: str = "") -> Model:
    """Opens the main model: `name`, else `model.default`, else one that a server on this machine offers.

    `person` identifies whose conversations it answers; OpenAI looks for a cached prompt among theirs first.
    """
    fallbacks = settings.texts("fallback_models")
    first = _named(settings, name or settings.text("model.default"), person)
    if not fallbacks:
        return first
    from hermes.llm.client import Fallback

    return Fallback([first, *(_named(settings, other, person) for other in fallbacks)])


def helper_model(settings: Settings, task: str, *, main: Model | None = None, own_only: bool = False) -> Model | None:
    """Opens the model of a background task; None when the task is switched off or no model is available.

    A task whose settings name no model uses `main`, or else the main model of the settings; with `own_only` it has no
    model.
    """
    block = f"auxiliary.{task}"
    if not settings.flag(f"{block}.enabled"):
        return None
    chosen = settings.text(f"{block}.provider") not in ("", "auto", "main")
    if chosen or settings.text(f"{block}.model") or settings.text(f"{block}.base_url"):
        return _helper_of(settings, block)
    if main is not None or own_only:
        return None if own_only else main
    try:
        return main_model(settings)
    except (NotFound, WrongKey):
        return None


def helper(
    settings: Settings,
    task: str,
    *,
    main: Model | None = None,
    own_only: bool = False,
    budget: Background | None = None,
    seconds: float | None = None,
    counted_as: str = "",
) -> Helper | None:
    """Returns a function that asks the model of a background task; an answer that takes too long is an error.

    `seconds` replaces the timeout of the settings, and `counted_as` the name under which the calls are counted. With a
    `budget`, each call is counted, and refused with a ModelError once the budget of the day is spent.
    """
    model = helper_model(settings, task, main=main, own_only=own_only)
    if model is None:
        return None
    limit = settings.number(f"auxiliary.{task}.timeout") if seconds is None else seconds
    language = settings.text(f"auxiliary.{task}.language")

    def ask(system: str, text: str) -> str:
        wanted = f"{system}\n\nWrite in this language: {language}" if language else system
        return answer(model, wanted, text, limit, task=counted_as or task, budget=budget)

    return ask


def answer(
    model: Model,
    system: str,
    text: str,
    seconds: float,
    *,
    task: str = "",
    budget: Background | None = None,
    limited: bool = True,
    once: bool = False,
) -> str:
    """Asks one question without tools and returns the answer; it must arrive within `seconds`.

    With `once`, the first failure is raised instead of retried. With a `budget`, the call is counted for the task, and
    refused when the day's budget is spent; without `limited` it is only counted.
    """
    from hermes.base.events import Finished, Retrying

    if budget is not None and limited and (why := budget.why_not(estimate(system) + estimate(text), task)):
        raise ModelError(f"{why}; background work continues tomorrow")
    end = time.monotonic() + seconds
    asked = model.stream(system, [{"role": "user", "content": text}], cancelled=lambda: time.monotonic() > end)
    try:
        for event in asked:
            if once and isinstance(event, Retrying):
                raise event.error
            if isinstance(event, Finished):
                finished = event
    except Interrupted as error:
        raise ModelUnreachable(f"{model.name} did not answer within {seconds:g} s") from error
    if budget is not None:
        with suppress(StorageError):  # return an answer that was paid for even if it cannot be counted
            budget.count(task, finished.usage, finished.model or model.name)
    content = finished.message.get("content") or ""
    return content if isinstance(content, str) else "".join(str(part.get("text", "")) for part in content)


def dollars_for(settings: Settings, model: str, usage: Usage) -> float | None:
    """What an answer cost; None when the prices are unknown. SettingsError when `model.prices` is invalid."""
    ttl = settings.text("prompt_caching.cache_ttl")
    return cost_of(model, usage, own=settings.get("model.prices"), cache_ttl=ttl)


def _named(settings: Settings, name: str, person: str = "") -> Model:
    """Opens a model by its name; the other `model.*` settings apply only to the default model."""
    if script := _script(settings, name):
        from hermes.llm.scripted import ScriptFile

        return ScriptFile(script, context_length=settings.get("model.context_length"))
    if name == "local" or name.startswith("local/"):  # it runs inside this process
        from hermes.llm.embedded import EmbeddedModel

        return EmbeddedModel(name, threads=settings.integer("model.threads"))
    is_default = name == settings.text("model.default")
    return _opened(
        settings,
        name,
        provider=settings.text("model.provider") if is_default else "",
        base_url=settings.text("model.base_url") if is_default or "/" not in name else "",
        context_length=settings.get("model.context_length") if is_default else None,
        vision=settings.get("model.vision") if is_default else None,
        timeout=settings.number("model.timeout"),
        extra_body=settings.get("model.extra_body"),
        person=person,
    )


def _script(settings: Settings, name: str) -> str:
    """The script file that a name means: `scripted:FILE`, or any name while model.provider is scripted."""
    kind, colon, path = name.partition(":")
    if colon and kind == SCRIPTED:
        return _beside(settings, path)
    if settings.text("model.provider") != SCRIPTED:
        return ""
    if not name:
        raise SettingsError(
            "model.provider is scripted, but model.default names no script: `hermes config set model.default FILE`"
        )
    return _beside(settings, name)


def script_from_here(name: str) -> str:
    """Resolves a typed model name: the file of `scripted:FILE` is looked for in the current folder first."""
    kind, colon, path = name.partition(":")
    here = os.path.abspath(os.path.expanduser(path))
    return f"{kind}:{here}" if colon and kind == SCRIPTED and os.path.exists(here) else name


def _beside(settings: Settings, path: str) -> str:
    return os.path.join(os.path.dirname(settings.path), os.path.expanduser(path))


def _helper_of(settings: Settings, block: str) -> Model:
    from hermes.llm.client import Retries

    name = settings.text(f"{block}.model")
    if name.startswith((f"{SCRIPTED}:", "local/")) or name == "local":
        return _named(settings, name)
    provider = settings.text(f"{block}.provider")
    return _opened(
        settings,
        name or settings.text("model.default"),
        provider="" if provider in ("auto", "main") else provider,
        base_url=settings.text(f"{block}.base_url"),
        key=settings.text(f"{block}.api_key"),
        timeout=settings.number(f"{block}.timeout"),
        extra_body=settings.get(f"{block}.extra_body"),
        effort=settings.text(f"{block}.reasoning_effort"),
        retries=Retries(attempts=1 + settings.integer("auxiliary.transient_retries")),
        block=block,
    )


def _opened(
    settings: Settings,
    name: str,
    *,
    block: str = "model",
    effort: str = "",
    person: str = "",
    retries: Any = None,
    **given: Any,
) -> Model:
    from dataclasses import replace

    from hermes.llm.catalogue import find_local_server, is_at_vendor, list_models, open_model, resolve
    from hermes.settings.config import secret
    from hermes.settings.home import Home

    folder = os.path.dirname(settings.path)
    keys = Home(path=folder, root=folder)
    endpoint = resolve(
        name,
        lambda key: secret(keys, key),
        cache_ttl=settings.text("prompt_caching.cache_ttl"),
        find_local=lambda: find_local_server(list_models),
        settings=block,
        **given,
    )
    if effort:
        asked = {"output_config": {"effort": effort}} if endpoint.wire == "anthropic" else {"reasoning_effort": effort}
        endpoint = replace(endpoint, extra_body=asked | endpoint.extra_body)
    if person and is_at_vendor(endpoint, "openai"):
        key = hashlib.sha256(person.encode("utf-8", "replace")).hexdigest()[:32]  # does not reveal the person
        endpoint = replace(endpoint, extra_body={"prompt_cache_key": key} | endpoint.extra_body)
    return open_model(endpoint, retries)


# The budget of background work: its daily limits, what it spent, which reviews wait, and whether it changes anything.
#
# Reviews, curation, digests of search results, notes and titles ask a model while nobody waits for the answer. Each
# call is counted in the database, by day and task. When the budget of a day is spent, reviews and curation wait for the
# next day, and everything else continues without a model. Embeddings are computed on this machine and cost nothing.

REVIEW, CURATION, COMPACTION = "background_review", "curator", "compression"  # tasks, as `auxiliary.*` names them
CACHED = 0.1  # price of a cached token relative to a fresh one: about a tenth with every provider
_SPENT, _WAITING, _IDLE = "background:spent:", "background:waiting:", "background:idle:"
_KEPT_DAYS = 31  # older daily counts are deleted
CUT_OFF = "it was cut off"  # why a review waits whose process was killed
_LONGEST_REVIEW = 1800.0  # seconds; a review that began earlier and has not ended was killed with its process
_MOST_BEGUN = 3  # starts after which a review that was killed each time is given up


class Background:
    """One person's budget for background work, counted in their database."""

    def __init__(self, database: SessionDB, settings: Settings, now: Callable[[], float] = time.time) -> None:
        self._database = database
        self._settings = settings
        self._now = now

    def why_not(self, expected: int = 0, task: str = "") -> str:
        """Why a call of about `expected` tokens is not allowed today; "" when it is."""
        tokens, dollars = self._settings.integer("background.tokens_per_day"), self._limit_in_dollars()
        spent, expected = self.spent(), max(1, expected)
        spent.pop(COMPACTION, None)  # a compaction must happen, so its cost does not make other tasks wait
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
        """Whether a whole day's budget covers a call of `expected` tokens; if not, waiting is pointless."""
        limits = [self._settings.integer("background.tokens_per_day")]
        limits += [self._settings.integer("review.daily_tokens")] if task == REVIEW else []
        return all(not limit or expected <= limit for limit in limits)

    def count(self, task: str, usage: Usage, model: str) -> int:
        """Adds one model call to the counts of today and returns its tokens; a cached token counts as a tenth."""
        fresh = usage.input_tokens - usage.cache_read_tokens
        tokens = int(fresh + usage.cache_read_tokens * CACHED + usage.output_tokens)
        key = f"{_SPENT}{self._day()}:{task}"
        with self._database.store.transaction():  # other processes count at the same time
            before = kept_object(self._database.get_meta(key))
            if not before:
                self._drop_old_days()
            cost = before.get("cost", 0.0)
            with suppress(SettingsError):  # `MemorySession` already reports wrong prices, with the cost of the turn
                cost += dollars_for(self._settings, model, usage) or 0.0
            after = {
                "tokens": before.get("tokens", 0) + tokens,
                "cost": cost,
                "calls": before.get("calls", 0) + 1,
            }
            self._database.set_meta(key, json.dumps(after))
        return tokens

    def spent(self) -> dict[str, dict[str, Any]]:
        """Tokens, dollars (where prices are known) and calls of today, by task."""
        kept = self._database.store.meta_from(f"{_SPENT}{self._day()}:")
        return {task: {"tokens": 0, "cost": 0.0, "calls": 0, **kept_object(text)} for task, text in kept}

    def by_day(self) -> dict[str, dict[str, float]]:
        """Tokens and dollars of all tasks together, for each day that is kept."""
        days: dict[str, dict[str, float]] = {}
        for key, text in self._database.store.meta_from(_SPENT):
            day, kept = days.setdefault(key.partition(":")[0], {"tokens": 0, "cost": 0.0}), kept_object(text)
            for name in day:
                day[name] += kept.get(name, 0)
        return days

    # Reviews that wait for the next day.

    def wait(self, session_id: str, about: Iterable[str], why: str) -> None:
        """Notes that a review of this conversation is due but today's budget does not cover it."""
        if not self._database.get_meta(f"{_WAITING}{session_id}"):
            kept = {"at": self._now(), "about": sorted(about), "why": why}
            self._database.set_meta(f"{_WAITING}{session_id}", json.dumps(kept))

    def begin(self, session_id: str, about: Iterable[str]) -> bool:
        """Notes that a review starts, so that it is repeated if the process is killed; False after too many kills."""
        key = f"{_WAITING}{session_id}"
        begun = kept_object(self._database.get_meta(key)).get("begun", 0) + 1
        kept = {"at": self._now(), "about": sorted(about), "why": CUT_OFF, "begun": begun}
        self._database.set_meta(key, json.dumps(kept) if begun <= _MOST_BEGUN else None)
        return bool(begun <= _MOST_BEGUN)

    def waiting(self) -> list[dict[str, Any]]:
        """Lists the reviews that wait, the oldest first, without those that are running: session, at, about, why."""
        under_way = self._now() - _LONGEST_REVIEW
        kept = [(session, kept_object(text)) for session, text in self._database.store.meta_from(_WAITING)]
        found = [
            {"session": session, "at": each["at"], "about": list(each["about"]), "why": each["why"]}
            for session, each in kept
            if each and not (each.get("begun") and each["at"] > under_way)
        ]
        return sorted(found, key=lambda each: each["at"])

    def done(self, session_id: str) -> None:
        """Removes a review that was made, or that has nothing left to look at, from the waiting ones."""
        if self._database.get_meta(f"{_WAITING}{session_id}"):
            self._database.set_meta(f"{_WAITING}{session_id}", None)

    # Whether background work changes anything.

    def consolidated(self, task: str, *, changed: bool, tokens: int) -> None:
        """Notes the end of a run; several paid runs in a row that change nothing raise an alarm (`alarms`)."""
        before = kept_object(self._database.get_meta(f"{_IDLE}{task}"))
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
        """Says which tasks spent tokens on many runs in a row without changing anything."""
        most = self._settings.integer("background.alarm_after")
        found = []
        for task, text in self._database.store.meta_from(_IDLE):
            idle = kept_object(text)
            if most and idle.get("runs", 0) >= most:
                spent = f"the last {idle['runs']} runs of {_NAMES.get(task, task)} changed nothing and took"
                found.append(f"{spent} {idle['tokens']:,} tokens since {idle['since']}; {_REMEDIES.get(task, '')}")
        return found

    def as_dict(self) -> dict[str, Any]:
        """The day's spending, limits, waiting reviews and alarms, for `hermes status` and its JSON."""
        by_task = self.spent()
        compacted = by_task.pop(COMPACTION, {"tokens": 0, "cost": 0.0, "calls": 0})
        return {
            **{name: sum(each[name] for each in by_task.values()) for name in ("tokens", "cost", "calls")},
            "by_task": by_task,
            "compaction": compacted,
            "tokens_per_day": self._settings.integer("background.tokens_per_day"),
            "cost_per_day": self._limit_in_dollars(),
            "spent": self.why_not(),
            "waiting": self.waiting(),
            "alarms": self.alarms(),
        }

    def _limit_in_dollars(self) -> float:
        return self._settings.number("background.cost_per_day")

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
