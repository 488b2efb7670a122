"""What a skill, a category and a file inside a skill may be called, on every file system the files may be copied to."""

from __future__ import annotations

import re

from hermes.vocabulary.errors import WriteRefused

LONGEST_NAME = 64
LONGEST_PATH = 240
LONGEST_PART = 100
FOLDERS = ("references", "templates", "scripts", "assets")
MAIN_FILE = "SKILL.md"

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*", re.ASCII)
_DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))})
_FORBIDDEN = frozenset('\\:*?"<>|')


def check_name(name: str, field: str = "name") -> str:
    """`name` itself if it may be a directory name, else WriteRefused; `field` is what the model called it."""
    if len(name) > LONGEST_NAME:
        problem = f"has {len(name)} characters; at most {LONGEST_NAME} are allowed"
    elif _NAME.fullmatch(name) is None:
        problem = "may hold only a-z, 0-9, dot, underscore and hyphen, and begins with a letter or digit"
    elif ".." in name or name.endswith("."):
        problem = "must not hold two dots in a row or end with a dot"
    elif _is_device(name):
        problem = "is a device name on Windows; choose another"
    else:
        return name
    raise WriteRefused(f"{field} {_shown(name)} {problem}", kind="bad_name")


def check_file_path(path: str) -> tuple[str, ...]:
    """The parts of a path inside a skill: one of the four folders, then at least a file name."""
    parts = tuple(path.split("/"))
    problem = ""
    if len(path) > LONGEST_PATH:
        problem = f"has {len(path)} characters; at most {LONGEST_PATH} are allowed"
    elif not path.isprintable() or _FORBIDDEN & set(path):
        problem = "holds a character that cannot be part of a path; separate folders with /"
    elif any(part in ("", ".", "..") for part in parts):
        problem = "must be relative to the skill, without empty parts, . or .."
    elif parts[0] not in FOLDERS or len(parts) == 1:
        problem = f"must name a file inside one of these folders: {', '.join(FOLDERS)}"
    elif any(len(part.encode()) > LONGEST_PART or part[-1] in ". " or part[0] == " " for part in parts):
        problem = f"has a part that is too long (over {LONGEST_PART} bytes), or begins or ends with a blank or dot"
    elif any(_is_device(part.lower()) for part in parts):
        problem = "holds a device name of Windows; choose another"
    if problem:
        raise WriteRefused(f"file_path {_shown(path)} {problem}", kind="bad_path")
    return parts


def _is_device(name: str) -> bool:
    return name.split(".", 1)[0].rstrip() in _DEVICES


def _shown(text: str) -> str:
    return repr(text if len(text) <= LONGEST_NAME else text[:LONGEST_NAME] + "…")
