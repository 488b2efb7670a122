"""How skills age: in use, stale, archived; pinned ones stay. Nothing is deleted, and what is archived comes back."""

from __future__ import annotations

import os
import time

from hermes.skills import changes, usage
from hermes.skills.files import find, places
from hermes.storage.files import make_private_folders
from hermes.vocabulary.errors import WriteRefused
from hermes.vocabulary.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hermes.skills.files import Place

DAY = 86_400.0
ACTIVE, STALE, DUE = "active", "stale", "due"


@value
class Standing:
    """One skill: how it stands, when it was last opened or changed, and whether it is pinned."""

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


def standings(root: str, now: float, stale_days: int, archive_days: int) -> list[Standing]:
    """Every skill; one that was never opened counts from the day its file was written."""
    counts = usage.read(root)
    found = []
    for place in places(root):
        used = counts.get(place.full_name, {})
        last = max(float(used.get("last_used", 0)), _written(place))
        idle = (now - last) / DAY
        state = DUE if idle >= archive_days else STALE if idle >= stale_days else ACTIVE
        found.append(
            Standing(
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
    usage.pin(root, place.full_name, pinned=pinned)
    return place.full_name


def archive(root: str, name: str, now: float) -> tuple[str, str]:
    """Moves a skill out of sight; returns its full name and where it is now."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    with changes.locked(root):
        place, target = changes.archive(root, name, stamp)
    return place.full_name, os.path.relpath(target, root)


def archived(root: str) -> list[ArchivedSkill]:
    """What is in the archive, the newest version of each name last."""
    base = os.path.join(root, changes.ARCHIVE)
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
    with changes.locked(root):
        if os.path.lexists(target):
            raise WriteRefused(f"there is a skill {newest.name} already; archive it first", kind="exists")
        make_private_folders(os.path.dirname(target))
        os.rename(newest.path, target)
    usage.count(root, newest.name, "restored", time.time())
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
