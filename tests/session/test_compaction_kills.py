"""Killed at any point of a compaction, a session opens before or after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from soak.common import Options
from soak.compaction import kills

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.proves("compaction.kill")
def test_a_kill_leaves_the_session_before_or_after_a_compaction_and_nothing_is_lost(tmp_path: Path) -> None:
    outcome = kills(14, Options(folder=str(tmp_path), seed=7, quiet=True), per_home=7)  # in place, then by splitting
    assert outcome.failures == []
    assert outcome.figures["kills"] == 14
    assert outcome.figures["in a compaction"] > 0
