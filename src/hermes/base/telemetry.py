"""OpenTelemetry spans for programs that have set it up: memory operations by the GenAI conventions, and receipts.

The library is never imported here: a program that traces has imported it already, and for all others this does
nothing. Spans record the operation, its size and the person, never any content.
"""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager

from hermes.base.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

_WRITES = {"add": "create_memory", "replace": "update_memory", "remove": "delete_memory"}
_TOKENS = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cache_read_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_write_tokens": "gen_ai.usage.cache_creation.input_tokens",
}


@contextmanager
def recall_span(session: str) -> Iterator[None]:
    """Traces a recall from external memory."""
    with _span("search_memory", "external") as span:
        if span is not None:
            span.set_attribute("gen_ai.conversation.id", session)
        yield


@contextmanager
def tool_span(name: str, arguments: str | Mapping[str, Any] | None, store: str) -> Iterator[list[str]]:
    """Traces a call of one of our tools; append the result to the list, so that the span counts its records."""
    result: list[str] = []
    with _span(_operation(name, arguments) if _trace() else "", store) as span:
        yield result
        if span is not None and result:
            count = _count(result[0])
            if count is not None:
                span.set_attribute("gen_ai.memory.record.count", count)


def receipt_span(receipt: Mapping[str, Any], store: str) -> None:
    """Records a receipt as a span of its own, so that a trace leads to what the model saw."""
    with _span("receipt", store) as span:
        if span is None:
            return
        usage = receipt.get("usage") or {}
        span.set_attributes(
            {
                "hermes.receipt.id": receipt["id"],
                "hermes.receipt.sealed": bool(receipt.get("seal")),
                "hermes.receipt.messages": len(receipt["messages"]),
                "hermes.receipt.written": len(receipt["written"]),
                "hermes.receipt.pending": len(receipt["pending"]),
                "gen_ai.conversation.id": receipt["session"],
                "gen_ai.request.model": receipt["model"],
                **{_TOKENS[name]: count for name, count in usage.items() if name in _TOKENS},
            }
        )


def _trace() -> Any:
    return sys.modules.get("opentelemetry.trace")


@contextmanager
def _span(operation: str, store: str) -> Iterator[Any]:
    trace = _trace()
    if trace is None or not operation:
        yield None
        return
    attributes = {"gen_ai.operation.name": operation, "gen_ai.memory.store.id": store or "owner"}
    tracer = trace.get_tracer("hermes-memory", __version__)
    with tracer.start_as_current_span(operation, attributes=attributes) as span:
        yield span if span.is_recording() else None


def _operation(name: str, arguments: str | Mapping[str, Any] | None) -> str:
    if name == "session_search":
        return "search_memory"
    if name != "memory":
        return ""
    try:
        given = json.loads(arguments) if isinstance(arguments, str) else arguments or {}
        action = given["action"] if "action" in given else given["operations"][0]["action"]
    except (ValueError, TypeError, KeyError, IndexError):
        return ""
    return _WRITES.get(str(action), "")


def _count(result: str) -> int | None:
    try:
        told = json.loads(result)
    except ValueError:
        return None
    count = told.get("count") if isinstance(told, dict) else None
    return count if isinstance(count, int) else None
