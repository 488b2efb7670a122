"""What tests share: an empty home, and the `hermes` command run in this process."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from hermes.cli.app import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Ran:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home that the program finds by itself."""
    place = tmp_path / "home"
    monkeypatch.setenv("HERMES_HOME", os.fspath(place))
    return place


@pytest.fixture
def hermes(home: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Runs `hermes …` on the test's home."""

    def command(*arguments: str) -> Ran:
        capsys.readouterr()
        try:
            code = run(list(arguments))
        except SystemExit as stop:  # argparse ends the program after usage errors and help
            code = int(stop.code or 0)
        printed = capsys.readouterr()
        return Ran(code=code, out=printed.out, err=printed.err)

    return command


@pytest.fixture
def remember(hermes: Callable[..., Ran]) -> Callable[..., dict[str, Any]]:
    """Calls the memory tool as a model would and returns its result."""

    def call(**arguments: Any) -> dict[str, Any]:
        result: dict[str, Any] = hermes("tool", "memory", json.dumps({"target": "memory", **arguments})).json
        return result

    return call
