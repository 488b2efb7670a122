"""What may happen to the files of a store between two writes: others hold, move, remove or link them."""

from __future__ import annotations

import copy
import errno
import fcntl
import os
import pickle
import shutil
import threading
from typing import TYPE_CHECKING

import pytest

from hermes.base.errors import LockTimeout, StorageError, UnsafePath
from hermes.memory.entries import Cause
from hermes.memory.file import Plan
from hermes.memory.store import MemoryStore
from hermes.storage.files import OpenFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def store(home: Path) -> MemoryStore:
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.yaml").write_text("memory:\n  memory_char_limit: 20000\n  lock_timeout: 2\n")
    opened = MemoryStore.open(home)
    opened.add("memory", "Uses pytest.")
    opened.add("memory", "Uses tox.")
    return opened


def open_files() -> list[str]:
    links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
    return sorted(os.readlink(link) for link in links if os.path.lexists(link))


@pytest.mark.proves("durable.lock")
def test_between_writes_the_lock_is_free_for_others(home: Path, store: MemoryStore) -> None:
    other = MemoryStore.open(home)
    for number in range(3):
        other.add("memory", f"By the other, {number}.")
        store.add("memory", f"By this one, {number}.")
    assert len(store.entries("memory")) == 8
    assert [change.id for change in store.history("memory")[0]] == [f"m{number}" for number in range(1, 9)]


@pytest.mark.proves("durable.descriptors")
def test_a_store_keeps_nothing_open_between_writes(home: Path) -> None:
    before = open_files()
    store = MemoryStore.open(home)
    store.add("memory", "Uses vim.")
    assert open_files() == before


@pytest.mark.proves("durable.descriptors")
@pytest.mark.parametrize("how", [copy.deepcopy, lambda store: pickle.loads(pickle.dumps(store))])
def test_a_copy_of_a_store_writes_like_the_store(store: MemoryStore, how: Callable[[MemoryStore], MemoryStore]) -> None:
    how(store).add("memory", "Uses vim.")
    assert store.add("memory", "Uses zsh.").entries == ("Uses pytest.", "Uses tox.", "Uses vim.", "Uses zsh.")


@pytest.mark.proves("durable.lock")
def test_a_home_that_was_moved_away_is_not_written_to(home: Path, store: MemoryStore) -> None:
    (home / "memories").rename(home / "moved")
    store.add("memory", "Uses vim.")
    assert (home / "memories/MEMORY.md").read_text() == "Uses vim."
    assert (home / "moved/MEMORY.md").read_text() == "Uses pytest.\n§\nUses tox."


@pytest.mark.proves("durable.lock")
@pytest.mark.parametrize("name", ["MEMORY.md.lock", "MEMORY.md.history.jsonl"])
def test_a_lock_or_history_that_somebody_removed_is_made_again(home: Path, store: MemoryStore, name: str) -> None:
    (home / "memories" / name).unlink()
    assert store.add("memory", "Uses vim.").entries == ("Uses pytest.", "Uses tox.", "Uses vim.")
    assert (home / "memories" / name).stat().st_mode & 0o777 == 0o600


@pytest.mark.proves("durable.lock")
@pytest.mark.parametrize("name", ["MEMORY.md.lock", "MEMORY.md.history.jsonl"])
def test_a_lock_or_history_that_got_a_second_name_is_refused(home: Path, store: MemoryStore, name: str) -> None:
    os.link(home / "memories" / name, home / "elsewhere")
    with pytest.raises(UnsafePath, match="a second name"):
        store.add("memory", "Uses vim.")
    (home / "elsewhere").unlink()
    assert len(store.add("memory", "Uses vim.").entries) == 3


@pytest.mark.proves("durable.lock")
def test_threads_that_share_a_store_take_turns(store: MemoryStore) -> None:
    def write(name: str) -> None:
        for number in range(10):
            store.add("memory", f"{name} says {number}.")

    threads = [threading.Thread(target=write, args=(name,)) for name in ("Ann", "Ben", "Cid")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.entries("memory")) == 32
    assert len(store.history("memory")[0]) == 32


@pytest.mark.proves("durable.lock")
def test_a_fork_of_a_process_that_has_written_is_kept_out_like_any_other(store: MemoryStore) -> None:
    entered, done = os.pipe(), os.pipe()

    def slow(entries: tuple[str, ...]) -> Plan:
        os.write(entered[1], b"x")
        os.read(done[0], 1)
        return Plan(action="curate", edits=(), entries=entries)

    child = os.fork()
    if child == 0:
        store.curate("memory", slow, cause=Cause(origin="curator"))
        os._exit(0)
    try:
        os.read(entered[0], 1)
        with pytest.raises(LockTimeout, match=f"held by process {child} "):
            store.add("memory", "Uses vim.")
    finally:
        os.write(done[1], b"x")
        os.waitpid(child, 0)
    assert store.add("memory", "Uses vim.").entries == ("Uses pytest.", "Uses tox.", "Uses vim.")


@pytest.mark.proves("durable.lock")
def test_a_lock_that_cannot_be_given_back_is_let_go_by_closing_it(
    home: Path, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fcntl.flock

    def flock(file: int, operation: int) -> None:
        if operation == fcntl.LOCK_UN:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(file, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    store.add("memory", "Uses vim.")
    assert len(MemoryStore.open(home).add("memory", "Uses zsh.").entries) == 4
    assert len(store.add("memory", "Uses git.").entries) == 5


@pytest.mark.proves("durable.fault")
def test_a_history_that_cannot_be_looked_at_is_read_again(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    real = OpenFile.look

    def look(file: OpenFile) -> os.stat_result:
        if file.path.endswith(".jsonl"):
            raise StorageError("the disk does not answer")
        return real(file)

    with monkeypatch.context() as patched:
        patched.setattr(OpenFile, "look", look)
        store.add("memory", "Uses vim.")
    store.add("memory", "Uses zsh.")
    assert [change.id for change in store.history("memory")[0]] == ["m1", "m2", "m3", "m4"]


@pytest.mark.proves("durable.strangers")
def test_a_version_that_others_still_write_to_is_watched_by_every_write(home: Path, store: MemoryStore) -> None:
    with open(home / "memories/MEMORY.md", "a") as shell:
        for number in range(3):
            store.add("memory", f"Note {number}.")
        shell.write("\n§\nfrom the shell")
    store.add("memory", "Uses vim.")
    assert set(store.entries("memory")) >= {"from the shell", "Uses vim.", "Note 2."}


@pytest.mark.proves("durable.kill")
def test_replaced_versions_go_after_sixteen_writes(home: Path, store: MemoryStore) -> None:
    seen = []
    for number in range(40):
        store.add("memory", f"Note {number}.")
        seen.append(len([name for name in os.listdir(home / "memories") if name.endswith(".old")]))
    assert (max(seen), min(seen[16:])) == (16, 1)
    MemoryStore.open(home)
    assert [name for name in os.listdir(home / "memories") if name.startswith(".")] == []


@pytest.mark.proves("durable.lock")
@pytest.mark.parametrize("gone", ["memories", "."])
def test_a_folder_that_somebody_removed_is_made_again(home: Path, store: MemoryStore, gone: str) -> None:
    shutil.rmtree(home / gone)
    assert store.add("memory", "Uses vim.").entries == ("Uses vim.",)
    assert store.add("memory", "Uses zsh.").entries == ("Uses vim.", "Uses zsh.")
    assert (home / "memories").stat().st_mode & 0o777 == 0o700


@pytest.mark.proves("durable.lock")
def test_a_fork_in_the_middle_of_a_write_does_not_go_on_holding_the_lock(home: Path) -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.yaml").write_text("memory:\n  lock_timeout: 1\n")
    store, done, children = MemoryStore.open(home), os.pipe(), []

    def forking(entries: tuple[str, ...]) -> Plan:
        child = os.fork()
        if child == 0:
            os.read(done[0], 1)
            os._exit(0)
        children.append(child)
        return Plan(action="curate", edits=(), entries=entries)

    store.curate("memory", forking, cause=Cause(origin="curator"))
    try:
        assert store.add("memory", "Uses vim.").entries == ("Uses vim.",)
    finally:
        os.write(done[1], b"x")
        os.waitpid(children[0], 0)
