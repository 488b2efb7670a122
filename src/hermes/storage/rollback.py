"""Undoes an interrupted migration: what it recorded before each step is put back.

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

import base64
import contextlib
import errno
import hashlib
import json
import logging
import os
import shutil
import time
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from hermes.base.errors import DamagedFile, LockTimeout
from hermes.base.text import counted
from hermes.storage.database import all_rows, one_row
from hermes.storage.files import ARRIVING, LOCK, OF_A_MIGRATION, Folder, explain
from hermes.storage.files import MIGRATION_FOLDER as FOLDER
from hermes.storage.locks import FileLock, is_held
from hermes.storage.schema import BLOCK_BITS
from hermes.storage.search.index import set_title
from hermes.storage.sessions import SessionDB

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import apsw

    from hermes.storage.database import Durability
    from hermes.storage.search.semantic import Find

_LOCK = ".import.lock"
_LOCK_TIMEOUT = 10
_LATER = """
    SELECT m.id FROM blocks b CROSS JOIN messages m ON m.id BETWEEN (b.block << 5) AND (b.block << 5) + 31
    WHERE b.session = ? AND b.block >= ? AND m.id > ?
"""
_STEPS = "SELECT key, value FROM state_meta WHERE key >= ? AND key < ? ORDER BY key DESC"
_FORGET = "DELETE FROM state_meta WHERE key >= ? AND key < ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """An import that was not completed: what it is called, what it was told to do, and how far it came."""

    name: str
    about: str
    began_at: float
    sessions: int
    messages: int
    running: bool

    def in_words(self) -> str:
        came = f"{counted(self.messages, 'message')} in {counted(self.sessions, 'new session')} came in"
        state = "is running" if self.running else "was not completed"
        return f"`{self.about or 'an import'}` {state}; {came} so far, each conversation whole or cut at its end"

    def remedy(self) -> str:
        """What a person can do about one that does not run."""
        return f"`{self.about}` goes on with it; `{self.about} --discard` takes back what came in"


@dataclass(slots=True)
class _Step:
    """What one transaction of an import changes."""

    made: list[str] = field(default_factory=list)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)  # sessions as they were
    notes: dict[str, Any] = field(default_factory=dict)  # keys with their values before; None for absent
    ends: dict[str, int] = field(default_factory=dict)  # the newest message of each session it added to
    messages: int = 0


class RecordedDB(SessionDB):
    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._held = contextlib.ExitStack()
        self._name = ""
        self._about = ""
        self._first = self._following = 0
        self._step: _Step | None = None
        self._seen: set[str] = set()
        self._noted: set[str] = set()
        self._numbers: dict[str, int] = dict(self._database.rows("SELECT name, seq FROM sqlite_sequence"))

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        owner: str = "local",
        durability: Durability = "message",
        semantic: Find | None = None,
        wait: float | None = None,
        reading: bool = False,
        name: str = "import",
        about: str = "",
    ) -> Self:
        """`name` is how the import is known to a later run; `about` tells a person what it was."""
        place, file = os.path.split(os.path.abspath(os.fspath(path)))
        with contextlib.ExitStack() as held:
            folder = held.enter_context(Folder.create(place))
            held.enter_context(FileLock(folder, file + _LOCK, timeout=_LOCK_TIMEOUT))
            db = super().open(path, owner=owner, durability=durability, semantic=semantic, wait=wait, reading=reading)
            db._begin(name, about)  # noqa: SLF001 - its own
            db._held = held.pop_all()  # noqa: SLF001
        return db

    def _begin(self, name: str, about: str) -> None:
        self._name, self._about = name, about
        newest = self._database.row(_STEPS, self._range())
        self._first = self._following = int(newest[0].rpartition(":")[2]) + 1 if newest else 0

    def close(self) -> None:
        super().close()
        self._held.close()

    @contextlib.contextmanager
    def bulk(self) -> Iterator[None]:
        with super().bulk(), self._recorded():
            yield

    def create_session(self, *given: Any, **more: Any) -> str:
        with self._recorded() as step:
            name = super().create_session(*given, **more)
            step.made.append(name)
            self._seen.add(name)
            return name

    def append_many(self, session_id: str, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        with self._recorded() as step:
            self._look(session_id, step)
            ids = super().append_many(session_id, messages)
            if ids:
                step.ends[session_id] = ids[-1]
                step.messages += len(ids)
            return ids

    def rename(self, session_id: str, title: str | None) -> str | None:
        with self._recorded() as step:
            self._look(session_id, step)
            return super().rename(session_id, title)

    def set_meta(self, key: str, value: str | float | bytes | None) -> None:
        with self._recorded() as step:
            if key not in self._noted:
                self._noted.add(key)
                step.notes[key] = self.get_meta(key)
            super().set_meta(key, value)

    def complete(self) -> None:
        """The import is done: nothing of it is taken back any more."""
        with self._database.writing() as connection:
            connection.execute(_FORGET, self._range())
        self._first = self._following
        self._seen.clear()
        self._noted.clear()

    def take_back(self, *, everything: bool = False) -> int:
        """Removes what this run added, or also what earlier runs of the same import did.

        Sessions that were added to look as they did before; those that somebody has gone on with since stay, and how
        many they are is returned.
        """
        work = _TakingBack(self)
        first, behind = self._range()
        if not everything:
            first = f"{first}{self._first:08}"
        with self._database.writing() as connection:
            for _, text in all_rows(connection, _STEPS, (first, behind)):
                work.undo(connection, json.loads(text))
            work.put_numbers_back(connection)
            connection.execute(_FORGET, (first, behind))
        self.remove_unused_images()
        self._seen.clear()
        self._noted.clear()
        return len(work.kept)

    @contextlib.contextmanager
    def _recorded(self) -> Iterator[_Step]:
        """The step that is being taken; the outermost writes its record into the transaction."""
        with self._database.writing() as connection:
            if self._step is not None:
                yield self._step
                return
            step = self._step = _Step()
            try:
                yield step
                self._write_down(connection, step)
            except BaseException:
                self._seen.difference_update(step.made, step.rows)
                self._noted.difference_update(step.notes)
                raise
            finally:
                self._step = None

    def _write_down(self, connection: apsw.Connection, step: _Step) -> None:
        if not (step.made or step.rows or step.notes or step.ends):
            return
        record: dict[str, Any] = {
            "made": step.made,
            "rows": [{name: _packed(value) for name, value in row.items()} for row in step.rows.values()],
            "notes": {key: _packed(value) for key, value in step.notes.items()},
            "ends": step.ends,
            "messages": step.messages,
        }
        if self._following == self._first:
            record |= {"about": self._about, "at": time.time(), "numbers": self._numbers}
        key = f"{self._range()[0]}{self._following:08}"
        connection.execute("INSERT INTO state_meta (key, value) VALUES (?, ?)", (key, json.dumps(record)))
        self._following += 1

    def _range(self) -> tuple[str, str]:
        """The keys of the steps of this import, from one up to another."""
        first = f"{self._owner_key}:unfinished:{self._name}"
        return f"{first}:", f"{first};"

    def _look(self, session_id: str, step: _Step) -> None:
        if session_id in self._seen:
            return
        names = [row[1] for row in self._database.rows("PRAGMA table_info(sessions)")]
        row = self._database.row("SELECT * FROM sessions WHERE owner = ? AND id = ?", (self._owner_key, session_id))
        if row is not None:
            self._seen.add(session_id)
            step.rows[session_id] = dict(zip(names, row, strict=True))

    def _cut(self, connection: apsw.Connection, row: dict[str, Any]) -> None:
        last = row["last_id"]
        later = [i for (i,) in all_rows(connection, _LATER, (row["key"], last >> BLOCK_BITS, last))]
        self._remove_words(connection, later)
        connection.executemany("DELETE FROM messages WHERE id = ?", [(i,) for i in later])
        connection.execute(
            "DELETE FROM blocks WHERE session = ? AND block > ?", (row["key"], last >> BLOCK_BITS if last else -1)
        )
        if one_row(connection, "SELECT 1 FROM sqlite_schema WHERE name = 'vectors'"):
            connection.execute("DELETE FROM vectors WHERE block = ?", (last >> BLOCK_BITS,))
        set_title(connection, row["key"], row["owner"], row["title"])
        # What was there before may have been indexed meanwhile, and is not to be indexed twice.
        names = [name for name in row if name not in ("key", "owner", "id", "indexed_id", "waiting")]
        put_back = ", ".join(f"{name} = ?" for name in names)
        connection.execute(
            f"UPDATE sessions SET {put_back}, indexed_id = min(indexed_id, ?) WHERE key = ?",  # noqa: S608 - names are ours
            (*(row[name] for name in names), last, row["key"]),
        )


class _TakingBack:
    """Undoes the steps of an import, newest first."""

    def __init__(self, db: RecordedDB) -> None:
        self._db = db
        self._ends: dict[str, int] = {}
        self._numbers: dict[str, int] = {}
        self.kept: set[str] = set()

    def undo(self, connection: apsw.Connection, step: dict[str, Any]) -> None:
        for name, end in step["ends"].items():
            self._ends.setdefault(name, end)
        for name in reversed(step["made"]):
            key = self._untouched(connection, name, 0)
            if key is not None:
                self._db._delete(connection, key)  # noqa: SLF001 - one of its own
        for packed in step["rows"]:
            row = {name: _unpacked(value) for name, value in packed.items()}
            if self._untouched(connection, row["id"], row["last_id"]) is not None:
                self._db._cut(connection, row)  # noqa: SLF001
        for key, value in step["notes"].items():
            self._note_back(connection, key, _unpacked(value))
        self._numbers = step.get("numbers", self._numbers)

    def _untouched(self, connection: apsw.Connection, name: str, otherwise: int) -> int | None:
        """The key of a session that ends where the import left it; None when it is gone or somebody went on with it."""
        end = self._ends.pop(name, otherwise)
        wanted = "SELECT key, last_id FROM sessions WHERE owner = ? AND id = ?"
        found = one_row(connection, wanted, (self._db._owner_key, name))  # noqa: SLF001
        if found is None:
            return None
        if found[1] != end:
            self.kept.add(name)
            return None
        return int(found[0])

    def _note_back(self, connection: apsw.Connection, key: str, value: Any) -> None:
        if any(key.endswith(f":{name}") for name in self.kept):
            return  # how far a conversation came is still true while it is there
        named = f"{self._db._owner_key}:{key}"  # noqa: SLF001
        connection.execute("DELETE FROM state_meta WHERE key = ?", (named,))
        if value is not None:
            connection.execute("INSERT INTO state_meta (key, value) VALUES (?, ?)", (named, value))

    def put_numbers_back(self, connection: apsw.Connection) -> None:
        """Numbers that were given out are free again, unless somebody has taken later ones."""
        for table, column in (("sessions", "key"), ("blocks", "block")):
            used = one_row(connection, f"SELECT max({column}) FROM {table}")[0] or 0  # noqa: S608 - names are ours
            number = max(used, self._numbers.get(table, 0))
            if self._numbers:
                connection.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", (number, table))


def unfinished_imports(db: SessionDB) -> list[Unfinished]:
    """The imports into this file that were begun and not completed, oldest first."""
    first = f"{db._owner_key}:unfinished:"  # noqa: SLF001 - one package, two files
    rows = db._database.rows(_STEPS, (first, f"{first[:-1]};"))  # noqa: SLF001
    steps: dict[str, list[dict[str, Any]]] = {}
    for key, text in rows:
        name = key.removeprefix(first).rpartition(":")[0]
        if not name.startswith(OF_A_MIGRATION):
            steps.setdefault(name, []).append(json.loads(text))
    if not steps:
        return []
    place, file = os.path.split(db.path)
    with Folder.create(place) as folder:
        running = is_held(folder, file + _LOCK)
    found = [
        Unfinished(
            name=name,
            about=each[-1].get("about", ""),
            began_at=each[-1].get("at", 0.0),
            sessions=sum(len(step["made"]) for step in each),
            messages=sum(step["messages"] for step in each),
            running=running,
        )
        for name, each in steps.items()
    ]
    return sorted(found, key=lambda each: each.began_at)


def _packed(value: Any) -> Any:
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _unpacked(value: Any) -> Any:
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else value


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
