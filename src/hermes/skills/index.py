"""The list of skills for the prompt and for `skills_list`, kept between calls and re-read only where a file changed."""

from __future__ import annotations

import os

from hermes.skills.files import THIS_PLATFORM, all_places, folder_of, platforms_of, read_skill
from hermes.vocabulary.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hermes.skills.files import Place
    from hermes.vocabulary.verdicts import Scan

    Stamp = tuple[int, int, int, int]  # modified, changed, size, inode: no edit leaves all four as they were
    Known = dict[str, tuple[Stamp, "Entry"]]

LONGEST_LINE = 200  # characters of a description in the prompt; `skill_view` shows all of it
UNCATEGORISED = "general"
WITHHELD = "(withheld)"


@value
class Entry:
    """One skill in the list; `note` says what is odd about it."""

    name: str
    full_name: str
    category: str
    description: str
    platforms: str  # which it is for, separated by commas; "" for all
    note: str = ""

    @property
    def is_for_this_machine(self) -> bool:
        return not self.platforms or THIS_PLATFORM in self.platforms.split(", ")

    def with_note(self, note: str) -> Entry:
        return Entry(
            name=self.name,
            full_name=self.full_name,
            category=self.category,
            description=self.description,
            platforms=self.platforms,
            note=f"{self.note}; {note}" if self.note else note,
        )


class SkillIndex:
    """One per process and skills directory. A file is read again only when its stamp changed.

    `known` is what another process read, by path; afterwards `changed` says whether there is something new to keep.
    """

    def __init__(
        self,
        root: str,
        scan: Scan,
        *,
        disabled: frozenset[str] = frozenset(),
        also: tuple[str, ...] = (),
        known: Known | None = None,
    ) -> None:
        self._root = root
        self._also = also
        self._scan = scan
        self._disabled = disabled
        self.known: Known = known or {}
        self.changed = False

    def entries(self) -> list[Entry]:
        """Every skill that is not disabled, by category and name; of a name used twice each one says so.

        One that is for other platforms says so, too.
        """
        known: Known = {}
        for place in all_places(self._root, self._also):
            if self._disabled and {place.name, place.full_name} & self._disabled:
                continue
            path = place.main_file
            stamp = _stamp(path)
            before = self.known.get(path)
            entry = before[1] if before is not None and before[0] == stamp != _NO_STAMP else self._read(place)
            known[path] = (stamp, entry)
        self.changed = self.changed or known != self.known
        self.known = known  # replaced as a whole, so another thread never sees half a list
        return _with_platforms_named(_with_duplicates_named(sorted((entry for _, entry in known.values()), key=_order)))

    def render(self) -> str:
        """The block for the prompt; "" when there are no skills. What is for other platforms is left out."""
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
        # A description could otherwise close the block it stands in.
        inside = "\n".join(lines).replace("<", "(").replace(">", ")")
        return f"<available_skills>\n{inside}\n</available_skills>"

    def _read(self, place: Place) -> Entry:
        skill = read_skill(folder_of(place, self._root, self._also), place)
        description, note = skill.description, skill.note
        platforms = ", ".join(platforms_of(skill))
        verdict = self._scan("\n".join(filter(None, (place.name, place.category, description, platforms))))
        if verdict.level == "refuse":
            description = platforms = ""
            note = f"BLOCKED: its description looks like an attack ({', '.join(verdict.classes)})"
        # Directory names are somebody's text as well, and reach the prompt with the list.
        named = place.full_name.isprintable() and self._scan(place.full_name).level == "clean"
        return Entry(
            name=place.name if named else WITHHELD,
            full_name=place.full_name if named else WITHHELD,
            category=(place.category or UNCATEGORISED) if named else WITHHELD,
            description=description,
            platforms=platforms,
            note=note,
        )


_NO_STAMP = (-1, -1, -1, -1)


def _stamp(path: str) -> Stamp:
    try:
        status = os.stat(path)
    except OSError:
        return _NO_STAMP
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


def _order(entry: Entry) -> tuple[str, str]:
    return entry.category, entry.name


def _with_duplicates_named(entries: list[Entry]) -> list[Entry]:
    times: dict[str, int] = {}
    for entry in entries:
        times[entry.name] = times.get(entry.name, 0) + 1
    if len(times) == len(entries):
        return entries
    twice = "the name is used more than once; open it as {}"
    return [entry.with_note(twice.format(entry.full_name)) if times[entry.name] > 1 else entry for entry in entries]


def _with_platforms_named(entries: list[Entry]) -> list[Entry]:
    return [
        entry if entry.is_for_this_machine else entry.with_note(f"for {entry.platforms}, and this is {THIS_PLATFORM}")
        for entry in entries
    ]


def _line(entry: Entry) -> str:
    description = entry.description
    if len(description) > LONGEST_LINE:
        description = description[: LONGEST_LINE - 1].rstrip() + "…"
    note = f" [{entry.note}]" if entry.note else ""
    separator = ": " if description else ":" if note else ""
    return f"    - {entry.name}{separator}{description}{note}"
