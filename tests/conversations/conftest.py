"""Past conversations for the tests of recall: a database in the test's home, and the tool as a model calls it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from hermes.conversations.database import SessionDB
from hermes.settings.config import conversations_of
from hermes.settings.home import find_home

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Ran


@pytest.fixture
def db(home: Path, both_engines: str) -> Iterator[SessionDB]:
    with SessionDB.open(**conversations_of(find_home(home)), durability="turn") as opened:
        yield opened


@pytest.fixture
def search(hermes: Callable[..., Ran]) -> Callable[..., dict[str, Any]]:
    """Calls session_search as a model would; `inside` is the session it is called in."""

    def call(inside: str = "", **arguments: Any) -> dict[str, Any]:
        result: dict[str, Any] = hermes("tool", "session_search", json.dumps(arguments), "--session", inside).json
        return result

    return call
