"""A lock or a history that the disk refuses, and an editor that saves while a change is recorded: nothing is lost."""

from __future__ import annotations

import errno
import fcntl
import os
from typing import TYPE_CHECKING

import pytest

from hermes.base.errors import StorageError
from hermes.memory.store import MemoryStore
from hermes.storage.documents import ChangedMeanwhile, Journal, SharedFile
from hermes.storage.files import Folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.proves("durable.fault")
def test_a_lock_that_the_disk_refuses_is_a_typed_error_and_nothing_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore.open(tmp_path)
    store.add("memory", "first")
    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", failing_with(errno.EIO))
        with pytest.raises(StorageError, match="lock"):
            MemoryStore.open(tmp_path).add("memory", "second")
    assert store.add("memory", "third").entries == ("first", "third")


@pytest.mark.proves("durable.fault")
def test_a_history_whose_end_cannot_be_read_is_a_typed_error_and_nothing_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    MemoryStore.open(tmp_path).add("memory", "first")
    with Folder.create(str(tmp_path / "memories")) as folder, monkeypatch.context() as patched:
        patched.setattr(os, "pread", failing_with(errno.EIO))
        with pytest.raises(StorageError, match=r"history\.jsonl"):
            Journal(folder, "MEMORY.md.history.jsonl").last()
    assert MemoryStore.open(tmp_path).add("memory", "second").entries == ("first", "second")


@pytest.mark.proves("durable.strangers")
def test_what_an_editor_saves_while_a_change_is_recorded_is_not_replaced(tmp_path: Path) -> None:
    memory = tmp_path / "MEMORY.md"
    memory.write_bytes(b"before")

    def save(_: object) -> None:
        memory.write_bytes(b"theirs, longer")

    with Folder.create(str(tmp_path)) as folder:
        shared = SharedFile(folder, "MEMORY.md", at_most=1000)
        with shared.see() as seen, pytest.raises(ChangedMeanwhile):
            shared.replace(seen, b"ours", "1.add.agent.s", save, lambda: None)
    assert (memory.read_bytes(), os.listdir(tmp_path)) == (b"theirs, longer", ["MEMORY.md"])


def failing_with(number: int) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail
