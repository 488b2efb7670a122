"""What the curator remembers between runs: every run with what it did, whether it is paused, when it was first seen."""

from __future__ import annotations

import contextlib
import json

from hermes.storage.files import Folder
from hermes.storage.journal import Journal
from hermes.storage.locks import FileLock
from hermes.vocabulary.errors import NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from hermes.settings.home import Home

    Run = dict[str, Any]

FOLDER = "curator"
_RUNS, _STATE, _LOCK = "runs.jsonl", "state.json", "run.lock"
_LARGEST = 1 << 20
_BUSY = 0.5


class CurationLog:
    def __init__(self, home: Home) -> None:
        self._path = home.join(FOLDER)

    def runs(self) -> list[Run]:
        """Every run, oldest first; one that was taken back has `undone_by`."""
        folder = Folder.open(self._path)
        if folder is None:
            return []
        with folder:
            records, _ = Journal(folder, _RUNS).read()
        undone = {record["undoes"]: record["id"] for record in records if record.get("undoes")}
        return [{**record, "undone_by": undone.get(record["id"], "")} for record in records]

    def last(self) -> Run | None:
        return next((run for run in reversed(self.runs()) if not run.get("undoes")), None)

    def find(self, run_id: str) -> Run:
        """The run with this id; without one the newest that changed something and was not taken back."""
        for run in reversed(self.runs()):
            wanted = run["id"] == run_id if run_id else not run["undone_by"] and not run.get("undoes") and _changed(run)
            if wanted:
                return run
        raise NotFound(f"there is no run {run_id!r}; `hermes curator log` lists them" if run_id else "nothing to undo")

    def add(self, run: Run) -> Run:
        """Records a run under the next free id; durable when it returns."""
        with Folder.create(self._path) as folder:
            number = len(Journal(folder, _RUNS).read()[0]) + 1
            record = {"id": f"c{number}", **run}
            Journal(folder, _RUNS).append([record], sync=True)
        return record

    def state(self) -> dict[str, Any]:
        folder = Folder.open(self._path)
        if folder is None:
            return {}
        with folder:
            data = folder.read(_STATE, at_most=_LARGEST)
        try:
            found = json.loads(data or b"{}")
        except ValueError:
            return {}  # a switch that cannot be read is off; the next change writes it anew
        return found if isinstance(found, dict) else {}

    def set(self, **values: Any) -> None:
        with Folder.create(self._path) as folder:
            folder.replace(_STATE, json.dumps(self.state() | values).encode())

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """One run at a time; a second one is told who has the lock."""
        with Folder.create(self._path) as folder, FileLock(folder, _LOCK, timeout=_BUSY):
            yield


def _changed(run: Run) -> bool:
    return bool(run.get("changes") or run.get("skills"))
