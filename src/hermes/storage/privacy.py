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
