"""A started process that leads a group of its own and has nothing of ours but what it was handed.

It has no terminal: what it prints goes into a small buffer that neither side ever waits for. It goes when we go: it
holds one end of a pipe whose other end closes with us, however we end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from hermes.vocabulary.errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import Sequence

_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "start.py")
_ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))
_KEPT_OUTPUT = 4096
_SECONDS_TO_GO = 1.0
_LONGEST_WORDS = 160


class Running:
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
