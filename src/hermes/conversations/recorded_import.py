"""Records what an import of conversations adds to a database, so that it can be taken back or gone on with later."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from hermes.base.text import counted
from hermes.conversations.database import SessionDB
from hermes.storage.files import Folder
from hermes.storage.local.database import all_rows, one_row
from hermes.storage.local.index import set_title
from hermes.storage.locks import FileLock, is_held
from hermes.storage.records import BLOCK_BITS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import apsw

    from hermes.conversations.search.semantic import Find
    from hermes.storage.local.database import Durability

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


def unfinished_in_words(db: SessionDB) -> list[str]:
    """A line for each import that was not completed, with what to do about it."""
    return [
        each.in_words() if each.running else f"{each.in_words()}; {each.remedy()}" for each in unfinished_imports(db)
    ]


def _packed(value: Any) -> Any:
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _unpacked(value: Any) -> Any:
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else value
