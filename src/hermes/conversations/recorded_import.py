"""Records what an import of conversations adds to a database, so that it can be undone or continued later."""

from __future__ import annotations

import base64
import contextlib
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from hermes.base.text import counted
from hermes.conversations.database import SessionDB

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hermes.conversations.search.reranker import FindReranker
    from hermes.conversations.search.semantic import Find
    from hermes.storage.ports import Durability

_LOCK_TIMEOUT = 10
_UNFINISHED = "unfinished:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """An import that was not completed: its name, the command that began it, and what it has added so far."""

    name: str
    about: str
    began_at: float
    sessions: int
    messages: int
    running: bool

    def in_words(self) -> str:
        """One line for a person: the command, its state, and how much was imported."""
        came = f"{counted(self.messages, 'message')} in {counted(self.sessions, 'new session')} came in"
        state = "is running" if self.running else "was not completed"
        return f"`{self.about or 'an import'}` {state}; {came} so far, each conversation whole or cut at its end"

    def remedy(self) -> str:
        """How a person continues or undoes an import that is not running."""
        return f"`{self.about}` continues it; `{self.about} --discard` undoes it"


@dataclass(slots=True)
class _Step:
    """What one transaction of an import changes; stored in that transaction, so that no change lacks its record."""

    made: list[str] = field(default_factory=list)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)  # sessions as they were
    notes: dict[str, Any] = field(default_factory=dict)  # keys with their values before; None for absent
    ends: dict[str, int] = field(default_factory=dict)  # the newest message of each session it added to
    messages: int = 0


class RecordedDB(SessionDB):
    """A database that notes what an import adds, so that the import can be undone."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._held = contextlib.ExitStack()
        self._stay: Callable[[], None] | None = None
        self._name = ""
        self._about = ""
        self._first = self._following = 0
        self._step: _Step | None = None
        self._seen: set[str] = set()
        self._noted: set[str] = set()
        self._numbers = self.store.undo.numbers()

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        owner: str = "local",
        durability: Durability = "message",
        semantic: Find | None = None,
        reranker: FindReranker | None = None,
        wait: float | None = None,
        reading: bool = False,
        name: str = "import",
        about: str = "",
    ) -> Self:
        """Opens the database for one import; a later run finds the import by its `name`, and people read `about`."""
        db = super().open(
            path,
            owner=owner,
            durability=durability,
            semantic=semantic,
            reranker=reranker,
            wait=wait,
            reading=reading,
        )
        try:
            db._begin(name, about)  # noqa: SLF001 - its own
        except BaseException:
            db.close()
            raise
        return db

    def _begin(self, name: str, about: str) -> None:
        self._stay = self._held.enter_context(self.store.undo.alone(_LOCK_TIMEOUT))
        self._numbers = self.store.undo.numbers()
        self._name, self._about = name, about
        steps = self.store.meta_from(self._prefix())
        self._first = self._following = int(steps[-1][0]) + 1 if steps else 0

    def close(self) -> None:
        try:
            self._held.close()
        finally:
            super().close()

    @contextlib.contextmanager
    def bulk(self) -> Iterator[None]:
        """As in `SessionDB`; all of it becomes one step of the record."""
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
        """Ends the import and deletes its record, after which it cannot be undone."""
        self.store.forget_meta(self._prefix())
        self._first = self._following
        self._seen.clear()
        self._noted.clear()

    def take_back(self, *, everything: bool = False) -> int:
        """Removes what this run added or, with `everything`, also what earlier runs of the same import added.

        Sessions that already existed become as they were before. Sessions that somebody has continued since are kept;
        returns how many these are.
        """
        work = _TakingBack(self)
        first = "" if everything else f"{self._first:08}"
        with self.store.transaction():
            for step, text in reversed(self.store.meta_from(self._prefix())):
                if step >= first:
                    work.undo(json.loads(text))
            work.put_numbers_back()
            self.store.forget_meta(self._prefix(), first)
        self.remove_unused_images()
        self._seen.clear()
        self._noted.clear()
        return len(work.kept)

    @contextlib.contextmanager
    def _recorded(self) -> Iterator[_Step]:
        """Gives the current step; the outermost call stores its record in the same transaction."""
        with self.store.transaction():
            if self._step is not None:
                yield self._step
                return
            if self._stay is not None:
                self._stay()
            step = self._step = _Step()
            try:
                yield step
                self._write_down(step)
            except BaseException:
                self._seen.difference_update(step.made, step.rows)
                self._noted.difference_update(step.notes)
                raise
            finally:
                self._step = None

    def _write_down(self, step: _Step) -> None:
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
        self.store.set_meta(f"{self._prefix()}{self._following:08}", json.dumps(record))
        self._following += 1

    def _prefix(self) -> str:
        """The beginning of the keys under which the steps of this import are stored."""
        return f"{_UNFINISHED}{self._name}:"

    def _look(self, session_id: str, step: _Step) -> None:
        if session_id in self._seen:
            return
        row = self.store.undo.session_row(session_id)
        if row is not None:
            self._seen.add(session_id)
            step.rows[session_id] = row


class _TakingBack:
    """Undoes the steps of an import, newest first."""

    def __init__(self, db: RecordedDB) -> None:
        self._store = db.store
        self._ends: dict[str, int] = {}
        self._numbers: dict[str, int] = {}
        self.kept: set[str] = set()

    def undo(self, step: dict[str, Any]) -> None:
        """Undoes one step, as far as nobody has added to its sessions since."""
        for name, end in step["ends"].items():
            self._ends.setdefault(name, end)
        for name in reversed(step["made"]):
            key = self._untouched(name, 0)
            if key is not None:
                self._store.delete(key)
        for packed in step["rows"]:
            row = {name: _unpacked(value) for name, value in packed.items()}
            if self._untouched(row["id"], row["last_id"]) is not None:
                self._store.undo.cut(row)
        for key, value in step["notes"].items():
            self._note_back(key, _unpacked(value))
        self._numbers = step.get("numbers", self._numbers)

    def _untouched(self, name: str, otherwise: int) -> int | None:
        """The key of a session that ends where the import left it; None if it was deleted or continued since."""
        end = self._ends.pop(name, otherwise)
        found = self._store.find(name)
        if found is None:
            return None
        if found.last_id != end:
            self.kept.add(name)
            return None
        return found.key

    def _note_back(self, key: str, value: Any) -> None:
        if any(key.endswith(f":{name}") for name in self.kept):
            return  # it says how far this session was imported, which stays true as long as the session is kept
        self._store.set_meta(key, value)

    def put_numbers_back(self) -> None:
        """Frees the numbers of sessions and messages that the import used."""
        if self._numbers:
            self._store.undo.put_numbers_back(self._numbers)


def unfinished_imports(db: SessionDB) -> list[Unfinished]:
    """The imports into this database that were begun and not completed, oldest first."""
    steps: dict[str, list[dict[str, Any]]] = {}
    for key, text in reversed(db.store.meta_from(_UNFINISHED)):
        steps.setdefault(key.rpartition(":")[0], []).append(json.loads(text))
    if not steps:
        return []
    running = db.store.undo.is_running()
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
    """A line for each import that was not completed, with what a person can do about it."""
    return [
        each.in_words() if each.running else f"{each.in_words()}; {each.remedy()}" for each in unfinished_imports(db)
    ]


def _packed(value: Any) -> Any:
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _unpacked(value: Any) -> Any:
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else value
