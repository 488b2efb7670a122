"""Single promises of durable memory that need no long run to show."""

from __future__ import annotations

import errno
import fcntl
import itertools
import multiprocessing
import os
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.base.errors import LockTimeout, StorageError, UnsafePath, WriteRefused
from hermes.memory import entries as text
from hermes.memory.approval import Approvals
from hermes.memory.entries import Cause, replay
from hermes.memory.store import MemoryStore
from hermes.settings.home import find_home
from hermes.storage.documents import ChangedMeanwhile, SharedFile
from hermes.storage.files import Folder

if TYPE_CHECKING:
    from collections.abc import Callable
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
    late, *others = sorted(os.listdir(tmp_path))
    assert (late.endswith(".late"), others) == (True, ["MEMORY.md", "saved"])
    assert os.path.samefile(tmp_path / late, tmp_path / "MEMORY.md")  # a second name, should it be saved over


class Editor:
    """Saves by renaming, at moments of an exchange of names: before the n-th one or after it."""

    def __init__(self, memories: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.memories = memories
        self.before: dict[int, Callable[[], None]] = {}
        self.after: dict[int, Callable[[], None]] = {}
        self.text = ""
        calls, exchange = itertools.count(), Folder.exchange

        def watched(folder: Folder, one: str, other: str) -> bool:
            call = next(calls)
            self.before.get(call, lambda: None)()
            done = exchange(folder, one, other)
            self.after.get(call, lambda: None)()
            return done

        monkeypatch.setattr(Folder, "exchange", watched)

    def read(self) -> None:
        self.text = (self.memories / "MEMORY.md").read_text(encoding="utf-8")

    def save(self, line: str) -> None:
        (self.memories / "swap").write_text(f"{self.text}\n§\n{line}", encoding="utf-8")
        os.rename(self.memories / "swap", self.memories / "MEMORY.md")

    def backups(self) -> str:
        return "".join(each.read_text(encoding="utf-8") for each in sorted(self.memories.glob("*.bak.*")))


@pytest.fixture
def store(tmp_path: Path) -> MemoryStore:
    store = MemoryStore.open(tmp_path)
    store.add("memory", "first")
    return store


@pytest.fixture
def editor(store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Editor:
    editor = Editor(tmp_path / "memories", monkeypatch)
    editor.read()
    return editor


@pytest.mark.proves("durable.strangers")
def test_an_editor_who_saves_once_in_the_last_moment_costs_nothing(store: MemoryStore, editor: Editor) -> None:
    editor.before[0] = lambda: editor.save("theirs")
    store.add("memory", "ours")
    again = MemoryStore.open(editor.memories.parent)
    assert again.entries("memory") == ("first", "theirs", "ours")
    assert [name for name in os.listdir(editor.memories) if name.startswith(".")] == []
    assert editor.backups() == ""


@pytest.mark.proves("durable.strangers")
def test_where_no_second_name_can_be_made_an_editor_who_saves_in_the_last_moment_is_put_back_all_the_same(
    store: MemoryStore, editor: Editor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    editor.before[0] = lambda: editor.save("theirs")
    monkeypatch.setattr(os, "link", full)
    store.add("memory", "ours")
    assert MemoryStore.open(editor.memories.parent).entries("memory") == ("first", "theirs", "ours")


@pytest.mark.proves("durable.strangers")
def test_an_editor_who_reads_ours_in_the_last_moment_does_not_lose_their_own(
    store: MemoryStore, editor: Editor
) -> None:
    """Theirs was out of place for a moment; what they read then, and saved over their own, has not got their line."""
    editor.before[0] = lambda: editor.save("their first line")
    editor.after[0] = editor.read
    editor.after[1] = lambda: editor.save("their second line")
    store.add("memory", "ours")
    again = MemoryStore.open(editor.memories.parent)
    assert {"ours", "their second line"} <= set(again.entries("memory"))
    assert "their first line" in editor.backups()
    assert [name for name in os.listdir(editor.memories) if name.startswith(".")] == []


@pytest.mark.proves("durable.strangers")
def test_an_editor_who_saves_twice_in_the_last_moment_loses_neither(store: MemoryStore, editor: Editor) -> None:
    editor.before[0] = lambda: editor.save("their first line")
    editor.before[1] = lambda: editor.save("their second line")
    store.add("memory", "ours")
    again = MemoryStore.open(editor.memories.parent)
    kept = "".join(again.entries("memory")) + editor.backups()
    assert all(line in kept for line in ("their first line", "their second line", "ours"))
    assert "ours" in again.entries("memory")
    assert [name for name in os.listdir(editor.memories) if name.startswith(".")] == []


@pytest.mark.proves("durable.strangers")
def test_a_file_that_is_saved_all_the_time_is_left_to_who_saves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore.open(tmp_path)
    store.add("memory", "ours")
    exchange, calls = Folder.exchange, itertools.count()

    def saved_before(folder: Folder, one: str, other: str) -> bool:
        if (call := next(calls)) % 2 == 0:  # every second one puts theirs back
            folder.replace(other, f"theirs {call}".encode())
        return exchange(folder, one, other)

    monkeypatch.setattr(Folder, "exchange", saved_before)
    with pytest.raises(StorageError, match="changed all the time by another program; stop it and try again"):
        store.add("memory", "never")
    assert "never" not in "".join(store.entries("memory"))


@pytest.mark.proves("durable.strangers")
def test_what_is_appended_to_a_replaced_version_comes_in_once_its_writer_is_done(tmp_path: Path) -> None:
    store = MemoryStore.open(tmp_path)
    store.add("memory", "first")
    with (tmp_path / "memories" / "MEMORY.md").open("a") as shell:
        store.add("memory", "second")
        store.add("memory", "third")  # the shell still has the version before the second open
        assert store.entries("memory") == ("first", "second", "third")
        shell.write("\n§\nfrom the shell")
    store.add("memory", "fourth")
    assert set(store.entries("memory")) == {"first", "second", "third", "from the shell", "fourth"}


@pytest.mark.proves("durable.strangers", "curated.drift")
def test_what_is_appended_while_the_file_is_in_another_form_is_kept_in_a_backup(tmp_path: Path) -> None:
    store = MemoryStore.open(tmp_path)
    store.add("memory", "first")
    path = tmp_path / "memories" / "MEMORY.md"
    with path.open("a") as shell:
        store.add("memory", "second")
        shell.write("\n§\nfrom the shell")
    path.write_bytes(b"first\n\xc2\xa7\n\xff\xfe damaged")
    MemoryStore.open(tmp_path)  # looks for what others left behind
    with pytest.raises(WriteRefused, match="changed outside the memory tool"):
        store.add("memory", "third")
    kept = b"".join(each.read_bytes() for each in path.parent.glob("MEMORY.md.bak.*"))
    assert b"from the shell" in kept
    assert b"damaged" in kept


@pytest.mark.proves("curated.drift")
def test_two_backups_of_one_second_have_names_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_763_208_000.5)
    path = tmp_path / "memories" / "MEMORY.md"
    path.parent.mkdir()
    store = MemoryStore.open(tmp_path)
    for text_in_another_form in (b"one\xff", b"two\xff"):
        path.write_bytes(text_in_another_form)
        with pytest.raises(WriteRefused):
            store.add("memory", "more")
    kept = {each.name: each.read_bytes() for each in path.parent.glob("MEMORY.md.bak.*")}
    assert kept == {"MEMORY.md.bak.1763208000": b"one\xff", "MEMORY.md.bak.1763208000.1": b"two\xff"}


@pytest.mark.proves("durable.history")
def test_a_history_that_lost_its_beginning_is_still_told(tmp_path: Path) -> None:
    store = MemoryStore.open(tmp_path)
    store.add("memory", "first")
    store.add("memory", "second")
    store.replace("memory", "first", "1st")
    changes, _ = store.history("memory")
    assert replay(changes[1:]) == ("second",)
    with pytest.raises(WriteRefused, match="target must be one of memory, user, project, not 'diary'"):
        store.history("diary")


def failing_to_sync(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """The disk has an error, but only for this folder."""
    sync = os.fsync

    def fsync(descriptor: int) -> None:
        if os.path.samestat(os.fstat(descriptor), os.stat(folder)):
            raise OSError(errno.EIO, "Input/output error")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)


@pytest.mark.proves("durable.fault", "curated.approval")
def test_a_request_that_may_not_survive_is_taken_back(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    approvals = Approvals(find_home(home))
    first = approvals.stage("memory", [{"action": "add", "content": "first"}], Cause(origin="agent"))
    with monkeypatch.context() as broken:
        failing_to_sync(broken, home / "pending" / "memory")
        with pytest.raises(StorageError, match="Input/output error"):
            approvals.stage("memory", [{"action": "add", "content": "second"}], Cause(origin="agent"))
    assert approvals.pending() == ([first], [])


@pytest.mark.proves("durable.fault", "curated.approval")
def test_an_approved_write_counts_although_the_list_could_not_be_made_safe(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    approvals, store = Approvals(find_home(home)), MemoryStore.open(home)
    staged = approvals.stage("memory", [{"action": "add", "content": "first"}], Cause(origin="agent"))
    with monkeypatch.context() as broken:
        failing_to_sync(broken, home / "pending" / "memory")
        written = approvals.approve(staged.id, store)
    assert store.entries("memory") == ("first",)
    assert "Input/output error" in written.message


def cleaned(content: str) -> str:
    try:
        return text.clean(content)
    except WriteRefused:
        return ""


def add_many(home: str, name: str) -> None:
    store = MemoryStore.open(home)
    for number in range(25):
        store.add("memory", f"{name} {number}")


@pytest.mark.proves("curated.rot")
def test_a_flipped_bit_is_told_from_an_edit(tmp_path: Path) -> None:
    store = MemoryStore.open(tmp_path)
    store.add("memory", "The harbour closes at nine.")
    path = tmp_path / "memories/MEMORY.md"
    written = path.stat()
    data = bytearray(path.read_bytes())
    data[5] ^= 1
    with open(path, "r+b") as file:
        file.write(data)
    edited = store.read("memory")
    assert (edited.drift, edited.foreign) == ("", True)  # somebody wrote there: the time says so
    os.utime(path, ns=(written.st_atime_ns, written.st_mtime_ns))
    assert "although nobody has written to it since" in store.read("memory").drift
    with pytest.raises(WriteRefused, match="as on a failing disk"):
        store.add("memory", "One more.")
    assert path.read_bytes() == data
    store.adopt("memory")
    store.add("memory", "One more.")
    assert len(store.entries("memory")) == 2
