"""Makes a home whole again out of what a migration noted in `.migrating` before each of its steps.

The notes are lines of JSON, each about one thing that is about to change:

    {"path": …, "copy": …}                      a file or folder of the home, and where it is kept; "" for nothing
    {"outside": …, "copy": …, "digest": …}      a file in a folder the person named, and what is written there
    {"memory": …, "copies": …, "there": …}      a memory file with its history, and the names beside it
    {"gave_way": …, "kept": …, "parts": …}      a database that another takes the place of
    {"database": …, "import": …}                an import into a database that stays in its place
    {"arrived": …, "kept": …}                   a whole new home, put in the place of the old one

Every step can be repeated, because whoever puts back may be killed too. What somebody else wrote since is not touched.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
import shutil
import zlib
from typing import TYPE_CHECKING, Any

from hermes.storage.files import Folder, explain
from hermes.storage.locks import FileLock
from hermes.storage.migration_marks import ARRIVING, FOLDER, LOCK
from hermes.vocabulary.errors import DamagedFile, LockTimeout

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOG = logging.getLogger("hermes.storage")
LIST = "changes.jsonl"
_COMPLETED = "completed.jsonl"  # the list, when all of it is done
HISTORY = ".history.jsonl"
LOCK_TIMEOUT = 10
_LARGEST = 1 << 30
_SIDE_FILES = ("-wal", "-journal", "-shm")
_OWN_ORIGINS = ("import", "external")  # what a merge writes into a history: itself, and what it noticed before


def make_whole(home: str) -> bool:
    """Puts back (or completes) what a killed migration left; waits for one that is alive. True when there was one."""
    with migrating(home):
        return put_back_abandoned(home)


@contextlib.contextmanager
def migrating(home: str) -> Iterator[None]:
    """The right to migrate this home; somebody else who has it is named after a while."""
    with contextlib.ExitStack() as held:
        try:
            if os.path.lexists(home + ARRIVING):
                _complete_renames(home)
            held.enter_context(FileLock(held.enter_context(Folder.create(home)), LOCK, timeout=LOCK_TIMEOUT))
        except LockTimeout as error:
            raise LockTimeout(f"{home} is being migrated; {error}") from error
        yield


def put_back_abandoned(home: str) -> bool:
    """The same for a caller who holds the lock; says so before it begins, for a long import takes a while."""
    place = os.path.join(home, FOLDER)
    if not os.path.lexists(place):
        return False
    _LOG.warning("%s: a migration was interrupted; the home is made whole before it is used", home)
    for told in put_back(home, place):
        _LOG.warning("%s", told)
    return True


def put_back(home: str, place: str) -> list[str]:
    """Undoes what is noted at `place`, newest first, and removes the notes."""
    if os.path.lexists(os.path.join(place, _COMPLETED)):
        _complete(home, place)
        return []
    process, records = _read_list(place, LIST)
    told: list[str] = []
    for record in reversed(records):
        try:
            told += _undo(home, place, record, process)
        except OSError as error:
            raise explain("put back", str(record.get("path") or record), error) from error
    commit(place)
    forget(place)
    return told


def commit(place: str) -> None:
    """From here on nothing is put back; in one step."""
    with Folder.create(place) as folder:
        if folder.status(LIST) is not None:
            folder.rename(LIST, _COMPLETED)
            folder.sync()


def forget(place: str) -> None:
    """Removes the notes of what is committed: the list last, for the rest is of no use without it."""
    for name in os.listdir(place):
        if name != _COMPLETED:
            with contextlib.suppress(OSError):
                _remove(os.path.join(place, name))
    shutil.rmtree(place, ignore_errors=True)


def _complete(home: str, place: str) -> None:
    """What a migration still had to tidy when it was killed with its work done."""
    from hermes.storage.recorded import RecordedDB

    for record in _read_list(place, _COMPLETED)[1]:
        if "database" in record and os.path.exists(path := _inside(home, record["database"])):
            with RecordedDB.open(path, name=record["import"]) as db:
                db.complete()
    forget(place)


def _read_list(place: str, name: str) -> tuple[int, list[dict[str, Any]]]:
    """The process that wrote the notes, and the notes; a line that was cut short was never acted upon."""
    try:
        with open(os.path.join(place, name), encoding="utf-8") as file:
            records = [json.loads(line) for line in file if line.endswith("\n")]
    except FileNotFoundError:
        return 0, []
    except (OSError, ValueError) as error:
        raise DamagedFile(f"{os.path.join(place, name)} cannot be read ({error}); restore a backup") from error
    return int(records[0].get("process", 0)) if records else 0, records


def _undo(home: str, place: str, record: dict[str, Any], process: int) -> list[str]:
    if "path" in record:
        here = _inside(home, record["path"])
        _bring_back(os.path.join(place, record["copy"]) if record["copy"] else "", here)
        _discard(os.path.dirname(here), f".{os.path.basename(here)}.{process}.tmp")
    elif "outside" in record:
        return _outside(place, record, process)
    elif "memory" in record:
        return _memory(place, record)
    elif "gave_way" in record:
        _original_back(home, record)
    elif "database" in record:
        return _take_back(home, record)
    elif "arrived" in record:
        complete_arrival(home, record)
    return []


def _inside(home: str, path: str) -> str:
    if os.path.isabs(path) or ".." in path.split(os.sep):
        raise DamagedFile(f"{home} holds notes of a migration that lead out of it ({path!r}); look at {FOLDER}")
    return os.path.join(home, path)


def _bring_back(copy: str, here: str) -> None:
    if copy and not os.path.lexists(copy):
        return  # it was moved back already, by somebody who was killed later on
    if not copy or _is_folder(copy) or _is_folder(here):
        _remove(here)
    if copy:
        try:
            os.replace(copy, here)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            copy_tree(copy, here)


def copy_tree(path: str, to: str) -> None:
    """A copy that survives a power cut; links stay links."""
    if os.path.islink(path):
        os.symlink(os.readlink(path), to)
    elif os.path.isdir(path):
        shutil.copytree(path, to, symlinks=True, copy_function=_copy_file)
    else:
        _copy_file(path, to)


def _copy_file(path: str, to: str, *, follow_symlinks: bool = False) -> None:
    shutil.copy2(path, to, follow_symlinks=follow_symlinks)
    descriptor = os.open(to, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _remove(path: str) -> None:
    if _is_folder(path):
        shutil.rmtree(path)
    else:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(path)


def _discard(folder: str, name: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(folder, name))


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _outside(place: str, record: dict[str, Any], process: int) -> list[str]:
    """A file outside the home goes back only while it is what the migration wrote."""
    parent, name = os.path.split(record["outside"])
    folder = Folder.open(parent)
    if folder is None:
        return []
    with folder:
        folder.discard(f".{name}.{process}.tmp")
        now = folder.read(name, at_most=_LARGEST)
        before = _kept(place, record["copy"])
        if now == before:
            return []
        if now is None or digest(now) != record["digest"]:
            return [f"{record['outside']} was written by somebody else since; it stays as it is"]
        if before is None:
            folder.remove(name)
        else:
            folder.replace(name, before)
            os.chmod(record["outside"], record["mode"])
    return []


def _kept(place: str, copy: str) -> bytes | None:
    if not copy:
        return None
    with open(os.path.join(place, copy), "rb") as file:
        return file.read()


def _memory(place: str, record: dict[str, Any]) -> list[str]:
    """A memory file and its history as they were, unless somebody else has written since: then theirs stays."""
    parent, name = os.path.split(record["memory"])
    before = {suffix: _kept(place, copy) for suffix, copy in record["copies"].items()}
    with contextlib.ExitStack() as held:
        folder = held.enter_context(Folder.create(parent))
        if _as_it_was(folder, name, before, record["there"]):
            return []  # the write never began; perhaps because somebody has the lock
        held.enter_context(FileLock(folder, f"{name}.lock", timeout=LOCK_TIMEOUT))
        now = {suffix: folder.read(name + suffix, at_most=_LARGEST) for suffix in before}
        if (before[HISTORY] or b"").startswith(now[HISTORY] or b"") and now[HISTORY] != before[HISTORY]:
            return []  # it is further back already: somebody who put back was killed later on
        made = _only_ours(before, now)
        if made is None:
            stays = f"{record['memory']} was changed by somebody else since; it stays, with what the migration added"
            return [f"{stays} (`hermes memory log` shows it, `hermes memory undo` takes it back)"]
        _versions_back(folder, name, _come_since(folder, name, record["there"]), before[""], made)
        for suffix, data in before.items():
            if data is None:
                folder.discard(name + suffix)
            elif folder.read(name + suffix, at_most=_LARGEST) != data:
                folder.replace(name + suffix, data)
    return []


def _as_it_was(folder: Folder, name: str, before: dict[str, bytes | None], there: list[str]) -> bool:
    same = all(folder.read(name + suffix, at_most=_LARGEST) == data for suffix, data in before.items())
    return same and not _come_since(folder, name, there)


def _come_since(folder: Folder, name: str, there: list[str]) -> list[str]:
    """The files that a write leaves beside a memory file: versions it replaced, unfinished ones, copies."""
    beside = [each for each in folder.names() if each.startswith((f".{name}.", f"{name}.bak."))]
    return [each for each in beside if each not in there and not each.endswith((".lock", ".lock.queue"))]


def _only_ours(before: dict[str, bytes | None], now: dict[str, bytes | None]) -> set[Any] | None:
    """Size and check of each version the merge made, when it alone explains the difference; else None."""
    old, new = before[HISTORY] or b"", now[HISTORY] or b""
    if not new.startswith(old):
        return None
    try:  # a line cut short by the kill led to nothing
        records = [json.loads(line) for line in new[len(old) : new.rfind(b"\n") + 1].splitlines()]
        if not all(each["origin"] in _OWN_ORIGINS for each in records):
            return None
        made = [tuple(each["to"][:2]) for each in records if each["origin"] == "import"]
    except (ValueError, KeyError, TypeError):
        return None
    data = now[""] or b""
    return set(made) if data == (before[""] or b"") or _mark(data) in made[-1:] else None


def _mark(data: bytes) -> tuple[int, int]:
    return len(data), zlib.crc32(data)


def _versions_back(folder: Folder, name: str, since: list[str], before: bytes | None, made: set[Any]) -> None:
    """What a write left beside the file: the version it replaced takes its place again, copies and its own go."""
    for each in since:
        data = folder.read(each, at_most=_LARGEST) or b""
        if data == before and each.startswith(".") and folder.read(name, at_most=_LARGEST) != before:
            folder.rename(each, name)
        elif data == (before or b"") or _mark(data) in made or each.endswith(".tmp"):
            folder.discard(each)  # else somebody has written to it, and nobody may remove that


def _original_back(home: str, record: dict[str, Any]) -> None:
    """A database that gave way, with the log that belongs to it."""
    path, kept = _inside(home, record["gave_way"]), _inside(home, record["kept"])
    if not os.path.lexists(kept):
        return  # it never did, or is back
    for suffix in _SIDE_FILES:
        if suffix not in record["parts"]:
            _remove(path + suffix)
    for suffix in (*(each for each in record["parts"] if each), ""):  # the file itself last: `kept` says it is not done
        if not os.path.lexists(kept + suffix):
            continue
        if os.path.lexists(path + suffix) and os.path.samefile(kept + suffix, path + suffix):
            os.unlink(kept + suffix)  # a rename between two names of one file does nothing
        else:
            os.replace(kept + suffix, path + suffix)


def _take_back(home: str, record: dict[str, Any]) -> list[str]:
    from hermes.storage.recorded import RecordedDB

    path = _inside(home, record["database"])
    if not os.path.exists(path):
        return []
    with RecordedDB.open(path, name=record["import"]) as db:
        kept = db.take_back(everything=True)
    return [f"{path}: {kept} imported conversations were continued here since; they stay"] if kept else []


def complete_arrival(home: str, record: dict[str, Any]) -> None:
    """The new home stands; the old one gets the name under which it is kept, and its backups move over."""
    parent = os.path.dirname(home)
    staged, kept = (os.path.join(parent, os.path.basename(record[name])) for name in ("arrived", "kept"))
    if os.path.lexists(staged) and not os.path.lexists(os.path.join(staged, FOLDER)):
        os.rename(staged, kept)
    old, new = os.path.join(kept, "backups"), os.path.join(home, "backups")
    if os.path.isdir(old) and not os.path.lexists(new):
        os.rename(old, new)
    with Folder.create(parent) as folder:
        folder.sync()


def _complete_renames(home: str) -> None:
    """Where two names cannot be exchanged in one step, the old home left and the new one had not come yet."""
    parent, name = os.path.split(home)
    with Folder.create(parent) as folder, FileLock(folder, name + ARRIVING, timeout=LOCK_TIMEOUT):
        data = folder.read(name + ARRIVING, at_most=1 << 16) or b""
        staged = os.path.basename(json.loads(data)["staged"]) if data.endswith(b"\n") else ""
        if staged and not os.path.lexists(home) and folder.status(staged) is not None:
            folder.rename(staged, name)
            folder.sync()
        folder.remove(name + ARRIVING)


def note(place: str, record: dict[str, Any]) -> None:
    """Adds to the list, durably, before the step is taken."""
    with Folder.create(place) as folder, folder.open_for_append(LIST) as file:
        file.append((json.dumps(record) + "\n").encode(), sync=True)
