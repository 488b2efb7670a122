"""Reads config.yaml, checking every value once and remembering its line; and .env, which has the secrets."""

from __future__ import annotations

import os
import time

from hermes.base.errors import ForeignSettings, SettingsError, StorageError
from hermes.base.text import decode, encode
from hermes.base.values import value
from hermes.base.version import __version__
from hermes.settings.home import DATABASE, PEOPLE, PROFILES
from hermes.settings.schema import all_keys, known, problem_with, setting_hint
from hermes.storage.documents import LocalDocuments
from hermes.storage.files import Folder, OpenFile, explain, keep_private, read_private
from hermes.storage.locks import FileLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, TypedDict

    from hermes.settings.home import Home
    from hermes.storage.ports import Documents

    class Where(TypedDict):
        """The arguments of `SessionDB.open` that say where conversations are and whose."""

        path: str
        owner: str


FILE = "config.yaml"
_CACHE = "settings.json"  # the parsed file, because parsing YAML takes four times as long as starting Python
_LARGEST = 1 << 20  # bytes of config.yaml, and of its parsed copy
# Two edits within one tick of the file system's clock look alike, so a file this young is never trusted to a cache.
_TOO_YOUNG = 2.0
_MOST_KNOWN = 64  # files whose settings a process keeps in memory
_UNKNOWN = "there is no setting "  # `_foreign` recognises unknown names by it
# Settings and headings that hermes-agent writes and Hermes has never had.
_OF_HERMES_AGENT = frozenset(
    (
        *("terminal.backend", "agent.max_turns", "memory.flush_min_turns", "toolsets", "browser", "checkpoints", "tts"),
        *("stt", "voice", "human_delay", "personalities", "quick_commands", "command_allowlist", "privacy", "cron"),
        *("platform_toolsets", "custom_providers", "approvals"),
    )
)


@value
class Found:
    """A valid value from config.yaml and the line it is on, for `Settings.origin`."""

    value: Any
    line: int


class Settings:
    """Every setting by its dotted name: what the file says, else the default."""

    def __init__(self, path: str, found: Mapping[str, Found]) -> None:
        self.path = path
        self._found = found

    def get(self, name: str) -> Any:
        """Gives the value from the file, else the default; an unknown name raises `SettingsError`."""
        return self._found[name].value if name in self._found else known(name).default

    def origin(self, name: str) -> str:
        """Where the value comes from: `default`, or `config.yaml:12`."""
        return f"{FILE}:{self._found[name].line}" if name in self._found else "default"

    def names(self) -> list[str]:
        """Lists every setting that exists, also those the file does not set."""
        return list(all_keys())

    def flag(self, name: str) -> bool:
        """Gives a setting of kind `flag`."""
        return bool(self.get(name))

    def integer(self, name: str) -> int:
        """Gives a setting of kind `integer`; one that may be null needs `get`."""
        return int(self.get(name))

    def number(self, name: str) -> float:
        """Gives a setting of kind `number`."""
        return float(self.get(name))

    def text(self, name: str) -> str:
        """Gives a setting that is a text or one of several choices."""
        return str(self.get(name))

    def texts(self, name: str) -> tuple[str, ...]:
        """Gives a list setting as a tuple, which a caller cannot change by mistake."""
        return tuple(self.get(name))


def load_settings(home: Home) -> Settings:
    """Loads the settings of a home; a `SettingsError` lists every mistake in the file at once.

    A person's home has none of its own: the operator's settings apply.
    """
    path = os.path.join(home.operator, FILE)
    file = _open(path)
    if file is None:
        return Settings(path, {})
    with file:
        identity = _identity(file)
        known = _KNOWN.get(path)
        if known is not None and known[0] == identity:
            return known[1]
        cached = _from_cache(home, identity)
        found, problems = (cached, []) if cached is not None else check_text(path, file.read(at_most=_LARGEST))
    if problems:
        raise _foreign(path, problems) or SettingsError("\n".join(problems))
    settings = Settings(path, found)
    if time.time() - file.status.st_mtime > _TOO_YOUNG:
        if cached is None:
            _to_cache(home, identity, found)
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[path] = identity, settings
    return settings


# A server needs the settings many times a turn, and everybody has the same file. By path, with the file's identity.
_KNOWN: dict[str, tuple[list[object], Settings]] = {}


STORAGE_URL = "HERMES_STORAGE_URL"


def storage_address(home: Home) -> str:
    """The address of the PostgreSQL database with this home's conversations; "" when they are in its state.db."""
    return secret(home, STORAGE_URL) or load_settings(home).text("storage.url")


def conversations_of(home: Home, owner: str = "local") -> Where:
    """Where a home's conversations are and whose they are, as `SessionDB.open` takes it."""
    address = storage_address(home)
    if not address:
        return {"path": home.join(DATABASE), "owner": owner}
    return {"path": address, "owner": whose(home) if owner == "local" else f"{whose(home)}:{owner}"}


def documents_of(home: Home, settings: Settings | None = None) -> Documents:
    """A home's documents: files in it, or rows of its PostgreSQL database."""
    address = secret(home, STORAGE_URL) or (settings or load_settings(home)).text("storage.url")
    if not address:
        return LocalDocuments(home.path)
    from hermes.storage.postgres.documents import PostgresDocuments  # loads an optional library

    return PostgresDocuments(address, whose(home))


def whose(home: Home) -> str:
    """The owner under which a shared database keeps this home's rows.

    The prefix keeps a person and a profile of the same name apart.
    """
    if home.person:
        return f"{PEOPLE}/{home.person}"
    return f"{PROFILES}/{home.profile}" if home.profile else "local"


def check_text(path: str, data: bytes) -> tuple[dict[str, Found], list[str]]:
    """Checks the text of config.yaml; returns the valid values and every problem, with file, line and setting."""
    from hermes.settings.yaml_file import parse

    try:
        tree = parse(path, data)
    except SettingsError as error:
        return {}, [str(error)]
    keys = all_keys()
    found: dict[str, Found] = {}
    problems: list[str] = []
    for name, given, line in _leaves(tree, "", keys):
        key = keys.get(name)
        if key is None:
            problems.append(f"{path}:{line}: {_UNKNOWN}{name}{setting_hint(name, keys)}")
        elif problem := problem_with(key, given):
            problems.append(f"{path}:{line}: {name}: {problem}")
        else:
            found[name] = Found(value=given, line=line)
    return found, problems


def _foreign(path: str, problems: list[str]) -> ForeignSettings | None:
    """The error for a config.yaml of hermes-agent, which one command migrates; None for a file of ours.

    Without it, a person would read a line of advice for each of its settings.
    """
    unknown = [problem.partition(_UNKNOWN)[2].partition(";")[0] for problem in problems]
    theirs = [name for name in unknown if name in _OF_HERMES_AGENT or name.partition(".")[0] in _OF_HERMES_AGENT]
    if not theirs:
        return None
    return ForeignSettings(
        f"{path} belongs to hermes-agent (it sets {theirs[0]}): `hermes import hermes-agent` converts this home "
        "in place, after a backup; add --dry-run to see what it would do"
    )


def _leaves(tree: Any, prefix: str, keys: Mapping[str, object]) -> Iterator[tuple[str, Any, int]]:
    """Yields dotted name, plain value and line of each setting; a known name is a leaf even if it is a mapping."""
    from hermes.settings.yaml_file import line_of, plain

    for word in tree:
        name = f"{prefix}{word}"
        below = tree[word]
        if name not in keys and hasattr(below, "items") and below:
            yield from _leaves(below, f"{name}.", keys)
        elif name in keys or below not in (None, {}) or not any(key.startswith(f"{name}.") for key in keys):
            yield name, plain(below), line_of(tree, word)  # an empty heading sets nothing


def _open(path: str) -> OpenFile | None:
    # Many people keep their settings in a repository and link to them, so a link is followed here: it can only lead to
    # values of known types, never into a prompt. O_NONBLOCK, because opening a named pipe would wait for a writer.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise explain("read", path, error) from error
    return OpenFile.checked(path, descriptor)


def _identity(file: OpenFile) -> list[object]:
    # With the version, because another one may check values differently. With ctime, because a program can set mtime.
    status = file.status
    return [__version__, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _from_cache(home: Home, identity: list[object]) -> dict[str, Found] | None:
    try:
        kept = decode(read_private(os.path.join(home.operator, "cache", _CACHE), at_most=_LARGEST) or b"null")
        if not isinstance(kept, dict) or kept["of"] != identity:
            return None
        return {name: Found(value=given, line=line) for name, (given, line) in kept["values"].items()}
    except (StorageError, ValueError, KeyError, TypeError, AttributeError):
        return None  # a damaged copy costs only time: the original is parsed instead


def _to_cache(home: Home, identity: list[object], found: Mapping[str, Found]) -> None:
    values = {name: [each.value, each.line] for name, each in found.items()}
    try:
        with Folder.create(os.path.join(home.operator, "cache")) as folder:
            folder.replace(_CACHE, encode({"of": identity, "values": values}).encode("utf-8", "surrogatepass"))
    except StorageError:
        return  # a home that cannot be written to can still be read


# `.env`: keys and tokens, one `NAME=value` per line, private to its owner.

SECRETS = ".env"
_LOCK_TIMEOUT = 5  # seconds


def secret(home: Home, name: str) -> str | None:
    """Looks up a secret in the environment, then in the operator's .env; a variable set to nothing counts as unset."""
    return os.environ.get(name) or read_secrets(home).get(name)


def read_secrets(home: Home) -> dict[str, str]:
    """Reads every secret of .env; an error names the line but never shows its text, which may be a key."""
    path = os.path.join(home.operator, SECRETS)
    data = read_private(path, at_most=_LARGEST)
    if data is None:
        return {}
    keep_private(path)  # a person who made the file with an editor may have left it readable for others
    found: dict[str, str] = {}
    # Files that a shell sources say `export`, and some editors begin a file with a byte order mark.
    for number, line in enumerate(data.decode("utf-8-sig", "replace").splitlines(), start=1):
        stripped = line.strip().removeprefix("export ").lstrip()
        if not stripped or stripped.startswith("#"):
            continue
        name, separator, rest = stripped.partition("=")
        if not separator or not name.strip().isidentifier():
            raise SettingsError(f"{path}:{number}: expected NAME=value, or # and a comment")
        found[name.strip()] = _unquoted(rest.strip())
    return found


def save_secret(home: Home, name: str, text: str) -> None:
    """Stores one secret in .env, and keeps all other lines with their comments and order."""
    if not name.isidentifier() or "\n" in text or "\r" in text:
        raise SettingsError(f"{name!r} cannot be stored: a secret has a plain name and one line of text")
    _replace_secret(home, name, [f"{name}={_quoted(text)}"])


def remove_secret(home: Home, name: str) -> None:
    """Removes one secret from .env, and keeps all other lines with their comments and order."""
    _replace_secret(home, name, [])


def _replace_secret(home: Home, name: str, new: list[str]) -> None:
    """Replaces the line of a secret by the new lines, under the lock."""
    with Folder.create(home.operator) as folder, FileLock(folder, f"{SECRETS}.lock", timeout=_LOCK_TIMEOUT):
        lines = (folder.read(SECRETS, at_most=_LARGEST) or b"").decode("utf-8-sig", "replace").splitlines()
        kept = [line for line in lines if line.strip().removeprefix("export ").partition("=")[0].strip() != name]
        folder.replace(SECRETS, "".join(f"{line}\n" for line in [*kept, *new]).encode())


def _unquoted(text: str) -> str:
    """The value without its quotes; without quotes, up to a comment."""
    for quote in ('"', "'"):
        if len(text) > 1 and text.startswith(quote) and text.endswith(quote):
            inner = text[1:-1]
            return inner.replace('\\"', '"').replace("\\\\", "\\") if quote == '"' else inner
    return text.partition(" #")[0].rstrip()


def _quoted(text: str) -> str:
    if text and not set(text) & set(" #\"'\\$`"):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
