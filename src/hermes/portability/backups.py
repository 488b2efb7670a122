"""`hermes backup`: one archive of a live home, byte for byte, checked after it is written; and the way back."""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes.base.errors import HermesError, NotFound, StorageError
from hermes.portability.archive import ENCRYPTED, ArchiveReader, ArchiveWriter, is_encrypted, remove_tree
from hermes.portability.consent import disable
from hermes.portability.exchange import NewHome, is_empty
from hermes.portability.home import HomeFiles
from hermes.storage.files import is_running

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hermes.portability.archive import Key, Lock

FORMAT = "hermes-backup"
VERSION = 1
FOLDER = "backups"
HOME = "home"
ELSEWHERE = "providers"  # what providers keep outside the home
_SUFFIX = ".zip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    path: str
    made_at: float
    bytes: int
    files: int
    why: str = ""
    left_out: tuple[str, ...] = ()
    provider_paths: tuple[str, ...] = ()
    problem: str = ""


@dataclass(slots=True, kw_only=True)
class RestoredBackup:
    files: int = 0
    kept: str | None = None
    changed: bool = True
    beside: list[str] = field(default_factory=list)
    disabled: list[str] = field(default_factory=list)


def create_backup(
    home: str, out: str | None = None, *, why: str = "", elsewhere: Iterable[str] = (), lock: Lock | None = None
) -> Backup:
    """Everything of the home, and what its providers keep elsewhere; made while others go on working.

    With a `lock` it is encrypted, and its name ends with .zip.age.
    """
    if not os.path.isdir(home):
        raise NotFound(f"there is no home at {home}; nothing to back up")
    path = out or new_backup(home, lock)
    if out is None:
        _remove_abandoned(os.path.dirname(path))
    if not path.removesuffix(ENCRYPTED).endswith(_SUFFIX):
        raise StorageError(
            f"{path}: the name of a backup ends with {_SUFFIX}, of an encrypted one with {_SUFFIX}{ENCRYPTED}"
        )
    about: dict[str, Any] = {"format": FORMAT, "version": VERSION, "made_at": time.time(), "why": why}
    # What is to be encrypted is not copied to the place it goes to.
    files = HomeFiles(home, scratch=os.path.dirname(os.path.abspath(path)) if out and lock is None else None)
    with ArchiveWriter(path, about, lock) as archive:
        for file in files:
            archive.add(f"{HOME}/{file.path}", files.pieces(file), kind=file.kind, executable=file.executable)
        archive.about["provider_paths"] = _add_elsewhere(archive, files, elsewhere)
        archive.about["left_out"] = sorted(files.left_out)
    return _described(path, about, len(archive.entries))


def _remove_abandoned(folder: str) -> None:
    """Halves of backups whose writers were killed."""
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        process = name.partition(f"{_SUFFIX}.part-")[2].partition("-")[0]
        if process.isdecimal() and not is_running(int(process)):
            remove_tree(os.path.join(folder, name))


def new_backup(home: str, lock: Lock | None) -> str:
    """Where the next backup of a home goes."""
    return os.path.join(home, FOLDER, new_name() + (ENCRYPTED if lock else ""))


def new_name() -> str:
    return f"hermes-{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}{_SUFFIX}"


def _add_elsewhere(archive: ArchiveWriter, files: HomeFiles, elsewhere: Iterable[str]) -> list[str]:
    """Each folder or file under a number; the manifest says where it came from."""
    found: list[str] = []
    for each in elsewhere:
        real = os.path.realpath(os.path.expanduser(each))
        if real.startswith(os.path.join(os.path.realpath(files.root), "")) or not os.path.exists(real):
            continue
        number, folder = len(found), os.path.isdir(real)
        root = real if folder else os.path.dirname(real)
        below = HomeFiles(root)
        for file in below:
            if folder or file.path == os.path.basename(real):
                name = f"{ELSEWHERE}/{number}/{file.path}"
                archive.add(name, below.pieces(file), kind=file.kind, executable=file.executable)
        files.left_out += [f"{real}/{path}" for path in below.left_out if folder]
        found.append(real)
    return found


def list_backups(home: str) -> list[Backup]:
    """Those of the home's own folder, newest first; one that cannot be read is listed with the reason."""
    folder = os.path.join(home, FOLDER)
    inside = os.listdir(folder) if os.path.isdir(folder) else []
    names = [name for name in inside if name.removesuffix(ENCRYPTED).endswith(_SUFFIX)]
    found = []
    for name in names:
        path = os.path.join(folder, name)
        try:
            found.append(_sealed(path) if is_encrypted(path) else read_backup(path))
        except HermesError as error:
            status = os.stat(path)
            found.append(Backup(path=path, made_at=status.st_mtime, bytes=status.st_size, files=0, problem=str(error)))
    return sorted(found, key=lambda backup: backup.made_at, reverse=True)


def prune_backups(home: str, keep: int) -> list[str]:
    """Removes the oldest of the home's own backups; those that cannot be read stay, for a person to look at."""
    old = [backup.path for backup in list_backups(home) if not backup.problem][keep:]
    for path in old:
        os.unlink(path)
    return old


def read_backup(path: str) -> Backup:
    with ArchiveReader.open(path) as reader:
        return _described(path, _checked(reader), len(reader.entries))


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


def _sealed(path: str) -> Backup:
    """What can be said about an encrypted backup without its key."""
    status = os.stat(path)
    return Backup(path=path, made_at=status.st_mtime, bytes=status.st_size, files=0, why="encrypted")


def verify_backup(path: str, key: Key | None = None) -> int:
    with ArchiveReader.open(path, key) as reader:
        _checked(reader)
        return reader.verify()


def restore_backup(path: str, home: str, *, enable: bool = False, key: Key | None = None) -> RestoredBackup:
    """The home as it was, in one step; what stood there is kept beside it. Nothing outside the home is written.

    What it brings that could act is disabled, unless the home in use has it too or the person agrees (`enable`).
    """
    path = os.path.abspath(path)
    with ArchiveReader.open(path, key) as reader:
        about = _checked(reader)
        if not is_empty(home) and _is_same(reader, home):
            return RestoredBackup(changed=False)
        done = RestoredBackup()
        with NewHome(home) as new:
            for name in sorted(reader.entries):
                inside = name.removeprefix(f"{HOME}/") if name.startswith(f"{HOME}/") else f"restored/{name}"
                reader.unpack(name, new.path, inside)
                done.files += 1
            done.disabled = [] if enable else disable(new.path, home)
            done.kept = new.put_in_place()
        for number, original in enumerate(about.get("provider_paths") or ()):
            place = os.path.join(home, "restored", ELSEWHERE, str(number))
            if os.path.isdir(place):
                done.beside.append(f"{place} holds what was at {original}; copy it there yourself")
    return done


def _is_same(reader: ArchiveReader, home: str) -> bool:
    files = HomeFiles(home)
    wanted = {name.removeprefix(f"{HOME}/"): e for name, e in reader.entries.items() if name.startswith(f"{HOME}/")}
    for file in files:
        if file.path.startswith("restored/"):
            continue
        entry = wanted.pop(file.path, None)
        if entry is None:
            return False
        digest = hashlib.sha256()
        for piece in files.pieces(file):
            digest.update(piece)
        if digest.hexdigest() != entry.sha256:
            return False
    return not wanted


def _checked(reader: ArchiveReader) -> dict[str, Any]:
    reader.check_format(FORMAT, VERSION, "not a backup; import an export with `hermes import`")
    return reader.about
