"""Reads and writes our archives, and reads files of other programs without changing them or following links.

An archive is a zip file. Its `manifest.json` lists every file with its size and checksum. An archive may be encrypted
with age, with a passphrase or for recipients; `age -d backup.zip.age > backup.zip` opens it without Hermes.
An encrypted archive is built and opened in memory, so that no plain text is written to disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import stat
import tempfile
import time
import zipfile
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import apsw

from hermes.base.errors import DamagedFile, ExtraMissing, NotFound, SettingsError, StorageError, UnsafePath, command
from hermes.storage.files import MIGRATION_FOLDER as MIGRATING
from hermes.storage.files import PRIVATE_FILE, Folder, explained, make_private_folders
from hermes.storage.local.repair.salvage import open_unchanged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import IO


ENCRYPTED = ".age"
_MAGIC = b"age-encryption.org/"  # the first bytes of every age file that is not ASCII-armored


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """What encrypts an archive: a passphrase, or the public keys (age1…, ssh-…) of its recipients."""

    passphrase: str = ""
    recipients: Sequence[str] = ()

    def seal(self, data: bytes) -> bytes:
        """Encrypts a whole archive; recipients take precedence over the passphrase."""
        age = _library()
        if not self.recipients:
            return bytes(age.passphrase.encrypt(data, self.passphrase))
        return bytes(age.encrypt(data, [_recipient(age, each) for each in self.recipients]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What opens an encrypted archive: a file with secret keys, or a function that asks for the passphrase."""

    passphrase: Callable[[], str]
    identity: str = ""

    def open(self, path: str) -> io.BytesIO:
        """Decrypts the file in memory; raises DamagedFile when the key does not fit or the file was altered."""
        age = _library()
        data = _read(path)
        # age names the method in its header: "scrypt" for a passphrase, another word for each kind of public key.
        with_passphrase = b"\n-> scrypt " in data[:200]
        try:
            if with_passphrase:
                return io.BytesIO(age.passphrase.decrypt(data, self.passphrase()))
            if not self.identity:
                raise SettingsError(
                    f"{path} is encrypted for a recipient; name the file with the secret key with --identity"
                )
            return io.BytesIO(age.decrypt(data, _identities(age, self.identity)))
        except age.DecryptError as error:
            wrong = "the passphrase is wrong" if with_passphrase else f"{self.identity} has no key of a recipient"
            raise DamagedFile(f"{path} cannot be opened: {wrong}, or the file was altered ({error})") from error


def is_encrypted(path: str) -> bool:
    """Recognises a file that age encrypted by its first bytes, whatever its name."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def _library() -> Any:
    try:
        import pyrage
    except ImportError as error:
        raise ExtraMissing(f"encryption needs the package pyrage: {command('encrypt')} installs it") from error
    return pyrage


def _recipient(age: Any, text: str) -> Any:
    try:
        return (age.ssh if text.startswith("ssh-") else age.x25519).Recipient.from_str(text)
    except age.RecipientError as error:
        raise SettingsError(f"{text!r} is not a public key of age (age1…) or SSH (ssh-ed25519 …): {error}") from error


def _identities(age: Any, path: str) -> list[Any]:
    data = _read(path)
    try:
        if b"PRIVATE KEY" in data:
            return [age.ssh.Identity.from_buffer(data)]
        lines = [line.strip() for line in data.decode().splitlines()]
        return [age.x25519.Identity.from_str(line) for line in lines if line and not line.startswith("#")]
    except (age.IdentityError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} holds no secret key of age (AGE-SECRET-KEY-1…) or SSH: {error}") from error


def _read(path: str) -> bytes:
    with explained("read", path), open(path, "rb") as file:
        return file.read()


MANIFEST = "manifest.json"
_DAY_ZERO = (1980, 1, 1, 0, 0, 0)  # the earliest date a zip can hold: the same content gives the same bytes on any day
_PIECE = 1 << 20
# An archive may come from anybody; these limits keep a small hostile one from filling the disk.
_LARGEST_MANIFEST = 256 << 20
_MOST_FILES = 200_000
_LARGEST = 64 << 30  # bytes, of all files together
_EXPANDS = 200  # how many times its own size an archive may hold; text rarely packs better than 20 to 1
_ALWAYS_ALLOWED = 256 << 20  # an empty database packs better than that
_LONGEST_NAME = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One file of an archive as its manifest lists it; `kind` says how an import treats it."""

    path: str
    kind: str
    bytes: int
    sha256: str
    executable: bool = False


class Contents:
    """Computes the manifest that an archive would have, without writing one, to compare a home with an archive."""

    def __init__(self, about: dict[str, Any]) -> None:
        self.about = about
        self.entries: dict[str, Entry] = {}

    def add(self, path: str, pieces: Iterable[bytes], *, kind: str = "file", executable: bool = False) -> None:
        """Adds one file from pieces, so that a large database never has to fit into memory."""
        digest, size = hashlib.sha256(), 0
        with self._opened(path, executable=executable) as file:
            for piece in pieces:
                file.write(piece)
                digest.update(piece)
                size += len(piece)
        self.entries[path] = Entry(path=path, kind=kind, bytes=size, sha256=digest.hexdigest(), executable=executable)

    @contextlib.contextmanager
    def _opened(self, path: str, *, executable: bool) -> Iterator[IO[bytes]]:
        del path, executable
        with open(os.devnull, "wb") as nowhere:
            yield nowhere


class ArchiveWriter(Contents):
    """Writes an archive in a `with` block: at its end the archive is read back, checked and given its final name.

    With a `lock`, it is built in memory and encrypted before anything is written.
    """

    def __init__(self, out: str, about: dict[str, Any], lock: Lock | None = None) -> None:
        super().__init__(about)
        self.out = os.path.abspath(out)
        self._lock = lock
        self._part = f"{self.out}.part-{os.getpid()}-{os.urandom(3).hex()}"
        self._file: IO[bytes] = io.BytesIO()
        self._zip = zipfile.ZipFile(self._file, "w")  # both are opened when the block begins

    def __enter__(self) -> Self:
        if os.path.lexists(self.out):
            raise StorageError(f"{self.out} already exists; choose another name, or remove it first")
        if not self.out.endswith(f".zip{ENCRYPTED}" if self._lock else ".zip"):
            raise StorageError(f"{self.out}: give an encrypted archive a name that ends with .zip.age, others .zip")
        make_private_folders(os.path.dirname(self.out))
        with explained("create", self.out):
            self._file = io.BytesIO() if self._lock else self._created()
            self._zip = zipfile.ZipFile(self._file, "w", zipfile.ZIP_DEFLATED, compresslevel=6)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._complete()
        finally:
            for each in (self._zip, self._file):  # if one fails to close, still close the other
                with contextlib.suppress(ValueError, OSError):
                    each.close()
            remove_tree(self._part)

    def _complete(self) -> None:
        about = {**self.about, "files": [_as_json(entry) for _, entry in sorted(self.entries.items())]}
        with self._opened(MANIFEST, executable=False) as file:
            file.write((json.dumps(about, ensure_ascii=False, indent=1) + "\n").encode())
        with explained("write", self.out):
            self._zip.close()
            with zipfile.ZipFile(self._file) as written:
                ArchiveReader(self.out, written, self._file.seek(0, os.SEEK_END)).verify()
            if isinstance(self._file, io.BytesIO) and self._lock is not None:
                self._encrypt(self._file.getvalue(), self._lock)
            else:
                self._file.flush()
                os.fsync(self._file.fileno())
            os.rename(self._part, self.out)
            with Folder.create(os.path.dirname(self.out)) as folder:
                folder.sync()

    def _encrypt(self, data: bytes, lock: Lock) -> None:
        """Writes the archive encrypted and compares the written bytes: we may have no key to open them."""
        sealed = lock.seal(data)
        with self._created() as file:
            file.write(sealed)
            file.flush()
            os.fsync(file.fileno())
            file.seek(0)
            if file.read() != sealed:
                raise StorageError(f"{self.out} was read back with other bytes than were written; check the disk")

    def _created(self) -> IO[bytes]:
        descriptor = os.open(self._part, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, PRIVATE_FILE)
        return os.fdopen(descriptor, "w+b")

    @contextlib.contextmanager
    def _opened(self, path: str, *, executable: bool) -> Iterator[IO[bytes]]:
        mode = 0o700 if executable else PRIVATE_FILE
        with explained("write", self.out):  # closing the file can fail too
            info = zipfile.ZipInfo(path, _DAY_ZERO)
            info.compress_type, info.create_system = zipfile.ZIP_DEFLATED, 3  # 3 is Unix: the mode below is valid
            info.external_attr = (stat.S_IFREG | mode) << 16
            with self._zip.open(info, "w", force_zip64=True) as file:
                yield file


class ArchiveReader:
    """Reads an archive within limits, so that a hostile archive cannot fill the disk."""

    def __init__(self, path: str, archive: zipfile.ZipFile, packed: int) -> None:
        """`packed` is the size of the zip file."""
        self.path = path
        self._zip = archive
        self._packed = packed
        self.about = self._read_manifest()
        files = self.about.get("files") or ()
        check_limits(path, [0] * len(files), packed)  # refuse too many before reading any
        self.entries = {entry.path: entry for entry in map(_entry, files)}
        self._check()

    @classmethod
    @contextlib.contextmanager
    def open(cls, path: str, key: Key | None = None) -> Iterator[ArchiveReader]:
        """Opens an archive; `key` decrypts an encrypted one in memory."""
        if not os.path.exists(path):
            raise NotFound(f"{path} does not exist; name an archive")
        if os.path.isdir(path):
            raise StorageError(
                f"{path} is a folder; if it is an export of an earlier version, pack it first: zip -rD ../export.zip ."
            )
        whole: str | io.BytesIO = path
        if is_encrypted(path):
            if key is None:
                raise StorageError(f"{path} is encrypted; give its passphrase or a secret key")
            whole = key.open(path)
        size = os.stat(path).st_size
        try:
            with zipfile.ZipFile(whole) as archive:
                yield cls(path, archive, size)
        except (zipfile.BadZipFile, EOFError, NotImplementedError, UnicodeDecodeError) as error:
            raise DamagedFile(f"{path} is not a whole zip archive ({error}); use another copy") from error

    @staticmethod
    def is_archive(path: str) -> bool:
        """Whether there is a manifest; its contents are checked when the archive is opened."""
        if os.path.isdir(path):  # what earlier versions exported; `open` says what to do with it
            return os.path.isfile(os.path.join(path, MANIFEST))
        if is_encrypted(path):
            return True  # its contents are unknown until it is decrypted
        if not zipfile.is_zipfile(path):
            return False
        with zipfile.ZipFile(path) as archive:
            return MANIFEST in archive.namelist()

    def read(self, path: str) -> Iterator[bytes]:
        """Yields the file in pieces; raises at its end if size or checksum differ from the manifest."""
        entry = self.entries[path]
        digest, size = hashlib.sha256(), 0
        with self._opened(path) as file:
            # Ask for one byte more than announced: a longer file is noticed without reading the rest of it.
            while piece := self._piece(file, min(_PIECE, entry.bytes - size + 1), path):
                size += len(piece)
                if size > entry.bytes:
                    break
                digest.update(piece)
                yield piece
        if size != entry.bytes or digest.hexdigest() != entry.sha256:
            raise DamagedFile(f"{path} in {self.path} does not match its checksum; use another copy of the archive")

    def check_format(self, wanted: str, version: int, hint: str) -> None:
        """Refuses an archive of another kind, or one that a newer Hermes wrote."""
        if self.about.get("format") != wanted:
            raise DamagedFile(f"{self.path} is {hint}")
        given = self.about.get("version")
        # Not isinstance: True would pass as the version 1.
        if type(given) is not int or given > version:
            raise StorageError(f"{self.path} was written by a newer Hermes (version {given}); upgrade this one first")

    def unpack(self, path: str, target: str, inside: str) -> None:
        """Writes the file `path` of the archive as `inside`, a path below the folder `target`."""
        with create_inside(target, inside, 0o700 if self.entries[path].executable else PRIVATE_FILE) as file:
            for piece in self.read(path):
                file.write(piece)

    def verify(self) -> int:
        """Reads every file and returns their number; raises if one does not match its checksum."""
        for path in self.entries:
            for _ in self.read(path):
                pass
        return len(self.entries)

    def _piece(self, file: IO[bytes], count: int, path: str) -> bytes:
        try:
            return file.read(count)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError) as error:
            raise DamagedFile(f"{path} in {self.path} cannot be read ({error}); use another copy") from error

    @contextlib.contextmanager
    def _opened(self, path: str) -> Iterator[IO[bytes]]:
        try:
            with self._zip.open(path) as packed:
                yield packed
        except KeyError as error:
            raise DamagedFile(f"{path} is missing in {self.path}; use another copy") from error
        except (zipfile.BadZipFile, RuntimeError, NotImplementedError, OSError, ValueError) as error:
            raise DamagedFile(f"{path} in {self.path} cannot be opened ({error}); use another copy") from error

    def _read_manifest(self) -> dict[str, Any]:
        try:
            with self._opened(MANIFEST) as file:
                data = self._piece(file, _LARGEST_MANIFEST + 1, MANIFEST)
        except (DamagedFile, StorageError, FileNotFoundError) as error:
            raise DamagedFile(f"{self.path} has no readable {MANIFEST}, so it is not an archive of Hermes") from error
        try:
            about = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise DamagedFile(f"{MANIFEST} in {self.path} is not JSON ({str(error)[:100]})") from error
        if not isinstance(about, dict) or len(data) > _LARGEST_MANIFEST:
            raise DamagedFile(f"{MANIFEST} in {self.path} is not a manifest of Hermes")
        return about

    def _check(self) -> None:
        if len(self.entries) != len(self.about.get("files") or ()):
            raise UnsafePath(f"{self.path} lists a file twice; Hermes did not make it")
        check_limits(self.path, [entry.bytes for entry in self.entries.values()], self._packed)
        # Programs disagree about which of two members of one name counts, so a duplicate could smuggle in a file.
        names = [info.filename for info in self._zip.infolist()]
        if len(names) != len(set(names)) or set(names) != {MANIFEST, *self.entries}:
            raise UnsafePath(
                f"{self.path} holds files that its manifest does not list, or lacks some; Hermes did not make it"
            )
        for info in self._zip.infolist():
            # The upper half of the attributes is the Unix mode; flag 1 says that the member is encrypted.
            if stat.S_ISLNK(info.external_attr >> 16) or info.flag_bits & 1:
                raise UnsafePath(f"{info.filename} in {self.path} is a link or encrypted; Hermes did not make it")
        folded = {path.casefold() for path in self.entries}
        if len(folded) != len(self.entries):
            raise UnsafePath(f"{self.path} holds names that differ only in case, which some systems cannot store")


def check_limits(path: str, sizes: Sequence[int], packed: int) -> None:
    """Refuses an archive with too many files or bytes, or one that expands too much (`packed` is its own size)."""
    total = sum(sizes)
    if len(sizes) > _MOST_FILES:
        raise UnsafePath(f"{path} holds {len(sizes):,} files; {_MOST_FILES:,} are allowed, and nothing was unpacked")
    if total > _LARGEST:
        raise UnsafePath(f"{path} holds {total:,} bytes; {_LARGEST:,} are allowed, and nothing was unpacked")
    if total > max(_EXPANDS * packed, _ALWAYS_ALLOWED):
        raise UnsafePath(
            f"{path} would expand from {packed:,} to {total:,} bytes, more than {_EXPANDS} times its size; nothing was "
            "unpacked"
        )


def checked_name(path: Any) -> str:
    """Returns the name if, on every system, unpacking it stays inside the target folder."""
    parts = path.split("/") if isinstance(path, str) else []
    if (
        not parts
        or len(path) > _LONGEST_NAME
        or any(part in ("", ".", "..") or part != part.strip("\r\n\t") for part in parts)
        or MIGRATING in parts  # an archive must not bring the marker of an unfinished migration
        or "\\" in path  # separates folders on Windows
        or "\0" in path
        or (len(parts[0]) > 1 and parts[0][1] == ":")  # a drive of Windows
    ):
        raise UnsafePath(
            f"the archive holds the name {str(path)[:80]!r}, which leads out of the target folder or is reserved; "
            "nothing was unpacked"
        )
    return str(path)


@contextlib.contextmanager
def create_inside(root: str, path: str, mode: int) -> Iterator[IO[bytes]]:
    """Creates a file below `root` and syncs it at the end; `root` must be new, so that no folder in it is a link."""
    full = os.path.join(root, checked_name(path))
    make_private_folders(os.path.dirname(full))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with explained("write", full), os.fdopen(os.open(full, flags, mode), "wb") as file:
        os.fchmod(file.fileno(), mode)
        yield file
        file.flush()
        os.fsync(file.fileno())


def remove_tree(path: str) -> None:
    """Removes a file or folder; a link is removed, not followed. Ignores failures, because leftovers do no harm."""
    with contextlib.suppress(OSError):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)


def _entry(record: Any) -> Entry:
    try:
        entry = Entry(
            path=checked_name(record["path"]),
            kind=str(record["kind"]),
            bytes=record["bytes"],
            sha256=str(record["sha256"]),
            executable=record.get("executable") is True,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise DamagedFile(f"{MANIFEST} is damaged ({error!r}); use another copy of the archive") from error
    if type(entry.bytes) is not int or entry.bytes < 0:
        raise DamagedFile(f"{MANIFEST} is damaged (the size of {entry.path}); use another copy of the archive")
    return entry


def _as_json(entry: Entry) -> dict[str, Any]:
    record: dict[str, Any] = {"path": entry.path, "kind": entry.kind, "bytes": entry.bytes, "sha256": entry.sha256}
    return {**record, "executable": True} if entry.executable else record


LARGEST_FILE = 4 << 20  # far more than any note that a person or an agent writes
DATABASE_FILES = ("", "-wal", "-journal")  # a SQLite database and the logs it may need to be complete
_MOST_BELOW = 20_000
_TRIES = 5
_PAUSE = 0.2
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # O_NONBLOCK: opening a pipe must not wait
Stamp = tuple[int, ...]


@contextlib.contextmanager
def open_regular(path: str, folder: int | None = None) -> Iterator[IO[bytes]]:
    """Opens a regular file for reading; links are not followed, pipes and devices refused."""
    with os.fdopen(os.open(path, _READ, dir_fd=folder), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise UnsafePath(f"{path} is not a regular file; move it away and try again")
        yield file


def stamp(path: str) -> Stamp:
    """Numbers that change whenever the file changes; the same for every folder, and empty if nothing is there."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return ()
    return (0,) if stat.S_ISDIR(status.st_mode) else (status.st_ino, status.st_size, status.st_mtime_ns)


def database_stamps(path: str) -> list[Stamp]:
    """The stamps of a database and its logs: a write may change a log and leave the database as it is."""
    return [stamp(path + suffix) for suffix in DATABASE_FILES]


@contextlib.contextmanager
def opened_unchanged(path: str) -> Iterator[apsw.Connection]:
    """Opens another program's database, log included, without changing its files or their times."""
    with tempfile.TemporaryDirectory(prefix="hermes-import-") as place:
        connection = open_unchanged(merged(path, place))
        if connection is None:
            raise DamagedFile(
                f"{path} cannot be read as a database; copy it anew, or repair it with the program that wrote it"
            )
        with contextlib.closing(connection):
            yield connection


def merged(path: str, place: str) -> str:
    """The path itself or, if the database has a log, a copy in the folder `place` with the log applied."""
    if not any(os.path.lexists(path + suffix) for suffix in DATABASE_FILES[1:]):
        return path
    copy = os.path.join(place, "merged.db")
    for _ in range(_TRIES):
        before = database_stamps(path)
        for suffix in DATABASE_FILES:
            _copy_whole(path + suffix, copy + suffix)
        if database_stamps(path) == before:  # else the copy may hold parts of two moments
            break
        time.sleep(_PAUSE)
    else:
        raise StorageError(
            f"{path} keeps changing while it is copied; close the program that has it open and try again"
        )
    try:
        with contextlib.closing(apsw.Connection(copy)) as connection:
            connection.pragma("trusted_schema", False)
            connection.pragma("journal_mode", "DELETE")  # applies the log and removes it
    except apsw.Error as error:
        raise DamagedFile(f"{path} cannot be read with its log ({error}); copy it again from its source") from error
    return copy


def _copy_whole(path: str, to: str) -> None:
    with explained("copy", path):
        try:
            with open_regular(path) as source, open(to, "wb") as target:
                shutil.copyfileobj(source, target, _PIECE)
        except FileNotFoundError:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(to)  # left by an earlier attempt


def read_text(path: str) -> str:
    """The file as text; refuses links, devices and very large files, and replaces invalid bytes."""
    from hermes.memory.entries import decode

    return decode(read_bytes(path)).text


def read_bytes(path: str, at_most: int = LARGEST_FILE) -> bytes:
    """Reads a regular file; a larger one, a link or a device is a StorageError, a missing one a FileNotFoundError."""
    try:
        with open_regular(path) as file:
            data = file.read(at_most + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}; it stays where it is") from error
    if len(data) > at_most:
        raise StorageError(f"{path} has more than {at_most:,} bytes; it stays where it is")
    return data


def files_below(folder: str) -> Iterator[tuple[str, str]]:
    """Relative and full path of each regular file below a folder; links are skipped."""
    count = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not os.path.islink(os.path.join(place, name)))
        for name in sorted(names):
            path = os.path.join(place, name)
            if stat.S_ISREG(os.lstat(path).st_mode):
                count += 1
                if count > _MOST_BELOW:
                    raise StorageError(
                        f"{folder} holds more than {_MOST_BELOW:,} files; remove what does not belong there"
                    )
                yield os.path.relpath(path, folder), path


def links_below(folder: str) -> list[str]:
    """Paths of the links below a folder, for a report of what is not migrated."""
    return [
        os.path.join(place, name)
        for place, folders, names in os.walk(folder)
        for name in (*folders, *names)
        if os.path.islink(os.path.join(place, name))
    ]
