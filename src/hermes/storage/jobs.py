"""A queue of a person's jobs that must not be lost: done oldest first, by one worker at a time.

A queue is a folder of documents, one for each job, so both storage engines have it. The worker holds the folder's
lease; in PostgreSQL that is a row, so no connection is held while a service or a model is asked. If a worker dies, its
job stays in the queue and the next worker does it again. So every job has a key, which stays the same.
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

_LARGEST = 64 << 20  # bytes of a job
_LEASE = ".lock"
_LEASE_SECONDS = 600.0
_QUEUED, _ASIDE = ".json", ".refused"
_last_name = [0]
_naming = threading.Lock()


@value
class Job:
    """A job, its key, and how often it was tried."""

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
        """Stores a job, which then survives the end of the process."""
        with self._documents.create() as folder:
            # It is made to survive a power cut only after its first attempt has failed, so that a turn never waits.
            folder.write_soon(_new_name(), encoded({**work, "key": os.urandom(16).hex(), "attempts": 0}))

    def waiting(self) -> list[str]:
        """The names of the waiting jobs, oldest first."""
        return self._ending_in(_QUEUED)

    def refused(self) -> int:
        """How many jobs were set aside because they cannot be done."""
        return len(self._ending_in(_ASIDE))

    def take_back(self) -> int:
        """Puts jobs that were set aside back into their old place, for a person who has fixed the cause."""
        if names := self._ending_in(_ASIDE):
            with self._documents.create() as folder:
                for name in names:
                    folder.rename(name, name.removesuffix(_ASIDE) + _QUEUED)
        return len(names)

    @contextlib.contextmanager
    def working(self) -> Iterator[Work | None]:
        """Takes the lease to do the waiting jobs; gives None if another process has it."""
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
    """The operations of the one worker of a queue."""

    def __init__(self, folder: DocumentFolder, lease: Lease) -> None:
        self._folder = folder
        self._lease = lease

    def take(self, name: str) -> Job | None:
        """Reads a job; None if there is no such job any more, or if it cannot be read and is set aside."""
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
        """Removes a job that is done."""
        self._folder.remove(job.name)

    def put_off(self, job: Job) -> None:
        """Leaves a job in the queue after a temporary failure, which does not count as an attempt."""
        self._folder.make_durable(job.name)

    def failed(self, job: Job, *, most: int) -> bool:
        """Counts a failed attempt; True when it was the last of `most`, and the job is set aside."""
        if job.attempts + 1 >= most:
            self._folder.rename(job.name, job.name.removesuffix(_QUEUED) + _ASIDE)
            return True
        self._folder.replace(job.name, encoded({**job.work, "key": job.key, "attempts": job.attempts + 1}))
        return False


def encoded(work: dict[str, Any]) -> bytes:
    """A job as the bytes of its document."""
    return json.dumps(work, ensure_ascii=False, default=str).encode("utf-8", "backslashreplace")


def _new_name() -> str:
    """A name that sorts after all names this process has given, even if the clock goes back."""
    with _naming:
        _last_name[0] = max(time.time_ns(), _last_name[0] + 1)
        return f"{_last_name[0]:020d}-{os.getpid()}{_QUEUED}"
