"""Runs `hermes` in a pseudo-terminal and reads its screen as a person would: nothing is patched, keys are sent."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from typing import TYPE_CHECKING, Any, Self

import pyte

from hermes.settings.home import find_home
from hermes.settings.trust import TrustedFolders

if TYPE_CHECKING:
    from pathlib import Path

_LAST_WORDS = 5.0
PATIENCE = 40.0  # seconds; a slow machine is no failure
ENTER, CTRL_C, CTRL_D, CTRL_O, TAB, ALT_ENTER = "\r", "\x03", "\x04", "\x0f", "\t", "\x1b\r"
# The terminal becomes the program's own, so that its Ctrl-C is a signal.
_START = "import fcntl, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);from hermes.__main__ import start; start()"
_KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "DEEPSEEK_API_KEY", "HERMES_MODEL_API_KEY")


class Terminal:
    """`hermes ARGUMENTS` on a screen of `columns` by `lines`."""

    def __init__(self, home: Path, *arguments: str, columns: int = 80, lines: int = 24, **environment: str) -> None:
        if home.is_dir():  # else a chat would begin with the question whether the folder is trusted
            TrustedFolders(find_home(home)).add(os.fspath(home.parent), trusted=False)
        self._ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self._screen = _Answering(columns, lines, self._ours)
        self._bytes = pyte.ByteStream(self._screen)
        self.raw = b""
        kept = {name: text for name, text in os.environ.items() if name not in (*_KEYS, "NO_COLOR", "COLUMNS", "LINES")}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**kept, "HERMES_HOME": os.fspath(home), "TERM": "xterm-256color", "LANG": "C.UTF-8", **environment},
            cwd=home.parent,
            start_new_session=True,
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)  # a measurement of coverage writes its figures then
        try:
            self._process.wait(_LAST_WORDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._ours)

    @property
    def screen(self) -> str:
        """What a person sees, without the empty lines at the end."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip() + "\n"

    @property
    def rows(self) -> list[list[pyte.screens.Char]]:
        """Every cell of the screen, with its colours."""
        buffer, columns = self._screen.buffer, range(self._screen.columns)
        return [[buffer[line][column] for column in columns] for line in range(self._screen.lines)]

    def send(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def say(self, line: str) -> None:
        """Types a line when the program waits for one."""
        self.wait_for_prompt()
        before = len(self.raw)
        self.send(line + ENTER)
        # Until it is echoed, the old prompt still stands on the screen and the next line would be typed too early.
        end = time.monotonic() + PATIENCE
        while line[:4].encode() not in self.raw[before:]:
            if not self._read(end - time.monotonic()):
                raise AssertionError(f"{line!r} was not echoed:\n{self.screen}")

    def wait_for_prompt(self) -> str:
        """Reads until the cursor stands behind an empty prompt, and returns the screen."""
        end = time.monotonic() + PATIENCE
        while self._screen.display[self._screen.cursor.y].rstrip() != ">":
            if not self._read(end - time.monotonic()):
                raise AssertionError(f"no prompt came:\n{self.screen}")
        return self.screen

    def wait_for(self, text: str, *, gone: bool = False) -> str:
        """Reads until the text stands on the screen (or does no more), and returns the screen."""
        end = time.monotonic() + PATIENCE
        while (text in self.screen) == gone:
            if not self._read(end - time.monotonic()):
                raise AssertionError(f"{text!r} did not {'go' if gone else 'come'}:\n{self.screen}")
        return self.screen

    def wait_for_end(self) -> int:
        """The exit code, after everything it wrote was read."""
        end = time.monotonic() + PATIENCE
        while self._read(end - time.monotonic()):
            pass
        return self._process.wait(max(end - time.monotonic(), 1))

    def _read(self, seconds: float) -> bool:
        if not select.select([self._ours], [], [], max(seconds, 0))[0]:
            return False
        with contextlib.suppress(OSError):  # a terminal whose program has gone
            data = os.read(self._ours, 65_536)
            self.raw += data
            self._bytes.feed(data)
            return bool(data)
        return False


class _Answering(pyte.Screen):
    """A screen that answers where its cursor is, as real terminals do."""

    def __init__(self, columns: int, lines: int, master: int) -> None:
        super().__init__(columns, lines)
        self._master = master

    def write_process_input(self, data: str) -> None:
        os.write(self._master, data.encode())


def script(home: Path, *steps: Any) -> str:
    """Writes a scripted model into the home and chooses it; returns its name."""
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "script.json").write_text(json.dumps(steps))
    (home / "config.yaml").write_text("model:\n  default: scripted:script.json\n")
    return "scripted (script.json)"
