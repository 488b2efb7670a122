"""Whether a process still runs, as far as anybody may ask."""

from __future__ import annotations

import os


def is_running(process: int) -> bool:
    """False only when there is certainly no such process on this machine."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # somebody else's, which we may not signal; or no process number at all
        return True
    return True
