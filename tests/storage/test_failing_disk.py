"""Public operations while the disk fails: only typed errors come out, and nothing acknowledged is lost."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import pytest

from soak import operations
from soak.common import Options

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.proves("sessions.failing-disk")
@pytest.mark.parametrize("operation", ["turn", "sessions repair", "memory add"])
def test_a_failing_disk_gives_typed_errors_and_takes_nothing_away(tmp_path: Path, operation: str) -> None:
    given = argparse.Namespace(places=1, only=operation)
    (outcome,) = operations.run(given, Options(folder=str(tmp_path), quiet=True))
    assert outcome.failures == []
    assert outcome.figures["cases"] == 2 * len(operations.ERRORS)
