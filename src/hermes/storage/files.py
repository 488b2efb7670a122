"""Private, durable files: all storage code accesses the file system through a `Folder`.

A folder is opened once and its files are named relative to it, so a link that appears later cannot lead elsewhere.
Files are 0600 and directories 0700 from the moment they exist, whatever the umask. Every failure is a `StorageError`
whose message names the file, the cause and a remedy; a file that cannot be read is never mistaken for an empty one.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import os
import stat
import threading
import zlib

from hermes.base.errors import DamagedFile, StorageError, UnsafePath
from hermes.base.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Self

    Record = dict[str, Any]
    Identity = tuple[int, int, int, int, int]


MIGRATION_FOLDER = ".migrating"  # in a home that is being built
LOCK = "migration.lock"
ARRIVING = ".arriving"  # suffix of a home's name: next to the home, while it takes two renames instead of one


_RENAME_EXCHANGE = 2  # a flag of Linux's renameat2
_renameat2: list[tuple[Callable[[int, tuple[object, ...]], int] | None, int]] = []  # looked up once


def exchange(folder: int, one: str, other: str) -> bool:
    """Swaps two names in an open folder; False if that failed, for example because the system cannot do it."""
    if not _renameat2:
        _renameat2.append(_find_renameat2())
    call, rename = _renameat2[0]
    if call is None:
        return False
    return bool(call(rename, (folder, os.fsencode(one), folder, os.fsencode(other), _RENAME_EXCHANGE)) == 0)


def _find_renameat2() -> tuple[Callable[[int, tuple[object, ...]], int] | None, int]:
    """How to call renameat2, which `os` lacks; loading all of ctypes would take six times as long as its C half."""
    try:
        import _ctypes

        return _ctypes.call_function, _ctypes.dlsym(_ctypes.dlopen(None, 0), "renameat2")  # type: ignore[arg-type] # None: this process
    except (ImportError, OSError, AttributeError):
        return None, 0


# Whether a process is still running, as far as the system lets us ask.


def is_running(process: int) -> bool:
    """False only if there is certainly no such process on this machine."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # another user's process, which we may not signal, or not a process number
        return True
    return True


# The error output of a program that we started: read all the time, because the program would block on a full pipe.

_KEPT = 4096  # bytes from the end
_PIECE = 1 << 16
_LAST_WAIT = 1.0  # seconds; a child of the program may keep the pipe open for any length of time


class ErrorOutput:
    """Collects the error output of a program, which gets `file`; `last_words` returns its end."""

    def __init__(self) -> None:
        reading, writing = os.pipe()
        self.file = open(writing, "w", encoding="utf-8")  # noqa: SIM115 - closed by `close`
        self._kept = b""
        self._reader = threading.Thread(target=self._read, args=(reading,), daemon=True, name="error output")
        self._reader.start()

    def last_words(self) -> str:
        """The end of what the program wrote; called after it has ended."""
        self.close()  # the reader sees the end of the pipe only once our own end is closed
        self._reader.join(_LAST_WAIT)
        return self._kept.decode("utf-8", "replace").strip()

    def close(self) -> None:
        """Closes our end of the pipe."""
        self.file.close()

    def _read(self, reading: int) -> None:
        with open(reading, "rb", buffering=0) as pipe:
            while piece := pipe.read(_PIECE):
                self._kept = (self._kept + piece)[-_KEPT:]


PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
# Non-blocking, so that a pipe put in place of a file is refused instead of waited for.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_APPEND = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_REMEDIES = {
    errno.ENOSPC: "free some space on the disk and try again",
    errno.EDQUOT: "free some of your quota and try again",
    errno.ENOENT: "check the name and try again",
    errno.EACCES: "give yourself access to it (chown or chmod) and try again",
    errno.EPERM: "give yourself access to it (chown or chmod) and try again",
    errno.EROFS: "the file system is mounted read-only; remount it or choose another home with --home",
    errno.EMFILE: "too many files are open in this process; close some or raise `ulimit -n`",
    errno.ENFILE: "too many files are open on this machine; close some programs and try again",
    errno.ENOMEM: "the machine is out of memory; close some programs and try again",
    errno.EIO: "the disk reported an error; check it (dmesg, smartctl) before you trust it again",
    errno.EBUSY: "it is a mount point of its own; mount its folder instead of the single file",
    errno.ENOTDIR: "a file stands where a folder is expected; move it away",
    errno.EISDIR: "a folder stands where a file is expected; move it away",
}


class Folder:
    """An open private directory; use it in a `with` block."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def open(cls, path: str) -> Self | None:
        """Opens a folder; None if it does not exist."""
        try:
            return cls(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise explain("open", path, error) from error

    @classmethod
    def create(cls, path: str) -> Self:
        """Opens a folder; creates it, with its missing parents, if it does not exist yet."""
        folder = cls.open(path)
        if folder is None:
            make_private_folders(path)
            folder = cls.open(path)
        if folder is None:
            raise StorageError(f"{path} disappeared while it was being opened; try again")
        return folder

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the directory; safe to call twice."""
        if self._descriptor >= 0:
            _close(self._descriptor)
            self._descriptor = -1

    @property
    def descriptor(self) -> int:
        """The open directory, for calls that take `dir_fd`."""
        return self._descriptor

    def join(self, name: str) -> str:
        """The path of a file in the folder, for messages."""
        return f"{self.path}/{name}"  # called on every step, and os.path.join is twenty times slower

    def open_file(self, name: str) -> OpenFile | None:
        """Opens a regular file for reading; None if there is none."""
        try:
            descriptor = os.open(name, _READ, dir_fd=self._descriptor)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise explain("read", self.join(name), error) from error
        return OpenFile.checked(self.join(name), descriptor)

    def read(self, name: str, *, at_most: int) -> bytes | None:
        """The content of a file, or None if there is none; a larger file than `at_most` is an error."""
        file = self.open_file(name)
        if file is None:
            return None
        with file:
            return file.read(at_most=at_most)

    def write_new(self, name: str, data: bytes, *, sync: bool = True) -> int:
        """Creates a file that must not exist yet and returns its inode; a failure leaves nothing behind."""
        path = self.join(name)
        try:
            descriptor = os.open(name, _CREATE, PRIVATE_FILE, dir_fd=self._descriptor)
        except OSError as error:
            raise explain("create", path, error) from error
        try:
            status = os.fstat(descriptor)
            if stat.S_IMODE(status.st_mode) != PRIVATE_FILE:  # a umask such as 777 took our own rights away
                os.fchmod(descriptor, PRIVATE_FILE)
            _write_all(descriptor, data)
            if sync:
                os.fsync(descriptor)
        except OSError as error:
            _close(descriptor)
            self.discard(name)
            raise explain("write", path, error) from error
        _close(descriptor)
        return status.st_ino

    def replace(self, name: str, data: bytes) -> None:
        """Replaces the content of a file, all or nothing; it survives a power cut when this returns."""
        # Threads of a server may replace the same file at once.
        temporary = f".{name}.{threading.get_native_id()}.{os.getpid()}.tmp"
        self.discard_abandoned()
        self.discard(temporary)
        # The order matters: the content is durable before it gets its name, and the name before the write is reported.
        self.write_new(temporary, data)
        try:
            self.rename(temporary, name)
        except StorageError:
            self.discard(temporary)
            raise
        self.sync()

    def discard_abandoned(self) -> None:
        """Removes the temporary files that killed processes left behind."""
        for name in self.names():
            process = name.split(".")[-2] if name.startswith(".") and name.endswith(".tmp") else ""
            if process.isdecimal() and not is_running(int(process)):
                self.discard(name)

    def open_for_append(self, name: str) -> OpenFile:
        """Opens or creates a private file for appending; refuses links, pipes and files with a second name."""
        try:
            descriptor = os.open(name, _APPEND, PRIVATE_FILE, dir_fd=self._descriptor)
        except OSError as error:
            raise explain("open", self.join(name), error) from error
        file = OpenFile.checked(self.join(name), descriptor)
        if file.status.st_nlink > 1:
            file.close()
            raise UnsafePath(f"{file.path} has a second name elsewhere (a hard link); copy it, so that it has only one")
        try:
            if stat.S_IMODE(file.status.st_mode) != PRIVATE_FILE:
                os.fchmod(descriptor, PRIVATE_FILE)
        except OSError as error:
            file.close()
            raise explain("make private", self.join(name), error) from error
        return file

    def status(self, name: str) -> os.stat_result | None:
        """What the system says about a name, without following a link; None if there is no such file."""
        try:
            return os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise explain("look at", self.join(name), error) from error

    def rename(self, old: str, new: str) -> None:
        """Gives a file a new name, replacing the file that has it; not durable before `sync`."""
        try:
            os.rename(old, new, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except OSError as error:
            raise explain("replace", self.join(new), error) from error

    def link(self, old: str, new: str) -> bool:
        """Gives the file a second name; False if the file system has no hard links."""
        try:
            os.link(old, new, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor, follow_symlinks=False)
        except OSError as error:
            if error.errno in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
                return False
            raise explain("keep a second name for", self.join(old), error) from error
        return True

    def exchange(self, one: str, other: str) -> bool:
        """Swaps two names in one step; False if that failed, for example because the system cannot do it."""
        return exchange(self._descriptor, one, other)

    def remove(self, name: str) -> bool:
        """Removes the file; False if there was none."""
        try:
            os.unlink(name, dir_fd=self._descriptor)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise explain("remove", self.join(name), error) from error
        return True

    def discard(self, name: str) -> None:
        """Removes a file that is not needed any more; a failure only wastes space, so it is not reported."""
        try:
            os.unlink(name, dir_fd=self._descriptor)
        except OSError:
            return

    def names(self) -> list[str]:
        """The names in the folder, sorted."""
        try:
            return sorted(os.listdir(self._descriptor))
        except OSError as error:
            raise explain("list", self.path, error) from error

    def sync(self) -> None:
        """Makes created, renamed and removed names survive a power cut."""
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise explain("make durable", self.path, error) from error


class OpenFile:
    """An open regular file; `status` is from the moment it was opened."""

    __slots__ = ("descriptor", "path", "status")

    def __init__(self, path: str, descriptor: int, status: os.stat_result) -> None:
        self.path = path
        self.descriptor = descriptor
        self.status = status

    @classmethod
    def checked(cls, path: str, descriptor: int) -> OpenFile:
        """Takes over a descriptor if it is a regular file, and otherwise closes it and raises UnsafePath."""
        try:
            status = os.fstat(descriptor)
        except OSError as error:
            _close(descriptor)
            raise explain("look at", path, error) from error
        if not stat.S_ISREG(status.st_mode):
            _close(descriptor)
            raise UnsafePath(f"{path} is {_kind(status.st_mode)}, not a regular file; move it away and try again")
        return cls(path, descriptor, status)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file; safe to call twice."""
        if self.descriptor >= 0:
            _close(self.descriptor)
            self.descriptor = -1

    def look(self) -> os.stat_result:
        """The status of the file now."""
        try:
            return os.fstat(self.descriptor)
        except OSError as error:
            raise explain("look at", self.path, error) from error

    def read(self, *, at_most: int, start: int = 0) -> bytes:
        """The content from `start` on; more than `at_most` bytes are an error."""
        pieces: list[bytes] = []
        position = start
        chunk = min(at_most, max(self.status.st_size - start, 0)) + 1
        try:
            while piece := os.pread(self.descriptor, chunk, position):
                pieces.append(piece)
                position += len(piece)
                if position - start > at_most:
                    raise DamagedFile(
                        f"{self.path} is larger than {at_most:,} bytes, which nothing of ours writes; "
                        "look at what is in it and move it away"
                    )
                if position == self.status.st_size:
                    break  # the chunk was one byte longer than the file, so this was the end
        except OSError as error:
            raise explain("read", self.path, error) from error
        return b"".join(pieces)

    def read_piece(self, start: int, length: int) -> bytes:
        """Up to `length` bytes from `start` on."""
        try:
            return os.pread(self.descriptor, length, start)
        except OSError as error:
            raise explain("read", self.path, error) from error

    def append(self, data: bytes, *, sync: bool, size: int | None = None) -> None:
        """Appends `data`, durably with `sync`; on a failure, the file is cut back to its old size.

        `size` is that old size, if the caller already knows it.
        """
        if size is None:
            size = self.look().st_size
        try:
            _write_all(self.descriptor, data)
            if sync:
                _sync_data(self.descriptor)
        except OSError as error:
            self.cut(size)
            raise explain("append to", self.path, error) from error

    def sync(self) -> None:
        """Makes the content survive a power cut."""
        try:
            _sync_data(self.descriptor)
        except OSError as error:
            raise explain("make durable", self.path, error) from error

    def cut(self, size: int) -> None:
        """Shortens the file to `size`; a failure is harmless and ignored."""
        try:
            os.ftruncate(self.descriptor, size)
        except OSError:
            return  # the reader skips an unfinished tail, so leaving it is harmless


def read_private(path: str, *, at_most: int) -> bytes | None:
    """The content of a file in a private folder; None if there is no such file or folder."""
    folder = Folder.open(os.path.dirname(path))
    if folder is None:
        return None
    with folder:
        return folder.read(os.path.basename(path), at_most=at_most)


def make_private_folders(path: str) -> None:
    """Creates a folder and its missing parents, private and durable."""
    missing: list[str] = []
    current = os.path.abspath(path)
    while not os.path.isdir(current):
        missing.append(current)
        current = os.path.dirname(current)
    for folder in reversed(missing):
        try:
            os.mkdir(folder, PRIVATE_FOLDER)
            os.chmod(folder, PRIVATE_FOLDER)
            # Otherwise, a power cut could remove the folder with everything that was synced inside it.
            _sync_folder(os.path.dirname(folder))
        except FileExistsError:
            continue  # another process was faster
        except OSError as error:
            raise explain("create", folder, error) from error


def explain(action: str, path: str, error: OSError) -> StorageError:
    """The typed error for a failed system call, with the remedy a person can try."""
    if error.errno == errno.ELOOP:
        return UnsafePath(f"{path} is a symbolic link, which is not followed here; replace it by a real file")
    if error.errno == errno.ENXIO:
        return UnsafePath(f"{path} is a pipe, socket or device, not a regular file; move it away and try again")
    reason = error.strerror or str(error)
    remedy = _REMEDIES.get(error.errno or 0, "nothing was changed; look at the cause and try again")
    return StorageError(f"could not {action} {path}: {reason}; {remedy}")


@contextlib.contextmanager
def explained(action: str, path: str) -> Iterator[None]:
    """Turns every OSError of an operation on many files into a typed error."""
    try:
        yield
    except OSError as error:
        named = error.filename if isinstance(error.filename, str) else path
        raise explain(action, named, error) from error


def _write_all(descriptor: int, data: bytes) -> None:
    written = os.write(descriptor, data)
    while written < len(data):
        written += os.write(descriptor, data[written:])


def _sync_folder(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        _close(descriptor)


def _sync_data(descriptor: int) -> None:
    os.fdatasync(descriptor) if hasattr(os, "fdatasync") else os.fsync(descriptor)


def _close(descriptor: int) -> None:
    try:
        os.close(descriptor)
    except OSError:
        return  # everything that matters was synced before; Linux has released the descriptor in any case


def _kind(mode: int) -> str:
    kinds = ((stat.S_ISFIFO, "a pipe"), (stat.S_ISDIR, "a folder"), (stat.S_ISSOCK, "a socket"))
    return next((name for test, name in kinds if test(mode)), "a device")


# File permissions that others should not have.


def keep_private(path: str) -> bool:
    """Removes the permissions of group and others from a file or folder; True if there were any."""
    try:
        mode = stat.S_IMODE(os.lstat(path).st_mode)
        if not mode & 0o077:
            return False
        os.chmod(path, mode & 0o700)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise explain("make private", path, error) from error
    return True


def readable_by_others(folder: str) -> list[str]:
    """The paths of the folder and of everything below it that others may access; links are left out."""
    paths = [folder]
    for place, folders, files in os.walk(folder):
        paths += [os.path.join(place, name) for name in (*folders, *files)]
    return [path for path in paths if _is_open(path)]


def _is_open(path: str) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:  # such as the log of a database that was just closed
        return False
    return not stat.S_ISLNK(mode) and bool(mode & 0o077)


# What was read from a file or a log: enough to see later whether somebody else changed it.


@value
class Fingerprint:
    """Enough to recognise a state of the file again."""

    size: int
    check: int
    inode: int

    @classmethod
    def of(cls, data: bytes, inode: int) -> Fingerprint:
        """The fingerprint of a file with this content and inode."""
        return cls(size=len(data), check=zlib.crc32(data), inode=inode)

    def same_bytes(self, other: Fingerprint) -> bool:
        """Whether both were taken of the same content, whichever file it was in."""
        return self.size == other.size and self.check == other.check

    def begins(self, data: bytes) -> bool:
        """True when `data` starts with the bytes this fingerprint was taken of."""
        return len(data) >= self.size and zlib.crc32(data[: self.size]) == self.check


class Seen:
    """A file as it was read; it stays open, so that even appends after its replacement are noticed."""

    __slots__ = ("data", "file", "fingerprint")

    def __init__(self, data: bytes, file: OpenFile | None) -> None:
        self.data = data
        self.file = file
        self.fingerprint = Fingerprint.of(data, file.status.st_ino if file else 0)

    @property
    def exists(self) -> bool:
        """Whether there was a file at all."""
        return self.file is not None

    @property
    def modified_at(self) -> float:
        """When the file was last written; 0 if there was none."""
        return self.file.status.st_mtime if self.file is not None else 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.file is not None:
            self.file.close()


@value
class OldVersion:
    """A replaced version: its hidden name, its fingerprint then, its content now, and when it was written."""

    name: str
    then: Fingerprint
    label: str
    data: bytes
    written_at: float

    def added(self) -> bytes | None:
        """What another program appended after the replacement; None if it overwrote the file instead."""
        return self.data[self.then.size :] if self.then.begins(self.data) else None


@value
class ReadSoFar:
    """Records read from a log, and how far it was read; `goes_on` if they continue an earlier reading."""

    records: list[Record]
    damaged: int
    size: int
    check: int
    goes_on: bool = False


NOTHING_READ = ReadSoFar(records=[], damaged=0, size=0, check=0)


# Reads a text file that anybody may have put there: never blocks, never reads without limit, never raises.

# What is read of both ends of a larger file.
HEAD_BYTES = 262_144
TAIL_BYTES = 65_536
_GARBAGE = 0.1  # share of undecodable characters from which a file counts as binary


@value
class ForeignText:
    """The text of a file of unknown origin; None if it is not usable. `note` says why, or what is unusual about it."""

    text: str | None
    note: str = ""
    exact: bool = False  # the text is complete and unchanged, so it may be written back


def read_foreign(
    path: str,
    *,
    inside: str | None = None,
    whole: int = HEAD_BYTES + TAIL_BYTES,
    in_real_directory: bool = False,
) -> ForeignText:
    """Reads a file's text, or both ends if it is larger than `whole` bytes; follows no link that leaves `inside`.

    `in_real_directory` says that no directory between `inside` and the file is a link, which saves resolving the path.
    """
    try:
        if in_real_directory and not os.path.islink(path):
            real = path
        else:
            real = os.path.realpath(path, strict=True)
            if inside is not None and not is_inside(real, os.path.realpath(inside)):
                return ForeignText(text=None, note="it is a link that leads out of its place")
        if not stat.S_ISREG(mode := os.stat(real).st_mode):
            return ForeignText(text=None, note=f"it is {_kind(mode)}, not a file")
        size, data = _read(real, whole)
    except OSError as error:
        return ForeignText(text=None, note=_reason(error, path))
    except ValueError:  # a NUL in the path
        return ForeignText(text=None, note="its name is not a usable path")
    return _decode(data, size)


def is_inside(path: str, directory: str) -> bool:
    """Whether a resolved path is the directory or below it."""
    return path == directory or path.startswith(directory.rstrip(os.sep) + os.sep)


def _read(real: str, whole: int) -> tuple[int, bytes]:
    descriptor = os.open(real, _FLAGS)
    with open(descriptor, "rb", buffering=0) as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, f"it is {_kind(status.st_mode)}, not a file")
        if status.st_size <= whole:
            return status.st_size, file.read(status.st_size) or b""
        head = file.read(HEAD_BYTES) or b""
        file.seek(-TAIL_BYTES, os.SEEK_END)
        return status.st_size, head + (file.read(TAIL_BYTES) or b"")


# Another program may replace the file by a pipe after the check; without O_NONBLOCK, `open` would wait for a writer.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def _reason(error: OSError, path: str) -> str:
    match error.errno:
        case errno.ELOOP:
            return "it is a link that leads back to itself"
        case errno.ENOENT if os.path.islink(path):
            return "it is a link to a file that does not exist"
        case errno.EACCES | errno.EPERM:
            return "permission to read it was denied"
    return error.strerror or "it could not be read"


def _decode(data: bytes, size: int) -> ForeignText:
    wide = next((name for mark, name in _WIDE if data.startswith(mark)), None)
    if wide is not None:
        return _decode_wide(data, size, wide)
    if b"\0" in data:
        return ForeignText(text=None, note="it is binary, not text")
    if size > len(data):
        return _decode_ends(data, size)
    try:
        return ForeignText(text=_lines(data.decode()), exact=True)
    except UnicodeDecodeError:
        return _with_replacements(data.decode("utf-8", "replace"))


def _decode_ends(data: bytes, size: int) -> ForeignText:
    # Both cuts may be in the middle of a character.
    head = codecs.getincrementaldecoder("utf-8")("replace").decode(data[:HEAD_BYTES])
    tail = data[HEAD_BYTES:].lstrip(_CONTINUATION).decode("utf-8", "replace")
    note = f"it has {size:,} bytes and only its first and last part were read"
    return _with_replacements(f"{head}\n{tail}", note)


def _with_replacements(text: str, note: str = "") -> ForeignText:
    wrong = text.count("\ufffd")
    if wrong > _GARBAGE * len(text):
        return ForeignText(text=None, note="it is binary, not text")
    notes = [f"{wrong:,} bytes in it are not UTF-8"] if wrong else []
    return ForeignText(text=_lines(text), note="; ".join([*notes, note] if note else notes))


_CONTINUATION = bytes(range(0x80, 0xC0))  # UTF-8 bytes that continue a character
_WIDE = (  # the longer marks first: UTF-32's begins with UTF-16's
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def _decode_wide(data: bytes, size: int, encoding: str) -> ForeignText:
    label = encoding.upper()
    if size > len(data):
        return ForeignText(text=None, note=f"it is {label} and too large ({size:,} bytes)")
    try:
        return ForeignText(text=_lines(data.decode(encoding)), note=f"it is {label}; save it as UTF-8")
    except UnicodeDecodeError:
        return ForeignText(text=None, note=f"it is marked as {label} but is not; save it as UTF-8")


def _lines(text: str) -> str:
    text = text.removeprefix("\ufeff")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
