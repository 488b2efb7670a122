"""Calls hooks of providers with what their signature takes, so that older and newer ones work alike."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from hermes.providers.base import MemoryProvider

if TYPE_CHECKING:
    from collections.abc import Callable


def implements(provider: object, hook: str) -> bool:
    """Whether a provider does anything in a hook; those it only inherits cost nothing."""
    if hook in getattr(provider, "__dict__", {}):
        return True
    own = getattr(type(provider), hook, None)
    return own is not None and own is not getattr(MemoryProvider, hook, None)


def call(method: Callable[..., Any], *arguments: Any, optional: dict[str, Any]) -> Any:
    """Calls with these arguments and those of the optional ones that the signature names."""
    try:
        parameters = inspect.signature(method).parameters.values()
    except (TypeError, ValueError):  # written in C, or not inspectable for another reason
        return method(*arguments)
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return method(*arguments, **optional)
    named = {each.name for each in parameters if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)}
    return method(*arguments, **{name: given for name, given in optional.items() if name in named})


def hand_over(provider: Any, hook: str, given: dict[str, Any], key: str) -> None:
    """Makes the call that a parcel of the outbox stands for."""
    method = getattr(provider, hook, None)
    if method is None:
        return
    match hook:
        case "sync_turn":
            optional = {"session_id": given["session_id"], "messages": given["messages"], "idempotency_key": key}
            call(method, given["user"], given["assistant"], optional=optional)
        case "on_memory_write":
            metadata = {**given["metadata"], "idempotency_key": key}
            call(method, given["action"], given["target"], given["content"], optional={"metadata": metadata})
        case "on_delegation":
            optional = {"child_session_id": given["child_session_id"], **given["more"], "idempotency_key": key}
            call(method, given["task"], given["result"], optional=optional)
        case "on_session_end":
            call(method, given["messages"], optional={"session_id": given["session_id"], "idempotency_key": key})
        case _:
            raise ValueError(f"no hook {hook!r} is delivered")


def starting(provider: Any, session_id: str, given: dict[str, Any]) -> Callable[[], object]:
    return lambda: call(provider.initialize, session_id, optional=given)


def turn_starting(provider: Any, number: int, message: str, given: dict[str, Any]) -> Callable[[], object]:
    return lambda: call(provider.on_turn_start, number, message, optional=given)


def prefetching(provider: Any, query: str, session_id: str) -> Callable[[], object]:
    return lambda: call(provider.prefetch, query, optional={"session_id": session_id}) or ""


def warming(provider: Any, query: str, session_id: str) -> Callable[[], object]:
    return lambda: call(provider.queue_prefetch, query, optional={"session_id": session_id})


def switching(provider: Any, new_session_id: str, given: dict[str, Any]) -> Callable[[], object]:
    if not implements(provider, "on_session_switch"):
        return lambda: None
    return lambda: call(provider.on_session_switch, new_session_id, optional=given)
