"""Two things about open descriptors that Python has no call for."""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_RENAME_EXCHANGE = 2
_renameat2: list[tuple[Callable[[int, tuple[object, ...]], int] | None, int]] = []  # looked up once


def leads_to(descriptor: int, device: int, inode: int) -> bool | None:
    """Whether it is open, and still the same file or folder; None when that cannot be found out."""
    try:
        status = os.fstat(descriptor)
    except OSError as error:
        return False if error.errno == errno.EBADF else None
    return (status.st_dev, status.st_ino) == (device, inode)


def exchange(folder: int, one: str, other: str) -> bool:
    """Swaps two names in an open folder; False when that did not work, as where the system has no such thing."""
    if not _renameat2:
        _renameat2.append(_find_renameat2())
    call, rename = _renameat2[0]
    if call is None:
        return False
    return bool(call(rename, (folder, os.fsencode(one), folder, os.fsencode(other), _RENAME_EXCHANGE)) == 0)


def _find_renameat2() -> tuple[Callable[[int, tuple[object, ...]], int] | None, int]:
    """How to call it and where it is; os has none, and all of ctypes would cost six times as much as its C half."""
    try:
        import _ctypes

        return _ctypes.call_function, _ctypes.dlsym(_ctypes.dlopen(None, 0), "renameat2")  # type: ignore[arg-type] # None: this process
    except (ImportError, OSError, AttributeError):
        return None, 0
