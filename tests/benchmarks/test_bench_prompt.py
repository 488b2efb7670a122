"""The prompt's own measurements."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import prompt


@pytest.mark.proves("prompt.bench")
def test_every_figure_is_measured_beside_what_it_competes_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt, "SKILLS", 20)
    monkeypatch.setattr(prompt, "HISTORIES", (100, 1_000))
    monkeypatch.setattr(prompt, "TEXT_BYTES", 400_000)
    result: dict[str, Any] = prompt.run(seed=1)
    first = result["first_request"]
    assert first["tool_tokens"] + first["system_tokens"] < first["tokens"] <= first["limit"] == 3_000
    assert result["skills"] == 20
    assert result["assembly_again_ms"] > 0
    assert [row["messages"] for row in result["cache_marking"]] == [100, 1_000]
    assert all({"points_ms", "deepcopy_ms"} <= set(row) for row in result["cache_marking"])
    assert [row["text"] for row in result["token_estimate"]] == ["english", "chinese"]
    assert all(row["estimate_mb_per_s"] > 0 for row in result["token_estimate"])
