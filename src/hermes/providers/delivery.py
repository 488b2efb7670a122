"""What a provider has not taken yet stays on disk until it has: no outage, kill or restart loses it."""

from __future__ import annotations

import hashlib
import json
import time
from typing import TYPE_CHECKING, Any

from hermes.base.errors import ProviderError, StorageError
from hermes.base.values import value
from hermes.providers.config import read_config, save_config
from hermes.storage.jobs import Jobs, encoded

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes.storage.jobs import Job
    from hermes.storage.ports import Documents

    Turn = list[dict[str, str]]
    Store = Callable[[str, list[Turn], str], None]

FOLDER = "outbox"
_STATE = "state"
_REFUSALS = 3  # of a service that says no
_ACCIDENTS = 10  # of a provider or service that breaks in its own way, which may be an outage in disguise


@value
class QueuedCall:
    """One call to make: the hook's name and its arguments."""

    name: str
    hook: str
    arguments: dict[str, Any]
    key: str
    attempts: int = 0


@value
class DeliveryResult:
    """How one attempt to hand everything over went: `error` is what stopped it, if anything did."""

    delivered: int = 0
    set_aside: int = 0
    waiting: int = 0
    error: BaseException | None = None


class Outbox:
    """The queued calls of one provider for one person."""

    def __init__(self, documents: Documents, provider: str, *, user: str = "") -> None:
        # One person's provider must never hand over what belongs to another.
        mark = f".{hashlib.sha256(user.encode()).hexdigest()[:16]}" if user else ""
        self._documents = documents.below(FOLDER, f"{provider}{mark}")
        self._jobs = Jobs(self._documents)
        self.path = self._documents.path

    def put(self, hook: str, arguments: dict[str, Any]) -> None:
        """Keeps a call; it survives the end of the process as soon as this returns."""
        self._jobs.put({"hook": hook, "arguments": arguments})

    def remember_state(self, text: str) -> None:
        """Leaves a line about how the provider fares for status commands of other processes."""
        with self._documents.create() as folder:
            folder.replace(_STATE, encoded({"at": time.time(), "text": text}))

    def last_state(self) -> dict[str, Any]:
        """The last such line and when it was written; empty when there was never anything to tell."""
        folder = self._documents.open()
        if folder is None:
            return {}
        with folder:
            try:
                found = json.loads(folder.read(_STATE, at_most=1 << 16) or b"{}")
            except (ValueError, StorageError):
                return {}
        return found if isinstance(found, dict) else {}

    def names(self) -> list[str]:
        return self._jobs.waiting()

    def set_aside(self) -> int:
        """How many calls the provider would not take."""
        return self._jobs.refused()

    def take_back(self) -> int:
        """Puts what was set aside into the queue again, in its old place; for a person who has mended the cause."""
        return self._jobs.take_back()

    def deliver(self, hand_over: Callable[[QueuedCall], object]) -> DeliveryResult:
        """Hands over what waits, oldest first, until all is gone or one attempt fails."""
        names = self.names()
        if not names:
            return DeliveryResult()
        delivered = aside = 0
        with self._jobs.working() as work:
            if work is None:
                return DeliveryResult(waiting=len(names))  # another process is at it
            for position, name in enumerate(names):
                job = work.take(name)
                if job is None:
                    continue
                call = _call(job)
                if call is None:  # nothing that we wrote
                    work.failed(job, most=0)
                    continue
                try:
                    hand_over(call)
                except BaseException as error:  # noqa: BLE001 - a provider is other people's code and may raise anything
                    if _may_pass(error):
                        work.put_off(job)
                    elif work.failed(job, most=_most_attempts(error)):
                        aside += 1
                        continue
                    left = len(names) - position
                    return DeliveryResult(delivered=delivered, set_aside=aside, waiting=left, error=error)
                work.finish(job)
                delivered += 1
        return DeliveryResult(delivered=delivered, set_aside=aside)


def _call(job: Job) -> QueuedCall | None:
    hook, arguments = job.work.get("hook"), job.work.get("arguments")
    if not isinstance(hook, str) or not isinstance(arguments, dict):
        return None
    return QueuedCall(name=job.name, hook=hook, arguments=arguments, key=job.key, attempts=job.attempts)


def _most_attempts(error: BaseException) -> int:
    told = isinstance(error, ProviderError) and error.kind not in ("ended", "malformed")
    return _REFUSALS if told else _ACCIDENTS


def _may_pass(error: BaseException) -> bool:
    """Whether the same call may work later: a service that is away, or a key or address that a person will mend."""
    if isinstance(error, ProviderError):
        return error.passing or error.kind in ("key", "missing", "absent", "astray")
    return isinstance(error, OSError)


class TurnBatches:
    """Buffers turns on disk and stores them in batches; a crash loses nothing."""

    def __init__(self, name: str, hermes_home: str, store: Store) -> None:
        self._file = f"{name}_turns"
        self._home = hermes_home
        self._store = store

    def add(self, session: str, turn: Turn, key: str, *, together: int) -> None:
        """Stores the turn with those that wait once there are `together`; conversations that were left, at once."""
        if together <= 1:
            self._store(session, [turn], key)
            return
        for other in self._all():
            if other != session:
                self.finish(other)
        waiting = [each for each in self._all().get(session) or () if each["key"] != key]
        save_config(self._file, self._home, {session: [*waiting, {"key": key, "turn": turn}]})
        if len(waiting) + 1 >= together:
            self.finish(session)

    def finish(self, session: str) -> None:
        """Stores what waits of a session."""
        if waiting := self._all().get(session):
            self._store(session, [each["turn"] for each in waiting], str(waiting[-1]["key"]))
            save_config(self._file, self._home, {session: None})

    def _all(self) -> dict[str, Any]:
        return read_config(self._file, self._home)
