"""Skills as files (`skills/<category>/<name>/SKILL.md` with linked files): finds, reads, lists and changes them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

from hermes.base.errors import StorageError, WriteRefused
from hermes.base.frontmatter import split_frontmatter
from hermes.base.text import decode
from hermes.base.values import value
from hermes.safety.secrets import find_secrets
from hermes.settings.config import documents_of
from hermes.storage.documents import SYNCED, YOURS, LocalDocuments, files_below
from hermes.storage.files import Folder, is_inside, make_private_folders, read_foreign
from hermes.storage.locks import FileLock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from hermes.base.values import Scan
    from hermes.settings.config import Settings
    from hermes.settings.home import Home
    from hermes.storage.files import ForeignText

    Stamp = tuple[int, int, int, int]
    Known = dict[str, tuple[Stamp, "Entry"]]

    from hermes.storage.ports import DocumentFolder, Documents


LONGEST_NAME = 64  # characters
LONGEST_PATH = 240  # characters, inside the skill
LONGEST_PART = 100  # bytes of one folder or file name
FOLDERS = ("references", "templates", "scripts", "assets")
MAIN_FILE = "SKILL.md"


def skills_folder(home: Home, settings: Settings | None = None) -> Mirror:
    """The folder of the person's own skills; with PostgreSQL, a copy that the mirror keeps up to date."""
    return Mirror(documents_of(home, settings).below("skills"), home.join("skills"))


_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*", re.ASCII)
# Windows opens a device under these names, also with an ending such as .txt.
_DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))})
_FORBIDDEN = frozenset('\\:*?"<>|')  # Windows allows none of these in a file name


def check_name(name: str, field: str = "name") -> str:
    """Returns `name` if it may name a directory, else raises WriteRefused; `field` is the argument it came in."""
    if len(name) > LONGEST_NAME:
        problem = f"has {len(name)} characters; at most {LONGEST_NAME} are allowed"
    elif _NAME.fullmatch(name) is None:
        problem = "may hold only a-z, 0-9, dot, underscore and hyphen, and begins with a letter or digit"
    elif ".." in name or name.endswith("."):
        problem = "must not hold two dots in a row or end with a dot"
    elif _is_device(name):
        problem = "is a device name on Windows; choose another"
    else:
        return name
    raise WriteRefused(f"{field} {_shown(name)} {problem}", kind="bad_name")


def check_file_path(path: str) -> tuple[str, ...]:
    """Splits a path inside a skill and checks it: one of the four folders, then at least a file name."""
    parts = tuple(path.split("/"))
    problem = ""
    if len(path) > LONGEST_PATH:
        problem = f"has {len(path)} characters; at most {LONGEST_PATH} are allowed"
    elif not path.isprintable() or _FORBIDDEN & set(path):
        problem = "holds a character that cannot be part of a path; separate folders with /"
    elif any(part in ("", ".", "..") for part in parts):
        problem = "must be relative to the skill, without empty parts, . or .."
    elif parts[0] not in FOLDERS or len(parts) == 1:
        problem = f"must name a file inside one of these folders: {', '.join(FOLDERS)}"
    elif any(len(part.encode()) > LONGEST_PART or part[-1] in ". " or part[0] == " " for part in parts):
        problem = f"has a part that is too long (over {LONGEST_PART} bytes), or begins or ends with a blank or dot"
    elif any(_is_device(part.lower()) for part in parts):
        problem = "holds a device name of Windows; choose another"
    if problem:
        raise WriteRefused(f"file_path {_shown(path)} {problem}", kind="bad_path")
    return parts


def _is_device(name: str) -> bool:
    return name.split(".", 1)[0].rstrip() in _DEVICES


def _shown(text: str) -> str:
    return repr(text if len(text) <= LONGEST_NAME else text[:LONGEST_NAME] + "…")


LARGEST_FILE = 1_048_576  # bytes; of larger ones only the first and last part are shown
MOST_LINKED_FILES = 200  # listed with a skill
MOST_SUGGESTIONS = 20  # names in the error for an unknown skill
# In the words that skills use for platforms.
THIS_PLATFORM = {"darwin": "macos", "win32": "windows"}.get(sys.platform, sys.platform)


@value
class Place:
    """The place of a skill on disk. `category` is "" directly under the root; `linked` if a link leads to it."""

    category: str
    name: str
    directory: str
    linked: bool = False

    @property
    def main_file(self) -> str:
        """The path of the SKILL.md."""
        return f"{self.directory}{os.sep}{MAIN_FILE}"

    @property
    def full_name(self) -> str:
        """`category/name`, which is unique in a folder, unlike the name alone."""
        return f"{self.category}/{self.name}" if self.category else self.name


@value
class Skill:
    """A skill as it was read; `note` says what is wrong with it, "" if nothing is."""

    place: Place
    description: str
    fields: dict[str, Any]
    content: str  # the whole file
    note: str = ""


def places(root: str) -> Iterator[Place]:
    """Yields every directory with a SKILL.md, by category and name; skips hidden ones, such as the archive."""
    for name, path, linked in _directories(root):
        if _holds_skill(path):
            yield Place(category="", name=name, directory=path, linked=linked)
            continue
        for inner, inner_path, inner_linked in _directories(path):
            if _holds_skill(inner_path):
                yield Place(category=name, name=inner, directory=inner_path, linked=linked or inner_linked)


def all_places(root: str, also: Iterable[str]) -> list[Place]:
    """Lists the skills of the root, then those of the other folders whose full name is not taken yet."""
    found = {place.full_name: place for place in places(root)}
    for folder in also:
        for place in places(folder):
            found.setdefault(place.full_name, place)
    return list(found.values())


def folder_of(place: Place, root: str, also: Iterable[str]) -> str:
    """Which of the folders a skill is in."""
    return next((each for each in (root, *also) if is_inside(place.directory, each)), root)


def find(root: str, name: str, also: Iterable[str] = ()) -> Place:
    """Finds the skill called `name` or `category/name`; raises WriteRefused if there is none, or more than one.

    The name is compared with those on disk and never used as a path. `also` are further folders to look in.
    """
    everything = all_places(root, also)
    matches = [place for place in everything if name in (place.name, place.full_name)]
    exact = [place for place in matches if name == place.full_name]
    if len(matches) == 1 or len(exact) == 1:
        return (exact or matches)[0]
    if matches:
        raise WriteRefused(
            f"{len(matches)} skills are called {name!r}",
            kind="ambiguous",
            details={
                "matches": sorted(place.full_name for place in matches),
                "hint": "name one of them as category/name",
            },
        )
    raise WriteRefused(
        f"there is no skill called {name[:100]!r}",
        kind="not_found",
        details={
            "available_skills": sorted(place.full_name for place in everything)[:MOST_SUGGESTIONS],
            "hint": "skills_list shows them all",
        },
    )


def read_skill(root: str, place: Place) -> Skill:
    """Reads a skill; one that is damaged or unreadable is returned with a note, never raised."""
    foreign = read_foreign(place.main_file, inside=root, whole=LARGEST_FILE, in_real_directory=not place.linked)
    if foreign.text is None:
        return Skill(place=place, description="", fields={}, content="", note=f"{MAIN_FILE} unusable: {foreign.note}")
    parts = split_frontmatter(foreign.text)
    description = as_text(parts.fields.get("description"))
    notes = [foreign.note, parts.problem]
    if not description and not parts.problem:
        notes.append("its frontmatter has no description")
    if (named := as_text(parts.fields.get("name"))) not in ("", place.name):
        notes.append(f"its frontmatter calls it {named[:64]!r}")
    return Skill(
        place=place,
        description=description,
        fields=parts.fields,
        content=foreign.text,
        note="; ".join(note for note in notes if note),
    )


def platforms_of(skill: Skill) -> list[str]:
    """The platforms a skill says it is for, in lower case; none if it is for all."""
    return [name.lower() for name in as_texts(skill.fields.get("platforms"))]


def linked_files(place: Place) -> dict[str, list[str]]:
    """Lists the files in the four folders, by folder, as paths relative to the skill; does not follow links."""
    found: dict[str, list[str]] = {}
    left = MOST_LINKED_FILES
    for folder in FOLDERS:
        paths = sorted(_files_below(os.path.join(place.directory, folder), place.directory))[:left]
        left -= len(paths)
        if paths:
            found[folder] = paths
    return found


def read_linked(root: str, place: Place, parts: Iterable[str]) -> ForeignText | None:
    """Reads a file of a skill; None if there is none. Refuses a link that leads out of the skill."""
    path = os.path.join(place.directory, *parts)
    if not os.path.lexists(path):
        return None
    real = os.path.realpath(path)
    if not is_inside(real, os.path.realpath(place.directory)) or not is_inside(real, os.path.realpath(root)):
        raise WriteRefused(f"{'/'.join(parts)} is a link that leads out of the skill", kind="bad_path")
    return read_foreign(path, whole=LARGEST_FILE)


def as_text(field: object) -> str:
    """A frontmatter field as one line of text, also where YAML read a number or a date."""
    return " ".join(str(field).split()) if field is not None and not isinstance(field, list | dict) else ""


def as_texts(field: object) -> list[str]:
    """A frontmatter field as a list of texts; people write lists or lines with commas."""
    items = field if isinstance(field, list) else as_text(field).split(",")
    return [text for item in items if (text := as_text(item.get("name") if isinstance(item, dict) else item))]


def _holds_skill(directory: str) -> bool:
    # Asked hundreds of times for each prompt, and os.path.join takes longer than the call itself.
    return os.path.lexists(f"{directory}{os.sep}{MAIN_FILE}")


def _directories(path: str) -> list[tuple[str, str, bool]]:
    try:
        with os.scandir(path) as entries:
            return sorted(
                (entry.name, entry.path, entry.is_symlink())
                for entry in entries
                if entry.name[0] != "." and entry.is_dir()
            )
    except OSError:
        return []


def _files_below(folder: str, base: str) -> Iterator[str]:
    if os.path.islink(folder):
        return
    for directory, _, files in os.walk(folder):
        for file in files:
            path = os.path.join(directory, file)
            if not os.path.islink(path):
                yield os.path.relpath(path, base).replace(os.sep, "/")


LONGEST_LINE = 200  # characters of a description in the prompt; `skill_view` shows all of it
UNCATEGORISED = "general"  # the category shown for skills directly under the root
WITHHELD = "(withheld)"  # shown instead of a name that looks like an attack


@value
class Entry:
    """One skill in the index; `note` says what is unusual about it."""

    name: str
    full_name: str
    category: str
    description: str
    platforms: str  # which it is for, separated by commas; "" for all
    note: str = ""

    @property
    def is_for_this_machine(self) -> bool:
        """Whether the skill names this platform, or no platform at all."""
        return not self.platforms or THIS_PLATFORM in self.platforms.split(", ")

    def with_note(self, note: str) -> Entry:
        """A copy with one more note."""
        return Entry(**(vars(self) | {"note": f"{self.note}; {note}" if self.note else note}))


class SkillIndex:
    """The index of a skills directory for lists and prompts; reads a file again only when its stamp has changed."""

    def __init__(
        self,
        root: str,
        scan: Scan,
        *,
        disabled: frozenset[str] = frozenset(),
        also: tuple[str, ...] = (),
    ) -> None:
        self._root = root
        self._also = also
        self._scan = scan
        self._disabled = disabled
        self._known: Known = {}

    def entries(self) -> list[Entry]:
        """Lists every skill that is not disabled, by category and name.

        Skills that share a name and skills for other platforms get a note that says so.
        """
        known: Known = {}
        for place in all_places(self._root, self._also):
            if self._disabled and {place.name, place.full_name} & self._disabled:
                continue
            path = place.main_file
            stamp = _stamp(path)
            before = self._known.get(path)
            entry = before[1] if before is not None and before[0] == stamp != _NO_STAMP else self._read(place)
            known[path] = (stamp, entry)
        self._known = known  # replaced as a whole, so another thread never sees half a list
        entries = sorted((entry for _, entry in known.values()), key=lambda entry: (entry.category, entry.name))
        times = Counter(entry.name for entry in entries)
        return [_with_notes(entry, times[entry.name]) for entry in entries]

    def render(self) -> str:
        """The block of the prompt that lists the skills for this platform; "" when there are none."""
        entries = [entry for entry in self.entries() if entry.is_for_this_machine]
        if not entries:
            return ""
        lines = []
        category = None
        for entry in entries:
            if entry.category != category:
                category = entry.category
                lines.append(f"  {category}:")
            lines.append(_line(entry))
        # Otherwise a description could close the block and continue as part of the prompt.
        inside = "\n".join(lines).replace("<", "(").replace(">", ")")
        return f"<available_skills>\n{inside}\n</available_skills>"

    def _read(self, place: Place) -> Entry:
        """Reads a skill for the index; hides text that looks like an attack, because prompts show the index."""
        skill = read_skill(folder_of(place, self._root, self._also), place)
        description, note = skill.description, skill.note
        platforms = ", ".join(platforms_of(skill))
        verdict = self._scan("\n".join(filter(None, (place.name, place.category, description, platforms))))
        if verdict.level != "clean":
            description = platforms = ""
            note = f"BLOCKED: its description looks like an attack ({', '.join(verdict.classes)})"
        # Directory names are text that others may have written, and they reach the prompt with the list.
        named = place.full_name.isprintable() and self._scan(place.full_name).level == "clean"
        return Entry(
            name=place.name if named else WITHHELD,
            full_name=place.full_name if named else WITHHELD,
            category=(place.category or UNCATEGORISED) if named else WITHHELD,
            description=description,
            platforms=platforms,
            note=note,
        )


_NO_STAMP = (-1, -1, -1, -1)  # of a file that cannot be looked at; it is read again each time


def _stamp(path: str) -> Stamp:
    """What changes when a file does; `_NO_STAMP` for one that cannot be looked at, which is never cached."""
    try:
        status = os.stat(path)
    except OSError:
        return _NO_STAMP
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


def _with_notes(entry: Entry, times: int) -> Entry:
    if times > 1:
        entry = entry.with_note(f"the name is used more than once; open it as {entry.full_name}")
    if not entry.is_for_this_machine:
        entry = entry.with_note(f"for {entry.platforms}, and this is {THIS_PLATFORM}")
    return entry


def _line(entry: Entry) -> str:
    description = entry.description
    if len(description) > LONGEST_LINE:
        description = description[: LONGEST_LINE - 1].rstrip() + "…"
    note = f" [{entry.note}]" if entry.note else ""
    separator = ": " if description else ":" if note else ""
    return f"    - {entry.name}{separator}{description}{note}"


# Creates, changes, ages and archives skills; every change is checked, scanned and written in one atomic step.

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
        written = 0.0
        with contextlib.suppress(OSError):
            written = os.stat(place.main_file).st_mtime
        last = max(float(used.get("last_used", 0)), written)
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
    for category, above, _ in _directories(base):
        for folder, path, _ in _directories(above):
            name, _, stamp = folder.rpartition(".")
            if name and not folder.endswith(".files"):  # those hold single files that `remove_file` moved
                full = name if category == "-" else f"{category}/{name}"
                found.append(ArchivedSkill(name=full, path=path, stamp=stamp))
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


# A folder of files that mirrors rows in PostgreSQL: skills, whose scripts must be files wherever an agent runs.
#
# If both sides differ, the rows count. Before the folder is read, changes by others are fetched, and changes that a
# program or an editor made here are stored. The folder can be removed at any time, because it is made again. If
# documents are plain files, there is nothing to do.

_LARGEST = 64 << 20
_WAIT = 10.0


class Mirror:
    """Keeps the folder at `path` and the `documents` that it mirrors the same."""

    def __init__(self, documents: Documents, path: str) -> None:
        self.path = path
        self._documents = None if isinstance(documents, LocalDocuments) else documents

    def sync(self) -> None:
        """Makes both sides equal; if both changed a file, the row wins, and a copy of the local file is kept."""
        if self._documents is None:
            return
        known, rows, files = self._known(), self._documents.every(), self._files()
        if known.keys() == rows.keys() == files.keys() and all(
            each == (rows[name], files[name]) for name, each in known.items()
        ):
            return
        with self._documents.create() as folder, folder.lock(SYNCED, timeout=_WAIT):
            rows = self._documents.every()
            for name in sorted({*rows, *files}):
                version, stamp = known.get(name, (None, None))
                theirs, ours = rows.get(name) != version, files.get(name) != stamp
                if theirs:
                    self._fetch(name, there=name in rows, keep=ours)
                elif ours:
                    self._store(name)
            rows = self._documents.every()
        self._remember(rows)

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Locks out others around a change of the files, and stores the change."""
        if self._documents is None:
            yield
            return
        with self._documents.create() as folder, folder.lock(SYNCED, timeout=_WAIT):
            self.sync()
            yield
            self.sync()

    def _fetch(self, name: str, *, there: bool, keep: bool) -> None:
        place, base = self._place(name)
        data = None
        if there:
            with self._row(name) as rows:
                data = rows.read(base, at_most=_LARGEST)
        with Folder.create(place) as folder:
            mine = folder.read(base, at_most=_LARGEST) if folder.status(base) is not None else None
            if keep and mine is not None and mine != data:
                folder.replace(f".{base}{YOURS}", mine)
            if data is None:
                folder.remove(base)
            elif mine != data:
                folder.replace(base, data)
        if data is None:
            self._prune(place)

    def _store(self, name: str) -> None:
        place, base = self._place(name)
        local = Folder.open(place)
        data = None
        if local is not None:
            with local:
                data = local.read(base, at_most=_LARGEST)
        with self._row(name) as folder:
            if data is None:
                folder.remove(base)
            else:
                folder.replace(base, data)

    def _row(self, name: str) -> DocumentFolder:
        assert self._documents is not None  # noqa: S101 - `sync` has seen to it
        return self._documents.below(name.rpartition("/")[0]).create()

    def _place(self, name: str) -> tuple[str, str]:
        above, _, last = name.rpartition("/")
        return (f"{self.path}/{above}" if above else self.path), last

    def _prune(self, place: str) -> None:
        with contextlib.suppress(OSError):  # not empty
            while place != self.path:
                os.rmdir(place)
                place = os.path.dirname(place)

    def _files(self) -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        for name in files_below(self.path):
            status = os.lstat(f"{self.path}/{name}")
            found[name] = (status.st_size, status.st_ino, status.st_mtime_ns)
        return found

    def _known(self) -> dict[str, tuple[int, tuple[int, ...]]]:
        """The version of the row and the stamp of the file when both sides were last equal, by name."""
        folder = Folder.open(self.path)
        if folder is None:
            return {}
        with folder:
            kept = decode(folder.read(SYNCED, at_most=_LARGEST) or b"{}")
        return {name: (version, tuple(stamp)) for name, (version, stamp) in dict(kept).items()}

    def _remember(self, rows: dict[str, int]) -> None:
        files = self._files()
        agreed = {name: (version, files[name]) for name, version in rows.items() if name in files}
        make_private_folders(self.path)
        with Folder.create(self.path) as folder:
            folder.replace(SYNCED, json.dumps(agreed).encode())
