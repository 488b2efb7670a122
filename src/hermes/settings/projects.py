"""Which project a piece of work belongs to: a repository, recognised by where it is, or a name a person gives."""

from __future__ import annotations

import os

from hermes.settings.home import check_name
from hermes.vocabulary.errors import HermesError, NotFound

_DIGITS = 8  # of the digest of a path
_SHOWN = 40  # characters of a repository's name
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")


def project_of(folder: str) -> str:
    """The project of the repository around a folder, such as `webshop-1f3a9c02`; "" outside of any.

    The digest of the path tells two repositories of one name apart.
    """
    root = _repository(os.path.realpath(os.path.expanduser(folder)))
    if not root:
        return ""
    import hashlib

    name = "".join(letter if letter in _PLAIN else "-" for letter in os.path.basename(root).lower())
    digest = hashlib.sha256(os.fsencode(root)).hexdigest()[:_DIGITS]
    return f"{name[:_SHOWN].strip('-_') or 'project'}-{digest}"


def named_project(words: str, cwd: str | None = None) -> str:
    """What a person means by `--project`: a name, or a path (`.` for here) inside a repository."""
    if words in (".", "..") or os.sep in words or words.startswith("~"):
        folder = os.path.join(cwd or os.getcwd(), os.path.expanduser(words))
        found = project_of(folder)
        if not found:
            raise NotFound(
                f"{os.path.realpath(folder)} is in no repository; name the project instead, or run `git init`"
            )
        return found
    check_name(words, "a project's name")
    return words


def namesakes(folder: str, project: str) -> list[str]:
    """The other projects of this name that `folder` holds: a repository that was moved is another one from then on."""
    try:
        there = sorted(os.listdir(folder))
    except OSError:
        return []
    name = _without_digest(project)
    return [each for each in there if each != project and _without_digest(each) == name]


def _without_digest(project: str) -> str:
    name, _, digest = project.rpartition("-")
    return name if name and len(digest) == _DIGITS and not set(digest) - set("0123456789abcdef") else project


def recorded_project(words: str | None) -> str:
    """The project of a stored session; what another program called one, a folder that is not here, is none of ours."""
    try:
        return named_project(words) if words else ""
    except HermesError:
        return ""


def _repository(folder: str) -> str:
    while True:
        if os.path.lexists(os.path.join(folder, ".git")):  # a folder, or the file of a worktree
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return ""
        folder = parent
