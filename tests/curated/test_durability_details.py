"""Single promises of durable memory that need no long run to show."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.curated import entries as text
from hermes.curated.history import Cause, replay
from hermes.curated.store import MemoryStore
from hermes.storage.files import Folder
from hermes.storage.shared_file import ChangedMeanwhile, SharedFile
from hermes.vocabulary.errors import LockTimeout, UnsafePath, WriteRefused

if TYPE_CHECKING:
    from pathlib import Path

ROOMY = "memory:\n  memory_char_limit: 100000\n  lock_timeout: 60\n"
ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=())) | st.lists(
    st.sampled_from(["§", "\n", "\r", "\ufeff", " ", "a", "\0", "\ud800", "\x85", "\n§\n"]), max_size=12
).map("".join)


@pytest.mark.proves("durable.round_trip")
@given(st.lists(ANY_TEXT, max_size=6))
def test_what_may_be_an_entry_is_parsed_back_as_it_was_rendered(contents: list[str]) -> None:
    entries = tuple(entry for content in contents if (entry := cleaned(content)))
    assert text.parse(text.render(entries)) == entries
    assert text.parse(text.decode(text.render(entries).encode()).text) == entries


@pytest.mark.proves("durable.lock")
def test_waiting_for_a_lock_ends_and_names_the_holder(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("memory:\n  lock_timeout: 0.1\n")
    store = MemoryStore.open(tmp_path)
    store.add("memory", "ours")
    holder = os.open(f"{store.path('memory')}.lock", os.O_RDWR)
    fcntl.flock(holder, fcntl.LOCK_EX)
    with pytest.raises(LockTimeout, match=rf"held by process {os.getpid()} .* for more than 0\.1 s"):
        store.add("memory", "more")
    os.close(holder)
    assert store.add("memory", "more").entries == ("ours", "more")


@pytest.mark.proves("durable.shared")
def test_two_homes_that_link_to_one_file_lose_nothing(tmp_path: Path) -> None:
    homes = [tmp_path / "one", tmp_path / "two"]
    for home in homes:
        (home / "memories").mkdir(parents=True)
        (home / "config.yaml").write_text(ROOMY)
    MemoryStore.open(homes[0]).add("memory", "first")
    (homes[1] / "memories" / "MEMORY.md").symlink_to(homes[0] / "memories" / "MEMORY.md")
    context = multiprocessing.get_context("spawn")
    writers = [
        context.Process(target=add_many, args=(str(home), f"{home.name} {number}"))
        for home in homes
        for number in range(2)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(MemoryStore.open(homes[1]).entries("memory")) == 1 + 4 * 25
    assert os.listdir(homes[1] / "memories") == ["MEMORY.md"]


@pytest.mark.proves("durable.history")
def test_a_change_that_somebody_took_back_by_hand_stays_in_the_history(tmp_path: Path) -> None:
    store = MemoryStore.open(tmp_path)
    store.add("memory", "first")
    path = tmp_path / "memories" / "MEMORY.md"
    former = path.read_bytes()
    added = store.add("memory", "second", cause=Cause(session="s-1"))
    path.write_bytes(former)
    store.add("memory", "third")
    changes, _ = store.history("memory")
    assert added.change is not None
    assert added.change.id in [change.id for change in changes]
    assert replay(changes) == store.entries("memory") == ("first", "third")


@pytest.mark.proves("durable.history")
def test_the_history_of_a_file_that_was_never_written_is_empty(tmp_path: Path) -> None:
    store = MemoryStore.open(tmp_path)
    store.add("memory", "first")
    assert store.history("user") == ([], 0)


@pytest.mark.proves("durable.strangers")
def test_a_line_that_a_shell_appends_stays_an_entry_of_its_own_after_a_failed_write(tmp_path: Path) -> None:
    store = MemoryStore.open(tmp_path)
    store.add("memory", "first")
    with (tmp_path / "memories" / "MEMORY.md").open("a") as file:
        file.write("from a shell\n")
    with pytest.raises(WriteRefused):
        store.remove("memory", "nothing like it")
    store.add("memory", "last")
    assert MemoryStore.open(tmp_path).entries("memory") == ("first", "from a shell", "last")


@pytest.mark.proves("durable.obstacles")
def test_a_journal_with_a_second_name_is_not_written_to(tmp_path: Path) -> None:
    store = MemoryStore.open(tmp_path / "home")
    store.add("memory", "first")
    os.link(f"{store.path('memory')}.history.jsonl", tmp_path / "elsewhere")
    with pytest.raises(UnsafePath, match="hard link"):
        store.add("memory", "second")
    assert store.entries("memory") == ("first",)


class FolderWithLateEditor(Folder):
    """An editor saves by renaming, after the last look and before the exchange."""

    def exchange(self, one: str, other: str) -> bool:
        if not os.path.exists(self.join("saved")):
            self.write_new("saved", b"")
            self.write_new("by-editor", b"theirs")
            self.rename("by-editor", other)
        return super().exchange(one, other)


@pytest.mark.proves("durable.strangers")
def test_what_an_editor_saves_in_the_last_moment_is_put_back(tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").write_bytes(b"before")
    with FolderWithLateEditor.create(str(tmp_path)) as folder:
        shared = SharedFile(folder, "MEMORY.md", at_most=1000)
        with shared.see() as seen, pytest.raises(ChangedMeanwhile):
            shared.replace(seen, b"ours", "1.add.agent.s", lambda _: None, lambda: None)
    assert (tmp_path / "MEMORY.md").read_bytes() == b"theirs"
    assert sorted(os.listdir(tmp_path)) == ["MEMORY.md", "saved"]


def cleaned(content: str) -> str:
    try:
        return text.clean(content)
    except WriteRefused:
        return ""


def add_many(home: str, name: str) -> None:
    store = MemoryStore.open(home)
    for number in range(25):
        store.add("memory", f"{name} {number}")
