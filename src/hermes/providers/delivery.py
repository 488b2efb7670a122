"""What a provider has not taken yet stays on disk until it has: no outage, kill or restart loses it."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from typing import TYPE_CHECKING, Any

from hermes.base.errors import ProviderError, StorageError
from hermes.base.values import value
from hermes.providers.config import read_config, save_config
from hermes.storage.files import Folder
from hermes.storage.locks import FileLock

if TYPE_CHECKING:
    from collections.abc import Callable

    Turn = list[dict[str, str]]
    Store = Callable[[str, list[Turn], str], None]

FOLDER = "outbox"
_LARGEST = 64 << 20
_LOCK = ".lock"
_STATE = "state"
_QUEUED, _ASIDE = ".json", ".refused"
_REFUSALS = 3  # of a service that says no
_ACCIDENTS = 10  # of a provider or service that breaks in its own way, which may be an outage in disguise
_last_name = [0]
_naming = threading.Lock()


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

    def __init__(self, hermes_home: str, provider: str, *, user: str = "") -> None:
        # One person's provider must never hand over what belongs to another.
        mark = f".{hashlib.sha256(user.encode()).hexdigest()[:16]}" if user else ""
        self.path = os.path.join(hermes_home, FOLDER, f"{provider}{mark}")

    def put(self, hook: str, arguments: dict[str, Any]) -> None:
        """Keeps a call; it survives the end of the process as soon as this returns."""
        queued = {"hook": hook, "arguments": arguments, "key": os.urandom(16).hex(), "attempts": 0}
        with Folder.create(self.path) as folder:
            self._write(folder, _new_name(), queued)

    def remember_state(self, text: str) -> None:
        """Leaves a line about how the provider fares for status commands of other processes."""
        with Folder.create(self.path) as folder:
            folder.replace(_STATE, _encoded({"at": time.time(), "text": text}))

    def last_state(self) -> dict[str, Any]:
        """The last such line and when it was written; empty when there was never anything to tell."""
        folder = Folder.open(self.path)
        if folder is None:
            return {}
        with folder:
            try:
                found = json.loads(folder.read(_STATE, at_most=1 << 16) or b"{}")
            except (ValueError, StorageError):
                return {}
        return found if isinstance(found, dict) else {}

    def names(self) -> list[str]:
        return self._ending_in(_QUEUED)

    def set_aside(self) -> int:
        """How many calls the provider would not take."""
        return len(self._ending_in(_ASIDE))

    def take_back(self) -> int:
        """Puts what was set aside into the queue again, in its old place; for a person who has mended the cause."""
        if names := self._ending_in(_ASIDE):
            with Folder.create(self.path) as folder:
                for name in names:
                    folder.rename(name, name.removesuffix(_ASIDE) + _QUEUED)
        return len(names)

    def deliver(self, hand_over: Callable[[QueuedCall], object]) -> DeliveryResult:
        """Hands over what waits, oldest first, until all is gone or one attempt fails."""
        names = self.names()
        if not names:
            return DeliveryResult()
        delivered = aside = 0
        with Folder.create(self.path) as folder:
            lock = FileLock(folder, _LOCK, timeout=0)
            if not lock.try_to_take():
                return DeliveryResult(waiting=len(names))  # another process is at it
            with lock:
                for position, name in enumerate(names):
                    queued = self._read(folder, name)
                    if queued is None:
                        continue
                    try:
                        hand_over(queued)
                    except BaseException as error:  # noqa: BLE001 - a provider is other people's code and may raise anything
                        if self._failed(folder, queued, error):
                            aside += 1
                            continue
                        left = len(names) - position
                        return DeliveryResult(delivered=delivered, set_aside=aside, waiting=left, error=error)
                    folder.remove(name)
                    delivered += 1
        return DeliveryResult(delivered=delivered, set_aside=aside)

    def _ending_in(self, suffix: str) -> list[str]:
        folder = Folder.open(self.path)
        if folder is None:
            return []
        with folder:
            return [name for name in folder.names() if name.endswith(suffix)]

    def _failed(self, folder: Folder, queued: QueuedCall, error: BaseException) -> bool:
        """Notes a failed attempt; True when the call was set aside."""
        if _may_pass(error):
            _make_durable(folder, queued.name)
            return False
        attempts = queued.attempts + 1
        told = isinstance(error, ProviderError) and error.kind not in ("ended", "malformed")
        if attempts >= (_REFUSALS if told else _ACCIDENTS):
            folder.rename(queued.name, queued.name.removesuffix(_QUEUED) + _ASIDE)
            return True
        content = {"hook": queued.hook, "arguments": queued.arguments, "key": queued.key, "attempts": attempts}
        folder.replace(queued.name, _encoded(content))
        return False

    def _read(self, folder: Folder, name: str) -> QueuedCall | None:
        """None when another process has taken it; what cannot be read is set aside."""
        try:
            data = folder.read(name, at_most=_LARGEST)
            if data is None:
                return None
            found = json.loads(data)
            return QueuedCall(
                name=name,
                hook=found["hook"],
                arguments=dict(found["arguments"]),
                key=found["key"],
                attempts=found["attempts"],
            )
        except (ValueError, KeyError, TypeError, StorageError):
            folder.rename(name, name.removesuffix(_QUEUED) + _ASIDE)
            return None

    @staticmethod
    def _write(folder: Folder, name: str, queued: dict[str, Any]) -> None:
        # Whole or not at all; the power-cut-proof part comes when the first attempt failed, so that a turn never waits.
        temporary = f".{name}.{os.getpid()}.tmp"
        folder.write_new(temporary, _encoded(queued), sync=False)
        folder.rename(temporary, name)


def _may_pass(error: BaseException) -> bool:
    """Whether the same call may work later: a service that is away, or a key or address that a person will mend."""
    if isinstance(error, ProviderError):
        return error.passing or error.kind in ("key", "missing", "absent", "astray")
    return isinstance(error, OSError)


def _make_durable(folder: Folder, name: str) -> None:
    file = folder.open_file(name)
    if file is not None:
        with file:
            file.sync()
        folder.sync()


def _encoded(queued: dict[str, Any]) -> bytes:
    return json.dumps(queued, ensure_ascii=False, default=str).encode("utf-8", "backslashreplace")


def _new_name() -> str:
    """Later than every name this process has given, also when the clock goes back."""
    with _naming:
        _last_name[0] = max(time.time_ns(), _last_name[0] + 1)
        return f"{_last_name[0]:020d}-{os.getpid()}{_QUEUED}"


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
