"""A home whose entries were written on days of the past, as the curator finds them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hermes.memory.entries import Cause
from hermes.memory.store import MemoryStore
from hermes.session.curator import Curator
from hermes.settings.config import load_settings
from hermes.settings.home import find_home

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

AGENT = Cause(origin="agent")
WEB = Cause(origin="web", approved=True)


def store_with(home: Path, *entries: str, cause: Cause = AGENT, target: str = "memory") -> MemoryStore:
    """A store with all of these entries: a write supersedes nothing there, so that there is something to curate."""
    home.mkdir(exist_ok=True)
    config = home / "config.yaml"
    text = config.read_text() if config.exists() else ""
    if "supersede" not in text:
        config.write_text(f"{text}memory:\n  supersede: false\n")
    store = MemoryStore.open(home)
    for entry in entries:
        store.add(target, entry, cause=cause)
    return store


def curator(home: Path, *, ask: Callable[[str, str], str] | None = None, hours: float = 0) -> Curator:
    """The curator so many hours from now."""
    place = find_home(home)
    settings = load_settings(place)
    return Curator(
        place, settings, MemoryStore.open(place, settings=settings), ask=ask, now=lambda: time.time() + hours * 3600
    )


FILLER = (
    *("Uses vim.", "Runs the tests with xdist.", "Speaks French.", "Has a dog.", "Reads the news at noon."),
    *("Drinks tea.", "Owns a bike.", "Writes Go at work.", "Plays chess.", "Collects stamps.", "Bakes bread."),
)
