"""The history of changes, read on from where it was read before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hermes.memory.entries import replay
from hermes.memory.store import MemoryStore
from hermes.storage.documents import encode_record

if TYPE_CHECKING:
    from pathlib import Path

    from hermes.memory.entries import Change


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


@pytest.mark.proves("curated.history", "durable.strangers")
@pytest.mark.parametrize("how", ["shell", "editor"])
def test_what_others_write_is_recorded_by_the_difference_it_made(home: Path, how: str) -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.yaml").write_text("memory:\n  memory_char_limit: 100000\n")
    store = MemoryStore.open(home)
    store.add("memory", "Uses zsh." * 200)
    path = home / "memories/MEMORY.md"
    for number in range(20):
        if how == "shell":
            with path.open("a") as file:
                file.write(f"Line {number} of a shell.\n")
        else:
            lines = path.read_text().split("\n§\n")
            (home / "saved").write_text("\n§\n".join([*lines[:1], f"Line {number} of a shell.", *lines[1:]]))
            (home / "saved").rename(path)
        store.add("memory", f"Ours {number}.")
    changes, _ = store.history("memory")
    assert replay(changes) == store.entries("memory")
    assert [change.added() for change in changes if change.foreign] == [[f"Line {n} of a shell."] for n in range(20)]
    assert len((home / "memories/MEMORY.md.history.jsonl").read_bytes()) < 2_500 + 41 * 400
    store.undo(next(change.id for change in changes if change.foreign))
    assert "Line 0 of a shell." not in store.entries("memory")
    assert "Line 1 of a shell." in store.entries("memory")


@pytest.mark.proves("curated.history")
def test_records_of_older_versions_with_whole_states_are_read(home: Path) -> None:
    store = MemoryStore.open(home)
    store.add("memory", "Uses zsh.")
    file, journal = home / "memories/MEMORY.md", home / "memories/MEMORY.md.history.jsonl"
    ours = store.history("memory")[0][-1]
    file.write_text("Prefers tea.\n§\nUses fish.")
    store.add("memory", "Lives in Lima.")
    theirs, after = store.history("memory")[0][1:]
    common = {"target": "memory", "at": ours.at, "session": "", "note": "", "approved": False}
    old = common | {"id": "m2", "action": "external", "origin": "external", "was": ["Uses zsh."]}
    old |= {"state": ["Prefers tea.", "Uses fish."], "from": _ends(theirs)[0], "to": _ends(theirs)[1]}
    new = common | {"id": "m3", "action": "add", "origin": "user", "was": ["Prefers tea.", "Uses fish."]}
    new |= {"edits": [[2, None, "Lives in Lima."]], "from": _ends(after)[0], "to": _ends(after)[1]}
    journal.write_bytes(journal.read_bytes().splitlines(keepends=True)[0] + encode_record(old) + encode_record(new))

    changes, damaged = MemoryStore.open(home).history("memory")

    assert (damaged, replay(changes)) == (0, ("Prefers tea.", "Uses fish.", "Lives in Lima."))
    assert (changes[1].removed(), changes[1].added()) == (["Uses zsh."], ["Prefers tea.", "Uses fish."])
    store = MemoryStore.open(home)
    store.undo("m2")
    assert sorted(store.entries("memory")) == ["Lives in Lima.", "Uses zsh."]


@pytest.mark.proves("durable.strangers")
def test_a_line_of_a_shell_stays_an_entry_of_its_own_when_the_write_after_it_never_came(home: Path) -> None:
    store = MemoryStore.open(home)
    store.add("memory", "Uses zsh.")
    file, journal = home / "memories/MEMORY.md", home / "memories/MEMORY.md.history.jsonl"
    with file.open("a") as shell:
        shell.write("Prefers tea.\n")
    (home / "kept").hardlink_to(file)  # the file with its inode, as a writer that is killed now leaves it
    store.add("memory", "Lives in Lima.")
    (home / "kept").rename(file)
    for _ in range(2):
        assert MemoryStore.open(home).entries("memory") == ("Uses zsh.", "Prefers tea.")
        lines = journal.read_bytes().splitlines(keepends=True)
        journal.write_bytes(b"".join(lines[:2]))  # and as it is when its record was taken back


def _ends(change: Change) -> tuple[list[int], list[int]]:
    before, after = change.before, change.after
    return [before.size, before.check, before.inode], [after.size, after.check, after.inode]
