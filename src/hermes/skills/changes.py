"""Creates, changes and retires skills: rules first, then a scan, then one atomic write that only the owner can read."""

from __future__ import annotations

import contextlib
import os

from hermes.safety.secrets import find_secrets
from hermes.skills.files import LARGEST_FILE, Place, as_text, find, places, read_linked
from hermes.skills.names import FOLDERS, LONGEST_NAME, MAIN_FILE, check_file_path, check_name
from hermes.storage.files import Folder, make_private_folders
from hermes.storage.foreign_text import is_inside
from hermes.storage.locks import FileLock
from hermes.vocabulary.errors import WriteRefused
from hermes.vocabulary.frontmatter import split_frontmatter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes.vocabulary.verdicts import Scan

LONGEST_SKILL = 100_000  # characters
LONGEST_FILE = 100_000
LONGEST_DESCRIPTION = 1_024
PREVIEW = 500
ARCHIVE = ".archive"
LOCK = ".lock"
LOCK_TIMEOUT = 5
EXAMPLE = "---\nname: my-skill\ndescription: What it does and when to use it.\n---\n\n# Steps\n…"


def create(root: str, name: str, content: str, category: str, scan: Scan) -> Place:
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
    if not category and any(other.category == name for other in places(root)):
        raise WriteRefused(f"{name!r} is a category; choose another name for the skill", kind="exists")
    if category and os.path.lexists(os.path.join(root, category, MAIN_FILE)):
        raise WriteRefused(f"{category!r} is a skill, not a category; choose another category", kind="exists")
    write_private(root, place.main_file, content)
    return place


def edit(root: str, name: str, content: str, scan: Scan) -> Place:
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
    """Replaces `old` where it stands exactly once (or everywhere); returns the skill and how many places changed."""
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


def archive(root: str, name: str, stamp: str, absorbed_into: str = "") -> tuple[Place, str]:
    """Moves a skill out of sight; nothing is destroyed. `absorbed_into` names the skill that covers it from now on."""
    place = find(root, name)
    if absorbed_into and find(root, absorbed_into).directory == place.directory:
        raise WriteRefused("absorbed_into names the skill that is being deleted", kind="bad_argument")
    _check_contained(root, place.directory)
    target = os.path.join(root, ARCHIVE, place.category or "-", f"{place.name}.{stamp}")
    while os.path.lexists(target):
        target = f"{target}-{os.urandom(2).hex()}"
    make_private_folders(os.path.dirname(target))
    os.rename(place.directory, target)
    if place.category:
        with contextlib.suppress(OSError):  # other skills, or files of the person's, are still in the category
            os.rmdir(os.path.dirname(place.directory))
    return place, target


def write_file(root: str, name: str, file_path: str, content: str, scan: Scan) -> tuple[Place, str]:
    place = find(root, name)
    parts = check_file_path(file_path)
    _check_file(content, scan)
    path = os.path.join(place.directory, *parts)
    if os.path.isdir(path):
        raise WriteRefused(f"{file_path} is a directory", kind="bad_path")
    write_private(root, path, content)
    return place, path


def remove_file(root: str, name: str, file_path: str, stamp: str) -> tuple[Place, str]:
    """Moves a linked file to the archive."""
    place = find(root, name)
    parts = check_file_path(file_path)
    path = os.path.join(place.directory, *parts)
    if not os.path.lexists(path) or (os.path.isdir(path) and not os.path.islink(path)):
        raise WriteRefused(f"{place.name} has no file {file_path}", kind="not_found")
    _check_contained(root, os.path.dirname(path))
    kept = os.path.join(root, ARCHIVE, place.category or "-", f"{place.name}.{stamp}.files", *parts)
    while os.path.lexists(kept):
        kept = f"{kept}-{os.urandom(2).hex()}"
    make_private_folders(os.path.dirname(kept))
    os.rename(path, kept)
    return place, kept


@contextlib.contextmanager
def locked(root: str) -> Iterator[None]:
    """One change at a time, across processes: a patch reads what it is about to replace."""
    with Folder.create(root) as folder, FileLock(folder, LOCK, timeout=LOCK_TIMEOUT):
        yield


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
    """Refuses what looks like an attack, and secrets: what a skill says stands in prompts, and is handed on."""
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
    if times > 1:
        return WriteRefused(
            f"old_string stands {times} times in the file; give more of the surrounding text, or set replace_all",
            kind="ambiguous_match",
            details={"file_preview": _around(text, text.find(old))},
        )
    closest = _ignoring_blanks(text, old)
    if closest:
        return WriteRefused(
            "old_string was not found, but this text differs from it only in blanks; copy it exactly",
            kind="no_match",
            details={"closest": closest[:PREVIEW], "file_preview": _around(text, text.find(closest))},
        )
    return WriteRefused(
        "old_string was not found; copy it exactly as it stands in the file",
        kind="no_match",
        details={"file_preview": _around(text, _first_similar(text, old))},
    )


def _ignoring_blanks(text: str, old: str) -> str:
    """The lines of `text` that equal those of `old` but for blanks; "" when there are none."""
    wanted = ["".join(line.split()) for line in old.strip().splitlines()]
    lines = text.splitlines()
    squeezed = ["".join(line.split()) for line in lines]
    for start in range(len(lines) - len(wanted) + 1 if wanted else 0):
        if squeezed[start : start + len(wanted)] == wanted:
            return "\n".join(lines[start : start + len(wanted)])
    return ""


def _first_similar(text: str, old: str) -> int:
    """Where the longest line of `old` that exists in the text stands; 0 when none does."""
    for line in sorted((line.strip() for line in old.splitlines()), key=len, reverse=True):
        if line and (position := text.find(line)) >= 0:
            return position
    return 0


def _around(text: str, position: int) -> str:
    start = max(0, min(position - PREVIEW // 4, len(text) - PREVIEW))
    return text[start : start + PREVIEW]


def write_private(root: str, path: str, content: str) -> None:
    """Puts `content` at `path` in one durable step, readable by the owner only; refuses to write through a link."""
    directory, name = os.path.split(path)
    _check_contained(root, directory)
    if os.path.islink(path):
        raise WriteRefused(f"{name} is a link; remove it first", kind="bad_path")
    with Folder.create(directory) as folder:
        folder.replace(name, content.encode("utf-8"))


def _check_contained(root: str, directory: str) -> None:
    if not is_inside(os.path.realpath(directory), os.path.realpath(root)):
        raise WriteRefused("the skill is a link that leads out of the skills directory", kind="bad_path")
