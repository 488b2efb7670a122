"""Builds a home beside the real one and puts it in place with one rename, or not at all.

`NewHome` is built from an archive; the home it replaces is kept beside it. `HomeCopy` is a copy of the home that a
migration changes; the home it replaces is removed, because all of it is in the copy. Files in the copy are hard
links, so the copy is cheap, and programs that have a file of the home open keep using the same file. Files that are
written in place (histories, databases that the migration changes) are copied. Locks are moved last, so that a program
that holds one keeps it.

While the new home is built, its folder `HOME.arriving-…` holds an empty folder `.migrating`. The next migration removes
what a killed one left.

An import, a migration or a restore can bring settings that let something run, connect or be reached, plug-ins, and the
server's list of keys. They are moved into the home's folder `disabled/`, under the same names, until the person agrees;
`enable` puts them back. Whatever the current home already has with the same content stays enabled.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from typing import TYPE_CHECKING, Any, Self

from hermes.base.errors import LockTimeout, SettingsError, StorageError, UnsafePath
from hermes.portability.archive import (
    DATABASE_FILES,
    database_stamps,
    files_below,
    read_bytes,
    remove_tree,
    stamp,
)
from hermes.safety.secrets import mask_secrets
from hermes.settings.config import FILE as CONFIG
from hermes.settings.config import check_text
from hermes.settings.home import DATABASE, PROFILES, Home
from hermes.settings.people import FILE as SERVER_KEYS
from hermes.settings.schema import all_keys
from hermes.settings.yaml_file import parse, place_value, unset_value
from hermes.storage.documents import history_name
from hermes.storage.files import ARRIVING, LOCK, MIGRATION_FOLDER, Folder, explain, is_running, make_private_folders
from hermes.storage.local.repair.check import alone
from hermes.storage.locks import FileLock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hermes.portability.archive import Stamp


_BUILDING = ".arriving-"
_BACKUPS = "backups"
_LOCK_TIMEOUT = 10
_NOT_MISSED = frozenset(("cache", "logs", _BACKUPS))  # folders that do not make a home count as used
_HISTORY = history_name("")
_LOCKS = (".lock", ".lock.queue")


class NewHome:
    """A new home, built at `path`; `put_in_place` exchanges it with the real one."""

    def __init__(self, home: str) -> None:
        self.home = os.path.abspath(home)
        self._parent, self._name = os.path.split(self.home)
        self._built = f"{self._name}{_BUILDING}{os.getpid()}-{os.urandom(3).hex()}"
        self.path = os.path.join(self._parent, self._built)
        self._held = contextlib.ExitStack()

    def __enter__(self) -> Self:
        was_there = os.path.lexists(self.home)
        make_private_folders(self.home)
        with contextlib.ExitStack() as held:
            held.enter_context(_migration_lock(self.home))
            self._remove_abandoned()
            if os.path.ismount(self.home):
                raise StorageError(
                    f"{self.home} is a mount point, so another folder cannot take its place; "
                    "move the home into a folder inside it, and set --home or HERMES_HOME to that"
                )
            make_private_folders(os.path.join(self.path, MIGRATION_FOLDER))
            held.callback(self._remove_unless_placed, was_there=was_there)
            self._held = held.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def put_in_place(self) -> str | None:
        """Puts the new home in place; returns where the old one is kept, or None if it was empty."""
        kept = f"{self._name}.before-{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"
        backups = os.path.join(self.home, _BACKUPS)
        if os.path.isdir(backups) and not os.path.lexists(os.path.join(self.path, _BACKUPS)):
            shutil.copytree(backups, os.path.join(self.path, _BACKUPS), copy_function=os.link)
        database = os.path.join(self.home, DATABASE)
        if os.path.exists(database):
            with alone(database):
                pass  # only to raise if it is in use: that process would delete the new one's log on closing
        self._exchange(kept)
        path = os.path.join(self._parent, kept)
        if is_empty(path):
            remove_tree(path)
            return None
        return path

    def _exchange(self, aside: str) -> None:
        """Swaps the two homes and renames the old one to `aside`."""
        with Folder.create(self._parent) as parent:
            if parent.exchange(self._built, self._name):
                parent.sync()
                self._unmark(self.home)
                parent.rename(self._built, aside)
            else:
                self._rename_both(parent, aside)
                self._unmark(self.home)
            parent.sync()

    def _rename_both(self, parent: Folder, aside: str) -> None:
        """Swaps the homes with two renames, for systems that cannot exchange two names.

        Between the renames there is no home. Until both are done, a file next to it names the new one, so that the next
        program that looks for the home can complete them (`settings/home`).
        """
        mark = self._name + ARRIVING
        with FileLock(parent, mark, timeout=0):
            with parent.open_for_append(mark) as file:
                file.append((json.dumps({"staged": self._built}) + "\n").encode(), sync=True)
            parent.rename(self._name, aside)
            try:
                parent.rename(self._built, self._name)
            except StorageError:
                parent.rename(aside, self._name)
                raise
            finally:
                parent.sync()
                parent.remove(mark)

    def _remove_abandoned(self) -> None:
        """Removes a home that a killed run never put in place, and names an old one that it had not named yet."""
        self._unmark(self.home)
        for name in os.listdir(self._parent):
            process = name.removeprefix(self._name + _BUILDING).partition("-")[0]
            if not name.startswith(self._name + _BUILDING) or (process.isdecimal() and is_running(int(process))):
                continue
            path = os.path.join(self._parent, name)
            # A home that was never in place, or one that `HomeCopy.swap` replaced, has the mark; any other is kept.
            if os.path.isdir(os.path.join(path, MIGRATION_FOLDER)):
                remove_tree(path)
            else:
                os.rename(path, path.replace(_BUILDING, ".before-"))

    def _remove_unless_placed(self, *, was_there: bool) -> None:
        if os.path.isdir(os.path.join(self.path, MIGRATION_FOLDER)):
            remove_tree(self.path)
            if not was_there and is_empty(self.home):
                remove_tree(self.home)

    @staticmethod
    def _unmark(home: str) -> None:
        with contextlib.suppress(OSError):
            os.rmdir(os.path.join(home, MIGRATION_FOLDER))


class HomeCopy(NewHome):
    """A copy of the home that a migration changes: `with HomeCopy(path) as copy: …; copy.swap()`.

    Callers pass paths of the real home. The functions in `after` run once the copy is in place; they write files
    outside the home.
    """

    def __init__(self, home: str) -> None:
        super().__init__(home)
        self.after: list[Callable[[], object]] = []
        self._taken: dict[str, tuple[Stamp, Stamp]] = {}  # each file's stamps, in the home and in the copy, when copied
        self._databases: dict[str, list[Stamp]] = {}  # stamps of databases that must not change before the swap

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            for path in _files(self.home):
                if not path.endswith(_LOCKS):
                    self._take(path)
        except BaseException:
            self.__exit__()
            raise
        return self

    def inside(self, *names: str) -> str:
        """The path in the copy that corresponds to one in the home; refuses one that a link leads out of the home."""
        inside = os.path.relpath(os.path.join(self.home, *names), self.home)
        path = os.path.join(self.path, inside)
        if inside.startswith("..") or not self.holds(os.path.dirname(path)):
            real = os.path.realpath(os.path.dirname(path))
            raise UnsafePath(
                f"{os.path.join(self.home, *names)} leads out of the home, to {real}; replace the link with a folder "
                "and try again"
            )
        return path

    def holds(self, path: str) -> bool:
        """Whether a path, with all links resolved, is inside the copy."""
        real, own = os.path.realpath(path), os.path.realpath(self.path)
        return real == own or real.startswith(os.path.join(own, ""))

    def home_of(self, home: Home) -> Home:
        """The copy of the home or of one of its profiles."""
        root = self.path if home.root == self.home else home.root
        return Home(path=self.inside(home.path), root=root, profile=home.profile, above=home.above)

    def write(self, data: bytes, *names: str, mode: int = 0o600) -> None:
        """Writes a file in the copy as a new file: the old one may be a hard link to that of the real home."""
        path = self.inside(*names)
        make_private_folders(os.path.dirname(path))
        with Folder.create(os.path.dirname(path)) as folder:
            folder.replace(os.path.basename(path), data)
        if mode != 0o600:  # noqa: PLR2004 - what every private file has
            os.chmod(path, mode)

    def clear(self, *names: str) -> None:
        """Removes a file or folder from the copy; the real home keeps it until the swap."""
        remove_tree(self.inside(*names))

    def reserve(self, path: str) -> None:
        """Makes `swap` refuse if this database changes in the home from now on; fails if a program has it open."""
        with alone(path):
            self._databases[path] = database_stamps(path)

    def own_database(self, path: str) -> str:
        """Path of a writable copy of a database, with everything the real one holds."""
        copy = self.inside(path)
        if not os.path.exists(path) or path in self._databases:
            return copy
        with alone(path):
            self._databases[path] = database_stamps(path)
            needed = sum(os.path.getsize(path + suffix) for suffix in DATABASE_FILES if os.path.exists(path + suffix))
            free = shutil.disk_usage(self._parent).free
            if needed > free:
                raise StorageError(
                    f"a copy of {path} needs {needed >> 20:,} MiB and {free >> 20:,} MiB are free; "
                    "nothing was changed; make room and try again"
                )
            for suffix in (*DATABASE_FILES, "-shm"):  # hard links: writing through them would change the real home
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(copy + suffix)
            for suffix in DATABASE_FILES:
                if os.path.exists(path + suffix):
                    shutil.copy2(path + suffix, copy + suffix, follow_symlinks=False)
        return copy

    def swap(self) -> None:
        """Puts the copy in place, with the changes that other programs have made to the home since it was copied.

        Refuses if they changed a file that the migration changed too. Holds the locks of memory until the old home is
        gone, so that a program waiting for one does not write to the old home.
        """
        with contextlib.ExitStack() as held:
            for path in self._taken:
                if path.endswith(_HISTORY):
                    folder = held.enter_context(Folder.create(os.path.join(self.home, os.path.dirname(path))))
                    name = os.path.basename(path).removesuffix(_HISTORY)
                    held.enter_context(FileLock(folder, f"{name}.lock", timeout=_LOCK_TIMEOUT))
            for path, before in self._databases.items():
                held.enter_context(alone(path))
                if database_stamps(path) != before:
                    raise _changed(path)
            self._take_changes()
            for place, _, _ in os.walk(self.path):  # the rename must not reach the disk before what it puts in place
                with Folder.create(place) as folder:
                    folder.sync()
            make_private_folders(os.path.join(self.home, MIGRATION_FOLDER))  # marks the old home as removable
            try:
                self._exchange(f"{self._built}-old")
            except BaseException:
                self._unmark(self.home)
                raise
            old = f"{self.path}-old"
            for path in _files(old):
                if path.endswith(_LOCKS):
                    with contextlib.suppress(OSError):
                        os.rename(os.path.join(old, path), os.path.join(self.home, path))
            remove_tree(old)
        for act in self.after:
            act()

    def _take(self, path: str) -> None:
        """Links or copies a file or folder into the copy."""
        real, copy = os.path.join(self.home, path), os.path.join(self.path, path)
        try:
            if os.path.isdir(real) and not os.path.islink(real):
                os.makedirs(copy, exist_ok=True)
                shutil.copymode(real, copy)
            elif path.endswith(".jsonl"):  # appended to in place, which through a link would change the real home
                shutil.copy2(real, copy, follow_symlinks=False)
            else:
                self._link(real, copy)
        except FileNotFoundError:
            return  # removed a moment ago
        except OSError as error:
            raise explain("copy", real, error) from error
        self._taken[path] = (stamp(real), stamp(copy))

    def _link(self, real: str, copy: str) -> None:
        try:
            os.link(real, copy, follow_symlinks=False)
        except FileNotFoundError:
            raise
        except OSError:  # a file system without links
            if real.endswith(".db"):
                self.own_database(real)
            else:
                shutil.copy2(real, copy, follow_symlinks=False)

    def _take_changes(self) -> None:
        """Copies what others changed since; refuses if the migration changed the same file."""
        there = [path for path in _files(self.home) if not path.endswith(_LOCKS)]
        databases = {path + suffix for path in self._databases for suffix in (*DATABASE_FILES, "-shm")}
        for path in (*there, *(self._taken.keys() - set(there))):
            real, copy = os.path.join(self.home, path), os.path.join(self.path, path)
            before, now = self._taken.get(path, ((), ())), (stamp(real), stamp(copy))
            if now[0] in (before[0], now[1]) or real in databases:  # unchanged, or still the same file through a link
                continue
            if now[1] != before[1]:  # changed on both sides
                raise _changed(real)
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                os.unlink(copy)
            if os.path.lexists(real):
                self._take(path)


def is_empty(home: str) -> bool:
    """Whether the home does not exist or holds only caches, logs, backups and locks, so it may be replaced."""
    if not os.path.isdir(home):
        return not os.path.lexists(home)
    for _, folders, files in os.walk(home):
        folders[:] = [name for name in folders if name not in _NOT_MISSED]
        if any(not name.endswith(_LOCKS) for name in files):
            return False
    return True


@contextlib.contextmanager
def _migration_lock(home: str) -> Iterator[None]:
    """Allows one migration of a home at a time; the error names the process that runs one."""
    with Folder.create(home) as folder:
        lock = FileLock(folder, LOCK, timeout=_LOCK_TIMEOUT)
        try:
            lock.__enter__()
        except LockTimeout as error:
            raise LockTimeout(f"another migration of {home} is running; {error}") from error
        with lock:
            yield


def _files(home: str) -> Iterator[str]:
    """Every folder and file of a home, folders first, as paths inside it."""
    for place, folders, names in os.walk(home):
        if place == home:
            folders[:] = [name for name in folders if name != MIGRATION_FOLDER]
        for name in (*folders, *names):
            yield os.path.relpath(os.path.join(place, name), home)


def _changed(path: str) -> StorageError:
    return StorageError(f"{path} was changed by another program during the migration; nothing was migrated; try again")


DISABLED = "disabled"
_PLUGINS = "plugins"
# Files that grant or command something, so an archive from anybody must not bring them in unnoticed.
_FILES = {
    SERVER_KEYS: "the people of the server and their keys",
    "trust.json": "the folders that are trusted",
    "rules.json": "rules for the agent",
    "reminders.json": "reminders",
}
_LARGEST = 64 << 20
_LONGEST = 160  # characters of one description


def disable(new: str, in_use: str) -> list[str]:
    """Disables settings and plug-ins of a new home that the home in use does not have; returns descriptions of them."""
    return [
        label + each
        for home, label in _homes(new)
        for each in _disable_in(home, os.path.join(in_use, os.path.relpath(home.path, new)))
    ]


def disabled_in(path: str) -> list[str]:
    """Descriptions of what is disabled in a home, as `disable` returns them."""
    found = []
    for home, label in _homes(path):
        settings, _ = _settings(home.join(DISABLED, CONFIG))
        found += [label + _in_words(name, given) for name, given in settings.items()]
        found += [label + _file_in_words(name) for name in _held_files(home.join(DISABLED))]
    return found


def disabled_setting(home: Home, name: str) -> Any:
    """The value of a disabled setting; None if there is none."""
    return _settings(home.join(DISABLED, CONFIG))[0].get(name)


def enable(path: str) -> list[str]:
    """Enables everything that is disabled, except where the person has set or installed something else since."""
    found = disabled_in(path)
    for home, _ in _homes(path):
        here, _ = _settings(home.join(CONFIG))
        for name, given in _settings(home.join(DISABLED, CONFIG))[0].items():
            if name not in here:
                place_value(home, CONFIG, name, given)
        for name in _held_files(home.join(DISABLED)):
            if not os.path.lexists(home.join(name)):
                _move(home.join(DISABLED, name), home.join(name))
        remove_tree(home.join(DISABLED))
    return found


def _homes(path: str) -> Iterator[tuple[Home, str]]:
    """The home and its profiles, which have their own settings and plug-ins; people share those of the operator."""
    yield Home(path=path, root=path), ""
    profiles = os.path.join(path, PROFILES)
    for name in sorted(os.listdir(profiles)) if os.path.isdir(profiles) else ():
        if os.path.isdir(os.path.join(profiles, name)):
            yield Home(path=os.path.join(profiles, name), root=path, profile=name), f"profile {name}: "


def _disable_in(home: Home, before: str) -> Iterator[str]:
    """Moves what is new to `disabled/` and yields descriptions; `before` is the folder of the same home in use."""
    given, readable = _settings(home.join(CONFIG))
    agreed, _ = _settings(os.path.join(before, CONFIG))
    keys = all_keys()
    try:
        for name, value in given.items():
            if keys[name].enables(value) and agreed.get(name) != value:
                place_value(home, os.path.join(DISABLED, CONFIG), name, value)
                unset_value(home, CONFIG, name)
                yield _in_words(name, value)
    except SettingsError:
        readable = False
    if not readable and not _is_same(home.join(CONFIG), os.path.join(before, CONFIG)):
        # A file that cannot be edited line by line, such as one with YAML merge keys, is moved as a whole.
        _move(home.join(CONFIG), home.join(DISABLED, "unreadable.yaml"))
        yield f"{CONFIG}, which cannot be read: correct {DISABLED}/unreadable.yaml and move it back"
    for name in _held_files(home.path):
        if not _is_same(home.join(name), os.path.join(before, name)):
            _move(home.join(name), home.join(DISABLED, name))
            yield _file_in_words(name)


def _held_files(folder: str) -> list[str]:
    plugins = os.path.join(folder, _PLUGINS)
    names = [os.path.join(_PLUGINS, name) for name in sorted(os.listdir(plugins))] if os.path.isdir(plugins) else []
    return names + [name for name in _FILES if os.path.lexists(os.path.join(folder, name))]


def _settings(path: str) -> tuple[dict[str, Any], bool]:
    """The settings in a file, and whether it could be parsed."""
    try:
        data = read_bytes(path)
        parse(path, data)
    except FileNotFoundError:
        return {}, True
    except SettingsError:
        return {}, False
    return {name: each.value for name, each in check_text(path, data)[0].items()}, True


def _is_same(one: str, other: str) -> bool:
    """Whether two files, or all files of two folders, have the same content."""
    if os.path.isdir(one) and os.path.isdir(other) and not os.path.islink(other):
        inside, there = dict(files_below(one)), dict(files_below(other))
        return inside.keys() == there.keys() and all(_is_same(inside[name], there[name]) for name in inside)
    try:
        return os.path.isfile(one) and read_bytes(one, _LARGEST) == read_bytes(other, _LARGEST)
    except FileNotFoundError:
        return False


def _move(path: str, to: str) -> None:
    make_private_folders(os.path.dirname(to))
    remove_tree(to)  # left by an earlier import
    shutil.move(path, to)


def _in_words(name: str, value: Any) -> str:
    if name == "mcp_servers" and isinstance(value, dict):
        started = []
        for key, server in value.items():
            words = [server] if not isinstance(server, dict) else [server.get("command") or server.get("url")]
            words += (server.get("args") or ()) if isinstance(server, dict) and server.get("command") else ()
            started.append(f"{key} ({' '.join(map(str, words))})")
        name, value = "MCP servers", ", ".join(started)
    return mask_secrets(f"{name}: {value}")[:_LONGEST]


def _file_in_words(name: str) -> str:
    return f"{name}: {_FILES[name]}" if name in _FILES else f"plug-in {os.path.basename(name)}, a program"
