"""Skills on disk: `skills/<category>/<name>/SKILL.md` with linked files beside it, read as a stranger's files."""

from __future__ import annotations

import os
import sys

from hermes.skills.names import FOLDERS, MAIN_FILE
from hermes.storage.foreign_text import is_inside, read_foreign
from hermes.vocabulary.errors import WriteRefused
from hermes.vocabulary.frontmatter import split_frontmatter
from hermes.vocabulary.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from hermes.storage.foreign_text import ForeignText

LARGEST_FILE = 1_048_576  # bytes; of larger ones only the first and last part are shown
MOST_LINKED_FILES = 200
MOST_SUGGESTIONS = 20
THIS_PLATFORM = {"darwin": "macos", "win32": "windows"}.get(sys.platform, sys.platform)


@value
class Place:
    """Where a skill lies. `category` is "" for one directly under the root; `linked` if a link leads to it."""

    category: str
    name: str
    directory: str
    linked: bool = False

    @property
    def main_file(self) -> str:
        return f"{self.directory}{os.sep}{MAIN_FILE}"

    @property
    def full_name(self) -> str:
        return f"{self.category}/{self.name}" if self.category else self.name


@value
class Skill:
    """A skill as read; `note` says what is wrong with it and is "" for a sound one."""

    place: Place
    description: str
    fields: dict[str, Any]
    content: str  # the whole file
    note: str = ""


def places(root: str) -> Iterator[Place]:
    """Every directory that holds a SKILL.md, by category and name; hidden directories are ours or nobody's."""
    for name, path, linked in _directories(root):
        if _holds_skill(path):
            yield Place(category="", name=name, directory=path, linked=linked)
            continue
        for inner, inner_path, inner_linked in _directories(path):
            if _holds_skill(inner_path):
                yield Place(category=name, name=inner, directory=inner_path, linked=linked or inner_linked)


def all_places(root: str, also: Iterable[str]) -> list[Place]:
    """The skills of the root, then those of the other folders whose full name is still free."""
    found = {place.full_name: place for place in places(root)}
    for folder in also:
        for place in places(folder):
            found.setdefault(place.full_name, place)
    return list(found.values())


def folder_of(place: Place, root: str, also: Iterable[str]) -> str:
    """Which of the folders the skill lies in."""
    return next((each for each in (root, *also) if is_inside(place.directory, each)), root)


def find(root: str, name: str, also: Iterable[str] = ()) -> Place:
    """The skill called `name` or `category/name`; the name is compared with what is there and never used as a path.

    `also` are folders that are looked through for what the root does not have.
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
    """The platforms it says it is for; none when it is for all."""
    return [name.lower() for name in as_texts(skill.fields.get("platforms"))]


def linked_files(place: Place) -> dict[str, list[str]]:
    """The files in the four folders, by folder, as paths relative to the skill; links are not followed."""
    found: dict[str, list[str]] = {}
    left = MOST_LINKED_FILES
    for folder in FOLDERS:
        paths = sorted(_files_below(os.path.join(place.directory, folder), place.directory))[:left]
        left -= len(paths)
        if paths:
            found[folder] = paths
    return found


def read_linked(root: str, place: Place, parts: Iterable[str]) -> ForeignText | None:
    """A file of the skill, or None when there is none; a link out of the skill is refused."""
    path = os.path.join(place.directory, *parts)
    if not os.path.lexists(path):
        return None
    real = os.path.realpath(path)
    if not is_inside(real, os.path.realpath(place.directory)) or not is_inside(real, os.path.realpath(root)):
        raise WriteRefused(f"{'/'.join(parts)} is a link that leads out of the skill", kind="bad_path")
    return read_foreign(path, whole=LARGEST_FILE)


def as_text(field: object) -> str:
    """A frontmatter field as one line; what YAML read as a number or date is text again."""
    return " ".join(str(field).split()) if field is not None and not isinstance(field, list | dict) else ""


def as_texts(field: object) -> list[str]:
    """A frontmatter field that may be a list or a comma-separated line."""
    items = field if isinstance(field, list) else as_text(field).split(",")
    return [text for item in items if (text := as_text(item.get("name") if isinstance(item, dict) else item))]


def _holds_skill(directory: str) -> bool:
    # Hundreds of times for each prompt: os.path.join would take longer than the question itself.
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
