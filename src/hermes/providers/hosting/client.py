"""A provider that runs in a process of its own, seen from ours.

The manager sees an object with the members and hooks that the provider really has. When the process has ended, every
call raises a `ProviderEnded`, and `initialize` starts it anew; when, and how often, is for the manager to say.
"""

from __future__ import annotations

import builtins
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from hermes.base.errors import ProviderEnded, ProviderError
from hermes.base.values import value
from hermes.providers.base import SeparateProcess
from hermes.providers.discovery import find_provider
from hermes.providers.hosting.frames import (
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
    ChannelClosed,
    TooLate,
)
from hermes.providers.worker import in_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hermes.settings.config import Settings
    from hermes.settings.home import Home

_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "start.py")
_ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))
_KEPT_OUTPUT = 4096
_SECONDS_TO_GO = 1.0
_LONGEST_WORDS = 160
_PLACES = ("calls", "deliveries")
_SECONDS_TO_DIE = 0.2  # between a closed channel and the end that closed it


class Subprocess:
    """The operating system's side of it: started, listened to, ended together with what it started."""

    def __init__(self, handed: Sequence[int], hermes_home: str) -> None:
        """Starts our program for providers with these descriptors."""
        if not sys.executable:
            raise ProviderError(
                "there is no Python that could be started for it; set memory.provider_process to none", kind="absent"
            )
        self._lock = threading.Lock()
        self._said = b""
        life, self._life = os.pipe()
        self._output, output = os.pipe()
        for end in (self._output, output):
            os.set_blocking(end, False)
        theirs = [*handed, life]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", _PROGRAM, _ROOT, *map(str, theirs)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=theirs,
                env={**os.environ, "HERMES_HOME": hermes_home},
                start_new_session=True,
            )
        except OSError as error:
            self._release()
            raise ProviderError(f"its process does not start: {error}", kind="absent") from error
        finally:
            os.close(life)
            os.close(output)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ends_within(self, seconds: float) -> bool:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def dismiss(self) -> None:
        """Lets it end by itself for a moment, with what it does at its end, then ends it."""
        if self.ends_within(_SECONDS_TO_GO):
            self._release()
        else:
            self.kill()

    def kill(self) -> None:
        """Ends it and what it started, whatever they are doing; once, for its number may be another's later."""
        if self._life < 0:
            return
        with suppress(ProcessLookupError, PermissionError):  # it is gone, and so is what it started
            os.killpg(self._process.pid, signal.SIGKILL)
        self.ends_within(_SECONDS_TO_GO)  # longer only while the kernel is not done with it; nothing is left to do then
        self.listen()
        self._release()

    def listen(self) -> None:
        """Empties the buffer of what it printed and keeps the end of it."""
        with self._lock:
            if self._output >= 0:
                with suppress(BlockingIOError):  # nothing was printed
                    self._said = (self._said + os.read(self._output, 1 << 16))[-_KEPT_OUTPUT:]

    def end_in_words(self) -> str:
        """How it ended and the last it said, after `its process`."""
        code = self._process.poll()
        if code is None:
            return "has not ended"
        words = _last_words(self._said.decode("utf-8", "replace"))
        how = f"ended with status {code}" if code >= 0 else f"was ended by {_signal(-code)}"
        return f"{how} ({words})" if words else how

    def _release(self) -> None:
        with self._lock:
            ends, self._life, self._output = (self._life, self._output), -1, -1
        for end in ends:
            if end >= 0:
                os.close(end)

    def __del__(self) -> None:
        if "_life" in self.__dict__ and "_output" in self.__dict__:
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


@value
class Bounds:
    """What a provider's process may take. A call that is not answered in its seconds ends the process."""

    calls: float = 31.0  # seconds, when somebody waits
    deliveries: float = 120.0
    load: float = 30.0
    megabytes: int = 2048  # of memory it may write to; 0 for no limit


class ProviderProcess:
    """A provider's process seen from our side: asked within a time, and ended when it does not keep to it."""

    def __init__(self, name: str, operator_home: str, hermes_home: str, bounds: Bounds) -> None:
        """Starts the process, which loads the provider meanwhile; `hooks` waits for that."""
        self._bounds = bounds
        self._why = ""  # it was ended by us, in words after `its process`
        self._leaving = self._over = False
        pairs = [socket.socketpair() for _ in _PLACES]
        try:
            self._running = Subprocess([there.fileno() for _, there in pairs], hermes_home)
        finally:
            for _, there in pairs:
                there.close()
        self._channels = {
            place: (threading.Lock(), Channel(here, alive=lambda: self._running.is_alive))
            for place, (here, _) in zip(_PLACES, pairs, strict=True)
        }
        self._loaded_until = time.monotonic() + bounds.load
        told = {
            "name": name,
            "operator": operator_home,
            "home": hermes_home,
            "megabytes": bounds.megabytes,
            "path": _search_path(),
        }
        with suppress(ChannelBroken):  # it died at once; whoever asks for its hooks hears why
            self._channels["calls"][1].send(CALL, 0, json.dumps(told).encode(), until=self._loaded_until)

    @property
    def ended(self) -> bool:
        return self._over or self._leaving or not self._running.is_alive

    @property
    def pid(self) -> int:
        return self._running.pid

    def hooks(self) -> list[str]:
        """Which hooks the provider has, once it is loaded; the ProviderError that says why it does not load."""
        found = self._heard(self._channels["calls"][1], 0, {DATA: LARGEST[DATA]}, self._loaded_until)
        return [str(hook) for hook in found.get("hooks", ())] if isinstance(found, dict) else []

    def ask(self, hook: str, arguments: list[Any], more: dict[str, Any]) -> Any:
        """What the provider returned, or raises what it raised; a ProviderEnded when it cannot answer any more."""
        delivered = hook in DELIVERED
        seconds = self._bounds.deliveries if delivered else self._bounds.calls
        until = time.monotonic() + seconds
        lock, channel = self._channels["deliveries" if delivered else "calls"]
        if not lock.acquire(timeout=seconds):
            raise ProviderError("it is busy with another call", kind="busy")
        try:
            if self.ended:
                self.end("")  # what it may have left behind
                raise ProviderEnded(f"its process {self._end_in_words()}", kind="unreachable")
            return self._asked(channel, hook, {"hook": hook, "arguments": arguments, "more": more}, until)
        finally:
            self._running.listen()
            if self._over:
                channel.release()
            lock.release()
            if self._leaving:
                self.leave()

    def close(self) -> None:
        """Lets it end by itself for a moment, then ends it."""
        self._over, self._why = True, self._why or "was closed"
        self._hang_up()
        self._running.dismiss()

    def leave(self) -> None:
        """Ends it now, or as soon as what it is doing is done; no call begins after this."""
        self._leaving = True
        if not any(lock.locked() for lock, _ in self._channels.values()):
            self.end("was closed")

    def end(self, why: str) -> None:
        """Ends it and what it started, whatever they are doing."""
        self._over, self._why = True, self._why or why
        self._running.kill()
        self._hang_up()

    # -- how -----------------------------------------------------------------------------------------------------------

    def _asked(self, channel: Channel, hook: str, request: dict[str, Any], until: float) -> Any:
        number = time.monotonic_ns() & 0xFFFFFFFF
        try:
            channel.send(CALL, number, json.dumps(request, default=str).encode(), until=until)
        except (ChannelBroken, TooLate) as trouble:
            raise self._lost(trouble) from None
        if hook in TEXTS:
            accepted = {TEXT: LARGEST[TEXT]}
        else:
            accepted = {DATA: LARGEST[DATA] if hook in DATA_CALLS else len(b"null")}
        return self._heard(channel, number, accepted, until)

    def _heard(self, channel: Channel, number: int, accepted: Mapping[bytes, int], until: float) -> Any:
        try:
            kind, about, payload = channel.receive({**accepted, FAULT: LARGEST[FAULT]}, until=until)
        except (ChannelBroken, TooLate) as trouble:
            raise self._lost(trouble) from None
        if about != number:
            raise self._lost(ChannelBroken("answered what nobody had asked"))
        if kind == TEXT:
            return payload.decode("utf-8", "replace")
        try:
            told = json.loads(payload)
        except (ValueError, RecursionError):
            raise self._lost(ChannelBroken("sent something that is not an answer")) from None
        if kind == FAULT:
            raise _raised(told)
        return told

    def _lost(self, trouble: ChannelBroken | TooLate) -> ProviderEnded:
        """Ends what is left of it; an end of its own accord is told as what it was."""
        if isinstance(trouble, ChannelClosed) and self._running.ends_within(_SECONDS_TO_DIE):
            self.end("")
        elif isinstance(trouble, TooLate):
            self.end("did not answer for long and was ended")
        else:
            self.end(f"{trouble} and was ended")
        return ProviderEnded(f"its process {self._end_in_words()}", kind="ended")

    def _end_in_words(self) -> str:
        return self._why or self._running.end_in_words()

    def _hang_up(self) -> None:
        for lock, channel in self._channels.values():
            channel.close()
            if lock.acquire(blocking=False):  # else whoever talks at the moment releases it
                channel.release()
                lock.release()


def _search_path() -> list[str]:
    """Where we look for modules; the folder we are in by its name, unless it is gone."""
    try:
        here = [os.getcwd()]
    except OSError:
        here = []
    return [each for place in sys.path for each in ([place] if place else here)]


def _raised(told: Any) -> BaseException:
    """An error like the one in the process: its name, its words, and whether waiting helps."""
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
    known = getattr(builtins, name, None)
    if isinstance(known, type) and issubclass(known, Exception):
        with suppress(TypeError):  # some are not made of words
            return known(said)
    kind: type[Exception] = OSError if told.get("os") else Exception
    alike: type[Exception] = type(name if name.isidentifier() else "Error", (kind,), {})
    return alike(said)


class HostedProvider(SeparateProcess):
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


_LONGER_THAN_A_TOOL = 1.0  # seconds, so that whoever waits for a tool gives up first
_DELIVERIES_TAKE = 4  # times what a tool may
_LOADING_TAKES = 30.0  # seconds; imports are slow where disks are, however quick tools must be


def in_a_process(home: Home, settings: Settings, name: str) -> SeparateProcess:
    """A provider that loads in a process of its own while the caller goes on."""
    find_provider(name, home.operator)  # before anything is started for a name that nobody has
    tool = settings.number("memory.provider_tool_timeout")
    bounds = Bounds(
        calls=tool + _LONGER_THAN_A_TOOL,
        deliveries=_DELIVERIES_TAKE * tool,
        load=max(tool, _LOADING_TAKES),
        megabytes=settings.integer("memory.provider_memory_mb"),
    )
    return HostedProvider(name, home.operator, home.path, bounds)
