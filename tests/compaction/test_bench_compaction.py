"""The planted-fact benchmark, in small."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import compaction


@pytest.mark.proves("compression.bench", "compression.extract", "compression.pointers")
def test_no_summariser_however_bad_loses_what_was_planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "FACTS", 40)
    monkeypatch.setattr(compaction, "TRANSCRIPTS", 1)
    monkeypatch.setattr(compaction, "LENGTHS", (400, 2_000))
    monkeypatch.setattr(compaction, "SUMMARY_SECONDS", 0)
    result: dict[str, Any] = compaction.run(seed=1)
    assert set(result["summarisers"]) >= {"none", "failing", "empty", "slow", "lying", "too_small"}
    for figures in result["summarisers"].values():
        assert figures["in_context_or_one_expand"] >= 0.95
        assert figures["messages_unreachable"] == 0
        assert figures["tokens_kept"] < 0.5
    assert [row["messages"] for row in result["cost"].values()] == [401, 401, 2_001, 2_001]
    assert all(row["json_dumps_ms"] > 0 for row in result["cost"].values())
    assert result["archive"]["rows"] == 2_000
    assert all(row["compactions"] > 0 for row in result["waiting"].values())
    assert result["largest_prompt"]["tokens"] <= result["largest_prompt"]["window"]
