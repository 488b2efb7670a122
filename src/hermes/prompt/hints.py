"""Notes for agents that lie in the directories a tool touches; they go to the tool's result, not into the prompt.

The prompt holds the notes of the working directory and never changes. A large project keeps more of them further down:
the first time a tool works in such a directory, its notes are appended to what the tool returned.
"""

from __future__ import annotations

import os
import shlex

from hermes.prompt.context_files import load_file
from hermes.storage.foreign_text import is_inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from hermes.prompt.context_files import ContextFile
    from hermes.vocabulary.verdicts import Scan

LIMIT = 8_000  # characters of one file
MOST_FILES = 3  # appended to one result; the rest come with the next one
MOST_ANCESTORS = 5
FILES = ("AGENTS.md", "agents.md", "CLAUDE.md", "claude.md", ".cursorrules")
PATH_ARGUMENTS = ("path", "file_path", "workdir", "directory", "cwd")
COMMAND_ARGUMENTS = ("command", "cmd")


class SubdirectoryHints:
    """Remembers which directories were shown already; one per session."""

    def __init__(self, cwd: str, scan: Scan, *, limit: int = LIMIT, tell: Callable[[str], None] | None = None) -> None:
        """`tell` is called with what the person should know of notes that are not shown."""
        self._cwd = os.path.realpath(cwd)
        self._tell = tell
        self._scan = scan
        self._limit = limit
        self._shown = {self._cwd}

    def for_call(self, arguments: Mapping[str, object]) -> str:
        """What to append to the result of a tool called with `arguments`; "" when there is nothing new."""
        return self.for_paths(paths_in(arguments))

    def for_paths(self, paths: Iterable[str]) -> str:
        found: list[ContextFile] = []
        for directory in self._new_directories(paths):
            if len(found) == MOST_FILES:
                break
            self._shown.add(directory)
            if notes := self._notes_in(directory):
                found.append(notes)
                if self._tell is not None and (notice := notes.notice(notes.name)):
                    self._tell(notice)
        return "".join(f"\n\n[Notes for agents, from {notes.name}]\n{notes.text}" for notes in found)

    def _new_directories(self, paths: Iterable[str]) -> Iterator[str]:
        for path in paths:
            try:
                directory = os.path.realpath(os.path.join(self._cwd, os.path.expanduser(path)))
            except (OSError, ValueError):
                continue
            if not os.path.isdir(directory):
                directory = os.path.dirname(directory)
            for _ in range(1 + MOST_ANCESTORS):
                if not is_inside(directory, self._cwd) or directory == self._cwd:
                    break
                if directory not in self._shown and os.path.isdir(directory):
                    yield directory
                directory = os.path.dirname(directory)

    def _notes_in(self, directory: str) -> ContextFile | None:
        for name in FILES:
            path = os.path.join(directory, name)
            notes = load_file(path, self._scan, shown_from=self._cwd, inside=self._cwd, limit=self._limit)
            if notes is not None:
                return notes
        return None


def paths_in(arguments: Mapping[str, object]) -> Iterator[str]:
    """The paths a tool call names: its path arguments, and the words of a command that look like one."""
    for name in PATH_ARGUMENTS:
        argument = arguments.get(name)
        if isinstance(argument, str) and argument:
            yield argument
    for name in COMMAND_ARGUMENTS:
        command = arguments.get(name)
        if isinstance(command, str):
            yield from (word for word in _words(command) if "/" in word or os.sep in word)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command[:10_000])
    except ValueError:  # an unbalanced quote; the shell will complain about it, not we
        return [word.strip("'\"") for word in command[:10_000].split()]
