"""`hermes export`, `hermes import` and `hermes backup`: copy a home, as plain text or byte for byte, and restore it.

In an export, files are under `home/` unchanged. Conversations are JSON lines in place of the database that holds them.
A backup is one archive of a home in use, checked after it is written.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import stat
import tempfile
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import apsw

from hermes.base.errors import DamagedFile, HermesError, LockTimeout, NotFound, StorageError
from hermes.base.text import change_texts
from hermes.compaction.messages import renumbered
from hermes.conversations.context import ORDER
from hermes.conversations.database import SessionDB
from hermes.conversations.receipts import KEY_FILE, ReceiptKeys, keys_in, vouched, vouched_prompt
from hermes.memory.entries import decode, from_record, in_effect, parse, provenance
from hermes.memory.file import FILES, FOLDER, PROJECTS
from hermes.memory.store import TARGETS
from hermes.portability.archive import (
    ENCRYPTED,
    ArchiveReader,
    ArchiveWriter,
    Contents,
    is_encrypted,
    open_regular,
    remove_tree,
)
from hermes.portability.conversations_export import packaged_text
from hermes.portability.conversations_import import Importer, Places
from hermes.portability.exchange import HomeCopy, NewHome, disable, is_empty
from hermes.portability.plan import MIGRATED, SKIPPED, Item, Planner, content_of, new_report, open_for_import
from hermes.providers.discovery import in_passing, open_provider
from hermes.safety.secrets import mask_secrets
from hermes.session.external import chosen_providers
from hermes.settings.config import SECRETS, load_settings
from hermes.settings.home import DATABASE, PEOPLE, PROFILES
from hermes.storage.documents import LocalDocuments, history_name, records_in
from hermes.storage.files import MIGRATION_FOLDER, Folder, explained, is_running
from hermes.storage.images import IMAGES, is_stored_name
from hermes.storage.local.database import foreign_program, open_to_read
from hermes.storage.local.dump import Dump, Load
from hermes.storage.locks import FileLock
from hermes.storage.records import BLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hermes.compaction.messages import NewIds
    from hermes.portability.archive import Entry, Key, Lock
    from hermes.portability.plan import Options, Report
    from hermes.settings.home import Home


FORMAT = "hermes-export"
VERSION = 1
HOME = "home"
CONVERSATIONS = "conversations.jsonl"
# Caches, logs and downloads, of Hermes and of hermes-agent, whose home this may have been.
_FOLDERS_LEFT_OUT = frozenset(
    ("cache", "logs", "backups", "state-snapshots", "image_cache", "audio_cache", "models", "weights", "__pycache__")
)
_FILES_LEFT_OUT = frozenset((".skills_prompt_snapshot.json",))
_ENDINGS_LEFT_OUT = (
    *(".lock", ".lock.queue", "-wal", "-shm", "-journal", ".pid", ".sock", ".tmp", ".pyc"),
    *(".gguf", ".safetensors", ".onnx"),
)
_ORIGINALS = (".damaged-", ".hermes-agent-", ".malformed-backup-")  # kept by repairs and conversions; not in exports
_UNFINISHED = (MIGRATION_FOLDER, f"{DATABASE}.importing-")  # left by a killed migration or import
_SQLITE = b"SQLite format 3\x00"
_PIECE = 1 << 20
_LARGEST_IN_MEMORY = 256 << 20
_LARGEST_TEXT = 4 << 20
_LOCK_TIMEOUT = 10
_MEMORY = frozenset(FILES.values())


def provider_paths(home: Home) -> tuple[list[str], str]:
    """What the chosen providers keep outside the home, and the reasons why a provider could not tell."""
    problems: list[str] = []
    found: list[str] = []
    settings = load_settings(home)
    for name in chosen_providers(settings):
        try:
            with in_passing(open_provider(home, settings, name)) as provider:
                ask = getattr(provider, "backup_paths", None)
                found += [str(path) for path in (ask() if ask is not None else ())]
        except HermesError as error:
            problems.append(str(error))
        except Exception as error:  # noqa: BLE001 - other people's code
            problems.append(f"the provider {name} failed to list what it keeps outside the home: {error}")
    return found, "; ".join(problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeFile:
    """One file of a home: its path in it and its kind (file, sqlite, database for state.db, secret)."""

    path: str
    kind: str
    executable: bool
    data: bytes | None = None  # read under a lock


class HomeFiles:
    """The files of a home that are worth keeping, each read in one consistent state while the home is in use.

    Memory files are read under their locks together with their history, each database as of one moment. Locks, caches,
    logs, model weights and leftovers of killed programs are left out. Links are never followed, but reported.
    """

    def __init__(self, root: str, *, originals: bool = True, scratch: str | None = None) -> None:
        """`scratch` is a folder for copies of databases; the system's temporary folder may be on a full disk."""
        self.root = root
        self._scratch = scratch
        self.left_out: list[str] = []
        self._originals = originals

    def __iter__(self) -> Iterator[HomeFile]:
        """Every file, sorted by name, so that the same home always gives the same list."""
        yield from self._below("")

    def _below(self, folder: str) -> Iterator[HomeFile]:
        place = os.path.join(self.root, folder)
        with explained("list", place):
            # Images come last, so that every image named by the database, which is read first, is there.
            names = sorted(os.listdir(place), key=lambda name: (name == IMAGES, name))
        held = self._held(place, names) if _MEMORY & set(names) else {}
        for name in names:
            path = f"{folder}/{name}" if folder else name
            with explained("read", os.path.join(place, name)):
                try:
                    status = os.lstat(os.path.join(place, name))
                except FileNotFoundError:
                    continue  # removed a moment ago
            if self._is_left_out(name, folder, status.st_mode):
                continue
            if stat.S_ISDIR(status.st_mode):
                yield from self._below(path)
            elif stat.S_ISREG(status.st_mode):
                kind = _kind(os.path.join(place, name), name)
                executable = bool(status.st_mode & stat.S_IXUSR)
                yield HomeFile(path=path, kind=kind, executable=executable, data=held.get(name))
            else:
                self.left_out.append(path)

    def _is_left_out(self, name: str, folder: str, mode: int) -> bool:
        if stat.S_ISDIR(mode):
            own = _is_home(folder) or name == "__pycache__"  # a skill may have a folder `cache` of its own
            return (name in _FOLDERS_LEFT_OUT and own) or self._unwanted(name)
        if name.startswith(".") and any(name.startswith(f".{memory}.") for memory in _MEMORY):
            return True  # replaced versions, which are in the history too
        return name in _FILES_LEFT_OUT or name.endswith(_ENDINGS_LEFT_OUT) or self._unwanted(name)

    def _unwanted(self, name: str) -> bool:
        original = not self._originals and any(mark in name for mark in _ORIGINALS)
        return original or name.startswith(_UNFINISHED) or ".part-" in name

    def _held(self, place: str, names: list[str]) -> dict[str, bytes]:
        """The memory files of a folder with their histories, read while nobody can write."""
        folder = Folder.open(place)
        if folder is None:
            return {}
        with folder, contextlib.ExitStack() as locks:
            for name in sorted(_MEMORY & set(names)):
                try:
                    locks.enter_context(FileLock(folder, f"{name}.lock", timeout=_LOCK_TIMEOUT))
                except LockTimeout:
                    raise
                except StorageError:
                    continue  # where no lock can be made, nobody can write a memory file either
            wanted = [name for name in names if any(name.startswith(memory) for memory in _MEMORY)]
            found = {}
            for name in wanted:
                status = folder.status(name)
                if status is not None and stat.S_ISREG(status.st_mode) and not name.endswith(".lock"):
                    found[name] = folder.read(name, at_most=_LARGEST_IN_MEMORY) or b""
            return found

    def pieces(self, file: HomeFile) -> Iterator[bytes]:
        """The bytes of a file; a database as of one moment."""
        if file.data is not None:
            yield file.data
            return
        path = os.path.join(self.root, file.path)
        with contextlib.ExitStack() as held:
            if file.kind in ("sqlite", "database"):
                place = held.enter_context(tempfile.TemporaryDirectory(prefix="hermes-copy-", dir=self._scratch))
                path = snapshot(path, os.path.join(place, "copy.db"))
            with explained("read", path), open_regular(path) as opened:
                while piece := opened.read(_PIECE):
                    yield piece

    def add_to(self, archive: Contents, prefix: str = f"{HOME}/", only: str = "") -> None:
        """Adds every file, or `only` this one, under `prefix`."""
        for file in self:
            if only in ("", file.path):
                name = f"{prefix}{file.path}"
                archive.add(name, self.pieces(file), kind=file.kind, executable=file.executable)


def _is_home(folder: str) -> bool:
    """Whether this folder is the home itself, or the home of a profile or person in it."""
    parts = folder.split("/") if folder else []
    return len(parts) % 2 == 0 and all(part in (PROFILES, PEOPLE) for part in parts[::2])


def snapshot(path: str, copy: str) -> str:
    """Copies a SQLite file and its log as of one moment; the same content gives the same bytes."""
    try:
        with (
            contextlib.closing(_source(path)) as source,
            contextlib.closing(apsw.Connection(copy)) as target,
            target.backup("main", source, "main") as backup,
        ):
            while not backup.done:
                backup.step(4096)  # pages
    except apsw.Error as error:
        raise StorageError(
            f"{path} cannot be copied: {error}; if it is a state.db, run `hermes sessions repair`"
        ) from error
    return copy


def _source(path: str) -> apsw.Connection:
    """Opens a database for copying; where nothing can be written, it is read without locks."""
    # Read-write although only read: SQLite needs to write to the log's index, and to recover after a crash.
    source = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        source.set_busy_timeout(_LOCK_TIMEOUT * 1000)
        source.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    except apsw.Error:
        source.close()
        found = open_to_read(path, _LOCK_TIMEOUT)  # for places where nothing can be written
        if found is None:
            raise
        return found
    return source


def _kind(path: str, name: str) -> str:
    if name == SECRETS:
        return "secret"
    with explained("read", path), open(path, "rb") as file:
        is_sqlite = file.read(len(_SQLITE)) == _SQLITE
    return ("database" if name == DATABASE else "sqlite") if is_sqlite else "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What to export: everything unless something is set. Times are seconds since 1970."""

    person: str = ""
    project: str = ""
    since: float | None = None
    until: float | None = None
    secrets: bool = False

    def wants_session(self, record: dict[str, Any]) -> bool:
        """Whether a session of a dump is exported: used at or after `since`, and begun before `until`."""
        used = record["row"].get("last_active") or record.get("started_at") or 0.0
        return (
            (not self.project or record.get("project") == self.project)
            and (self.since is None or used >= self.since)
            and (self.until is None or record.get("started_at", 0.0) < self.until)
        )

    def wants_file(self, path: str) -> bool:
        """Whether a file is exported; memory has no date, so times do not matter."""
        if self.person and not path.startswith(f"{PEOPLE}/{self.person}/"):
            return False
        if os.path.basename(path) == KEY_FILE:
            return True  # needed with the conversations
        if self.project:
            below = path.split(f"{PEOPLE}/{self.person}/", 1)[-1] if self.person else path
            return below.startswith(f"{PROJECTS}/{self.project}/")
        return True

    def as_json(self) -> dict[str, Any]:
        """The limits that were set, for the manifest; empty for a complete export."""
        chosen = {"person": self.person, "project": self.project, "since": self.since, "until": self.until}
        return {name: value for name, value in chosen.items() if value not in ("", None)}


@dataclass(slots=True, kw_only=True)
class Exported:
    """What an export wrote."""

    out: str
    files: int = 0
    sessions: int = 0
    messages: int = 0  # as `hermes sessions stats` counts them
    taken_back: int = 0  # undone messages: exported, but no search or list shows them
    damaged: int = 0
    left_out: list[str] | None = None


def export_home(
    home: str,
    out: str,
    selection: Selection,
    progress: Callable[[int], None] | None = None,
    *,
    lock: Lock | None = None,
) -> Exported:
    """Writes and checks the archive: a zip file (.zip), or an encrypted one with a `lock` (.zip.age)."""
    if not os.path.isdir(home):
        raise NotFound(f"there is no home at {home}; nothing to export")
    if os.path.abspath(out).startswith(os.path.join(os.path.abspath(home), "")):
        raise StorageError(f"{out} is inside the home that is exported; write the export elsewhere")
    if selection.person and not os.path.isdir(os.path.join(home, PEOPLE, selection.person)):
        raise NotFound(f"there is no person {selection.person!r} here; `hermes users list` shows everybody")
    about: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    if chosen := selection.as_json():
        about["selection"] = chosen
    work = _Export(home, selection, Exported(out=os.path.abspath(out)), progress)
    with ArchiveWriter(out, about, lock) as archive:
        work.write(archive)
    return work.done


class _Export:
    def __init__(self, home: str, selection: Selection, done: Exported, progress: Callable[[int], None] | None) -> None:
        self._files = HomeFiles(home, originals=False)
        self._selection = selection
        self._progress = progress
        self._images: set[str] = set()  # images that messages written so far refer to; images come last in a home
        self.done = done

    def write(self, archive: Contents) -> None:
        archive.add("README.md", [packaged_text("export.md").encode()], kind="about")
        for file in self._files:
            self._add(archive, file)
        left_out = sorted(self._files.left_out)
        if left_out:
            archive.about["left_out"] = left_out
        self.done.files, self.done.left_out = len(archive.entries), left_out

    def _add(self, archive: Contents, file: HomeFile) -> None:
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
            pieces = self._files.pieces(file)
            is_key = os.path.basename(file.path) == KEY_FILE  # grants no access; receipts cannot be verified without it
            if file.kind == "file" and not self._selection.secrets and not is_key:
                pieces = _masked(pieces)
            archive.add(f"{HOME}/{file.path}", pieces, executable=file.executable)

    def _add_conversations(self, archive: Contents, path: str) -> None:
        folder = path.removesuffix(DATABASE)
        chosen = self._selection
        if chosen.person and not folder.startswith(f"{PEOPLE}/{chosen.person}/"):
            return
        database = os.path.join(self._files.root, path)
        if (program := foreign_program(database)) is not None:
            raise StorageError(f"{database} was written by {program}; run `hermes import hermes-agent` first")
        some = bool(chosen.project or chosen.since is not None or chosen.until is not None)
        dump = Dump(database, chosen.wants_session if some else None)
        archive.add(f"{HOME}/{folder}{CONVERSATIONS}", self._lines(dump, folder), kind="conversations")
        self.done.sessions += dump.sessions
        self.done.messages += dump.messages
        self.done.taken_back += dump.taken_back
        self.done.damaged += dump.damaged

    def _is_image(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        home = os.path.join(self._files.root, folder.removesuffix(IMAGES))
        return is_stored_name(name) and folder.endswith(IMAGES) and os.path.exists(os.path.join(home, DATABASE))

    def _lines(self, dump: Dump, folder: str) -> Iterator[bytes]:
        keys = ReceiptKeys(LocalDocuments(os.path.join(self._files.root, folder)))
        for number, record in enumerate(dump.records()):
            for image in record["message"].get(IMAGES) or () if record["type"] == "message" else ():
                self._images.add(f"{folder}{IMAGES}/{image.get('file') if isinstance(image, dict) else ''}")
            yield as_line(record if self._selection.secrets else _without_secrets(record, keys))
            if self._progress is not None and number % 1000 == 0:
                self._progress(self.done.messages + number)


def _masked(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """A text with its secrets masked; binary data and texts too large to be written by a person stay unchanged."""
    whole = b""
    for piece in pieces:
        whole += piece
        if len(whole) > _LARGEST_TEXT:
            yield whole
            yield from pieces
            return
    with contextlib.suppress(UnicodeDecodeError):
        whole = mask_secrets(whole.decode()).encode()
    yield whole


def _without_secrets(record: dict[str, Any], keys: ReceiptKeys) -> dict[str, Any]:
    """A record of a dump with its secrets masked, except in the file names of images.

    Receipts refer to texts by digest, so the home signs each text that it masks.
    """
    texts = {name: record[name] for name in ("title", "details", "row", "message", "values") if name in record}
    images = record.get("message", {}).get(IMAGES)
    masked = change_texts(texts, mask_secrets)
    if images is not None:
        masked["message"][IMAGES] = images
    if "message" in masked:
        masked["message"] = vouched(texts["message"], masked["message"], keys)
    if "details" in masked:
        masked["details"] = vouched_prompt(texts["details"], masked["details"], keys)
    return {**record, **masked}


def as_line(record: dict[str, Any]) -> bytes:
    """One line of JSON; characters that UTF-8 cannot encode are escaped."""
    try:
        return (json.dumps(record, ensure_ascii=False) + "\n").encode()
    except UnicodeEncodeError:
        return (json.dumps(record) + "\n").encode()


LONGEST_LINE = 256 << 20  # bytes; a message with its images is one line


@dataclass(slots=True, kw_only=True)
class Restored:
    """What an import or a restore put into the home.

    `kept` is the path of the previous home. `disabled` lists what stays off until the person enables it, `beside` what
    the person must copy to a place outside the home. `changed` is False if the home already held exactly this.
    """

    files: int = 0
    sessions: int = 0
    messages: int = 0
    taken_back: int = 0
    left_out: int = 0
    kept: str | None = None
    changed: bool = True
    beside: list[str] = field(default_factory=list)
    disabled: list[str] = field(default_factory=list)


def _rebuild(
    reader: ArchiveReader, home: str, progress: Callable[[int], None] | None = None, *, enable: bool
) -> Restored:
    """Builds a new home next to the old one, then puts it in place in one step.

    Settings and plug-ins that can run or connect are disabled, unless the current home has the same ones or the person
    agreed (`enable`).
    """
    with NewHome(home) as new:
        done = _unpack(reader, new.path, progress)
        done.disabled = [] if enable else disable(new.path, home)
        done.kept = new.put_in_place()
    return done


def check_format(reader: ArchiveReader) -> None:
    """Refuses an archive that is not an export that this version of Hermes can read."""
    hint = f"a {reader.about.get('format')!r} archive, not an export; see `hermes backup`"
    reader.check_format(FORMAT, VERSION, hint)


def import_home(
    archive: str,
    home: str,
    *,
    replace: bool = False,
    enable: bool = False,
    progress: Callable[[int], None] | None = None,
    key: Key | None = None,
) -> Restored:
    """Recreates the exported home, with every byte checked; see `_rebuild`."""
    with ArchiveReader.open(archive, key) as reader:
        check_format(reader)
        if not is_empty(home):
            if _is_same(reader, home):
                return Restored(changed=False)
            if not replace:
                raise StorageError(
                    f"{home} is not empty; choose another home with --home, add to it with --merge, or put the archive "
                    "in its place with --replace (the old home is kept beside it)"
                )
        return _rebuild(reader, home, progress, enable=enable)


def _is_same(reader: ArchiveReader, home: str) -> bool:
    """Whether an export or a backup of the home would give this archive."""
    now = Contents({})
    try:
        if reader.about["format"] == _BACKUP:
            HomeFiles(home).add_to(now)
        else:
            secrets = any(path.endswith("/.env") for path in reader.entries)
            _Export(home, Selection(secrets=secrets), Exported(out=""), None).write(now)
    except StorageError:
        return False
    return _of_home(now) == _of_home(reader) and not reader.about.get("selection")


def _of_home(archive: Contents | ArchiveReader) -> dict[str, Entry]:
    """The files without what providers kept elsewhere, which a restore puts into `restored/`."""
    restored = f"{HOME}/{_RESTORED}/"
    return {
        path: entry
        for path, entry in archive.entries.items()
        if path.startswith(f"{HOME}/") and not path.startswith(restored)
    }


def _unpack(reader: ArchiveReader, target: str, progress: Callable[[int], None] | None) -> Restored:
    """Unpacks the home; anything else in a backup goes to `restored/`."""
    done = Restored()
    for path, entry in sorted(reader.entries.items()):
        inside = path.removeprefix(f"{HOME}/")
        if inside == path and reader.about["format"] == _BACKUP:
            inside = f"{_RESTORED}/{path}"
        if inside == path:
            for _ in reader.read(path):
                pass  # read only to verify it: if any file is damaged, the whole archive is refused
            continue
        if entry.kind == "conversations":
            database = os.path.join(target, inside.removesuffix(CONVERSATIONS) + DATABASE)
            os.makedirs(os.path.dirname(database), mode=0o700, exist_ok=True)
            load = Load(database)
            load.take(_with_progress(records(reader, path), progress))
            for name in ("sessions", "messages", "taken_back", "left_out"):
                setattr(done, name, getattr(done, name) + getattr(load, name))
        else:
            reader.unpack(path, target, inside)
        done.files += 1
    return done


def records(reader: ArchiveReader, path: str) -> Iterator[dict[str, Any]]:
    """The JSON objects of the lines of a file in the archive."""
    rest = b""
    for piece in itertools.chain(reader.read(path), [b"\n"]):  # the last line may have no end
        *whole, rest = (rest + piece).split(b"\n")
        if len(rest) > LONGEST_LINE:
            raise DamagedFile(f"{path} holds a line over {LONGEST_LINE >> 20} MiB; Hermes did not write it")
        for line in filter(None, whole):
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DamagedFile(f"{path} holds a line that is not JSON ({str(error)[:100]})") from error
            if not isinstance(record, dict):
                raise DamagedFile(f"{path} holds a line that is not a JSON object")
            yield record


def _with_progress(found: Iterator[dict[str, Any]], progress: Callable[[int], None] | None) -> Iterator[dict[str, Any]]:
    for number, record in enumerate(found):
        yield record
        if progress is not None and number % 1000 == 0:
            progress(number)


_BACKUP = "hermes-backup"
_BACKUP_VERSION = 1
BACKUPS = "backups"
ELSEWHERE = "providers"  # what providers keep outside the home
_RESTORED = "restored"
_SUFFIX = ".zip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """One backup of a home; `problem` says why it cannot be read."""

    path: str
    made_at: float
    bytes: int
    files: int
    why: str = ""
    left_out: tuple[str, ...] = ()
    provider_paths: tuple[str, ...] = ()
    problem: str = ""


def create_backup(
    home: str, out: str | None = None, *, why: str = "", elsewhere: Iterable[str] = (), lock: Lock | None = None
) -> Backup:
    """Backs up the home, and what its providers keep elsewhere, while others keep working.

    With a `lock` the backup is encrypted, and its name ends with .zip.age.
    """
    if not os.path.isdir(home):
        raise NotFound(f"there is no home at {home}; nothing to back up")
    path = out or new_backup(home, lock)
    if out is None:
        _remove_halves(os.path.dirname(path))
    about: dict[str, Any] = {"format": _BACKUP, "version": _BACKUP_VERSION, "made_at": time.time(), "why": why}
    # If the backup is encrypted, no plain copy may be written next to it.
    files = HomeFiles(home, scratch=os.path.dirname(os.path.abspath(path)) if out and lock is None else None)
    with ArchiveWriter(path, about, lock) as archive:
        files.add_to(archive)
        archive.about["provider_paths"] = _add_elsewhere(archive, files, elsewhere)
        archive.about["left_out"] = sorted(files.left_out)
    return _described(path, about, len(archive.entries))


def _remove_halves(folder: str) -> None:
    """Removes unfinished backups of killed processes."""
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        process = name.partition(f"{_SUFFIX}.part-")[2].partition("-")[0]
        if process.isdecimal() and not is_running(int(process)):
            remove_tree(os.path.join(folder, name))


def new_backup(home: str, lock: Lock | None) -> str:
    """Path for the next backup of a home."""
    return os.path.join(home, BACKUPS, new_name() + (ENCRYPTED if lock else ""))


def new_name() -> str:
    """File name of a backup made now; random characters keep two of one second apart."""
    return f"hermes-{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}{_SUFFIX}"


def _add_elsewhere(archive: ArchiveWriter, files: HomeFiles, elsewhere: Iterable[str]) -> list[str]:
    """Adds each folder or file under a number; the manifest says where it came from."""
    found: list[str] = []
    for each in elsewhere:
        real = os.path.realpath(os.path.expanduser(each))
        if real.startswith(os.path.join(os.path.realpath(files.root), "")) or not os.path.exists(real):
            continue
        number, folder = len(found), os.path.isdir(real)
        root = real if folder else os.path.dirname(real)
        below = HomeFiles(root)
        below.add_to(archive, f"{ELSEWHERE}/{number}/", "" if folder else os.path.basename(real))
        files.left_out += [f"{real}/{path}" for path in below.left_out if folder]
        found.append(real)
    return found


def list_backups(home: str) -> list[Backup]:
    """The backups in the home's folder, newest first; those that cannot be read are listed with the reason."""
    folder = os.path.join(home, BACKUPS)
    found = []
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        if not name.removesuffix(ENCRYPTED).endswith(_SUFFIX):
            continue
        path = os.path.join(folder, name)
        status, closed = os.stat(path), is_encrypted(path)  # nothing else is known without its key
        why = "encrypted" if closed else ""
        backup = Backup(path=path, made_at=status.st_mtime, bytes=status.st_size, files=0, why=why)
        if not closed:
            try:
                with ArchiveReader.open(path) as reader:
                    backup = _described(path, _checked(reader), len(reader.entries))
            except HermesError as error:
                backup = replace(backup, problem=str(error))
        found.append(backup)
    return sorted(found, key=lambda backup: backup.made_at, reverse=True)


def prune_backups(home: str, keep: int) -> list[str]:
    """Removes the oldest backups in the home; keeps those that cannot be read, for a person to look at."""
    old = [backup.path for backup in list_backups(home) if not backup.problem][keep:]
    for path in old:
        os.unlink(path)
    return old


def _described(path: str, about: dict[str, Any], files: int) -> Backup:
    made = about.get("made_at")
    return Backup(
        path=path,
        made_at=float(made) if isinstance(made, int | float) else 0.0,
        bytes=os.stat(path).st_size,
        files=files,
        why=str(about.get("why") or ""),
        left_out=tuple(map(str, about.get("left_out") or ())),
        provider_paths=tuple(map(str, about.get("provider_paths") or ())),
    )


def verify_backup(path: str, key: Key | None = None) -> int:
    """Reads every file of a backup and returns their number; raises DamagedFile if one differs from the manifest."""
    with ArchiveReader.open(path, key) as reader:
        _checked(reader)
        return reader.verify()


def restore_backup(path: str, home: str, *, enable: bool = False, key: Key | None = None) -> Restored:
    """Recreates the home as it was; see `_rebuild`. Nothing outside the home is written."""
    with ArchiveReader.open(os.path.abspath(path), key) as reader:
        about = _checked(reader)
        if not is_empty(home) and _is_same(reader, home):
            return Restored(changed=False)
        done = _rebuild(reader, home, enable=enable)
    for number, original in enumerate(about.get("provider_paths") or ()):
        place = os.path.join(home, _RESTORED, ELSEWHERE, str(number))
        if os.path.isdir(place):
            done.beside.append(f"{place} holds what was at {original}; copy it there yourself")
    return done


def _checked(reader: ArchiveReader) -> dict[str, Any]:
    reader.check_format(_BACKUP, _BACKUP_VERSION, "not a backup; import an export with `hermes import`")
    return reader.about


MERGED = "export"
_LARGEST_MERGED = 64 << 20  # bytes; such a file is held in memory
_OWN = "local"  # the owner of the person's own conversations; those of a gateway's other people are not merged
_TAKEN = ("skills/", "SOUL.md", "pending/")


class MergeExport:
    """Plans to add memory, conversations and skills of the archive; its people and profiles are not added."""

    def __init__(self, home: Home, reader: ArchiveReader, options: Options) -> None:
        self._home = home
        self._reader = reader
        self._options = options

    def plan(self) -> Report:
        """Lists what would be added; reads the whole archive first, so that a damaged one changes nothing."""
        check_format(self._reader)
        self._reader.verify()
        report = new_report(self._home, MERGED, os.path.abspath(self._reader.path), self._options)
        planner = Planner(self._home, report, load_settings(self._home))
        for target in TARGETS:
            path = f"{HOME}/{FOLDER}/{FILES[target]}"
            if path in self._reader.entries:
                found = parse(decode(self._read(path)).text)
                report.items.append(planner.memory(target, target, path, found, origins=self._origins(path, found)))
        for path, entry in self._reader.entries.items():
            inside = path.removeprefix(f"{HOME}/")
            if inside != path and inside.startswith(_TAKEN) and entry.bytes <= _LARGEST_MERGED:
                report.items.append(self._file(path, inside, entry))
        conversations = f"{HOME}/{CONVERSATIONS}"
        if conversations in self._reader.entries:
            report.items.append(self._conversations(conversations))
        return report

    def _origins(self, path: str, entries: Sequence[str]) -> dict[str, str]:
        """The origins of entries, from the history next to the file if there is one."""
        history = history_name(path)
        if history not in self._reader.entries:
            return {}
        try:
            changes = [from_record(record) for record in records_in(self._read(history))[0]]
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedFile(f"{history} in the archive is not a history of memory ({error!r})") from error
        return {entry: known.origin for entry, known in provenance(entries, in_effect(changes, None)).items()}

    def _file(self, path: str, inside: str, entry: Entry) -> Item:
        item = Item(kind="file", source=path, destination=self._home.join(*inside.split("/")), status=MIGRATED)
        if os.path.lexists(item.destination):
            same = content_of(item.destination) == self._read(path)
            item.status = SKIPPED if same or not self._options.overwrite else MIGRATED
            item.reason = "it is there already" if same else "another file is there; --overwrite replaces it"
        if item.status == MIGRATED:
            mode = 0o700 if entry.executable else 0o600
            item.act = lambda copy: copy.write(self._read(path), inside, mode=mode)
        return item

    def _conversations(self, path: str) -> Item:
        target = self._home.join(DATABASE)
        item = Item(kind="sessions", source=path, destination=target, last=True)
        note = f"imported:export:{self._reader.entries[path].sha256}"
        if os.path.exists(target):
            with SessionDB.open(target) as there:
                if there.get_meta(note) is not None:
                    item.reason = "every conversation is there already"
                    return item

        def act(copy: HomeCopy) -> None:
            keys = ReceiptKeys(LocalDocuments(copy.path))
            if f"{HOME}/{KEY_FILE}" in self._reader.entries:
                try:
                    keys.accept(keys_in(self._read(f"{HOME}/{KEY_FILE}")))
                except ValueError as error:
                    raise DamagedFile(
                        f"{KEY_FILE} in the archive cannot be read ({error}); use another copy"
                    ) from error

            def moved(message: Mapping[str, Any], new_ids: NewIds) -> dict[str, Any]:
                return vouched(message, renumbered(message, new_ids), keys)

            with open_for_import(target, copy) as db:
                result = Importer(db, source=MERGED, renumbered=moved).take(enumerate(self._lines(path), 1))
                db.set_meta(note, "1")
            item.details |= {"sessions": result.sessions, "messages": result.messages, "known": result.already_there}
            item.details["differing"] = result.bad

        item.status, item.act = MIGRATED, act
        return item

    def _lines(self, path: str) -> Iterator[bytes]:
        """The lines as `hermes sessions import` reads them: the person's own, without undone messages.

        A stored context refers to places in its session, which change when messages are left out. An id is BLOCK times
        the number of a block plus the position in it. Blocks of other sessions lie in between, so those of this session
        are counted.
        """
        own = False
        for record in records(self._reader, path):
            if record["type"] == "session":
                own, places, blocks, last = record.get("owner") == _OWN, Places(), -1, -1
                if own:
                    yield as_line(record)
            elif own and record["type"] == "message":
                block, number = divmod(int(record["id"]), BLOCK)
                blocks, last = blocks + (block != last), block
                if record.get("rewound"):
                    continue
                places.take(blocks * BLOCK + number)
                message: dict[str, Any] = {"timestamp": record["at"], **record["message"]}
                if isinstance(message.get(IMAGES), list):
                    message[IMAGES] = [self._image(each) for each in message[IMAGES]]
                if ORDER in message:
                    message[ORDER] = places.order(message[ORDER])
                yield as_line({**record, "message": message})

    def _image(self, entry: Any) -> Any:
        """An image of a message with its bytes, which are a separate file in the archive."""
        path = f"{HOME}/{IMAGES}/{entry.get('file')}" if isinstance(entry, dict) else ""
        if path not in self._reader.entries or self._reader.entries[path].bytes > _LARGEST_MERGED:
            return entry
        return {**entry, "data": base64.b64encode(self._read(path)).decode()}

    def _read(self, path: str) -> bytes:
        return b"".join(self._reader.read(path))


_KEPT_BACKUPS = 5  # one is made before every migration; older ones are removed


def carry_out(home: Home, report: Report) -> Report:
    """Applies every item to a copy of the home, which then takes its place.

    Settings and plug-ins that can run or connect are disabled, unless the person agreed (`enable`).
    """
    choices = report.choices
    if report.conflicts() and not choices.overwrite:
        names = ", ".join(sorted({item.kind for item in report.conflicts()}))
        raise StorageError(
            f"this home already has other versions of {names}; nothing was changed. --overwrite replaces them; "
            "the preview lists each"
        )
    if not report.has_work():
        return report
    report.mode = "execute"
    with HomeCopy(home.path) as copy:
        if choices.backup and not is_empty(home.path):
            report.options["backup"] = home.join(BACKUPS, new_name())
            create_backup(home.path, copy.inside(report.options["backup"]), why=f"before {report.program} migration")
            prune_backups(copy.path, _KEPT_BACKUPS)
        for item in sorted(report.items, key=lambda item: item.last):
            if item.act is not None:
                item.act(copy)
        report.disabled = [] if choices.enable else disable(copy.path, home.path)
        copy.write((json.dumps(report.as_json(), indent=2) + "\n").encode(), report.output_dir, "report.json")
        copy.write(report.markdown().encode("utf-8", "replace"), report.output_dir, "summary.md")
        copy.swap()
    return report
