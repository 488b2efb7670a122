"""Work of one person that must not be lost: kept until it is done, oldest first, by one worker at a time.

A queue is a folder of documents, one for each job, so both storage engines have it. Whoever works holds the folder's
lease; in PostgreSQL that is a row, and no connection is held while a service or a model is asked. A worker that dies
leaves its job in the queue: the next one does it again, so every job has a key that stays the same.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from typing import TYPE_CHECKING, Any

from hermes.base.errors import StorageError
from hermes.base.values import value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes.storage.ports import DocumentFolder, Documents, Lease

_LARGEST = 64 << 20
_LEASE = ".lock"
_LEASE_SECONDS = 600.0
_QUEUED, _ASIDE = ".json", ".refused"
_last_name = [0]
_naming = threading.Lock()


@value
class Job:
    """What is to be done, and how often it was tried."""

    name: str
    work: dict[str, Any]
    key: str
    attempts: int = 0


class Jobs:
    """The queue in one folder of a person's documents."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self.path = documents.path

    def put(self, work: dict[str, Any]) -> None:
        """Keeps a job; it survives the end of the process as soon as this returns."""
        with self._documents.create() as folder:
            # The power-cut-proof part comes when the first attempt failed, so that a turn never waits.
            folder.write_soon(_new_name(), encoded({**work, "key": os.urandom(16).hex(), "attempts": 0}))

    def waiting(self) -> list[str]:
        return self._ending_in(_QUEUED)

    def refused(self) -> int:
        """How many jobs were set aside because they cannot be done."""
        return len(self._ending_in(_ASIDE))

    def take_back(self) -> int:
        """Puts what was set aside into the queue again, in its old place; for a person who has mended the cause."""
        if names := self._ending_in(_ASIDE):
            with self._documents.create() as folder:
                for name in names:
                    folder.rename(name, name.removesuffix(_ASIDE) + _QUEUED)
        return len(names)

    @contextlib.contextmanager
    def working(self) -> Iterator[Work | None]:
        """The right to do what waits; None while another process has it."""
        with self._documents.create() as folder:
            lease = folder.lease(_LEASE, seconds=_LEASE_SECONDS)
            if not lease.take():
                yield None
                return
            try:
                yield Work(folder, lease)
            finally:
                lease.give_back()

    def _ending_in(self, suffix: str) -> list[str]:
        folder = self._documents.open()
        if folder is None:
            return []
        with folder:
            return [name for name in folder.names() if name.endswith(suffix)]


class Work:
    """What one worker does with the jobs of a queue."""

    def __init__(self, folder: DocumentFolder, lease: Lease) -> None:
        self._folder = folder
        self._lease = lease

    def take(self, name: str) -> Job | None:
        """None when there is no such job any more; what cannot be read is set aside."""
        if not self._lease.take():
            raise StorageError(f"{self._folder.path}: another process took over; it goes on with what waits")
        try:
            data = self._folder.read(name, at_most=_LARGEST)
            if data is None:
                return None
            work = json.loads(data)
            return Job(name=name, key=work.pop("key"), attempts=work.pop("attempts"), work=work)
        except (ValueError, KeyError, TypeError, AttributeError, StorageError):
            self._folder.rename(name, name.removesuffix(_QUEUED) + _ASIDE)
            return None

    def finish(self, job: Job) -> None:
        self._folder.remove(job.name)

    def put_off(self, job: Job) -> None:
        """It failed for a cause that may pass; the attempt does not count."""
        self._folder.make_durable(job.name)

    def failed(self, job: Job, *, most: int) -> bool:
        """Counts a failed attempt; True when it was the last of `most`, and the job is set aside."""
        if job.attempts + 1 >= most:
            self._folder.rename(job.name, job.name.removesuffix(_QUEUED) + _ASIDE)
            return True
        self._folder.replace(job.name, encoded({**job.work, "key": job.key, "attempts": job.attempts + 1}))
        return False


def encoded(work: dict[str, Any]) -> bytes:
    return json.dumps(work, ensure_ascii=False, default=str).encode("utf-8", "backslashreplace")


def _new_name() -> str:
    """Later than every name this process has given, also when the clock goes back."""
    with _naming:
        _last_name[0] = max(time.time_ns(), _last_name[0] + 1)
        return f"{_last_name[0]:020d}-{os.getpid()}{_QUEUED}"
