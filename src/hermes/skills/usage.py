"""How often each skill was opened and changed, in `skills/.usage.json`; the curator retires what nobody uses."""

from __future__ import annotations

import contextlib
import json
import os

from hermes.skills.changes import locked, write_private
from hermes.vocabulary.errors import StorageError

FILE = ".usage.json"
KINDS = ("views", "changes")


def count(root: str, full_name: str, kind: str, now: float) -> None:
    """One more use of `kind` ("views" or "changes"); a skill works even when its use cannot be counted."""
    with contextlib.suppress(OSError, StorageError), locked(root):
        counts = read(root)
        entry = counts.setdefault(full_name, {"first_used": now})
        entry[kind] = int(entry.get(kind, 0)) + 1
        entry["last_used"] = now
        write_private(root, os.path.join(root, FILE), json.dumps(counts, indent=1, sort_keys=True) + "\n")


def pin(root: str, full_name: str, *, pinned: bool) -> None:
    with locked(root):
        counts = read(root)
        counts.setdefault(full_name, {})["pinned"] = int(pinned)
        write_private(root, os.path.join(root, FILE), json.dumps(counts, indent=1, sort_keys=True) + "\n")


def read(root: str) -> dict[str, dict[str, float]]:
    """The counts by full name. A damaged file is moved aside, not overwritten."""
    path = os.path.join(root, FILE)
    try:
        with open(path, encoding="utf-8") as file:
            counts = json.load(file)
        return {str(name): _numbers(entry) for name, entry in counts.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, AttributeError, RecursionError):
        with contextlib.suppress(OSError):
            os.replace(path, f"{path}.damaged")
        return {}


def _numbers(entry: dict[str, object]) -> dict[str, float]:
    return {key: number for key, number in entry.items() if isinstance(number, int | float)}
