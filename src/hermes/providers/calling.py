"""Knows, in every thread, whether code of a provider is running and for which home."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_current = threading.local()
_everywhere = [False]


def everything_is_a_provider() -> None:
    """In the process of a provider all code counts as its own, in whatever thread."""
    _everywhere[0] = True


def inside_a_provider() -> bool:
    """Whether the code that asks was called by us as a provider: what it asks of the manager is refused."""
    return _everywhere[0] or getattr(_current, "depth", 0) > 0


def home_of_the_caller() -> str:
    """The home that the running provider works for; outside of one, the home a person would get."""
    found = getattr(_current, "home", "") or os.environ.get("HERMES_HOME") or os.path.join("~", ".hermes")
    return os.path.realpath(os.path.expanduser(found))


@contextmanager
def running_for(home: str) -> Iterator[None]:
    before = getattr(_current, "home", "")
    _current.depth = getattr(_current, "depth", 0) + 1
    _current.home = home
    try:
        yield
    finally:
        _current.depth -= 1
        _current.home = before
