"""`hermes demo`: the whole life cycle, offline."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran


@pytest.mark.proves("terminal.demo")
def test_the_demo_shows_the_life_cycle_and_leaves_nothing_behind(
    hermes: Callable[..., Ran], home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", os.fspath(tmp_path))
    ran = hermes("demo", "--scripted")
    steps = [line for line in ran.out.splitlines() if line[:2] in ("1.", "2.", "3.", "4.", "5.")]
    assert (ran.code, len(steps)) == (0, 5)
    assert "a script plays the model in every step" in ran.out
    assert "new rule: “Please keep your answers short, and use metric units.” Applies to: reply." in ran.out
    assert "in the prompt: Prefers short answers, with metric units." in ran.out
    assert "384,400 km." in ran.out
    assert "found in “how I like answers”" in ran.out
    assert "became a summary made of quotes, without a model" in ran.out
    assert "a detail from its middle is still found: release-12" in ran.out
    assert os.listdir(tmp_path) == []
    assert not home.exists()


@pytest.mark.proves("terminal.demo")
def test_the_demo_can_be_kept_and_looked_at(hermes: Callable[..., Ran], tmp_path: Path) -> None:
    place = tmp_path / "kept"
    told = hermes("demo", "--scripted", "--json", "--keep", os.fspath(place)).json
    assert {"memories/USER.md", "state.db"} <= set(told["files"])
    assert "how I like answers" in hermes("--home", os.fspath(place), "sessions", "list").out
    again = hermes("demo", "--scripted", "--keep", os.fspath(place))
    assert (again.code, "is not empty" in again.err) == (2, True)
