"""The store as a library: snapshot, live state, files that people touch."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from hermes.base.errors import StorageError, UnsafePath, WriteRefused
from hermes.memory.entries import Cause
from hermes.memory.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

RULE = "═" * 46


def write(home: Path, data: bytes, name: str = "MEMORY.md") -> Path:
    (home / "memories").mkdir(parents=True, exist_ok=True)
    path = home / "memories" / name
    path.write_bytes(data)
    return path


@pytest.mark.proves("curated.missing", "curated.snapshot")
def test_an_empty_home_has_no_entries_no_snapshot_and_is_not_written_to(home: Path) -> None:
    store = MemoryStore.open(home)
    assert (store.entries("memory"), store.snapshot("memory"), store.snapshot("user")) == ((), "", "")
    assert not home.exists()


@pytest.mark.proves("curated.frozen", "curated.live", "curated.snapshot")
def test_a_write_during_a_session_leaves_its_snapshot_unchanged(home: Path) -> None:
    MemoryStore.open(home).add("user", "Likes tea.")
    session = MemoryStore.open(home)
    before = session.snapshot("user")
    session.add("user", "Works at night.")
    assert session.snapshot("user") == before
    assert session.entries("user") == ("Likes tea.", "Works at night.")
    assert MemoryStore.open(home).snapshot("user") == (
        f"{RULE}\nUSER PROFILE (who the user is) [2% — 28/1,375 chars]\n{RULE}\nLikes tea.\n§\nWorks at night."
    )


@pytest.mark.proves("curated.snapshot")
def test_the_snapshot_of_the_notes_has_its_own_title_and_drops_exact_duplicates(home: Path) -> None:
    write(home, b"one\n\xc2\xa7\ntwo\n\xc2\xa7\none")
    expected = f"{RULE}\nMEMORY (your personal notes) [0% — 9/2,200 chars]\n{RULE}\none\n§\ntwo"
    assert MemoryStore.open(home).snapshot("memory") == expected


@pytest.mark.proves("curated.disabled")
def test_a_switched_off_store_shows_nothing(home: Path, hermes: Callable[..., Ran]) -> None:
    MemoryStore.open(home).add("user", "Likes tea.")
    hermes("config", "set", "memory.user_profile_enabled", "false")
    assert MemoryStore.open(home).snapshot("user") == ""


@pytest.mark.proves("curated.limits")
def test_settings_change_the_limits(home: Path, hermes: Callable[..., Ran]) -> None:
    hermes("config", "set", "memory.memory_char_limit", "5000")
    assert len(MemoryStore.open(home).add("memory", "x" * 4000).entries[0]) == 4000


@pytest.mark.proves("curated.unreadable")
def test_a_file_that_cannot_be_read_is_never_an_empty_memory(home: Path) -> None:
    MemoryStore.open(home).add("memory", "kept")
    path = home / "memories" / "MEMORY.md"
    path.rename(path.with_suffix(".away"))
    path.mkdir()
    store = MemoryStore.open(home)
    assert "could not be read" in store.snapshot("memory")
    with pytest.raises(StorageError, match="a folder"):
        store.entries("memory")
    with pytest.raises(StorageError):
        store.add("memory", "new")


@pytest.mark.proves("curated.hand-edit", "curated.history")
def test_a_line_appended_by_a_shell_becomes_an_entry_of_its_own(home: Path) -> None:
    store = MemoryStore.open(home)
    store.add("memory", "from the agent")
    subprocess.run(["sh", "-c", f"echo 'from a shell' >> {store.path('memory')}"], check=True)
    assert store.entries("memory") == ("from the agent", "from a shell")
    assert store.add("memory", "later").entries == ("from the agent", "from a shell", "later")
    actions = [(change.action, change.cause.origin, change.added()) for change in store.history("memory")[0]]
    assert actions == [
        ("add", "agent", ["from the agent"]),
        ("external", "external", ["from a shell"]),
        ("add", "agent", ["later"]),
    ]


@pytest.mark.proves("curated.hand-edit", "curated.undo")
def test_what_a_person_saved_with_an_editor_is_kept_recorded_and_can_be_undone(home: Path) -> None:
    store = MemoryStore.open(home)
    store.add("memory", "one")
    store.add("memory", "two")
    write(home, "zero\n§\ntwo\n".encode())
    store.add("memory", "three")
    edited = store.history("memory")[0][2]
    assert (edited.cause.origin, edited.removed(), edited.added()) == ("external", ["one"], ["zero"])
    assert store.undo(edited.id).entries == ("one", "two", "three")


@pytest.mark.proves("curated.hand-edit")
def test_a_file_that_was_deleted_by_hand_can_be_brought_back(home: Path) -> None:
    store = MemoryStore.open(home)
    store.add("memory", "one")
    os.unlink(store.path("memory"))
    assert store.entries("memory") == ()
    store.add("memory", "two")
    gone = store.history("memory")[0][1]
    assert store.undo(gone.id).entries == ("one", "two")


DRIFTED = {
    "blank lines around an entry": "one\n§\n\n  two\n".encode(),
    "an entry larger than the file may be": b"x" * 2201,
    "a byte that is no UTF-8": b"caf\xe9",
    "NUL bytes": b"\0" * 300,
    "half a UTF-16 character": b"\xff\xfea\0b",
    "mixed line ends": "one\r\n§\r\ntwo\nthree\n§\nfour\r\n§\nfive\n§\n".encode(),
}


@pytest.mark.proves("curated.drift")
@pytest.mark.parametrize("data", DRIFTED.values(), ids=DRIFTED)
def test_a_file_in_another_form_is_backed_up_once_and_every_write_refused(home: Path, data: bytes) -> None:
    path = write(home, data)
    store = MemoryStore.open(home)
    for operation in (
        {"action": "add", "content": "new"},
        {"action": "replace", "old_text": "one", "content": "two"},
        {"action": "remove", "old_text": "one"},
    ):
        with pytest.raises(WriteRefused, match="changed outside the memory tool") as refused:
            store.apply("memory", [operation])
        assert refused.value.kind == "drift"
        assert "hermes memory adopt --target memory" in str(refused.value.details["remediation"])
    backups = list((home / "memories").glob("MEMORY.md.bak.*"))
    assert [backup.read_bytes() for backup in backups] == [data]
    assert path.read_bytes() == data


@pytest.mark.proves("curated.adopt")
def test_a_person_can_adopt_a_drifted_file_and_its_bytes_stay_in_a_backup(
    home: Path, hermes: Callable[..., Ran]
) -> None:
    path = write(home, "caf\xe9\n\xa7\n  tea  ".encode("cp1252"))
    assert "not UTF-8" in hermes("memory", "list").out
    assert hermes("memory", "adopt").code == 0
    assert path.read_text() == "café\n§\n  tea".replace("  tea", "tea")
    assert [each.read_bytes() for each in (home / "memories").glob("MEMORY.md.bak.*")] == [b"caf\xe9\n\xa7\n  tea  "]


@pytest.mark.proves("curated.drift")
@pytest.mark.parametrize(("data", "said"), [(b"one\0", "1 NUL byte,"), (b"one\0\0", "2 NUL bytes,")])
def test_a_file_with_nul_bytes_is_reported_with_their_number(home: Path, data: bytes, said: str) -> None:
    write(home, data)
    assert said in MemoryStore.open(home).read("memory").drift


TOLERATED = {
    "a byte order mark": ("\ufeffone\n§\ntwo".encode(), ("one", "two")),
    "UTF-16": ("one\n§\ntwo".encode("utf-16"), ("one", "two")),
    "Windows line ends": (b"one\r\n\xc2\xa7\r\ntwo\r\n", ("one", "two")),
    "a line end after the last entry": (b"one\n\xc2\xa7\ntwo\n", ("one", "two")),
}


@pytest.mark.proves("curated.hand-edit")
@pytest.mark.parametrize(("data", "entries"), TOLERATED.values(), ids=TOLERATED)
def test_harmless_differences_are_read_and_written_in_our_form(
    home: Path, data: bytes, entries: tuple[str, ...]
) -> None:
    path = write(home, data)
    store = MemoryStore.open(home)
    assert store.entries("memory") == entries
    assert store.add("memory", "three").entries == (*entries, "three")
    assert path.read_bytes() == "one\n§\ntwo\n§\nthree".encode()


@pytest.mark.proves("curated.drift")
def test_text_that_was_saved_as_utf_16_stays_in_a_backup(home: Path) -> None:
    data = "one\n§\ntwo".encode("utf-16")
    write(home, data)
    MemoryStore.open(home).add("memory", "three")
    assert [each.read_bytes() for each in (home / "memories").glob("MEMORY.md.bak.*")] == [data]


@pytest.mark.proves("curated.full")
def test_a_file_over_the_limit_can_be_made_smaller_step_by_step(home: Path) -> None:
    write(home, "\n§\n".join(f"{n} " + "x" * 800 for n in range(4)).encode())
    store = MemoryStore.open(home)
    assert len(store.remove("memory", "3 xxx").entries) == 3
    assert len(store.replace("memory", "2 xxx", "2 x").entries) == 3


@pytest.mark.proves("curated.links")
def test_a_link_out_of_the_home_is_refused_and_its_target_untouched(home: Path, tmp_path: Path) -> None:
    victim = tmp_path / "id_rsa"
    victim.write_text("PRIVATE KEY")
    (home / "memories").mkdir(parents=True)
    (home / "memories" / "MEMORY.md").symlink_to(victim)
    with pytest.raises(UnsafePath, match="leads out of the home"):
        MemoryStore.open(home)
    assert victim.read_text() == "PRIVATE KEY"


@pytest.mark.proves("curated.links")
def test_two_homes_that_link_to_one_file_share_it_and_its_lock(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    MemoryStore.open(first).add("memory", "from the first")
    (second / "memories").mkdir(parents=True)
    (second / "memories" / "MEMORY.md").symlink_to(first / "memories" / "MEMORY.md")
    linked = MemoryStore.open(second)
    linked.add("memory", "from the second")
    assert MemoryStore.open(first).entries("memory") == ("from the first", "from the second")
    assert sorted(os.listdir(second / "memories")) == ["MEMORY.md"]


@pytest.mark.proves("curated.links")
def test_a_folder_named_in_the_settings_may_be_linked_into(
    home: Path, tmp_path: Path, hermes: Callable[..., Ran]
) -> None:
    dotfiles = tmp_path / "dotfiles"
    dotfiles.mkdir()
    (home / "memories").mkdir(parents=True)
    (home / "memories" / "MEMORY.md").symlink_to(dotfiles / "notes.md")
    assert hermes("memory", "add", "x").code == 1
    hermes("config", "set", "memory.linked_folders", os.fspath(dotfiles))
    assert hermes("memory", "add", "x").code == 0
    assert (dotfiles / "notes.md").read_text() == "x"


@pytest.mark.proves("curated.history")
def test_the_history_knows_who_when_from_which_session_before_and_after(home: Path) -> None:
    store = MemoryStore.open(home)
    store.add("memory", "old", cause=Cause(origin="agent", session="20261115_101500_abcdef"))
    store.replace("memory", "old", "new", cause=Cause(origin="background_review", session="s2"))
    first, second = store.history("memory")[0]
    assert (first.id, first.cause.session, first.removed(), first.added()) == (
        "m1",
        "20261115_101500_abcdef",
        [],
        ["old"],
    )
    assert (second.cause.origin, second.removed(), second.added()) == ("background_review", ["old"], ["new"])
    assert first.at <= second.at


@pytest.mark.proves("curated.undo")
def test_a_change_can_be_undone_and_the_undo_undone(home: Path) -> None:
    store = MemoryStore.open(home)
    store.apply("memory", [{"action": "add", "content": each} for each in ("a", "b\nlines", "ç 中文 🙂")])
    removed = store.remove("memory", "lines").change
    assert removed is not None
    undone = store.undo(removed.id)
    assert undone.entries == ("a", "b\nlines", "ç 中文 🙂")
    assert undone.change is not None
    assert store.undo(undone.change.id).entries == ("a", "ç 中文 🙂")


@pytest.mark.proves("curated.undo")
def test_an_undo_that_a_later_change_stands_in_the_way_of_is_refused(home: Path) -> None:
    store = MemoryStore.open(home)
    store.add("memory", "one")
    store.replace("memory", "one", "two")
    with pytest.raises(WriteRefused, match="undo the later change first"):
        store.undo("m1")


@pytest.mark.proves("curated.undo")
def test_an_undo_that_would_overfill_the_file_is_refused(home: Path, hermes: Callable[..., Ran]) -> None:
    hermes("config", "set", "memory.when_full", "refuse")
    store = MemoryStore.open(home)
    store.add("memory", "a" * 1500)
    removed = store.remove("memory", "aaa").change
    assert removed is not None
    store.add("memory", "b" * 1500)
    with pytest.raises(WriteRefused, match="memory is full"):
        store.undo(removed.id)
