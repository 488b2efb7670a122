"""Takes rights away that others should not have."""

from __future__ import annotations

import os
import stat

from hermes.storage.files import explain


def keep_private(path: str) -> bool:
    """Takes group and others' rights away from a file or folder of ours; True when there were any."""
    try:
        mode = stat.S_IMODE(os.lstat(path).st_mode)
        if not mode & 0o077:
            return False
        os.chmod(path, mode & 0o700)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise explain("make private", path, error) from error
    return True


def readable_by_others(folder: str) -> list[str]:
    """The folder and everything below it that is not for its owner alone; links are left out."""
    paths = [folder]
    for place, folders, files in os.walk(folder):
        paths += [os.path.join(place, name) for name in (*folders, *files)]
    return [path for path in paths if _is_open(path)]


def _is_open(path: str) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:  # such as the log of a database that was just closed
        return False
    return not stat.S_ISLNK(mode) and bool(mode & 0o077)
