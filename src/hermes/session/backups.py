"""Backups the curator makes before it changes anything: one archive of memory and skills each, the newest few kept."""

from __future__ import annotations

import io
import os
import tarfile
import time

from hermes.storage.files import Folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hermes.settings.home import Home

FOLDER = os.path.join("backups", "curator")
_PARTS = ("memories", "skills")


def make(home: Home, *, keep: int) -> str:
    """Writes a backup, private and durable, and returns its path; older ones beyond `keep` go."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for part in _PARTS:
            if os.path.isdir(home.join(part)):
                archive.add(home.join(part), arcname=part, filter=_plain)
    with Folder.create(home.join(FOLDER)) as folder:
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        taken = set(folder.names())
        number = next(n for n in range(1, 10_000) if f"{stamp}-{n:04}.tar.gz" not in taken)
        name = f"{stamp}-{number:04}.tar.gz"
        folder.replace(name, packed.getvalue())
        kept = sorted(each for each in folder.names() if each.endswith(".tar.gz"))
        for old in kept[:-keep]:
            folder.discard(old)
        return folder.join(name)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Files and folders only: a link could lead out of the home."""
    return member if member.isfile() or member.isdir() else None
