"""Skill changes that wait for a person: one file each under `pending/skills/`, carried out or thrown away later."""

from __future__ import annotations

import time

from hermes.storage.waiting import Waiting, new_id
from hermes.vocabulary.errors import NotFound
from hermes.vocabulary.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


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
        self._waiting = Waiting(path)

    def stage(self, arguments: Mapping[str, Any], *, origin: str, session: str, reason: str) -> PendingSkill:
        """Keeps a change for later; durable when it returns."""
        pending = PendingSkill(
            id=new_id(),
            arguments=dict(arguments),
            origin=origin,
            session=session,
            created_at=time.time(),
            reason=reason,
        )
        record = {"subsystem": "skills", "payload": pending.arguments, "summary": pending.summary}
        record |= {name: getattr(pending, name) for name in ("id", "origin", "session", "created_at", "reason")}
        self._waiting.put(pending.id, record)
        return pending

    def all(self) -> list[PendingSkill]:
        """The staged changes, oldest first; a file that cannot be understood is left out."""
        return sorted(self._waiting.all(_read)[0], key=lambda pending: pending.created_at)

    def get(self, pending_id: str) -> PendingSkill:
        for pending in self.all():
            if pending.id == pending_id:
                return pending
        raise NotFound(f"nothing is pending under {pending_id!r}; `hermes skills pending` lists what is")

    def drop(self, pending_id: str) -> None:
        self._waiting.drop(pending_id)


def _read(pending_id: str, record: dict[str, Any]) -> PendingSkill:
    return PendingSkill(
        id=pending_id,
        arguments=dict(record["payload"]),
        origin=str(record["origin"]),
        session=str(record["session"]),
        created_at=float(record["created_at"]),
        reason=str(record["reason"]),
    )
