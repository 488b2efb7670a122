"""Memory on file systems and beside programs that do not do what is usual: calls that fail or are not there."""

from __future__ import annotations

import errno
import fcntl
import os
from typing import TYPE_CHECKING, Any

import pytest

from hermes.base.errors import LockTimeout, StorageError
from hermes.memory.store import MemoryStore
from hermes.storage import files as descriptors
from hermes.storage.documents import SharedFile
from hermes.storage.files import Folder, OpenFile, keep_private, make_private_folders, read_foreign
from hermes.storage.locks import FileLock, WriteQueue, is_held

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def failing(code: int) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(code, os.strerror(code))

    return fail


@pytest.fixture
def store(home: Path) -> MemoryStore:
    opened = MemoryStore.open(home)
    opened.add("memory", "Uses pytest.")
    return opened


@pytest.mark.proves("durable.writers")
@pytest.mark.parametrize(("code", "works"), [(errno.EPERM, True), (errno.EOPNOTSUPP, True), (errno.EIO, False)])
def test_where_names_can_be_neither_exchanged_nor_doubled_a_write_is_a_plain_rename(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, code: int, works: bool
) -> None:
    monkeypatch.setattr(Folder, "exchange", lambda *_: False)
    monkeypatch.setattr(os, "link", failing(code))
    if works:
        store.add("memory", "Uses tox.")
    else:
        with pytest.raises(StorageError, match="could not keep a second name for"):
            store.add("memory", "Uses tox.")
    monkeypatch.undo()
    assert store.entries("memory") == (("Uses pytest.", "Uses tox.") if works else ("Uses pytest.",))
    assert [change.action for change in store.history("memory")[0]] == ["add"] * (1 + works)


@pytest.mark.proves("durable.writers")
def test_a_system_without_the_call_that_exchanges_names_is_written_to_all_the_same(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    import _ctypes

    monkeypatch.setattr(descriptors, "_renameat2", [])
    monkeypatch.setattr(_ctypes, "dlsym", failing(errno.ENOSYS))
    assert store.add("memory", "Uses tox.").entries == ("Uses pytest.", "Uses tox.")


@pytest.mark.proves("durable.writers")
def test_a_file_that_somebody_takes_away_or_makes_in_the_same_moment_is_no_error(
    home: Path, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = home / "memories/MEMORY.md"
    real = Folder.write_new

    def editor_was_faster(folder: Folder, name: str, data: bytes, *, sync: bool = True) -> int:
        if name == "MEMORY.md":
            place.write_text("Written by an editor.")
        return real(folder, name, data, sync=sync)

    place.unlink()
    with monkeypatch.context() as patched:
        patched.setattr(Folder, "write_new", editor_was_faster)
        assert store.add("memory", "Uses tox.").entries == ("Written by an editor.", "Uses tox.")
    place.unlink()
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", _unless(os.open, "MEMORY.md", errno.ENOSPC, os.O_CREAT))
        with pytest.raises(StorageError, match="could not create"):
            store.add("memory", "Uses vim.")


def _unless(real: Callable[..., int], name: str, code: int, flag: int) -> Callable[..., int]:
    def opened(path: str, flags: int, *given: Any, **more: Any) -> int:
        if path == name and flags & flag:
            raise OSError(code, os.strerror(code))
        return real(path, flags, *given, **more)

    return opened


@pytest.mark.proves("durable.recovery")
def test_names_that_look_like_ours_and_are_not_do_not_disturb(home: Path, store: MemoryStore) -> None:
    with Folder.create(str(home / "memories")) as folder:
        shared = SharedFile(folder, "MEMORY.md", at_most=1_000_000)
        (home / "memories/.MEMORY.md.odd.old").write_bytes(b"what somebody put here")
        version = shared.old_version(".MEMORY.md.odd.old")
        assert version is not None
        assert (version.data, version.added(), version.label) == (b"what somebody put here", b"", "")
        os.link(home / "memories/MEMORY.md", home / "memories/.MEMORY.md.same.old")
        assert shared.old_version(".MEMORY.md.same.old") is None  # it is the file itself
        assert shared.old_version(".MEMORY.md.gone.old") is None
        assert shared.still_written(".MEMORY.md.gone.old") is False
    assert MemoryStore.open(home).entries("memory") == ("Uses pytest.",)


@pytest.mark.proves("durable.writers")
def test_a_version_that_cannot_be_put_back_is_named(
    home: Path, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = home / "memories/MEMORY.md"
    real, calls = Folder.exchange, list[str]()

    def exchanged(folder: Folder, one: str, other: str) -> bool:
        calls.append(one)
        if len(calls) > 1:
            return False
        place.unlink()
        place.write_text("Saved in the last moment.")
        return real(folder, one, other)

    monkeypatch.setattr(Folder, "exchange", exchanged)
    with pytest.raises(StorageError, match="could not be put back; it is kept in a backup"):
        store.add("memory", "Uses tox.")
    monkeypatch.undo()
    everything = b"".join(path.read_bytes() for path in (home / "memories").iterdir() if path.is_file())
    assert b"Saved in the last moment." in everything


@pytest.mark.proves("durable.writers")
def test_what_cannot_be_found_out_about_other_writers_counts_as_possible(
    home: Path, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = OpenFile.look

    def look(file: OpenFile) -> os.stat_result:
        if file.path.endswith("MEMORY.md"):
            raise StorageError("the disk does not answer")
        return real(file)

    with monkeypatch.context() as patched:
        patched.delattr(fcntl, "F_SETLEASE")
        store.add("memory", "Uses tox.")
    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "fcntl", failing(errno.EAGAIN))
        store.add("memory", "Uses vim.")
    with monkeypatch.context() as patched:
        patched.setattr(OpenFile, "look", look)
        store.add("memory", "Uses zsh.")
    assert store.entries("memory") == ("Uses pytest.", "Uses tox.", "Uses vim.", "Uses zsh.")
    assert [name for name in os.listdir(home / "memories") if name.endswith(".late")]


@pytest.mark.proves("durable.private")
def test_folders_and_files_that_cannot_be_made_private_are_named(
    home: Path, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "memories/MEMORY.md.lock").chmod(0o644)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fchmod", failing(errno.EPERM))
        with pytest.raises(StorageError, match="could not make private"):
            store.add("memory", "Uses tox.")
    with monkeypatch.context() as patched:
        patched.setattr(os, "mkdir", failing(errno.EACCES))
        with pytest.raises(StorageError, match="could not create"):
            make_private_folders(str(home / "a/b"))
    (home / "open.txt").write_text("x")
    (home / "open.txt").chmod(0o644)
    with monkeypatch.context() as patched:
        patched.setattr(os, "chmod", failing(errno.EPERM))
        with pytest.raises(StorageError, match="could not make private"):
            keep_private(str(home / "open.txt"))
    assert (keep_private(str(home / "open.txt")), keep_private(str(home / "none.txt"))) == (True, False)


@pytest.mark.proves("durable.private")
def test_a_folder_that_comes_or_goes_while_it_is_made_is_no_surprise(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.mkdir

    def faster(path: str, mode: int) -> None:
        real(path, mode)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))

    with monkeypatch.context() as patched:
        patched.setattr(os, "mkdir", faster)
        Folder.create(str(home / "one/two")).close()
        patched.chdir(home)
        Folder.create("three/four").close()
        assert (home / "three/four").is_dir()
    with monkeypatch.context() as patched:
        patched.setattr(Folder, "open", classmethod(lambda *_: None))
        with pytest.raises(StorageError, match="disappeared while it was being opened"):
            Folder.create(str(home / "one/two"))


@pytest.mark.proves("durable.lock")
def test_a_lock_whose_file_is_removed_meanwhile_is_taken_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, removed = fcntl.flock, list[int]()

    def removing(descriptor: int, operation: int) -> None:
        real(descriptor, operation)
        if not removed:
            removed.append(descriptor)
            (home / "x.lock").unlink()

    monkeypatch.setattr(fcntl, "flock", removing)
    with Folder.create(str(home)) as folder, FileLock(folder, "x.lock", timeout=5):
        assert removed
        assert is_held(folder, "x.lock")  # whoever opens the file now sees that it is held


@pytest.mark.proves("durable.lock")
@pytest.mark.parametrize(
    ("lines", "holder"),
    [
        ("", "another process"),
        ("1: FLOCK\n", "another process"),
        ("1: FLOCK ADVISORY WRITE 999999999 00:00:INODE 0 EOF\n", r"process 999999999 \(unknown command\)"),
    ],
)
def test_a_holder_that_the_system_does_not_tell_is_another_process(
    home: Path, monkeypatch: pytest.MonkeyPatch, lines: str, holder: str
) -> None:
    with Folder.create(str(home)) as folder, FileLock(folder, "x.lock", timeout=0):
        listed = home / "locks"
        listed.write_text(lines.replace("INODE", str((home / "x.lock").stat().st_ino)))
        real = open

        def opened(path: str, *given: Any, **more: Any) -> Any:
            return real(listed if path == "/proc/locks" else path, *given, **more)

        monkeypatch.setattr("builtins.open", opened)
        with (
            pytest.raises(LockTimeout, match=f"held by {holder} for more than 0 s"),
            FileLock(folder, "x.lock", timeout=0),
        ):
            pass
        assert is_held(folder, "x.lock")
        assert not is_held(folder, "y.lock")


@pytest.mark.proves("sessions.lock_wait")
def test_a_queue_that_cannot_be_made_names_what_is_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "state.db.lock").symlink_to("/etc/passwd")
    write_queue = WriteQueue(str(tmp_path / "state.db.lock"), wait_seconds=1)
    with pytest.raises(StorageError, match="a symbolic link, which is not followed here"), write_queue:
        pass
    write_queue.close()


@pytest.mark.proves("durable.bytes")
def test_a_file_of_somebody_else_that_cannot_be_read_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    (tmp_path / "nowhere").symlink_to(tmp_path / "nothing")
    (tmp_path / "plain").write_text("text")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "wide").write_bytes(b"\xff\xfe" + b"a\0" * 400_000)
    told = {name: read_foreign(str(tmp_path / name)).note for name in ("circle", "nowhere", "pipe", "wide", "nul\0")}
    assert told == {
        "circle": "it is a link that leads back to itself",
        "nowhere": "it is a link to a file that does not exist",
        "pipe": "it is a pipe, not a file",
        "wide": "it is UTF-16 and too large (800,002 bytes)",
        "nul\0": "its name is not a usable path",
    }
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", failing(errno.EACCES))
        assert read_foreign(str(tmp_path / "plain")).note == "permission to read it was denied"
    real = os.stat

    def swapped(path: str, *given: Any, **more: Any) -> os.stat_result:
        return real(tmp_path / "plain" if path == str(tmp_path / "pipe") else path, *given, **more)

    monkeypatch.setattr(os, "stat", swapped)  # it becomes a pipe after the look
    assert "it is a pipe, not a file" in read_foreign(str(tmp_path / "pipe")).note


@pytest.mark.proves("durable.private")
def test_a_folder_whose_name_is_taken_by_something_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(StorageError, match="move it away"):
        Folder.open(str(tmp_path / "link"))
    with Folder.create(str(tmp_path / "real")) as folder:
        (tmp_path / "real/.a.0.tmp").write_text("of nobody that lives: zero is no process of ours")
        (tmp_path / f"real/.a.{'9' * 30}.tmp").write_text("no process at all")
        folder.discard_abandoned()
        with monkeypatch.context() as patched:
            patched.setattr(os, "unlink", failing(errno.EACCES))
            with pytest.raises(StorageError, match="could not remove"):
                folder.remove(".a.0.tmp")
        assert folder.remove("nothing") is False
        folder.close()  # once more does no harm
        file = OpenFile.checked("x", os.open(tmp_path / "real/.a.0.tmp", os.O_RDONLY))
        file.close()
        file.close()
    assert sorted(os.listdir(tmp_path / "real")) == [".a.0.tmp", f".a.{'9' * 30}.tmp"]


@pytest.mark.proves("durable.bytes")
def test_a_write_whose_folder_cannot_be_synced_is_taken_back_and_the_next_one_holds(
    home: Path, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(folder: Folder) -> None:
        raise StorageError(f"{folder.path} cannot be synced")

    with monkeypatch.context() as patched:
        patched.setattr(Folder, "sync", broken)
        with pytest.raises(StorageError, match="cannot be synced"):
            store.add("memory", "Uses tox.")
    assert (home / "memories/MEMORY.md").read_text() == "Uses pytest."
    store.add("memory", "Uses vim.")
    assert MemoryStore.open(home).entries("memory") == ("Uses pytest.", "Uses vim.")
