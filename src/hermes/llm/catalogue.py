"""Which provider serves a model, where it is, which key it takes, and how much context it has."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hermes.base.errors import NoModel, SettingsError, WrongKey
from hermes.llm.client import Endpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hermes.base.events import Usage
    from hermes.llm.client import HttpModel, Retries

    # GET {address}/models: the entries of its list, or None when nothing answers there.
    Probe = Callable[[str], Sequence[Mapping[str, Any]] | None]

UNKNOWN_CONTEXT = 32_768  # tokens assumed for a model that neither we nor its server know more about
_TOLD_AS = ("loaded_context_length", "max_model_len", "context_length", "max_input_tokens")
_PROBE_SECONDS = 0.5  # a server on this machine answers at once or not at all
_NOBODYS = ("auto", "local", "custom")  # values of a setting that name no provider
OWN_KEY = "HERMES_MODEL_API_KEY"  # for a server at model.base_url; a provider's key is never sent elsewhere


@dataclass(frozen=True, slots=True)
class Provider:
    """A company or server that offers models, and how to reach it."""

    name: str
    base_url: str
    key_name: str
    wire: str = "openai"
    prefixes: tuple[str, ...] = ()  # how the names of its models begin
    replays_reasoning: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalServer:
    """A model server found on this machine."""

    name: str
    base_url: str
    models: tuple[Mapping[str, Any], ...]


with open(os.path.join(os.path.dirname(__file__), "providers.toml"), "rb") as _file:
    _TABLES = tomllib.load(_file)
PROVIDERS = {
    name: Provider(name=name, **row | {"prefixes": tuple(row.get("prefixes", ()))})
    for name, row in _TABLES["providers"].items()
}
LOCAL: dict[str, str] = _TABLES["local"]

_SAYS_SYSTEM = "claude-opus-4-8"  # takes system messages in a conversation at Anthropic's own API; others answer 400
_DATED = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8}|latest)$")
_CACHE_WRITES = {"5m": 1.25, "1h": 2.0}  # times the price of input, at Anthropic; others charge nothing extra
_YES_NO = {"yes": 1, "no": 0}
_SEES = ("vision", "-vl", "vl-")  # in a name, whatever the family


def resolve(
    model: str,
    secret: Callable[[str], str | None],
    *,
    provider: str = "",
    base_url: str = "",
    key: str = "",
    context_length: int | None = None,
    vision: bool | None = None,
    cache_ttl: str = "5m",
    timeout: float = 600,
    extra_body: Mapping[str, Any] | None = None,
    settings: str = "model",
    find_local: Callable[[], LocalServer | None] = lambda: None,
) -> Endpoint:
    """Decides where to reach a model, from its name and a block of the settings; `secret` looks up a key by its name.

    Without an address or a known provider, a server on this machine is looked for with `find_local`.
    """
    if provider not in ("", *_NOBODYS, *PROVIDERS):
        names = ", ".join(PROVIDERS)
        raise SettingsError(
            f"{settings}.provider is {provider!r}; known are {names}; for others set {settings}.base_url, or let the"
            f" name of the model decide: `hermes config unset {settings}.provider`"
        )
    chosen, name = _provider_of(model, provider, base_url, secret)
    if chosen is None and not base_url:
        server = find_local()
        if server is None:
            raise NoModel(_nobody_serves(model, settings))
        endpoint = _local_endpoint(server, model, context_length)
        sees = known_vision(endpoint.model) if vision is None else vision
        return replace(endpoint, vision=sees, extra_body=dict(extra_body or {}), timeout=timeout, settings=settings)
    address = base_url or (chosen.base_url if chosen else "")
    key_name, found = _key_for(chosen, address, key, secret)
    claude = "claude" in name.lower()
    wire = chosen.wire if chosen else "openai"
    at_anthropic = chosen is not None and chosen.name == "anthropic" and _same_host(address, chosen.base_url)
    return Endpoint(
        model=name,
        base_url=address,
        provider=chosen.name if chosen else urlsplit(address).netloc or address,
        wire=wire,
        key=found,
        key_name=key_name,
        context_length=context_length or known_context(name) or UNKNOWN_CONTEXT,
        max_output=_known("answer", name) if wire == "anthropic" else None,
        cache_points="native" if wire == "anthropic" else "envelope" if claude else "",
        cache_ttl=cache_ttl,
        system_messages=at_anthropic and _plain_name(name).startswith(_SAYS_SYSTEM),
        diagnoses_cache=at_anthropic,
        replays_reasoning=chosen.replays_reasoning if chosen else "content",
        vision=known_vision(name) if vision is None else vision,
        extra_body=dict(extra_body or {}),
        timeout=timeout,
        settings=settings,
    )


def is_at_vendor(endpoint: Endpoint, name: str) -> bool:
    """Whether requests go to that provider itself, not to a server that imitates its API."""
    return endpoint.provider == name and _same_host(endpoint.base_url, PROVIDERS[name].base_url)


def cache_minimum(model: str) -> int:
    """Tokens below which the provider caches nothing; 0 if that is not known."""
    return _known("cached", model) or 0


def known_vision(model: str) -> bool:
    """Whether a model accepts images; an unknown one counts as yes, and gets placeholders once it refuses."""
    name = model.rpartition("/")[2].lower()
    return any(mark in name for mark in _SEES) or _known("images", model) != 0


def known_context(model: str) -> int | None:
    """Tokens of the window of a model in models.txt; None for others."""
    return _known("context", model)


def cost_of(model: str, usage: Usage, *, own: Mapping[str, Any] | None = None, cache_ttl: str = "5m") -> float | None:
    """Dollars for this usage, if the model's prices are known; prices in the settings (`own`) take precedence."""
    name = _plain_name(model)
    prices = _own_prices(own or {}, model) or _models().get(_DATED.sub("", name), {}).get("prices")
    if prices is None:
        return None
    read, written, from_cache = prices[:3]
    to_cache = prices[3] if len(prices) > 3 else read * (_CACHE_WRITES[cache_ttl] if name.startswith("claude") else 1)  # noqa: PLR2004 - the fourth of them
    fresh = max(usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens, 0)
    dollars = (
        fresh * read
        + usage.output_tokens * written
        + usage.cache_read_tokens * from_cache
        + usage.cache_write_tokens * to_cache
    )
    return float(dollars / 1_000_000)


def _own_prices(own: Mapping[str, Any], model: str) -> tuple[float, ...] | None:
    told = own.get(model, own.get(model.rpartition("/")[2]))
    if told is None:
        return None
    known = ("input", "output", "cache_read", "cache_write")
    fits = isinstance(told, Mapping) and {"input", "output"} <= set(told) <= set(known)
    if not fits or not all(isinstance(price, int | float) and price >= 0 for price in told.values()):
        raise SettingsError(
            f"model.prices has {told!r} for {model}; expected are dollars for a million tokens, such as"
            " {input: 3, output: 15, cache_read: 0.3}"
        )
    prices = (told["input"], told["output"], told.get("cache_read", told["input"]))
    return (*prices, told["cache_write"]) if "cache_write" in told else prices


def listed_context(entry: Mapping[str, Any]) -> int | None:
    """Tokens of the window according to a server's list of models; each kind of server uses another field."""
    meta = entry.get("meta") or {}
    told = [entry.get(name) for name in _TOLD_AS]
    told += [meta.get(name) for name in ("n_ctx", "n_ctx_train")] if isinstance(meta, dict) else []
    return next((int(each) for each in told if isinstance(each, int) and each > 0), None)


def find_local_server(probe: Probe, places: Mapping[str, str] = LOCAL) -> LocalServer | None:
    """Finds the first server that answers on the usual port of its kind and has a model."""
    for name, address in places.items():
        models = probe(address)
        if models:
            return LocalServer(name=name, base_url=address, models=tuple(models))
    return None


def _key_for(chosen: Provider | None, address: str, key: str, secret: Callable[[str], str | None]) -> tuple[str, str]:
    """The name of the key that may be sent to this address, and the key; a provider's own address needs one.

    A provider's key goes to that provider's host only, whatever address the settings name.
    """
    known = chosen is not None and _same_host(address, chosen.base_url)
    key_name = chosen.key_name if chosen and known else OWN_KEY
    found = key or secret(key_name) or ""
    if known and not found:
        whose = key_name.removesuffix("_API_KEY").lower()
        raise WrongKey(f"there is no key for {whose}: put {key_name}=… into .env (`hermes config path` says where)")
    return key_name, found


def _provider_of(
    model: str, provider: str, base_url: str, secret: Callable[[str], str | None]
) -> tuple[Provider | None, str]:
    """The provider that serves a model, and the model's name there; None if it must be a server of one's own."""
    if provider in PROVIDERS:
        return PROVIDERS[provider], model.removeprefix(f"{provider}/") if provider != "openrouter" else model
    if base_url:
        hosts = (each for each in PROVIDERS.values() if _same_host(base_url, each.base_url))
        return next(hosts, None), model
    if provider in ("local", "custom"):
        return None, model
    vendor, slash, rest = model.partition("/")
    if slash:
        own = PROVIDERS.get(vendor)
        if own and (secret(own.key_name) or not secret(PROVIDERS["openrouter"].key_name)):
            return own, rest
        return (PROVIDERS["openrouter"] if secret(PROVIDERS["openrouter"].key_name) else None), model
    return next((each for each in PROVIDERS.values() if model.startswith(each.prefixes or "/")), None), model


def _local_endpoint(server: LocalServer, model: str, context_length: int | None) -> Endpoint:
    entries = {str(entry.get("id")): entry for entry in server.models}
    if model and model not in entries:
        raise NoModel(f"{server.name} at {server.base_url} has no model {model!r}; it has {', '.join(entries)}")
    name, entry = (model, entries[model]) if model else next(iter(entries.items()))
    return Endpoint(
        model=name,
        base_url=server.base_url,
        provider=server.name,
        context_length=context_length or listed_context(entry) or known_context(name) or UNKNOWN_CONTEXT,
        replays_reasoning="content",
    )


def _nobody_serves(model: str, settings: str) -> str:
    places = ", ".join(f"{name} ({urlsplit(address).port})" for name, address in LOCAL.items())
    what = f"no known provider serves {model!r}{_nearest(model)}" if model else "no model is chosen"
    main = settings == "model"
    key = f"{settings}.default" if main else f"{settings}.model"
    script = f"; without any, `hermes config set {key} scripted:FILE` follows a script of yours (docs/quickstart.md)"
    return (
        f"{what}, and no local server answers ({places}): start one, `hermes config set {settings}.base_url ADDRESS`,"
        f" or `hermes config set {key} NAME` with a model of a provider and its key in .env{script if main else ''}"
    )


def _nearest(model: str) -> str:
    """The known name, or the family of names, that is most like a name nobody knows."""
    from difflib import get_close_matches

    known = [name for name, row in _models().items() if "context" in row]
    close = next(iter(get_close_matches(model.lower(), known, n=1)), "")
    family = any(name.startswith(f"{close}-") for name in known)
    return f" (did you mean {close}{'-…' if family else ''}?)" if close else ""


def _plain_name(model: str) -> str:
    name = model.rpartition("/")[2].lower()
    # OpenRouter writes 4.6 where Anthropic writes 4-6
    return name.replace(".", "-") if name.startswith("claude") else name


@lru_cache(256)
def _known(column: str, model: str) -> int | None:
    """A cell of models.txt: the row counts whose name is the longest beginning of the model's name."""
    name, models = _plain_name(model), _models()
    best = max((row for row in models if name.startswith(row) and column in models[row]), key=len, default=None)
    return models[best][column] if best is not None else None


@cache
def _models() -> dict[str, dict[str, Any]]:
    with open(os.path.join(os.path.dirname(__file__), "models.txt"), encoding="utf-8") as file:
        rows = [line.replace(",", "").split() for line in file if line.strip() and line[0] != "#"]
    found: dict[str, dict[str, Any]] = {}
    for name, *counts, read, written, from_cache in rows:
        cells = zip(("context", "answer", "images", "cached"), counts, strict=True)
        found[name] = {column: int(_YES_NO.get(cell, cell)) for column, cell in cells if cell != "-"}
        if read != "-":
            found[name]["prices"] = (float(read), float(written), float(from_cache))
    return found


def _same_host(one: str, other: str) -> bool:
    return urlsplit(one).hostname == urlsplit(other).hostname


# Opening a model at an endpoint, and asking a server which models it has.


def open_model(endpoint: Endpoint, retries: Retries | None = None) -> HttpModel:
    """Creates the client for an endpoint's API; nothing is sent yet."""
    if endpoint.wire == "anthropic":
        from hermes.llm.anthropic import Anthropic

        return Anthropic(endpoint, retries)
    from hermes.llm.openai import OpenAICompatible

    return OpenAICompatible(endpoint, retries)


def list_models(base_url: str, key: str = "") -> list[Mapping[str, Any]] | None:
    """The models that a server lists at `/models`; None if no model server answers there."""
    import httpx

    from hermes.llm.transport import shared_client

    headers = {"authorization": f"Bearer {key}"} if key else {}
    try:
        answer = shared_client().get(f"{base_url.rstrip('/')}/models", headers=headers, timeout=_PROBE_SECONDS)
        listed = answer.json().get("data")
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, AttributeError):
        return None
    if not isinstance(listed, list):
        return None
    return [entry for entry in listed if isinstance(entry, dict) and entry.get("id")]


def answers(base_url: str) -> bool:
    """Whether any HTTP server answers there, including one that wants a key or lists no models."""
    import httpx

    from hermes.llm.transport import shared_client

    try:
        shared_client().get(f"{base_url.rstrip('/')}/models", timeout=_PROBE_SECONDS)
    except (httpx.HTTPError, httpx.InvalidURL):
        return False
    return True
