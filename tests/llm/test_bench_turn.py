"""The measurement of a model call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks import turn, whole_turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Ran


@pytest.mark.proves("llm.bench")
def test_a_model_call_is_measured_beside_encoding_the_whole_history(
    hermes: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn, "HISTORIES", (0, 50))
    monkeypatch.setattr(whole_turn, "LONG", 50)
    monkeypatch.setattr(whole_turn, "TURNS", 2)
    figures = hermes("bench", "turn", "--json").json
    assert {"openai_0_messages", "openai_50_messages", "anthropic_0_messages", "anthropic_50_messages"} < set(figures)
    assert figures["openai_50_messages"]["request_kb"] > figures["openai_0_messages"]["request_kb"]
    assert figures["openai_50_messages"]["json_dumps_ms"] > 0
    assert figures["with_50_messages_ms"]["turn"] > 0
    assert figures["turn_above_python_mb"] > 0
    assert figures["receipt"]["receipt_ms"] > 0
