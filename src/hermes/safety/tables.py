"""Reads the scanner's tables, which are prose beside the code: `lexicons/*.txt` (words) and `lexicons/*.rules`."""

from __future__ import annotations

import os.path

from hermes.base.errors import ScannerUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FOLDER = os.path.join(os.path.dirname(__file__), "lexicons")
_compiled: dict[str, Any] = {}


def compiled(part: str) -> Any:
    """One part of what `bin/compile-lexicons` made of the text tables; None when it has not been run.

    The parts are loaded one by one, because a plain English sentence needs only the first.
    """
    if part not in _compiled:
        _compiled[part] = _load_compiled(part)
    return _compiled[part]


def _load_compiled(part: str) -> Any:
    import marshal

    path = os.path.join(_FOLDER, f"{part}.bin")
    try:
        with open(path, "rb") as file:
            return marshal.loads(file.read())  # noqa: S302 - a file of this package, made by it
    except FileNotFoundError:
        return None
    except (OSError, ValueError, EOFError, TypeError) as error:
        raise ScannerUnavailable(f"the threat scanner cannot read {path} ({error}); reinstall Hermes") from error


def load_bytes(name: str, size: int) -> bytes:
    """A table of single bytes, whole."""
    path = os.path.join(_FOLDER, name)
    try:
        with open(path, "rb") as file:
            table = file.read()
    except OSError as error:
        raise _unreadable(path, error) from error
    if len(table) != size:
        raise _unreadable(path, f"{len(table)} bytes instead of {size}")
    return table


def load_table(name: str) -> dict[str, str]:
    """A word list: `key: words`, continued on indented lines; a key that comes twice adds to the first."""
    table: dict[str, str] = {}
    key = ""
    for line in load_lines(name):
        if line[0] == " ":
            table[key] += line
            continue
        key, _, words = line.partition(": ")
        table[key] = f"{table[key]} {words}" if key in table else words
    return table


def load_lines(name: str) -> list[str]:
    path = os.path.join(_FOLDER, name)
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error
    return [line for line in text.split("\n") if line and not line.startswith("# ")]


def _unreadable(path: str, why: object) -> ScannerUnavailable:
    return ScannerUnavailable(
        f"the threat scanner cannot read {path} ({why}); nothing can be judged harmless without it: reinstall Hermes"
    )
