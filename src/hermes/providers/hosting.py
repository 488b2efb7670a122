"""Runs a provider in a process of its own, and calls it there.

The manager gets an object with the same members and hooks as the provider. Once the process has ended, every call
raises `ProviderEnded`, and `initialize` starts a new process; the manager decides when, and how often.

The process loads the provider, makes the requested calls, and ends with its parent. It calls the provider from two
threads, as the manager would. Neither side trusts the other: a reader says which kinds of frames it accepts and how
large, and anything else ends the connection. Text is sent as text, so that a turn never parses what a provider made up.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
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
from hermes.providers.base import SeparateProcess, call, implements
from hermes.providers.config import secret_value
from hermes.providers.delivery import in_words
from hermes.providers.manager import everything_is_a_provider, running_for
from hermes.storage.files import ErrorOutput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hermes.settings.config import Settings
    from hermes.settings.home import Home

# These hooks are called in order, and nobody waits for them; somebody waits for every other call.
DELIVERED = frozenset(
    {
        *("initialize", "sync_turn", "on_memory_write", "on_delegation", "on_session_end", "on_session_switch"),
        *("queue_prefetch", "shutdown"),
    }
)
# These return text, and those of DATA_CALLS return JSON.
TEXTS = frozenset(
    {
        *("system_prompt_block", "prefetch", "on_pre_compress", "handle_tool_call", "check_connection"),
        *("forget_person", "recall_mode"),
    }
)
DATA_CALLS = frozenset({"is_available", "get_tool_schemas", "get_config_schema", "get_status_config", "backup_paths"})
# The proxy has these only if the provider implements them.
OPTIONAL = (DELIVERED | TEXTS | DATA_CALLS | {"on_turn_start"}) - {
    *("initialize", "is_available", "get_tool_schemas", "shutdown", "recall_mode"),
}

CALL, TEXT, DATA, FAULT = b"c", b"t", b"d", b"f"
_LONGEST_TEXT = 1_000_000  # characters; more than any recall or result may have
LARGEST: Mapping[bytes, int] = {TEXT: 4 * _LONGEST_TEXT, DATA: 2 << 20, FAULT: 1 << 16}  # bytes, of one answer
_HEADER = struct.Struct("!cII")  # kind, number and length
_REQUESTS = {CALL: 1 << 30}  # from Hermes itself
_LONGEST_REASON = 5_000
_SET_SIGNAL = 10  # F_SETSIG of Linux, which the module fcntl does not name
_TO_A_THREAD = "set memory.provider_process to none to run it on a thread of the program instead"


class ChannelBroken(Exception):
    """The other end broke the protocol, as the text says, or is gone if there is no text."""


class Channel:
    """One end of a socket pair that carries frames."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._reader = end.makefile("rb")

    def send(self, kind: bytes, number: int, payload: bytes) -> None:
        """Sends one frame; raises `ChannelBroken` if the other end is gone."""
        try:
            self._end.sendall(_HEADER.pack(kind, number, len(payload)) + payload)
        except OSError as error:
            raise ChannelBroken from error

    def receive(self, accepted: Mapping[bytes, int]) -> tuple[bytes, int, bytes]:
        """Waits for the next frame: kind, number and payload. Refuses kinds and sizes that are not `accepted`."""
        kind, number, length = _HEADER.unpack(self._read(_HEADER.size))
        if length > accepted.get(kind, -1):
            raise ChannelBroken(f"sent {length:,} bytes where an answer has at most {accepted.get(kind, 0):,}")
        return kind, number, self._read(length)

    def hang_up(self) -> None:
        """Shuts the connection down, so that neither end waits any longer."""
        with suppress(OSError):  # it is closed already
            self._end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Gives the descriptor back; only when no other thread uses it, because its number may be reused."""
        self._reader.close()
        self._end.close()

    def _read(self, length: int) -> bytes:
        try:
            found = self._reader.read(length)
        except (OSError, ValueError) as error:  # it was hung up or closed
            raise ChannelBroken from error
        if len(found) < length:
            raise ChannelBroken
        return found


# With -P, Python does not import modules from the current folder.
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); from hermes.providers import discovery, hosting; "
    "hosting.work(discovery.load_provider, *map(int, sys.argv[2:]))"
)
_ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 2))
_SECONDS_TO_GO = 1.0  # for a process that exits by itself or was killed
_SECONDS_TO_DIE = 0.2  # between a closed channel and the end of the process
_LONGEST_WORDS = 160  # characters of its output in an error
_PLACES = ("calls", "deliveries")  # one channel for each worker of the manager


@value
class Bounds:
    """Limits of a provider's process. A call that is not answered in time ends the process."""

    calls: float = 31.0  # seconds, when somebody waits
    deliveries: float = 120.0
    load: float = 30.0
    megabytes: int = 2048  # of memory it may write to; 0 for no limit


class ProviderProcess:
    """A provider's process; a call that misses its deadline ends the process and all that it started."""

    def __init__(self, name: str, operator_home: str, hermes_home: str, bounds: Bounds) -> None:
        """Starts the process, which loads the provider in the background; `hooks` waits for that."""
        self._bounds = bounds
        self._why = ""  # why we ended it, as text that follows `its process`
        self._leaving = self._over = False
        self._numbers = count(1)
        self._ending = threading.RLock()
        pairs = [socket.socketpair() for _ in _PLACES]
        # The process holds one end of this pipe. When we die, however abruptly, the kernel closes the other.
        life, self._life = os.pipe()
        self._output = ErrorOutput()
        theirs = [*(there.fileno() for _, there in pairs), life]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM, _ROOT, *map(str, theirs)],
                stdin=subprocess.DEVNULL,
                stdout=self._output.file,
                stderr=self._output.file,
                pass_fds=theirs,
                env={**os.environ, "HERMES_HOME": hermes_home},
                start_new_session=True,  # a process group, so that what it starts can be killed with it
            )
        except OSError as error:
            self._release()
            raise ProviderError(f"its process does not start: {error}; {_TO_A_THREAD}", kind="absent") from error
        finally:
            os.close(life)
            self._output.close()
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
        """Whether the process accepts no more calls: it has ended, or is about to."""
        return self._over or self._leaving or self._process.poll() is not None

    @property
    def pid(self) -> int:
        """The id of the process, which is also that of its process group."""
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
            if self._over:
                channel.close()
            lock.release()
            if self._leaving:
                self.leave()

    def close(self) -> None:
        """Gives the process a moment to exit, then kills it."""
        self._over, self._why = True, self._why or "was closed"
        self._hang_up()
        self._ends_within(_SECONDS_TO_GO)
        self.end("")

    def leave(self) -> None:
        """Accepts no more calls, and ends the process now or when its current calls return."""
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
                self._release()
        self._hang_up()

    # -- how -----------------------------------------------------------------------------------------------------------

    @contextmanager
    def _within(self, seconds: float) -> Iterator[None]:
        """Ends a process that does not answer in this time or breaks the protocol, and says so."""
        # The timer kills it, which ends every wait for it, however slowly it sends or reads.
        clock = threading.Timer(max(seconds, 0), self.end, ["did not answer in time and was ended"])
        clock.daemon = True
        clock.start()
        try:
            yield
        except ChannelBroken as trouble:
            if not str(trouble):
                self._ends_within(_SECONDS_TO_DIE)  # if it exits by itself, report that exit instead of our kill
            gone = self._process.poll() is not None and not str(trouble)
            self.end("" if gone else f"{str(trouble) or 'closed its line'} and was ended")
            raise ProviderEnded(f"its process {self._end_in_words()}", kind="ended") from None
        finally:
            clock.cancel()

    def _heard(self, channel: Channel, number: int, accepted: Mapping[bytes, int]) -> Any:
        kind, about, payload = channel.receive({**accepted, FAULT: LARGEST[FAULT]})
        if about != number:
            raise ChannelBroken("answered a call that was not made")
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

    def _end_in_words(self) -> str:
        """How the process ended and its last line of output, as text that follows `its process`."""
        code = self._process.poll()
        if self._why or code is None:
            return self._why or "has not ended"
        how = f"ended with status {code}" if code >= 0 else f"was ended by {_signal(-code)}"
        words = _last_words(self._output.last_words())
        return f"{how} ({words})" if words else how

    def _hang_up(self) -> None:
        for lock, channel in self._lines.values():
            channel.hang_up()
            if lock.acquire(blocking=False):  # else the running call closes it
                channel.close()
                lock.release()

    def _release(self) -> None:
        end, self._life = self._life, -1
        os.close(end)

    def __del__(self) -> None:
        if self.__dict__.get("_life", -1) >= 0:
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
    """Our module search path; "" in it, the current folder, is replaced by that folder's path unless it is gone."""
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
        """Starts the process without waiting for it."""
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
            setattr(self, hook, partial(self._ask, hook))  # the manager calls only hooks that `implements` finds

    def describe(self) -> dict[str, Any]:
        """For status commands: the process, and how often it had to be started again."""
        return {"process": 0 if self._process.ended else self._process.pid, "restarts": self._starts - 1}

    def is_available(self) -> bool:
        found = self._ask("is_available")
        found = found if isinstance(found, dict) else {}
        self.unavailable_because = str(found.get("because") or "")
        return found.get("there") is True

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """Starts the process again if it has ended, then initializes the provider in it."""
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
        """Accepts no more calls and ends the process, now or when its current call returns."""
        self._process.leave()

    def _ask(self, hook: str, *arguments: Any, **more: Any) -> Any:
        return self._process.ask(hook, list(arguments), more)


_LONGER_THAN_A_TOOL = 1.0  # seconds more, so that the caller of a tool times out first
_DELIVERIES_TAKE = 4  # times what a tool may
_LOADING_TAKES = 30.0  # seconds at least, because imports from a slow disk take long


def in_a_process(home: Home, settings: Settings, name: str) -> SeparateProcess:
    """Starts a provider in its own process, with deadlines derived from those of the settings."""
    tool = settings.number("memory.provider_tool_timeout")
    bounds = Bounds(
        calls=tool + _LONGER_THAN_A_TOOL,
        deliveries=_DELIVERIES_TAKE * tool,
        load=max(tool, _LOADING_TAKES),
        megabytes=settings.integer("memory.provider_memory_mb"),
    )
    return HostedProvider(name, home.operator, home.path, bounds)


# The other side: what runs in the provider's process.


def work(load: Callable[[str, str], Any], calls: int, deliveries: int, life: int) -> None:
    """Answers calls until the sockets close; dies at once when the other end of `life` closes."""
    for descriptor in (calls, deliveries, life):
        os.set_inheritable(descriptor, False)  # programs that the provider starts must not inherit our descriptors
    _die_with(life)
    channel, other = (Channel(socket.socket(fileno=each)) for each in (calls, deliveries))
    try:
        _, number, data = channel.receive(_REQUESTS)
        given = json.loads(data)
        _confine(given["megabytes"])
        provider = _loaded(load, channel, number, given)
    except ChannelBroken:
        return
    if provider is not None:
        served = [threading.Thread(target=_serve, args=(each, provider, given["home"])) for each in (channel, other)]
        for each in served:
            each.start()
        for each in served:
            each.join()


def _die_with(life: int) -> None:
    """Has the kernel kill our process group when the other end closes, even while native code runs."""
    if sys.platform == "linux":
        import fcntl

        # Asks for SIGKILL instead of SIGIO when the pipe changes, and sends it to our whole process group.
        fcntl.fcntl(life, _SET_SIGNAL, signal.SIGKILL)
        fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)
    else:
        threading.Thread(target=lambda: (os.read(life, 1), os._exit(0)), daemon=True).start()


def _confine(megabytes: int) -> None:
    """Limits the memory of this process, keeps its files private, and writes what it prints at once."""
    import faulthandler
    import resource

    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would contain keys and conversations
    if megabytes:
        # On Linux this limits writable memory, not reserved addresses.
        kind = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
        _, hard = resource.getrlimit(kind)
        most = megabytes << 20 if hard == resource.RLIM_INFINITY else min(megabytes << 20, hard)
        resource.setrlimit(kind, (most, most))
    faulthandler.enable(file=2, all_threads=False)
    for printed in (sys.stdout, sys.stderr):  # its last words may say why it died
        printed.reconfigure(errors="replace", line_buffering=True)  # type: ignore[union-attr]  # both are text files


def _loaded(load: Callable[[str, str], Any], channel: Channel, number: int, given: Mapping[str, Any]) -> Any:
    """Loads the provider and sends its hooks, or sends the reason why it does not load and returns None."""
    sys.path[:] = given["path"]
    everything_is_a_provider()
    try:
        provider = load(given["name"], given["operator"])
        _offer_keys(provider, given["home"])
        hooks = [hook for hook in sorted(OPTIONAL) if implements(provider, hook)]
    except BaseException as error:  # noqa: BLE001 - other people's code
        channel.send(FAULT, number, _fault(error))
        return None
    channel.send(DATA, number, json.dumps({"hooks": hooks}).encode())
    return provider


def _offer_keys(provider: Any, home: str) -> None:
    """Puts keys from .env into the environment, where hermes-agent's providers expect them."""
    try:
        fields = list(provider.get_config_schema() or ()) if hasattr(provider, "get_config_schema") else []
    except BaseException:  # noqa: BLE001 - a caller that asks for the fields gets this error
        return
    for field in fields:
        variable = str(field.get("env_var") or "") if isinstance(field, dict) else ""
        if variable and variable not in os.environ and (found := secret_value(home, variable)):
            os.environ[variable] = found


def _serve(channel: Channel, provider: Any, home: str) -> None:
    try:
        while True:
            _, number, data = channel.receive(_REQUESTS)
            kind, answer = _answered(provider, home, data)
            channel.send(kind, number, answer)
    except ChannelBroken:
        return  # no more calls will come


def _answered(provider: Any, home: str, data: bytes) -> tuple[bytes, bytes]:
    try:
        request = json.loads(data)
        hook = request["hook"]
        with running_for(home):
            returned = _carried_out(provider, hook, request["arguments"], request["more"])
        if hook in TEXTS:
            return TEXT, _text(hook, returned)
        return DATA, _plain(hook, returned) if hook in DATA_CALLS else b"null"
    except BaseException as error:  # noqa: BLE001 - a provider may raise anything
        return FAULT, _fault(error)


def _carried_out(provider: Any, hook: str, arguments: list[Any], more: dict[str, Any]) -> Any:
    if hook == "recall_mode":
        return getattr(provider, "recall_mode", "")
    if hook == "is_available":
        there = bool(provider.is_available())
        return {"there": there, "because": "" if there else str(getattr(provider, "unavailable_because", "") or "")}
    method = getattr(provider, hook, None)
    return None if method is None else call(method, *arguments, optional=more)


def _text(hook: str, returned: Any) -> bytes:
    if hook == "handle_tool_call" and isinstance(returned, dict | list):
        returned = json.dumps(returned, ensure_ascii=False, default=str)
    if returned is None:
        returned = ""
    if not isinstance(returned, str):
        raise TypeError(f"expected text, got {type(returned).__name__}")
    return str.__getitem__(returned, slice(0, _LONGEST_TEXT)).encode("utf-8", "replace")


def _plain(hook: str, returned: Any) -> bytes:
    if hook == "get_tool_schemas":  # one that is not JSON must not affect the others
        returned = [each if _is_plain(each) else _named_only(each) for each in returned or ()]
    if not _is_plain(returned):
        raise ProviderError(
            f"{hook} returned something that is not JSON and cannot leave its process; {_TO_A_THREAD}",
            kind="malformed",
        )
    found = json.dumps(returned).encode()
    if len(found) > LARGEST[DATA]:
        raise ValueError(f"{hook} returned {len(found):,} bytes; {LARGEST[DATA]:,} are allowed")
    return found


def _is_plain(described: Any) -> bool:
    try:
        json.dumps(described)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _named_only(described: Any) -> Any:
    """A stand-in for a tool whose description is not JSON, so that the refusal can name the tool."""
    function = described.get("function", described) if isinstance(described, dict) else None
    return {"name": str(function.get("name"))[:80], "parameters": "no JSON"} if isinstance(function, dict) else None


def _fault(error: BaseException) -> bytes:
    """An error as JSON; `_raised` makes an error from it on the other side."""
    try:
        said = str(error)[:_LONGEST_REASON]
    except Exception:  # noqa: BLE001 - an error of other people's code may break in its own __str__
        said = "(its message cannot be read)"
    told: dict[str, Any] = {"type": type(error).__name__[:80], "said": said, "os": isinstance(error, OSError)}
    if isinstance(error, ProviderError):
        told |= {"kind": str(error.kind), "seconds": error.seconds, "status": error.status}
    return json.dumps(told).encode()
