"""Walks folders and searches text files for a pattern; runs as a separate process, so that a search can be killed.

A pattern that a model wrote can keep Python's `re` busy forever, and nothing inside the process can stop it. This file
uses only the standard library, so it can be started by its path.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

SKIPPED_FOLDERS = frozenset(
    {".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache", ".ruff_cache"}
)
_LARGEST = 5_000_000  # bytes of a file that is searched
_LOOK_AT = 4_096  # bytes; a NUL among them means that the file is not text


def walk(root: str) -> Iterator[str]:
    """Yields every file below a folder, by name; skips unreadable folders and follows no links to folders."""
    if os.path.isfile(root):
        yield root
        return
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(each for each in folders if each not in SKIPPED_FOLDERS)
        yield from (os.path.join(folder, name) for name in sorted(files))


def fits(path: str, root: str, pattern: str) -> bool:
    """Whether a file matches a pattern such as `*.py` (in any folder) or `src/**/*.py` (from the root)."""
    if not pattern:
        return True
    relative = os.path.relpath(path, root)
    if "/" not in pattern:
        return fnmatch.fnmatchcase(os.path.basename(path), pattern)
    return fnmatch.fnmatchcase(relative, pattern) or fnmatch.fnmatchcase(relative, pattern.replace("**/", ""))


def search(
    root: str,
    pattern: str,
    *,
    glob: str,
    passed_over: Sequence[str],
    closed: Sequence[str],
    ignore_case: bool,
    most: int,
    longest: int,
) -> Iterator[dict[str, Any]]:
    """Yields matching lines with file and number: up to `most`, and one more to show that there are more."""
    wanted = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    found = 0
    for path in walk(root):
        name = os.path.basename(path).lower()
        if not fits(path, root, glob) or any(fnmatch.fnmatchcase(name, each) for each in passed_over):
            continue
        folders = os.path.dirname(os.path.relpath(path, root)).lower().split(os.sep)
        if any(folder in closed for folder in folders):  # the person agreed to the root itself
            continue
        for number, line in enumerate(_lines(path), start=1):
            if wanted.search(line):
                yield {"path": path, "line": number, "text": line[:longest]}
                found += 1
                if found > most:
                    return


def _lines(path: str) -> list[str]:
    """The lines of a text file; none for a file that is binary, too large or unreadable."""
    try:
        if os.path.islink(path) or not os.path.isfile(path) or os.path.getsize(path) > _LARGEST:
            return []
        with open(path, "rb") as file:
            data = file.read(_LARGEST)
    except OSError:
        return []
    if b"\0" in data[:_LOOK_AT]:
        return []
    return data.decode("utf-8", "replace").splitlines()


def main() -> None:
    """Reads the arguments of `search` as JSON from standard input, and prints each match as a line of JSON."""
    for match in search(**json.load(sys.stdin)):
        print(json.dumps(match))


if __name__ == "__main__":
    main()
