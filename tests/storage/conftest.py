"""A small database with known messages."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from soak.sessions_damage import Specimen

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def small(tmp_path: Path) -> Specimen:
    return Specimen(os.fspath(tmp_path), messages=80, sessions=3)
