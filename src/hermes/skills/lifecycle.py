"""Creates, changes, ages and archives skills; every change is checked, scanned and written in one atomic step."""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import TYPE_CHECKING

from hermes.base.errors import StorageError, WriteRefused
from hermes.base.frontmatter import split_frontmatter
from hermes.base.values import value
from hermes.safety.secrets import find_secrets
from hermes.skills.files import (
    FOLDERS,
    LARGEST_FILE,
    LONGEST_NAME,
    MAIN_FILE,
    Place,
    as_text,
    check_file_path,
    check_name,
    find,
    places,
    read_linked,
)
from hermes.storage.files import Folder, is_inside, make_private_folders
from hermes.storage.locks import FileLock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes.base.values import Scan

DAY = 86_400.0
ACTIVE, STALE, DUE = "active", "stale", "due"
LONGEST_SKILL = 100_000  # characters
LONGEST_FILE = 100_000  # characters
LONGEST_DESCRIPTION = 1_024  # characters
PREVIEW = 500  # characters of a file that an error shows
ARCHIVE = ".archive"  # hidden, so that `places` does not find what is in it
LOCK = ".lock"
LOCK_TIMEOUT = 5  # seconds
EXAMPLE = "---\nname: my-skill\ndescription: What it does and when to use it.\n---\n\n# Steps\n…"
USAGE = ".usage.json"  # how often each skill was opened and changed; the curator archives unused ones


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
    """A version of a skill in the archive; `stamp` is the time it was moved there, as in its folder's name."""

    name: str
    path: str
    stamp: str


def skill_states(root: str, now: float, stale_days: int, archive_days: int) -> list[SkillState]:
    """The state of every skill; the age of one that was never opened counts from the day its file was written."""
    counts = usage_counts(root)
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
    """Pins a skill, so that it does not age, or unpins it; returns its full name."""
    place = find(root, name)
    with locked(root):
        counts = usage_counts(root)
        counts.setdefault(place.full_name, {})["pinned"] = int(pinned)
        _write_counts(root, counts)
    return place.full_name


def archive(root: str, name: str, now: float) -> tuple[str, str]:
    """Moves a skill to the archive; returns its full name and its new path, relative to the root."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    with locked(root):
        place, target = move_to_archive(root, name, stamp)
    return place.full_name, os.path.relpath(target, root)


def archived(root: str) -> list[ArchivedSkill]:
    """Lists the archive by name, the newest version of each name last."""
    base = os.path.join(root, ARCHIVE)
    found = []
    for category in _folders(base):
        for folder in _folders(os.path.join(base, category)):
            name, _, stamp = folder.rpartition(".")
            if name and not folder.endswith(".files"):  # those hold single files that `remove_file` moved
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
    with locked(root):
        if os.path.lexists(target):
            raise WriteRefused(f"there is a skill {newest.name} already; archive it first", kind="exists")
        make_private_folders(os.path.dirname(target))
        os.rename(newest.path, target)
    count(root, newest.name, "restored", time.time())
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


def create(root: str, name: str, content: str, category: str, scan: Scan) -> Place:
    """Writes a new skill; refuses a name that is taken, an invalid SKILL.md and unsafe text. Callers hold `locked`."""
    check_name(name)
    if category:
        check_name(category, "category")
    _check_skill(name, content, scan)
    # Compared without case: on some file systems "Deploy" and "deploy" are one directory.
    taken = [place.full_name for place in places(root) if place.name.lower() == name]
    if taken:
        raise WriteRefused(
            f"a skill called {name!r} exists already ({', '.join(taken)}); patch or edit it, or choose another name",
            kind="exists",
        )
    directory = os.path.join(root, category, name) if category else os.path.join(root, name)
    place = Place(category=category, name=name, directory=directory)
    # `places` reads a folder as a skill or as a category, never as both.
    if not category and any(other.category == name for other in places(root)):
        raise WriteRefused(f"{name!r} is a category; choose another name for the skill", kind="exists")
    if category and os.path.lexists(os.path.join(root, category, MAIN_FILE)):
        raise WriteRefused(f"{category!r} is a skill, not a category; choose another category", kind="exists")
    write_private(root, place.main_file, content)
    return place


def edit(root: str, name: str, content: str, scan: Scan) -> Place:
    """Replaces the whole SKILL.md of a skill, after the same checks as `create`."""
    place = find(root, name)
    _check_skill(place.name, content, scan)
    write_private(root, place.main_file, content)
    return place


def patch(
    root: str,
    name: str,
    old: str,
    new: str,
    scan: Scan,
    *,
    file_path: str = "",
    replace_all: bool = False,
) -> tuple[Place, int]:
    """Replaces `old` where it occurs exactly once (or everywhere); returns the skill and how many places changed."""
    place = find(root, name)
    parts = check_file_path(file_path) if file_path and file_path != MAIN_FILE else (MAIN_FILE,)
    before = _text_of(root, place, parts)
    if not old:
        raise WriteRefused("old_string is empty; give the text to replace", kind="bad_argument")
    times = before.count(old)
    if times == 0 or (times > 1 and not replace_all):
        raise _no_unique_match(before, old, times)
    after = before.replace(old, new)
    if after == before:
        raise WriteRefused("old_string and new_string are the same; nothing would change", kind="no_change")
    if parts == (MAIN_FILE,):
        _check_skill(place.name, after, scan)
    else:
        _check_file(after, scan)
    write_private(root, os.path.join(place.directory, *parts), after)
    return place, times


def move_to_archive(root: str, name: str, stamp: str, absorbed_into: str = "") -> tuple[Place, str]:
    """Moves a skill to the archive, not away for good. `absorbed_into` names the skill that replaces it."""
    place = find(root, name)
    if absorbed_into and find(root, absorbed_into).directory == place.directory:
        raise WriteRefused("absorbed_into names the skill that is being deleted", kind="bad_argument")
    _check_contained(root, place.directory)
    target = _moved(place.directory, os.path.join(root, ARCHIVE, place.category or "-", f"{place.name}.{stamp}"))
    if place.category:
        with contextlib.suppress(OSError):  # fails if other skills or files are still in the category
            os.rmdir(os.path.dirname(place.directory))
    return place, target


def write_file(root: str, name: str, file_path: str, content: str, scan: Scan) -> Place:
    """Writes one linked file of a skill as a whole, after checking its path and its text."""
    place = find(root, name)
    parts = check_file_path(file_path)
    _check_file(content, scan)
    path = os.path.join(place.directory, *parts)
    if os.path.isdir(path):
        raise WriteRefused(f"{file_path} is a directory", kind="bad_path")
    write_private(root, path, content)
    return place


def remove_file(root: str, name: str, file_path: str, stamp: str) -> tuple[Place, str]:
    """Moves a linked file of a skill to the archive; returns the skill and the new path."""
    place = find(root, name)
    parts = check_file_path(file_path)
    path = os.path.join(place.directory, *parts)
    if not os.path.lexists(path) or (os.path.isdir(path) and not os.path.islink(path)):
        raise WriteRefused(f"{place.name} has no file {file_path}", kind="not_found")
    _check_contained(root, os.path.dirname(path))
    kept = os.path.join(root, ARCHIVE, place.category or "-", f"{place.name}.{stamp}.files", *parts)
    return place, _moved(path, kept)


@contextlib.contextmanager
def locked(root: str) -> Iterator[None]:
    """Holds the lock for changes: a patch reads what it will replace, so two at once could lose one."""
    with Folder.create(root) as folder, FileLock(folder, LOCK, timeout=LOCK_TIMEOUT):
        yield


def _moved(path: str, target: str) -> str:
    """Moves a file or folder to `target`, or to a similar name if that is taken; returns the new path."""
    while os.path.lexists(target):
        target = f"{target}-{os.urandom(2).hex()}"
    make_private_folders(os.path.dirname(target))
    os.rename(path, target)
    return target


def _text_of(root: str, place: Place, parts: tuple[str, ...]) -> str:
    found = read_linked(root, place, parts)
    if found is None:
        raise WriteRefused(f"{place.name} has no file {'/'.join(parts)}", kind="not_found")
    if found.text is None or not found.exact:
        raise WriteRefused(
            f"{'/'.join(parts)} cannot be patched: {found.note}; replace it as a whole", kind="unreadable"
        )
    return found.text


def _check_skill(name: str, content: str, scan: Scan) -> None:
    """Refuses a SKILL.md that is too long, lacks a name, description or text, or is not safe to keep."""
    if len(content) > LONGEST_SKILL:
        raise WriteRefused(
            f"{MAIN_FILE} would have {len(content):,} characters; at most {LONGEST_SKILL:,} fit. Move details into"
            f" files under {FOLDERS[0]}/ and name them in the text",
            kind="too_long",
        )
    parts = split_frontmatter(content)
    problem = parts.problem
    description = as_text(parts.fields.get("description"))
    if not parts.fields and not problem:
        problem = "it does not begin with frontmatter"
    elif not problem and as_text(parts.fields.get("name")) != name:
        problem = f"its frontmatter must have the line name: {name[:LONGEST_NAME]}"
    elif not problem and not description:
        problem = "its frontmatter has no description"
    elif len(description) > LONGEST_DESCRIPTION:
        problem = f"its description has {len(description):,} characters; at most {LONGEST_DESCRIPTION:,} fit"
    elif not problem and not parts.body.strip():
        problem = "there is no text below its frontmatter"
    if problem:
        raise WriteRefused(f"this is not a valid {MAIN_FILE}: {problem}", kind="invalid", details={"example": EXAMPLE})
    check_safe(content, scan)


def _check_file(content: str, scan: Scan) -> None:
    size = len(content.encode())
    if len(content) > LONGEST_FILE or size > LARGEST_FILE:
        raise WriteRefused(
            f"the file would have {len(content):,} characters ({size:,} bytes); at most {LONGEST_FILE:,} fit",
            kind="too_long",
        )
    check_safe(content, scan)


def check_safe(content: str, scan: Scan) -> None:
    """Refuses attacks and secrets: the text of a skill is read in prompts and shared with others."""
    if found := find_secrets(content):
        kinds = ", ".join(dict.fromkeys(secret.kind for secret in found))
        raise WriteRefused(
            f"the text holds a secret ({kinds}) and was not written; keep that in .env and name the variable instead",
            kind="secret",
        )
    verdict = scan(content)
    if verdict.level == "refuse":
        raise WriteRefused(
            f"the text looks like an attack ({', '.join(verdict.classes)}) and was not written; describe the matter"
            " in other words",
            kind="threat",
            details={"classes": list(verdict.classes)},
        )


def _no_unique_match(text: str, old: str, times: int) -> WriteRefused:
    """The refusal for a passage that is not in the file exactly once, with the part of the file that helps most."""
    if times > 1:
        return WriteRefused(
            f"old_string occurs {times} times in the file; give more of the surrounding text, or set replace_all",
            kind="ambiguous_match",
            details={"file_preview": _around(text, text.find(old))},
        )
    if closest := _ignoring_blanks(text, old):
        return WriteRefused(
            "old_string was not found, but this text differs from it only in blanks; copy it exactly",
            kind="no_match",
            details={"closest": closest[:PREVIEW], "file_preview": _around(text, text.find(closest))},
        )
    # The preview shows the longest line of old_string that exists in the file, or its beginning.
    lines = sorted((line.strip() for line in old.splitlines()), key=len, reverse=True)
    position = next((found for line in lines if line and (found := text.find(line)) >= 0), 0)
    return WriteRefused(
        "old_string was not found; copy it exactly as it is in the file",
        kind="no_match",
        details={"file_preview": _around(text, position)},
    )


def _ignoring_blanks(text: str, old: str) -> str:
    """The lines of `text` that differ from those of `old` only in blanks; "" if there are none."""
    wanted = ["".join(line.split()) for line in old.strip().splitlines()]
    lines = text.splitlines()
    squeezed = ["".join(line.split()) for line in lines]
    for start in range(len(lines) - len(wanted) + 1 if wanted else 0):
        if squeezed[start : start + len(wanted)] == wanted:
            return "\n".join(lines[start : start + len(wanted)])
    return ""


def _around(text: str, position: int) -> str:
    start = max(0, min(position - PREVIEW // 4, len(text) - PREVIEW))
    return text[start : start + PREVIEW]


def write_private(root: str, path: str, content: str) -> None:
    """Writes `content` to `path` in one durable step, readable by the owner only; refuses to write through a link."""
    directory, name = os.path.split(path)
    _check_contained(root, directory)
    if os.path.islink(path):
        raise WriteRefused(f"{name} is a link; remove it first", kind="bad_path")
    with Folder.create(directory) as folder:
        folder.replace(name, content.encode("utf-8"))


def _check_contained(root: str, directory: str) -> None:
    """Refuses to work through a link that leads out of the skills directory."""
    if not is_inside(os.path.realpath(directory), os.path.realpath(root)):
        raise WriteRefused("the skill is a link that leads out of the skills directory", kind="bad_path")


def count(root: str, full_name: str, kind: str, now: float) -> None:
    """Counts one use of `kind`, such as "views" or "changes"; a failure to count does not fail the use."""
    with contextlib.suppress(OSError, StorageError), locked(root):
        counts = usage_counts(root)
        entry = counts.setdefault(full_name, {"first_used": now})
        entry[kind] = int(entry.get(kind, 0)) + 1
        entry["last_used"] = now
        _write_counts(root, counts)


def usage_counts(root: str) -> dict[str, dict[str, float]]:
    """Reads the counts by full name. A damaged file is moved aside, so that the next write does not destroy it."""
    path = os.path.join(root, USAGE)
    try:
        with open(path, encoding="utf-8") as file:
            counts = json.load(file)
        return {
            str(name): {key: number for key, number in entry.items() if isinstance(number, int | float)}
            for name, entry in counts.items()
        }
    except FileNotFoundError:
        return {}
    except (ValueError, AttributeError, RecursionError):
        with contextlib.suppress(OSError):
            os.replace(path, f"{path}.damaged")
        return {}


def _write_counts(root: str, counts: dict[str, dict[str, float]]) -> None:
    write_private(root, os.path.join(root, USAGE), json.dumps(counts, indent=1, sort_keys=True) + "\n")
