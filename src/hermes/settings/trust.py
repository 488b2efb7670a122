"""What a home records about trust: folders the person trusts, files with text from outside, the gate's decisions.

Folders and files are in `trust.json` of the operator's home, decisions in `trust/decisions.jsonl` of the person's.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

from hermes.base.errors import HermesError, NotFound, SettingsError
from hermes.safety.secrets import mask_secrets
from hermes.settings.config import documents_of
from hermes.settings.home import project_root
from hermes.storage.files import Folder, is_inside, read_private
from hermes.storage.locks import FileLock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from hermes.safety.trust import Decision
    from hermes.settings.home import Home

NAME = "trust.json"
_LARGEST = 4 << 20  # bytes of trust.json
_MOST_FILES = 5_000  # marked files; the oldest marks are dropped first
_WAIT = 5.0  # seconds for the lock
# Folders of other people's work, even inside a trusted project.
_OF_OTHERS = frozenset(
    (
        *("node_modules", "bower_components", "site-packages", "dist-packages", "vendor", "third_party", "third-party"),
        *(".venv", "venv", ".tox", ".nox", ".cargo", ".gradle", ".m2", ".terraform", "downloads"),
    )
)


class TrustedFolders:
    """Which folders and files on this machine are trusted; with `given`, exactly the folders that a host names."""

    def __init__(self, home: Home, given: Sequence[str] | None = None) -> None:
        self._home = home.operator
        self._given = None if given is None else {_real(each): True for each in given}

    def all(self) -> dict[str, bool]:
        """Every folder that was decided about, and whether it is trusted."""
        found = self._given if self._given is not None else self._read().get("folders", {})
        return {path: bool(trusted) for path, trusted in found.items()} if isinstance(found, dict) else {}

    def decision(self, folder: str) -> bool | None:
        """The decision about this folder, else about the nearest one around it; None when nobody decided."""
        real, listed = _real(folder), self.all()
        nearest = _nearest(real, listed)
        return listed[nearest] if nearest else None

    def is_trusted(self, path: str) -> bool:
        """Whether what lies at this path is the person's own; False as well when that cannot be told.

        Trusting a repository does not cover other repositories inside of it, nor installed packages and downloads, nor
        a file that was written while text from outside was in front of the model.
        """
        try:
            real, listed = _real(path), self.all()
            nearest = _nearest(real, listed)
            if not nearest or not listed[nearest]:
                return False
            below = os.path.relpath(real, nearest).lower().split(os.sep)
            if _OF_OTHERS.intersection(below):
                return False
            repository = project_root(real if os.path.isdir(real) else os.path.dirname(real))
            if project_root(nearest) == nearest and repository != nearest:
                return False
            return real not in self._read().get("files", {})
        except (OSError, ValueError, HermesError):
            return False

    def add(self, folder: str, *, trusted: bool = True) -> str:
        """Stores a decision and returns the folder's real path. Trusting a folder clears the marks on files in it."""
        real = _real(folder)
        if trusted and not os.path.isdir(real):
            raise NotFound(f"there is no folder {real}")
        if trusted and real == os.path.dirname(real):
            raise SettingsError(f"{real} is everything on this machine; trust the folders you work in instead")

        def change(kept: dict[str, Any]) -> None:
            kept.setdefault("folders", {})[real] = trusted
            if trusted:  # the person vouches for what is in it now
                kept["files"] = {path: 1 for path in kept.get("files", {}) if not is_inside(path, real)}

        self._change(change)
        return real

    def remove(self, folder: str) -> str:
        """Forgets the decision about a folder, so one about a folder around it applies again; returns the real path."""
        real = _real(folder)
        if real not in self.all():
            raise NotFound(f"{real} is not on the list; `hermes trust list` shows the folders")
        self._change(lambda kept: kept["folders"].pop(real, None))
        return real

    def mark(self, paths: Iterable[str], *, outside: bool) -> None:
        """Marks files as holding text from outside, or clears their marks."""
        known = self._read().get("files", {})
        real = [_real(path) for path in paths]
        if not any((path in known) is not outside for path in real):
            return

        def change(kept: dict[str, Any]) -> None:
            files = {path: 1 for path in kept.get("files", {}) if path not in real}
            files |= dict.fromkeys(real, 1) if outside else {}
            kept["files"] = dict(list(files.items())[-_MOST_FILES:])

        self._change(change)

    def holds_outside(self, folder: str) -> bool:
        """Whether one of the files noted by `mark` lies in this folder; True as well when that cannot be told."""
        try:
            return any(is_inside(path, _real(folder)) for path in self._read().get("files", {}))
        except HermesError:
            return True

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(read_private(os.path.join(self._home, NAME), at_most=_LARGEST) or b"{}")
        except ValueError as error:
            raise SettingsError(
                f"{os.path.join(self._home, NAME)} is not JSON ({error}); correct or remove it"
            ) from error
        return found if isinstance(found, dict) else {}

    def _change(self, change: Callable[[dict[str, Any]], object]) -> None:
        with Folder.create(self._home) as folder, FileLock(folder, f".{NAME}.lock", timeout=_WAIT):
            kept = self._read()
            change(kept)
            folder.replace(NAME, json.dumps(kept, ensure_ascii=False, indent=1).encode())


_LONGEST_TEXT = 500  # characters of a text that a decision records
_LONGEST_REPORT = 20_000  # characters
SAID = "said"  # the kind of report that holds the person's own words


class _Log:
    """Records in two files of the folder `trust`: a full file replaces the older one, so the log stays small."""

    current, older, largest = "", "", 0

    def __init__(self, home: Home) -> None:
        self._documents = documents_of(home).below("trust")

    def _append(self, record: dict[str, Any]) -> None:
        with self._documents.create() as folder:
            if (folder.size(self.current) or 0) > self.largest:
                folder.rename(self.current, self.older)
            folder.journal(self.current).append([{"at": time.time(), **record}], sync=False)

    def _records(self) -> list[dict[str, Any]]:
        """All records, oldest first."""
        folder = self._documents.open()
        if folder is None:
            return []
        with folder:
            return [dict(record) for name in (self.older, self.current) for record in folder.journal(name).read()[0]]


class DecisionLog(_Log):
    """Every decision of the gate, newest last; the older half is dropped when the log grows too large."""

    current, older, largest = "decisions.jsonl", "decisions.1.jsonl", 4 << 20

    def add(self, decision: Decision, session: str) -> None:
        """Records a decision of the gate; a log that cannot be written does not fail the turn."""
        record: dict[str, Any] = {
            "session": session,
            "sink": decision.sink,
            "verdict": decision.verdict,
            "reason": decision.reason,
            "characters": sum(map(len, decision.texts)),
        }
        if decision.sources:  # without any, nothing is suspicious, and the texts are where they were written to
            record["texts"] = [mask_secrets(text[:_LONGEST_TEXT]) for text in decision.texts]
            record["sources"] = [f"{source.origin}, {source.name}" for source in decision.sources]
        try:
            self._append(record)
        except HermesError as error:  # a full disk must not stop a turn; the operator reads about it
            import logging  # loads more than a single write may

            logging.getLogger("hermes.trust").warning("a decision of the trust gate was not recorded: %s", error)

    def newest(self, count: int) -> list[dict[str, Any]]:
        """Gives the last `count` decisions, the newest at the end."""
        return self._records()[-count:]


class HostReports(_Log):
    """Reports from hooks of MCP hosts during a turn: what the person typed (SAID), and texts from outside."""

    current, older, largest = "hosts.jsonl", "older-hosts.jsonl", 2 << 20

    def add(self, host: str, conversation: str, kind: str, name: str, text: str) -> None:
        """Records one text; `kind` is SAID, or the origin of a text from outside."""
        record = {"host": host, "conversation": conversation, "kind": kind, "name": name}
        self._append(record | {"text": text[:_LONGEST_REPORT]})

    def since(self, host: str, start: float) -> list[dict[str, Any]]:
        """All reports, oldest first, of those conversations of a host in which the person spoke since `start`."""
        ours = [record for record in self._records() if record.get("host") == host]
        alive = {record["conversation"] for record in ours if record["kind"] == SAID and record["at"] >= start}
        return [record for record in ours if record["conversation"] in alive]


def _nearest(real: str, listed: Iterable[str]) -> str:
    """The innermost listed folder that contains this path; "" when none does."""
    return max((path for path in listed if is_inside(real, path)), key=len, default="")


def _real(path: str) -> str:
    return os.path.realpath(os.path.expanduser(path))
