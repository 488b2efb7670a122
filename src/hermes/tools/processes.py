"""Runs a program with a time limit and bounded output, and ends it with everything it started."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from hermes.vocabulary.errors import WriteRefused
from hermes.vocabulary.values import value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_LOOK_EVERY = 0.1  # seconds between two looks at whether to stop
_GRACE = 2.0  # seconds a program gets to end by itself
_LAST_WORDS = 0.5  # seconds a pipe is still read after its program ended: others may hold it open for ever
_PIECE = 65_536
_PIPE = 1_048_576  # bytes that a pipe holds at most: one read empties it, and no more, whoever still writes


@value
class Ran:
    """`ended` is exited, timed out or interrupted; `lost` are the bytes that `output` leaves out."""

    output: str
    lost: int
    code: int | None
    ended: str
    seconds: float


class _Kept:
    """The beginning and the end of an output of any length."""

    def __init__(self, most: int) -> None:
        self._half = most // 2
        self._head, self._tail = bytearray(), bytearray()
        self._lost = 0

    def add(self, data: bytes) -> None:
        room = self._half - len(self._head)
        self._head += data[:room] if room > 0 else b""
        self._tail += data[max(room, 0) :]
        if len(self._tail) > 2 * self._half:
            self._lost += len(self._tail) - self._half
            del self._tail[: -self._half]

    @property
    def lost(self) -> int:
        return self._lost + max(len(self._tail) - self._half, 0)

    def text(self) -> str:
        gap = f"\n[… {self.lost:,} bytes left out …]\n".encode() if self.lost else b""
        return (bytes(self._head) + gap + bytes(self._tail[-self._half :])).decode("utf-8", "replace")


def run_bounded(
    command: Sequence[str],
    *,
    folder: str,
    environment: Mapping[str, str],
    seconds: float,
    most_bytes: int,
    cancelled: Callable[[], bool],
    given: bytes = b"",
) -> Ran:
    """Runs a program to its end, its time limit or until `cancelled`; both streams are read as one."""
    start = time.monotonic()
    kept = _Kept(most_bytes)
    with _CtrlC() as pressed:
        process = _started(command, folder, environment, subprocess.PIPE if given else subprocess.DEVNULL)
    reading: Any = process.stdout
    try:
        pressed.tell()
        if given:
            threading.Thread(target=_give, args=(process.stdin, given), daemon=True).start()
        ended = _follow(process, reading, kept, start + seconds, cancelled)
    except BaseException:  # Ctrl-C as well: nothing may go on running
        _end(process)
        raise
    finally:
        reading.close()
    return Ran(
        output=kept.text(), lost=kept.lost, code=process.returncode, ended=ended, seconds=time.monotonic() - start
    )


class _CtrlC:
    """Holds Ctrl-C back for a moment: between the start of a program and knowing of it, it would be forgotten."""

    def __init__(self) -> None:
        self._pressed = False
        self._before: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # no other thread is told of signals
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def tell(self) -> None:
        if self._pressed:
            signal.raise_signal(signal.SIGINT)

    def _note(self, *_: object) -> None:
        self._pressed = True


def _started(
    command: Sequence[str], folder: str, environment: Mapping[str, str], given: int
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            list(command),
            cwd=folder,
            env=dict(environment),
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a group of its own, so that all of it can be ended
        )
    except (OSError, ValueError) as error:  # the latter for text that no system can take
        raise WriteRefused(f"{command[0]} cannot be run in {folder}: {error}", kind="command") from error


def _give(writing: Any, data: bytes) -> None:
    with suppress(OSError), writing:  # the program may have ended
        writing.write(data)


def _follow(
    process: subprocess.Popen[bytes], reading: Any, kept: _Kept, end: float, cancelled: Callable[[], bool]
) -> str:
    os.set_blocking(reading.fileno(), False)
    with selectors.DefaultSelector() as selector:
        selector.register(reading, selectors.EVENT_READ)
        while True:
            if cancelled() or time.monotonic() > end:
                ended = "interrupted" if cancelled() else "timed out"
                _end(process)
                _read(reading, kept, _PIPE)
                return ended
            if selector.select(_LOOK_EVERY) and not _read(reading, kept, _PIECE):
                break  # its end of the pipe is closed
            if process.poll() is not None:
                _last_words(selector, reading, kept)
                break
    return _wait(process, end, cancelled)


def _wait(process: subprocess.Popen[bytes], end: float, cancelled: Callable[[], bool]) -> str:
    """A program may close its output and go on."""
    while process.poll() is None:
        if cancelled() or time.monotonic() > end:
            ended = "interrupted" if cancelled() else "timed out"
            _end(process)
            return ended
        with suppress(subprocess.TimeoutExpired):
            process.wait(_LOOK_EVERY)
    return "exited"


def _last_words(selector: selectors.BaseSelector, reading: Any, kept: _Kept) -> None:
    end = time.monotonic() + _LAST_WORDS
    while time.monotonic() < end and selector.select(_LOOK_EVERY):
        if not _read(reading, kept, _PIECE):
            return


def _read(reading: Any, kept: _Kept, most: int) -> bool:
    try:
        data = os.read(reading.fileno(), most)
    except BlockingIOError:
        return False
    kept.add(data)
    return bool(data)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Asks the whole group to end, and ends it when it does not."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
