"""Nothing of one person reaches another, over any surface; `bin/soak people` does this for longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from soak import people
from soak.common import Options

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.proves("people.apart", "people.same-answer")
def test_no_byte_of_one_person_reaches_another_over_any_surface(tmp_path: Path) -> None:
    outcome = people.trials(250, Options(folder=str(tmp_path), seed=7, quiet=True))
    assert outcome.failures == []
    assert {"tool", "cli", "mcp", "http", "chat"} <= set(outcome.figures)
    assert outcome.figures["bytes seen"] > 10_000
