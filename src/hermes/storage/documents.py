"""Small files that people and other programs also write, append-only logs, and requests that wait for a person."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
import zlib

from hermes.base.errors import StorageError, UnsafePath
from hermes.base.text import decode, encode
from hermes.storage.files import NOTHING_READ, Fingerprint, Folder, OldVersion, ReadSoFar, Seen
from hermes.storage.locks import FileLock, is_held

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any, Self, TypeVar

    from hermes.storage.files import Identity, OpenFile, Record
    from hermes.storage.ports import DocumentFolder, Documents

    Request = TypeVar("Request")
    Change = TypeVar("Change")

_PATIENCE_WITH_WRITERS = 0.05  # seconds for another program to close the old version
_PAUSE = 0.001
_NO_CHECK = 1  # no text has 0 bytes and this checksum


class ChangedMeanwhile(Exception):
    """Another program saved the file after it was read; the caller reads it again and starts over."""


class SharedFile:
    """A file that other programs also write; docs/concepts/durability.md explains the steps of a write."""

    def __init__(self, folder: Folder, name: str, *, at_most: int) -> None:
        self.folder = folder
        self.name = name
        self._prefix = f".{name}."
        self._at_most = at_most

    def see(self) -> Seen:
        """Reads the file and keeps it open; an empty `Seen` if there is none."""
        file = self.folder.open_file(self.name)
        if file is None:
            return Seen(b"", None)
        try:
            return Seen(file.read(at_most=self._at_most), file)
        except StorageError:
            file.close()
            raise

    def replace(
        self, seen: Seen, data: bytes, label: str, commit: Callable[[Fingerprint], None], prove: Callable[[], None]
    ) -> str:
        """Replaces the file that was seen by `data`; durable when it returns. The caller holds the lock.

        `commit` is called with the fingerprint of the new version once this is written, but before it is in place.
        `prove` is called if the replaced version will have no name that proves it after a power cut. If one raises,
        nothing has changed. `ChangedMeanwhile` says that another program saved first. Returns the hidden name of the
        replaced version, or "" if another program may have written to that version, or may still do so.
        """
        temporary = f"{self._prefix}{os.getpid()}.tmp"
        file, then = seen.file, seen.fingerprint
        assert file is not None  # noqa: S101 - what does not exist is made before it is replaced
        inode = self.folder.write_new(temporary, data)
        old = f"{self._prefix}{then.size}.{then.check:08x}.{then.inode}.{inode}.{label}.old"
        try:
            commit(Fingerprint.of(data, inode))
            self.folder.rename(temporary, old)
            if not self._exchange(file, then, old, inode):
                self._rename_over(file, then, temporary, old, prove)
        except (StorageError, ChangedMeanwhile):
            self.folder.discard(temporary)
            if self._inode(old) == inode:  # otherwise it is what another program saved
                self.folder.discard(old)
            raise
        self._sync_or_roll_back(old)
        if _nobody_added(file, then.size):
            return old
        self._mark_late(old)
        return ""

    def holds(self, version: Fingerprint) -> bool:
        """Whether the file is exactly this version; also True if that cannot be determined."""
        return self._inode(self.name) in (version.inode, None)

    def is_waiting(self, version: Fingerprint, names: list[str]) -> bool:
        """Whether one of these hidden files still contains a version that was never put in place."""
        if self.holds(version):
            return False
        for name in names:
            may_be = name.endswith(".tmp") or name[len(self._prefix) :].split(".")[3:4] == [str(version.inode)]
            file = self.folder.open_file(name) if may_be else None
            if file is not None:
                with file:
                    # The system reuses the inodes of removed files, so the bytes must match, too.
                    if Fingerprint.of(file.read(at_most=self._at_most), file.status.st_ino) == version:
                        return True
        return False

    def leftovers(self) -> tuple[list[str], list[str], list[str]]:
        """Hidden names: replaced versions, versions that other programs may still write to, and unfinished ones."""
        old: list[str] = []
        late: list[str] = []
        unfinished: list[str] = []
        kinds = {"old": old, "late": late, "tmp": unfinished}
        for name in self.folder.names():
            if name.startswith(self._prefix):
                kinds.get(name.rpartition(".")[2], []).append(name)
        return old, late, unfinished

    def old_version(self, name: str) -> OldVersion | None:
        """A replaced version; None if it is none, because it is still the file or was never put in place."""
        current = self.folder.status(self.name)
        file = self.folder.open_file(name)
        if file is None:
            return None
        with file:
            now = file.status.st_ino
            if current is not None and current.st_ino == now:
                return None
            data = file.read(at_most=self._at_most)
        try:
            size, check, inode, new, label = name[len(self._prefix) :].rpartition(".")[0].split(".", 4)
            then = Fingerprint(size=int(size), check=int(check, 16), inode=int(inode))
        except ValueError:
            then, new, label = Fingerprint.of(data, now), "", ""
        if new == str(now):
            return None
        return OldVersion(name=name, then=then, label=label, data=data, written_at=file.status.st_mtime)

    def still_written(self, name: str) -> bool:
        """Whether another program has this hidden version open for writing."""
        file = self.folder.open_file(name)
        if file is None:
            return False
        with file:
            return _nobody_writes(file) is False

    def _refuse_if_changed(self, file: OpenFile, then: Fingerprint) -> None:
        status = self.folder.status(self.name)
        if (
            status is None
            or status.st_ino != then.inode
            or status.st_size != then.size
            or status.st_mtime_ns != file.status.st_mtime_ns
        ):
            raise ChangedMeanwhile

    def _exchange(self, file: OpenFile, then: Fingerprint, hidden: str, new: int) -> bool:
        """Swaps the new version in; False if names cannot be exchanged."""
        self._refuse_if_changed(file, then)
        if not self.folder.exchange(hidden, self.name):
            return False
        if self._inode(hidden) in (then.inode, None):
            return True  # if it cannot be determined now, it will be when the replaced version is removed
        # Another program saved at the last moment. Put its version back, and any later one. Meanwhile it may have read
        # our version and save over its own, so each of its versions keeps a second name until it is recorded.
        passed: set[int | None] = {new}
        while (out := self._inode(hidden)) not in passed:
            self._keep(hidden, out)
            passed.add(out)
            if not self.folder.exchange(hidden, self.name):
                raise StorageError(
                    f"{self.folder.join(self.name)} was saved by somebody else at the same moment and their version, "
                    f"now {self.folder.join(hidden)}, could not be put back; it is kept in a backup at the next write"
                )
        raise ChangedMeanwhile

    def _keep(self, hidden: str, inode: int | None) -> None:
        """Gives what another program saved a second name; its checksum fits no text, so all of it is backed up."""
        try:
            self.folder.link(hidden, f"{self._prefix}0.{_NO_CHECK:08x}.{inode or 0}.0..late")
        except StorageError:
            return  # it still has a name: the hidden one, or that of the file

    def _rename_over(
        self, file: OpenFile, then: Fingerprint, temporary: str, old: str, prove: Callable[[], None]
    ) -> None:
        """Replaces the file without an exchange: links the old version, checks once more, and renames."""
        self.folder.rename(old, temporary)
        if not self.folder.link(self.name, old):
            prove()
        self._refuse_if_changed(file, then)
        self.folder.rename(temporary, self.name)

    def _inode(self, name: str) -> int | None:
        """The inode of a file; 0 if there is no such file, None if that cannot be determined."""
        try:
            status = self.folder.status(name)
        except StorageError:
            return None
        return status.st_ino if status else 0

    def _mark_late(self, old: str) -> None:
        try:
            self.folder.rename(old, f"{old[: -len('old')]}late")
        except StorageError:
            return  # our write is safe; appended text is still found when the old version is removed

    def _sync_or_roll_back(self, old: str) -> None:
        try:
            self.folder.sync()
        except StorageError as error:
            try:
                self.folder.rename(old, self.name)
            except StorageError:
                raise StorageError(
                    f"{error}; the new text is in place but may not survive a power cut, and could not be taken back"
                ) from error
            raise


def _nobody_added(file: OpenFile, size: int) -> bool:
    """True only if the old file certainly is as it was opened, and nobody can change it any more."""
    alone = _nobody_writes(file)
    if alone is False:
        deadline = time.monotonic() + _PATIENCE_WITH_WRITERS
        while (alone := _nobody_writes(file)) is False and time.monotonic() < deadline:
            time.sleep(_PAUSE)
    try:
        now = file.look()
    except StorageError:
        return False
    return alone is True and now.st_size == size and now.st_mtime_ns == file.status.st_mtime_ns


def _nobody_writes(file: OpenFile) -> bool | None:
    """Whether no process has the file open for writing; None if the system cannot tell."""
    if not hasattr(fcntl, "F_SETLEASE"):
        return None
    try:
        # A read lease is granted only while nobody has the file open for writing.
        fcntl.fcntl(file.descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(file.descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


# An append-only file of JSON records, one per line, each with a checksum of its own.
#
# An appended record survives the end of the process and, with `sync`, also a power cut. A line cut short by a crash was
# never acknowledged, so the next append drops it. A line with a wrong checksum is counted and skipped, and the lines
# around it stay readable.

_CHECK = b',"check":"'
_TAIL = 8192  # bytes read from the end at first
_LARGEST = 1 << 30  # bytes of a journal


class Journal:
    """An append-only log with a checksum per record."""

    def __init__(self, folder: Folder, name: str) -> None:
        self._folder = folder
        self.name = name

    def append(self, records: Iterable[Record], *, sync: bool) -> Identity | None:
        """Appends records; returns the new `identity`, or None if it cannot be determined."""
        lines = b"".join([encode_record(record) for record in records])
        with self._folder.open_for_append(self.name) as file:
            file.append(lines, sync=sync, size=_drop_unfinished_line(file))
            try:
                return _identity(file.look())
            except StorageError:
                return None

    def sync(self) -> None:
        """Makes all records so far survive a power cut."""
        file = self._folder.open_file(self.name)
        if file is not None:
            with file:
                file.sync()

    def withdraw(self, *record_ids: str) -> None:
        """Removes the newest records as long as they have these ids, because their change did not happen after all."""
        with self._folder.open_for_append(self.name) as file:
            data = file.read(at_most=_LARGEST)
            end = len(data)
            while end:
                start = data.rfind(b"\n", 0, end - 1) + 1
                record = decode_record(data[start : end - 1])
                if record is None or record.get("id") not in record_ids:
                    break
                end = start
            if end < len(data):
                file.cut(end)

    def identity(self) -> Identity:
        """A value that changes with every append and withdrawal, and with the permissions and names of the file."""
        status = self._folder.status(self.name)
        return _identity(status) if status else (0, 0, 0, 0, 0)

    def last(self) -> Record | None:
        """The newest readable record, found from the end without reading the whole file."""
        file = self._folder.open_file(self.name)
        if file is None:
            return None
        with file:
            size, length = file.status.st_size, _TAIL
            while True:
                start = max(0, size - length)
                lines = file.read_piece(start, size - start).split(b"\n")[:-1]
                whole = lines if start == 0 else lines[1:]
                for line in reversed(whole):
                    if (record := decode_record(line)) is not None:
                        return record
                if start == 0:
                    return None
                length *= 8

    def mentions(self, word: str) -> bool:
        """Whether a record may contain this text; faster than reading the records."""
        return f'"{word}"'.encode() in (self._folder.read(self.name, at_most=_LARGEST) or b"")

    def read(self) -> tuple[list[Record], int]:
        """All readable records, oldest first, and how many lines are damaged."""
        seen = self.read_on(NOTHING_READ)
        return seen.records, seen.damaged

    def read_on(self, before: ReadSoFar) -> ReadSoFar:
        """Reads what was appended since `before`, or everything if the journal no longer begins as it did then."""
        data = self._folder.read(self.name, at_most=_LARGEST) or b""
        start = before.size if zlib.crc32(data[: before.size]) == before.check else 0
        records, damaged = records_in(data[start:])
        end = data.rfind(b"\n") + 1
        damaged += before.damaged if start else 0
        return ReadSoFar(records=records, damaged=damaged, size=end, check=zlib.crc32(data[:end]), goes_on=start > 0)


def _identity(status: os.stat_result) -> Identity:
    return status.st_ino, status.st_size, status.st_ctime_ns, status.st_mode, status.st_nlink


def _drop_unfinished_line(file: OpenFile) -> int:
    """Cuts off an unfinished last line; returns where the last whole line ends."""
    size, length = file.status.st_size, 1
    while size:
        start = max(0, size - length)
        tail = file.read(at_most=size - start, start=start)
        if tail.endswith(b"\n"):
            return size
        cut = tail.rfind(b"\n")
        if cut >= 0 or start == 0:
            file.cut(start + cut + 1)
            return start + cut + 1
        length *= _TAIL
    return 0


def records_in(data: bytes) -> tuple[list[Record], int]:
    """The readable records in the bytes of a journal, oldest first, and how many lines are damaged."""
    finished = data.split(b"\n")[:-1]
    records = [record for line in finished if (record := decode_record(line)) is not None]
    return records, len(finished) - len(records)


def encode_record(record: Record) -> bytes:
    """A record as a line of a journal, with its checksum."""
    body = encode(record, tight=True).encode("utf-8", "surrogatepass")[:-1]
    return b'%b%b%08x"}\n' % (body, _CHECK, zlib.crc32(body))


def decode_record(line: bytes) -> Record | None:
    """The record of a line without its line break; None if it is damaged."""
    body, separator, check = line.rpartition(_CHECK)
    if not separator or check != b'%08x"}' % zlib.crc32(body):
        return None
    record = decode(body + b"}")
    return record if isinstance(record, dict) else None


def history_name(name: str) -> str:
    """The name of the journal that belongs to a file."""
    return f"{name}.history.jsonl"


class LockedFile:
    """A document that others also write, with its folder, lock and history; use it in a `with` block."""

    __slots__ = ("folder", "journal", "lock", "shared")

    def __init__(self, folder: DocumentFolder, name: str, *, at_most: int, lock_timeout: float) -> None:
        self.folder = folder
        self.shared = folder.shared(name, at_most=at_most)
        self.journal = folder.journal(history_name(name))
        self.lock = folder.lock(f"{name}.lock", timeout=lock_timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Releases the lock and closes the folder."""
        self.lock.__exit__()
        self.folder.close()


# The documents port over plain files; `storage/postgres/documents` implements it over rows.


class LocalDocuments:
    """The documents of one person below a folder of their home."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def below(self, *names: str) -> LocalDocuments:
        return LocalDocuments("/".join((self.path, *names)))

    def renew(self) -> None:
        """Does nothing, because files are looked up each time."""

    def reading(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def every(self) -> dict[str, int]:
        return {name: os.lstat(f"{self.path}/{name}").st_mtime_ns for name in files_below(self.path)}

    def open(self) -> LocalFolder | None:
        return LocalFolder.open(self.path)

    def create(self) -> LocalFolder:
        return LocalFolder.create(self.path)


SYNCED = ".synced.json"  # what a folder of files and its rows agreed on (`skills/files`)
YOURS = ".yours"  # ends the name of a file that lost against a version from elsewhere
_PASSING = (".lock", ".lock.queue", ".tmp", ".old", ".late", YOURS)


def files_below(path: str) -> Iterator[str]:
    """The documents below a folder, without links, locks and temporary files."""
    for place, _, files in os.walk(path):
        for file in files:
            full = f"{place}/{file}"
            if file != SYNCED and not file.endswith(_PASSING) and not os.path.islink(full):
                yield full[len(path) + 1 :]


class LocalFolder(Folder):
    """An open folder of documents."""

    __slots__ = ()

    def size(self, name: str) -> int | None:
        status = self.status(name)
        return status.st_size if status is not None else None

    def stamp(self, name: str) -> tuple[int, ...]:
        """Its size first; changes with every write; empty when there is no such document."""
        status = self.status(name)
        return (status.st_size, status.st_ino, status.st_mtime_ns) if status is not None else ()

    def write_soon(self, name: str, data: bytes) -> None:
        """As `replace`, but a power cut may take it until `make_durable` has returned."""
        temporary = f".{name}.{os.getpid()}.tmp"
        self.write_new(temporary, data, sync=False)
        self.rename(temporary, name)

    def make_durable(self, name: str) -> None:
        file = self.open_file(name)
        if file is not None:
            with file:
                file.sync()
            self.sync()

    def journal(self, name: str) -> Journal:
        return Journal(self, name)

    def lock(self, name: str, *, timeout: float) -> FileLock:
        return FileLock(self, name, timeout=timeout)

    def lease(self, name: str, *, seconds: float) -> FileLease:  # noqa: ARG002 - it ends with the process
        return FileLease(self, name)

    def shared(self, name: str, *, at_most: int) -> SharedFile:
        return SharedFile(self, name, at_most=at_most)


class FileLease:
    """The right to do something that takes long; the system releases it when the process ends."""

    def __init__(self, folder: Folder, name: str) -> None:
        self._folder, self._name = folder, name
        self._lock = FileLock(folder, name, timeout=0)
        self._held = False

    def take(self) -> bool:
        """Takes it, or says that it is still needed; False when somebody else has it."""
        self._held = self._held or self._lock.try_to_take()
        return self._held

    def give_back(self) -> None:
        """Ends the lease."""
        self._held = False
        self._lock.__exit__()

    def is_taken(self) -> bool:
        """Whether another process has the lease."""
        return is_held(self._folder, self._name)


class Document:
    """One small JSON document of a home that people also edit: read if it has changed, and changed under its lock."""

    def __init__(self, documents: Documents, name: str) -> None:
        self._documents, self._name = documents, name
        self._seen: tuple[tuple[int, ...], dict[str, Any]] = ((), {})

    def read(self) -> dict[str, Any]:
        """The content of the document; {} if there is none. A file that is not JSON is an error that names it."""
        folder = self._documents.open()
        if folder is None:
            return {}
        with folder:
            stamp = folder.stamp(self._name)
            if stamp != self._seen[0]:
                data = folder.read(self._name, at_most=_LARGEST_REQUEST) or b""
                self._seen = (stamp, self._parsed(data, folder))
        return self._seen[1]

    def change(self, apply: Callable[[dict[str, Any]], Change]) -> Change:
        """Lets `apply` change the document, and stores it durably; starts over if an editor saved it meanwhile."""
        with self._documents.create() as folder, folder.lock(f"{self._name}.lock", timeout=_LOCK_SECONDS):
            for _ in range(_TRIES):
                before = folder.stamp(self._name)
                held = self._parsed(folder.read(self._name, at_most=_LARGEST_REQUEST) or b"", folder)
                result = apply(held)
                if folder.stamp(self._name) == before:
                    folder.replace(self._name, (encode(held, indent=1) + "\n").encode())
                    return result
        raise StorageError(f"{self._documents.path}/{self._name} is saved by others all the time; try again")

    def _parsed(self, data: bytes, folder: DocumentFolder) -> dict[str, Any]:
        try:
            found = decode(data) if data.strip() else {}
        except (ValueError, RecursionError) as error:
            raise StorageError(f"{folder.join(self._name)} is not JSON ({error}); mend or remove it") from error
        return found if isinstance(found, dict) else {}


_TRIES, _LOCK_SECONDS = 20, 5.0
_LARGEST_REQUEST = 1 << 20
_SUFFIX = ".json"


def new_id() -> str:
    """A short random id for a request."""
    return os.urandom(4).hex()


class Waiting:
    """Requests that wait for a person, one document each."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    def put(self, request_id: str, record: Mapping[str, Any]) -> None:
        """Stores a request; it is durable when this returns, and not listed if this raises."""
        with self._documents.create() as folder:
            try:
                folder.replace(request_id + _SUFFIX, encode(record).encode())
            except StorageError as error:
                _take_back(folder, request_id, error)
                raise

    def all(self, read: Callable[[str, dict[str, Any]], Request]) -> tuple[list[Request], list[str]]:
        """The results of `read` for each id and record, and the paths of files that it could not read."""
        folder = self._documents.open()
        if folder is None:
            return [], []
        found, unreadable = [], []
        with folder:
            folder.discard_abandoned()
            for name in folder.names():
                if name.endswith(_SUFFIX) and not name.startswith("."):
                    try:
                        record = decode(folder.read(name, at_most=_LARGEST_REQUEST) or b"")
                        # Not the id in the record: somebody could have put a path there.
                        found.append(read(name.removesuffix(_SUFFIX), record))
                    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, UnsafePath):
                        unreadable.append(folder.join(name))
        return found, unreadable

    def drop(self, request_id: str) -> None:
        """Removes a request that was answered, durably."""
        with self._documents.create() as folder:
            folder.remove(request_id + _SUFFIX)
            try:
                folder.sync()
            except StorageError as error:
                raise StorageError(
                    f"{error}; {request_id} is gone from the list, which could not be taken back"
                ) from error


def _take_back(folder: DocumentFolder, request_id: str, error: StorageError) -> None:
    """Removes a request that may be in place without being durable."""
    try:
        folder.remove(request_id + _SUFFIX)
    except StorageError:
        raise StorageError(f"{error}; {request_id} may be listed all the same, it could not be taken back") from error
