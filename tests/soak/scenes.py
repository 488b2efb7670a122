"""Homes in the states that matter, and every operation on curated memory, for the fault soak."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes.memory.approval import Approvals
from hermes.memory.entries import Cause
from hermes.memory.store import MemoryStore
from hermes.settings.home import find_home

if TYPE_CHECKING:
    from collections.abc import Callable

CAUSE = Cause(origin="agent", session="soak-1")
TARGET = "memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """`scenes`: the homes it is tried on. `call` raises, or returns; a write returns the id of its change.

    `begin` does what comes before, undisturbed, and leaves entries as they are.
    """

    name: str
    scenes: tuple[Callable[[str], None], ...]
    call: Callable[[str], str | None] | None = None
    resume: Callable[[str], Callable[[], str | None]] | None = None

    def begin(self, home: str) -> Callable[[], str | None]:
        if self.resume is not None:
            return self.resume(home)
        assert self.call is not None
        return functools.partial(self.call, home)


def fresh(home: str) -> None:
    """No home at all yet."""
    del home


def settled(home: str) -> None:
    """Three entries, a staged write, nothing left over."""
    _three_entries(home)
    _stage(home)
    MemoryStore.open(home)


def with_old_versions(home: str) -> None:
    """Replaced versions still there, and a line that a shell added to one of them after it was replaced."""
    store = _three_entries(home)
    _stage(home)
    folder = os.path.dirname(store.path(TARGET))
    newest = max((name for name in os.listdir(folder) if name.endswith(".old")), key=_order)
    with open(os.path.join(folder, newest), "ab") as file:
        file.write(b"late line\n")


def appended_to(home: str) -> None:
    """A shell has added a line to the file itself."""
    settled(home)
    with open(MemoryStore.open(home).path(TARGET), "ab") as file:
        file.write(b"shell line\n")


def with_byte_order_mark(home: str) -> None:
    """An editor has saved the file anew with a byte order mark: tolerated, with a backup."""
    settled(home)
    path = MemoryStore.open(home).path(TARGET)
    with open(path, "rb") as file:
        data = file.read()
    with open(f"{path}.new", "wb", opener=_private) as file:
        file.write(b"\xef\xbb\xbf" + data)
    os.rename(f"{path}.new", path)


def in_another_form(home: str) -> None:
    """Somebody has saved the file in a form that cannot be written back."""
    settled(home)
    with open(MemoryStore.open(home).path(TARGET), "wb") as file:
        file.write(b"  indented\n\n\xc2\xa7\n\n  free text \n")


def full(home: str) -> None:
    """A store without room for what comes next."""
    os.makedirs(home, 0o700, exist_ok=True)
    with open(os.path.join(home, "config.yaml"), "w", encoding="utf-8", opener=_private) as file:
        file.write("memory:\n  memory_char_limit: 100\n")
    settled(home)


def _archive(home: str) -> str | None:
    return _id(MemoryStore.open(home).add(TARGET, "needs the room of another entry: " + "n" * 56, cause=CAUSE))


def _add(home: str) -> str | None:
    return _id(MemoryStore.open(home).add(TARGET, "new entry", cause=CAUSE))


def _written_before(home: str) -> MemoryStore:
    """A store that has folder, lock and history open since its last write, which left everything as it was."""
    store = MemoryStore.open(home)
    for old, new in (("third", "for a moment"), ("for a moment", "third")):
        store.replace(TARGET, old, new, cause=CAUSE)
    return store


def _add_again(home: str) -> Callable[[], str | None]:
    store = _written_before(home)
    return lambda: _id(store.add(TARGET, "new entry", cause=CAUSE))


def _sixteenth(home: str) -> Callable[[], str | None]:
    """So many versions were replaced that this write lets go of them."""
    store = MemoryStore.open(home)
    for _ in range(8):
        for old, new in (("third", "for a moment"), ("for a moment", "third")):
            store.replace(TARGET, old, new, cause=CAUSE)
    return lambda: _id(store.add(TARGET, "new entry", cause=CAUSE))


def _add_first_to_user(home: str) -> str | None:
    MemoryStore.open(home).add("user", "first of user", cause=CAUSE)
    return None


def _replace(home: str) -> str | None:
    return _id(MemoryStore.open(home).replace(TARGET, "second", "second again", cause=CAUSE))


def _remove(home: str) -> str | None:
    return _id(MemoryStore.open(home).remove(TARGET, "second", cause=CAUSE))


def _batch(home: str) -> str | None:
    operations = [{"action": "remove", "old_text": "first"}, {"action": "add", "content": "in a batch"}]
    return _id(MemoryStore.open(home).apply(TARGET, operations, cause=CAUSE))


def _undo(home: str) -> str | None:
    return _id(MemoryStore.open(home).undo("m3", cause=CAUSE))


def _reset(home: str) -> str | None:
    return _id(MemoryStore.open(home).reset(TARGET, cause=CAUSE))


def _adopt(home: str) -> str | None:
    return _id(MemoryStore.open(home).adopt(TARGET, cause=CAUSE))


def _stage(home: str) -> None:
    Approvals(find_home(home)).stage(TARGET, [{"action": "add", "content": "staged entry"}], CAUSE)


def _approve(home: str) -> str | None:
    approvals = Approvals(find_home(home))
    return _id(approvals.approve(approvals.pending()[0][0].id, MemoryStore.open(home)))


def _reject(home: str) -> None:
    approvals = Approvals(find_home(home))
    approvals.reject(approvals.pending()[0][0].id)


def _open(home: str) -> None:
    store = MemoryStore.open(home)
    if "second" not in store.snapshot(TARGET) and "could not be read" not in store.snapshot(TARGET):
        raise AssertionError(f"an unreadable file became this snapshot: {store.snapshot(TARGET)!r}")


def _read(home: str) -> None:
    entries = MemoryStore.open(home).entries(TARGET)
    if "second" not in entries:
        raise AssertionError(f"an unreadable file became these entries: {entries}")


def _history(home: str) -> None:
    changes, damaged = MemoryStore.open(home).history(TARGET)
    if damaged or [change.id for change in changes][:3] != ["m1", "m2", "m3"]:
        raise AssertionError(f"an unreadable history became {changes} and {damaged} damaged lines")


_ALL = (settled, with_old_versions, appended_to, with_byte_order_mark)
OPERATIONS = (
    Operation(name="open", scenes=_ALL, call=_open),
    Operation(name="read", scenes=_ALL, call=_read),
    Operation(name="history", scenes=(settled, with_old_versions), call=_history),
    Operation(name="add", scenes=(fresh, *_ALL), call=_add),
    Operation(name="add again", scenes=_ALL, resume=_add_again),
    Operation(name="sixteenth", scenes=(settled,), resume=_sixteenth),
    Operation(name="add first", scenes=(settled,), call=_add_first_to_user),
    Operation(name="replace", scenes=_ALL, call=_replace),
    Operation(name="remove", scenes=_ALL, call=_remove),
    Operation(name="archive", scenes=(full,), call=_archive),
    Operation(name="batch", scenes=_ALL, call=_batch),
    Operation(name="undo", scenes=(settled, with_old_versions), call=_undo),
    Operation(name="reset", scenes=(settled, in_another_form), call=_reset),
    Operation(name="adopt", scenes=(in_another_form,), call=_adopt),
    Operation(name="refused", scenes=(in_another_form,), call=_add),
    Operation(name="stage", scenes=(fresh, settled), call=_stage),
    Operation(name="approve", scenes=(settled, with_old_versions), call=_approve),
    Operation(name="reject", scenes=(settled,), call=_reject),
)


def _three_entries(home: str) -> MemoryStore:
    store = MemoryStore.open(home)
    for entry in ("first", "second", "third"):
        store.add(TARGET, entry, cause=CAUSE)
    return store


def _id(written: object) -> str | None:
    change = getattr(written, "change", None)
    return change.id if change is not None else None


def _order(name: str) -> int:
    return int(name.split(".")[7])


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
