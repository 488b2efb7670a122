"""OpenTelemetry: memory operations and receipts are spans, which hold no words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hermes import MemorySession

if TYPE_CHECKING:
    from pathlib import Path

_EXPORTER = InMemorySpanExporter()


@pytest.fixture
def spans() -> InMemorySpanExporter:
    """What a program has traced; the library lets a process set this up once."""
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(_EXPORTER))
        trace.set_tracer_provider(provider)
    _EXPORTER.clear()
    return _EXPORTER


def found(spans: InMemorySpanExporter) -> list[tuple[str, dict[str, Any]]]:
    return [(each.name, dict(each.attributes or {})) for each in spans.get_finished_spans()]


@pytest.mark.proves("telemetry.spans")
def test_a_turn_leaves_spans_by_the_genai_conventions(home: Path, spans: InMemorySpanExporter) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 60}}
    with MemorySession.open(home, "cli") as session:
        session.prepare_turn("I like olives.")
        session.call_tool("memory", {"action": "add", "target": "user", "content": "Likes olives."})
        change = {"action": "replace", "target": "user", "old_text": "Likes olives.", "content": "Likes green olives."}
        session.call_tool("memory", change)
        session.call_tool("memory", {"action": "remove", "target": "user", "old_text": "Likes green olives."})
        session.call_tool("session_search", {"query": "olives"})
        session.finish_turn("Noted.", usage=usage, model="gpt-5")
        receipt = session.receipt_id
    told = found(spans)
    names = [name for name, _ in told]
    assert names == ["create_memory", "update_memory", "delete_memory", "search_memory", "receipt"]
    assert all(about["gen_ai.operation.name"] == name for name, about in told)
    assert all(about["gen_ai.memory.store.id"] == "owner" for _, about in told)
    assert told[3][1]["gen_ai.memory.record.count"] == 0
    about = told[4][1]
    assert (about["hermes.receipt.id"], about["hermes.receipt.sealed"]) == (receipt, True)
    assert (about["gen_ai.usage.input_tokens"], about["gen_ai.usage.output_tokens"]) == (100, 7)
    assert about["gen_ai.usage.cache_read.input_tokens"] == 60
    assert "olives" not in str(told)
