"""Tells a running session what changed in memory since its prompt was frozen: once, appended after the prefix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.curated.places import FILES
from hermes.curated.screening import blocked_in_prompt
from hermes.vocabulary.errors import StorageError

if TYPE_CHECKING:
    from hermes.curated.history import Change
    from hermes.curated.store import MemoryStore

_HEADLINE = "[Memory changed since this conversation began. From now on this holds:]"


class Announcements:
    """Remembers up to which change the session has been told; `seen` can be stored and handed in again on resume."""

    def __init__(self, store: MemoryStore | None, session_id: str, seen: dict[str, int] | None = None) -> None:
        self._store = store
        self._session_id = session_id
        self.seen = dict(seen) if seen is not None else self._newest()

    def take(self) -> str:
        """What others changed since the last call; what this session wrote itself, its own tool results have told."""
        if self._store is None:
            return ""
        lines = [line for target in self._store.targets for line in self._news(self._store, target)]
        return "\n".join([_HEADLINE, *lines]) if lines else ""

    def _news(self, store: MemoryStore, target: str) -> list[str]:
        changes = self._changes(store, target)
        fresh = [change for change in changes if _number(change) > self.seen.get(target, 0)]
        if fresh:
            self.seen[target] = _number(fresh[-1])
        foreign = [change for change in fresh if change.cause.session != self._session_id]
        live = store.entries(target) if foreign else ()
        added = [entry for change in foreign for entry in change.added() if entry in live]
        removed = [entry for change in foreign for entry in change.removed() if entry not in live]
        shown = blocked_in_prompt(list(dict.fromkeys(added)), FILES[target])
        gone = blocked_in_prompt(list(dict.fromkeys(removed)), FILES[target])
        return [f"- {target}, new: {entry}" for entry in shown] + [f"- {target}, no longer: {entry}" for entry in gone]

    def _newest(self) -> dict[str, int]:
        targets = self._store.targets if self._store else ()
        return {target: max(map(_number, self._changes(self._store, target)), default=0) for target in targets}

    @staticmethod
    def _changes(store: MemoryStore | None, target: str) -> list[Change]:
        try:
            return store.history(target)[0] if store else []
        except StorageError:
            return []  # an unreadable history has nothing to announce; `hermes memory status` says what is wrong


def _number(change: Change) -> int:
    return int(change.id[1:])
