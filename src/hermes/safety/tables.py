"""Reads the scanner's tables, which are prose beside the code: `lexicons/*.txt` (words) and `lexicons/*.rules`."""

from __future__ import annotations

import os.path

from hermes.vocabulary.errors import ScannerUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FOLDER = os.path.join(os.path.dirname(__file__), "lexicons")
COMPILED = "compiled.bin"
_compiled: list[dict[str, Any] | None] = []


def compiled_tables() -> dict[str, Any] | None:
    """What `bin/compile-lexicons` made of the English and Latin tables; None when it has not been run."""
    if not _compiled:
        _compiled.append(_load_compiled())
    return _compiled[0]


def _load_compiled() -> dict[str, Any] | None:
    import marshal

    path = os.path.join(_FOLDER, COMPILED)
    try:
        with open(path, "rb") as file:
            tables: dict[str, Any] = marshal.loads(file.read())  # noqa: S302 - a file of this package, made by it
    except FileNotFoundError:
        return None
    except (OSError, ValueError, EOFError, TypeError) as error:
        raise ScannerUnavailable(f"the threat scanner cannot read {path} ({error}); reinstall Hermes") from error
    return tables


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
        raise ScannerUnavailable(
            f"the threat scanner cannot read {path} ({error}); "
            "nothing can be judged harmless without it: reinstall Hermes"
        ) from error
    return [line for line in text.split("\n") if line and not line.startswith("# ")]
