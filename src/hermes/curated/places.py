"""Where the memory files really are, and which links may lead there."""

from __future__ import annotations

import os

from hermes.vocabulary.errors import UnsafePath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hermes.settings.home import Home

FOLDER = "memories"
FILES = {"memory": "MEMORY.md", "user": "USER.md", "project": "MEMORY.md"}
PROJECTS = "projects"


def memory_path(home: Home, target: str, linked_folders: Sequence[str] = (), project: str = "") -> str:
    """The real path of a memory file, so that everybody who shares it takes the same lock.

    A link is followed inside the home (and, for a profile, inside the home above it), to the same file of another
    home's `memories` folder, and into the folders a person named in the settings. Anywhere else it could bring a
    private key into the prompt, or memory into a file that is none.
    """
    path = home.join(PROJECTS, project, FILES[target]) if target == "project" else home.join(FOLDER, FILES[target])
    outside = () if home.above else linked_folders
    real = _real_path_within(path, [home.path, home.root, *map(_absolute, outside)])
    if real is not None:
        return real
    real = os.path.realpath(path)
    if home.above:  # a person's memory is in their own home and nowhere else
        raise UnsafePath(f"{path} leads out of the home of {home.person}, to {real}; put a real file there")
    if os.path.basename(real) == FILES[target] and os.path.basename(os.path.dirname(real)) == FOLDER:
        return real
    raise UnsafePath(
        f"{path} leads out of the home, to {real}; put a real file there, or allow the link with "
        f"`hermes config set memory.linked_folders {os.path.dirname(real)}`"
    )


def pending_path(home: Home) -> str:
    """The real path of the folder with the staged writes."""
    path = home.join("pending", "memory")
    real = _real_path_within(path, [home.path, home.root])
    if real is None:
        raise UnsafePath(f"{path} leads out of the home, to {os.path.realpath(path)}; put a real folder there")
    return real


def _real_path_within(path: str, roots: Iterable[str]) -> str | None:
    """Where `path` really leads, or None when that is outside all of `roots`."""
    real = os.path.realpath(path)
    inside = any(real == root or real.startswith(root.rstrip(os.sep) + os.sep) for root in roots)
    return real if inside else None


def _absolute(folder: str) -> str:
    return os.path.realpath(os.path.expanduser(folder))
