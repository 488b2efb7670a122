"""Where Hermes keeps everything: `$HERMES_HOME` (default `~/.hermes`), with profiles, people and projects."""

from __future__ import annotations

import os
import stat

from hermes.base.errors import DamagedFile, HermesError, NotFound, SettingsError
from hermes.base.values import value
from hermes.storage.files import ARRIVING, MIGRATION_FOLDER, Folder, explain, read_private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

PROFILES = "profiles"
PEOPLE = "users"
STICKY_CHOICE = "active_profile"  # the file that holds the name `hermes profile use` chose
DEFAULT_PROFILE = "default"
DATABASE = "state.db"
UNSAVED = "unsaved"  # databases of conversations that could not be stored yet
SHARED = os.path.join("shared", "KNOWLEDGE.md")  # in the operator's home: what every person's agent may know
_LONGEST_NAME = 64
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")
_TAKEN = frozenset({"con", "prn", "aux", "nul"})  # Windows opens a device under these


@value
class Home:
    """A resolved home. `root` is the folder with the profiles; without a profile it is the home itself.

    The home of a person is complete, but settings, secrets, identity and plug-ins are the operator's: `above` is the
    folder with those. Nothing else of another home can be reached from it.
    """

    path: str
    root: str
    profile: str = ""
    above: str = ""

    def join(self, *names: str) -> str:
        """Makes the path of something in the home."""
        return os.path.join(self.path, *names)

    @property
    def operator(self) -> str:
        """The folder of settings, secrets, identity and plug-ins; for most homes the home itself."""
        return self.above or self.path

    @property
    def person(self) -> str:
        """The name of the person whose home this is; "" for the operator's own home."""
        return os.path.basename(self.path) if self.above else ""


def find_home(home: str | os.PathLike[str] | Home | None = None) -> Home:
    """Resolves the home a program names; without a name, the one the `hermes` command would use.

    A named path is taken as it is: the profile a person chose for the command line does not change it.
    """
    if home is None:
        return locate_home()
    if isinstance(home, Home):
        return _whole(home)
    path = _absolute(os.fspath(home))
    return _whole(Home(path=path, root=path))


def locate_home(home: str | None = None, profile: str | None = None) -> Home:
    """Resolves the home from `--home` and `--profile`, then from $HERMES_HOME and the chosen profile."""
    root = _absolute(home or os.environ.get("HERMES_HOME") or os.path.join("~", ".hermes"))
    _check_whole(root)
    name = profile if profile is not None else chosen_profile(root)
    if name in ("", DEFAULT_PROFILE):
        return Home(path=root, root=root)
    return _whole(Home(path=existing_profile(root, name), root=root, profile=name))


def existing_profile(root: str, name: str) -> str:
    """Gives the folder of a profile; `NotFound` lists the profiles that exist."""
    path = profile_path(root, name)
    if not os.path.isdir(path):
        if name == DEFAULT_PROFILE:
            raise NotFound(f"{name} is the home itself ({root}), not one of its profiles")
        existing = ", ".join(profile_names(root)) or "none yet"
        raise NotFound(
            f"there is no profile {name!r} in {root} (existing: {existing}); "
            f"make it with `hermes profile create {name}`"
        )
    return path


def _whole(home: Home) -> Home:
    """Returns the home after checking that no interrupted migration left it, or one above it, half done."""
    for place in {home.path, home.root, home.operator}:
        _check_whole(place)
    return home


def profile_path(root: str, name: str) -> str:
    """Gives the folder of a profile, whether it exists or not; refuses an invalid name."""
    check_name(name, "a profile name")
    return os.path.join(root, PROFILES, name)


def check_name(name: str, role: str) -> None:
    """Refuses a name that cannot be a folder on every system, or that could lead out of its folder."""
    if not name or len(name) > _LONGEST_NAME or not set(name) <= _NAME_CHARACTERS or name[0] in "_-":
        raise SettingsError(
            f"{name[:100]!r} cannot be {role}: use 1 to {_LONGEST_NAME} small letters, digits, - and _, "
            "starting with a letter or digit"
        )
    if name in _TAKEN or (name[:3] in ("com", "lpt") and name[3:].isdigit()):
        raise SettingsError(f"{name!r} cannot be {role}: some systems keep this name for a device; choose another")


def person_home(home: Home, name: str) -> Home:
    """Resolves the home of a person below this one; unknown and invalid names get the same error."""
    path = os.path.join(home.path, PEOPLE, name)
    try:
        check_name(name, "a person's name")
        known = not home.above and stat.S_ISDIR(os.lstat(path).st_mode)
    except (SettingsError, OSError, ValueError):
        known = False
    if not known:
        raise NotFound(f"there is no person {name[:100]!r} here; `hermes users list` shows who there is")
    return _whole(Home(path=path, root=path, above=home.path))


def profile_names(root: str) -> list[str]:
    """Lists the profiles in a root; the default one, which is the root itself, is not among them."""
    try:
        return sorted(entry.name for entry in os.scandir(os.path.join(root, PROFILES)) if entry.is_dir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise explain("list", os.path.join(root, PROFILES), error) from error


def choose_profile(root: str, name: str) -> None:
    """Makes a profile the one that commands without `--profile` use."""
    if name != DEFAULT_PROFILE:
        locate_home(root, name)
    with Folder.create(root) as folder:
        if name == DEFAULT_PROFILE:
            folder.remove(STICKY_CHOICE)
        else:
            folder.replace(STICKY_CHOICE, f"{name}\n".encode())


def chosen_profile(root: str) -> str:
    """The profile that commands without `--profile` use; "" for the home itself."""
    return (read_private(f"{root}/{STICKY_CHOICE}", at_most=1024) or b"").decode("utf-8", "replace").strip()


def _absolute(path: str) -> str:
    return os.path.realpath(os.path.expanduser(path))


# Which project a piece of work belongs to: a repository, identified by its path, or a name that a person gives.

_DIGITS = 8  # of the digest of a path
_SHOWN = 40  # characters of a repository's name
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")


def project_of(folder: str) -> str:
    """The project of the repository around a folder, such as `webshop-1f3a9c02`; "" outside any repository.

    The digest of the path tells two repositories of the same name apart.
    """
    root = project_root(os.path.realpath(os.path.expanduser(folder)))
    if not root:
        return ""
    import hashlib

    name = "".join(letter if letter in _PLAIN else "-" for letter in os.path.basename(root).lower())
    digest = hashlib.sha256(os.fsencode(root)).hexdigest()[:_DIGITS]
    return f"{name[:_SHOWN].strip('-_') or 'project'}-{digest}"


def named_project(words: str, cwd: str | None = None) -> str:
    """Resolves what a person means by `--project`: a name, or a path (`.` for here) inside a repository."""
    if words in (".", "..") or os.sep in words or words.startswith("~"):
        folder = os.path.join(cwd or os.getcwd(), os.path.expanduser(words))
        found = project_of(folder)
        if not found:
            raise NotFound(
                f"{os.path.realpath(folder)} is not in a repository; name the project instead, or run `git init`"
            )
        return found
    check_name(words, "a project's name")
    return words


def namesakes(folder: str, project: str) -> list[str]:
    """Lists other projects in `folder` with this name: a repository that was moved counts as a new project."""
    try:
        there = sorted(os.listdir(folder))
    except OSError:
        return []
    name = _without_digest(project)
    return [each for each in there if each != project and _without_digest(each) == name]


def _without_digest(project: str) -> str:
    name, _, digest = project.rpartition("-")
    return name if name and len(digest) == _DIGITS and not set(digest) - set("0123456789abcdef") else project


def recorded_project(words: str | None) -> str:
    """The project of a stored session; "" when another program stored a folder that does not exist here."""
    try:
        return named_project(words) if words else ""
    except HermesError:
        return ""


def project_root(folder: str) -> str:
    """The folder of the repository around a folder; "" outside any repository."""
    while True:
        if os.path.lexists(os.path.join(folder, ".git")):  # a folder, or the file of a worktree
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return ""
        folder = parent


def import_plugin(kind: str, name: str, folder: str) -> ModuleType:
    """Imports the Python package in a plug-in's folder, once per process.

    Two homes may have plug-ins of the same name; each becomes a module of its own.
    """
    import importlib.util
    import sys

    # Python's own hash differs from process to process, which is good enough here and saves loading hashlib.
    mark = f"{hash(os.path.realpath(folder)) & 0xFFFFFFFFFFFFFFFF:016x}"
    full_name = f"hermes_{kind}_{name.replace('-', '_')}_{mark}"
    if full_name in sys.modules:
        return sys.modules[full_name]
    path = os.path.join(folder, "__init__.py")
    spec = importlib.util.spec_from_file_location(full_name, path, submodule_search_locations=[folder])
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[full_name] = module  # so that the plug-in's own relative imports work
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[full_name]
        raise
    return module


# A migration builds a copy and exchanges it with the home (`portability.exchange`), so a kill leaves nothing half done.
# Two cases remain to be detected: a home between two renames, on systems that cannot exchange two names at once, and a
# home that Hermes 0.1, which migrated in place, left half changed.


def _check_whole(home: str) -> None:
    """Completes an interrupted exchange; refuses a home that Hermes 0.1 left half migrated."""
    if os.path.lexists(home + ARRIVING):
        _complete_renames(home)
    notes = f"{home}/{MIGRATION_FOLDER}/changes.jsonl"
    if os.path.lexists(notes):
        raise DamagedFile(
            f"{home} is half migrated: Hermes 0.1 was interrupted in the middle ({notes}). Open the home once with "
            f"Hermes 0.1, which puts everything back; or remove {home}/{MIGRATION_FOLDER} and restore the backup from "
            f"before the migration, {_newest_backup(home)}, with `hermes backup restore`"
        )


def _complete_renames(home: str) -> None:
    """Renames the new home into place after a crash between moving the old one aside and moving the new one in."""
    import json  # loaded only when needed

    from hermes.storage.locks import FileLock

    parent, name = os.path.split(home)
    with Folder.create(parent) as folder, FileLock(folder, name + ARRIVING, timeout=10):
        data = folder.read(name + ARRIVING, at_most=1 << 16) or b""
        # A mark without its newline was cut off by the crash, before anything had been renamed.
        built = os.path.basename(json.loads(data)["staged"]) if data.endswith(b"\n") else ""
        if built and not os.path.lexists(home) and folder.status(built) is not None:
            folder.rename(built, name)
            folder.sync()
        folder.remove(name + ARRIVING)


def _newest_backup(home: str) -> str:
    folder = os.path.join(home, "backups")
    names = sorted(name for name in os.listdir(folder) if name.endswith(".zip")) if os.path.isdir(folder) else []
    return os.path.join(folder, names[-1]) if names else f"if there is one in {folder}"
