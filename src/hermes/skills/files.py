"""Finds and reads skills (`skills/<category>/<name>/SKILL.md` with linked files), and lists them for prompts."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from typing import TYPE_CHECKING

from hermes.base.errors import WriteRefused
from hermes.base.frontmatter import split_frontmatter
from hermes.base.values import value
from hermes.settings.config import documents_of
from hermes.storage.files import is_inside, read_foreign
from hermes.storage.mirror import Mirror

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from hermes.base.values import Scan
    from hermes.settings.config import Settings
    from hermes.settings.home import Home
    from hermes.storage.files import ForeignText

    Stamp = tuple[int, int, int, int]
    Known = dict[str, tuple[Stamp, "Entry"]]

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
