"""The history of changes, read on from where it was read before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hermes.memory.store import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.proves("curated.history")
def test_a_store_that_reads_on_knows_the_same_history_as_one_that_reads_anew(home: Path) -> None:
    store, other = MemoryStore.open(home), MemoryStore.open(home)
    store.add("memory", "Uses zsh.")
    assert len(store.history("memory")[0]) == 1
    other.add("memory", "Prefers tea.")
    store.undo("m1")
    journal = home / "memories" / "MEMORY.md.history.jsonl"
    assert store.history("memory") == MemoryStore.open(home).history("memory")

    journal.write_bytes(journal.read_bytes().replace(b"Prefers tea.", b"Prefers gin."))  # damaged in the middle

    assert store.history("memory") == MemoryStore.open(home).history("memory")
    assert store.history("memory")[1] == 1
