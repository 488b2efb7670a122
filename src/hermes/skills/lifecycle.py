"""How skills age (in use, stale, archived; pinned ones stay), and changes that wait for a person."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from hermes.base.errors import NotFound, WriteRefused
from hermes.base.values import value
from hermes.skills import tool
from hermes.skills.files import find, places
from hermes.storage.documents import Waiting, new_id
from hermes.storage.files import make_private_folders

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from hermes.skills.files import Place

DAY = 86_400.0
ACTIVE, STALE, DUE = "active", "stale", "due"


@value
class SkillState:
    """One skill: its state, when it was last opened or changed, and whether it is pinned."""

    name: str
    state: str  # active, stale, or due for the archive
    last_used: float
    views: int
    changes: int
    pinned: bool


@value
class ArchivedSkill:
    name: str
    path: str
    stamp: str


def skill_states(root: str, now: float, stale_days: int, archive_days: int) -> list[SkillState]:
    """Every skill; one that was never opened counts from the day its file was written."""
    counts = tool.read(root)
    found = []
    for place in places(root):
        used = counts.get(place.full_name, {})
        last = max(float(used.get("last_used", 0)), _written(place))
        idle = (now - last) / DAY
        state = DUE if idle >= archive_days else STALE if idle >= stale_days else ACTIVE
        found.append(
            SkillState(
                name=place.full_name,
                state=state,
                last_used=last,
                views=int(used.get("views", 0)),
                changes=int(used.get("changes", 0)),
                pinned=bool(used.get("pinned")),
            )
        )
    return found


def pin(root: str, name: str, *, pinned: bool) -> str:
    """Keeps a skill from ageing, or lets it age again; returns its full name."""
    place = find(root, name)
    tool.pin(root, place.full_name, pinned=pinned)
    return place.full_name


def archive(root: str, name: str, now: float) -> tuple[str, str]:
    """Moves a skill out of sight; returns its full name and where it is now."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    with tool.locked(root):
        place, target = tool.archive(root, name, stamp)
    return place.full_name, os.path.relpath(target, root)


def archived(root: str) -> list[ArchivedSkill]:
    """What is in the archive, the newest version of each name last."""
    base = os.path.join(root, tool.ARCHIVE)
    found = []
    for category in _folders(base):
        for folder in _folders(os.path.join(base, category)):
            name, _, stamp = folder.rpartition(".")
            if name and not folder.endswith(".files"):
                full = name if category == "-" else f"{category}/{name}"
                found.append(ArchivedSkill(name=full, path=os.path.join(base, category, folder), stamp=stamp))
    return sorted(found, key=lambda each: (each.name, each.stamp))


def restore(root: str, name: str) -> str:
    """Brings the newest archived version of a skill back; returns its full name."""
    found = [each for each in archived(root) if name in (each.name, each.name.rpartition("/")[2])]
    if not found:
        raise WriteRefused(
            f"no archived skill is called {name[:100]!r}",
            kind="not_found",
            details={"available_skills": sorted({each.name for each in archived(root)})},
        )
    newest = max(found, key=lambda each: each.stamp)
    target = os.path.join(root, *newest.name.split("/"))
    with tool.locked(root):
        if os.path.lexists(target):
            raise WriteRefused(f"there is a skill {newest.name} already; archive it first", kind="exists")
        make_private_folders(os.path.dirname(target))
        os.rename(newest.path, target)
    tool.count(root, newest.name, "restored", time.time())
    return newest.name


def _written(place: Place) -> float:
    try:
        return os.stat(place.main_file).st_mtime
    except OSError:
        return 0.0


def _folders(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


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
    """Skill changes that wait for a person: one file each under `pending/skills/`."""

    def __init__(self, path: str) -> None:
        self._waiting = Waiting(path)

    def stage(self, arguments: Mapping[str, Any], *, origin: str, session: str, reason: str) -> PendingSkill:
        """Keeps a change for later; durable when it returns."""
        kept: dict[str, Any] = {"id": new_id(), "origin": origin, "session": session, "created_at": time.time()}
        pending = PendingSkill(arguments=dict(arguments), reason=reason, **kept)
        record = {"subsystem": "skills", "payload": pending.arguments, "summary": pending.summary, "reason": reason}
        self._waiting.put(pending.id, record | kept)
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
