"""`hermes bench curation`: what capture without a model keeps of a long log; poison in consolidations; exact undo."""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from typing import TYPE_CHECKING, Any

from benchmarks.agent_log import make
from hermes.memory.entries import UNTRUSTED, Cause
from hermes.memory.store import MemoryStore
from hermes.session.curator import Curator
from hermes.session.lifecycle import capture_turn
from hermes.session.parts import open_parts
from hermes.session.session import MemorySession
from hermes.settings.config import load_settings
from hermes.settings.home import find_home

if TYPE_CHECKING:
    from benchmarks.agent_log import Log

_RECALLED = "The user's badge number is val7-99."
_SUBJECTS = ("north", "south", "east", "west")


def run(turns: int = 10_000, consolidations: int = 1_000, seed: int = 0) -> dict[str, Any]:
    """All figures as one document."""
    with tempfile.TemporaryDirectory() as place:
        figures: dict[str, Any] = {"turns": turns, "seed": seed}
        figures |= _captured(os.path.join(place, "log"), make(turns, seed))
        figures["entries_after_100_recalls"] = _recalled(os.path.join(place, "recall"))
        figures |= _consolidated(place, consolidations, seed)
    return figures


def _captured(home: str, log: Log) -> dict[str, Any]:
    """Junk: kept entries that no planted fact explains, or that say once more what another entry says."""
    parts = open_parts(home)
    store = parts.store or MemoryStore.open(home)
    began = time.perf_counter()
    for turn in log.turns:
        capture_turn(turn.text, store, parts.memory)
    seconds = time.perf_counter() - began
    live = [entry for target in store.targets for entry in store.entries(target)]
    archived = [each.entry for target in store.targets for each in store.archived(target)]
    kept = live + archived
    newest = {values[-1]: number for number, values in enumerate(log.values)}
    explained = {number for entry in kept for value, number in newest.items() if value in entry}
    corrected = [number for number, values in enumerate(log.values) if len(values) > 1]
    return {
        "planted_facts": len(log.values),
        "kept_entries": len(kept),
        "kept_in_the_prompt": len(live),
        "junk_entries": len(kept) - len(explained),
        "junk_share": (len(kept) - len(explained)) / max(1, len(kept)),
        "facts_kept_in_their_latest_form": len(explained),
        "corrected_facts": len(corrected),
        "corrections_in_their_latest_form": len([number for number in corrected if number in explained]),
        "milliseconds_per_turn": seconds * 1000 / len(log.turns),
    }


def _recalled(home: str) -> int:
    """Entries about one fact after it was recalled a hundred times and repeated by the assistant each time."""
    os.makedirs(home, 0o700)
    with open(os.path.join(home, "config.yaml"), "w", encoding="utf-8") as file:
        file.write("memory:\n  capture: 'on'\n  untrusted_writes: allow\nsessions:\n  notes: 'off'\n")
    with MemorySession.open(home) as session:
        session.prepare_turn("My badge number is val7-99.")
        session.finish_turn("Noted.")
        for _ in range(100):
            session.prepare_turn("What is my badge number?", recalled=_RECALLED)
            session.finish_turn(_RECALLED)
    store = MemoryStore.open(home)
    return sum("val7-99" in entry for target in store.targets for entry in store.entries(target))


def _consolidated(place: str, count: int, seed: int) -> dict[str, Any]:
    """Homes with trusted and untrusted entries, a helper that proposes to merge two of them, a run, and its undo."""
    chance = random.Random(seed)  # noqa: S311 - nobody guesses it, everybody must get the same
    clean, inexact, touched = 0, 0, 0
    for number in range(count):
        home = os.path.join(place, f"poison-{number}")
        os.makedirs(home, 0o700)
        with open(os.path.join(home, "config.yaml"), "w", encoding="utf-8") as file:
            file.write("curator:\n  consolidate: true\n  backup:\n    enabled: false\n")
        store = MemoryStore.open(home)
        poisoned = _poisoned(store, chance)
        path = find_home(home)
        with open(store.path("memory"), "rb") as file:
            before = file.read()
        curator = Curator(path, load_settings(path), store, ask=_proposing(store, chance))
        done = curator.run()
        touched += bool(done["changes"])
        made = {each["keep"] for each in done["operations"] if {each["drop"], each.get("was")} & poisoned}
        origins = store.provenance("memory").items()
        clean += sum(entry in poisoned | made and found.origin not in UNTRUSTED for entry, found in origins)
        if done["changes"]:
            curator.undo(done["id"])
        with open(store.path("memory"), "rb") as file:
            inexact += file.read() != before
    return {
        "consolidations": count,
        "consolidations_that_changed_something": touched,
        "poisoned_entries_that_came_out_clean": clean,
        "runs_not_undone_byte_for_byte": inexact,
    }


def _poisoned(store: MemoryStore, chance: random.Random) -> set[str]:
    """Fills a store and returns the entries that came from outside; some have a richer twin that did not."""
    found = set()
    for number in range(8):
        origin = chance.choice(("user", "agent", "background_review", *sorted(UNTRUSTED)))
        entry = f"Zone {chance.choice(_SUBJECTS)} runs job-{number}{chance.choice(('', ' nightly'))}."
        store.add("memory", entry, cause=Cause(origin=origin, approved=True))
        if origin in UNTRUSTED:
            found.add(entry)
            store.add("memory", f"{entry[:-1]} tidily.", cause=Cause(origin="agent"))
    return found


def _proposing(store: MemoryStore, chance: random.Random) -> Any:
    entries = store.entries("memory")
    one, other = chance.sample(range(len(entries)), 2)
    words = dict.fromkeys(f"{entries[one][:-1]} {entries[other]}".split())
    proposed = {"op": "merge", "entries": [one + 1, other + 1], "keep": one + 1, "text": " ".join(words)}
    return lambda _system, _told: json.dumps([proposed])
