"""`hermes export`: a home as plain text that a person can read and `hermes import` makes the same home of again.

Files stand under `home/` as they are. Conversations, which live in a database, are written as JSON lines beside where
the database stands, and once more as Markdown under `reading/`, one file per conversation, for people.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hermes.curated.places import PROJECTS
from hermes.migration.archive_file import ArchiveWriter
from hermes.migration.home_files import HomeFiles
from hermes.migration.reading_copies import reading_copies
from hermes.settings.home import DATABASE, PEOPLE
from hermes.storage.dump import Dump
from hermes.storage.foreign import foreign_program
from hermes.storage.images import IMAGES, is_stored_name
from hermes.vocabulary.errors import NotFound, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hermes.migration.home_files import HomeFile

FORMAT = "hermes-export"
VERSION = 1
HOME = "home"
CONVERSATIONS = "conversations.jsonl"
_ABOUT = """# An export of Hermes

- `home/` holds everything as it stood: memory as Markdown, skills, settings.
- `home/conversations.jsonl` holds the conversations, one JSON object per line: a session, then its messages.
- `reading/` holds the same conversations as Markdown, for people. An import does not need them.
- `manifest.json` names every file with its size and SHA-256.

`hermes import` of this archive into an empty home makes the same home again.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What to export; all of it when nothing is set. Times are seconds since 1970."""

    person: str = ""
    project: str = ""
    since: float | None = None
    until: float | None = None
    secrets: bool = False
    reading: bool = True

    @property
    def whole(self) -> bool:
        return not (self.person or self.project or self.since is not None or self.until is not None)

    def wants_session(self, record: dict[str, Any]) -> bool:
        used = record["row"].get("last_active") or record.get("started_at") or 0.0
        return (
            (not self.project or record.get("project") == self.project)
            and (self.since is None or used >= self.since)
            and (self.until is None or record.get("started_at", 0.0) < self.until)
        )

    def wants_file(self, path: str) -> bool:
        if self.person and not path.startswith(f"{PEOPLE}/{self.person}/"):
            return False
        if self.project:
            below = path.split(f"{PEOPLE}/{self.person}/", 1)[-1] if self.person else path
            return below.startswith(f"{PROJECTS}/{self.project}/")
        return True

    def as_json(self) -> dict[str, Any]:
        chosen = {"person": self.person, "project": self.project, "since": self.since, "until": self.until}
        return {name: value for name, value in chosen.items() if value not in ("", None)}


@dataclass(slots=True, kw_only=True)
class Exported:
    out: str
    files: int = 0
    sessions: int = 0
    messages: int = 0  # as `hermes sessions stats` counts them
    taken_back: int = 0  # messages that are kept, too, and that no search and no list shows
    damaged: int = 0
    left_out: list[str] | None = None


def export_home(home: str, out: str, selection: Selection, progress: Callable[[int], None] | None = None) -> Exported:
    """Writes the archive (a zip when its name says so, else a folder) and checks it before it gets its name."""
    if not os.path.isdir(home):
        raise NotFound(f"there is no home at {home}; nothing to export")
    if os.path.abspath(out).startswith(os.path.join(os.path.abspath(home), "")):
        raise StorageError(f"{out} is inside the home it would hold; write the export elsewhere")
    if selection.person and not os.path.isdir(os.path.join(home, PEOPLE, selection.person)):
        raise NotFound(f"there is no person {selection.person!r} here; `hermes users list` shows who there is")
    about: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    if not selection.whole:
        about["selection"] = selection.as_json()
    work = _Export(home, selection, Exported(out=os.path.abspath(out)), progress)
    with ArchiveWriter(out, about) as archive:
        work.write(archive)
    return work.done


class _Export:
    def __init__(self, home: str, selection: Selection, done: Exported, progress: Callable[[int], None] | None) -> None:
        self._files = HomeFiles(home, originals=False)
        self._selection = selection
        self._progress = progress
        self._images: set[str] = set()  # files that the messages written so far name; they come last in a home
        self.done = done

    def write(self, archive: ArchiveWriter) -> None:
        archive.add("README.md", [_ABOUT.encode()], kind="about")
        for file in self._files:
            self._add(archive, file)
        left_out = sorted(self._files.left_out)
        if left_out:
            archive.about["left_out"] = left_out
        self.done.files, self.done.left_out = len(archive.entries), left_out

    def _add(self, archive: ArchiveWriter, file: HomeFile) -> None:
        if file.kind == "database":
            self._add_conversations(archive, file.path)
        elif self._is_image(file.path):
            if file.path in self._images:
                archive.add(f"{HOME}/{file.path}", self._files.pieces(file))
        elif not self._selection.wants_file(file.path):
            return
        elif file.kind == "secret" and not self._selection.secrets:
            self._files.left_out.append(file.path)
        else:
            archive.add(f"{HOME}/{file.path}", self._files.pieces(file), executable=file.executable)

    def _add_conversations(self, archive: ArchiveWriter, path: str) -> None:
        folder = path.removesuffix(DATABASE)
        chosen = self._selection
        if chosen.person and not folder.startswith(f"{PEOPLE}/{chosen.person}/"):
            return
        database = os.path.join(self._files.root, path)
        if (program := foreign_program(database)) is not None:
            raise StorageError(f"{database} was written by {program}; `hermes import hermes-agent` adopts it first")
        some = bool(chosen.project or chosen.since is not None or chosen.until is not None)
        dump = Dump(database, chosen.wants_session if some else None)
        archive.add(f"{HOME}/{folder}{CONVERSATIONS}", self._lines(dump, folder), kind="conversations")
        if chosen.reading:
            for name, text in reading_copies(Dump(database, chosen.wants_session if some else None)):
                archive.add(f"reading/{folder}{name}", [text.encode("utf-8", "replace")], kind="reading")
        self.done.sessions += dump.sessions
        self.done.messages += dump.messages
        self.done.taken_back += dump.taken_back
        self.done.damaged += dump.damaged

    def _is_image(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        home = os.path.join(self._files.root, folder.removesuffix(IMAGES))
        return is_stored_name(name) and folder.endswith(IMAGES) and os.path.exists(os.path.join(home, DATABASE))

    def _lines(self, dump: Dump, folder: str) -> Iterator[bytes]:
        for number, record in enumerate(dump.records()):
            for image in record["message"].get(IMAGES) or () if record["type"] == "message" else ():
                self._images.add(f"{folder}{IMAGES}/{image.get('file') if isinstance(image, dict) else ''}")
            yield as_line(record)
            if self._progress is not None and number % 1000 == 0:
                self._progress(self.done.messages + number)


def as_line(record: dict[str, Any]) -> bytes:
    """One line of JSON; what UTF-8 cannot hold is escaped."""
    try:
        return (json.dumps(record, ensure_ascii=False) + "\n").encode()
    except UnicodeEncodeError:
        return (json.dumps(record) + "\n").encode()
