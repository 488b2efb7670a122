"""What brv keeps beside its notes: the history of each project, with what it was told and asked, in a place of its own.

brv has no command that removes it.
"""

from __future__ import annotations

import os
import shutil
import sys

from hermes.providers.config import read_elsewhere
from hermes.storage.files import explain

_KNOWN = "registry.json"  # the file that says which project has its history where
_PROJECTS = "projects"


def remove_history(folder: str) -> str:
    """Removes the history of the project in a folder; where it was, empty when there was none."""
    place = data_folder()
    projects = read_elsewhere(os.path.join(place, _KNOWN)).get("projects")
    known = projects.get(os.path.realpath(folder)) if isinstance(projects, dict) else None
    history = str(known.get("storagePath") or "") if isinstance(known, dict) else ""
    # Whatever the registry says, only a folder that is brv's own is removed.
    if os.path.dirname(os.path.normpath(history)) != os.path.join(place, _PROJECTS) or not os.path.isdir(history):
        return ""
    try:
        shutil.rmtree(history)
    except OSError as error:
        raise explain("remove", history, error) from error
    return history


def data_folder() -> str:
    """Where brv keeps its data, by the rules of brv."""
    if given := os.environ.get("BRV_DATA_DIR"):
        return os.path.normpath(given)
    match sys.platform:
        case "win32":
            place = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
        case "darwin":
            place = "~/Library/Application Support"
        case _:
            place = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return os.path.join(os.path.expanduser(place), "brv")
