"""Turns that wait on disk until there are enough of them to be stored together: an end in between loses none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.providers.config import read_config, save_config

if TYPE_CHECKING:
    from collections.abc import Callable

    Turn = list[dict[str, str]]
    Store = Callable[[str, list[Turn], str], None]  # a session, its turns, and a key that is the same for each attempt


class HeldTurns:
    def __init__(self, name: str, hermes_home: str, store: Store) -> None:
        self._file = f"{name}_turns"
        self._home = hermes_home
        self._store = store

    def add(self, session: str, turn: Turn, key: str, *, together: int) -> None:
        """Stores the turn with those that wait once there are `together`; conversations that were left, at once."""
        if together <= 1:
            self._store(session, [turn], key)
            return
        for other in self._all():
            if other != session:
                self.finish(other)
        waiting = [each for each in self._all().get(session) or () if each["key"] != key]
        save_config(self._file, self._home, {session: [*waiting, {"key": key, "turn": turn}]})
        if len(waiting) + 1 >= together:
            self.finish(session)

    def finish(self, session: str) -> None:
        """Stores what waits of a session."""
        if waiting := self._all().get(session):
            self._store(session, [each["turn"] for each in waiting], str(waiting[-1]["key"]))
            save_config(self._file, self._home, {session: None})

    def _all(self) -> dict[str, Any]:
        return read_config(self._file, self._home)
