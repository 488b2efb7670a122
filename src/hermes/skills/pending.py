"""Skill changes that wait for a person: one file each under `pending/skills/`, carried out or thrown away later."""

from __future__ import annotations

import json
import os
import time

from hermes.storage.files import Folder
from hermes.vocabulary.errors import NotFound, UnsafePath
from hermes.vocabulary.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_LARGEST = 1 << 20
_SUFFIX = ".json"


@value
class PendingSkill:
    """One staged call of `skill_manage`: its arguments, who asked for it, and why a person is asked."""

    id: str
    arguments: dict[str, Any]
    origin: str
    session: str
    created_at: float
    reason: str

    @property
    def summary(self) -> str:
        return f"{self.arguments.get('action')} {self.arguments.get('name')}"


class PendingSkills:
    def __init__(self, path: str) -> None:
        self._path = path

    def stage(self, arguments: Mapping[str, Any], *, origin: str, session: str, reason: str) -> PendingSkill:
        """Keeps a change for later; durable when it returns."""
        pending = PendingSkill(
            id=os.urandom(4).hex(),
            arguments=dict(arguments),
            origin=origin,
            session=session,
            created_at=time.time(),
            reason=reason,
        )
        record = {"subsystem": "skills", "payload": pending.arguments, "summary": pending.summary}
        record |= {name: getattr(pending, name) for name in ("id", "origin", "session", "created_at", "reason")}
        with Folder.create(self._path) as folder:
            folder.replace(pending.id + _SUFFIX, json.dumps(record, ensure_ascii=False).encode())
        return pending

    def all(self) -> list[PendingSkill]:
        """The staged changes, oldest first; a file that cannot be understood is left out."""
        folder = Folder.open(self._path)
        if folder is None:
            return []
        found = []
        with folder:
            for name in folder.names():
                if name.endswith(_SUFFIX) and not name.startswith("."):
                    try:
                        found.append(_read(name, json.loads(folder.read(name, at_most=_LARGEST) or b"")))
                    except (ValueError, KeyError, TypeError, RecursionError, UnsafePath):
                        continue
        return sorted(found, key=lambda pending: pending.created_at)

    def get(self, pending_id: str) -> PendingSkill:
        for pending in self.all():
            if pending.id == pending_id:
                return pending
        raise NotFound(f"nothing is pending under {pending_id!r}; `hermes skills pending` lists what is")

    def drop(self, pending_id: str) -> None:
        with Folder.create(self._path) as folder:
            folder.remove(pending_id + _SUFFIX)
            folder.sync()


def _read(name: str, record: dict[str, Any]) -> PendingSkill:
    return PendingSkill(
        id=name.removesuffix(_SUFFIX),  # never the one inside, which somebody could have made a path
        arguments=dict(record["payload"]),
        origin=str(record["origin"]),
        session=str(record["session"]),
        created_at=float(record["created_at"]),
        reason=str(record["reason"]),
    )
