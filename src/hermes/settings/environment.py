"""`.env`: keys and tokens, one `NAME=value` per line, private to its owner."""

from __future__ import annotations

import os

from hermes.base.errors import SettingsError
from hermes.storage.files import Folder, keep_private, read_private
from hermes.storage.locks import FileLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hermes.settings.home import Home

FILE = ".env"
_LARGEST = 1 << 20  # bytes
_LOCK_TIMEOUT = 5  # seconds


def secret(home: Home, name: str) -> str | None:
    """Looks up a secret in the environment, then in the operator's .env; a variable set to nothing counts as unset."""
    return os.environ.get(name) or read_secrets(home).get(name)


def read_secrets(home: Home) -> dict[str, str]:
    """Reads every secret of .env; an error names the line but never shows its text, which may be a key."""
    path = os.path.join(home.operator, FILE)
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
    _replace(home, name, [f"{name}={_quoted(text)}"])


def remove_secret(home: Home, name: str) -> None:
    """Removes one secret from .env, and keeps all other lines with their comments and order."""
    _replace(home, name, [])


def _replace(home: Home, name: str, new: list[str]) -> None:
    """Replaces the line of a secret by the new lines, under the lock."""
    with Folder.create(home.operator) as folder, FileLock(folder, f"{FILE}.lock", timeout=_LOCK_TIMEOUT):
        lines = (folder.read(FILE, at_most=_LARGEST) or b"").decode("utf-8-sig", "replace").splitlines()
        kept = [line for line in lines if line.strip().removeprefix("export ").partition("=")[0].strip() != name]
        folder.replace(FILE, "".join(f"{line}\n" for line in [*kept, *new]).encode())


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
