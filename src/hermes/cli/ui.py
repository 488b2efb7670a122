"""What every command gets, and how it prints, asks and shows progress: text for people, JSON for scripts."""

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


OK, REFUSED, USAGE = 0, 1, 2
Given = argparse.Namespace  # the options of a command, as they were given


class Context:
    """What every command gets: where home is and what its settings say, found out when first asked."""

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
        if self._settings is None:
            from hermes.settings.config import load_settings

            self._settings = load_settings(self.home)
        return self._settings

    def run(self, words: list[str]) -> int:
        """Another command on the same home, as the chat runs them."""
        return self._run(words, self)


def _person_home(home: Home, name: str) -> Home:
    from hermes.base.errors import NotFound
    from hermes.settings.home import person_home

    try:
        return person_home(home, name)
    except NotFound:
        from hermes.settings.people import People

        return People(home).home_of(name)  # perhaps another server of the same database added them


# How commands print: plain lines for people, one JSON document for scripts.

# What would move the cursor, change colours or answer questions when it reaches a terminal. Bold, which our own lines
# use for found words, is let through: it can do no harm.
_CONTROL = "(?!\x1b\\[[01]m)[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]"


def has_styles(stream: TextIO) -> bool:
    """Whether bold, colours and lines that change may be written: on a terminal, unless NO_COLOR or TERM=dumb."""
    import os

    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def print_json(document: Any) -> None:
    import json

    line(json.dumps(document, ensure_ascii=False, indent=2))


def line(text: str) -> None:
    """Prints whatever the terminal can show; a character it cannot show becomes an escape, never an error."""
    encoding = sys.stdout.encoding or "utf-8"
    print(visible(text).encode(encoding, "backslashreplace").decode(encoding))


def problem(text: object) -> None:
    """A line on standard error, which may name files and quote texts that others wrote."""
    print(f"hermes: {visible(str(text))}", file=sys.stderr)


def failure(error: Exception, code: int, *, as_json: bool) -> None:
    """Why a command failed, on standard error: a line for people, a JSON object in one line for scripts."""
    if not as_json:
        problem(error)
        return
    import json

    print(json.dumps({"error": str(error), "kind": type(error).__name__, "exit_code": code}), file=sys.stderr)


def visible(text: str) -> str:
    """The text with control characters as escapes, those of JSON, so that it cannot act on the terminal."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text  # nearly always, and then a short command need not compile the expression
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
    """What is imported inside belongs to an extra; without it, the error says how to get it."""
    try:
        yield
    except ImportError as error:
        raise ExtraMissing(f"{error.name} is not installed; {command(extra)} brings it") from error


def pick(thing: object, *names: str) -> dict[str, Any]:
    """These attributes as a dictionary, for JSON."""
    return {name: getattr(thing, name) for name in names}


def when(moment: float) -> str:
    return in_words(moment, "%Y-%m-%d %H:%M:%S")


def tell_damaged(count: int) -> int:
    """The exit code of an export, after saying what could not be part of it."""
    if not count:
        return OK
    problem(f"{count:,} damaged messages were left out; `hermes sessions repair` checks the database")
    return REFUSED


def bytes_in_words(count: int) -> str:
    for size, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count} bytes"


def moment_option(read: Callable[[str, float], float], text: str | None) -> float | None:
    return None if text is None else read(text, time.time())


def cut(text: str, longest: int) -> str:
    """The text in one line of at most `longest` characters."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def indented(text: str, prefix: str) -> str:
    """The text with `prefix` before its first line and the following lines aligned with it."""
    return prefix + text.replace("\n", "\n" + " " * len(prefix))


_BETWEEN_UPDATES = 0.1
_WIDTH = 24


class Progress:
    """A line on standard error that shows the progress of long work; silent unless that is a terminal.

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
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _BETWEEN_UPDATES
        text = f"{done:,}{self._unit}"
        if self._total:
            share = min(1.0, done / self._total)
            text = f"[{'#' * round(share * _WIDTH):.<{_WIDTH}}] {share:4.0%}"
        self._write(f"{self._label} {text}")

    def stage(self, what: str, done: int, total: int) -> None:
        """For work in several stages, each with a name and a count of its own."""
        amount = f" {done:,} of {total:,}" if total else f" {done:,}" if done else ""
        self._write(f"{what}{amount}")

    def close(self) -> None:
        """Clears the line, so that what follows starts on a clean one."""
        if self._shown:
            self._write("")
        self._shown = False

    def _write(self, text: str) -> None:
        if self._watched:
            self._shown = True
            print(f"\r\x1b[K{text}", end="", file=self._stream, flush=True)


_LOOK_EVERY = 0.1  # seconds


def read_line(prompt: str) -> str:
    """A line that a person types; Ctrl-C ends it whenever it is pressed.

    `input` misses one that comes when the prompt stands there and it does not yet wait for a key.
    """
    import select

    print(prompt, end="", flush=True)
    while not select.select([sys.stdin], [], [], _LOOK_EVERY)[0]:
        continue  # what was pressed meanwhile is noticed here
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


def confirmed(question: str) -> bool:
    """Whether a person at a terminal says yes; without a terminal, the answer is no."""
    return sys.stdin.isatty() and said_yes(question)


def confirm(given: Given, question: str, otherwise: str) -> None:
    """Asks before something that cannot be undone, unless `--yes` was given; `otherwise` is the refusal."""
    if not given.yes and not confirmed(question):
        raise NotConfirmed(otherwise)


def said_yes(question: str) -> bool:
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:  # Ctrl-D
        line("")
        return False


def ask(question: str, suggested: str = "") -> str:
    said = input(f"{question}{f' [{suggested}]' if suggested else ''}: ").strip()
    return said or suggested


def ask_secret(question: str, *, kept: bool) -> str:
    """What is typed is not shown; Enter keeps what there is."""
    from getpass import getpass

    return getpass(f"{question} (not shown{'; Enter keeps the current one' if kept else ''}): ").strip()


def edited(text: str) -> str:
    """The text as the person leaves it in their editor ($VISUAL, else $EDITOR)."""
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
    """The place of the chosen row."""
    for number, row in enumerate(rows, start=1):
        line(f"  {number}  {row}")
    while True:
        said = ask(question, str(suggested + 1))
        if said.isdecimal() and 1 <= int(said) <= len(rows):
            return int(said) - 1
        if said in rows:
            return list(rows).index(said)
        line(f"a number from 1 to {len(rows)}, please")
