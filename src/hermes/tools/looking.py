"""The `search_files` tool: lists the files that fit a pattern, or finds lines of their text."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any

from hermes.tools.ground import SECRET_FOLDERS, SECRET_NAMES
from hermes.tools.processes import run_bounded
from hermes.tools.registry import failure
from hermes.tools.search_worker import fits, walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes.tools.ground import Ground
    from hermes.tools.limits import Limits

_MOST_FILES, _MOST_MATCHES = 500, 50
_MOST_WALKED = 200_000
_SEARCH_SECONDS = 20
_LONGEST_LINE = 500


def _text(description: str = "") -> dict[str, Any]:
    return {"type": "string"} | ({"description": description} if description else {})


class SearchFiles:
    works_in_folders = True
    brings = "file"  # names are text, too
    schema: dict[str, Any] = {  # noqa: RUF012 - a constant of the class
        "name": "search_files",
        "description": (
            "Find lines in text files by a Python regular expression; without pattern list the files. Version control,"
            " caches and installed packages are left out."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "pattern": _text(),
                "path": _text("default ."),
                "files": _text("such as *.py or docs/**/*.md"),
                "depth": {"type": "integer", "description": "1: the folder itself"},
                "ignore_case": {"type": "boolean"},
                "limit": {"type": "integer"},
            },
        },
    }

    def __init__(self, ground: Ground, limits: Limits, cancelled: Callable[[], bool]) -> None:
        self._ground = ground
        self._limits = limits
        self._cancelled = cancelled

    def call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if not arguments.get("pattern"):
            return self._list(arguments)
        pattern, note = arguments["pattern"], ""
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            pattern, note = re.escape(pattern), f"searched as plain text: not a regular expression ({error})"
        root = self._ground.to_read(arguments.get("path", "."))
        if not os.path.exists(root):
            return failure(f"there is no {self._ground.shown(root)}")
        most = min(max(arguments.get("limit", _MOST_MATCHES), 1), _MOST_FILES)
        result = self._search(root, pattern, arguments, most)
        return {"note": note, **result} if note else result

    def _list(self, arguments: dict[str, Any]) -> dict[str, Any]:
        root = self._ground.to_read(arguments.get("path", "."))
        if not os.path.isdir(root):
            return failure(f"there is no folder {self._ground.shown(root)}")
        most = min(max(arguments.get("limit", _MOST_FILES), 1), _MOST_FILES)
        pattern, depth = arguments.get("files", ""), arguments.get("depth", 0)
        if depth == 1:
            try:
                names = sorted(os.listdir(root))
            except OSError as error:
                return failure(f"{self._ground.shown(root)} cannot be listed: {error.strerror}")
            found = [f"{name}/" if os.path.isdir(os.path.join(root, name)) else name for name in names]
            found, cut = [name for name in found if fits(os.path.join(root, name.rstrip("/")), root, pattern)], False
        else:
            found, cut = self._below(root, pattern, depth)
        result: dict[str, Any] = {"success": True, "path": self._ground.shown(root), "files": found[:most]}
        return result | ({"truncated": True} if cut or len(found) > most else {}) | {"count": len(found)}

    @staticmethod
    def _below(root: str, pattern: str, depth: int) -> tuple[list[str], bool]:
        """The files that fit, and whether there are more than anybody should wait for."""
        found: list[str] = []
        for number, path in enumerate(walk(root)):
            if number >= _MOST_WALKED:
                return found, True
            relative = os.path.relpath(path, root)
            if (not depth or relative.count(os.sep) < depth) and fits(path, root, pattern):
                found.append(relative)
        return found, False

    def _search(self, root: str, pattern: str, arguments: dict[str, Any], most: int) -> dict[str, Any]:
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
            folder=self._ground.folder,
            environment={"PATH": os.defpath, "PYTHONIOENCODING": "utf-8"},
            seconds=_SEARCH_SECONDS,
            most_bytes=10_000_000,
            cancelled=self._cancelled,
            given=json.dumps(asked).encode(),
        )
        lines = [json.loads(line) for line in ran.output.splitlines() if line.startswith("{") and line.endswith("}")]
        matches = [{**match, "path": self._ground.shown(match["path"])} for match in lines[:most]]
        result: dict[str, Any] = {"success": True, "matches": matches, "count": len(matches)}
        if len(lines) > most:
            result["truncated"] = True
        if ran.ended != "exited":
            result["note"] = f"the search was stopped ({ran.ended}); narrow it with path, files or a simpler pattern"
        return result
