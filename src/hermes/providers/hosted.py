"""Runs in a provider's process: loads the provider, makes the requested calls, and ends with its parent process.

The provider is called from two threads, as it would be without a process of its own. What both sides know of each
other is here too: the hooks, and the frames that they exchange. Neither side believes the other: a reader says which
kinds of frames it accepts and how large, and anything else ends the conversation. Text goes as text, so that a turn
never parses what a provider made up.
"""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import struct
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hermes.base.errors import ProviderError
from hermes.providers.base import call, implements
from hermes.providers.config import secret_value
from hermes.providers.manager import everything_is_a_provider, running_for

if TYPE_CHECKING:
    from collections.abc import Mapping

# Called in order, and nobody waits; somebody waits for every other call.
DELIVERED = frozenset(
    {
        *("initialize", "sync_turn", "on_memory_write", "on_delegation", "on_session_end", "on_session_switch"),
        *("queue_prefetch", "shutdown"),
    }
)
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
_LONGEST_WORDS = 5_000
_SET_SIGNAL = 10  # F_SETSIG of Linux, which the module fcntl does not name
_TO_A_THREAD = "set memory.provider_process to none to run it on a thread of the program instead"


class ChannelBroken(Exception):
    """The other end broke the protocol, as the text says, or is gone if there is no text."""


class Channel:
    """One end of a socket pair that carries frames."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._file = end.makefile("rb")

    def send(self, kind: bytes, number: int, payload: bytes) -> None:
        try:
            self._end.sendall(_HEADER.pack(kind, number, len(payload)) + payload)
        except OSError as error:
            raise ChannelBroken from error

    def receive(self, accepted: Mapping[bytes, int]) -> tuple[bytes, int, bytes]:
        """The next frame: kind, number and payload."""
        kind, number, length = _HEADER.unpack(self._read(_HEADER.size))
        if length > accepted.get(kind, -1):
            raise ChannelBroken(f"sent {length:,} bytes where an answer has at most {accepted.get(kind, 0):,}")
        return kind, number, self._read(length)

    def hang_up(self) -> None:
        """Shuts the connection down, so that neither end waits any longer."""
        with suppress(OSError):  # it is closed already
            self._end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._file.close()
        self._end.close()

    def _read(self, length: int) -> bytes:
        try:
            found = self._file.read(length)
        except (OSError, ValueError) as error:
            raise ChannelBroken from error
        if len(found) < length:
            raise ChannelBroken
        return found


def work(calls: int, deliveries: int, life: int) -> None:
    """Answers calls until the sockets are closed; the process ends at once when the other end of `life` closes."""
    for descriptor in (calls, deliveries, life):
        os.set_inheritable(descriptor, False)  # programs that the provider starts must not inherit our descriptors
    _die_with(life)
    channel, other = (Channel(socket.socket(fileno=each)) for each in (calls, deliveries))
    try:
        _, number, data = channel.receive(_REQUESTS)
        given = json.loads(data)
        _confine(given["megabytes"])
        provider = _loaded(channel, number, given)
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

        fcntl.fcntl(life, _SET_SIGNAL, signal.SIGKILL)
        fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)
    else:
        threading.Thread(target=lambda: (os.read(life, 1), os._exit(0)), daemon=True).start()


def _confine(megabytes: int) -> None:
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
    sys.stdout = sys.stderr = _Kept()


def _loaded(channel: Channel, number: int, given: Mapping[str, Any]) -> Any:
    """Loads the provider and sends its hooks, or sends the reason why it does not load and returns None."""
    sys.path[:] = given["path"]
    everything_is_a_provider()
    try:
        from hermes.providers.discovery import load_provider

        provider = load_provider(given["name"], given["operator"])
        _offer_keys(provider, given["home"])
        hooks = [hook for hook in sorted(OPTIONAL) if implements(provider, hook)]
    except BaseException as error:  # noqa: BLE001 - other people's code
        channel.send(FAULT, number, _fault(error))
        return None
    channel.send(DATA, number, json.dumps({"hooks": hooks}).encode())
    return provider


def _offer_keys(provider: Any, home: str) -> None:
    """Puts keys from .env into the environment, where hermes-agent's providers look for them."""
    try:
        fields = list(provider.get_config_schema() or ()) if hasattr(provider, "get_config_schema") else []
    except BaseException:  # noqa: BLE001 - whoever asks for its fields hears of it
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
    try:
        said = str(error)[:_LONGEST_WORDS]
    except Exception:  # noqa: BLE001 - an error of other people's code may break in its own __str__
        said = "(it says nothing about itself)"
    told: dict[str, Any] = {"type": type(error).__name__[:80], "said": said, "os": isinstance(error, OSError)}
    if isinstance(error, ProviderError):
        told |= {"kind": str(error.kind), "seconds": error.seconds, "status": error.status}
    return json.dumps(told).encode()


class _Kept(io.TextIOBase):
    """Receives what a provider prints: it never reaches a terminal and never blocks; excess output is dropped."""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 2

    def write(self, text: str) -> int:
        with suppress(OSError):  # the pipe is full
            os.write(2, text.encode("utf-8", "replace"))
        return len(text)
