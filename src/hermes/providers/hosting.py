"""Starts and calls a provider that runs in a process of its own.

The manager gets an object with the same members and hooks as the provider. Once the process has ended, every call
raises `ProviderEnded`, and `initialize` starts a new process; the manager decides when, and how often.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from hermes.base.errors import ProviderEnded, ProviderError
from hermes.base.values import value
from hermes.providers.base import SeparateProcess
from hermes.providers.delivery import in_words
from hermes.providers.discovery import find_provider
from hermes.providers.hosted import (
    CALL,
    DATA,
    DATA_CALLS,
    DELIVERED,
    FAULT,
    LARGEST,
    OPTIONAL,
    TEXT,
    TEXTS,
    Channel,
    ChannelBroken,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hermes.settings.config import Settings
    from hermes.settings.home import Home

# With -P, Python does not import modules from the current folder.
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); from hermes.providers.hosted import work; "
    "work(*map(int, sys.argv[2:]))"
)
_ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 2))
_KEPT_OUTPUT = 4096
_SECONDS_TO_GO = 1.0
_SECONDS_TO_DIE = 0.2  # between a closed channel and the end of the process
_LONGEST_WORDS = 160
_PLACES = ("calls", "deliveries")
_TOO_LATE = "did not answer in time and was ended"


@value
class Bounds:
    """Limits of a provider's process. A call that is not answered in time ends the process."""

    calls: float = 31.0  # seconds, when somebody waits
    deliveries: float = 120.0
    load: float = 30.0
    megabytes: int = 2048  # of memory it may write to; 0 for no limit


class ProviderProcess:
    """A provider's process: every call has a deadline, and missing it ends the process and what it started."""

    def __init__(self, name: str, operator_home: str, hermes_home: str, bounds: Bounds) -> None:
        """Starts the process, which loads the provider in the background; `hooks` waits for that."""
        self._bounds = bounds
        self._why = ""  # why we ended it, as text that follows `its process`
        self._leaving = self._over = False
        self._numbers = count(1)
        self._ending = threading.RLock()
        self._said = b""
        pairs = [socket.socketpair() for _ in _PLACES]
        life, self._life = os.pipe()
        self._output, output = os.pipe()
        for end in (self._output, output):
            os.set_blocking(end, False)
        theirs = [*(there.fileno() for _, there in pairs), life]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM, _ROOT, *map(str, theirs)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=theirs,
                env={**os.environ, "HERMES_HOME": hermes_home},
                start_new_session=True,
            )
        except OSError as error:
            self._release()
            hint = "set memory.provider_process to none to run it on a thread"
            raise ProviderError(f"its process does not start: {error}; {hint}", kind="absent") from error
        finally:
            os.close(life)
            os.close(output)
            for _, there in pairs:
                there.close()
        self._lines = {
            place: (threading.Lock(), Channel(here)) for place, (here, _) in zip(_PLACES, pairs, strict=True)
        }
        self._loaded_until = time.monotonic() + bounds.load
        told = {
            "name": name,
            "operator": operator_home,
            "home": hermes_home,
            "megabytes": bounds.megabytes,
            "path": _search_path(),
        }
        with suppress(ChannelBroken):  # it died at once; `hooks` will say why
            self._lines["calls"][1].send(CALL, 0, json.dumps(told).encode())

    @property
    def ended(self) -> bool:
        return self._over or self._leaving or self._process.poll() is not None

    @property
    def pid(self) -> int:
        return self._process.pid

    def hooks(self) -> list[str]:
        """Waits until the provider is loaded and returns its hooks, or raises a ProviderError with the reason."""
        with self._within(self._loaded_until - time.monotonic()):
            found = self._heard(self._lines["calls"][1], 0, {DATA: LARGEST[DATA]})
        return [str(hook) for hook in found.get("hooks", ())] if isinstance(found, dict) else []

    def ask(self, hook: str, arguments: list[Any], more: dict[str, Any]) -> Any:
        """Returns or raises what the provider did; raises ProviderEnded if the process has ended."""
        delivered = hook in DELIVERED
        seconds = self._bounds.deliveries if delivered else self._bounds.calls
        lock, channel = self._lines["deliveries" if delivered else "calls"]
        if not lock.acquire(timeout=seconds):
            raise ProviderError("it is busy with another call", kind="busy")
        try:
            if self.ended:
                self.end("")  # ends what the process started and left behind
                raise ProviderEnded(f"its process {self._end_in_words()}", kind="unreachable")
            accepted = {TEXT: LARGEST[TEXT]} if hook in TEXTS else {DATA: LARGEST[DATA] if hook in DATA_CALLS else 4}
            request = {"hook": hook, "arguments": arguments, "more": more}
            number = next(self._numbers)
            with self._within(seconds):
                channel.send(CALL, number, json.dumps(request, default=str).encode())
                return self._heard(channel, number, accepted)
        finally:
            self._listen()
            if self._over:
                channel.close()
            lock.release()
            if self._leaving:
                self.leave()

    def close(self) -> None:
        """Gives the process a moment to end by itself, then ends it."""
        self._over, self._why = True, self._why or "was closed"
        self._hang_up()
        self._ends_within(_SECONDS_TO_GO)
        self.end("")

    def leave(self) -> None:
        """Ends the process, now or when its current calls return; accepts no more calls."""
        self._leaving = True
        if not any(lock.locked() for lock, _ in self._lines.values()):
            self.end("was closed")

    def end(self, why: str) -> None:
        """Kills the process and what it started; only once, because its id may be reused later."""
        self._over, self._why = True, self._why or why
        with self._ending:
            if self._life >= 0:
                with suppress(ProcessLookupError, PermissionError):  # the whole group has ended already
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._ends_within(_SECONDS_TO_GO)  # takes longer only if the kernel is still cleaning up
                self._listen()
                self._release()
        self._hang_up()

    # -- how -----------------------------------------------------------------------------------------------------------

    @contextmanager
    def _within(self, seconds: float) -> Iterator[None]:
        """Ends the process after this time, which closes the socket that the caller reads from."""
        timer = threading.Timer(seconds, self.end, [_TOO_LATE])
        timer.daemon = True
        timer.start()
        try:
            yield
        except ChannelBroken as trouble:
            if not str(trouble):
                self._ends_within(_SECONDS_TO_DIE)  # if it exits by itself, report that exit instead of our kill
            gone = self._process.poll() is not None and not str(trouble)
            self.end("" if gone else f"{str(trouble) or 'closed its line'} and was ended")
            raise ProviderEnded(f"its process {self._end_in_words()}", kind="ended") from None
        finally:
            timer.cancel()

    def _heard(self, channel: Channel, number: int, accepted: Mapping[bytes, int]) -> Any:
        kind, about, payload = channel.receive({**accepted, FAULT: LARGEST[FAULT]})
        if about != number:
            raise ChannelBroken("answered what nobody had asked")
        if kind == TEXT:
            return payload.decode("utf-8", "replace")
        try:
            told = json.loads(payload)
        except (ValueError, RecursionError):
            raise ChannelBroken("sent something that is not an answer") from None
        if kind == FAULT:
            raise _raised(told)
        return told

    def _ends_within(self, seconds: float) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def _listen(self) -> None:
        """Reads what the process printed and keeps the end of it."""
        with self._ending, suppress(OSError):  # nothing was printed, or the pipe is closed
            self._said = (self._said + os.read(self._output, 1 << 16))[-_KEPT_OUTPUT:]

    def _end_in_words(self) -> str:
        """How the process ended and its last line of output, as text that follows `its process`."""
        code = self._process.poll()
        if self._why or code is None:
            return self._why or "has not ended"
        how = f"ended with status {code}" if code >= 0 else f"was ended by {_signal(-code)}"
        words = _last_words(self._said.decode("utf-8", "replace"))
        return f"{how} ({words})" if words else how

    def _hang_up(self) -> None:
        for lock, channel in self._lines.values():
            channel.hang_up()
            if lock.acquire(blocking=False):  # else the running call closes it
                channel.close()
                lock.release()

    def _release(self) -> None:
        ends, self._life, self._output = (self._life, self._output), -1, -1
        for end in ends:
            os.close(end)

    def __del__(self) -> None:
        if self.__dict__.get("_life", -1) >= 0 and "_output" in self.__dict__:
            self._release()


def _last_words(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    fatal = next((at for at, line in enumerate(lines) if line.startswith("Fatal Python error")), None)
    if fatal is None:
        return lines[-1][:_LONGEST_WORDS] if lines else ""
    where = next((line for line in lines[fatal:] if line.startswith("File ")), "")
    return f"{lines[fatal]} {where}".strip()[:_LONGEST_WORDS]


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _search_path() -> list[str]:
    """Our module search path, with the current folder by name unless it is gone."""
    try:
        here = [os.getcwd()]
    except OSError:
        here = []
    return [each for place in sys.path for each in ([place] if place else here)]


def _raised(told: Any) -> BaseException:
    """An error like the one in the process: the same name and text, and whether waiting helps."""
    told = told if isinstance(told, dict) else {}
    name, said = str(told.get("type") or ""), str(told.get("said") or "")
    if "kind" in told:
        seconds, status = told.get("seconds"), told.get("status")
        return ProviderError(
            said,
            kind=str(told["kind"]),
            seconds=float(seconds) if isinstance(seconds, int | float) else None,
            status=status if isinstance(status, int) else None,
        )
    alike: type[Exception] = type(
        name if name.isidentifier() else "Error", (OSError if told.get("os") else Exception,), {}
    )
    return alike(said)


class HostedProvider(SeparateProcess):
    """A plug-in provider that runs in a process of its own."""

    name = ""

    def __init__(self, name: str, operator_home: str, hermes_home: str, bounds: Bounds | None = None) -> None:
        """Starts the process and does not wait for it."""
        self.name = name
        self._start = partial(ProviderProcess, name, operator_home, hermes_home, bounds or Bounds())
        self._process = self._start()
        self._starts = 1

    def wait_until_loaded(self) -> None:
        """Raises the ProviderError that says why it does not load."""
        try:
            hooks = self._process.hooks()
        except BaseException as error:
            self._process.end("was closed")
            if isinstance(error, ProviderError):
                raise
            raise ProviderError(f"the provider {self.name} does not load: {in_words(error)}", kind="absent") from error
        for hook in OPTIONAL & frozenset(hooks):
            setattr(self, hook, partial(self._ask, hook))

    def describe(self) -> dict[str, Any]:
        """For status commands: the process, and how often it had to be started again."""
        return {"process": 0 if self._process.ended else self._process.pid, "restarts": self._starts - 1}

    def is_available(self) -> bool:
        found = self._ask("is_available")
        found = found if isinstance(found, dict) else {}
        self.unavailable_because = str(found.get("because") or "")
        return found.get("there") is True

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        if self._process.ended:
            self._process, self._starts = self._start(), self._starts + 1
            self.wait_until_loaded()
        self._ask("initialize", session_id, **kwargs)

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        found = self._ask("get_tool_schemas")
        return found if isinstance(found, list) else []

    @property
    def recall_mode(self) -> str:
        return str(self._ask("recall_mode"))

    def shutdown(self) -> None:
        """Lets the provider close its connections, and ends the process."""
        if not self._process.ended:
            try:
                self._ask("shutdown")
            finally:
                self._process.close()

    def end_process(self) -> None:
        """Nobody will ask any more: the process ends now, or when it is done with what it is at."""
        self._process.leave()

    def _ask(self, hook: str, *arguments: Any, **more: Any) -> Any:
        return self._process.ask(hook, list(arguments), more)


_LONGER_THAN_A_TOOL = 1.0  # seconds more, so that the caller of a tool times out first
_DELIVERIES_TAKE = 4  # times what a tool may
_LOADING_TAKES = 30.0  # seconds at least, because imports from a slow disk take long


def in_a_process(home: Home, settings: Settings, name: str) -> SeparateProcess:
    """A provider in its own process, which loads in the background."""
    find_provider(name, home.operator)  # raises for an unknown name before anything is started
    tool = settings.number("memory.provider_tool_timeout")
    bounds = Bounds(
        calls=tool + _LONGER_THAN_A_TOOL,
        deliveries=_DELIVERIES_TAKE * tool,
        load=max(tool, _LOADING_TAKES),
        megabytes=settings.integer("memory.provider_memory_mb"),
    )
    return HostedProvider(name, home.operator, home.path, bounds)
