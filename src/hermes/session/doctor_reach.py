"""Whether the model, the memory providers and the context engine that the settings name are there and answer.

They are asked without spending a token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.vocabulary.checks import OK, PROBLEM, WARNING, Check
from hermes.vocabulary.errors import ModelError, NotFound, WrongKey
from hermes.vocabulary.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from hermes.llm.client import HttpModel
    from hermes.settings.home import Home
    from hermes.settings.load import Settings

_SECONDS = 10
_REFUSES_THE_KEY = (401, 403)
_SERVER_ERROR = 500


def check_model(settings: Settings, *, connect: bool) -> Iterator[Check]:
    from hermes.llm.client import HttpModel
    from hermes.session.models import main_model

    try:
        model = main_model(settings)
    except (NotFound, WrongKey, ModelError) as error:
        remedy = "`hermes setup` chooses a model; memory, search and import work without one"
        yield Check(name="model", state=WARNING, found=str(error), remedy=remedy)
        return
    if connect and isinstance(model, HttpModel):
        yield _reached(model, is_set=settings.get("model.context_length") is not None)
    else:
        yield Check(name="model", state=OK, found=f"{model.name}, {model.context_length:,} tokens of context")


def _reached(model: HttpModel, *, is_set: bool) -> Check:
    """Asks for the list of models, which costs nothing and is refused to a wrong key.

    `is_set` says that the settings name the window: a smaller one than the model has is meant then.
    """
    import httpx

    from hermes.llm.transport import shared_client

    endpoint = model.endpoint
    address = endpoint.base_url.rstrip("/") + ("/v1/models" if endpoint.wire == "anthropic" else "/models")
    try:
        answer = shared_client().get(address, headers=model.headers(), timeout=_SECONDS)
    except httpx.HTTPError as error:
        found = f"nothing answers for {model.name} at {endpoint.base_url}: {error}"
        return Check(name="model", state=PROBLEM, found=found, remedy="is the server running, is there a network?")
    if answer.status_code in _REFUSES_THE_KEY:
        found = f"{endpoint.provider} refuses the key for {model.name} ({answer.status_code})"
        return Check(name="model", state=PROBLEM, found=found, remedy=endpoint.key_remedy)
    if answer.status_code >= _SERVER_ERROR:
        found = f"{endpoint.provider} answers with {answer.status_code}"
        return Check(name="model", state=WARNING, found=found, remedy="try again later; set fallback_models to go on")
    counts = f"{model.name} at {endpoint.provider} answers; it counts as {model.context_length:,} tokens of context"
    told = _window(answer, model.name)
    if told is None or told == model.context_length or (is_set and told > model.context_length):
        return Check(name="model", state=OK, found=counts)
    remedy = f"`hermes config set model.context_length {told}`"
    return Check(name="model", state=WARNING, found=f"{counts}, and says that it takes {told:,}", remedy=remedy)


def _window(answer: httpx.Response, name: str) -> int | None:
    """Tokens that the model takes, where its server's list says so."""
    from hermes.llm.catalogue import listed_context

    try:
        listed = answer.json().get("data") or ()
    except (ValueError, AttributeError):
        return None
    entries = (entry for entry in listed if isinstance(entry, dict) and entry.get("id") == name)
    return next((listed_context(entry) for entry in entries), None)


def check_providers(home: Home, settings: Settings, *, connect: bool) -> Iterator[Check]:
    from hermes.session.external import chosen_providers

    names = list(chosen_providers(settings))
    if not names:
        return
    from hermes.session.provider_checks import examine

    for name in names:
        told = examine(home, settings, name, connect=connect)
        waiting = f"; {counted(told['waiting'], 'call waits', 'calls wait')} for it" if told.get("waiting") else ""
        if told["problem"]:
            yield Check(
                name=f"provider {name}",
                state=PROBLEM,
                found=told["problem"] + waiting,
                remedy="`hermes memory setup` changes its settings, `hermes memory off` does without it",
            )
        elif not told["available"]:
            missing = ", ".join(field["key"] for field in told.get("missing", ())) or "something it needs"
            remedy = f"`hermes memory setup {name}` asks for it"
            yield Check(name=f"provider {name}", state=PROBLEM, found=f"{missing} is missing{waiting}", remedy=remedy)
        else:
            yield Check(name=f"provider {name}", state=OK, found=(told["connection"] or "is available") + waiting)


def check_engine(home: Home, settings: Settings) -> Iterator[Check]:
    """Loads an engine that is not the built-in one, and lets it compact a small history."""
    name = settings.text("context.engine")
    if name in ("", "compressor"):
        return
    from hermes.session.engine_checks import examine_engine

    told = examine_engine(home, settings, name)
    if told["problem"]:
        remedy = (
            f"`hermes plugins check {name}` tries it again, `hermes config set context.engine compressor` takes the "
            f"built-in one; an engine of yours belongs into {told['belongs_into']}"
        )
        yield Check(name="context engine", state=PROBLEM, found=told["problem"], remedy=remedy)
    else:
        yield Check(name="context engine", state=OK, found=f"{name}: {told['tried']}")
