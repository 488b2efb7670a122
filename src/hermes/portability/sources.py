"""Reads files and databases of other programs without following a link or altering a byte."""

from __future__ import annotations

import json
import os
import re
import stat
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import apsw

from hermes.base.errors import DamagedFile, NotFound, StorageError, UnsafePath
from hermes.storage.files import PRIVATE_FILE, explain

if TYPE_CHECKING:
    from collections.abc import Iterator

_PIECE = 1 << 20
_LOGS = ("-wal", "-journal")
_TRIES = 5
_PAUSE = 0.2
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def merged(path: str, place: str) -> str:
    """The path itself, or a private copy in the folder `place` with the log laid over it when there is one."""
    if not any(os.path.lexists(path + suffix) for suffix in _LOGS):
        return path
    copy = os.path.join(place, "merged.db")
    for _ in range(_TRIES):
        before = _state(path)
        for suffix in ("", *_LOGS):
            _copy(path + suffix, copy + suffix)
        if _state(path) == before:
            _lay_over(path, copy)
            return copy
        time.sleep(_PAUSE)
    raise StorageError(f"{path} is being written all the time; end the program that has it open and try again")


def _state(path: str) -> list[tuple[int, int, int] | None]:
    """Enough to notice that somebody has written meanwhile: pieces of two moments would fit nowhere."""
    found: list[tuple[int, int, int] | None] = []
    for suffix in ("", *_LOGS):
        try:
            status = os.lstat(path + suffix)
        except FileNotFoundError:
            found.append(None)
        else:
            found.append((status.st_size, status.st_mtime_ns, status.st_ino))
    return found


def _copy(path: str, to: str) -> None:
    try:
        source = os.open(path, _READ)
    except FileNotFoundError:
        if os.path.lexists(to):
            os.unlink(to)  # of an earlier try
        return
    except OSError as error:
        raise explain("read", path, error) from error
    try:
        if not stat.S_ISREG(os.fstat(source).st_mode):
            raise UnsafePath(f"{path} is not a regular file; move it away and try again")
        target = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE_FILE)
        with os.fdopen(target, "wb") as file:
            while piece := os.read(source, _PIECE):
                file.write(piece)
    except OSError as error:
        raise explain("copy", path, error) from error
    finally:
        os.close(source)


def _lay_over(path: str, copy: str) -> None:
    try:
        connection = apsw.Connection(copy)
        try:
            connection.pragma("trusted_schema", False)
            connection.pragma("journal_mode", "DELETE")  # brings the log into the file and removes it
        finally:
            connection.close()
    except apsw.Error as error:
        raise DamagedFile(f"{path} cannot be read with its log ({error}); copy it anew from where it came") from error


ROOTS = (".openclaw", ".clawdbot", ".moltbot")
CONFIGS = ("openclaw.json", "clawdbot.json", "moltbot.json")
PROGRAMS = ("openclaw", "clawdbot", "moltbot")
_WORKSPACES = ("workspace", "workspace-main", "workspace-assistant", "workspace.default")
LARGEST_FILE = 4 << 20
_MOST_FILES = 20_000
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\')|//[^\n]*|/\*.*?\*/', re.DOTALL)


PRESETS = ("full", "user-data")
CONFLICTS = ("skip", "overwrite", "rename")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    source: str | None = None
    preset: str = "full"
    overwrite: bool = False
    migrate_secrets: bool = False
    workspace_target: str | None = None
    skill_conflict: str = "skip"
    backup: bool = True
    enable: bool = False
    user_home: str | None = None


@dataclass(slots=True, kw_only=True)
class OpenClaw:
    """What stands at the source. `workspace` is the main one, `others` belong to other agents."""

    root: str
    config: dict[str, Any] = field(default_factory=dict)
    config_file: str = ""
    workspace: str = ""
    others: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def read(self, *names: str) -> str | None:
        """A text of the main workspace; None when there is none. What cannot be read is a warning."""
        return self.read_path(os.path.join(self.workspace, *names)) if self.workspace else None

    def read_path(self, path: str) -> str | None:
        try:
            return read_text(path)
        except FileNotFoundError:
            return None
        except StorageError as error:
            self.warnings.append(str(error))
            return None


def find_openclaw(given: str | None, user_home: str | None = None) -> OpenClaw:
    """The home that was named, else the first of the usual ones that exists."""
    base = user_home or os.path.expanduser("~")
    places = [os.path.expanduser(given)] if given else [os.path.join(base, name) for name in ROOTS]
    root = next((os.path.realpath(place) for place in places if os.path.isdir(place)), None)
    if root is None:
        raise NotFound(f"there is no OpenClaw home at {' or '.join(places)}; name it with --source")
    found = OpenClaw(root=root)
    _read_config(found)
    _find_workspaces(found, base)
    return found


def _read_config(found: OpenClaw) -> None:
    for name in CONFIGS:
        text = found.read_path(os.path.join(found.root, name))
        if text is None:
            continue
        found.config_file = os.path.join(found.root, name)
        try:
            found.config = _json5(text)
        except ValueError as error:
            found.warnings.append(f"{found.config_file} cannot be read ({error}); its settings stay behind")
        return


def _find_workspaces(found: OpenClaw, base: str) -> None:
    chosen = dig(found.config, "agents", "defaults", "workspace") or dig(found.config, "agent", "workspace")
    names = [os.path.join(found.root, name) for name in _WORKSPACES]
    names += sorted(os.path.join(found.root, name) for name in os.listdir(found.root) if name.startswith("workspace-"))
    if isinstance(chosen, str) and chosen.strip():
        names.insert(0, os.path.join(found.root, re.sub(r"^~(?=/|$)", base.replace("\\", "/"), chosen)))
    real = [os.path.realpath(name) for name in dict.fromkeys(names) if _is_folder(name)]
    if real:
        found.workspace, *found.others = dict.fromkeys(real)
    else:
        found.warnings.append(f"{found.root} has no workspace; only its settings and shared skills can come over")


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def read_text(path: str) -> str:
    """The file as text; a link, a device or a giant is refused, odd bytes are read as well as can be."""
    from hermes.memory.entries import decode

    return decode(read_bytes(path)).text


def read_bytes(path: str, at_most: int = LARGEST_FILE) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise StorageError(f"{path} is not a regular file; it stays where it is")
            if status.st_size > at_most:
                raise StorageError(f"{path} has {status.st_size:,} bytes, more than {at_most:,}; it stays where it is")
            return file.read(at_most + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StorageError(f"{path} is not read: {error.strerror or error}; it stays where it is") from error


def files_below(folder: str) -> Iterator[tuple[str, str]]:
    """Relative and full path of each regular file below a folder; links are passed over."""
    count = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not os.path.islink(os.path.join(place, name)))
        for name in sorted(names):
            path = os.path.join(place, name)
            if stat.S_ISREG(os.lstat(path).st_mode):
                count += 1
                if count > _MOST_FILES:
                    raise StorageError(f"{folder} holds more than {_MOST_FILES:,} files; look at what is in it")
                yield os.path.relpath(path, folder), path


def links_below(folder: str) -> list[str]:
    return [
        os.path.join(place, name)
        for place, folders, names in os.walk(folder)
        for name in (*folders, *names)
        if os.path.islink(os.path.join(place, name))
    ]


def is_running(names: tuple[str, ...] = PROGRAMS) -> list[str]:
    """Processes of the old program, as far as this system shows them."""
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read(4096).decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        started = [os.path.splitext(os.path.basename(word))[0] for word in words[:2]]
        if any(word in names or word.removesuffix("-gateway") in names for word in started):
            found.append(f"{' '.join(filter(None, words[:3]))} (process {name})")
    return found


def dig(tree: Any, *names: str) -> Any:
    for name in names:
        if not isinstance(tree, dict):
            return None
        tree = tree.get(name)
    return tree


def _json5(text: str) -> dict[str, Any]:
    """JSON as people write it: with comments, trailing commas and bare keys."""
    bare = _COMMENT.sub(lambda found: found[1] or " ", text)
    try:
        tree = json.loads(bare)
    except (ValueError, RecursionError):
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError

        try:
            tree = YAML(typ="safe", pure=True).load(bare.replace("\t", " "))  # flow mappings take the rest of JSON5
        except (YAMLError, ValueError, RecursionError) as error:
            raise ValueError(str(error).split("\n", maxsplit=1)[0]) from error
    if not isinstance(tree, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - one kind of error for one reader
    return tree
