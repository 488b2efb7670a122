"""Which models the settings name: the one to talk to, its fallbacks, and helpers.

Keys come from the environment or from the `.env` beside the settings. Nothing is asked of a model here, but a model
that no provider is known for is looked for on the usual ports of this machine.
"""

from __future__ import annotations

import hashlib
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

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes.llm.client import Endpoint, Model
    from hermes.session.background import Background
    from hermes.settings.config import Settings

    Helper = Callable[[str, str], str]

SCRIPTED = "scripted"


def main_model(settings: Settings, name: str = "", *, person: str = "") -> Model:
    """The model to talk to: `name`, else `model.default`, else whatever a server on this machine has.

    `person` is whose conversations it answers, in any words; OpenAI looks for a cached prompt among theirs first.
    """
    fallbacks = settings.texts("fallback_models")
    first = _named(settings, name or settings.text("model.default"), person)
    if not fallbacks:
        return first
    from hermes.llm.client import Fallback

    return Fallback([first, *(_named(settings, other, person) for other in fallbacks)])


def helper_model(settings: Settings, task: str, *, main: Model | None = None, own_only: bool = False) -> Model | None:
    """The model of a background task; None when the task is switched off or there is no model at all.

    A task whose settings name no model of its own uses `main`, or the one of the settings; with `own_only` it has none.
    """
    block = f"auxiliary.{task}"
    if not settings.flag(f"{block}.enabled"):
        return None
    if _has_its_own(settings, block):
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
    """The model of a background task as a function; an answer that takes longer than its time-out is an error.

    `seconds` is another time-out than that of the settings, `counted_as` another name for the task. With a `budget`
    each call is counted, and refused (ModelError) when the budget of the day is spent.
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
    """One question without tools, answered within `seconds`; with `once`, a first failure is the answer.

    With a `budget` it is counted for the task, and refused when the day's budget is spent, unless it is not `limited`.
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
        with suppress(StorageError):  # an answer that was paid for is not lost because it cannot be counted
            budget.count(task, finished.usage, finished.model or model.name)
    content = finished.message.get("content") or ""
    return content if isinstance(content, str) else "".join(str(part.get("text", "")) for part in content)


def _named(settings: Settings, name: str, person: str = "") -> Model:
    """A model by its name, with what `model.*` says about the default one where it is that one."""
    script = _script(settings, name)
    if script:
        from hermes.llm.scripted import ScriptFile

        return ScriptFile(script, context_length=settings.get("model.context_length"))
    if embedded := _embedded(settings, name):
        return embedded
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


def _embedded(settings: Settings, name: str) -> Model | None:
    """The model `local` or `local/…`, which runs in this machine's own memory."""
    if name != "local" and not name.startswith("local/"):
        return None
    from hermes.llm.embedded import EmbeddedModel
    from hermes.settings.home import PROFILES

    folder = os.path.dirname(settings.path)
    above, profiles = os.path.split(os.path.dirname(folder))
    root = above if profiles == PROFILES else folder  # profiles share the weights
    return EmbeddedModel(name, home=root, threads=settings.integer("model.threads"))


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
    """A name somebody typed: the file of `scripted:FILE` is first looked for in the folder they stand in."""
    kind, colon, path = name.partition(":")
    here = os.path.abspath(os.path.expanduser(path))
    return f"{kind}:{here}" if colon and kind == SCRIPTED and os.path.exists(here) else name


def _beside(settings: Settings, path: str) -> str:
    return os.path.join(os.path.dirname(settings.path), os.path.expanduser(path))


def _has_its_own(settings: Settings, block: str) -> bool:
    chosen = settings.text(f"{block}.provider") not in ("", "auto", "main")
    return chosen or bool(settings.text(f"{block}.model") or settings.text(f"{block}.base_url"))


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
    from hermes.settings.environment import secret
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
        endpoint = replace(endpoint, extra_body=_effort(endpoint, effort) | endpoint.extra_body)
    if person and is_at_vendor(endpoint, "openai"):
        key = hashlib.sha256(person.encode("utf-8", "replace")).hexdigest()[:32]  # says nothing about who it is
        endpoint = replace(endpoint, extra_body={"prompt_cache_key": key} | endpoint.extra_body)
    return open_model(endpoint, retries)


def _effort(endpoint: Endpoint, effort: str) -> dict[str, Any]:
    """How hard to think, as each wire says it."""
    return {"output_config": {"effort": effort}} if endpoint.wire == "anthropic" else {"reasoning_effort": effort}


# Which groups of tools are on: by platform, from the settings. A group that is off costs neither schema nor import.
