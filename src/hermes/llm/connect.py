"""From an endpoint to a model, and the question to a server which models it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes.llm.client import Endpoint, HttpModel, Retries

_PROBE_SECONDS = 0.5  # a server on this machine answers at once or not at all


def open_model(endpoint: Endpoint, retries: Retries | None = None) -> HttpModel:
    if endpoint.wire == "anthropic":
        from hermes.llm.anthropic import Anthropic

        return Anthropic(endpoint, retries)
    from hermes.llm.openai import OpenAICompatible

    return OpenAICompatible(endpoint, retries)


def list_models(base_url: str, key: str = "") -> list[Mapping[str, Any]] | None:
    """The models a server names at `/models`; None when no model server answers there."""
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
    """Whether anything at all speaks HTTP there, also one that wants a key or names no models."""
    import httpx

    from hermes.llm.transport import shared_client

    try:
        shared_client().get(f"{base_url.rstrip('/')}/models", timeout=_PROBE_SECONDS)
    except (httpx.HTTPError, httpx.InvalidURL):
        return False
    return True
