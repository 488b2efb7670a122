"""Decides which paths file tools may use, and how much of a result a model sees."""

from __future__ import annotations

import fnmatch
import os
from typing import TYPE_CHECKING, Self

from hermes.base.errors import WriteRefused
from hermes.base.values import value
from hermes.safety.trust import TABLES
from hermes.storage.files import is_inside

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Ask = Callable[[str], bool]
    from hermes.settings.config import Settings
    from hermes.settings.trust import TrustedFolders

SECRET_NAMES, SECRET_FOLDERS = TABLES["secret files"], TABLES["secret folders"]
_LONGEST_PATH = 1_000  # characters; no real path is that long, and systems refuse much longer ones


class AllowedPaths:
    """Resolves the paths of tool calls; asks the person, or refuses, where they have not agreed.

    `outside` (ask, allow or deny) applies to paths that are neither in the working folder nor in `allowed`. Tools never
    write in `home`, the program's own folder, and never read its keys.
    """

    def __init__(
        self,
        folder: str,
        *,
        home: str,
        allowed: Sequence[str] = (),
        outside: str = "ask",
        ask: Ask | None = None,
        trusted: TrustedFolders | None = None,
    ) -> None:
        self.folder = os.path.realpath(folder)
        self._trusted = trusted
        self._home = os.path.realpath(home)
        self._allowed = [os.path.realpath(os.path.expanduser(each)) for each in allowed]
        self._outside = outside
        self._ask = ask
        self._agreed: set[tuple[str, str]] = set()

    def to_read(self, path: str) -> str:
        """Resolves a path that may be read; asks the person, or refuses, where they have not agreed."""
        real = self.real(path)
        # The variables or memory of a process, ours included, hold keys.
        of_a_process = real.startswith("/proc/") and os.path.basename(real) in ("environ", "mem", "auxv")
        if (is_inside(real, self._home) and is_secret(real)) or of_a_process:
            raise _refused(f"{path} holds the keys of this program; no tool may read it")
        self._check_place("read", real)
        if is_secret(real):
            self._consent("read", real, f"Read {real}, which may hold keys or passwords?")
        return real

    def to_write(self, path: str) -> str:
        """Resolves a path that may be written; asks the person, or refuses, where they have not agreed."""
        real = self.real(path)
        if is_inside(real, self._home):
            raise _refused(
                f"{path} belongs to this program; use the memory and skill tools, or ask the user to change settings"
            )
        self._check_place("write", real)
        parts = real.lower().split(os.sep)
        later = parts[-1] in TABLES["run later"] or any(part in TABLES["run later folders"] for part in parts[:-1])
        if is_secret(real) or later:  # a change would act later, without another tool call
            self._consent("write", real, f"Write {real}, which holds secrets or runs by itself later?")
        return real

    def origin(self, path: str) -> str:
        """The origin of a file's text: "" when the person trusts its folder, else "file"."""
        return "" if self._trusted is not None and self._trusted.is_trusted(self.real(path)) else "file"

    def holds_outside(self, folder: str) -> bool:
        """Whether a file below this folder was written while text from outside was in front of a model."""
        return self._trusted is None or self._trusted.holds_outside(folder)

    def wrote(self, real: str, *, from_outside: bool) -> None:
        """Notes that a file was written: it counts as outside if outside text was in the context, else no longer."""
        if self._trusted is not None:
            self._trusted.mark([real], outside=from_outside)

    def changed_by(self, command: str, folder: str) -> None:
        """Marks files that a command may have filled with outside text: those named in it or in its addresses."""
        if self._trusted is not None:
            named = (word.strip("'\"();|&<>") for word in command.replace("=", " ").split())
            places = [
                os.path.join(folder, os.path.expanduser(name.rpartition("/")[2] if "://" in name else name))
                for name in named
                if name
            ]
            places += [
                os.path.join(at, os.path.basename(each)) for at in places if os.path.isdir(at) for each in places
            ]
            self._trusted.mark([each for each in places if os.path.isfile(each)], outside=True)

    def shown(self, real: str) -> str:
        """A path as the model should see it: relative inside the working folder, absolute elsewhere."""
        return os.path.relpath(real, self.folder) if is_inside(real, self.folder) else real

    def real(self, path: str) -> str:
        """Resolves a path with all links, without any check of whether it may be used."""
        if len(path) > _LONGEST_PATH:
            raise _refused(f"{path[:80]!r}… is longer than any path may be")
        try:
            return os.path.realpath(os.path.join(self.folder, os.path.expanduser(path)))
        except (OSError, ValueError) as error:
            raise _refused(f"{path!r} is not a usable path: {error}") from error

    def _check_place(self, verb: str, real: str) -> None:
        """Checks that a path is in an allowed folder; the question is about its folder, not about each file."""
        if self._outside == "allow" or any(is_inside(real, place) for place in (self.folder, *self._allowed)):
            return
        if self._outside == "deny":
            raise _refused(f"{real} is outside the working folder {self.folder}, and files.outside is deny")
        place = real if os.path.isdir(real) else os.path.dirname(real)
        self._consent(verb, place, f"Let the agent {verb} files in {place}, outside the working folder?")

    def _consent(self, verb: str, what: str, question: str) -> None:
        """Asks the person once about each thing; a yes holds for the session, a no only for this call."""
        if (verb, what) in self._agreed:
            return
        if self._ask is None:
            raise _refused(f"{what}: a person would have to agree, and nobody can be asked here")
        if not self._ask(question):
            raise _refused(f"the user said no: {question}")
        self._agreed.add((verb, what))


def is_secret(path: str) -> bool:
    """Whether a file holds keys or passwords, judging by its name and folders."""
    parts = path.lower().split(os.sep)  # some file systems ignore case
    if parts[-1] in TABLES["harmless templates"]:
        return False
    return any(fnmatch.fnmatchcase(parts[-1], each) for each in SECRET_NAMES) or any(
        part in SECRET_FOLDERS for part in parts
    )


def _refused(message: str) -> WriteRefused:
    return WriteRefused(message, kind="path")


_HEAD = 0.4  # the end of an output usually says how it went, so it gets more room


@value
class Limits:
    """How much of a file or of a command's output a tool result may hold."""

    max_bytes: int = 50_000
    max_lines: int = 2_000
    max_line_length: int = 2_000
    file_read_max_chars: int = 100_000

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Reads the limits from the settings."""
        return cls(
            max_bytes=settings.integer("tool_output.max_bytes"),
            max_lines=settings.integer("tool_output.max_lines"),
            max_line_length=settings.integer("tool_output.max_line_length"),
            file_read_max_chars=settings.integer("file_read_max_chars"),
        )

    def line(self, text: str) -> str:
        """Cuts a line that is too long, and says how much is missing."""
        more = len(text) - self.max_line_length
        return f"{text[: self.max_line_length]}… [{more:,} more characters]" if more > 0 else text

    def output(self, text: str, lost: int = 0) -> str:
        """Cuts a text to all limits; a long one keeps its beginning and its end, with a mark between them.

        `lost` is the number of bytes already missing from its middle; the marks include them.
        """
        lines = [self.line(line) for line in text.split("\n")]
        if len(lines) > self.max_lines:
            head = int(self.max_lines * _HEAD)
            tail = self.max_lines - head
            count = f"{'more than ' if lost else ''}{len(lines) - head - tail:,}"
            lines = [*lines[:head], f"[… {count} lines left out …]", *lines[-tail:]]
        return self._within_bytes("\n".join(lines), lost)

    def _within_bytes(self, text: str, lost: int) -> str:
        data = text.encode("utf-8", "replace")
        if len(data) <= self.max_bytes:
            return text
        head = int(self.max_bytes * _HEAD)
        tail = self.max_bytes - head
        first, last = data[:head].decode("utf-8", "ignore"), data[-tail:].decode("utf-8", "ignore")
        return f"{first}\n[… {lost + len(data) - head - tail:,} bytes left out …]\n{last}"
