"""What commands share: their context, output (text for people, JSON for scripts), questions and progress."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hermes.base.errors import ExtraMissing, NotConfirmed, SettingsError, command
from hermes.base.text import in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Self, TextIO

    from hermes.settings.config import Settings
    from hermes.settings.home import Home


OK, REFUSED, USAGE = 0, 1, 2  # exit codes
Given = argparse.Namespace  # the options of a command, as they were given


class Context:
    """What every command receives besides its options: the home and its settings, each loaded on first use."""

    def __init__(
        self, home: str | None, profile: str | None, user: str | None, run: Callable[[list[str], Context], int]
    ) -> None:
        self._given = (home, profile)
        self._run = run
        self._user = user
        self._home: Home | None = None
        self._settings: Settings | None = None

    @property
    def home(self) -> Home:
        """The home that the options and the environment name; raises if a named profile or person does not exist."""
        if self._home is None:
            from hermes.settings.home import locate_home

            self._home = locate_home(*self._given)
            if self._user is not None:
                self._home = _person_home(self._home, self._user)
        return self._home

    @property
    def root(self) -> str | None:
        """The `--home` that was given, before any profile."""
        return self._given[0]

    @property
    def settings(self) -> Settings:
        """The settings of the home, loaded once per command."""
        if self._settings is None:
            from hermes.settings.config import load_settings

            self._settings = load_settings(self.home)
        return self._settings

    def run(self, words: list[str]) -> int:
        """Runs another command on the same home, as the chat does for slash commands."""
        return self._run(words, self)


def _person_home(home: Home, name: str) -> Home:
    from hermes.base.errors import NotFound
    from hermes.settings.home import person_home

    try:
        return person_home(home, name)
    except NotFound:
        from hermes.settings.people import People

        return People(home).home_of(name)  # another server of the same database may have added them


# Output: plain lines for people, one JSON document for scripts.

# Characters that would move the cursor, change colours, reverse the direction of text or make a terminal answer. Bold,
# which our own lines use for found words, passes: it can do no harm.
_CONTROL = "(?!\x1b\\[[01]m)[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]"


def has_styles(stream: TextIO) -> bool:
    """Whether bold, colours and lines that change may be written: on a terminal, unless NO_COLOR or TERM=dumb."""
    import os

    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def print_json(document: Any) -> None:
    """Prints a document for scripts."""
    import json

    line(json.dumps(document, ensure_ascii=False, indent=2))


def line(text: str) -> None:
    """Prints a line for people; characters that the terminal cannot show become escapes."""
    encoding = sys.stdout.encoding or "utf-8"
    print(visible(text).encode(encoding, "backslashreplace").decode(encoding))


def problem(text: object) -> None:
    """Prints a problem on standard error, made visible because it may quote text that others wrote."""
    print(f"hermes: {visible(str(text))}", file=sys.stderr)


def failure(error: Exception, code: int, *, as_json: bool) -> None:
    """Prints on standard error why a command failed: a line for people, one line of JSON for scripts."""
    if not as_json:
        problem(error)
        return
    import json

    print(json.dumps({"error": str(error), "kind": type(error).__name__, "exit_code": code}), file=sys.stderr)


def visible(text: str) -> str:
    """Replaces control characters by JSON's escapes, so that the text cannot act on the terminal."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text  # nearly always, and then a short command does not load `re`
    import re

    return re.sub(_CONTROL, lambda found: f"\\u{ord(found[0]):04x}", text.replace("\r\n", "\n"))


def show(given: Given, document: Any, *lines: str) -> None:
    """Prints the document with `--json`, otherwise the lines."""
    if given.json:
        print_json(document)
    else:
        for text in lines:
            line(text)


@contextmanager
def needing(extra: str) -> Iterator[None]:
    """Turns a failed import inside the block into an error that says how to install the extra."""
    try:
        yield
    except ImportError as error:
        raise ExtraMissing(f"{error.name} is not installed; {command(extra)} brings it") from error


def pick(thing: object, *names: str) -> dict[str, Any]:
    """These attributes as a dictionary, for JSON."""
    return {name: getattr(thing, name) for name in names}


def when(moment: float) -> str:
    """Writes a moment in local time: `2026-03-07 14:00:00`."""
    return in_words(moment, "%Y-%m-%d %H:%M:%S")


def tell_damaged(count: int) -> int:
    """Reports damaged messages that an export left out; returns its exit code."""
    if not count:
        return OK
    problem(f"{count:,} damaged messages were left out; `hermes sessions repair` checks the database")
    return REFUSED


def bytes_in_words(count: int) -> str:
    """Writes a size for people: `1.5 MB`."""
    for size, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count} bytes"


def moment_option(read: Callable[[str, float], float], text: str | None) -> float | None:
    """Reads an option such as `--since`, relative to now; None when it was not given."""
    return None if text is None else read(text, time.time())


def cut(text: str, longest: int) -> str:
    """The text in one line of at most `longest` characters."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def indented(text: str, prefix: str) -> str:
    """The text with `prefix` before its first line and the following lines aligned with it."""
    return prefix + text.replace("\n", "\n" + " " * len(prefix))


_BETWEEN_UPDATES = 0.1  # seconds
_WIDTH = 24  # characters of the bar


class Progress:
    """Shows the progress of long work in one line on standard error; silent unless that is a terminal.

    `total` is 0 when the end is not known; then only the count is shown.
    """

    def __init__(self, label: str = "", total: int = 0, *, unit: str = "", stream: TextIO | None = None) -> None:
        self._label, self._total, self._unit = label, total, unit
        self._stream = stream or sys.stderr
        self._watched = self._stream.isatty()
        self._next = 0.0
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def update(self, done: int) -> None:
        """Shows how much is done, at most ten times a second; call it as often as is convenient."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _BETWEEN_UPDATES
        text = f"{done:,}{self._unit}"
        if self._total:
            share = min(1.0, done / self._total)
            text = f"[{'#' * round(share * _WIDTH):.<{_WIDTH}}] {share:4.0%}"
        self._write(f"{self._label} {text}")

    def stage(self, what: str, done: int, total: int) -> None:
        """Shows a stage of the work by name, with its own count."""
        amount = f" {done:,} of {total:,}" if total else f" {done:,}" if done else ""
        self._write(f"{what}{amount}")

    def close(self) -> None:
        """Clears the line, so that the next output starts on a clean one."""
        if self._shown:
            self._write("")
        self._shown = False

    def _write(self, text: str) -> None:
        if self._watched:
            self._shown = True
            # To the beginning of the line, and erase it.
            print(f"\r\x1b[K{text}", end="", file=self._stream, flush=True)


_LOOK_EVERY = 0.1  # seconds


def read_line(prompt: str) -> str:
    """Reads a line that a person types; Ctrl-C interrupts it at any moment.

    `input` misses a Ctrl-C between showing its prompt and waiting for a key.
    """
    import select

    print(prompt, end="", flush=True)
    while not select.select([sys.stdin], [], [], _LOOK_EVERY)[0]:
        continue  # Python raises a pending KeyboardInterrupt here
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


def confirmed(question: str) -> bool:
    """Whether a person at a terminal says yes; without a terminal, the answer is no."""
    return sys.stdin.isatty() and said_yes(question)


def confirm(given: Given, question: str, otherwise: str) -> None:
    """Asks before something that cannot be undone, unless `--yes` was given; raises `otherwise` without a yes."""
    if not given.yes and not confirmed(question):
        raise NotConfirmed(otherwise)


def said_yes(question: str) -> bool:
    """Asks a question that a plain Enter answers with no."""
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:  # Ctrl-D
        line("")
        return False


def ask(question: str, suggested: str = "") -> str:
    """Asks for a text; Enter takes the suggested one."""
    said = input(f"{question}{f' [{suggested}]' if suggested else ''}: ").strip()
    return said or suggested


def ask_secret(question: str, *, kept: bool) -> str:
    """Asks for a secret without showing what is typed; Enter gives "", which means keep the current one."""
    from getpass import getpass

    return getpass(f"{question} (not shown{'; Enter keeps the current one' if kept else ''}): ").strip()


def edited(text: str) -> str:
    """Opens a text in the person's editor ($VISUAL, else $EDITOR) and returns what they saved."""
    import os
    import shlex
    import subprocess
    import tempfile

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise SettingsError("no editor is set; export EDITOR=…, or give the text with --text")
    with tempfile.NamedTemporaryFile("w+", suffix=".md", encoding="utf-8") as file:  # only its owner can read it
        file.write(text)
        file.flush()
        done = subprocess.run([*shlex.split(editor), file.name], check=False)
        if done.returncode:
            raise NotConfirmed(f"{editor} exited with code {done.returncode}; nothing was changed")
        with open(file.name, encoding="utf-8") as saved:  # editors replace the file
            return saved.read().removesuffix("\n")


def choose(question: str, rows: Sequence[str], suggested: int = 0) -> int:
    """Asks a person to choose a row by its number or text; returns its index."""
    for number, row in enumerate(rows, start=1):
        line(f"  {number}  {row}")
    while True:
        said = ask(question, str(suggested + 1))
        if said.isdecimal() and 1 <= int(said) <= len(rows):
            return int(said) - 1
        if said in rows:
            return list(rows).index(said)
        line(f"a number from 1 to {len(rows)}, please")
