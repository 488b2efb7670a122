"""Records what an import of conversations adds to a database, so that it can be undone or continued later."""

from __future__ import annotations

import base64
import contextlib
import json
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from hermes.base.text import counted
from hermes.conversations.database import SessionDB

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hermes.storage.ports import Durability

_LOCK_TIMEOUT = 10
_UNFINISHED = "unfinished:"
_ABOUT = "about"


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


class RecordedDB(SessionDB):
    """A database that notes what an import adds, so that the import can be undone.

    Each note is a row of its own, stored in the transaction of the change it is about, so that no change lacks one:
    `made` for a new session, `row` for one as it was, `end` for the newest message the import added to a session, and
    `note` for the value that a key had before. `about` says what the import is, and counts its messages.
    """

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._held = contextlib.ExitStack()
        self._stay: Callable[[], None] | None = None
        self._about: dict[str, Any] = {"messages": 0}
        self._prefix = ""  # of the keys of this import's notes
        self._noted: set[str] = set()  # notes that are stored already and stay as they are

    @classmethod
    def begin(
        cls,
        path: str | os.PathLike[str],
        *,
        owner: str = "local",
        durability: Durability = "turn",
        name: str = "import",
        about: str = "",
    ) -> Self:
        """Opens the database for one import; a later run finds the import by its `name`, and people read `about`."""
        db = cls.open(path, owner=owner, durability=durability)
        try:
            db._begin(name, about)  # noqa: SLF001 - its own
        except BaseException:
            db.close()
            raise
        return db

    def _begin(self, name: str, about: str) -> None:
        self._stay = self._held.enter_context(self.store.undo.alone(_LOCK_TIMEOUT))
        self._prefix = f"{_UNFINISHED}{name}:"
        if self.get_meta(f"{self._prefix}{_ABOUT}") is None:  # else an earlier run was stopped, and this continues it
            self._about |= {"about": about, "at": time.time(), "numbers": self.store.undo.numbers()}
            self.store.forget_meta(self._prefix)  # what an earlier version noted
        else:
            self._about = json.loads(self.get_meta(f"{self._prefix}{_ABOUT}"))

    def close(self) -> None:
        try:
            self._held.close()
        finally:
            super().close()

    def create_session(self, *given: Any, **more: Any) -> str:
        with self._recorded():
            name = super().create_session(*given, **more)
            self._note(f"made:{name}", self.get_session(name).key)
            self._noted.add(f"row:{name}")
            return name

    def append_many(self, session_id: str, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        with self._recorded():
            self._look(session_id)
            ids = super().append_many(session_id, messages)
            if ids:
                self._note(f"end:{session_id}", ids[-1])
                self._about["messages"] += len(ids)
            return ids

    def rename(self, session_id: str, title: str | None) -> str | None:
        with self._recorded():
            self._look(session_id)
            return super().rename(session_id, title)

    def set_meta(self, key: str, value: str | float | bytes | None) -> None:
        with self._recorded():
            self._note_once(f"note:{key}", lambda: self.get_meta(key))
            super().set_meta(key, value)

    def complete(self) -> None:
        """Ends the import and deletes its notes, after which it cannot be undone."""
        self.store.forget_meta(self._prefix)
        self._noted.clear()
        self._about["messages"] = 0

    def take_back(self) -> int:
        """Removes what this import added, in this run and in earlier ones that were stopped.

        Sessions that already existed become as they were before. Sessions that somebody has continued since are kept;
        returns how many these are.
        """
        notes: dict[str, dict[str, Any]] = defaultdict(dict)
        kept: set[str] = set()
        with self.store.transaction():
            for key, text in self.store.meta_from(self._prefix):
                kind, _, name = key.partition(":")
                notes[kind][name] = json.loads(text)
            made, rows = notes["made"], notes["row"]
            for name in (*sorted(made, key=made.__getitem__, reverse=True), *rows):
                row = {column: _unpacked(value) for column, value in rows.get(name, {}).items()}
                found = self.store.find(name)
                if found is None:
                    continue  # somebody deleted it
                if found.last_id != notes["end"].get(name, row.get("last_id", 0)):
                    kept.add(name)
                elif name in made:
                    self.store.delete(found.key)
                else:
                    self.store.undo.cut(row)
            for key, value in notes["note"].items():
                # How far a session was imported stays true as long as the session is kept.
                if not any(key.endswith(f":{name}") for name in kept):
                    self.store.set_meta(key, _unpacked(value))
            self.store.undo.put_numbers_back(self._about["numbers"])
            self.store.forget_meta(self._prefix)
        self.remove_unused_images()
        self._noted.clear()
        self._about["messages"] = 0
        return len(kept)

    @contextlib.contextmanager
    def _recorded(self) -> Iterator[None]:
        """Makes a change and its notes one transaction."""
        before = self._about["messages"]
        try:
            with self.store.transaction():
                if self._stay is not None:
                    self._stay()
                yield
                self._note(_ABOUT, self._about)
        except BaseException:
            self._noted.clear()  # what was rolled back has to be noted again
            self._about["messages"] = before
            raise

    def _look(self, session_id: str) -> None:
        """Notes a session as it is before this import changes it."""
        self._note_once(f"row:{session_id}", lambda: self.store.undo.session_row(session_id))

    def _note_once(self, key: str, value: Callable[[], Any]) -> None:
        made = f"made:{key.removeprefix('row:')}"
        if key in self._noted or any(self.get_meta(f"{self._prefix}{each}") is not None for each in (key, made)):
            self._noted.add(key)
            return
        self._note(key, value())
        self._noted.add(key)

    def _note(self, key: str, value: Any) -> None:
        if isinstance(value, dict):
            value = {name: _packed(each) for name, each in value.items()}
        self.store.set_meta(f"{self._prefix}{key}", json.dumps(_packed(value)))


def unfinished_imports(db: SessionDB) -> list[Unfinished]:
    """The imports into this database that were begun and not completed, oldest first."""
    notes = [(*key.split(":", 1), text) for key, text in db.store.meta_from(_UNFINISHED)]
    begun = {name: json.loads(text) for name, rest, text in notes if rest == _ABOUT}
    made = Counter(name for name, rest, _ in notes if rest.startswith("made:"))
    running = bool(begun) and db.store.undo.is_running()
    found = [
        Unfinished(
            name=name,
            about=about["about"],
            began_at=about["at"],
            sessions=made[name],
            messages=about["messages"],
            running=running,
        )
        for name, about in begun.items()
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
