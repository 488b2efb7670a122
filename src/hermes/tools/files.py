"""The file tools: read, write, patch a passage, list by pattern, search text."""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
import sys
from itertools import islice
from typing import TYPE_CHECKING, Any

from hermes.base.errors import WriteRefused
from hermes.safety.trust import NO_TURN, is_loaded
from hermes.storage.files import read_foreign
from hermes.tools.paths import SECRET_FOLDERS, SECRET_NAMES
from hermes.tools.registry import SCHEMAS, failure
from hermes.tools.search_worker import fits, walk
from hermes.tools.terminal import run_bounded

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes.safety.trust import TurnContext
    from hermes.tools.paths import AllowedPaths, Limits

LARGEST = 20_000_000  # bytes of a file that is read or changed as a whole
_MOST_PLACES = 10  # line numbers in the error for a passage that occurs more than once


class ReadFile:
    """The tool `read_file`: shows a text file with line numbers."""

    works_in_folders = True
    sink = ""
    schema = SCHEMAS["read_file"]

    def __init__(self, paths: AllowedPaths, limits: Limits) -> None:
        self._paths = paths
        self._limits = limits

    def call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Returns numbered lines of a text file from `offset` on, within the limits for tool results."""
        real = self._paths.to_read(arguments["path"])
        shown = self._paths.shown(real)
        if not os.path.lexists(real):
            return failure(f"there is no file {shown}{_similar(real)}")
        found = read_foreign(real, whole=LARGEST)
        if found.text is None:
            return failure(f"{shown} cannot be read: {found.note}")
        lines = found.text.split("\n")
        if lines[-1] == "":
            lines.pop()  # the newline at the end of the file does not begin another line
        first = max(arguments.get("offset", 1), 1)
        wanted = min(max(arguments.get("limit", self._limits.max_lines), 1), self._limits.max_lines)
        content, following = self._numbered(lines, first, wanted)
        result: dict[str, Any] = {"success": True, "path": shown, "total_lines": len(lines), "content": content}
        if following <= len(lines):
            result |= {"truncated": True, "next_offset": following}
        return result | ({"note": found.note} if found.note else {})

    def origin_of(self, arguments: dict[str, Any], result: dict[str, Any], _turn: object) -> str:
        """From a file if the person does not trust its folder; our own error messages have no origin."""
        shows_others = result["success"] or "; similar: " in result["error"]  # file names are text, too
        return self._paths.origin(arguments["path"]) if shows_others else ""

    def _numbered(self, lines: list[str], first: int, wanted: int) -> tuple[str, int]:
        """Numbered lines, as many as fit, and the number of the first line that is not shown."""
        shown: list[str] = []
        room = self._limits.file_read_max_chars
        for number, line in enumerate(lines[first - 1 : first - 1 + wanted], start=first):
            text = f"{number}\t{self._limits.line(line)}"
            room -= len(text) + 1
            if room < 0 and shown:
                break
            shown.append(text)
        return "\n".join(shown), first + len(shown)


class WriteFile:
    """The tool `write_file`: creates or replaces a whole text file."""

    works_in_folders = True
    in_turn = True
    brings = ""
    sink = "file"
    schema = SCHEMAS["write_file"]

    def __init__(self, paths: AllowedPaths) -> None:
        self._paths = paths

    def effect(self, arguments: dict[str, Any]) -> dict[str, Any] | None:
        """Only a file that agents or programs load by themselves is gated: its text acts later without being asked."""
        if not _is_loaded(self._paths, arguments["path"]):
            return None
        lost = read_foreign(self._paths.real(arguments["path"]), whole=LARGEST).text
        return {"writes": [arguments["content"]], "removes": [lost] if lost else []}

    def call(self, arguments: dict[str, Any], turn: TurnContext = NO_TURN) -> dict[str, Any]:
        """Writes a whole file, and marks it when text from outside was in the context."""
        real = self._paths.to_write(arguments["path"])
        existed = os.path.lexists(real)
        data = _encoded(arguments["content"])
        _replace(real, data)
        self._paths.wrote(real, from_outside=_comes_from_outside(turn))
        what = "replaced" if existed else "written"
        return {"success": True, "path": self._paths.shown(real), "bytes": len(data), "message": what}


class Patch(WriteFile):
    """The tool `patch`: replaces one passage of a text file."""

    schema = SCHEMAS["patch"]

    def effect(self, arguments: dict[str, Any]) -> dict[str, Any] | None:
        """As for `write_file`: gated when agents or programs load the file by themselves."""
        loaded = _is_loaded(self._paths, arguments["path"])
        return {"writes": [arguments["new_text"]], "removes": [arguments["old_text"]]} if loaded else None

    def call(self, arguments: dict[str, Any], turn: TurnContext = NO_TURN) -> dict[str, Any]:
        """Replaces a passage that occurs exactly once, or with `replace_all` everywhere.

        A patch never clears the mark of outside text, because it leaves the rest of the file as it was.
        """
        real = self._paths.to_write(arguments["path"])
        shown = self._paths.shown(real)
        text = _read_exactly(real, shown)
        # Models write plain line ends, so a file with CRLF is shown and patched with those, and keeps its own on disk.
        crlf = "\r\n" in text and "\n" not in text.replace("\r\n", "")
        plain = text.replace("\r\n", "\n") if crlf else text
        old, new = arguments["old_text"], arguments["new_text"]
        places = plain.count(old) if old else 0
        if not places:
            return failure(f"old_text is not in {shown}; read the file and copy the passage exactly")
        if places > 1 and not arguments.get("replace_all", False):
            starts = islice(re.finditer(re.escape(old), plain), _MOST_PLACES)
            where = ", ".join(str(plain.count("\n", 0, found.start()) + 1) for found in starts)
            return failure(f"old_text occurs {places} times in {shown} (lines {where}); include more around it")
        changed = plain.replace(old, new)
        _replace(real, _encoded(changed.replace("\n", "\r\n") if crlf else changed))
        if _comes_from_outside(turn):
            self._paths.wrote(real, from_outside=True)
        line = plain.count("\n", 0, plain.index(old)) + 1
        return {"success": True, "path": shown, "replaced": places, "first_line": line}


def _comes_from_outside(turn: TurnContext) -> bool:
    """Whether text from outside may have caused the call; an approved one counts as the person's own."""
    return not turn.approved and bool(turn.sources())


def _is_loaded(paths: AllowedPaths, path: str) -> bool:
    """Whether agents or programs load this file by themselves, under its own name or that of a link to it."""
    real = paths.real(path)
    named = os.path.normpath(os.path.join(paths.folder, os.path.expanduser(path)))
    if any(is_loaded(paths.shown(each), paths.folder) for each in (named, real)):
        return True
    for folder in {paths.folder, os.path.dirname(real)}:
        try:
            names = [name for name in os.listdir(folder) if is_loaded(os.path.join(folder, name))]
            if any(os.path.samefile(os.path.join(folder, name), real) for name in names):
                return True
        except OSError:
            continue  # the folder or the file may not exist yet
    return False


def _similar(real: str) -> str:
    """A hint with similar names in the same folder, for a file that does not exist."""
    import difflib

    try:
        names = os.listdir(os.path.dirname(real))[:5_000]
    except OSError:
        return ", nor its folder"
    close = difflib.get_close_matches(os.path.basename(real), names, n=3, cutoff=0.6)
    return f"; similar: {', '.join(close)}" if close else ""


def _read_exactly(real: str, shown: str) -> str:
    """Reads a text with its line ends as they are, because a patch must not change any other line."""
    try:
        if not stat.S_ISREG(os.stat(real).st_mode):
            raise WriteRefused(f"{shown} is not a file", kind="path")
        if os.path.getsize(real) > LARGEST:
            raise WriteRefused(f"{shown} is larger than {LARGEST:,} bytes; use another program", kind="path")
        with open(real, encoding="utf-8", newline="") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise WriteRefused(f"{shown} is not UTF-8 text and cannot be patched: {error}", kind="path") from error
    except OSError as error:
        raise _unusable(shown, error) from error


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise WriteRefused(f"the text has half a character at {error.start}: write it again", kind="text") from error


def _replace(real: str, data: bytes) -> None:
    """Writes a temporary file and renames it, so that a reader sees the old text or the new; keeps the file's mode."""
    folder = os.path.dirname(real)
    temporary = os.path.join(folder, f".{os.path.basename(real)[:100]}.{secrets.token_hex(4)}")
    try:
        os.makedirs(folder, exist_ok=True)
        mode = _mode(real)
        # 0o666 less the umask: a file of the project is as private as those its owner makes.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            with open(descriptor, "wb") as file:
                if mode is not None:
                    os.fchmod(descriptor, mode)
                file.write(data)
                file.flush()
                os.fsync(descriptor)
            os.replace(temporary, real)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise _unusable(real, error) from error


def _mode(real: str) -> int | None:
    try:
        status = os.lstat(real)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise WriteRefused(f"{real} is not a file", kind="path")
    return stat.S_IMODE(status.st_mode)


def _unusable(path: str, error: OSError) -> WriteRefused:
    return WriteRefused(f"{path}: {error.strerror or error}", kind="path")


# The `search_files` tool: lists the files that fit a pattern, or finds lines of their text.

_MOST_FILES, _MOST_MATCHES = 500, 50  # in one result; a match shows a line, a file only its name
_MOST_WALKED = 200_000  # files below a folder before the walk is cut short
_SEARCH_SECONDS = 20
_LONGEST_LINE = 500  # characters of a line that matches
_WORDS = 5  # of a file name; a longer one may be a sentence meant for the model that reads the list


class SearchFiles:
    """The tool `search_files`: finds lines or files; the pattern runs in a process of its own that can be killed."""

    works_in_folders = True
    sink = ""
    schema = SCHEMAS["search_files"]

    def __init__(self, paths: AllowedPaths, limits: Limits, cancelled: Callable[[], bool]) -> None:
        self._paths = paths
        self._limits = limits
        self._cancelled = cancelled

    def call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Finds lines that match a pattern; without a pattern, lists the files."""
        if not arguments.get("pattern"):
            return self._list(arguments)
        pattern, note = arguments["pattern"], ""
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            pattern, note = re.escape(pattern), f"searched as plain text: not a regular expression ({error})"
        root = self._paths.to_read(arguments.get("path", "."))
        if not os.path.exists(root):
            return failure(f"there is no {self._paths.shown(root)}")
        most = min(max(arguments.get("limit", _MOST_MATCHES), 1), _MOST_FILES)
        result = self._search(root, pattern, arguments, most)
        return {"note": note, **result} if note else result

    def origin_of(self, arguments: dict[str, Any], result: dict[str, Any], _turn: object) -> str:
        """Lines have the grade of their files; a list of names is our own, unless a name reads like a sentence."""
        place = self._paths.real(arguments.get("path", "."))
        found = {self._paths.real(match["path"]) for match in result.get("matches", ())}
        named = [
            name
            for name in result.get("files", ())
            if len(re.findall(r"[^\W\d_]{2,}", os.path.basename(name))) > _WORDS
        ]
        return next(
            (origin for each in (*found, *([place] if named else [])) if (origin := self._paths.origin(each))), ""
        )

    def _list(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Lists files below a folder; with depth 1 also the folders in it, including those a search skips."""
        root = self._paths.to_read(arguments.get("path", "."))
        if not os.path.isdir(root):
            return failure(f"there is no folder {self._paths.shown(root)}")
        most = min(max(arguments.get("limit", _MOST_FILES), 1), _MOST_FILES)
        pattern, depth = arguments.get("files", ""), arguments.get("depth", 0)
        if depth == 1:
            try:
                names = sorted(os.listdir(root))
            except OSError as error:
                return failure(f"{self._paths.shown(root)} cannot be listed: {error.strerror}")
            found = [f"{name}/" if os.path.isdir(os.path.join(root, name)) else name for name in names]
            found, cut = [name for name in found if fits(os.path.join(root, name.rstrip("/")), root, pattern)], False
        else:
            found, cut = self._below(root, pattern, depth)
        result: dict[str, Any] = {"success": True, "path": self._paths.shown(root), "files": found[:most]}
        return result | ({"truncated": True} if cut or len(found) > most else {}) | {"count": len(found)}

    @staticmethod
    def _below(root: str, pattern: str, depth: int) -> tuple[list[str], bool]:
        """The files that fit the pattern, and whether the walk was cut short because there are too many."""
        found: list[str] = []
        for number, path in enumerate(walk(root)):
            if number >= _MOST_WALKED:
                return found, True
            relative = os.path.relpath(path, root)
            if (not depth or relative.count(os.sep) < depth) and fits(path, root, pattern):
                found.append(relative)
        return found, False

    def _search(self, root: str, pattern: str, arguments: dict[str, Any], most: int) -> dict[str, Any]:
        """Runs the search in a process of its own with a time limit; see `search_worker`."""
        asked = {
            "root": root,
            "pattern": pattern,
            "glob": arguments.get("files", ""),
            "passed_over": SECRET_NAMES,
            "closed": SECRET_FOLDERS,
            "ignore_case": arguments.get("ignore_case", False),
            "most": most,
            "longest": min(_LONGEST_LINE, self._limits.max_line_length),
        }
        worker = os.path.join(os.path.dirname(__file__), "search_worker.py")
        ran = run_bounded(
            [sys.executable, "-I", "-S", worker],
            folder=self._paths.folder,
            environment={"PATH": os.defpath, "PYTHONIOENCODING": "utf-8"},
            seconds=_SEARCH_SECONDS,
            most_bytes=10_000_000,
            cancelled=self._cancelled,
            given=json.dumps(asked).encode(),
        )
        # Other lines are error output, or were cut off when the worker was stopped.
        lines = [json.loads(line) for line in ran.output.splitlines() if line.startswith("{") and line.endswith("}")]
        matches = [{**match, "path": self._paths.shown(match["path"])} for match in lines[:most]]
        result: dict[str, Any] = {"success": True, "matches": matches, "count": len(matches)}
        if len(lines) > most:
            result["truncated"] = True
        if ran.ended != "exited":
            result["note"] = f"the search was stopped ({ran.ended}); narrow it with path, files or a simpler pattern"
        return result
